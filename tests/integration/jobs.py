#!/usr/bin/env python3
"""Real jobs of several processes, and what may happen to them. jobs.py --worker W --perf P [--mpirun M] TEST...

Each test is bounded, uses the loopback only and ends every process that it started. Exit code 77: everything skipped.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from job import Job, abstract_sockets, sockets_of

# twohopResult_t
INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, TIMEOUT, ABORTED = 4, 5, 6, 8, 9
OPTIONS = None
# How long a job on a busy machine may take to form; failures have their own, tighter bounds.
START_S = 60


def worker(*arguments):
    return [OPTIONS.worker, *map(str, arguments)]


class Late(AssertionError):
    """Everything was right but the time."""


class JobCase(unittest.TestCase):
    def assert_all_done(self, job):
        job.until_ended(START_S)
        for rank in job.ranks:
            self.assertEqual(rank.process.returncode, 0, job.story())

    def assert_errors(self, job, ranks, code, within_s, since):
        """Ranks end their call with `code`, told at most within_s after `since`, and refuse further calls."""
        job.until_event("error", within_s + 20, ranks)
        for rank in job.pick(ranks):
            error = rank.find("error")[0]
            self.assertEqual(error["result"], code, job.story())
            self.assertTrue(error["message"], job.story())
        job.until_ended(30, ranks)
        for rank in job.pick(ranks):
            took = rank.find("error")[0]["t"] - since
            if took > within_s:
                raise Late(f"rank {rank.number} noticed after {took:.2f} s, allowed are {within_s}\n{job.story()}")

    def soon(self, attempt, *arguments):
        """Again if only the time was wrong: another program may have had the cores. Who is always late fails."""
        for _ in range(2):
            try:
                return attempt(*arguments)
            except Late as late:
                print(f"# once more: {str(late).splitlines()[0]}", flush=True)
        return attempt(*arguments)


class Launching(JobCase):
    def run_shape(self, nranks, nodes, environment=None, per_rank=None):
        with Job(nranks, worker("shape"), environment, per_rank) as job:
            self.assert_all_done(job)
            for rank in job.ranks:
                self.assertEqual(rank.find("shape")[0]["nnodes"], nodes, job.story())
                self.assertEqual([e["wrong"] for e in rank.find("result")], [0, 0, 0, 0], job.story())

    def test_one_node(self):
        for n in (1, 2, 4):
            self.run_shape(n, 1)

    def test_virtual_nodes(self):
        for n, per_node, nodes in ((2, 1, 2), (3, 2, 2), (4, 2, 2), (8, 4, 2), (8, 2, 4)):
            self.run_shape(n, nodes, {"TWOHOP_RANKS_PER_NODE": str(per_node)})

    def test_uneven_nodes_by_host_id(self):
        for groups in ("aaab", "aab", "abc", "abbb", "abab", "aabc"):
            ids = {r: {"TWOHOP_HOSTID": group} for r, group in enumerate(groups)}
            self.run_shape(len(groups), len(set(groups)), per_rank=ids)

    def test_works_with_a_tiny_shared_memory_file_system(self):
        mount = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"', "sh"]
        if os.geteuid() != 0 or subprocess.run(mount + ["true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("needs root and a mount namespace")
        with Job(3, worker("shape"), prefix=lambda rank: mount) as job:
            self.assert_all_done(job)
            for rank in job.ranks:
                self.assertEqual(rank.find("shape")[0]["nnodes"], 1, job.story())

    def test_ranks_may_exit_without_destroying(self):
        for per_node in ("0", "1", "2"):
            for _ in range(4):
                with Job(4, worker("leave"), {"TWOHOP_RANKS_PER_NODE": per_node}) as job:
                    self.assert_all_done(job)
                    self.assertEqual([r.find("result")[0]["wrong"] for r in job.ranks], [0] * 4, job.story())

    def test_a_forked_child_cannot_disturb_its_parent(self):
        for per_node in ("0", "1"):
            with Job(2, worker("fork"), {"TWOHOP_RANKS_PER_NODE": per_node}) as job:
                self.assert_all_done(job)
                child = job.ranks[0].find("child")[0]
                self.assertEqual([child[k] for k in ("used", "destroyed", "made")],
                                 [INVALID_ARGUMENT, INVALID_ARGUMENT, INVALID_USAGE], job.story())
                self.assertEqual([r.find("result")[0]["wrong"] for r in job.ranks], [0, 0], job.story())

    def test_without_a_secret_nothing_listens_beyond_loopback(self):
        with Job(2, worker("loop", "1000"), {"TWOHOP_RANKS_PER_NODE": "1", "TWOHOP_JOB_SECRET": ""}) as job:
            job.until_event("running", START_S)
            sockets = set()
            for rank in job.ranks:
                for fd in os.listdir(f"/proc/{rank.process.pid}/fd"):
                    try:
                        sockets.add(os.readlink(f"/proc/{rank.process.pid}/fd/{fd}"))
                    except FileNotFoundError:
                        pass
            for line in open("/proc/net/tcp").readlines()[1:]:
                field = line.split()
                if f"socket:[{field[9]}]" in sockets:
                    self.assertEqual(field[1][6:8], "7F", f"local address {field[1]}: {job.story()}")

    def test_names_the_rank_that_is_missing(self):
        job = Job(3, worker("shape"), {"TWOHOP_INIT_TIMEOUT_S": "3"})

        try:
            for rank in (0, 1):
                job.start(rank)
            job.until_ended(20)
            for rank in job.ranks:
                error = rank.find("error")[0]
                self.assertEqual(error["result"], TIMEOUT, job.story())
                self.assertRegex(error["message"], r"\b2\b", job.story())
        finally:
            job.__exit__()

    def test_strangers_at_the_rendezvous_do_no_harm(self):
        job = Job(4, worker("shape"), {"TWOHOP_RANKS_PER_NODE": "2"})
        stop = threading.Event()
        seed = random.randrange(1 << 32)
        print(f"# seed {seed}", flush=True)
        strangers = [threading.Thread(target=stranger, args=(job.port, seed + i, stop)) for i in range(5)]
        try:
            for thread in strangers:
                thread.start()
            job.start(0)
            job.until_event("starting", START_S)
            for rank in (1, 2, 3):
                job.start(rank)
            self.assert_all_done(job)
            for rank in job.ranks:
                self.assertEqual([e["wrong"] for e in rank.find("result")], [0, 0, 0, 0], job.story())
        finally:
            stop.set()
            job.__exit__()
            for thread in strangers:
                thread.join()

    def test_a_wrong_secret_is_refused(self):
        with Job(2, worker("shape"), {"TWOHOP_INIT_TIMEOUT_S": "4"}, {1: {"TWOHOP_JOB_SECRET": "another"}}) as job:
            job.until_ended(30)
            for rank in job.ranks:
                self.assertEqual(rank.process.returncode, 3, job.story())


def children_of(pids):
    """By the parents of all processes: not every kernel lists the children of one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent in pids:
            found.append(int(pid))
    return found


