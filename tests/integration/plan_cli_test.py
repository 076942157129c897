#!/usr/bin/env python3
"""Do `twohop plan` and `twohop simulate` answer what they are asked, and refuse what makes no sense?

    plan_cli_test.py --tool build/release/tools/twohop [TEST...]
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TOOL = None


def run(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120)


class Plan(unittest.TestCase):
    def good(self, *arguments):
        done = run("plan", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def ledger(self, text):
        rows = re.findall(r"^  (.+?)  +([\d.]+) MB  ", text, re.M)
        return {name.strip(): float(value) for name, value in rows}

    def test_ledger_has_the_known_figures(self):
        ledger = self.ledger(self.good("--nodes", 8, "--ranks-per-node", 8, "--bytes", "64MB"))
        self.assertEqual(ledger["flat-naive"], 1008)
        self.assertEqual(ledger["a ring per rank, nothing summed first"], 896)
        self.assertEqual(ledger["flat"], 126)
        self.assertEqual(ledger["two-hop"], 112)

    def test_candidates_are_in_order_and_the_first_is_chosen(self):
        plan = json.loads(self.good("--nodes", 4, "--ranks-per-node", 2, "--bytes", "1M", "--json"))
        times = [c["time_us"] for c in plan["candidates"]]
        self.assertEqual(times, sorted(times))
        text = self.good("--nodes", 4, "--ranks-per-node", 2, "--bytes", "1M")
        self.assertIn(f"choice: {plan['candidates'][0]['algorithm']}; runner-up: {plan['candidates'][1]['algorithm']}", text)
        self.assertIn("by size:", text)

    def test_explain_names_every_term(self):
        text = self.good("--nodes", 2, "--ranks-per-node", 2, "--bytes", "64K", "--explain")
        for term in ("reduce", "fold", "spread", "forward", "post", "notice", "sweep", "switch", "wire", "waits"):
            self.assertIn(term, text)

    def test_check_proves_the_candidates(self):
        text = self.good("--nodes", 3, "--ranks-per-node", 2, "--bytes", "64K", "--check", "--algo", "two-hop,flat")
        self.assertRegex(text, r"checked: two-hop, rank by rank, \d+ steps")
        self.assertRegex(text, r"checked: flat, rank by rank, \d+ steps")

    def test_algo_selects_and_excludes(self):
        only = json.loads(self.good("--nodes", 2, "--algo", "flat", "--json"))
        self.assertEqual([c["algorithm"] for c in only["candidates"]], ["flat"])
        others = json.loads(self.good("--nodes", 2, "--algo", "^flat", "--json"))
        self.assertNotIn("flat", [c["algorithm"] for c in others["candidates"]])

    def test_model_file_changes_the_times(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.json")
            with open(model, "w", encoding="utf-8") as file:
                json.dump({"name": "slow", "rail_gbytes_per_s": 0.001}, file)
            arguments = ("--nodes", 2, "--bytes", "1M", "--algo", "two-hop", "--json")
            fast = json.loads(self.good(*arguments))
            slow = json.loads(self.good(*arguments, "--model", model))
        self.assertEqual(slow["model"], "slow")
        self.assertGreater(slow["candidates"][0]["time_us"], 10 * fast["candidates"][0]["time_us"])

    def test_draws_a_timeline_with_all_stages(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.svg")
            self.good("--nodes", 2, "--ranks-per-node", 2, "--bytes", "16M", "--algo", "two-hop", "--draw", path)
            with open(path, encoding="utf-8") as file:
                svg = file.read()
        xml.etree.ElementTree.fromstring(svg)
        for stage in ("1 reduce", "2 wire", "3 spread", "rail", "rank"):
            self.assertIn(stage, svg)

    def test_refuses_nonsense_and_names_it(self):
        for arguments, named in (
            (("--nodes", 0), "--nodes 0"),
            (("--nodes", 100000, "--ranks-per-node", 100000), "--ranks-per-node 100000"),
            (("--bytes", "many"), "--bytes many"),
            (("--bytes", "-5"), "--bytes -5"),
            (("--model", "/nowhere.json"), "/nowhere.json"),
            (("--algo", "warp"), "warp"),
            (("--collective", "AllToAll"), "AllToAll"),
            (("--chunk", "1"), "--chunk 1"),
            (("--draw", "/nowhere/x.svg"), "/nowhere/x.svg"),
        ):
            done = run("plan", *arguments)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertIn(named, done.stderr)


class Simulate(unittest.TestCase):
    def test_gives_a_time_for_every_cell(self):
        done = run("simulate", "--nodes", "2,16,128", "--ranks-per-node", 4, "--bytes", "4K,16M", "--csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split(",") for line in done.stdout.splitlines()]
        self.assertEqual(rows[0], ["algorithm", "nodes", "bytes", "time_us"])
        self.assertEqual(len(rows), 1 + 2 * 3 * 2)
        self.assertTrue(all(float(row[3]) > 0 for row in rows[1:]))

    def test_shows_two_hop_against_flat(self):
        done = run("simulate", "--nodes", "2,8", "--ranks-per-node", 8, "--bytes", "4K,64M", "--rails", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("time of flat / time of two-hop", done.stdout)
        last = done.stdout.strip().splitlines()[-1].split()
        self.assertGreater(float(last[1]), 1, "64 ranks: flat has many more hops")

    def test_plots(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "sim")
            done = run("simulate", "--nodes", "2,4,8", "--ranks-per-node", 2, "--plot", prefix)
            self.assertEqual(done.returncode, 0, done.stderr)
            for name in ("-size.svg", "-nodes.svg"):
                xml.etree.ElementTree.parse(prefix + name)

    def test_refuses_nonsense(self):
        for arguments in (("--nodes", "0"), ("--nodes", ""), ("--bytes", "x"), ("--algo", "warp")):
            done = run("simulate", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(arguments[0], done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    TOOL = options.tool
    unittest.main(argv=[sys.argv[0], *options.tests], verbosity=2)
