# What the scripts share: where the tree is, how a step is announced, how Open MPI is kept quiet. Sourced, not run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

step() { printf '== %s\n' "$*"; }

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# Runs a command with its output in build/logs/NAME.log; shows the end of it only when the command fails.
quietly() {
  local log=build/logs/$1.log
  shift
  mkdir -p build/logs
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    fail "$* (all of its output: $log)"
  fi
}

configure() { # preset [cmake arguments]
  local preset=$1
  shift
  quietly "configure-$preset" cmake --preset "$preset" "$@"
}

build() { # preset [targets]
  local preset=$1
  shift
  quietly "build-$preset" cmake --build "build/$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}

# Sets fixed_addresses to what goes before a sanitized program: the sanitizers of g++ 12 and clang 14 cannot map their
# shadow where the kernel randomises more bits than they expect.
fix_addresses() {
  local bits
  fixed_addresses=(setarch "$(uname -m)" -R)
  if "${fixed_addresses[@]}" true 2>/dev/null; then return; fi
  fixed_addresses=()
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null) || return 0 # not ours to read: it may be right
  [[ $bits -le 28 ]] ||
    fail "vm.mmap_rnd_bits=$bits: sanitized programs would end at random; allow setarch -R (personality) or set it to 28"
}

# Open MPI as root, in a container, with more ranks than cores; what the user has set stays.
mpi_environment() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe-1}
  export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy-none}
  export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle-1}
  # Containers forbid process_vm_readv and often have 64 MB of /dev/shm; both only cost warnings or crashes here.
  export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism-none}
  export OMPI_MCA_btl_vader_backing_directory=${OMPI_MCA_btl_vader_backing_directory-${TMPDIR:-/tmp}}
  export OMPI_MCA_btl_base_warn_component_unused=${OMPI_MCA_btl_base_warn_component_unused-0}
  export PMIX_MCA_gds=${PMIX_MCA_gds-hash}
  # Without ssh, mpirun would refuse even a run on this machine alone.
  if ! command -v ssh >/dev/null; then export OMPI_MCA_plm=${OMPI_MCA_plm-isolated}; fi
}
