// What happens beside the queue pairs: the peer's socket (goodbye, or its sudden end), asynchronous events of the
// devices, completion channels; and the orderly end.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
constexpr milliseconds kDrainSlice{50};

}  // namespace

void VerbsEndpoint::drain_channel(Rail& rail) {
  const VerbsApi& api = rail.context->api();
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (api.get_cq_event(rail.channel->get(), &cq, &context) == 0) {
    api.ack_cq_events(cq, 1);
    for (PolledQueue& queue : polled_)
      if (queue.cq->get() == cq) queue.armed = false;
  }
}

void VerbsEndpoint::read_async_events(Rail& rail) {
  pollfd p{rail.context->get()->async_fd, POLLIN, 0};
  const VerbsApi& api = rail.context->api();
  while (::poll(&p, 1, 0) == 1) {
    ibv_async_event event{};
    if (api.get_async_event(rail.context->get(), &event) != 0) return;
    const ibv_event_type type = event.event_type;
    api.ack_async_event(&event);
    if (type == IBV_EVENT_COMM_EST || type == IBV_EVENT_SQ_DRAINED || type == IBV_EVENT_QP_LAST_WQE_REACHED) continue;
    const bool of_port = type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR;
    if (of_port && event.element.port_num != rail.port) continue;
    // With another rail the loss of one is said when it is known what becomes of it.
    log(rails_.size() > 1 ? LogLevel::kInfo : LogLevel::kWarn, "rank {}: {} reports: {}", rank_, rail.name,
        api.event_type_str(type));
    rails_changed_ |= of_port || type == IBV_EVENT_DEVICE_FATAL;
    look_at_events_ |= rails_changed_;
    if (type == IBV_EVENT_PORT_ACTIVE) {
      rail.down = false;
      end_outage(rail);
      continue;
    }
    rail.down |= type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_DEVICE_FATAL;
    rail.last_event = api.event_type_str(type);
    rail.last_event_ns = now_ns();
  }
}

Result<bool> VerbsEndpoint::serve_events() {
  if (peers_.empty()) return false;
  if (auto r = watch_queues(); !r) return r.error();
  epoll_event events[16];
  const int n = ::epoll_wait(epoll_.get(), events, 16, 0);
  bool changed = false;
  for (int i = 0; i < n; ++i) {
    const int fd = events[i].data.fd;
    for (Rail& rail : rails_) {
      if (fd == rail.channel->get()->fd) drain_channel(rail);
      if (fd == rail.context->get()->async_fd) read_async_events(rail);
    }
    for (Peer& p : peers_) {
      if (fd != p.socket.get()) continue;
      auto r = serve_socket(p);
      if (!r) return r;
      changed |= *r;
    }
  }
  if (auto r = look_after_paths(); !r) return r.error();
  return changed | std::exchange(changed_outside_poll_, false);
}

/// Reads what there is. Its end without a goodbye means that the process ended.
Result<bool> VerbsEndpoint::serve_socket(Peer& p) {
  bool changed = false;
  std::byte found[4096];
  while (!p.closed) {
    const ssize_t n = ::recv(p.socket.get(), found, sizeof found, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      p.closed = true;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, p.socket.get(), nullptr);
      if (p.said_goodbye && !p.goodbye) p.left = true;  // it had ours, so it owes none
      if (!p.goodbye && !p.left) return closed_early(p);
      break;
    }
    p.input.insert(p.input.end(), found, found + n);
    auto r = take_messages(p);
    if (!r) return r;
    changed |= *r;
  }
  return changed;
}

/// All that are whole. Serving one may lead here again, so each is taken out first.
Result<bool> VerbsEndpoint::take_messages(Peer& p) {
  bool changed = false;
  ControlMessage m{};
  while (p.input.size() >= sizeof m) {
    std::memcpy(&m, p.input.data(), sizeof m);
    const uint32_t bytes = le32toh(m.payload_bytes);
    if (m.version != kWireVersion || bytes > kMaxPayloadBytes)
      return violation(p, fmt::format("control message {} of version {} with {} bytes", m.kind, m.version, bytes));
    if (p.input.size() < sizeof m + bytes) break;
    const auto begin = p.input.begin() + sizeof m, end = begin + bytes;
    const Payload payload(begin, end);
    p.input.erase(p.input.begin(), end);
    auto r = accept_control(p, static_cast<ControlKind>(m.kind), le64toh(m.immediates), payload);
    if (!r) return r;
    changed |= *r;
  }
  return changed;
}

Result<bool> VerbsEndpoint::accept_control(Peer& p, ControlKind kind, uint64_t immediates, const Payload& payload) {
  if (kind == ControlKind::kGoodbye && payload.empty()) return accept_goodbye(p, immediates);
  using Handler = Result<> (VerbsEndpoint::*)(Peer&, const Payload&);
  static constexpr std::pair<ControlKind, Handler> kHandlers[] = {
      {ControlKind::kDown, &VerbsEndpoint::accept_down},
      {ControlKind::kHeld, &VerbsEndpoint::accept_held},
      {ControlKind::kConnect, &VerbsEndpoint::accept_connect},
      {ControlKind::kAccept, &VerbsEndpoint::accept_accept},
      {ControlKind::kRefuse, &VerbsEndpoint::accept_refuse},
      {ControlKind::kGo, &VerbsEndpoint::accept_go},
      {ControlKind::kRails, &VerbsEndpoint::accept_rails},
      {ControlKind::kProbe, &VerbsEndpoint::accept_probe},
      {ControlKind::kProbeReply, &VerbsEndpoint::accept_probe_reply},
      {ControlKind::kEnd, &VerbsEndpoint::accept_end}};
  for (const auto& [known, handler] : kHandlers) {
    if (known != kind || p.goodbye) continue;
    look_at_events_ = true;
    if (auto r = (this->*handler)(p, payload); !r) return r.error();
    return false;
  }
  return violation(p, fmt::format("control message {} with {} bytes", static_cast<int>(kind), payload.size()));
}

