#!/usr/bin/env python3
"""Does the verbs transport hold on the kernel's RDMA stack? All on Soft-RoCE between two virtual machines.

    rdma_test.py --perf build/release/perf/allreduce_perf [--rounds N] [TEST...]

One boot serves all tests of class Rdma. Exit code 77 with a message where qemu or the guests' kernel cannot be had.
Times are printed and never asserted: the guests are emulated, and slow when the machine is busy.
"""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True
from lab.cluster import Lab  # noqa: E402
from lab.kernel import LabMissing, boot_files, need  # noqa: E402

OPTIONS = None
RANKS = 2  # per guest
COMPARED = "flat,flat-naive,two-hop,auto"
SMALL = {"TWOHOP_BUFFSIZE": "1M"}  # a communicator for each scheme must fit into a guest
CHUNK = 128 << 10
TIMEOUT_S = 300  # of one command; some seconds on a quiet machine


def say(text):
    print(f"# {text}", flush=True)


class Rdma(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(guests=2, rails=2, show=[os.path.dirname(OPTIONS.perf)], say=say)
        cls.lab.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.lab.__exit__()

    def tearDown(self):
        self.lab.restore()

    def perf(self, *arguments, ranks=RANKS, by=None, status=0, per_guest=None, **variables):
        environment = {"TWOHOP_NET": "verbs", "TWOHOP_TIMEOUT_S": "120", **variables}
        how = {"ranks_per_guest": ranks, "environment": environment, "folder": "/", "timeout": TIMEOUT_S}
        if per_guest:
            how["per_guest"] = per_guest
        before = self.lab.hw_counters()
        ended = (by or self.lab.launch)([OPTIONS.perf, *arguments], **how)
        self.moved = {
            place: {k: v - before[place].get(k, 0) for k, v in counters.items() if v != before[place].get(k, 0)}
            for place, counters in self.lab.hw_counters().items()
        }
        if status == 0:
            self.assertEqual(ended.status, 0, ended.output)
            self.assertIn("0 OK", ended.output)
        else:
            self.assertNotIn(ended.status, (0, 124), ended.output)
        return ended.output

    def assert_both_rails_carried(self, at_least):
        for place, counters in self.moved.items():
            self.assertGreater(counters.get("sent_pkts", 0), at_least, f"guest, rail {place}: {self.moved}")

    def say_counters(self):
        for (guest, rail), counters in sorted(self.moved.items()):
            say(f"guest {guest} rail {rail}: " + ", ".join(f"{k} +{v}" for k, v in sorted(counters.items())))

    def test_all_schemes_over_both_rails(self):
        for schemes in (COMPARED, "two-hop-tree,two-hop-log,one-shot,flat-tree", "node-ring,node-ring-tree,node-ring-log"):
            with self.subTest(schemes=schemes):
                text = self.perf("-b", "4", "-e", "400004", "-f", "46", "-n", "1", "-w", "0", "--scheme", schemes, **SMALL)
                self.assertIn("4 ranks on 2 nodes", text)
                self.assert_both_rails_carried(100)

    def test_types_and_operations_at_odd_sizes(self):
        self.perf("-b", "35003", "-e", "35003", "-n", "1", "-w", "0", "-d", "half,bfloat16,int8,double", "-o", "sum,avg,max")

    def test_messages_cut_over_queue_pairs_of_both_rails(self):
        self.perf("-b", "300000", "-e", "300000", "-n", "1", TWOHOP_IB_QPS_PER_CONNECTION="2",
                  TWOHOP_IB_SPLIT_DATA_ON_QPS="1", TWOHOP_NCHANNELS="1")
        self.assert_both_rails_carried(100)

    def test_started_by_mpirun(self):
        self.assertIn("started by mpi", self.perf("-b", "64K", "-e", "64K", "-n", "1", by=self.lab.mpirun))

    def test_sums_hold_when_packets_are_lost(self):
        self.lab.disturb(loss=1)
        self.perf("-b", "1M", "-e", "1M", "-n", "2", "--scheme", COMPARED, **SMALL)
        self.say_counters()
        repeated = sum(c.get("completer_retry_err", 0) + c.get("duplicate_request", 0) for c in self.moved.values())
        self.assertGreater(repeated, 0, "nothing was lost, so nothing was tested")

    def test_the_smaller_mtu_counts(self):
        self.lab.guests[1].run("ip", "link", "set", "rail0", "mtu", "1500")
        try:
            text = self.perf("-b", "1M", "-e", "1M", "-n", "1", ranks=1)
        finally:
            self.lab.guests[1].run("ip", "link", "set", "rail0", "mtu", "9000")
        self.assertRegex(text, "rxe0:1 has MTU 4096, rxe0:1 of rank 1 1024")

    def test_a_gid_that_is_not_there(self):
        text = self.perf("-b", "8", "-e", "8", ranks=1, status=1, TWOHOP_IB_GID_INDEX="9")
        for part in ("TWOHOP_IB_GID_INDEX=9", "rxe0:1", r"1: 10\.98\.1\.1 \(RoCE v2"):
            self.assertRegex(text, part)

    def test_a_timeout_that_is_too_small(self):
        # The wire answers after 200 ms, and the device waits for some. On one rail, or the other would take over.
        self.lab.disturb(delay=100)
        text = self.perf("-b", "64K", "-e", "64K", ranks=1, status=1, TWOHOP_IB_TIMEOUT="6", TWOHOP_IB_RETRY_CNT="1",
                         TWOHOP_IB_HCA="=rxe0")
        for part in ("queue pair 0x", "rail [01]", "rxe[01]:1", "to rank [01]", r"10\.98\.", "RoCE v2", "MTU 4096",
                     "timeout [67] and 1 retries", "status 12", "retry_exceeded_err", "Likely cause", "TWOHOP_IB_TIMEOUT"):
            self.assertRegex(text, part)

    def await_packets(self, rail, count):
        """Until so many more have been sent on a rail."""
        def sent():
            return sum(c["sent_pkts"] for (_, r), c in self.lab.hw_counters().items() if r == rail)
        end, deadline = sent() + count, time.monotonic() + TIMEOUT_S
        while sent() < end and time.monotonic() < deadline:
            time.sleep(0.2)

    def pull(self):
        self.await_packets(1, 300)
        self.pulled_at = time.monotonic()
        self.lab.set_link(1, False)

    def pull_and_put_back(self):
        self.pull()
        self.await_packets(0, 500)
        self.lab.set_link(1, True)

    def test_a_pulled_cable_costs_no_result(self):
        # And when it is back, the rail is used again. Some calls of 128 packets before, between and after.
        pull = threading.Thread(target=self.pull_and_put_back)
        pull.start()
        text = self.perf("-b", "256K", "-e", "256K", "-n", "200", "-d", "int32", ranks=1, TWOHOP_DEBUG="INFO")
        pull.join()
        # Once for each of two processes, whatever the number of their communicators.
        self.assertEqual(len(re.findall(r"WARN rank \d: rail 1 .rxe1:1. is given up", text)), 2, text)
        self.assertEqual(len(re.findall(r"WARN rank \d: rail rxe1:1 works again", text)), 2, text)
        for part in ("path 1 to rank [01] goes on over rxe0:1", "rail 1 .rxe1:1. carries nothing until it works again",
                     "path 1 to rank [01] goes on over rxe1:1"):
            self.assertRegex(text, part)

    def test_a_pulled_cable_ends_every_rank_without_another(self):
        # Soft-RoCE takes 7 retries for "without end", so the transport has to notice by itself.
        self.lab.after(0, self.pull)  # which waits until the ranks are connected and have data under way
        text = self.perf("-b", "256K", "-e", "256K", "-n", "1000000", "-c", "0", ranks=1, status=1, TWOHOP_IB_TIMEOUT="14",
                         TWOHOP_IB_HCA="=rxe1")
        ended = time.monotonic()
        for part in ("rxe1:1 reports: port error", "rail 0", "the port went down", "completer_retry_err|link_downed"):
            self.assertRegex(text, part)
        for rank in range(2):
            self.assertIn(f"allreduce_perf: rank {rank} of 2", text)
        say(f"ended {ended - self.pulled_at:.0f} s after the cable was pulled")

    def test_bytes_beside_ib_write_bw(self):
        """Both ways over both rails, one after the other, repeated: printed for docs/performance.md.

        Of integers: an emulated processor adds floats one by one, which would be most of what is measured.
        """
        size = 8 << 20
        ratios = {"staged": [], "registered": []}
        for _ in range(OPTIONS.rounds):
            theirs = self.ib_write_bw()
            for how, of in ratios.items():
                more = ("-n", "3", "-d", "int32", "-R", "1" if how == "registered" else "0")
                row = re.search(rf"^\s+{size}\s.*", self.perf("-b", str(size), "-e", str(size), *more, ranks=1), re.M)
                seconds = float(row.group().split()[5]) * 1e-6
                ours = 2 * size / seconds / (1 << 20)  # each of two nodes sends and receives 2(N-1)/N x size
                self.assert_both_rails_carried(1000)
                say(f"both ways over 2 rails: ours, {how}, {ours:.1f} MiB/s, ib_write_bw -b at {CHUNK >> 10} KiB "
                    f"{theirs:.1f} MiB/s{f', ratio {ours / theirs:.2f}' if theirs else ''}")
                if theirs:
                    of.append(ours / theirs)
        for how, of in ratios.items():
            if of:
                say(f"{how}: median ratio of {len(of)} rounds {statistics.median(of):.2f}")

    def ib_write_bw(self):
        """MiB/s of both rails together; 0 if it fails, which is not our fault."""
        # Its own timeout of 67 ms is too small for emulation, and Soft-RoCE then ends it with an invalid request.
        command = (f"for r in 0 1; do ib_write_bw -d rxe$r -x 1 -F -b -u 19 -s {CHUNK} -n 150 -p $((18515 + r)) $0 & done; "
                   "wait")
        servers = self.lab.guests[0].start(["sh", "-c", command, ""])
        try:
            listening = "until [ $(ss -ltn | grep -c ':1851[56] ') = 2 ]; do sleep 0.1; done"
            self.lab.guests[0].run("timeout", "60", "sh", "-c", listening)
            clients = self.lab.guests[1].start(["sh", "-c", command, "10.98.0.1"])
            clients.ended.wait(TIMEOUT_S)
            rows = re.findall(rf"^ {CHUNK} +\d+ +[\d.]+ +([\d.]+)", clients.output, re.M)
            if len(rows) != 2:
                say(f"ib_write_bw failed: {clients.output[-600:]}")
            return sum(map(float, rows)) if len(rows) == 2 else 0.0
        finally:
            self.lab.end([servers])


class Command(unittest.TestCase):
    """scripts/rdma-lab as a user runs it."""

    def test_gives_output_and_status_and_leaves_nothing_when_interrupted(self):
        with tempfile.TemporaryDirectory() as scratch:
            lab = subprocess.Popen([os.path.join(SCRIPTS, "rdma-lab"), "--rails", "1"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=scratch))
            try:
                lab.stdin.write("--by guest -- sh -c 'echo from $(hostname); [ $(hostname) = lab0 ]'\n"
                                "--ranks 2 -- sh -c 'echo rank $RANK of $WORLD_SIZE; exec sleep 1000'\n")
                lab.stdin.close()
                seen = []
                while len([line for line in seen if line.startswith("rank ")]) < 4:
                    seen.append(lab.stdout.readline())
                    self.assertTrue(seen[-1], f"it ended: {seen}")
                self.assertEqual({line.strip() for line in seen if not line.startswith("==")},
                                 {"from lab0", "from lab1"} | {f"rank {r} of 4" for r in range(4)})
                self.assertTrue(self.processes_that_name(scratch))
                lab.send_signal(signal.SIGINT)
                self.assertEqual(lab.wait(60), 128 + signal.SIGINT)
            finally:
                lab.kill()
                lab.wait()
                lab.stdout.close()
            self.assertEqual(os.listdir(scratch), [])
            self.assertEqual(self.processes_that_name(scratch), [])

    @staticmethod
    def processes_that_name(folder):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().replace("\0", " ")
            except OSError:
                continue
            if folder in words:
                found.append(words)
        return found


def why_not():
    try:
        for program in ("qemu-system-x86_64", "dropbear", "ib_write_bw", "mpirun", "tc", "rdma"):
            need(program)
        boot_files(say)
    except LabMissing as missing:
        return str(missing)
    return None


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--perf", required=True, type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=2, help="of the bytes beside ib_write_bw (2)")
    parser.add_argument("tests", nargs="*")
    OPTIONS = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *OPTIONS.tests], verbosity=2)


if __name__ == "__main__":
    main()
