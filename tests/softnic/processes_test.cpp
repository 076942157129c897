// Do two processes reach each other, on one host and on two, and is the death of one noticed by the other?
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>

#include "fabric.hpp"

// The children are forked from a program that had threads, and start one of their own.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "die_after_fork=0";
}

namespace softnic_test {
namespace {

// Runs `child` in a process of its own, made before this one has joined any domain.
class Child {
 public:
  explicit Child(const std::function<bool(int socket)>& child) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      alarm(60);
      bool good = false;
      try {
        good = child(ends[1]) && !testing::Test::HasFailure();
      } catch (const std::exception& error) {
        fprintf(stderr, "child: %s\n", error.what());
      }
      _exit(good ? 0 : 1);
    }
    close(ends[1]);
    socket = ends[0];
  }
  ~Child() {
    if (pid_ > 0) end(SIGKILL);
    close(socket);
  }
  void end(int signal) {
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool succeeded() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  int socket = -1;

 private:
  pid_t pid_ = 0;
};

Address exchange(int socket, const Address& own) {
  Address peer{};
  EXPECT_EQ(write(socket, &own, sizeof own), static_cast<ssize_t>(sizeof own));
  EXPECT_EQ(read(socket, &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
  return peer;
}
void say(int socket) {
  EXPECT_EQ(write(socket, "x", 1), 1);
}
bool listen(int socket) {
  char c = 0;
  return readable(socket) && read(socket, &c, 1) == 1;
}

// Of this program, not of its children: made before any fork.
const std::string program_domain = "domain=procs-" + std::to_string(getpid());

std::string settings_of(int host, const std::string& more = "") {
  return program_domain + ",host=" + std::to_string(host) + more;
}

class Processes : public testing::TestWithParam<int> {};  // the host of the child

TEST_P(Processes, MoveBytesBothWays) {
  Child child([](int socket) {
    setenv("SOFTNIC", settings_of(GetParam()).c_str(), 1);
    End end;
    Address peer = exchange(socket, end.address());
    end.connect(peer);
    end.receive(0, 64);
    say(socket);
    if (end.next().status != IBV_WC_SUCCESS) return false;  // the parent's write with immediate
    for (size_t i = 0; i < 30000; i++)
      if (end.memory[i] != static_cast<uint8_t>(i * 5)) return false;
    std::reverse(end.memory.begin(), end.memory.begin() + 30000);
    end.post(IBV_WR_SEND, 30000, peer);
    return end.next().status == IBV_WC_SUCCESS && listen(socket);
  });
  setenv("SOFTNIC", settings_of(0).c_str(), 1);
  End end;
  Address peer = exchange(child.socket, end.address());
  end.connect(peer);
  ASSERT_TRUE(listen(child.socket));
  end.receive(32768, 30000);
  for (size_t i = 0; i < 30000; i++) end.memory[i] = static_cast<uint8_t>(i * 5);
  end.post(IBV_WR_RDMA_WRITE_WITH_IMM, 30000, peer);
  EXPECT_EQ(end.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(end.next().opcode, IBV_WC_RECV);
  EXPECT_TRUE(std::equal(end.memory.begin(), end.memory.begin() + 30000, end.memory.rend() - 62768));
  end.post(IBV_WR_RDMA_READ, 30000, peer);
  EXPECT_EQ(end.next().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(end.memory.begin(), end.memory.begin() + 30000, end.memory.begin() + 32768));
  say(child.socket);
  EXPECT_TRUE(child.succeeded());
}

TEST_P(Processes, WakeEachOtherThroughTheChannel) {
  auto ping_pong = [](int socket, bool first, const std::string& settings) {
    setenv("SOFTNIC", settings.c_str(), 1);
    End end;
    Address peer = exchange(socket, end.address());
    end.receive(0, 64);  // refused in RESET
    ibv_qp_attr a = end.attributes(peer);
    end.to(IBV_QPS_INIT, a);
    for (int i = 0; i < 16; i++) end.receive(0, 64);
    end.to(IBV_QPS_RTR, a);
    end.to(IBV_QPS_RTS, a);
    ibv_req_notify_cq(end.cq, 0);
    say(socket);
    if (!listen(socket)) return false;
    int received = 0, sent = 0;
    if (first) sent += end.post(IBV_WR_SEND, 64, peer) == 0;
    while (received < 100) {
      if (!readable(end.channel->fd)) return false;
      ibv_cq* cq = nullptr;
      void* user = nullptr;
      if (ibv_get_cq_event(end.channel, &cq, &user) != 0) return false;
      ibv_ack_cq_events(cq, 1);
      ibv_req_notify_cq(end.cq, 0);
      for (ibv_wc wc{}; ibv_poll_cq(end.cq, 1, &wc) == 1;) {
        if (wc.status != IBV_WC_SUCCESS) return false;
        if (wc.opcode != IBV_WC_RECV) continue;
        received++;
        end.receive(0, 64);
        if (sent < 100) sent += end.post(IBV_WR_SEND, 64, peer) == 0;
      }
    }
    say(socket);
    return listen(socket);
  };
  Child child([&](int socket) { return ping_pong(socket, false, settings_of(GetParam(), ",latency=100us,rate=1g")); });
  EXPECT_TRUE(ping_pong(child.socket, true, settings_of(0, ",latency=100us,rate=1g")));
  EXPECT_TRUE(child.succeeded());
}

TEST_P(Processes, TheDeathOfThePeerExceedsTheRetries) {
  Child child([](int socket) {
    setenv("SOFTNIC", settings_of(GetParam()).c_str(), 1);
    End end;
    end.connect(exchange(socket, end.address()));
    for (int i = 0; i < 16; i++) end.receive(0, 64);
    say(socket);
    pause();
    return true;
  });
  setenv("SOFTNIC", settings_of(0).c_str(), 1);
  End end;
  Address peer = exchange(child.socket, end.address());
  end.connect(peer);
  ASSERT_TRUE(listen(child.socket));
  end.post(IBV_WR_RDMA_WRITE_WITH_IMM, 64, peer);
  ASSERT_EQ(end.next().status, IBV_WC_SUCCESS);
  child.end(SIGKILL);
  end.post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, peer);  // no bytes: only the life lock can tell
  EXPECT_EQ(end.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_P(Processes, AtomicsOfSeveralProcessesLoseNothing) {
  constexpr int kAdds = 500;
  auto add = [](End& end, const Address& peer) {
    for (int i = 0; i < kAdds; i++) {
      auto r = end.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, peer);
      r.wr.wr.atomic.compare_add = 1;
      if (end.post(r) != 0 || end.next().status != IBV_WC_SUCCESS) return false;
    }
    return true;
  };
  Child child([&](int socket) {
    setenv("SOFTNIC", settings_of(GetParam()).c_str(), 1);
    End end;
    Address peer = exchange(socket, end.address());
    end.connect(peer);
    say(socket);
    return listen(socket) && add(end, peer) && (say(socket), listen(socket));
  });
  setenv("SOFTNIC", settings_of(0).c_str(), 1);
  End target, self;
  self.connect(target.address());
  Address peer = exchange(child.socket, target.address());
  target.connect(peer);
  // A second queue pair of the target for this process's own adds.
  End mine;
  ASSERT_TRUE(listen(child.socket));
  say(child.socket);
  target.memory.resize(target.memory.size());
  End own_side;
  Address word = target.address();
  mine.connect(own_side.address());
  own_side.connect(mine.address());
  auto* value = reinterpret_cast<uint64_t*>(own_side.memory.data());
  EXPECT_TRUE(add(mine, own_side.address()));
  EXPECT_EQ(*value, static_cast<uint64_t>(kAdds));
  ASSERT_TRUE(listen(child.socket));
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(word.memory), static_cast<uint64_t>(kAdds));
  say(child.socket);
  EXPECT_TRUE(child.succeeded());
}

INSTANTIATE_TEST_SUITE_P(OnOneHostAndTwo, Processes, testing::Values(0, 1),
                         [](const auto& info) { return info.param == 0 ? "SameHost" : "TwoHosts"; });

TEST(Leftovers, OfKilledProcessesAreGoneWithTheNextJoin) {
  std::filesystem::path folder;
  int member = -1;
  {
    Child child([](int socket) {
      setenv("SOFTNIC", ("domain=killed-" + std::to_string(getpid())).c_str(), 1);
      End end;
      std::string path = end.context->device->ibdev_path;
      EXPECT_GT(write(socket, path.data(), path.size()), 0);
      pause();
      return true;
    });
    char path[256] = {};
    ASSERT_TRUE(readable(child.socket));
    ASSERT_GT(read(child.socket, path, sizeof path - 1), 0);
    folder = path;
    EXPECT_TRUE(std::filesystem::exists(folder));
    // As a member's, until we have looked: every process of this user that joins anything tidies up, other tests' too.
    member = open((folder.parent_path().parent_path() / "state").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(flock(member, LOCK_SH), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(folder)) << "killed: nobody could clean up";
  close(member);
  use_settings();
  End end;
  // Another process may be at it already, and not through.
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(folder); }));
}

TEST(Leftovers, SlotsAndQueuesOfKilledProcessesAreUsedAgain) {
  std::string settings = settings_of(0);
  Child keeper([&](int socket) {
    setenv("SOFTNIC", settings.c_str(), 1);
    End end;
    say(socket);
    return listen(socket);
  });
  ASSERT_TRUE(listen(keeper.socket));
  for (int i = 0; i < 20; i++) {
    Child child([&](int socket) {
      setenv("SOFTNIC", settings.c_str(), 1);
      Shape large;
      large.cq = 100000;  // 20 of these do not fit unless they are given back
      End one(large), two(large), three(large), four(large);
      say(socket);
      pause();
      return true;
    });
    ASSERT_TRUE(listen(child.socket)) << i;
  }
  say(keeper.socket);
  EXPECT_TRUE(keeper.succeeded());
}

TEST(Fork, AChildMayJoinWhileItsParentIsIn) {
  setenv("SOFTNIC", settings_of(0).c_str(), 1);
  End end;
  Child child([](int socket) {
    End own;
    Address peer = exchange(socket, own.address());
    own.connect(peer);
    say(socket);
    return listen(socket);
  });
  Address peer = exchange(child.socket, end.address());
  end.connect(peer);
  ASSERT_TRUE(listen(child.socket));
  end.post(IBV_WR_RDMA_WRITE, 64, peer);
  EXPECT_EQ(end.next().status, IBV_WC_SUCCESS);
  say(child.socket);
  EXPECT_TRUE(child.succeeded());
}

}  // namespace
}  // namespace softnic_test