def stranger(port, seed, stop):
    """Connects again and again: says nothing, or garbage, or too much, and sometimes just leaves."""
    rng = random.Random(seed)
    held = []
    while not stop.is_set():
        try:
            peer = socket.create_connection(("127.0.0.1", port), timeout=0.2)
        except OSError:
            stop.wait(0.01)
            continue
        peer.setblocking(False)
        try:
            peer.send(rng.randbytes(rng.choice((0, 1, 8, 100, 5000))) or b"")
        except OSError:
            pass
        held.append(peer)
        if len(held) > 20:
            held.pop(rng.randrange(len(held))).close()
        stop.wait(0.02)
    for peer in held:
        peer.close()


class Failures(JobCase):
    SHAPES = ((4, {}), (4, {"TWOHOP_RANKS_PER_NODE": "2"}), (3, {"TWOHOP_RANKS_PER_NODE": "1"}))

    def test_a_killed_rank_is_noticed_within_a_second(self):
        for nranks, environment in self.SHAPES:
            for victim in (0, nranks - 1):
                for count in (64, 4 << 20):
                    with self.subTest(nranks=nranks, environment=environment, victim=victim, count=count):
                        self.soon(self.kill_one, nranks, environment, victim, worker("loop", count))

    def test_a_killed_rank_is_noticed_between_calls(self):
        for nranks, environment in self.SHAPES:
            with self.subTest(nranks=nranks, environment=environment):
                self.soon(self.kill_one, nranks, environment, 1, worker("between-calls"))

    def kill_one(self, nranks, environment, victim, command):
        with Job(nranks, command, environment) as job:
            job.until_event("running", START_S)
            others = [r for r in range(nranks) if r != victim]
            since = time.monotonic()
            job.ranks[victim].process.kill()
            self.assert_errors(job, others, REMOTE_ERROR, 1.0, since)

    def test_a_killed_job_leaves_nothing_behind(self):
        shm = set(os.listdir("/dev/shm"))
        with Job(4, worker("loop", 100000), {"TWOHOP_RANKS_PER_NODE": "2"}) as job:
            job.until_event("running", START_S)
            pids = [r.process.pid for r in job.ranks]
            names = set().union(*(sockets_of(pid) for pid in pids))
            children = children_of(pids)
            for rank in job.ranks:
                rank.process.kill()
            job.until_ended(10)
        self.assertEqual(children, [], "a rank has started processes of its own")
        left = names & {name for _, name in abstract_sockets()}
        self.assertEqual(left, set())
        mine = {f for f in set(os.listdir("/dev/shm")) - shm if "twohop" in f.lower() or any(str(p) in f for p in pids)}
        self.assertEqual(mine, set())

    def test_a_stopped_rank_is_a_timeout(self):
        for nranks, environment in self.SHAPES:
            with self.subTest(nranks=nranks, environment=environment):
                with Job(nranks, worker("loop", 1000), dict(environment, TWOHOP_TIMEOUT_S="2")) as job:
                    job.until_event("running", START_S)
                    os.kill(job.ranks[1].process.pid, signal.SIGSTOP)
                    others = [r for r in range(nranks) if r != 1]
                    self.assert_errors(job, others, TIMEOUT, 8.0, time.monotonic())
                    self.assertRegex(job.story(), r"rank\(s\) 1 did not say where they are", "who is late")
                    self.assertRegex(job.story(), r"channel +lane +round", "the table of lanes")

    def test_calls_that_do_not_match_are_never_computed(self):
        for nranks, environment in self.SHAPES:
            for what in ("count", "zero", "type", "op", "collective"):
                with self.subTest(nranks=nranks, environment=environment, what=what):
                    with Job(nranks, worker("mismatch", what), environment) as job:
                        job.until_ended(START_S)
                        for rank in job.ranks:
                            self.assertEqual(rank.find("result"), [], job.story())
                            errors = [e["result"] for e in rank.find("error")]
                            self.assertEqual(errors[:1], [INVALID_USAGE], job.story())

    def test_an_abort_ends_the_calls_of_all_ranks(self):
        for nranks, environment in self.SHAPES:
            with self.subTest(nranks=nranks, environment=environment):
                self.soon(self.abort_one, nranks, environment)

    def abort_one(self, nranks, environment):
        with Job(nranks, worker("abort", 100000), environment) as job:
            job.until_event("aborting", START_S, [0])
            since = job.ranks[0].find("aborting")[0]["t"]
            self.assert_errors(job, range(nranks), ABORTED, 1.5, since)


