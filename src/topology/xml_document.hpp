// An XML document that is safe to walk: whatever was in the file, its size, depth and number of elements are bounded,
// no entity was expanded and nothing outside the file was read. Used by the readers of this folder only.
//
// Why pugixml for hwloc's files too, instead of libhwloc's own loader: that one prints to stderr, takes parts of its
// behaviour from the environment, checks little (an index or a set of a hostile file is trusted) and rebuilds CPU trees
// that nobody here needs; and one guarded parser is easier to keep safe than two.
#pragma once

#include <memory>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace twohop::topology {

constexpr size_t kMaxXmlBytes = 16U << 20;
constexpr size_t kMaxXmlElements = 400'000;
constexpr int kMaxXmlDepth = 128;

class XmlDocument {
 public:
  /// `source` is the file's name, for messages. The text is copied.
  static Result<std::unique_ptr<XmlDocument>> parse(std::string_view text, std::string source);

  pugi::xml_node root() const { return tree_.document_element(); }
  const std::string& source() const { return source_; }

  /// "FILE:LINE" of an element.
  std::string where(pugi::xml_node node) const;

 private:
  XmlDocument(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}
  Result<void> check_text() const;
  Result<void> check_references() const;
  Result<void> check_doctype() const;
  Result<void> check_depth() const;
  size_t line_at(ptrdiff_t offset) const;

  std::string text_, source_;
  pugi::xml_document tree_;
};

}  // namespace twohop::topology
