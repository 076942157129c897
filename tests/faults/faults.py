#!/usr/bin/env python3
"""Every fault at every moment on every transport: does each cell of the matrix end as it must?

usage: faults.py --worker PROGRAM --shim LIBRARY [--all] [--seed N] [--list] [PATTERN...]

A cell is a job of three ranks, one of which (or its device) suffers. It is good when, within its deadline, every other
rank either has right results or has been told the same error; when nothing stays open, mapped, in /dev/shm or running.
--all: every step of the bootstrap and several points of a call, where else there is a sample. PATTERN: a part of a
cell's name. Several cells run at once, since most of them wait.
"""
import argparse
import atexit
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from job import Job  # noqa: E402

# twohopResult_t
OK, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, TIMEOUT, ABORTED = 0, 2, 3, 4, 5, 6, 8, 9
OPTIONS = None
RANKS, VICTIM = 3, 1
# What a cell may take on a busy machine; what is measured is the time from the fault to the errors.
CELL_S = 60
TRANSPORTS = {
    "shm": {},
    "tcp": {"TWOHOP_RANKS_PER_NODE": "2", "TWOHOP_NET": "tcp"},
    "softnic": {"TWOHOP_RANKS_PER_NODE": "2", "TWOHOP_NET": "softnic", "TWOHOP_IB_TIMEOUT": "10"},
}


class Cell:
    def __init__(self, name, transport, fault="none", moment="-", expect=(OK,), victim=VICTIM, environment=None,
                 softnic="", call="", seed=1, within_s=None, says="", logs="", mixed=False, cold=False):
        self.name = f"{transport}/{name}"
        self.transport, self.fault, self.moment, self.victim, self.seed = transport, fault, moment, victim, seed
        self.expect, self.within_s, self.says, self.call = set(expect), within_s, says, call
        # Soon where a rank is stopped. Elsewhere nothing may end by it, however long a busy machine lets a rank wait.
        timeout_s = "2" if fault == "stop" or call.endswith(":stop") else "20"
        self.environment = {"TWOHOP_TIMEOUT_S": timeout_s, "TWOHOP_INIT_TIMEOUT_S": "20", **TRANSPORTS[transport],
                            **(environment or {})}
        self.softnic, self.mixed, self.cold, self.logs = softnic, mixed, cold, logs
        if cold:
            self.environment["FAULT_COLD"] = "1"

    def dies(self):
        return self.fault in ("kill", "stop", "exit") or self.call.endswith((":kill", ":stop", ":exit"))

    def run(self):
        """Nothing, or what is wrong with how it ended."""
        domain = f"f{os.getpid()}-{abs(hash(self.name)) % 10**8}"
        environment = {**self.environment, "SOFTNIC": f"domain={domain}" + (f",{self.softnic}" if self.softnic else "")}
        per_rank = {self.victim: {"FAULT_CALL": self.call, "LD_PRELOAD": OPTIONS.shim}} if self.call else {}
        command = [OPTIONS.worker, self.fault, self.moment, str(self.victim), str(self.seed)]
        with Job(RANKS, command, environment, per_rank) as job:
            pids = [r.process.pid for r in job.ranks]
            others = [r for r in range(RANKS) if r != self.victim or not self.dies()]
            try:
                job.until_ended(CELL_S, others)
                problem = self.judge(job, others, pids)
            except AssertionError as late:
                return str(late)
            if problem:
                return f"{problem}\n{job.story()}"
        if os.path.exists(f"/dev/shm/softnic-{os.getuid()}-{domain}"):
            # Killed processes cannot tidy up: the next one of this user does.
            return None if self.dies() else "the emulated device's shared memory is still there"
        return None

    def judge(self, job, others, pids):
        ends = {r.number: e for r in job.ranks if r.number in others for e in r.find("ended")}
        if sorted(ends) != others:
            return f"ranks {sorted(set(others) - set(ends))} have not told how they ended"
        wrong = [n for n, e in ends.items() if e["wrong"]]
        if wrong:
            return f"wrong results on ranks {wrong}"
        told = {n: e["result"] for n, e in ends.items() if n != self.victim or not self.call}
        if not set(told.values()) <= self.expect:
            return f"results {told}, expected {sorted(self.expect)}"
        # One error, whoever is told; but a rank may have had all its results before.
        if len(set(told.values()) - {OK}) > 1 and not self.mixed:
            return f"ranks were told different things: {told}"
        result = max(told.values())
        if not all(e["message"] for e in ends.values() if e["result"] != OK):
            return "an error without a message"
        if result != OK and self.says and not any(re.search(self.says, e["message"]) for e in ends.values()):
            return f"no message says {self.says}"
        if any(self.logs not in r.text for r in job.ranks):
            return f"a log does not say: {self.logs}"
        for r in job.ranks:
            if r.number in others and r.process.returncode != 0:
                return f"rank {r.number} ended with {r.process.returncode}"
        return self.late(job, ends) or self.leaks(job, others, result)

    def late(self, job, ends):
        since = [e["t"] for r in job.ranks for e in r.find("starting" if self.call else "fault")]
        if self.within_s is None or not since:
            return None
        took = max(e["t"] for e in ends.values()) - max(since)
        return f"the last rank heard of it after {took:.1f} s, allowed are {self.within_s}" if took > self.within_s else None

    def leaks(self, job, others, result):
        for r in job.ranks:
            if r.number not in others or self.cold or (self.call and r.number == self.victim):
                continue
            left = r.find("left")[0]
            # The port of the rendezvous stays open for the next communicator of the process. Links to a stopped rank stay
            # until it is gone, those to one that failed in the init until it has closed them.
            # The root answers ranks that are late for some seconds.
            late = 2 if self.call else 0
            allowed = {"socket:": 1 + late, "anon_inode:": 2 + late} if r.number == 0 else {}
            if self.fault == "stop" or self.call.endswith(":stop"):
                allowed["socket:"] = RANKS
            over = [f for f in set(left["fds"]) if left["fds"].count(f) > allowed.get(f, 0)]
            if over:
                return f"rank {r.number} has left open {left['fds']}"
            if left["mapped"]:
                return f"rank {r.number} still maps {left['mapped']} windows"
        return None


