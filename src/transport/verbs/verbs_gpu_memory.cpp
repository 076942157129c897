// How does a device come to read and write GPU memory? By a dma-buf of the GPU's driver; else by pinning the addresses
// themselves, which needs the kernel module nvidia-peermem. The caller stages data through host memory where neither
// works.
#include <sys/uio.h>
#include <unistd.h>

#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

/// The emulated device moves bytes by the CPU and pins nothing: it cannot tell that an address is not the CPU's.
bool cpu_reaches(std::span<std::byte> memory) {
  std::byte first{};
  const iovec to{&first, 1}, from{memory.data(), 1};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1;
}

}  // namespace

/// On all rails or on none.
template <class Register>
Result<> VerbsEndpoint::register_on_all_rails(Register one, bool keep) {
  std::vector<MemoryRegion> made;
  for (Rail& rail : rails_) {
    auto region = one(rail);
    if (!region) return region.error();
    made.push_back(std::move(*region));
  }
  if (!keep) return {};
  for (size_t r = 0; r < rails_.size(); ++r) {
    ++counters_.registrations;
    counters_.registered_bytes += made[r]->length;
    rails_[r].regions.push_back(std::move(made[r]));
  }
  return {};
}

Result<std::string> VerbsEndpoint::register_gpu_memory(const GpuRegion& region, bool keep) {
  std::string reasons = "dma-buf: " + region.why_no_dmabuf;
  if (region.dmabuf >= 0) {
    auto done = register_on_all_rails(
        [&](Rail& rail) {
          return MemoryRegion::create_from_dmabuf(rail.pd, region.memory, region.dmabuf, config_.rails.ordering);
        },
        keep);
    if (done) return std::string("dma-buf");
    reasons = "dma-buf: " + done.error().message;
  }
  if (name() == std::string("softnic") && !cpu_reaches(region.memory))
    return make_error(twohopSystemError, "{}; the emulated device does not reach GPU memory", reasons);
  auto done = register_on_all_rails(
      [&](Rail& rail) { return MemoryRegion::create(rail.pd, region.memory, config_.rails.ordering, 0); }, keep);
  if (done) return fmt::format("nvidia-peermem ({})", reasons);
  return make_error(twohopSystemError, "{}; nvidia-peermem (is the module loaded?): {}", reasons, done.error().message);
}

}  // namespace twohop::verbs
