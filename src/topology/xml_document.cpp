// Guards around pugixml. It expands no entities of a document's own and never opens files; what is added here are
// limits, and refusals that say what is wrong.
#include "topology/xml_document.hpp"

#include <algorithm>

#include "topology/text.hpp"

namespace twohop::topology {

Result<std::unique_ptr<XmlDocument>> XmlDocument::parse(std::string_view text, std::string source) {
  std::unique_ptr<XmlDocument> document(new XmlDocument(text, std::move(source)));
  if (auto ok = document->check_text(); !ok) return ok.error();
  if (auto ok = document->check_references(); !ok) return ok.error();
  const pugi::xml_parse_result parsed = document->tree_.load_buffer(
      document->text_.data(), document->text_.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
  if (!parsed)
    return make_error(twohopInvalidArgument, "{}:{}: not well-formed XML: {} (is the file cut?)", document->source_,
                      document->line_at(parsed.offset), parsed.description());
  if (auto ok = document->check_doctype(); !ok) return ok.error();
  if (auto ok = document->check_depth(); !ok) return ok.error();
  return document;
}

Result<void> XmlDocument::check_text() const {
  if (text_.size() > kMaxXmlBytes)
    return make_error(twohopInvalidArgument, "{}: {} bytes; topology files of up to {} bytes are read", source_,
                      text_.size(), kMaxXmlBytes);
  if (const size_t nul = text_.find('\0'); nul != std::string::npos)
    return make_error(twohopInvalidArgument, "{}:{}: a NUL byte; the file must be text in UTF-8", source_,
                      line_at(static_cast<ptrdiff_t>(nul)));
  const auto elements = static_cast<size_t>(std::count(text_.begin(), text_.end(), '<'));
  if (elements > 2 * kMaxXmlElements)
    return make_error(twohopInvalidArgument, "{}: {} tags; up to {} are read", source_, elements, 2 * kMaxXmlElements);
  return {};
}

/// "&#55296;" and its like would put bytes into names that are no characters.
Result<void> XmlDocument::check_references() const {
  for (size_t at = text_.find("&#"); at != std::string::npos; at = text_.find("&#", at + 2)) {
    const std::string_view digits = std::string_view(text_).substr(at + 2, 12);
    const std::string_view number = digits.substr(0, digits.find(';'));
    const bool is_hex = number.starts_with('x');
    const auto value = is_hex ? parse_hex(number.substr(1)).value_or(0)
                              : static_cast<uint64_t>(parse_int(number, 0, 0x10ffff).value_or(0));
    if (value == 0 || (value >= 0xd800 && value <= 0xdfff) || value > 0x10ffff)
      return make_error(twohopInvalidArgument, "{}:{}: \"&#{}\" is no character of XML", source_,
                        line_at(static_cast<ptrdiff_t>(at)), shown(number));
  }
  return {};
}

Result<void> XmlDocument::check_doctype() const {
  for (const pugi::xml_node node : tree_.children())
    if (node.type() == pugi::node_doctype && std::string_view(node.value()).find('[') != std::string_view::npos)
      return make_error(
          twohopInvalidArgument,
          "{}: the DOCTYPE declares entities or elements of its own, which is refused; remove the part in [ ]",
          where(node));
  return {};
}

Result<void> XmlDocument::check_depth() const {
  int depth = 0;
  for (pugi::xml_node node = tree_.first_child(); node;) {
    if (depth > kMaxXmlDepth)
      return make_error(twohopInvalidArgument, "{}: elements nested more than {} deep", where(node), kMaxXmlDepth);
    if (node.first_child()) {
      node = node.first_child();
      ++depth;
      continue;
    }
    while (node && !node.next_sibling()) {
      node = node.parent();
      --depth;
    }
    if (node) node = node.next_sibling();
  }
  return {};
}

size_t XmlDocument::line_at(ptrdiff_t offset) const {
  const auto end = text_.begin() + std::clamp<ptrdiff_t>(offset, 0, static_cast<ptrdiff_t>(text_.size()));
  return 1 + static_cast<size_t>(std::count(text_.begin(), end, '\n'));
}

std::string XmlDocument::where(pugi::xml_node node) const {
  return fmt::format("{}:{}", source_, line_at(node.offset_debug()));
}

}  // namespace twohop::topology
