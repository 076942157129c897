// What is kept of a path beside its queue pairs, so that a rail may die in the middle of a call; and how both ends go
// about it.
//
// A path's queue pairs keep their numbers, links and queues for good; what is beneath them, hardware queue pairs on a
// pair of rails, is replaced. The same happens when a rail dies and when it comes back.
//
//   kUp ------------ something failed here, or kDown came -------> kDraining   queue pairs in ERR, kDown sent
//   kDraining ------ all posted receives have completed ---------> kGone       queue pairs destroyed, kHeld sent
//   kGone ---------- kHeld has come too; lower rank chooses -----> kConnecting new queue pairs, kConnect sent
//   kGone ---------- kConnect has come; higher rank -------------> kConnecting new queue pairs, RTS, kAccept sent
//   kConnecting ---- lower: kAccept has come, RTS, kGo sent -----> kUp
//   kConnecting ---- higher: kGo has come -----------------------> kUp
//   kConnecting ---- higher: cannot; kRefuse sent; lower: kRefuse has come --> kGone, other rails are tried
//   kGone ---------- lower: no rail is left ---------------------> the end of both
//
// Whatever an endpoint dies of, here or elsewhere, it says so to all its peers (kEnd), and they die of it too: one that
// has nothing under way would notice nothing by itself.
//
// Every message names the path and its epoch, how often it has been connected; one of an earlier epoch is ignored. The
// socket keeps the order, so nothing arrives before what it rests on. The lower rank decides, so that ends never choose
// differently. kHeld says, for each link of the path, which parts of puts have arrived (all before `arrived`, and bits
// for those after it) and which credit.
//
// * Nothing is lost: a request counts as done when its completion was good or the receiver says that it holds the
//   part. All others are issued again. The source of a put stays untouched until it is `sent`, and that is counted so.
// * Nothing is doubled: the receiver's answer is made when its queue pairs are destroyed and its completion queue is
//   empty, so what it does not name cannot arrive any more, and what it names is not issued again.
// * Nothing is late: a part is issued again only when the old queue pairs of both ends are gone, so no old write lands
//   in memory that has been used again, and nothing reads a source that is free.
// * Credits are cumulative: those that were under way are dropped, and what the sender does not know is told anew.
//   Immediates that are dropped so are taken off the count that the goodbye carries.
// * Nobody waits for ever: who finds no rail left dies of the failure that it began with.
//
// A path that is not on the rails that it was made for is tried there again and again by a scratch queue pair and an
// empty write (kProbe); when that is answered, it is taken down and connected there in the same way.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/verbs/verbs_attributes.hpp"
#include "transport/verbs/verbs_objects.hpp"
#include "transport/verbs/verbs_rail_messages.hpp"

namespace twohop::verbs {

/// A queue pair that only finds out whether two rails reach each other. Destroyed before its queue.
struct Probe {
  std::shared_ptr<CompletionQueue> cq;
  QueuePair pair;
  ConnectionPlan plan;
  bool posted = false;
};

struct PathState {
  enum class Phase : uint8_t { kUp, kDraining, kGone, kConnecting };
  Phase phase = Phase::kUp;
  uint32_t epoch = 0;
  bool planned = false;  // taken down to go back to a better rail
  bool broke_while_connecting = false;
  uint64_t since_ns = 0;                         // the phase
  std::optional<Error> cause;                    // why it was taken down
  std::optional<HeldMessage> theirs;             // what the peer holds
  std::vector<std::pair<size_t, size_t>> tried;  // rails here and there that failed since one last worked
  std::shared_ptr<CompletionQueue> cq;           // its own; null: its rail's
  std::optional<Probe> probe;
  uint64_t probe_at_ns = 0, probe_pause_ns = 0, home_since_ns = 0;
};

/// A completion queue that is polled.
struct PolledQueue {
  std::shared_ptr<CompletionQueue> cq;
  size_t rail = 0;
  bool armed = false;
};

}  // namespace twohop::verbs
