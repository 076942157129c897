#!/usr/bin/env python3
"""Random jobs for as long as one likes: shapes, transports, settings, sizes, types, schemes, and faults.

usage: stress.py --worker PROGRAM [--seconds N] [--seed N] [--net shm,tcp,softnic] [--no-faults]

A job is some ranks of stress_worker (processes) with settings that its seed draws; of softnic's rails one may die, and
others live. Most must end with right results only; into one of five a fault is put, a rank that is killed, and its other ranks must all be told. The first job that
does otherwise ends the run with its seed, its settings and what its ranks said: --seed repeats it.
"""
import argparse
import os
import pathlib
import random
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from job import Job  # noqa: E402

JOB_S = 3.0  # of calls
LAST_S = 1.5  # of a job, in which a rank may end rightly before it could hear that another was killed
LIMIT_S = 900  # a job that hangs ends by twohop's own timeout; one that is slow, on a busy host, is no fault


class Drawn:
    """A job as its seed has it."""

    def __init__(self, seed, nets, faults):
        rng = random.Random(seed)
        self.seed, self.net = seed, rng.choice(nets)
        self.nranks = rng.choice((1, 2, 2, 3, 4, 4, 5, 6, 8))
        per_node = 0 if self.net == "shm" else rng.choice((1, 1, 2, 2, 3, 4))
        self.environment = {
            "TWOHOP_RANKS_PER_NODE": str(per_node),
            "TWOHOP_TIMEOUT_S": "60",
            "TWOHOP_BUFFSIZE": rng.choice(("256K", "1M", "4M")),
            "TWOHOP_CHUNK_BYTES": rng.choice(("4K", "16K", "128K", "1M")),
            "TWOHOP_CHECK": rng.choice("001"),
        }
        if self.net != "shm":
            self.environment["TWOHOP_NET"] = self.net
        if self.net == "softnic":
            self.softnic(rng)
        self.kill = (rng.randrange(self.nranks), rng.uniform(0, 3)) if faults and rng.random() < 0.2 else None

    def softnic(self, rng):
        words = [f"domain=stress-{os.getpid()}", f"devices={rng.randint(1, 3)}", f"seed={self.seed}"]
        words += [f"loss={rng.choice((0, 0, 0.1, 1, 2))}%", f"latency={rng.choice((0, 2, 50, 200))}us"]
        words += rng.choice(([], ["rate=1g"], ["rate=200m"], ["doorbell=5us"], ["mtu=1024"]))
        words += self.dying_rail(random.Random(f"rail {self.seed}")) if "devices=1" not in words else []
        self.environment.update({
            "SOFTNIC": ",".join(words),
            "TWOHOP_IB_TIMEOUT": "12",
            "TWOHOP_IB_QPS_PER_CONNECTION": rng.choice("1124"),
            "TWOHOP_IB_SPLIT_DATA_ON_QPS": rng.choice("01"),
            "TWOHOP_DOORBELL_BATCH": rng.choice(("1", "7", "64")),
            "TWOHOP_HOLD_BYTES": rng.choice(("0", "4K", "256K")),
        })

    def dying_rail(self, rng):
        """One that others outlive: requests that fail at some point, or a port that is down for a while. Often none."""
        how = rng.choice(("", "", "request", "port"))
        if how == "request":
            done = rng.choice(("", ":done"))
            return [f"fail=dev{rng.randint(0, 1)}:qp-send:{rng.randint(1, 3000)}:RETRY_EXC_ERR{done}"]
        if how == "port":
            at = rng.uniform(0.5, 3)
            return [f"down=dev1@{at:.2f}s", f"up=dev1@{at + rng.uniform(0.2, 2):.2f}s"]
        return []

    def text(self):
        settings = " ".join(f"{k}={v}" for k, v in self.environment.items())
        return f"seed {self.seed}: {self.nranks} ranks, {self.net}, kill {self.kill}, {settings}"

    def run(self, worker):
        """What is wrong, or nothing; and the calls that were made."""
        command = [worker, str(self.seed * 1000), str(JOB_S)]
        start, in_the_end = time.monotonic(), False
        with Job(self.nranks, command, self.environment) as job:
            if self.kill:
                victim, after_s = self.kill
                end = time.monotonic() + after_s
                while time.monotonic() < end and job.ranks[victim].process.poll() is None:
                    time.sleep(0.05)  # the moment of the fault is what the seed has drawn
                job.ranks[victim].process.kill()
                in_the_end = time.monotonic() - start > JOB_S - LAST_S
            try:
                job.until_ended(LIMIT_S)
            except AssertionError as late:
                return str(late), 0
            codes = [r.process.returncode for r in job.ranks]
            told = [c for i, c in enumerate(codes) if not self.kill or i != self.kill[0]]
            good = set(told) <= {0} or (self.kill and set(told) <= ({0, 3} if in_the_end else {3}))
            calls = sum(int(n) for r in job.ranks for n in re.findall(r"communicators, (\d+) calls", r.text))
            return (None if good else f"exit codes {codes}\n{job.story()}"), calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--net", default="shm,tcp,softnic")
    parser.add_argument("--no-faults", action="store_true")
    options = parser.parse_args()
    seed = random.randrange(1 << 31) if options.seed is None else options.seed
    print(f"from --seed {seed} on", flush=True)
    start, jobs, calls, killed = time.monotonic(), 0, 0, 0
    while time.monotonic() - start < options.seconds:
        job = Drawn(seed + jobs, options.net.split(","), not options.no_faults)
        problem, made = job.run(options.worker)
        if problem:
            print(f"BAD {job.text()}\n{problem}", flush=True)
            return 1
        jobs, calls, killed = jobs + 1, calls + made, killed + bool(job.kill)
    minutes = (time.monotonic() - start) / 60
    print(f"{minutes:.1f} minutes, {jobs} jobs ({killed} with a killed rank), {calls} calls, 0 wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
