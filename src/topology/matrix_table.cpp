// Lines, columns and cells of `nvidia-smi topo -m`.
#include "topology/matrix_table.hpp"

#include <algorithm>
#include <array>

#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr size_t kMaxColumns = 1024;
constexpr int kMaxNvlinks = 1024;
constexpr std::array<std::string_view, 3> kTailColumns = {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"};
constexpr std::array<std::pair<std::string_view, PathClass>, 9> kCells = {{{"NODE", PathClass::kNode},
                                                                           {"PIX", PathClass::kPix},
                                                                           {"PXB", PathClass::kPxb},
                                                                           {"PHB", PathClass::kPhb},
                                                                           {"SYS", PathClass::kSys},
                                                                           {"SOC", PathClass::kSys},  // before 2017
                                                                           {"C2C", PathClass::kC2c},
                                                                           {"NVL", PathClass::kNvl},
                                                                           {"X", PathClass::kLoc}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool begins_name(std::string_view text) {
  for (const std::string_view prefix : {"GPU", "NIC", "mlx"})
    if (text.starts_with(prefix) && text.size() > prefix.size() && is_digit(text[prefix.size()])) return true;
  return false;
}

/// "NIC8NIC9" -> NIC8, NIC9
void split_names(std::string_view word, std::vector<std::string>& names) {
  size_t begin = 0;
  for (size_t i = 1; i < word.size(); ++i) {
    if (!begins_name(word.substr(i))) continue;
    names.emplace_back(word.substr(begin, i - begin));
    begin = i;
  }
  names.emplace_back(word.substr(begin));
}

/// The cell that a word begins with, and its length.
std::optional<std::pair<MatrixCell, size_t>> first_cell(std::string_view word) {
  for (const auto& [name, path] : kCells)
    if (word.starts_with(name)) return std::pair(MatrixCell{path, name == "NVL" ? 1 : 0}, name.size());
  if (!word.starts_with("NV")) return std::nullopt;
  size_t end = 2;
  while (end < word.size() && is_digit(word[end])) ++end;
  const auto links = parse_int(word.substr(2, end - 2), 1, kMaxNvlinks);
  if (!links) return std::nullopt;
  return std::pair(MatrixCell{PathClass::kNvl, static_cast<int>(*links)}, end);
}

/// "NODEPXB" -> two cells; nothing where the word is something else.
std::optional<std::vector<MatrixCell>> cells_of(std::string_view word) {
  std::vector<MatrixCell> cells;
  while (!word.empty()) {
    const auto found = first_cell(word);
    if (!found) return std::nullopt;
    cells.push_back(found->first);
    word.remove_prefix(found->second);
  }
  return cells;
}

struct Tail {
  std::string_view name;
  size_t column;  // where it begins in the header line
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : source_(source), lines_(lines_of(text)) {}

  Result<MatrixTable> parse() {
    if (auto ok = find_header(); !ok) return ok.error();
    for (size_t i = header_ + 1; i < lines_.size(); ++i) {
      const std::vector<std::string_view> words = words_of(lines_[i]);
      if (words.empty()) continue;
      if (words.size() == 2 && words[0].ends_with(':')) {
        table_.legend.emplace(words[0].substr(0, words[0].size() - 1), words[1]);
        continue;
      }
      const auto name = std::find(table_.names.begin(), table_.names.end(), words[0]);
      if (name == table_.names.end()) continue;  // the legend of path classes, prompts, prose
      if (auto ok = read_row(i, words, static_cast<size_t>(name - table_.names.begin())); !ok) return ok.error();
    }
    return std::move(table_);
  }

 private:
  template <class... Args>
  Error wrong(size_t line, fmt::format_string<Args...> f, Args&&... args) const {
    return make_error(twohopInvalidArgument, "{}:{}: {}", source_, line + 1,
                      fmt::format(f, std::forward<Args>(args)...));
  }

  Result<void> find_header() {
    for (header_ = 0; header_ < lines_.size(); ++header_)
      if (auto names = header_names(lines_[header_])) {
        table_.names = std::move(*names);
        break;
      }
    if (table_.names.empty())
      return make_error(twohopInvalidArgument,
                        "{}: no header line \"GPU0 GPU1 ... CPU Affinity\" of nvidia-smi topo -m", source_);
    if (table_.names.size() > kMaxColumns)
      return wrong(header_, "{} columns; up to {} are read", table_.names.size(), kMaxColumns);
    std::vector<std::string> sorted = table_.names;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      return wrong(header_, "the column {} occurs twice", shown(*twice));
    table_.rows.resize(table_.names.size());
    for (const std::string_view tail : kTailColumns)
      if (const size_t at = lines_[header_].find(tail); at != std::string_view::npos) tails_.push_back({tail, at});
    return {};
  }

  bool is_last(size_t line) const {
    return std::all_of(lines_.begin() + static_cast<ptrdiff_t>(line) + 1, lines_.end(),
                       [](std::string_view rest) { return trim(rest).empty(); });
  }

  Result<void> read_row(size_t line, const std::vector<std::string_view>& words, size_t index) {
    MatrixRow& row = table_.rows[index];
    const std::string name = table_.names[index];
    if (row.present) return wrong(line, "a second row {}", shown(name));
    row.present = true;
    size_t used = 1;
    for (; used < words.size() && row.cells.size() < table_.names.size(); ++used) {
      const auto cells = cells_of(words[used]);
      const bool cut_here = used + 1 == words.size() && is_last(line);
      if (!cells && cut_here) break;
      if (!cells)
        return wrong(line, "row {}, column {}: \"{}\"; accepted are X, NV#, C2C, PIX, PXB, PHB, NODE, SYS", shown(name),
                     shown(table_.names[row.cells.size()]), shown(words[used]));
      row.cells.insert(row.cells.end(), cells->begin(), cells->end());
    }
    if (row.cells.size() > table_.names.size())
      return wrong(line, "row {} has {} cells for {} columns", shown(name), row.cells.size(), table_.names.size());
    if (row.cells.size() < table_.names.size()) {
      if (!is_last(line))
        return wrong(line, "row {} has {} cells for {} columns; was a part of the line lost?", shown(name),
                     row.cells.size(), table_.names.size());
      // "NV1" may be what is left of "NV18".
      if (!row.cells.empty() && row.cells.back()->nvlinks > 0 && trim(lines_[line]).end() == lines_[line].end())
        row.cells.pop_back();
      table_.cut_rows.push_back(name);
      return {};
    }
    read_tail(lines_[line], words[used - 1], row);
    return check_diagonal(line, index);
  }

  Result<void> check_diagonal(size_t line, size_t index) const {
    const MatrixRow& row = table_.rows[index];
    for (size_t i = 0; i < row.cells.size(); ++i)
      if ((row.cells[i]->path == PathClass::kLoc) != (i == index))
        return wrong(line, "row {}: X must stand in column {} and nowhere else; the columns are out of step",
                     shown(table_.names[index]), shown(table_.names[index]));
    return {};
  }

  /// The values after the cells. Tables with tabs have a field each; in others, a value stands below its heading.
  void read_tail(std::string_view line, std::string_view last_cell, MatrixRow& row) const {
    const auto end = static_cast<size_t>(last_cell.data() - line.data()) + last_cell.size();
    const std::string_view rest = line.substr(end);
    std::vector<std::string> values(tails_.size());
    if (rest.find('\t') != std::string_view::npos) {
      const std::vector<std::string_view> fields = split(rest, '\t');
      for (size_t i = 0; i < values.size() && i + 1 < fields.size(); ++i) values[i] = trim(fields[i + 1]);
    } else {
      place_words(line, end, values);
    }
    for (size_t i = 0; i < tails_.size(); ++i) {
      if (tails_[i].name == kTailColumns[0]) row.cpus = values[i];
      if (tails_[i].name == kTailColumns[1]) row.numa = values[i];
    }
  }

  void place_words(std::string_view line, size_t end, std::vector<std::string>& values) const {
    const std::vector<std::string_view> words = words_of(line.substr(end));
    for (size_t w = 0; w < words.size() && !values.empty(); ++w) {
      size_t at = w;
      if (words.size() < values.size()) {
        const auto column = static_cast<size_t>(words[w].data() - line.data());
        at = 0;
        while (at + 1 < tails_.size() && tails_[at + 1].column <= column) ++at;
      }
      if (at < values.size()) values[at] = words[w];
    }
  }

  const std::string& source_;
  std::vector<std::string_view> lines_;
  size_t header_ = 0;
  std::vector<Tail> tails_;
  MatrixTable table_;
};

}  // namespace

std::string without_escapes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '[') ++i;
    while (i + 1 < text.size() && (is_digit(text[i + 1]) || text[i + 1] == ';')) ++i;
    if (i + 1 < text.size() && text[i + 1] != '\n') ++i;  // the letter that ends it
  }
  return out;
}

std::optional<std::vector<std::string>> header_names(std::string_view line) {
  for (const std::string_view tail : kTailColumns) line = line.substr(0, line.find(tail));
  std::vector<std::string> names;
  for (const std::string_view word : words_of(line)) split_names(word, names);
  const bool begins = !names.empty() && names[0].starts_with("GPU") && all_digits(std::string_view(names[0]).substr(3));
  // A row begins the same way, and goes on with cells.
  if (!begins ||
      std::any_of(names.begin() + 1, names.end(), [](const std::string& name) { return cells_of(name).has_value(); }))
    return std::nullopt;
  return names;
}

Result<MatrixTable> read_table(std::string_view text, const std::string& source) {
  return Parser(text, source).parse();
}

}  // namespace twohop::topology
