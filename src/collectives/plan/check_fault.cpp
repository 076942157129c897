// The names of faults, for messages.
#include "collectives/plan/checker.hpp"

namespace twohop {

const char* fault_name(FaultKind k) {
  switch (k) {
    case FaultKind::kContributionDoubled:
      return "contribution doubled";
    case FaultKind::kContributionMissing:
      return "contribution missing";
    case FaultKind::kReadTooEarly:
      return "read too early";
    case FaultKind::kOverwrittenBeforeRead:
      return "overwritten before it is read";
    case FaultKind::kOverwrittenBeforeSent:
      return "source overwritten before sent";
    case FaultKind::kEarlyRelease:
      return "early release";
    case FaultKind::kDeadWrite:
      return "dead write";
    case FaultKind::kDeadlock:
      return "deadlock";
    case FaultKind::kCallOvertaken:
      return "call overtaken";
    case FaultKind::kProtocol:
      return "protocol";
    case FaultKind::kScaling:
      return "scaling";
    case FaultKind::kOperandOrder:
      return "operand order";
    case FaultKind::kUnequalBits:
      return "unequal bits";
    case FaultKind::kRailCrossed:
      return "rail crossed";
    case FaultKind::kAsymmetry:
      return "asymmetry";
  }
  return "?";
}

}  // namespace twohop
