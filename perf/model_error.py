#!/usr/bin/env python3
"""How far are the model's predictions from measured times? Writes the table for docs/performance.md.

usage: perf/model_error.py [--build build/release] [--wires softnic,netns] [--nodes 2,4] [--sizes 4K,64K,1M,16M,64M]
                           [--schemes two-hop,flat] [--ranks-per-node 2] [--rate 1gbit] [--softnic-rate 2g]
                           [--iterations N] [--output FILE]

Calls use 2 channels. For each wire a model is calibrated there first (perf/calibrate), then all schemes are measured (allreduce_perf) and
predicted (twohop plan --json --as-given) over the sizes. softnic: the emulated RDMA device between virtual nodes of this
machine. netns: TCP between network namespaces whose links are held to --rate; needs root, skipped with a message without.
The last lines are the median error and the share of cells in which the predicted winner is the measured one; a cell whose
schemes differ by less than 5 % in measurement counts as won by either.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
sys.path.insert(0, str(ROOT / "tests" / "lab"))
from job import Job  # noqa: E402

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
TIE = 1.05


def size_of(text):
    return int(float(text[:-1]) * UNITS[text[-1]]) if text[-1] in UNITS else int(text)


class Softnic:
    """Virtual nodes on this machine over the emulated device."""

    name = "softnic"

    def __init__(self, options, nodes):
        self.options, self.nodes = options, nodes
        self.domain = f"model{os.getpid()}n{nodes}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def variables(self):
        return {"TWOHOP_NET": "softnic", "TWOHOP_NCHANNELS": "2", "SOFTNIC": f"devices=1,domain={self.domain},rate={self.options.softnic_rate}",
                "TWOHOP_RANKS_PER_NODE": str(self.options.ranks_per_node)}

    def prefix(self, _rank):
        return []


class Namespaces:
    """Network namespaces with a rate limit on both ends of each link."""

    name = "netns"

    def __init__(self, options, nodes):
        import netns_test
        self.options, self.nodes = options, nodes
        self.cluster = netns_test.Cluster(nodes)

    def __enter__(self):
        import netns_test
        self.cluster.__enter__()
        try:
            limit = ["root", "tbf", "rate", self.options.rate, "burst", "256kb", "latency", "20ms"]
            for i, name in enumerate(self.cluster.names):
                for space, device in ((name, "eth0"), (self.cluster.hub, f"v{i}")):
                    subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", device, *limit], check=True)
        except BaseException:
            self.cluster.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.cluster.__exit__()

    def variables(self):
        return {"TWOHOP_NET": "tcp", "TWOHOP_NCHANNELS": "2", "MASTER_ADDR": self.cluster.address(0), "TWOHOP_SOCKET_IFNAME": "=eth0"}

    def prefix(self, rank):
        return ["ip", "netns", "exec", self.cluster.names[rank // self.options.ranks_per_node]]


WIRES = {"softnic": Softnic, "netns": Namespaces}


def why_not(wire):
    if wire != "netns":
        return None
    import netns_test
    return netns_test.why_not()


def run_ranks(place, command, seconds):
    nranks = place.nodes * place.options.ranks_per_node
    with Job(nranks, [str(c) for c in command], place.variables(), prefix=place.prefix) as job:
        job.until_ended(seconds)
        for rank in job.ranks:
            if rank.process.returncode != 0:
                raise RuntimeError(job.story())
        return job.ranks[0].text


def calibrate(place, model):
    build = pathlib.Path(place.options.build)
    text = run_ranks(place, [build / "perf" / "calibrate", "-o", model, "--base",
                             "softnic" if place.name == "softnic" else "tcp"], 600)
    print(f"# {place.name}, {place.nodes} nodes: calibrated\n{text}", file=sys.stderr)


def measure(place, folder):
    """{(scheme, bytes): us}, out of place."""
    build, report = pathlib.Path(place.options.build), folder / "measured.json"
    times = {}
    for size in place.options.sizes:
        iterations = place.options.iterations or max(3, min(200, (8 << 20) // size))
        run_ranks(place, [build / "perf" / "allreduce_perf", "-b", size, "-e", size, "-n", iterations, "-w", 2, "-c", 0,
                          "--scheme", ",".join(place.options.schemes), "--json", report], 600)
        for row in json.loads(report.read_text())["results"]:
            if not row["in_place"]:
                times[row["scheme"], row["bytes"]] = row["time_us"]["median"]
    return times


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


def cells(place, model, folder):
    measured, predicted = measure(place, folder), predict(place, model)
    for size in place.options.sizes:
        schemes = place.options.schemes
        best = min(schemes, key=lambda s: predicted[s, size])
        won = measured[best, size] <= TIE * min(measured[s, size] for s in schemes)
        for scheme in schemes:
            yield {"wire": place.name, "nodes": place.nodes, "size": size, "scheme": scheme,
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
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--wires", type=words, default=list(WIRES))
    parser.add_argument("--nodes", type=lambda t: [int(n) for n in t.split(",")], default=[2, 4])
    parser.add_argument("--sizes", type=lambda t: [size_of(s) for s in t.split(",")],
                        default=[size_of(s) for s in ("4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M")])
    parser.add_argument("--schemes", type=words, default=["two-hop", "flat"])
    parser.add_argument("--ranks-per-node", type=int, default=2)
    parser.add_argument("--rate", default="1gbit", help="of each namespace's link")
    parser.add_argument("--softnic-rate", default="2g", help="of each emulated port; 0: no limit, the cores are")
    parser.add_argument("--iterations", type=int, default=0, help="0: by size")
    parser.add_argument("--output", help="also write the table into this file")
    return parser.parse_args()


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces and ranks are cleaned up
    rows = []
    for wire in options.wires:
        reason = why_not(wire)
        if reason:
            print(f"{wire} skipped: {reason}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model.json"
            for i, nodes in enumerate(options.nodes):
                with WIRES[wire](options, nodes) as place:
                    if i == 0:  # the larger clusters are predicted from the smallest one's model
                        calibrate(place, model)
                    rows += cells(place, model, pathlib.Path(folder))
    if not rows:
        return 77
    text = table(rows)
    print(text, end="")
    if options.output:
        pathlib.Path(options.output).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
