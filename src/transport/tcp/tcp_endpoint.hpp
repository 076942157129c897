// The tcp endpoint: which connections there are, and when each is served. Setup is in tcp_connect.cpp, the rest in
// tcp_datapath.cpp.
#pragma once

#include <sys/epoll.h>

#include <deque>
#include <optional>

#include "transport/endpoint.hpp"
#include "transport/tcp/tcp_connection.hpp"
#include "transport/tcp/tcp_pairs.hpp"

namespace twohop::tcp {

/// Sends our links and checks that the peer's are their mirror image. Both ends do the same at once.
Result<> agree_on_links(const Pair& p, int fd, Deadline deadline);

class TcpEndpoint final : public Endpoint {
 public:
  TcpEndpoint(int rank, std::unique_ptr<PairConnector> connector, Fd epoll);

  const char* name() const override { return "tcp"; }
  Bytes address() const override { return address_; }
  Result<> connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                   Deadline deadline, int stop_fd) override;
  OutLink& out(size_t i) override { return out_[i]; }
  InLink& in(size_t i) override { return in_[i]; }

  void put(size_t out_link, const CallTag& tag, std::span<const PutRun> runs) override;
  void release(size_t in_link) override;
  Result<> flush() override;
  Result<bool> poll() override;
  bool output_pending() const override { return !all_written(); }
  void wait_for(std::vector<pollfd>& fds) override;
  Result<> drain(Deadline deadline) override;
  Carrier carrier_of(size_t in_link, uint64_t, uint64_t, uint64_t, uint64_t) const override {
    return {"the TCP connection with " + in_place_[in_link].connection->name()};
  }
  EndpointCounters counters() const override { return counters_; }

 private:
  struct InPlace {
    Connection* connection;
    size_t index;  // among the connection's in links
  };

  // Setup.
  Result<> open_connections(std::vector<Pair> pairs);

  // Datapath.
  void mark_dirty(Connection& c);
  Result<bool> serve(Connection& c, uint32_t events);
  Result<> set_interest(Connection& c);
  Error die(Error e);
  Result<> progress_until(bool (TcpEndpoint::*done)() const, Deadline deadline);
  bool all_consumed() const;
  bool all_written() const;
  Error unconsumed() const;
  void linger(Deadline deadline);

  int rank_;
  std::unique_ptr<PairConnector> connector_;  // until connected
  Bytes address_;
  Fd epoll_;
  std::vector<OutLink> out_;
  std::vector<InLink> in_;
  EndpointCounters counters_;
  std::deque<Connection> connections_;
  std::vector<Connection*> out_connection_;  // by out link
  std::vector<InPlace> in_place_;            // by in link
  std::vector<Connection*> dirty_;           // something was appended since the last flush
  std::vector<epoll_event> events_;
  bool changed_in_flush_ = false;
  std::optional<Error> dead_;
};

}  // namespace twohop::tcp
