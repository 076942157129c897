#!/usr/bin/env python3
"""What really crosses the wire? Ranks on several hosts, each a network namespace with one link; the links' counters.

    netns_test.py --perf build/release/perf/allreduce_perf [TEST...]

Needs root and iproute2; exit code 77 with a message where they are missing. The namespaces, their bridge and links
have names of this process, are reached by nothing outside, and are removed however the test ends.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "..", "scripts", "lab")]
from job import Job  # noqa: E402
from namespaces import Namespaces  # noqa: E402

OPTIONS = None
SIZE = 16 << 20


class Wire(unittest.TestCase):
    def run_perf(self, cluster, per_node, *arguments):
        nranks = per_node * len(cluster.names)
        job = Job(
            nranks,
            [OPTIONS.perf, "-b", str(SIZE), "-e", str(SIZE), "-w", "1", *arguments],
            {"MASTER_ADDR": cluster.address(0), "TWOHOP_SOCKET_IFNAME": "=eth0"},
            prefix=lambda rank: cluster.inside(rank // per_node),
        )
        with job:
            job.until_ended(120)
            for rank in job.ranks:
                self.assertEqual(rank.process.returncode, 0, job.story())
            return job.ranks[0].text

    def bytes_per_call(self, cluster, per_node, scheme):
        """The busiest link's bytes per call: the difference of two runs, so that start and end cancel out."""
        sent = []
        for iterations in (1, 5):
            before = cluster.sent()
            self.run_perf(cluster, per_node, "--scheme", scheme, "-n", str(iterations))
            sent.append([b - a for a, b in zip(before, cluster.sent())])
        calls = (5 - 1) * 2  # an iteration is one call out of place and, later, one in place
        return max((many - few) / calls for few, many in zip(*sent))

    def check(self, nodes, per_node):
        n = nodes * per_node
        bound = 2 * (nodes - 1) / nodes * SIZE
        naive = per_node * (n - 1) * nodes / (n * (nodes - 1))
        with Namespaces(nodes) as cluster:
            text = self.run_perf(cluster, per_node, "--scheme", "all", "-n", "2")
            self.assertIn("0 OK", text)
            self.assertTrue(re.search(rf"{n} ranks on {nodes} nodes", text), text)
            for scheme, factor, slack in (("two-hop", 1.0, 1.03), ("flat-naive", naive, 1.05)):
                share = self.bytes_per_call(cluster, per_node, scheme) / bound
                print(f"# {nodes} x {per_node} {scheme}: {share:.4f} x 2(N-1)/N x S, expected {factor:.4f}", flush=True)
                self.assertGreaterEqual(share, factor * 0.99)
                self.assertLessEqual(share, factor * slack)

    def test_two_nodes_of_two_ranks(self):
        self.check(2, 2)

    def test_three_nodes_of_two_ranks(self):
        self.check(3, 2)


def why_not():
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    if not shutil.which("ip"):
        return "needs the program ip (package iproute2)"
    try:
        with Namespaces(1):
            return None
    except subprocess.CalledProcessError as error:
        return f"cannot make network namespaces here: {' '.join(error.cmd)}: {error.stderr.strip()}"


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--perf", required=True)
    parser.add_argument("tests", nargs="*")
    OPTIONS = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *OPTIONS.tests], verbosity=2)


if __name__ == "__main__":
    main()
