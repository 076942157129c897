#!/usr/bin/env python3
"""verbs_perf as users run it, over the emulated device. verbs_perf_test.py --program P [--mpirun M] [TEST...]

Both ends are processes; everything is bounded, stays on the loopback and is ended here. Exit code 77: everything skipped.
"""
import argparse
import csv
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from free_port import free_port  # noqa: E402

OPTIONS = None
# A busy machine may be slow; what the program promises itself is far less.
LIMIT_S = 600


class VerbsPerf(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="twohop-verbs-perf-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.processes = []
        self.addCleanup(self.end_all)
        self.domain = f"verbsperf-{os.getpid()}"

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def environment(self, softnic="devices=2"):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TWOHOP_", "SOFTNIC", "OMPI_", "PMI"))}
        return {**kept, "SOFTNIC": f"domain={self.domain},{softnic}"}

    def start(self, *arguments, softnic="devices=2"):
        process = subprocess.Popen(
            [OPTIONS.program, "--softnic", *map(str, arguments)],
            env=self.environment(softnic), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def server(self, *arguments, softnic="devices=2,host=1"):
        process = self.start("--listen", "127.0.0.1", "-p", 0, *arguments, softnic=softnic)
        line = process.stdout.readline()
        self.assertIn("waiting for a client on 127.0.0.1:", line)
        return process, int(line.rsplit(":", 1)[1])

    def finish(self, process, exit_code=0):
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, exit_code, out + err)
        return out + err

    def loopback(self, *arguments, softnic="devices=2", exit_code=0):
        """The output and the JSON report of a run with both ends here."""
        path = os.path.join(self.folder, "out.json")
        text = self.finish(self.start("--loopback", "--json", path, *arguments, softnic=softnic), exit_code)
        with open(path) as file:
            report = json.load(file)
        for row in report["results"]:
            self.assertEqual(row["wrong_bytes"], 0, text)
            self.assertGreater(row["client"]["verified_bytes"] + row["server"]["verified_bytes"], 0, text)
        return text, report

    # ---- What is measured ----

    def test_every_operation_moves_and_verifies_its_data(self):
        text, report = self.loopback(
            "--op", "all", "-s", "1,8,4096,100000", "-q", "1,3", "--direction", "uni,bi", "-n", 300, "-l", "1,8",
            "-t", 32, "-I", "0,64", "--repeat", 1, "--max-time", 600, "--max-row-time", 600,
        )  # fmt: skip
        self.assertEqual(report["config"]["stopped"], "", text)
        self.assertEqual(len(report["results"]), report["config"]["rows_planned"])
        self.assertEqual({r["op"] for r in report["results"]}, {"write", "write_imm", "read", "send", "atomic"})
        for r in report["results"]:
            sent = 300 * r["qps"]
            self.assertEqual(r["client"]["messages"], sent, r)
            self.assertEqual(r["server"]["messages"], sent if r["direction"] == "bi" else 0, r)
            self.assertEqual(r["client"]["stopped_by"], "iterations")
            self.assertEqual(r["retries"], 0, r)

    def test_post_completion_and_global_time_are_apart(self):
        _, report = self.loopback("-n", 500, "-s", 65536)
        client = report["results"][0]["client"]
        self.assertGreater(client["post_us"], 0)
        self.assertGreater(client["completion_us"]["mean"], 0)
        self.assertLessEqual(client["completion_us"]["p50"], client["completion_us"]["p99"])
        self.assertGreaterEqual(client["global_s"], client["local_s"])
        self.assertGreater(client["setup_ms"], 0)
        self.assertGreater(client["register_ms"], 0)

    def test_a_slow_wire_shows_in_the_times(self):
        # 1 Gbit/s: 200 x 64 KiB take 105 ms at least; one way is 5 ms.
        _, report = self.loopback("-n", 200, softnic="devices=1,rate=1g,latency=5ms")
        client = report["results"][0]["client"]
        self.assertGreaterEqual(client["local_s"], 0.105)
        self.assertGreaterEqual(client["completion_us"]["min"], 10000)
        self.assertLessEqual(report["results"][0]["bw_average_mib_per_s"], 1e9 / 8 / (1 << 20))

    def test_counters_of_both_ends_moved_by_what_was_sent(self):
        _, report = self.loopback("-n", 640, "-l", 16, "-Q", 32)
        r = report["results"][0]
        client, server = r["client"], r["server"]
        self.assertEqual(client["doorbells"], 40)
        self.assertEqual(client["work_requests"], 640)
        self.assertLessEqual(client["signalled_completions"], 21)
        self.assertEqual(client["counters"]["softnic0:1"]["hw_counters/doorbells"], 40)
        self.assertEqual(server["counters"]["softnic0:1"]["hw_counters/rx_write_requests"], 640)
        self.assertEqual(server["counters"]["softnic0:1"]["counters/port_rcv_data"], 640 * 65536 // 4)
        self.assertEqual(client["counters"]["softnic0:1"]["counters/port_xmit_data"], 640 * 65536 // 4)

    def test_losses_are_retries_and_the_data_is_right(self):
        for op in ("write", "send", "read"):
            _, report = self.loopback("--op", op, "-n", 300, "-u", 10, softnic="devices=2,loss=1%")
            self.assertGreater(report["results"][0]["retries"], 0, op)

    def test_rails_mtu_and_gid_are_factors(self):
        text, report = self.loopback(
            "-d", "softnic0,softnic1:1,softnic0+softnic1", "-m", "0,1024", "-x", "-1,1", "-n", 50, "-s", 10000
        )
        rows = report["results"]
        self.assertEqual(len(rows), 3 * 2 * 2)
        self.assertEqual({r["rail"] for r in rows}, {"softnic0:1", "softnic1:1", "softnic0:1+softnic1:1"})
        self.assertEqual({(r["mtu"], r["mtu_bytes"]) for r in rows}, {(0, 4096), (1024, 1024)})
        for r in rows:
            self.assertEqual(r["client"]["messages"], 50 * (2 if "+" in r["rail"] else 1))
            self.assertIn("GID 1 " if r["gid"] == 1 else "GID 3 ", r["from"])
            used = r["client"]["counters"]
            self.assertEqual(sorted(used), r["rail"].split("+"))
            for port in used.values():
                self.assertEqual(port["counters/port_xmit_data"], 50 * 10000 // 4, text)

    def test_table_and_csv_have_the_rows_of_the_json_file(self):
        path = os.path.join(self.folder, "out.csv")
        text, report = self.loopback("-s", "8,64", "--repeat", 2, "-n", 50, "--csv", path)
        header = next(line for line in text.splitlines() if "BW average[MiB/sec]" in line)
        for name in ("#bytes", "#iterations", "BW peak[MiB/sec]", "MsgRate[Mpps]", "t_post[usec]", "t_global[usec]"):
            self.assertIn(name, header)
        lines = [line.split() for line in text.splitlines() if line.split()[:1] == ["write"]]
        with open(path) as file:
            table = list(csv.DictReader(file))
        self.assertEqual([len(lines), len(table)], [4, 4], text)
        for line, row, r in zip(lines, table, report["results"]):
            self.assertEqual(len(line), 21)
            self.assertEqual([line[1], line[9], line[10]], [str(r["bytes"]), str(r["repeat"]), "50"])
            self.assertEqual([row["bytes"], row["repeat"]], [str(r["bytes"]), str(r["repeat"])])
            self.assertAlmostEqual(float(row["bw_average_mib_per_s"]), r["bw_average_mib_per_s"], delta=1)
            self.assertIn("hw_counters/rx_write_requests=50", row["server_counters"])

    # ---- Bounds ----

    def test_runs_end_by_their_bounds(self):
        text, report = self.loopback("-D", 0.2, "-s", 64)
        self.assertEqual(report["results"][0]["client"]["stopped_by"], "duration")
        text, report = self.loopback("-n", 10**9, "--max-row-time", 0.2)
        self.assertEqual(report["results"][0]["client"]["stopped_by"], "time")
        self.assertIn("cut short by its bound of time", text)
        text, report = self.loopback("-n", 10**9, "--repeat", 1000, "--max-row-time", 0.2, "--max-time", 0.5)
        self.assertIn("# stopped by --max-time 0.5", text)
        self.assertLess(len(report["results"]), 10)
        text, report = self.loopback("-n", 100, "-s", 10000, "--repeat", 5, "--max-bytes", "1500K")
        self.assertEqual(report["config"]["stopped"], "--max-bytes 1536000")
        self.assertLessEqual(sum(r["client"]["bytes"] for r in report["results"]), 1536000)

    def test_repeats_end_when_nothing_varies(self):
        # At 100 Mbit/s the wire decides, not the machine's mood.
        text, report = self.loopback(
            "-n", 20, "--repeat", 50, "--stable", 300, softnic="devices=1,rate=100m"
        )
        self.assertIn("# stopped by --stable 300", text)
        self.assertLess(len(report["results"]), 50)

    # ---- Conclusions ----

    def test_the_summary_names_the_factor_and_the_evidence_that_is_missing(self):
        text, report = self.loopback("-q", "1,2", "-s", "64,4096", "-n", 100, "--repeat", 2)
        self.assertEqual({s["factor"] for s in report["summary"]}, {"qps", "bytes"})
        self.assertEqual(len(report["summary"]), 4)
        self.assertRegex(text, r"#   qps 1 -> 2: x[\d.]+ \(.*\)  \[op write, bytes 64,")
        self.assertIn("no proof of ECMP", text)
        self.assertIn("byte counters of each uplink", text)
        self.assertIn("the device is emulated", text)

    def test_a_baseline_tells_what_changed(self):
        base = os.path.join(self.folder, "base.json")
        self.loopback("-n", 100, "--save-baseline", base)
        text, _ = self.loopback("-n", 100, "--compare", base, "--tolerance", 100)
        self.assertIn("no setting changed", text)
        text, _ = self.loopback("-n", 100, "-t", 64, "--compare", base, "--tolerance", 100)
        self.assertIn("the single setting that changed: -t 128 -> 64", text)
        text, _ = self.loopback("-n", 200, "-t", 64, "--compare", base, "--tolerance", 100)
        self.assertIn("2 settings changed, so that no single factor can be named: -n 100 -> 200; -t 128 -> 64", text)
        text, _ = self.loopback("-n", 100, "-q", 2, "--compare", base, "--tolerance", 100)
        self.assertIn("qps 1 -> 2: ", text)
        with open(base) as file:
            report = json.load(file)
        report["results"][0]["client"]["local_s"] /= 1000  # a machine that was far faster
        with open(base, "w") as file:
            json.dump(report, file)
        text, _ = self.loopback("-n", 100, "--compare", base, exit_code=4)
        self.assertIn("SLOWER by more than", text)

    # ---- Bad input ----

    def test_bad_arguments_are_named(self):
        nowhere = os.path.join(self.folder, "no", "such", "folder")
        empty = os.path.join(self.folder, "empty.json")
        with open(empty, "w") as file:
            file.write("{}")
        for arguments, words in (
            (["--op", "push"], "push is not one of: write write_imm read send atomic"),
            (["-s", "x"], "x is not a size"),
            (["-s", "0"], "-s 0: accepted are 1 to"),
            (["-s", "8,"], "has an empty item"),
            (["-q", "0"], "-q 0: accepted are 1 to"),
            (["-q", "2.5"], "'2.5' is not a whole number"),
            (["-l", "200"], "-l 200: a list of so many requests does not fit into a send queue of -t 128"),
            (["-m", "1500"], "-m 1500: accepted are 256, 512, 1024, 2048, 4096"),
            (["-m", "4096"], "-m 4096: the active MTU of softnic0:1 is 2048"),
            (["-x", "99"], "-x 99: softnic0:1 has no such GID; it has 0: "),
            (["-I", "5000"], "-I 5000: softnic0:1 takes at most 1024 bytes inline"),
            (["-t", "8192"], "-t 8192: needs a queue of "),
            (["-d", "mlx5_7"], "-d mlx5_7: there is no such active RDMA port here; there are softnic0:1, softnic1:1"),
            (["-d", "softnic0:2"], "-d softnic0:2: there is no such active RDMA port"),
            (["-d", "softnic0+softnic0:1"], "names softnic0:1 twice"),
            (["--direction", "up"], "up is not one of: uni bi"),
            (["--json", nowhere], f"{nowhere}: cannot be written"),
            (["--compare", empty], "it has no results"),
            (["--max-time", "-1"], "--max-time"),
            (["otherhost"], "--loopback"),
            (["--nope"], "--nope"),
        ):
            with self.subTest(arguments=arguments):
                text = self.finish(self.start("--loopback", *arguments, softnic="devices=2,mtu=2048"), 2)
                self.assertIn(words, text)
                self.assertNotIn("# softnic", text)  # nothing was measured

    def test_the_server_says_what_it_lacks(self):
        server, port = self.server("-d", "softnic1")
        client = self.start("127.0.0.1", "-p", port, "-d", "softnic0,softnic1", "-n", 10)
        text = self.finish(client, 3)
        self.assertIn("the row uses the client's softnic1:1, for which this end has no port: it has softnic1:1", text)
        self.assertEqual(text.count(" write "), 1, text)  # the first rail was measured, over the server's first
        self.assertIn("it has softnic1:1", self.finish(server, 2 if server.wait(LIMIT_S) == 2 else 3))

    def test_a_server_with_a_smaller_mtu_is_met_or_named(self):
        server, port = self.server(softnic="devices=2,host=1,mtu=1024")
        path = os.path.join(self.folder, "out.json")
        self.finish(self.start("127.0.0.1", "-p", port, "-n", 10, "--json", path))
        with open(path) as file:
            self.assertEqual(json.load(file)["results"][0]["mtu_bytes"], 1024)
        self.finish(server)
        server, port = self.server(softnic="devices=2,host=1,mtu=1024")
        text = self.finish(self.start("127.0.0.1", "-p", port, "-n", 10, "-m", 4096), 3)
        self.assertIn("-m 4096: the active MTU of softnic0:1 is 1024", text)

    # ---- Two processes, and the end of one ----

    def test_client_and_server(self):
        server, port = self.server()
        text = self.finish(self.start("127.0.0.1", "-p", port, "--op", "write,send", "-n", 100, "-b"))
        self.assertEqual(text.count("  bi "), 2, text)
        self.finish(server)

    def test_no_server_and_no_client_are_told(self):
        port = free_port()
        text = self.finish(self.start("127.0.0.1", "-p", port), 3)
        self.assertIn(f"no server at 127.0.0.1:{port}", text)
        server, _ = self.server("--wait", 0.3)
        self.assertIn("no client has come within 0.3 s", self.finish(server, 3))

    def lose(self, victim, other):
        """Ends the victim in the midst of a row; what the other says."""
        victim.send_signal(signal.SIGKILL)
        return self.finish(other, 3)

    def run_for_long(self, *more):
        server, port = self.server()
        client = self.start("127.0.0.1", "-p", port, "-D", 3600, "--max-row-time", 3600, "-n", 1, "--max-bytes", "900000G", *more)
        lines = [client.stdout.readline() for _ in range(3)]
        self.assertIn("BW average", lines[-1])
        return server, client

    def test_an_end_that_vanishes_ends_the_other(self):
        for op in ("write", "send", "read"):
            with self.subTest(op=op):
                server, client = self.run_for_long("--op", op)
                self.assertIn("has closed its connection", self.lose(server, client))
                server, client = self.run_for_long("--op", op)
                self.assertIn("has closed its connection", self.lose(client, server))

    def test_an_end_that_stands_still_ends_the_other(self):
        server, client = self.run_for_long("--op", "send", "--patience", 1)
        server.send_signal(signal.SIGSTOP)
        try:
            self.assertRegex(self.finish(client, 3), "no progress for 1 s|did not acknowledge|does not answer")
        finally:
            server.send_signal(signal.SIGCONT)
        self.finish(server, 3)

    def test_a_request_that_fails_is_explained(self):
        text, _ = self.loopback_failing("-n", 500, softnic="devices=1,fail=dev0:write:100:REM_OP_ERR")
        self.assertRegex(text, r"queue pair 0x[0-9a-f]+ of softnic0:1 \(GID 3 10\.64\.0\.1 RoCE v2\) to 0x")
        self.assertIn("counters of trouble that moved", text)

    def loopback_failing(self, *arguments, softnic):
        return self.finish(self.start("--loopback", *arguments, softnic=softnic), 3), None

    def test_strangers_get_an_error_not_a_row(self):
        for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\x02\x00\x00\x00[]", b"\x05\x00\x00\x00{\"a\":", b""):
            with self.subTest(junk=junk):
                server, port = self.server()
                with socket.create_connection(("127.0.0.1", port)) as stranger:
                    stranger.sendall(junk)
                self.assertRegex(self.finish(server, 3), "does not speak verbs_perf|has closed its connection")

    def frame(self, message):
        text = json.dumps(message).encode()
        return len(text).to_bytes(4, "little") + text

    def test_hostile_rows_are_refused(self):
        row = {"op": "write", "bytes": 64, "qps": 1, "rail": "softnic0:1", "direction": "uni", "batch": 1, "mtu": 0, "gid": -1,
               "inline": 0, "repeat": 0, "iterations": 10, "duration_s": 0, "tx_depth": 16, "cq_mod": 4, "qp_timeout": 14,
               "retry_count": 7, "sl": 0, "tclass": 0, "max_seconds": 1, "max_bytes": 1000, "patience_s": 2, "seed": 1}  # fmt: skip
        port_row = {"name": "softnic0:1", "gid": "0" * 32, "gid_type": 2, "lid": 0, "mtu": 4096, "reads_in_flight": 1, "ethernet": True}
        good = {"row": row, "ports": [port_row], "places": [0]}
        for change in (
            {"row": {**row, "qps": 10**9}}, {"row": {**row, "bytes": 1 << 50}}, {"row": {**row, "op": "x"}},
            {"row": {**row, "tx_depth": -1}}, {"row": 7}, {"ports": []}, {"ports": [{**port_row, "gid": "zz"}]},
            {"ports": [{**port_row, "mtu": 7}]}, {"ports": [{**port_row, "name": 3}]}, {"ports": [port_row] * 3, "places": [9, "x"]},
        ):  # fmt: skip
            with self.subTest(change=change):
                server, port = self.server()
                with socket.create_connection(("127.0.0.1", port)) as stranger:
                    stranger.sendall(self.frame({"verbs_perf": 1, "host": "h"}) + self.frame({**good, **change}))
                    stranger.settimeout(30)
                    answer = b""
                    while chunk := stranger.recv(4096):
                        answer += chunk
                self.assertIn(b'"error"', answer)
                self.assertIn(server.wait(LIMIT_S), (2, 3))

    def test_mpirun(self):
        if not OPTIONS.mpirun:
            self.skipTest("needs mpirun (openmpi-bin) and a build with MPI")
        command = [OPTIONS.mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader",
                   "--mca", "oob_tcp_if_include", "lo", "-x", "SOFTNIC", "-x", "TWOHOP_SOCKET_IFNAME", "-n"]  # fmt: skip
        if os.geteuid() == 0:
            command.insert(1, "--allow-run-as-root")
        environment = {**self.environment(), "TWOHOP_SOCKET_IFNAME": "=lo"}
        run = lambda ranks: subprocess.run(  # noqa: E731
            [*command, ranks, OPTIONS.program, "--softnic", "-n", "100"],
            env=environment, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        out = run("2")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn(" write ", out.stdout)
        out = run("3")
        self.assertIn("a measurement has 2 ends", out.stderr)
        self.assertNotEqual(out.returncode, 0)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpirun", default="")
    parser.add_argument("tests", nargs="*")
    OPTIONS = parser.parse_args()
    loader = unittest.defaultTestLoader
    names = [f"VerbsPerf.{name}" for name in OPTIONS.tests]
    suite = loader.loadTestsFromNames(names, sys.modules[__name__]) if names else loader.loadTestsFromTestCase(VerbsPerf)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
