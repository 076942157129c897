#!/usr/bin/env python3
"""How far are the model's predictions from measured times? Writes the table for docs/performance.md.

usage: perf/figures/model_error.py [--build build/release] [--wires softnic,netns] [--nodes 2,4] [--sizes 4K,64K,1M,16M,64M]
                           [--schemes two-hop,flat] [--ranks-per-node 2] [--rate 1gbit] [--softnic-rate 1g]
                           [--iterations N] [--output FILE]

Calls use 2 channels. For each wire a model is calibrated there first (perf/calibrate), then all schemes are measured (allreduce_perf) and
predicted (twohop plan --json --as-given) over the sizes. softnic: the emulated RDMA device between virtual nodes of this
machine. netns: TCP between network namespaces whose links are held to --rate; needs root, skipped with a message without.
The last lines are the median error and the share of cells in which the predicted winner is the measured one; a cell whose
schemes differ by less than 5 % in measurement counts as won by either.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import runs
from namespaces import Namespaces

TIE = 1.05
SHORT = 256 << 10
CHANNELS = {"TWOHOP_NCHANNELS": "2"}


class Place:
    """Where ranks run; `how`: with what variables, and behind what."""

    def __init__(self, options, nodes, variables, **how):
        self.options, self.nodes, self.how = options, nodes, how
        self.variables = {**CHANNELS, **variables}

    def run(self, command):
        nranks = self.nodes * self.options.ranks_per_node
        return runs.run_ranks(nranks, [str(word) for word in command], environment=self.variables, timeout=600, **self.how)[0]


@contextlib.contextmanager
def softnic(options, nodes):
    """Virtual nodes on this machine, each with an emulated device of its own."""
    device = f"devices=1,domain=model{os.getpid()}n{nodes},rate={options.softnic_rate}"
    yield Place(options, nodes, {"TWOHOP_NET": "softnic", "TWOHOP_RANKS_PER_NODE": str(options.ranks_per_node)},
                of_rank=lambda rank: {"SOFTNIC": f"{device},host={rank // options.ranks_per_node}"})


@contextlib.contextmanager
def netns(options, nodes):
    """Network namespaces with a rate limit on both ends of each link."""
    with Namespaces(nodes, options.rate) as hosts:
        yield Place(options, nodes, {"TWOHOP_NET": "tcp", "MASTER_ADDR": hosts.address(0), "TWOHOP_SOCKET_IFNAME": "=eth0"},
                    prefix=lambda rank: hosts.inside(rank // options.ranks_per_node))


WIRES = {"softnic": softnic, "netns": netns}
BASES = {"softnic": "softnic", "netns": "tcp"}


def calibrate(wire, place, model):
    build = pathlib.Path(place.options.build)
    text = place.run([build / "perf" / "calibrate", "-o", model, "--base", BASES[wire]])
    print(f"# {wire}, {place.nodes} nodes: calibrated\n{text}", file=sys.stderr)


def measure(place, folder):
    """{(scheme, bytes): us}, out of place: medians over runs, of which short calls get more."""
    build, report = pathlib.Path(place.options.build), folder / "measured.json"
    times = {}
    for size in [s for s in place.options.sizes for _ in range(7 if s <= SHORT else 1)]:
        iterations = place.options.iterations or max(3, min(200, (8 << 20) // size))
        place.run([build / "perf" / "allreduce_perf", "-b", size, "-e", size, "-n", iterations, "-w", 2, "-c", 0,
                   "--scheme", ",".join(place.options.schemes), "--json", report])
        for row in json.loads(report.read_text())["results"]:
            if not row["in_place"]:
                times.setdefault((row["scheme"], row["bytes"]), []).append(row["time_us"]["median"])
    return {cell: statistics.median(of) for cell, of in times.items()}


def predict(place, model):
    """The same."""
    times = {}
    for size in place.options.sizes:
        for scheme in place.options.schemes:
            command = [pathlib.Path(place.options.build) / "tools" / "twohop", "plan", "--json", "--as-given", "--model",
                       model, "--nodes", place.nodes, "--ranks-per-node", place.options.ranks_per_node, "--algo", scheme,
                       "--bytes", size]
            plan = json.loads(subprocess.check_output([str(c) for c in command], text=True))
            times[scheme, size] = plan["candidates"][0]["time_us"]
    return times


def cells(wire, place, model, folder):
    measured, predicted = measure(place, folder), predict(place, model)
    for size in place.options.sizes:
        schemes = place.options.schemes
        best = min(schemes, key=lambda s: predicted[s, size])
        won = measured[best, size] <= TIE * min(measured[s, size] for s in schemes)
        for scheme in schemes:
            yield {"wire": wire, "nodes": place.nodes, "size": size, "scheme": scheme,
                   "measured": measured[scheme, size], "predicted": predicted[scheme, size], "winner": best, "won": won}


def table(rows):
    lines = ["| wire | nodes | bytes | scheme | measured us | predicted us | error | winner predicted |",
             "|---|---:|---:|---|---:|---:|---:|---|"]
    for r in rows:
        error = r["predicted"] / r["measured"] - 1
        lines.append(f"| {r['wire']} | {r['nodes']} | {r['size']} | {r['scheme']} | {r['measured']:.0f} | "
                     f"{r['predicted']:.0f} | {100 * error:+.0f} % | {r['winner']}{'' if r['won'] else ' (wrong)'} |")
    errors = [abs(r["predicted"] / r["measured"] - 1) for r in rows]
    decided = {(r["wire"], r["nodes"], r["size"]): r["won"] for r in rows}
    lines += ["", f"Median error {100 * statistics.median(errors):.0f} %; the predicted winner is the measured one in "
                  f"{100 * sum(decided.values()) / len(decided):.0f} % of {len(decided)} cells."]
    return "\n".join(lines) + "\n"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--build", default=os.path.join(runs.ROOT, "build", "release"))
    parser.add_argument("--wires", type=words, default=list(WIRES))
    parser.add_argument("--nodes", type=lambda t: [int(n) for n in t.split(",")], default=[2, 4])
    parser.add_argument("--sizes", type=lambda t: [runs.bytes_of(s) for s in t.split(",")],
                        default=[runs.bytes_of(s) for s in ("4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M")])
    parser.add_argument("--schemes", type=words, default=["two-hop", "flat"])
    parser.add_argument("--ranks-per-node", type=int, default=2)
    parser.add_argument("--rate", default="1gbit", help="of each namespace's link")
    parser.add_argument("--softnic-rate", default="1g", help="of each emulated port")
    parser.add_argument("--iterations", type=int, default=0, help="0: by size")
    parser.add_argument("--output", help="also write the table into this file")
    return parser.parse_args()


def main():
    options = parse_arguments()
    rows = []
    for wire in options.wires:
        if wire == "netns" and os.geteuid() != 0:
            print("netns skipped: network namespaces need root", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model.json"
            for i, nodes in enumerate(options.nodes):
                with WIRES[wire](options, nodes) as place:
                    if i == 0:  # the larger clusters are predicted from the smallest one's model
                        calibrate(wire, place, model)
                    rows += cells(wire, place, model, pathlib.Path(folder))
    if not rows:
        return 77
    text = table(rows)
    print(text, end="")
    if options.output:
        pathlib.Path(options.output).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
