// What must hold for any bytes that are given as a topology file: no crash, and a machine that is accepted hangs
// together, comes back equal from JSON, and from NCCL XML as far as that holds it. Ends the process where something
// does not.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topology/compare.hpp"
#include "topology/fingerprint.hpp"
#include "topology/finish.hpp"
#include "topology/json.hpp"
#include "topology/load.hpp"
#include "topology/nccl_xml.hpp"

namespace twohop::topology {

[[noreturn]] inline void fail_check(std::string_view what, const std::string& why) {
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(what.size()), what.data(), why.c_str());
  std::abort();
}

inline void check_json(const Machine& machine) {
  const std::string text = write_json(machine);
  const auto again = read_json(text, "written");
  if (!again) fail_check("JSON that was written is refused", again.error().message);
  // Texts, since bytes that are no UTF-8 are replaced.
  if (write_json(*again) != text) fail_check("JSON comes back different", text);
}

inline void check_nccl_xml(const Machine& machine) {
  const auto text = write_nccl_xml(machine);
  if (!text) return;
  // JSON can say what no XML can: numbers beyond the limits of the XML reader. Others must be read again.
  const auto again = read_nccl_xml(*text, machine.source);
  if (!again && machine.kind != SourceKind::kLive)
    fail_check("NCCL XML that was written is refused", again.error().message + "\n" + *text);
  if (again && machine.kind == SourceKind::kNcclXml && fingerprint(*again).hash != fingerprint(machine).hash)
    fail_check("NCCL XML comes back different", *text);
}

inline void check_topology_text(std::string_view text) {
  const bool is_json = text.find('{') < text.find('<');
  auto machine = parse_machine(text, "input");
  if (!machine) {
    if (machine.error().message.find("input") == std::string::npos)
      fail_check("an error does not name the file", machine.error().message);
    return;
  }
  if (const auto ok = check_machine(*machine); !ok) fail_check("a machine does not hang together", ok.error().message);
  check_json(*machine);
  if (!is_json) check_nccl_xml(*machine);
  const Reconciled same = reconcile(*machine, *machine);
  if (const auto ok = check_machine(same.machine); !ok)
    fail_check("a reconciled machine does not hang together", ok.error().message);
}

}  // namespace twohop::topology
