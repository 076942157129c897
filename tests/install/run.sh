#!/usr/bin/env bash
# Can a stranger's project use the installed tree, by find_package and by pkg-config?
# usage: run.sh SOURCE_DIR BUILD_DIR SCRATCH_DIR
set -euo pipefail
source_dir=$1 build_dir=$2 scratch=$3
prefix=$scratch/prefix
launch=("$source_dir/scripts/launch" 4 --ranks-per-node 2 --)
export TWOHOP_TIMEOUT_S=60 TWOHOP_INIT_TIMEOUT_S=60

say() { printf -- '-- %s\n' "$*"; }

build_project() { # source build
  local log=$2.log
  { cmake -S "$1" -B "$2" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$2"; } >"$log" 2>&1 || { cat "$log"; exit 1; }
}

rm -rf "$scratch"
mkdir -p "$scratch"

say "install into a scratch prefix, then move it: nothing may remember where it was built"
cmake --install "$build_dir" --prefix "$scratch/first" >"$scratch/install.log"
mv "$scratch/first" "$prefix"
library=$(find "$prefix" -name libtwohop.so)
libdir=$(dirname "$library")

remembered=$(find "$prefix/bin" "$libdir" -type f -exec readelf -d {} + 2>/dev/null | grep -E 'R(UN)?PATH' | grep -F "$build_dir" || true)
[[ -z $remembered ]] || { echo "a program or library looks for others in the build folder: $remembered"; exit 1; }

say "headers: each by itself, as C99 and as C++20, without a warning"
strict=(-pedantic -Wall -Wextra -Werror -fsyntax-only "-I$prefix/include")
echo '#include "twohop/twohop.h"' | cc -x c -std=c99 "${strict[@]}" -
echo '#include "twohop/twohop.h"' | c++ -x c++ -std=c++11 "${strict[@]}" -
echo '#include "twohop/twohop.hpp"' | c++ -x c++ -std=c++20 "${strict[@]}" -

say "symbols: the library shows twohop* only"
others=$(nm -D --defined-only "$library" | awk '$3 !~ /^twohop/ {print $3}')
[[ -z $others ]] || { echo "also exported: $others"; exit 1; }

say "find_package: both examples"
build_project "$source_dir/examples" "$scratch/examples"
"${launch[@]}" "$scratch/examples/hello_allreduce"
"${launch[@]}" "$scratch/examples/data_parallel" --check

say "find_package: the C++ face"
build_project "$source_dir/tests/install/consumer" "$scratch/consumer"
"$scratch/consumer/cxx_face"
if [[ -x $scratch/consumer/mpi_consumer ]]; then
  say "twohop::mpi under mpirun"
  (. "$source_dir/scripts/lib.sh" && mpi_environment && mpirun -np 2 "$scratch/consumer/mpi_consumer")
fi

say "pkg-config: build hello_allreduce"
export PKG_CONFIG_PATH=$libdir/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs twohop)"
cc -std=c99 -o "$scratch/hello" "$source_dir/examples/hello_allreduce.c" "${flags[@]}" "-Wl,-rpath,$libdir"
"${launch[@]}" "$scratch/hello"

if [[ -f $libdir/pkgconfig/twohop_mpi.pc ]]; then
  say "pkg-config: build mpi_consumer"
  read -ra flags <<<"$(pkg-config --cflags --libs twohop_mpi)"
  mpicc -o "$scratch/mpi_hello" "$source_dir/tests/install/consumer/mpi_consumer.c" "${flags[@]}" "-Wl,-rpath,$libdir"
  (. "$source_dir/scripts/lib.sh" && mpi_environment && mpirun -np 2 "$scratch/mpi_hello")
fi

if [[ -x $prefix/bin/allreduce_perf ]]; then
  say "the installed allreduce_perf finds its libraries"
  "$prefix/bin/allreduce_perf" --help >"$scratch/perf.log"
fi
if [[ -e $libdir/twohop/softnic/libibverbs.so.1 ]]; then
  say "softnic: the installed library finds it, and any verbs program can be given it"
  TWOHOP_NET=softnic SOFTNIC=domain=install-$$ "${launch[@]}" "$scratch/examples/hello_allreduce"
  if command -v ibv_devices >/dev/null; then
    LD_LIBRARY_PATH=$libdir/twohop/softnic SOFTNIC=domain=install-$$ ibv_devices | grep softnic1 >"$scratch/softnic.log"
  fi
fi
say "the installed tree is fine"