def ranks_that_suffer(thorough):
    """A rank that dies, stops, aborts, leaves or is slow."""
    expected = {"kill": REMOTE_ERROR, "stop": TIMEOUT, "abort": ABORTED, "exit": REMOTE_ERROR, "slow": OK}
    bound = {"kill": 8, "exit": 8, "abort": 8, "stop": 12, "slow": None}  # far less than the timeout of calls
    for transport in TRANSPORTS:
        for fault, code in expected.items():
            for moment in ("init", "first-call", "mid-call", "between-calls", "destroy"):
                codes, more = {code}, {}
                if moment == "init" and fault == "abort":
                    continue  # there is nothing to abort yet
                if moment == "init" and fault != "slow":
                    # Who came first gives up first; that is news to the others, if they have not given up by then.
                    codes, more = {TIMEOUT, REMOTE_ERROR}, {"environment": {"TWOHOP_INIT_TIMEOUT_S": "2"}, "mixed": True}
                if moment == "destroy":
                    codes = codes | {OK}  # its calls are over; the others may be in their last one
                if fault == "exit" and moment in ("first-call", "mid-call", "between-calls"):
                    codes = {REMOTE_ERROR, INVALID_USAGE}  # it may have said goodbye, between two calls
                for seed in range(1, 9 if thorough and moment == "mid-call" else 2):
                    if moment == "mid-call":
                        codes = codes | {OK}  # or all calls were over already
                    name = f"{fault}/{moment}" + (f"/{seed}" if seed > 1 else "")
                    yield Cell(name, transport, fault, moment, codes, seed=seed + OPTIONS.seed,
                               within_s=None if moment in ("init", "destroy") else bound[fault], **more)


