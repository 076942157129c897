// See host_topology.hpp. The text of the machine travels as a memfd, over the sockets that hand over windows later.
#include "collectives/exec/host_topology.hpp"

#include <cstring>
#include <string>

#include "base/log.hpp"
#include "collectives/exec/job_topology.hpp"
#include "device/shared_memory.hpp"
#include "topology/json.hpp"

namespace twohop {
namespace {

using Json = nlohmann::json;

struct HostRanks {
  int reader = -1;
  std::vector<LocalExchange::Candidate> unknowing;  // the reader left out
  std::string reader_exchange;
};

HostRanks ranks_of_host(int rank, const std::vector<Json>& all) {
  HostRanks host;
  const auto& mine = all[static_cast<size_t>(rank)];
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].at("machine") != mine.at("machine") || all[r].at("own file").get<bool>()) continue;
    const auto name = all[r].at("exchange").get<std::string>();
    if (host.reader < 0) {
      host.reader = static_cast<int>(r);
      host.reader_exchange = name;
    } else if (!all[r].at("knows").get<bool>()) {
      host.unknowing.push_back({static_cast<int>(r), name});
    }
  }
  return host;
}

/// A length, then the text: a segment is cut to whole pages.
Result<SharedMemory> segment_of(const std::string& text) {
  const uint64_t length = text.size();
  auto segment = SharedMemory::create(sizeof length + text.size());
  if (!segment) return segment;
  std::memcpy(segment->bytes().data(), &length, sizeof length);
  std::memcpy(segment->bytes().data() + sizeof length, text.data(), text.size());
  return segment;
}

Result<std::string> text_of(Fd fd) {
  auto segment = SharedMemory::map(std::move(fd), sizeof(uint64_t));
  if (!segment) return segment.error();
  uint64_t length = 0;
  std::memcpy(&length, segment->bytes().data(), sizeof length);
  if (length > segment->bytes().size() - sizeof length)
    return make_error(twohopInternalError, "it handed over {} bytes that say they are {}", segment->bytes().size(),
                      length);
  return std::string(reinterpret_cast<const char*>(segment->bytes().data()) + sizeof length, length);
}

Result<> hand_out(int rank, const HostRanks& host, const Options& options, LocalExchange& exchange,
                  const Secret& secret, Deadline deadline) {
  auto local = learn_topology(options);
  if (!local) return local.error();
  if (host.unknowing.empty()) return {};
  auto segment = segment_of(topology::write_json((*local)->machine));
  if (!segment) return segment.error();
  const int fd = segment->fd();
  auto given = exchange.exchange(rank, host.unknowing, {&fd, 1}, secret, deadline);
  return given ? Result<>() : given.error();
}

Result<> take(int rank, const HostRanks& host, LocalExchange& exchange, const Secret& secret, Deadline deadline) {
  auto nothing = segment_of("");  // a swap gives something for something
  if (!nothing) return nothing.error();
  const int fd = nothing->fd();
  const LocalExchange::Candidate reader{host.reader, host.reader_exchange};
  auto taken = exchange.exchange(rank, {&reader, 1}, {&fd, 1}, secret, deadline);
  if (!taken) return taken.error();
  LocalPeer& peer = taken->front();
  if (peer.fds.empty()) return make_error(twohopRemoteError, "{}", peer.failure);
  auto text = text_of(std::move(peer.fds[0]));
  if (!text) return text.error();
  auto machine = topology::read_json(*text, fmt::format("rank {}", host.reader));
  if (!machine) return machine.error();
  know_topology(std::move(*machine));
  return {};
}

Result<> share_checked(int rank, const std::vector<Json>& all, const Options& options, LocalExchange& exchange,
                       const Secret& secret, Deadline deadline) {
  const Json& mine = all[static_cast<size_t>(rank)];
  if (mine.at("own file").get<bool>()) return {};
  const HostRanks host = ranks_of_host(rank, all);
  if (host.reader == rank) return hand_out(rank, host, options, exchange, secret, deadline);
  if (mine.at("knows").get<bool>()) return {};
  return take(rank, host, exchange, secret, deadline);
}

}  // namespace

Json host_rank_message(const Options& options, const LocalExchange& exchange) {
  return {{"machine", host_identity("")},
          {"exchange", exchange.name()},
          {"own file", !options.topo_file.empty()},
          {"knows", knows_topology()}};
}

Result<> share_topology_of_host(int rank, const std::vector<Json>& all, const Options& options, LocalExchange& exchange,
                                const Secret& secret, Deadline deadline) {
  try {
    if (auto shared = share_checked(rank, all, options, exchange, secret, deadline); !shared)
      log_info("rank {} reads the machine itself: {}", rank, shared.error().message);
  } catch (const Json::exception& e) {
    return make_error(twohopInternalError, "a rank's message about its host lacks a field: {}", e.what());
  }
  return {};
}

}  // namespace twohop
