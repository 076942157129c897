#!/usr/bin/env python3
"""Does `twohop trace` say for how long nothing is on the wire, and refuse what TWOHOP_TRACE did not write?

usage: trace_test.py --twohop PROGRAM [--perf allreduce_perf]
"""
import argparse
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from job import Job  # noqa: E402

OPTIONS = None


def twohop(*arguments):
    return subprocess.run([OPTIONS.twohop, *arguments], capture_output=True, text=True, timeout=60)


def call(number, begin, end, size=1000):
    return {"name": "call", "ph": "X", "cat": "call", "pid": 0, "tid": 0, "ts": begin, "dur": end - begin,
            "args": {"call": number, "bytes": size}}


def put(number, begin, end, channel=0, rails=(0,), size=10):
    head = {"name": "put", "cat": "wire", "pid": 0, "tid": 0, "id": f"0.{number}"}
    args = {"put": number, "bytes": size, "channel": channel, "to": 1, "rails": list(rails)}
    return [{**head, "ph": "b", "ts": begin, "args": args}, {**head, "ph": "e", "ts": end}]


def trace(rank, *events, left_out=0):
    flat = [e for entry in events for e in (entry if isinstance(entry, list) else [entry])]
    return {"displayTimeUnit": "ns", "otherData": {"rank": rank, "communicator": "", "left_out": left_out},
            "traceEvents": flat}


