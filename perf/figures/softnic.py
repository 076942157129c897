#!/usr/bin/env python3
"""RDMA on the emulated device: doorbells, completions, a slow wire, rails, batching. Virtual nodes are emulated hosts.

    perf/figures/softnic.py [--rounds 3] [--only doorbells,wire,rails,batching,latency,checks]

Prints the rows for docs/performance.md; counts are sums over the ranks, times medians over the rounds, what is compared
runs interleaved. About 5 minutes with the defaults.
"""
import argparse
import os
import re
import statistics

import runs


def run(nodes, per_node, settings, size, iterations, environment=None):
    domain = f"figures{os.getpid()}"
    return runs.allreduce(
        nodes * per_node, size, iterations, "-w", "1",
        environment={"TWOHOP_NET": "softnic", "TWOHOP_RANKS_PER_NODE": str(per_node), "TWOHOP_DEBUG": "INFO",
                     **(environment or {})},
        of_rank=lambda rank: {"SOFTNIC": f"{settings},domain={domain},host={rank // per_node}"})


def mib_per_rank(result):
    return max(float(m) for text in result["texts"] for m in re.findall(r"([\d.]+) MiB of windows", text))


def doorbells(rounds):
    for settings in ("devices=1", "devices=1,rate=2g"):
        for channels in ("16", "8"):
            of = [run(4, 2, settings, 16 << 20, 5, {"TWOHOP_CHUNK_BYTES": "64K", "TWOHOP_NCHANNELS": channels})
                  for _ in range(rounds)]
            puts = statistics.median(r["puts"] / r["doorbells"] for r in of)
            signals = statistics.median(r["work_requests"] / max(1, r["signalled_completions"]) for r in of)
            bells, completions = (statistics.median(r[key] / (sum(r["rail_bytes"]) / (1 << 20)) for r in of)
                                  for key in ("doorbells", "signalled_completions"))
            yield [f"4 x 2, 16 MiB, 64 KiB chunks, {settings}, {channels} channels",
                   f"{puts:.1f} puts per doorbell; {signals:.1f} work requests per signalled completion; "
                   f"{bells:.2f} doorbells and {completions:.2f} completions per MiB; "
                   f"{mib_per_rank(of[0]):.0f} MiB of windows and inboxes a rank"]


def wire(rounds):
    for nodes, per_node, rate, bits in ((4, 1, "250m", 250e6), (4, 2, "500m", 500e6), (2, 2, "500m", 500e6)):
        size = 64 << 20
        best_us = 2 * (nodes - 1) / nodes * size * 8 / bits * 1e6
        of = [run(nodes, per_node, f"devices=1,rate={rate}", size, 2) for _ in range(rounds)]
        took = runs.median(of, "mean")
        yield [f"{nodes} x {per_node}, 64 MiB, rate={rate}", f"{took / 1e3:.0f} ms, bound {best_us / 1e3:.0f} ms: {best_us / took:.1%}"]


def rails(rounds):
    of = runs.interleaved(rounds, {
        str(d): lambda d=d: run(4, 1, f"devices={d},rate=100m", 8 << 20, 2, {"TWOHOP_CHUNK_BYTES": "64K"}) for d in (1, 2)})
    one, two = runs.median(of["1"], "mean"), runs.median(of["2"], "mean")
    yield ["4 x 1, 8 MiB, rate=100m, 1 rail against 2", f"{one / 1e3:.0f} ms / {two / 1e3:.0f} ms = {one / two:.2f}"]


def batching(rounds):
    of = runs.interleaved(rounds, {
        b: lambda b=b: run(2, 1, "devices=1,doorbell=2us", 4 << 20, 5, {"TWOHOP_CHUNK_BYTES": "4K", "TWOHOP_DOORBELL_BATCH": b})
        for b in ("1", "64")})
    alone, together = runs.median(of["1"], "mean"), runs.median(of["64"], "mean")
    yield ["2 x 1, 4 MiB, 4 KiB chunks, doorbell=2us, TWOHOP_DOORBELL_BATCH 1 against 64",
           f"{alone / 1e3:.1f} ms / {together / 1e3:.1f} ms = {alone / together:.2f}"]


def latency(rounds):
    of = runs.interleaved(rounds, {
        b: lambda b=b: run(2, 1, "devices=1", 8, 500, {"TWOHOP_DOORBELL_BATCH": b}) for b in ("1", "64")})
    alone, together = runs.median(of["1"], "median"), runs.median(of["64"], "median")
    yield ["2 x 1, 8 B, TWOHOP_DOORBELL_BATCH 1 against 64", f"{alone:.1f} us / {together:.1f} us"]


def checks(rounds):
    """What TWOHOP_CHECK=1 costs: pairs of runs, of which the median ratio counts."""
    for net in ("tcp", "softnic"):
        for size, iterations in ((4 << 10, 300), (1 << 20, 30), (16 << 20, 5)):
            of = runs.interleaved(rounds, {
                c: lambda c=c: run(2, 1, "devices=1", size, iterations, {"TWOHOP_NET": net, "TWOHOP_CHECK": c})
                for c in ("0", "1")})
            ratio = statistics.median(b["mean"] / a["mean"] for a, b in zip(of["0"], of["1"]))
            yield [f"2 x 1, {net}, {size >> 10} KiB, TWOHOP_CHECK 0 against 1",
                   f"{runs.median(of['0'], 'mean'):.0f} us / {runs.median(of['1'], 'mean'):.0f} us; {ratio:.2f} times"]


FIGURES = {"doorbells": doorbells, "wire": wire, "rails": rails, "batching": batching, "latency": latency, "checks": checks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(FIGURES))
    o = parser.parse_args()
    runs.table(["what", "result"], (row for name in o.only.split(",") for row in FIGURES[name](o.rounds)))


if __name__ == "__main__":
    main()
