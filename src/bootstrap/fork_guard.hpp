// Which descriptors must a forked child not keep open? Those by whose end-of-file others notice that we died.
//
// A child that an application forks (without exec) inherits every socket; while it lives, the death of its parent would
// go unnoticed. In the child such descriptors are replaced by /dev/null, which keeps their numbers taken.
#pragma once

namespace twohop {

void forget_in_forked_children(int fd);
/// Before fd is closed.
void no_longer_guarded(int fd);

}  // namespace twohop