class Costs(JobCase):
    def test_a_waiting_rank_uses_no_cpu(self):
        for nranks, environment in Failures.SHAPES:
            with self.subTest(nranks=nranks, environment=environment):
                with Job(nranks, worker("late", 2), environment) as job:
                    self.assert_all_done(job)
                    for rank in job.ranks[1:]:
                        waited = rank.find("waited")[0]
                        self.assertGreater(waited["wall"], 1.0, job.story())
                        self.assertLess(waited["cpu"], 0.1 * waited["wall"], job.story())

    def test_a_call_neither_allocates_nor_faults(self):
        for nranks, environment in Failures.SHAPES[:2]:
            for count in (1, 50000):
                with self.subTest(nranks=nranks, environment=environment, count=count):
                    with Job(nranks, worker("steady", count), environment) as job:
                        self.assert_all_done(job)
                        for rank in job.ranks:
                            steady = rank.find("steady")[0]
                            # Per 1000 calls; a few are left to the C library's and the kernel's own doings.
                            self.assertLess(steady["faults"], 20, job.story())
                            self.assertLess(steady.get("allocations", 0), 20, job.story())


class Perf(JobCase):
    NCCL_ROW = re.compile(r"^\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]")

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="twohop-perf-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.json = os.path.join(self.folder, "out.json")

    def perf(self, nranks, *arguments, environment=None, exit_code=0):
        """Runs allreduce_perf by RANK and WORLD_SIZE; rank 0's rows and the JSON results."""
        with Job(nranks, [OPTIONS.perf, "--json", self.json, *map(str, arguments)], environment) as job:
            job.until_ended(300)
            for rank in job.ranks:
                self.assertEqual(rank.process.returncode, exit_code, job.story())
            return self.report(job.ranks[0].text)

    def report(self, text):
        rows = [line.split() for line in text.splitlines() if self.NCCL_ROW.match(line)]
        with open(self.json) as file:
            return rows, json.load(file)["results"], text

    def test_alone(self):
        environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
        command = [OPTIONS.perf, "-b", "8", "-e", "1M", "-f", "8", "-n", "2", "--json", self.json]
        out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("# Out of bounds values : 0 OK", out.stdout)

    def test_columns_are_those_of_nccl_tests(self):
        rows, results, text = self.perf(2, "-b", 8, "-e", "64K", "-f", 8, "-n", 5)
        self.assertEqual({len(r) for r in rows}, {13}, text)
        self.assertEqual(len(results), 2 * len(rows))
        rows, _, text = self.perf(2, "-b", 8, "-e", "64K", "-f", 8, "-n", 5, "-I", 1)
        self.assertEqual({len(r) for r in rows}, {21}, text)

    def test_all_types_and_operations_over_all_schemes(self):
        for nranks, per_node in ((2, 1), (3, 2), (4, 2), (8, 4)):
            with self.subTest(nranks=nranks, per_node=per_node):
                rows, results, text = self.perf(
                    nranks, "-b", 999, "-e", 999, "-d", "all", "-o", "all", "-n", 1, "-w", 0, "--scheme", "all",
                    "--ranks-per-node", per_node,
                )  # fmt: skip
                schemes = re.findall(r"^# scheme (\S+)$", text, re.M)
                self.assertLessEqual({"flat", "flat-naive", "two-hop", "auto"}, set(schemes), text)
                self.assertEqual(len(rows), 12 * 6 * len(schemes), text)
                self.assertEqual({r["nwrong"] for r in results}, {0})

    def test_registers_its_buffers_when_told_to(self):
        for scheme, nranks, per_node in (("two-hop,flat", 2, 1), ("auto", 4, 2)):
            with self.subTest(scheme=scheme):
                arguments = ("-b", 4, "-e", "4M", "-f", 32, "-n", 2, "-R", 1, "--scheme", scheme)
                _, results, text = self.perf(nranks, *arguments, "--ranks-per-node", per_node)
                self.assertIn("# Buffers registered with every communicator", text)
                self.assertEqual({r["nwrong"] for r in results}, {0})
        # The network's device is asked, which may refuse.
        environment = {"TWOHOP_NET": "softnic", "SOFTNIC": "devices=1,memlock=160m,domain=registers"}
        command = [OPTIONS.perf, "-b", "256M", "-e", "256M", "-n", "1", "-R", "1", "--ranks-per-node", "1"]
        with Job(2, command, environment) as job:
            job.until_ended(60)
            for rank in job.ranks:
                self.assertEqual(rank.process.returncode, 3, job.story())
            # The first to be refused leaves, which the other may hear of before it asks.
            self.assertRegex(job.story(), "twohopCommRegister.*RLIMIT_MEMLOCK")

    def test_a_machine_without_rdma_is_no_warning(self):
        if os.path.exists("/sys/class/infiniband"):
            self.skipTest("this kernel has RDMA")
        _, _, text = self.perf(2, "-b", 8, "-e", 8, "-n", 1, "--ranks-per-node", 1)
        self.assertNotIn("WARN", text)

    def test_two_hop_sends_what_the_analysis_says(self):
        for nranks, per_node, nodes in ((4, 2, 2), (6, 2, 3)):
            _, results, text = self.perf(
                nranks, "-b", "16M", "-e", "16M", "-n", 2, "--scheme", "all", "--ranks-per-node", per_node
            )
            sent = {r["scheme"]: r["internode_bytes"] / r["bytes"] for r in results if not r["in_place"]}
            two_hop, ring = 2 * (nodes - 1) / nodes, 2 * (nranks - 1) / nranks
            for scheme, bound in (("two-hop", two_hop), ("flat", ring), ("flat-naive", per_node * ring)):
                self.assertGreaterEqual(sent[scheme], bound * 0.999, text)
                self.assertLessEqual(sent[scheme], bound * 1.03, text)

    def test_buckets_make_a_training_step(self):
        buckets = os.path.join(self.folder, "buckets")
        with open(buckets, "w") as file:
            file.write("# two\n1M\n4000\n")
        rows, results, text = self.perf(2, "--buckets", buckets, "-n", 3, "--scheme", "two-hop,flat")
        self.assertEqual([r[0] for r in rows], ["1048576", "4000"] * 2, text)
        self.assertEqual(len([r for r in results if r.get("bucket") == "step"]), 4)

    NETWORK = ("doorbells", "work_requests", "signalled_completions")

    def test_network_counts_over_tcp_are_puts_alone(self):
        rows, results, text = self.perf(
            4, "-b", "1M", "-e", "1M", "-n", 3, "--verbs", "--ranks-per-node", 2, environment={"TWOHOP_NET": "tcp"}
        )
        self.assertEqual([r[10:16] for r in rows], [["-"] * 6], text)
        for result in results:
            self.assertGreater(result["puts"], 0, text)
            self.assertEqual([result[name] for name in self.NETWORK], [0] * 3, text)
            self.assertEqual((result["rail_bytes"], result["retries"], result["reissued_puts"]), ([], 0, 0), text)

    def softnic(self, more=""):
        library = os.path.join(os.path.dirname(OPTIONS.perf), "..", "softnic", "libibverbs.so.1")
        if not os.path.exists(library):
            self.skipTest("needs the target softnic")
        return {"TWOHOP_NET": "softnic", "SOFTNIC": f"devices=2,domain=perf-{os.getpid()}{more}"}

    def test_network_counts_over_rails_are_of_the_timed_iterations(self):
        seen = []
        for iters, warmup in ((4, 0), (4, 3), (8, 1)):
            rows, results, text = self.perf(
                4, "-b", "1M", "-e", "1M", "-n", iters, "-w", warmup, "--verbs", "--ranks-per-node", 2,
                "--scheme", "two-hop", environment=self.softnic(),
            )  # fmt: skip
            result = results[0]
            self.assertEqual(rows[0][9], str(result["puts"]), text)
            self.assertEqual(rows[0][13], "/".join(map(str, result["rail_bytes"])), text)
            # 2 nodes: S out of each, on 2 rails.
            self.assertEqual(sum(result["rail_bytes"]), iters * 2 * (1 << 20), text)
            self.assertEqual(len(result["rail_bytes"]), 2)
            self.assertGreaterEqual(result["work_requests"], result["puts"])
            self.assertGreaterEqual(result["work_requests"], result["doorbells"])
            self.assertGreater(result["doorbells"], 0)
            self.assertGreater(result["signalled_completions"], 0)
            self.assertEqual((result["retries"], result["reissued_puts"]), (0, 0), text)
            seen.append(result["puts"] / iters)
        self.assertEqual(len(set(seen)), 1, seen)  # puts per iteration

    def test_retries_are_counted_and_buckets_leave_them_to_the_step(self):
        buckets = os.path.join(self.folder, "buckets")
        with open(buckets, "w") as file:
            file.write("1M\n300000\n")
        _, results, text = self.perf(
            2, "--buckets", buckets, "-n", 20, "--verbs", "--ranks-per-node", 1,
            environment={**self.softnic(",loss=1%"), "TWOHOP_IB_TIMEOUT": "10"},
        )  # fmt: skip
        steps = [r for r in results if r.get("bucket") == "step"]
        self.assertGreater(sum(r["retries"] for r in steps), 0, text)
        self.assertEqual({r["retries"] for r in results if r not in steps}, {None}, text)
        for placement in (0, 1):
            parts = [r for r in results if r["in_place"] == bool(placement) and r not in steps]
            whole = [r for r in steps if r["in_place"] == bool(placement)][0]
            self.assertEqual(sum(r["puts"] for r in parts), whole["puts"], text)

    def test_puts_that_went_again_over_another_rail_are_counted(self):
        rows, results, text = self.perf(
            2, "-b", "1M", "-e", "1M", "-n", 20, "-w", 0, "-c", 0, "--verbs", "--ranks-per-node", 1, "--scheme", "two-hop",
            environment={**self.softnic(",fail=dev1:write:100:RETRY_EXC_ERR"), "TWOHOP_IB_TIMEOUT": "10"},
        )  # fmt: skip
        self.assertGreater(sum(r["reissued_puts"] for r in results), 0, text)
        self.assertEqual((rows[0][15], rows[0][26]), tuple(str(r["reissued_puts"]) for r in results), text)

    def test_bad_arguments_exit_with_2(self):
        for arguments in (["-d", "float16"], ["-b", "x"], ["-g", "4"], ["--scheme", "ring"], ["--nope"]):
            out = subprocess.run([OPTIONS.perf, *arguments], capture_output=True, text=True, timeout=20)
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertIn("allreduce_perf:", out.stderr)

    def refused(self, exit_code, *arguments, prefix=lambda rank: []):
        """What two ranks say that refuse to measure."""
        with Job(2, [OPTIONS.perf, *map(str, arguments)], prefix=prefix) as job:
            job.until_ended(60)
            self.assertEqual([rank.process.returncode for rank in job.ranks], [exit_code] * 2, job.story())
            self.assertNotIn("# Using ranks", job.ranks[0].text)
            return [rank.text for rank in job.ranks]

    def test_an_unwritable_json_file_is_told_before_measuring(self):
        path = os.path.join(self.folder, "no", "such", "folder")
        self.assertIn(f"--json {path}: cannot be written: No such file", self.refused(2, "--json", path)[0])

    def test_sizes_beyond_the_memory_are_refused_by_every_rank(self):
        for text in self.refused(2, "-b", "1T", "-e", "1T"):
            self.assertIn("-e/--maxbytes 1099511627776: ", text)
            self.assertIn("2048.0 GiB per rank", text)

    def test_a_rank_that_is_no_number_is_not_called_rank_0(self):
        for text in self.refused(3, prefix=lambda rank: ["env", "RANK=x"]):
            self.assertIn("RANK", text)
            self.assertNotIn("rank 0 of 2", text)

    def test_every_failing_rank_says_why(self):
        with Job(2, [OPTIONS.perf], {"TWOHOP_NCHANNELS": "many"}) as job:
            job.until_ended(60)
            for rank in job.ranks:
                self.assertEqual(rank.process.returncode, 3, job.story())
                self.assertIn("TWOHOP_NCHANNELS", rank.text, job.story())

    def test_mpirun(self):
        if not OPTIONS.mpirun:
            self.skipTest("needs mpirun (openmpi-bin) and a build with MPI")
        command = [OPTIONS.mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader",
                   "--mca", "oob_tcp_if_include", "lo", "-n", "4", OPTIONS.perf, "-b", "8", "-e", "1M", "-f", "8",
                   "-n", "3", "--scheme", "flat,flat-naive,two-hop,auto", "--ranks-per-node", "2", "--json", self.json]  # fmt: skip
        if os.geteuid() == 0:
            command.insert(1, "--allow-run-as-root")
        out = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        rows, results, _ = self.report(out.stdout)
        self.assertEqual(len(rows), 6 * 4, out.stdout)
        self.assertIn("started by mpi", out.stdout)
        self.assertEqual({r["nwrong"] for r in results}, {0})


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--perf", required=True)
    parser.add_argument("--mpirun", default="")
    parser.add_argument("tests", nargs="*")
    OPTIONS = parser.parse_args()
    loader = unittest.defaultTestLoader
    this = sys.modules[__name__]
    suite = loader.loadTestsFromNames(OPTIONS.tests, this) if OPTIONS.tests else loader.loadTestsFromModule(this)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
