// What the ranks tell each other in the exchanges of the init: one JSON object each, {"ok": value} or {"code",
// "error"}. All of it comes from other processes, perhaps of another version; nothing of it may crash this one.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/handshake.hpp"
#include "base/result.hpp"

namespace twohop {

std::string write_init_message(const Result<nlohmann::json>& mine);
/// The values by rank, or the error of the first rank that has sent one.
Result<std::vector<nlohmann::json>> read_init_messages(std::span<const Bytes> by_rank);

/// The GPU of a rank, and where its endpoint for calls on GPU memory is.
struct GpuIntroduction {
  std::string identity;
  Bytes address;
};

/// Whether a rank's network reaches its GPU: by what, or why not.
struct GpuDirectAnswer {
  bool works = false;
  std::string text;
  bool operator==(const GpuDirectAnswer&) const = default;
};
nlohmann::json write_gpudirect(const GpuDirectAnswer& answer);
Result<GpuDirectAnswer> read_gpudirect(int rank, const nlohmann::json& message);

/// A message that is no more than a text.
Result<std::string> read_text(int rank, const nlohmann::json& message);
/// A message that is a number of things.
Result<uint32_t> read_count(int rank, const nlohmann::json& message);

/// What a rank says of itself before nodes are formed.
struct RankIntroduction {
  std::string host, machine, exchange;
  Bytes address;
  nlohmann::json settings;
  std::vector<int> rails = {};  // numbers of its own
  std::optional<GpuIntroduction> gpu = {};
};
nlohmann::json write_introduction(const RankIntroduction& introduction);
Result<RankIntroduction> read_introduction(int rank, const nlohmann::json& message);

/// An error that names the first setting in which rank `r` differs from rank 0.
Result<> compare_settings(int r, const nlohmann::json& first, const nlohmann::json& theirs);

}  // namespace twohop
