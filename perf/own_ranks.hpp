// Ranks that a program starts by itself, by forking, where no launcher has started it.
#pragma once

namespace twohop::perf {

bool under_launcher();
/// In each of the `n` children: -1, with RANK and the rest set. In the parent, once all have ended: the first exit code
/// that is not 0.
int start_own_ranks(int n);

}  // namespace twohop::perf
