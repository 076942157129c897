// The choice of the instruction set that kernels run on.
#include "device/reduce.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace twohop {
namespace {

const KernelTable* kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Fp16:
      return avx512fp16_kernels();
    case Isa::kAvx512:
      return avx512_kernels();
    case Isa::kAvx2:
      return avx2_kernels();
    case Isa::kScalar:
      break;
  }
  return scalar_kernels();
}

#if defined(__x86_64__)
bool cpu_has_f16c() {  // not a name that every compiler's __builtin_cpu_supports knows
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool cpu_has_fp16() {  // likewise; its registers are AVX-512's, so that what saves those saves its own
  constexpr unsigned kAvx512Fp16 = 1u << 23;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAvx512Fp16) != 0;
}
bool cpu_has(Isa isa) {
  if (isa == Isa::kScalar) return true;
  const bool avx2 = __builtin_cpu_supports("avx2") && cpu_has_f16c();
  if (isa == Isa::kAvx2) return avx2;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (isa == Isa::kAvx512) return avx512;
  return avx512 && cpu_has_fp16();
}
#else
bool cpu_has(Isa isa) {
  return isa == Isa::kScalar;
}
#endif

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Fp16};  // slowest first

std::string supported_names() {
  std::string names = "auto";
  for (Isa isa : kIsas)
    if (isa_supported(isa)) names += std::string(", ") + isa_name(isa);
  return names;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Fp16:
      return "avx512fp16";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kScalar:
      break;
  }
  return "scalar";
}

bool isa_supported(Isa isa) {
  return cpu_has(isa) && kernels(isa) != nullptr;
}

Result<Isa> choose_isa(const std::string& name) {
  Isa best = Isa::kScalar;
  for (Isa isa : kIsas) {
    if (isa_supported(isa)) best = isa;
    if (name != isa_name(isa)) continue;
    if (isa_supported(isa)) return isa;
    return make_error(twohopInvalidArgument, "TWOHOP_REDUCE_ISA={}: this CPU or this build lacks it; use one of: {}",
                      name, supported_names());
  }
  if (name == "auto") return best;
  return make_error(twohopInvalidArgument, "TWOHOP_REDUCE_ISA={}: not an instruction set twohop has; use one of: {}",
                    name, supported_names());
}

ReduceFn reduce_kernel(Isa isa, twohopDataType_t type, MathOp op) {
  return kernels(isa)->kernel[type][static_cast<int>(op)];
}

}  // namespace twohop
