#!/usr/bin/env python3
"""Does the twohop command do what docs/topology.md says? Exit codes, streams, files that it writes and reads again.

usage: cli_test.py --twohop PROGRAM --fixtures FOLDER
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

OPTIONS = None


def twohop(*arguments, env=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TWOHOP_")}
    return subprocess.run([OPTIONS.twohop, *arguments], capture_output=True, text=True, timeout=60, env={**clean, **(env or {})})


def fixture(name):
    return str(pathlib.Path(OPTIONS.fixtures) / name)


def boxes(svg):
    """(x, y, w, h) of every rectangle that is drawn at a place."""
    for r in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect"):
        if "x" in r.attrib:
            yield tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height"))


class Topo(unittest.TestCase):
    def test_shows_this_machine(self):
        shown = twohop("topo")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn("rails: ", shown.stdout)

    def test_json_has_what_programs_need(self):
        shown = twohop("topo", "--json", "--file", fixture("dgx_like.xml"))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        topo = json.loads(shown.stdout)
        self.assertEqual(len(topo["gpus"]), 8)
        self.assertEqual(len(topo["rails"]), 8)
        self.assertEqual(topo["assignment"]["GPU1"], ["mlx5_3"])
        self.assertTrue(all(r["reason"] for r in topo["rejected"]))
        self.assertEqual(topo["paths"]["gpu_port"]["GPU0"]["mlx5_0"], "PXB")

    def test_its_json_and_dumps_are_read_again(self):
        with tempfile.TemporaryDirectory() as scratch:
            first = json.loads(twohop("topo", "--json", "--file", fixture("dual_port.xml")).stdout)
            again = pathlib.Path(scratch) / "again.json"
            again.write_text(json.dumps(first))
            files = [again, pathlib.Path(scratch) / "dump.xml", pathlib.Path(scratch) / "dump.json"]
            for dump in files[1:]:
                self.assertEqual(twohop("topo", "--file", fixture("dual_port.xml"), "--dump", str(dump)).returncode, 0)
            for file in files:
                second = json.loads(twohop("topo", "--json", "--file", str(file)).stdout)
                for member in ("rails", "assignment", "rejected", "paths"):
                    self.assertEqual(first[member], second[member], (file, member))

    def test_picture_is_xml_in_which_cells_do_not_overlap(self):
        for name in os.listdir(OPTIONS.fixtures):
            with tempfile.TemporaryDirectory() as scratch:
                picture = pathlib.Path(scratch) / "m.svg"
                self.assertEqual(twohop("topo", "--file", fixture(name), "--svg", str(picture)).returncode, 0, name)
                placed = list(boxes(picture.read_text()))
                for i, (ax, ay, aw, ah) in enumerate(placed):
                    for bx, by, bw, bh in placed[i + 1:]:
                        apart = ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay
                        inside = ax <= bx and ay <= by and bx + bw <= ax + aw and by + bh <= ay + ah
                        self.assertTrue(apart or inside, name)

    def test_a_file_that_contradicts_the_machine_is_not_used(self):
        alone = json.loads(twohop("topo", "--json", "--file", fixture("dgx_like.xml")).stdout)
        compared = json.loads(twohop("topo", "--json", "--file", fixture("dgx_like.xml"), "--live-file", fixture("no_nic.xml")).stdout)
        self.assertEqual(len(alone["rails"]), 8)
        self.assertEqual(compared["rails"], [])
        self.assertTrue(any("does not describe this machine" in w for w in compared["warnings"]), compared["warnings"])

    def test_errors_go_to_stderr_and_end_with_1(self):
        with tempfile.TemporaryDirectory() as scratch:
            empty = pathlib.Path(scratch) / "empty.xml"
            empty.touch()
            for arguments, text in (
                (["--file", str(empty)], "empty"),
                (["--file", "/nonexistent"], "No such file"),
                (["--file", fixture("one_nic.xml"), "--svg", "/nonexistent/m.svg"], "cannot write"),
            ):
                shown = twohop("topo", *arguments)
                self.assertEqual((shown.returncode, shown.stdout), (1, ""))
                self.assertIn(text, shown.stderr)
                self.assertTrue(shown.stderr.startswith("twohop: "), shown.stderr)

    def test_wrong_usage_ends_with_2(self):
        for arguments in ([], ["topo", "--nonsense"], ["nonsense"], ["topo", "--file"]):
            shown = twohop(*arguments)
            self.assertEqual((shown.returncode, shown.stdout), (2, ""), arguments)
        self.assertEqual(twohop("topo", "--help").returncode, 0)

    def test_a_reader_that_leaves_is_no_failure(self):
        with subprocess.Popen([OPTIONS.twohop, "topo", "--json", "--file", fixture("dgx_like.xml")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as program:
            program.stdout.close()
            self.assertEqual((program.wait(60), program.stderr.read()), (0, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w") as full:
            shown = subprocess.run([OPTIONS.twohop, "topo"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(shown.returncode, 1)
        self.assertIn("No space left", shown.stderr)


class Env(unittest.TestCase):
    def test_shows_value_and_source_of_each(self):
        shown = twohop("env", env={"TWOHOP_NRAILS": "3"})
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        lines = {line.split()[0]: line.split()[1:] for line in shown.stdout.splitlines()}
        self.assertEqual(lines["TWOHOP_NRAILS"], ["3", "environment"])
        self.assertEqual(lines["TWOHOP_NET"], ["auto", "default"])
        self.assertEqual(len(twohop("env", "--set", env={"TWOHOP_NRAILS": "3"}).stdout.splitlines()), 1)

    def test_refuses_what_the_library_would(self):
        shown = twohop("env", env={"TWOHOP_NRAILS": "many", "TWOHOP_NRAIL": "1"})
        self.assertEqual(shown.returncode, 1)
        self.assertIn("TWOHOP_NRAILS=many: accepted are", shown.stderr)
        self.assertIn("nearest one is TWOHOP_NRAILS", shown.stderr)

    def test_never_shows_the_secret(self):
        shown = twohop("env", env={"TWOHOP_JOB_SECRET": "hunter2"})
        self.assertNotIn("hunter2", shown.stdout + shown.stderr)


class Plan(unittest.TestCase):
    def check(self, nodes, algorithm):
        return twohop("plan", "--nodes", str(nodes), "--ranks-per-node", "8", "--bytes", "1M", "--as-given", "--json",
                      "--algo", algorithm, "--check")

    def test_proves_small_clusters_rank_by_rank_and_large_ones_by_symmetry(self):
        for nodes, algorithm, how in ((2, "two-hop", "rank by rank"), (64, "two-hop", "node 0 for all"),
                                      (64, "flat-tree", "rank by rank")):
            shown = self.check(nodes, algorithm)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertIn(f"checked: {algorithm}, {how}", shown.stdout)

    def test_says_why_a_cluster_is_too_large_to_be_proved(self):
        shown = self.check(300, "flat-naive")
        self.assertEqual(shown.returncode, 1)
        self.assertRegex(shown.stderr, r"flat-naive: not checked: 2400 ranks would take \d+ steps, .*try fewer --nodes")
        self.assertNotIn("checked:", shown.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--twohop", required=True)
    parser.add_argument("--fixtures", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