class Trace(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def file(self, content, name="t.json"):
        path = pathlib.Path(self.scratch.name) / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def rows(self, *arguments):
        shown = twohop("trace", "--json", *arguments)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        return {row["what"]: row for row in json.loads(shown.stdout)}

    def test_counts_time_without_a_put_between_the_first_and_the_last_of_a_call(self):
        # Call 1: 10..30 and 40..50 of 10..50; call 2: no gap; between the calls nothing counts.
        file = self.file(trace(0, call(1, 0, 60), call(2, 100, 200), put(0, 10, 25), put(1, 20, 30), put(2, 40, 50),
                               put(3, 110, 150)))
        row = self.rows(file)["rank 0"]
        self.assertAlmostEqual(row["span_us"], 80)
        self.assertAlmostEqual(row["busy_us"], 70)
        self.assertAlmostEqual(row["idle_share"], 10 / 80)
        self.assertEqual((row["puts"], row["bytes"]), (4, 40))

    def test_tells_channels_and_rails_apart(self):
        file = self.file(trace(3, call(1, 0, 100), put(0, 0, 10, channel=0, rails=[0]), put(1, 5, 20, channel=1, rails=[1]),
                               put(2, 30, 40, channel=1, rails=[0, 1])))
        rows = self.rows(file)
        self.assertEqual(rows["rank 3, channel 0"]["idle_share"], 0)
        self.assertAlmostEqual(rows["rank 3, channel 1"]["idle_share"], 10 / 35)
        self.assertAlmostEqual(rows["rank 3, rail 0"]["idle_share"], 20 / 40)
        self.assertAlmostEqual(rows["rank 3, rail 1"]["idle_share"], 10 / 35)

    def test_puts_of_several_ranks_fill_each_others_gaps(self):
        files = [self.file(trace(0, call(1, 0, 90), put(0, 0, 40)), "a"), self.file(trace(1, call(1, 0, 90), put(0, 40, 80)), "b")]
        rows = self.rows(*files)
        self.assertEqual(rows["these ranks together"]["idle_share"], 0)
        self.assertEqual(rows["these ranks together, rail 0"]["puts"], 2)

    def test_takes_only_calls_of_a_size(self):
        file = self.file(trace(0, call(1, 0, 10, 1024), put(0, 1, 2), call(2, 20, 30, 2048), put(1, 21, 22), put(2, 24, 25)))
        self.assertEqual(self.rows(file, "--bytes", "1K")["rank 0"]["puts"], 1)
        self.assertEqual(self.rows(file)["rank 0"]["puts"], 3)

    def test_without_puts_shows_nothing_and_divides_by_nothing(self):
        row = self.rows(self.file(trace(0, call(1, 0, 10))))["rank 0"]
        self.assertEqual((row["puts"], row["span_us"], row["idle_share"]), (0, 0, 0))

    def test_draws_the_last_of_the_largest_calls(self):
        svg = pathlib.Path(self.scratch.name) / "a.svg"
        file = self.file(trace(0, call(1, 0, 10, 99), call(2, 20, 30, 4096), put(0, 21, 29), call(3, 40, 50, 4096),
                               put(1, 41, 42), call(4, 60, 70, 8)))
        shown = twohop("trace", file, "--draw", str(svg))
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        text = svg.read_text()
        ElementTree.fromstring(text)
        self.assertIn("call 3 of 4 KiB", text)
        self.assertEqual(twohop("trace", file, "--draw", str(svg), "--call", "77").returncode, 0)
        self.assertIn("no call", svg.read_text())
        self.assertEqual(twohop("trace", file, "--draw", "/nowhere/a.svg").returncode, 1)

    def test_says_when_a_file_has_left_events_out(self):
        shown = twohop("trace", self.file(trace(0, call(1, 0, 10), left_out=7)))
        self.assertEqual(shown.returncode, 0)
        self.assertIn("7 events were left out", shown.stderr)

    def test_refuses_what_is_no_trace(self):
        good = trace(0, call(1, 0, 10), put(0, 1, 2))
        broken = ["", "{", "[]", "3", "null", json.dumps(good)[:-3], json.dumps(good) + "x"]
        for change in (lambda t: t.pop("otherData"), lambda t: t["otherData"].update(rank="zero"),
                       lambda t: t["traceEvents"].pop(), lambda t: t["traceEvents"].append(t["traceEvents"][1]),
                       lambda t: t["traceEvents"].append(t["traceEvents"][2]), lambda t: t["traceEvents"][0].pop("ts"),
                       lambda t: t["traceEvents"][0].update(ts=-1), lambda t: t["traceEvents"][0].update(dur="long"),
                       lambda t: t["traceEvents"][1]["args"].update(rails=3),
                       lambda t: t["traceEvents"][1]["args"].pop("channel"), lambda t: t["traceEvents"].append({})):
            bad = copy.deepcopy(good)
            change(bad)
            broken.append(json.dumps(bad))
        for text in broken:
            shown = twohop("trace", self.file(text))
            self.assertEqual((shown.returncode, shown.stdout), (1, ""), text[:300])
            self.assertIn("t.json", shown.stderr)
        self.assertEqual(twohop("trace", "/nowhere/t.json").returncode, 1)
        self.assertEqual(twohop("trace").returncode, 2)
        self.assertEqual(twohop("trace", self.file(good), "--bytes", "many").returncode, 2)

    def test_reads_what_the_library_writes(self):
        if not OPTIONS.perf:
            self.skipTest("no --perf given")
        pattern = os.path.join(self.scratch.name, "run-%r.json")
        job = Job(4, [OPTIONS.perf, "-b", "1M", "-e", "1M", "-n", "2", "-w", "0", "--scheme", "two-hop"],
                  {"TWOHOP_TRACE": pattern, "TWOHOP_RANKS_PER_NODE": "2"})
        with job:
            job.until_ended(60)
        files = sorted(str(p) for p in pathlib.Path(self.scratch.name).glob("run-*.json"))
        rows = self.rows(*files, "--bytes", "1M")
        self.assertGreater(rows["these ranks together"]["puts"], 0)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--twohop", required=True)
    parser.add_argument("--perf")
    parser.add_argument("tests", nargs="*")
    OPTIONS = parser.parse_args()
    unittest.main(argv=[sys.argv[0], *OPTIONS.tests], verbosity=2)


if __name__ == "__main__":
    main()
