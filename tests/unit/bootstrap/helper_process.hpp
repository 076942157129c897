// A rank in a process of its own: this test program started again, in a disabled test that plays one rank.
#pragma once

#include <string>

#include "base/socket.hpp"
#include "twohop/twohop.h"

namespace twohop {

class HelperProcess {
 public:
  /// what: "stay" (until killed), "goodbye" (leave and exit), "fork" (stay, with a child that outlives it), "root"
  /// (start a root service that nobody comes to, and exit).
  HelperProcess(const twohopUniqueId& id, int rank, int nranks, const std::string& what = "stay");
  ~HelperProcess();
  bool wait_until_joined();
  void kill();
  int wait_for_exit();  // exit status, -1 for a signal
  int pid() const { return pid_; }

 private:
  int pid_ = -1;
  bool running_ = true;
  Fd to_child_, from_child_;
};

}  // namespace twohop
