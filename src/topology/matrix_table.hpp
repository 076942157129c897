// The cells of `nvidia-smi topo -m`: lines, columns and values, before they become a machine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

struct MatrixCell {
  PathClass path = PathClass::kSys;
  int nvlinks = 0;
  bool operator==(const MatrixCell&) const = default;
};

struct MatrixRow {
  bool present = false;
  std::vector<std::optional<MatrixCell>> cells;  // by column; a row that was cut has less at its end
  std::string cpus, numa;                        // as written; empty where blank
};

struct MatrixTable {
  std::vector<std::string> names;  // of the columns: GPU0, NIC0, mlx5_0
  std::vector<MatrixRow> rows;     // by column
  std::map<std::string, std::string> legend;
  std::vector<std::string> cut_rows;  // names of rows that end early
};

/// Without the escapes that underline the header.
std::string without_escapes(std::string_view text);
/// GPU0 and at least one more column name: the header; names that lost the space between them come apart.
std::optional<std::vector<std::string>> header_names(std::string_view line);
Result<MatrixTable> read_table(std::string_view text, const std::string& source);

}  // namespace twohop::topology
