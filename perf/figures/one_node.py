#!/usr/bin/env python3
"""One node: time of an all-reduce (float32 sum, out of place) beside Open MPI's over shared memory, interleaved.

    perf/figures/one_node.py [--ranks 2,4,8] [--sizes 8,4K,32K,256K,2M,64M] [--rounds 7] [--seconds 0.4]

Prints the rows for docs/performance.md: medians over the rounds of the mean, of the ratios in each round, and of
p99 / median. About 6 minutes with the defaults on an idle machine of 2 cores.
"""
import argparse
import statistics

import runs


def iterations_for(size, nranks, seconds):
    per_call_us = 1 + 2 * nranks + size * nranks / 4000  # rough; only sets how long a run takes
    return max(5, min(20000, int(seconds * 1e6 / per_call_us)))


def measure(nranks, size, rounds, seconds):
    n = iterations_for(size, nranks, seconds)
    results = runs.interleaved(rounds, {
        "twohop": lambda: runs.allreduce(nranks, size, n, "-w", "10"),
        "Open MPI": lambda: runs.open_mpi(nranks, size, n, warmup=10, arguments=["--mca", "btl", "self,vader"]),
    })
    ours, theirs = results["twohop"], results["Open MPI"]
    ratio = [statistics.median(a[of] / b[of] for a, b in zip(ours, theirs)) for of in ("mean", "median", "p99")]
    tail = [statistics.median(r["p99"] / r["median"] for r in of) for of in (ours, theirs)]
    return [nranks, runs.size_name(size), f"{runs.median(ours, 'mean'):.2f}", f"{runs.median(theirs, 'mean'):.2f}",
            *(f"{value:.2f}" for value in (*ratio, *tail))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default="8,4K,32K,256K,2M,64M")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4, help="of one run, roughly")
    o = parser.parse_args()
    runs.table(["ranks", "size", "twohop, us", "Open MPI, us", "ratio of means", "of medians", "of p99",
                "p99 / median", "of Open MPI"],
               (measure(int(n), runs.bytes_of(size), o.rounds, o.seconds)
                for n in o.ranks.split(",") for size in o.sizes.split(",")))


if __name__ == "__main__":
    main()
