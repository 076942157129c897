// `twohop doctor`: what about this host would make the library fail, or be slow? Findings, and the checks that make
// them.
//
// Files are read below a root, so that the tree of another host, or a made one, can be looked at; what can only be
// tried (sockets, memory, libraries) is tried on the live host alone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"

namespace twohop::cli {

enum class Level { kOk, kInfo, kWarning, kError };
const char* level_name(Level level);

struct Finding {
  Level level;
  std::string check;    // what was looked at: "memlock", "mlx5_0:1 gids"
  std::string found;    // what there is
  std::string meaning;  // what it does to a job; empty where all is well
  std::string next;     // what to do
};

class Doctor {
 public:
  Doctor(std::filesystem::path root, Environment environment)
      : root_(std::move(root)), live_(root_ == "/"), environment_(std::move(environment)) {}

  /// All checks, in the order in which one would ask.
  std::vector<Finding> examine();

 private:
  // doctor_devices.cpp
  void devices();
  void device(const std::string& name);
  void port(const std::filesystem::path& folder, const std::string& name);
  void link(const std::filesystem::path& folder, const std::string& name, bool infiniband);
  void gids(const std::filesystem::path& folder, const std::string& name);
  void interface_of(const std::string& interface, const std::string& name);
  void counters(const std::filesystem::path& folder, const std::string& name);
  // doctor_host.cpp
  void limits();
  void memory();
  void gpu_direct();
  void access_control();
  void packet_filter();
  // doctor_settings.cpp
  void variables();
  void interfaces();
  void rendezvous_port();
  void libraries();

  void add(Level level, std::string check, std::string found, std::string meaning = "", std::string next = "") {
    findings_.push_back({level, std::move(check), std::move(found), std::move(meaning), std::move(next)});
  }
  /// The first line of a file below the root; nothing where it cannot be read.
  std::optional<std::string> line_of(const std::filesystem::path& file) const;
  std::vector<std::string> names_in(const std::filesystem::path& folder) const;
  bool has_devices() const { return !names_in("sys/class/infiniband").empty(); }

  std::filesystem::path root_;
  bool live_;
  Environment environment_;
  std::vector<Finding> findings_;
};

}  // namespace twohop::cli
