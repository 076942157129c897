// verbs_perf: how fast are RC queue pairs between two processes, and what limits them? Chooses the role of this process
// and makes the control link. Exit codes: see arguments.cpp.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/options.hpp"
#include "ends.hpp"
#include "verbs_perf_mpi.hpp"

namespace twohop::verbs_perf {
namespace {

constexpr double kConnectSeconds = 10;

int fail(const char* role, const Error& error) {
  fmt::print(stderr, "verbs_perf: {}{}\n", role, error.message);
  return error.code == twohopInvalidArgument ? 2 : 3;
}

Result<Ports> open_ports(const Arguments& a, bool server, bool may_fall_back) {
  const Result<Options>& environment = options();
  if (!environment) return environment.error();
  const int gid = server && a.matrix.gids.size() == 1 ? a.matrix.gids.front() : -1;
  const bool asked = a.softnic || environment->net == "softnic";
  if (!asked) {
    auto ports = Ports::open(verbs::kSystemLibrary, a.devices, gid);
    if (ports || !may_fall_back || ports.error().code == twohopInvalidArgument) return ports;
    if (!server)
      fmt::print("# no RDMA device is usable here ({}): both ends use softnic, the emulated one\n",
                 ports.error().message);
  }
  auto library = verbs::find_softnic();
  if (!library) return library.error();
  return Ports::open(*library, a.devices, gid);
}

int client(const Arguments& a, ControlLink& link, bool may_fall_back) {
  auto ports = open_ports(a, false, may_fall_back);
  if (!ports) {
    link.tell(ports.error());
    return fail("", ports.error());
  }
  auto exit_code = run_client(a, *ports, link);
  if (exit_code) return *exit_code;
  link.tell(exit_code.error());
  return fail("", exit_code.error());
}

int server(const Arguments& a, ControlLink& link, bool may_fall_back) {
  auto ports = open_ports(a, true, may_fall_back);
  if (!ports) {
    link.tell(ports.error());
    return fail("server: ", ports.error());
  }
  auto rows = run_server(*ports, link);
  if (!rows) return fail("server: ", rows.error());
  return 0;
}

// ---- Both ends here ----

/// The emulated host 1, unless SOFTNIC says otherwise: the ends then have ports, wires and counters of their own.
void use_another_emulated_host() {
  const char* now = std::getenv("SOFTNIC");
  const std::string settings = now ? now : "";
  if (settings.find("host=") == std::string::npos)
    ::setenv("SOFTNIC", (settings + (settings.empty() ? "" : ",") + "host=1").c_str(), 1);
}

int run_loopback(const Arguments& a) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return fail("", system_error(errno, "cannot make a pair of sockets"));
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();  // before any device is open
  if (child < 0) return fail("", system_error(errno, "cannot start the second process"));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(3);
    ::close(fds[0]);
    use_another_emulated_host();
    ControlLink link(Fd(fds[1]), "the client");
    return server(a, link, true);
  }
  ::close(fds[1]);
  int exit_code = 0, status = 0;
  {
    ControlLink link(Fd(fds[0]), "the server");
    exit_code = client(a, link, true);
  }
  ::waitpid(child, &status, 0);  // it ends when its link does
  if (exit_code == 0 && status != 0) exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
  return exit_code;
}

// ---- Two hosts ----

Result<ControlLink> connect_to_server(const std::string& host, int port) {
  auto address = resolve(host, port);
  if (!address) return address.error();
  auto fd = connect_to(*address, after(kConnectSeconds));
  if (!fd)
    return make_error(fd.error().code, "no server at {}: {}; start verbs_perf without a host there",
                      address->to_string(), fd.error().message);
  return ControlLink(std::move(*fd), fmt::format("the server ({})", address->to_string()));
}

Result<ControlLink> accept_client(int listener, double seconds) {
  if (auto ready = wait_for_fd(listener, POLLIN, after(seconds)); !ready)
    return make_error(twohopTimeout, "no client has come within {:g} s (--wait)", seconds);
  SocketAddress from;
  from.length = sizeof from.storage;
  Fd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&from.storage), &from.length, SOCK_CLOEXEC));
  if (!fd) return system_error(errno, "cannot accept the client's connection");
  tune_socket(fd.get());
  return ControlLink(std::move(fd), fmt::format("the client ({})", from.to_string()));
}

int run_server_process(const Arguments& a) {
  auto address = resolve(a.listen, a.port);
  if (!address) return fail("", address.error());
  auto listener = listen_on(*address, 1);
  if (!listener) return fail("", listener.error());
  if (auto bound = local_address(listener->get()))
    fmt::print("# verbs_perf: waiting for a client on {}\n", bound->to_string());
  std::fflush(stdout);
  auto link = accept_client(listener->get(), a.wait_s);
  if (!link) return fail("", link.error());
  listener->reset();  // one client
  return server(a, *link, false);
}

int run_client_process(const Arguments& a) {
  auto link = connect_to_server(a.host, a.port);
  if (!link) return fail("", link.error());
  return client(a, *link, false);
}

/// Ranks 0 and 1 of an MPI job: rank 1 is the server and tells rank 0 where.
int run_under_mpi(Arguments a, MpiPair& mpi) {
  if (mpi.size() != 2) {
    if (mpi.rank() == 0)
      fmt::print(stderr, "verbs_perf: started with {} ranks: a measurement has 2 ends, start it with mpirun -n 2\n",
                 mpi.size());
    return 2;
  }
  if (mpi.rank() == 0) {
    const std::string where = mpi.receive_text();
    const size_t colon = where.rfind(' ');
    if (colon == std::string::npos) return fail("", make_error(twohopRemoteError, "rank 1 has no server: {}", where));
    a.host = where.substr(0, colon);
    a.port = std::atoi(where.c_str() + colon + 1);
    return run_client_process(a);
  }
  const Result<Options>& environment = options();
  auto interface =
      environment ? choose_interface(environment->socket_ifname) : Result<ChosenInterface>(environment.error());
  auto listener = interface ? listen_on(interface->address, 1) : Result<Fd>(interface.error());
  auto bound = listener ? local_address(listener->get()) : Result<SocketAddress>(listener.error());
  if (!bound) {
    mpi.send_text("failed");
    return fail("server: ", bound.error());
  }
  std::string text = bound->to_string();
  text[text.rfind(':')] = ' ';
  mpi.send_text(text);
  auto link = accept_client(listener->get(), a.wait_s);
  if (!link) return fail("server: ", link.error());
  return server(a, *link, false);
}

int run(const Arguments& a, int* argc, char*** argv) {
  if (auto files = check_files(a); !files) return fail("", files.error());
  if (a.loopback) return run_loopback(a);
  if (!a.host.empty()) return run_client_process(a);
  if (!MpiPair::started_by_mpirun()) return run_server_process(a);
  MpiPair mpi(argc, argv);
  return run_under_mpi(a, mpi);
}

}  // namespace
}  // namespace twohop::verbs_perf

int main(int argc, char** argv) {
  using namespace twohop::verbs_perf;
  auto parsed = parse_arguments(argc, argv);
  if (auto* stop = std::get_if<Stop>(&parsed)) {
    std::fputs(stop->text.c_str(), stop->exit_code ? stderr : stdout);
    return stop->exit_code;
  }
  try {
    return run(std::get<Arguments>(parsed), &argc, &argv);
  } catch (const std::exception& e) {  // out of memory
    fmt::print(stderr, "verbs_perf: {}\n", e.what());
    return 3;
  }
}
