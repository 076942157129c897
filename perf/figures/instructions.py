#!/usr/bin/env python3
"""Instructions of rank 0, by callgrind: for each chunk that it puts, and for a small call. Virtual nodes are emulated hosts.

    perf/figures/instructions.py [--only chunks,small] [--build build/release] [--files]

Counts do not depend on how busy the machine is, but for the sweeps that found nothing, so the number of all is printed
beside them; rank 0 is the slowest under callgrind, so that it seldom waits. What a call costs is the difference of two
runs. Without debug information (CMAKE_CXX_FLAGS=-g) inlined code counts for the function that it was inlined into.
Needs valgrind (Debian). About 3 minutes.
"""
import argparse
import collections
import os
import re
import tempfile

import runs
from callgrind import Profile

RULES = (  # the first whose pattern is found in "object file function" names the part
    ("the emulated adapter", r"libibverbs|pthread_mutex"),
    ("copies and reductions", r"mem(cpy|move|set)|/device/(element|kernels|reduce)|reduce_(avx|scalar|run)|\breduce<"),
    ("clock", r"clock_gettime|steady_clock|vdso|now_ns"),
    ("allocation", r"\b(malloc|free|calloc|realloc|_int_\w+|operator (new|delete))"),
    ("requests and batches", r"verbs_send_queue|SendQueue::"),
    ("puts and credits", r"verbs_datapath|verbs_memory|tcp_send|VerbsEndpoint::(put|append|flush|push|poll\b|release|output)"),
    ("completions and arrivals", r"verbs_completions|tcp_receive|verbs_wire|VerbsEndpoint::|TcpEndpoint::|tcp::"),
    ("addresses of chunks", r"chunk_address|chunk_extents|pieces_of_put"),
    ("choosing and starting a call", r"layout|bound_schedule|call\.cpp|Execution::start|tuning|Tuning|Communicator::start|/model/|Layout"),
    ("lanes and steps", r"execution|Execution::|flags\.hpp|bound_step"),
    ("notices, wake-ups", r"node_group|NodeGroup"),
    ("running a call", r"exec/run\.|Runner|communicator|Communicator|idle_endpoint|IdleEndpoint|src/api|twohopAllReduce"),
)


def part_of(key):
    words = " ".join(key)
    return next((name for name, pattern in RULES if re.search(pattern, words)), f"other ({os.path.basename(key[0])})")


def run_once(build, folder, iterations, nodes, per_node, size, net, environment):
    runs.PERF = os.path.join(build, "perf")
    output = os.path.join(folder, f"callgrind.{iterations}")
    domain = f"instructions{os.getpid()}"
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", "--toggle-collect=*Runner::run()"]
    result = runs.allreduce(
        nodes * per_node, size, iterations, "-w", "3", "--scheme", "two-hop" if size > 1024 else "auto",
        environment={"TWOHOP_NET": net, "TWOHOP_RANKS_PER_NODE": str(per_node), **environment},
        of_rank=lambda rank: {"SOFTNIC": f"devices=1,domain={domain},host={rank // per_node}"},
        prefix=lambda rank: valgrind if rank == 0 else [], timeout=600)
    return result, Profile(output)


def measure(build, iterations, nodes, per_node, size, net, environment):
    """Instructions by part and by (object, file, function), and other counts, all for one call."""
    few, many = iterations
    with tempfile.TemporaryDirectory() as folder:
        _, before = run_once(build, folder, few, nodes, per_node, size, net, environment)
        result, profile = run_once(build, folder, many, nodes, per_node, size, net, environment)
    profile.minus(before)
    calls = profile.calls_of("Communicator::start") or 1  # out of place and in place
    own = {key: cost / calls for key, cost in profile.own.items() if cost}
    parts = collections.Counter()
    for key, cost in own.items():
        parts[part_of(key)] += cost
    counts = {"puts": result["puts"] / many / (nodes * per_node),
              "sweeps": profile.calls_of("Execution::progress()") / calls}
    return parts, own, counts


def show(title, divisor, unit, parts, own, counts, files):
    print(f"\n{title}: " + ", ".join(f"{value:.1f} {name}" for name, value in counts.items()) + " a call\n")
    rows = [(cost, name) for name, cost in parts.items() if cost / divisor >= 1]
    ours = sum(cost for cost, name in rows if name not in ("the emulated adapter", "copies and reductions"))
    rows.append((ours, "**all but the adapter, copies and reductions**"))
    runs.table(["part", unit], ([name, f"{cost / divisor:.0f}"] for cost, name in sorted(rows, reverse=True)))
    if not files:
        return
    print()
    for cost, key in sorted(((c, k) for k, c in own.items()), reverse=True)[:60]:
        name, file, function = key
        print(f"{cost / divisor:9.1f}  {part_of(key):28} {os.path.basename(name)} {file[-40:]} {function[:90]}")


def chunks(build, files):
    for size, chunk, iterations in ((16 << 20, "64K", (2, 12)), (2 << 20, "2K", (4, 24))):
        parts, own, counts = measure(build, iterations, 2, 2, size, "softnic", {"TWOHOP_CHUNK_BYTES": chunk})
        show(f"2 x 2 over softnic, {runs.size_name(size)} in chunks of {chunk}", counts["puts"], "instructions per put",
             parts, own, counts, files)


def small(build, files):
    for net in ("softnic", "tcp"):
        for size in (8, 64):
            parts, own, counts = measure(build, (200, 1200), 2, 2, size, net, {})
            show(f"2 x 2 over {net}, {size} bytes", 1, "instructions per call", parts, own, counts, files)


FIGURES = {"chunks": chunks, "small": small}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(FIGURES))
    parser.add_argument("--build", default=os.path.join(runs.ROOT, "build", "release"))
    parser.add_argument("--files", action="store_true", help="also the dearest functions, each with its file")
    o = parser.parse_args()
    for name in o.only.split(","):
        FIGURES[name](os.path.abspath(o.build), o.files)


if __name__ == "__main__":
    main()
