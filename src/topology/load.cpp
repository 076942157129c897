// Which reader is right for a file?
#include "topology/load.hpp"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "topology/device_info.hpp"
#include "topology/hwloc_xml.hpp"
#include "topology/json.hpp"
#include "topology/matrix.hpp"
#include "topology/nccl_xml.hpp"
#include "topology/text.hpp"
#include "topology/xml_document.hpp"

namespace twohop::topology {
namespace {

constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr const char* kAccepted =
    "accepted are NCCL topology XML (<system>), hwloc XML (<topology>), JSON written by twohop, and the texts of "
    "nvidia-smi topo "
    "-m, ibv_devinfo, ibstat, ibdev2netdev and show_gids";

Result<Machine> parse_xml(std::string_view text, const std::string& source) {
  auto document = XmlDocument::parse(text, source);
  if (!document) return document.error();
  const XmlDocument& xml = **document;
  const std::string_view root = xml.root().name();
  if (root == "system") return read_nccl_xml(xml);
  if (root == "topology") return read_hwloc_xml(xml);
  return make_error(twohopInvalidArgument, "{}: the root element is <{}>; {}", xml.where(xml.root()), shown(root),
                    kAccepted);
}

Result<Machine> parse_device_info(std::string_view text, const std::string& source) {
  auto ports = read_device_info(text, source);
  if (!ports) return ports.error();
  Machine machine;
  machine.kind = SourceKind::kDeviceInfo;
  machine.source = source;
  add_device_info(machine, *ports);
  return machine;
}

/// Reads through the descriptor and not by size: files of /proc and pipes have none. A directory or a device is an
/// error.
Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error(errno, "cannot open the topology file {}", path);
  std::string text;
  std::string block(1U << 16, '\0');
  errno = 0;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes)
      return make_error(twohopInvalidArgument, "{}: more than {} bytes; that is no topology file", path, kMaxFileBytes);
  }
  if (file.bad()) return system_error(errno == 0 ? EIO : errno, "cannot read the topology file {}", path);
  return text;
}

}  // namespace

Result<Machine> parse_machine(std::string_view bytes, const std::string& source) {
  // Names are compared, written and printed; what is no UTF-8 would be a different text each time.
  const std::string clean = as_utf8(bytes);
  std::string_view text = clean;
  if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
  const std::string_view content = trim(text);
  if (content.empty()) return make_error(twohopInvalidArgument, "{}: the file is empty; {}", source, kAccepted);
  // Lines are counted from the file's first, so the text goes in whole.
  if (content.front() == '<') return parse_xml(text, source);
  if (content.front() == '{' || content.front() == '[') return read_json(text, source);
  if (text.find('\0') != std::string_view::npos)
    return make_error(twohopInvalidArgument, "{}: binary, or text in UTF-16; {}", source, kAccepted);
  if (looks_like_matrix(text)) return read_matrix(text, source);
  if (looks_like_device_info(text)) return parse_device_info(text, source);
  return make_error(twohopInvalidArgument, "{}: not a topology: it begins with \"{}\"; {}", source,
                    shown(content.substr(0, content.find('\n'))), kAccepted);
}

Result<Machine> load_machine(const std::string& path) {
  auto text = read_file(path);
  if (!text) return text.error();
  return parse_machine(*text, path);
}

Result<void> dump_machine(const Machine& machine, const std::string& path) {
  std::string text;
  if (path.ends_with(".xml")) {
    auto xml = write_nccl_xml(machine);
    if (!xml) return xml.error();
    text = std::move(*xml);
  } else {
    text = write_json(machine);
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return system_error(errno, "cannot write the topology file {}", path);
  return {};
}

}  // namespace twohop::topology