def bootstrap_steps(thorough):
    """A rank that ends at its n-th call of the network's functions while it joins: the root, an inner rank."""
    for transport in TRANSPORTS:
        for victim in (0, 1):
            steps = range(1, 121) if thorough else (1, 4, 9, 16, 25, 36, 49, 64)
            for step in steps:
                for action in ("kill", "stop") if thorough else ("kill",):
                    yield Cell(f"bootstrap/{action}/rank{victim}/{step}", transport, victim=victim,
                               # Stopped in the middle of making softnic's shared memory: the others have no device.
                               call=f"any:{step}:{action}", expect=(OK, REMOTE_ERROR, TIMEOUT, SYSTEM_ERROR)
                               if (transport, action) == ("softnic", "stop") else (OK, REMOTE_ERROR, TIMEOUT),
                               # Who waits for a connection that never comes can only wait; who had one knows.
                               mixed=True, environment={"TWOHOP_INIT_TIMEOUT_S": "8"})


def links_are_made(thorough):
    """A rank that ends while data connections are made: who waits for one of them hears of it by the control channel."""
    for transport in ("tcp", "softnic"):
        for victim in (1, 2):  # connects; accepts
            for nth in (1, 2) if thorough and transport == "tcp" else (1,):
                yield Cell(f"bootstrap/kill/links/rank{victim}/{nth}", transport, victim=victim,
                           call=f"link:{nth}:kill", expect=(REMOTE_ERROR,), says="rank .* was lost", within_s=10,
                           environment={"TWOHOP_INIT_TIMEOUT_S": "30"})


def system_refuses(thorough):
    """System calls that fail: too few descriptors, no memory for windows, connections that break."""
    enomem, emfile, enospc = 12, 24, 28
    for transport in TRANSPORTS:
        nths = range(1, 9) if thorough else (1, 2)
        for function, error in (("memfd_create", enomem), ("ftruncate", enospc), ("socket", emfile), ("eventfd", emfile),
                                ("epoll_create1", emfile), ("accept4", emfile)):
            for nth in nths:
                yield Cell(f"refused/{function}/{nth}", transport, call=f"{function}:{nth}:{error}",
                           expect=(OK, SYSTEM_ERROR, REMOTE_ERROR, TIMEOUT),
                           # Longer than the hand-over of windows waits for a rank that does not come.
                           environment={"TWOHOP_INIT_TIMEOUT_S": "8"})
    for nth in (range(1, 60, 3) if thorough else (2, 20)):
        yield Cell(f"connection-cut/{nth}", "tcp", call=f"sendmsg:{nth}:cut", expect=(OK, REMOTE_ERROR))


OF_THE_RAIL = ("RETRY_EXC_ERR", "WR_FLUSH_ERR", "REM_OP_ERR", "REM_INV_REQ_ERR", "FATAL_ERR", "GENERAL_ERR")


