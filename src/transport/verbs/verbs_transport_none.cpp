// What stands for the verbs transport in a build without infiniband/verbs.h: a plain message.
#include "transport/verbs/verbs_transport.hpp"

namespace twohop::verbs {
namespace {

Error not_built() {
  return make_error(
      twohopSystemError,
      "this twohop was built without infiniband/verbs.h and has no verbs transport: install libibverbs-dev "
      "and build it again");
}

}  // namespace

Result<std::unique_ptr<Endpoint>> make_endpoint(int, const Options&, const Secret&, const RailPlan&) {
  return not_built();
}

Result<std::unique_ptr<Endpoint>> make_softnic_endpoint(int, const Options&, const Secret&) {
  return not_built();
}

}  // namespace twohop::verbs
