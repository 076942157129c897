// Some ranks as threads of this process, connected over loopback: what the tests of an endpoint need of a cluster.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/checked_endpoint.hpp"
#include "transport/endpoint.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::test {

inline Deadline in_seconds(double s) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int>(s * 1000));
}

/// Sets SOFTNIC to these words, in a domain of this process: others must not meet in it.
inline bool use_softnic(const std::string& words = "") {
  const std::string domain = "domain=unit-" + std::to_string(::getpid());
  return ::setenv("SOFTNIC", words.empty() ? domain.c_str() : (domain + "," + words).c_str(), 1) == 0;
}
inline const bool kOwnDomain = use_softnic();

/// One link of the cluster, and how large its inbox is.
struct LinkPlan {
  LinkId id;
  size_t inbox_bytes = 0;
};

/// The network under test. An RDMA device is set up by `tune`; what is not said is as by default.
struct Net {
  std::string name = "tcp";  // or "softnic"
  std::function<void(verbs::VerbsConfig&)> tune = nullptr;
  bool checked = false;  // as with TWOHOP_CHECK=1
};

inline void PrintTo(const Net& net, std::ostream* out) {
  *out << net.name;
}

inline Result<std::unique_ptr<Endpoint>> make_plain_endpoint(const Net& net, int rank, const Secret& secret) {
  if (net.name == "tcp") return make_tcp_endpoint(rank, "lo", secret);
  auto library = verbs::find_softnic();
  if (!library) return library.error();
  verbs::VerbsConfig config;
  config.name = net.name;
  config.library = *library;
  if (net.tune) net.tune(config);
  return verbs::make_verbs_endpoint(rank, "lo", secret, std::move(config));
}

inline Result<std::unique_ptr<Endpoint>> make_test_endpoint(const Net& net, int rank, const Secret& secret) {
  auto plain = make_plain_endpoint(net, rank, secret);
  if (!plain || !net.checked) return plain;
  return std::unique_ptr<Endpoint>(std::make_unique<CheckedEndpoint>(std::move(*plain)));
}

/// One rank's endpoint with the inboxes of its in links. Declared first, the memory outlives the endpoint.
struct Rank {
  static constexpr size_t kArenaBytes = 16 << 20;
  int rank = 0;
  std::vector<std::vector<std::byte>> inboxes;
  std::unique_ptr<std::byte[]> arena{new std::byte[kArenaBytes]};  // not touched until it is used
  size_t arena_used = 0;
  std::unique_ptr<Endpoint> endpoint;
  size_t outs = 0, ins = 0;

  /// Memory that puts may be sent from, zeroed.
  std::span<std::byte> source(size_t bytes) {
    std::span<std::byte> memory(arena.get() + arena_used, bytes);
    arena_used += (bytes + 127) / 128 * 128;
    EXPECT_LE(arena_used, kArenaBytes);
    std::fill(memory.begin(), memory.end(), std::byte{0});
    return memory;
  }

  /// The number of the out (in) link with this peer, channel and tag.
  size_t out_index(int dst, uint16_t channel = 0, uint16_t tag = 0) const {
    for (size_t i = 0; i < outs; ++i)
      if (endpoint->out(i).id == LinkId{channel, tag, rank, dst}) return i;
    ADD_FAILURE() << "no out link to " << dst;
    return 0;
  }
  size_t in_index(int src, uint16_t channel = 0, uint16_t tag = 0) const {
    for (size_t i = 0; i < ins; ++i)
      if (endpoint->in(i).id == LinkId{channel, tag, src, rank}) return i;
    ADD_FAILURE() << "no in link from " << src;
    return 0;
  }
};

/// Connects `r` with its share of the links.
inline Result<> connect_rank(Rank& r, const std::vector<LinkPlan>& links, std::span<const Bytes> addresses,
                             Deadline deadline) {
  std::vector<OutLink> out;
  std::vector<InLink> in;
  for (const LinkPlan& l : links)
    if (l.id.dst == r.rank) r.inboxes.emplace_back(l.inbox_bytes);
  size_t next_inbox = 0;
  for (const LinkPlan& l : links) {
    if (l.id.src == r.rank) out.push_back({.id = l.id, .inbox_bytes = l.inbox_bytes});
    if (l.id.dst == r.rank) in.push_back({.id = l.id, .inbox = r.inboxes[next_inbox++], .tags = {}});
  }
  if (auto registered = r.endpoint->register_memory({r.arena.get(), Rank::kArenaBytes}); !registered) return registered;
  r.outs = out.size();
  r.ins = in.size();
  return r.endpoint->connect(std::move(out), std::move(in), addresses, deadline);
}

/// Runs `body` as every rank in a thread of its own, connected; the bodies start when all are.
inline void run_cluster(const Net& net, int ranks, const std::vector<LinkPlan>& links,
                        const std::function<void(Rank&)>& body) {
  const Secret secret = random_secret();
  std::vector<Rank> cluster(ranks);
  std::vector<Bytes> addresses;
  for (int i = 0; i < ranks; ++i) {
    auto endpoint = make_test_endpoint(net, i, secret);
    ASSERT_TRUE(endpoint) << endpoint.error().message;
    cluster[i].rank = i;
    cluster[i].endpoint = std::move(*endpoint);
    addresses.push_back(cluster[i].endpoint->address());
  }
  std::latch connected(ranks);
  std::vector<std::thread> threads;
  for (Rank& r : cluster)
    threads.emplace_back([&] {
      auto result = connect_rank(r, links, addresses, in_seconds(20));
      EXPECT_TRUE(result) << result.error().message;
      connected.arrive_and_wait();
      if (result) body(r);
    });
  for (std::thread& t : threads) t.join();
}

inline void run_cluster(int ranks, const std::vector<LinkPlan>& links, const std::function<void(Rank&)>& body) {
  run_cluster(Net{}, ranks, links, body);
}

/// Polls, asleep while nothing happens, until `done`. False at the deadline or on an error (which fails the test).
inline bool poll_until(Endpoint& e, const std::function<bool()>& done, double seconds = 20) {
  const Deadline deadline = in_seconds(seconds);
  while (!done()) {
    auto r = e.poll();
    if (!r) {
      ADD_FAILURE() << r.error().message;
      return false;
    }
    if (*r) continue;
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "nothing happened until the deadline";
      return false;
    }
    std::vector<pollfd> fds;
    e.wait_for(fds);
    ::poll(fds.data(), fds.size(), 50);
  }
  return true;
}

/// The error that polling ends with; code twohopSuccess if it does not end with one before the deadline.
inline Error poll_until_error(Endpoint& e, double seconds = 20) {
  const Deadline deadline = in_seconds(seconds);
  while (std::chrono::steady_clock::now() < deadline) {
    auto r = e.poll();
    if (!r) return r.error();
    std::vector<pollfd> fds;
    e.wait_for(fds);
    if (!*r) ::poll(fds.data(), fds.size(), 50);
  }
  Error none;
  none.code = twohopSuccess;
  return none;
}

}  // namespace twohop::test