def devices_fail(thorough):
    """What an RDMA device does: every status, a port that goes down, losses, limits, damaged data."""
    statuses = ("LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR",
                "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR",
                "REM_ABORT_ERR", "FATAL_ERR", "GENERAL_ERR")
    for status in statuses:
        for nth in (1, 5, 40, 300) if thorough else (7,):
            yield Cell(f"cqe/{status}/{nth}", "softnic", moment="mid-call", softnic=f"devices=1,fail=dev0:write:{nth}:{status}",
                       expect=(OK, REMOTE_ERROR), says="softnic0|queue pair|rail")
            # With another rail alive it costs bandwidth and not the job; what speaks of a program's fault ends it still.
            yield Cell(f"cqe-one-of-two/{status}/{nth}", "softnic", moment="mid-call",
                       softnic=f"devices=2,fail=dev0:write:{nth}:{status}",
                       expect=(OK,) if status in OF_THE_RAIL else (OK, REMOTE_ERROR))
    # The receiver is not ready, really, and the device tries that for ever: the transport has to notice.
    yield Cell("rnr", "softnic", moment="mid-call", softnic="devices=1,starve=dev0:recv:20", expect=(REMOTE_ERROR,),
               says="twohop gave up.* no receive posted", within_s=20)
    for at in ("30ms", "100ms", "300ms") if thorough else ("100ms",):
        yield Cell(f"port-down-one-of-two/{at}", "softnic", moment="mid-call", softnic=f"devices=2,down=dev1@{at}", cold=True)
    for at in ("0ms", "50ms", "200ms") if thorough else ("100ms",):
        yield Cell(f"port-down/{at}", "softnic", moment="mid-call", softnic=f"devices=1,down=dev0@{at}",
                   expect=(OK, REMOTE_ERROR, SYSTEM_ERROR), mixed=True, cold=True)  # before a rank has joined, or later
    yield Cell("loss", "softnic", moment="mid-call", softnic="devices=2,loss=5%")
    yield Cell("memlock", "softnic", softnic="memlock=64k", expect=(SYSTEM_ERROR,), says="RLIMIT_MEMLOCK",
               cold=True)
    for function in ("open_device", "create_comp_channel", "create_cq", "create_qp", "to_init", "to_rtr", "to_rts", "reg_mr"):
        for nth in (1, 2, 3) if thorough else (1,):
            yield Cell(f"refused/{function}/{nth}", "softnic", softnic=f"refuse={function}:{nth}:ENOMEM",
                       expect=(OK, SYSTEM_ERROR, REMOTE_ERROR, INVALID_ARGUMENT), cold=True)
    yield Cell("corrupt", "softnic", moment="mid-call", softnic="devices=2,corrupt=dev1:write:20",
               environment={"TWOHOP_CHECK": "1"}, expect=(REMOTE_ERROR,), says=r"TWOHOP_CHECK: .* rail 1 \(softnic1:1")


def disks_full(_):
    if not os.path.exists("/dev/full"):
        print("# without full-disk: there is no /dev/full")
        return
    folder = tempfile.mkdtemp(prefix="twohop-faults-")
    atexit.register(shutil.rmtree, folder, True)
    for rank in range(RANKS):
        os.symlink("/dev/full", f"{folder}/trace-{rank}.json")
    for transport in TRANSPORTS:
        yield Cell("full-disk/trace", transport, environment={"TWOHOP_TRACE": f"{folder}/trace-%r.json"}, cold=True,
                   logs="is not complete: No space left on device")
        yield Cell("full-disk/log", transport, environment={"TWOHOP_DEBUG_FILE": "/dev/full", "TWOHOP_DEBUG": "TRACE"})


def cells(thorough):
    for family in (ranks_that_suffer, bootstrap_steps, links_are_made, system_refuses, devices_fail, disks_full):
        yield from family(thorough)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--shim", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--no-softnic", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("patterns", nargs="*")
    OPTIONS = parser.parse_args()
    chosen = [c for c in cells(OPTIONS.all) if not OPTIONS.patterns or any(p in c.name for p in OPTIONS.patterns)]
    if OPTIONS.no_softnic:
        chosen = [c for c in chosen if c.transport != "softnic"]
    if OPTIONS.list:
        print("\n".join(c.name for c in chosen))
        return 0
    start, bad, lock = time.monotonic(), [], threading.Lock()

    def run(cell):
        problem = cell.run()
        if problem:
            with lock:
                bad.append(cell.name)
                print(f"BAD {cell.name}: {problem}\n", flush=True)

    with concurrent.futures.ThreadPoolExecutor(OPTIONS.at_once) as pool:
        list(pool.map(run, chosen))
    print(f"{len(chosen)} cells, {len(bad)} bad, {time.monotonic() - start:.0f} s, seed {OPTIONS.seed}")
    print("\n".join(bad))
    return bool(bad) or not chosen


if __name__ == "__main__":
    sys.exit(main())
