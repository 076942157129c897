#!/usr/bin/env python3
"""A slow wire: hosts are network namespaces whose links are limited, TCP, twohop beside Open MPI, interleaved. Root.

    perf/figures/wire.py [--shapes 2x2,4x2,3x2,2x3,8x1@300mbit] [--sizes 64K,4M,64M] [--rate 1gbit] [--rounds 7]

NxP: N hosts of P ranks; @RATE where it is not --rate. Prints the rows for docs/performance.md: share of the link's rate
= S x 2(N-1)/N / rate / time, times as medians over the rounds, and the bytes that the kernel counted out of the
busiest host per call (the difference of two runs, so that start and end cancel out), over the bound 2(N-1)/N x S.
About 25 minutes with the defaults, 7 with --rounds 2.
"""
import argparse
import statistics

import runs
from namespaces import Namespaces

UNITS = {"mbit": 1e6, "gbit": 1e9}


def bits_per_s(rate):
    return float(rate[:-4]) * UNITS[rate[-4:]]


class Shape:
    def __init__(self, text, rate):
        shape, _, own = text.partition("@")
        self.nodes, self.per_node = map(int, shape.split("x"))
        self.rate = own or rate
        self.name = f"{self.nodes} x {self.per_node}" + (f", {own}" if own else "")

    def bound_bytes(self, size):
        return 2 * (self.nodes - 1) / self.nodes * size

    def best_us(self, size):
        return self.bound_bytes(size) * 8 / bits_per_s(self.rate) * 1e6


def twohop(hosts, shape, size, iterations):
    return runs.allreduce(shape.nodes * shape.per_node, size, iterations, "-w", "2",
                          environment={"MASTER_ADDR": hosts.address(0), "TWOHOP_SOCKET_IFNAME": "=eth0"},
                          prefix=lambda rank: hosts.inside(rank // shape.per_node))


def mpi(hosts, shape, size, iterations):
    agent = f"{runs.ROOT}/perf/figures/in_namespace {hosts.names[0][:-1]}"
    where = ",".join(f"{hosts.address(i)}:{shape.per_node}" for i in range(shape.nodes))
    return runs.open_mpi(shape.nodes * shape.per_node, size, iterations, warmup=2, before=hosts.inside_hub(), arguments=[
        "--host", where, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--mca", "btl", "self,vader,tcp",
        "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0,br0"])


def bytes_out(hosts, run):
    """Of the busiest host, per call: run(2) against run(6)."""
    sent = []
    for iterations in (2, 6):
        before = hosts.sent()
        run(iterations)
        sent.append([b - a for a, b in zip(before, hosts.sent())])
    calls = (6 - 2) * 2  # an iteration is one call out of place and, later, one in place
    return max((many - few) / calls for few, many in zip(*sent))


def measure(shape, size, rounds):
    n = max(3, min(200, int(1.5e6 / shape.best_us(size))))
    with Namespaces(shape.nodes, shape.rate) as hosts:
        results = runs.interleaved(rounds, {
            "twohop": lambda: twohop(hosts, shape, size, n),
            "Open MPI": lambda: mpi(hosts, shape, size, n),
        })
        out = bytes_out(hosts, lambda count: twohop(hosts, shape, size, count)) / shape.bound_bytes(size)
    share = {name: shape.best_us(size) / runs.median(of, "mean") for name, of in results.items()}
    ratio = statistics.median(a["mean"] / b["mean"] for a, b in zip(results["twohop"], results["Open MPI"]))
    return [shape.name, runs.size_name(size), f"{runs.median(results['twohop'], 'mean') / 1e3:.2f}",
            f"{share['twohop']:.1%}", f"{share['Open MPI']:.1%}", f"{ratio:.2f}", f"{out:.3f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="2x2,4x2,3x2,2x3,8x1@300mbit")
    parser.add_argument("--sizes", default="64K,4M,64M")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=7)
    o = parser.parse_args()
    runs.table(["nodes x ranks", "size", "twohop, ms", "twohop, share of the rate", "Open MPI", "time ratio",
                "bytes out / bound"],
               (measure(Shape(shape, o.rate), runs.bytes_of(size), o.rounds)
                for shape in o.shapes.split(",") for size in o.sizes.split(",")))


if __name__ == "__main__":
    main()
