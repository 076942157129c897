// Reading the inputs of the topology tests: our own fixtures, and the public files beside the checkout where they are
// there.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace twohop::topology {

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(TOPOLOGY_FIXTURES) / name;
}

/// Every file of a folder, in order; empty where the folder is absent.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

inline std::filesystem::path shared_topologies(const std::string& kind) {
  return std::filesystem::path(SHARED_TOPOLOGIES) / kind;
}

}  // namespace twohop::topology