Result<bool> VerbsEndpoint::accept_goodbye(Peer& p, uint64_t immediates) {
  if (p.goodbye) return violation(p, "a second goodbye");
  p.goodbye = immediates;
  return settle_goodbye(p);
}

/// The goodbye counts once all that was sent before it is here.
bool VerbsEndpoint::settle_goodbye(Peer& p) {
  if (p.left || !p.goodbye || p.immediates_received < *p.goodbye) return false;
  for (const OutLink* l : p.out)
    if (out_place_[static_cast<size_t>(l - out_.data())].credited != l->posted) {
      die(left_early(p));
      return true;
    }
  p.left = true;
  for (OutLink* l : p.out) l->peer_left = true;
  for (InLink* l : p.in) l->peer_left = true;
  return true;
}

bool VerbsEndpoint::all_consumed() const {
  return std::all_of(out_.begin(), out_.end(), [](const OutLink& l) { return l.consumed == l.posted; });
}

/// Everything is posted, and the device has finished all of it.
bool VerbsEndpoint::all_finished() const {
  return std::all_of(qps_.begin(), qps_.end(), [&](const Qp& qp) { return is_finished(qp); });
}

bool VerbsEndpoint::is_finished(const Qp& qp) const {
  const Peer& p = peers_[qp.peer];
  if (p.left || (qp.owed.empty() && qp.queue.idle())) return true;
  return qp.dead && p.states[path_number(qp)].phase == PathState::Phase::kUp;
}

Error VerbsEndpoint::unconsumed() const {
  for (const OutLink& l : out_) {
    if (l.consumed == l.posted) continue;
    Error e = make_error(twohopTimeout,
                         "rank {} has consumed {} of {} puts (channel {}, link tag {}) at the deadline: it is late or "
                         "stuck in another call",
                         l.id.dst, l.consumed, l.posted, l.id.channel, l.id.tag);
    e.scope = Scope::kPeer;
    e.rank = l.id.dst;
    return e;
  }
  return make_error(twohopTimeout, "rank {}: the last work requests were not finished at the deadline", rank_);
}

Result<> VerbsEndpoint::progress_until(bool (VerbsEndpoint::*done)() const, Deadline deadline) {
  std::vector<pollfd> fds;
  for (;;) {
    auto r = poll();
    if (!r) return r.error();
    if (dead_) return *dead_;
    if ((this->*done)()) return {};
    if (*r) continue;
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return die(unconsumed());
    fds.clear();
    wait_for(fds);
    ::poll(fds.data(), fds.size(), static_cast<int>(std::min(left, kDrainSlice).count()));
  }
}

void VerbsEndpoint::log_totals() const {
  if (peers_.empty()) return;
  const EndpointCounters& c = counters_;
  const auto per = [](uint64_t a, uint64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  std::string rails;
  for (size_t i = 0; i < rails_.size() && i < c.rail_bytes.size(); ++i)
    rails += fmt::format("{}{} {}", i > 0 ? ", " : "", rails_[i].name, c.rail_bytes[i]);
  log_info(
      "rank {}: {} puts, {} credits, {} work requests, {} doorbells ({:.1f} puts each, after {:.1f} us), {} signalled "
      "(one of {:.1f}); bytes sent by {}; {} registrations of {} bytes in {:.1f} ms",
      rank_, c.puts, c.credits, c.work_requests, c.doorbells, per(c.puts, c.doorbells),
      per(c.held_ns, c.doorbells) * 1e-3, c.signalled_completions, per(c.work_requests, c.signalled_completions), rails,
      c.registrations, c.registered_bytes, static_cast<double>(c.registration_ns) * 1e-6);
}

Result<> VerbsEndpoint::say_goodbye(Peer& p, Deadline deadline) {
  if (p.left) return {};
  p.said_goodbye = true;
  if (auto r = push_output(p, deadline); !r) return r;
  if (auto r = send_control(p.socket.get(), ControlKind::kGoodbye, p.immediates_sent, deadline); !r && !p.goodbye)
    log_debug("rank {}: the goodbye to rank {} was not sent: {}", rank_, p.rank, r.error().message);
  ::shutdown(p.socket.get(), SHUT_WR);
  return {};
}

/// Credits are not signalled: an empty write behind them is.
void VerbsEndpoint::append_drain_marker(size_t i) {
  Qp& qp = qps_[i];
  append_credits(qp, true);
  if (peers_[qp.peer].left || qp.queue.idle()) return;
  Request& r = qp.queue.append();
  r.wr.opcode = IBV_WR_RDMA_WRITE;
  r.wants_done = true;
  mark_dirty(i);
}

Result<> VerbsEndpoint::drain(Deadline deadline) {
  if (auto r = flush(); !r) return r;
  if (auto r = progress_until(&VerbsEndpoint::all_consumed, deadline); !r) return r;
  draining_ = true;
  for (size_t i = 0; i < qps_.size(); ++i)
    if (!qps_[i].dead) append_drain_marker(i);  // else when it is connected again
  if (auto r = progress_until(&VerbsEndpoint::all_finished, deadline); !r) return r;
  for (Peer& p : peers_)
    if (auto r = say_goodbye(p, deadline); !r) return r;
  log_totals();
  dead_ = make_error(twohopInvalidUsage, "the {} endpoint of rank {} is used after drain()", config_.name, rank_);
  return {};
}

}  // namespace twohop::verbs
