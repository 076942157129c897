#!/usr/bin/env python3
"""Do Debian's own verbs programs, unmodified, run on softnic and print what they print on an adapter?

usage: tools_test.py --library FOLDER [test ...]
Exit code 77: one of the programs is not installed.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from free_port import free_port  # noqa: E402

PROGRAMS = ("ibv_devinfo", "ibv_devices", "ibv_rc_pingpong", "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat")
DEADLINE_S = 60
GID_INDEX = "3"  # RoCE v2, IPv4
LIBRARY = ""


def environment(words, way="LD_LIBRARY_PATH"):
    env = dict(os.environ)
    env[way] = LIBRARY if way == "LD_LIBRARY_PATH" else f"{LIBRARY}/libibverbs.so.1"
    env["SOFTNIC"] = ",".join(filter(None, (f"domain=tools-{os.getpid()}", words)))
    return env


def listens(port):
    """Read from the kernel's table: a probing connection would be taken for the client."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines):
                return True
    return False


def wait_for(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        time.sleep(0.01)


def run_pair(command, words="", hosts=(0, 0), way="LD_LIBRARY_PATH"):
    """Server and client of one program over the loopback; returns what each printed."""
    port = free_port()
    command = [*command, "-p", str(port)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server_words, client_words = (",".join(filter(None, (words, f"host={host}"))) for host in hosts)
    server = subprocess.Popen(command, env=environment(server_words, way), **pipes)
    client = None
    try:
        wait_for(lambda: listens(port) or server.poll() is not None, f"{command[0]} listens")
        client = subprocess.Popen([*command, "127.0.0.1"], env=environment(client_words, way), **pipes)
        client_text, _ = client.communicate(timeout=DEADLINE_S)
        server_text, _ = server.communicate(timeout=DEADLINE_S)
    finally:
        for process in (server, client):
            if process and process.poll() is None:
                process.kill()
                process.wait()
    if server.returncode or client.returncode:
        raise AssertionError(f"{' '.join(command)}\n--- server {server.returncode}\n{server_text}\n"
                             f"--- client {client.returncode}\n{client_text}")
    return server_text, client_text


def result_row(text):
    """The numbers below the line that begins with #bytes."""
    match = re.search(r"^ #bytes.*\n\s*([\d. \t]+)$", text, re.M)
    assert match, f"no result in\n{text}"
    return [float(number) for number in match.group(1).split()]


class Devinfo(unittest.TestCase):
    def run_devinfo(self, *flags, words="", way="LD_LIBRARY_PATH"):
        return subprocess.run(["ibv_devinfo", *flags], env=environment(words, way), capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)

    def test_many_processes_join_and_leave_at_once(self):
        """Six at a time, 300 in all: a process that leaves must not take the place of one that joins."""
        running = []
        try:
            for _ in range(300):
                running.append(subprocess.Popen(["ibv_devinfo"], env=environment("devices=2"), stdout=subprocess.DEVNULL))
                if len(running) == 6:
                    self.assertEqual(running[0].wait(timeout=DEADLINE_S), 0)
                    running.pop(0)
            for process in running:
                self.assertEqual(process.wait(timeout=DEADLINE_S), 0)
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def test_lists_the_devices_that_were_asked_for(self):
        text = self.run_devinfo(words="devices=3").stdout
        self.assertEqual(re.findall(r"hca_id:\s+(\S+)", text), ["softnic0", "softnic1", "softnic2"])
        self.assertEqual(len(re.findall(r"PORT_ACTIVE", text)), 3)

    def test_verbose_shows_the_gid_table_and_the_mtu(self):
        run = self.run_devinfo("-v", "-d", "softnic1", words="mtu=2048,host=4")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"active_mtu:\s+2048")
        self.assertRegex(run.stdout, r"link_layer:\s+Ethernet")
        self.assertRegex(run.stdout, r"GID\[\s*0\]:\s+fe80:.*RoCE v1")
        self.assertRegex(run.stdout, r"GID\[\s*3\]:\s+::ffff:10\.65\.0\.5, RoCE v2")
        self.assertNotRegex(run.stdout, r"GID\[\s*4\]")

    def test_works_under_ld_preload(self):
        self.assertIn("softnic0", self.run_devinfo(way="LD_PRELOAD").stdout)

    def test_a_bad_setting_is_named_and_leaves_no_device(self):
        run = self.run_devinfo(words="rate=fast")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("SOFTNIC: rate=fast: accepted is", run.stderr)


class Pingpong(unittest.TestCase):
    def check(self, *flags, **how):
        for text in run_pair(["ibv_rc_pingpong", "-d", "softnic0", "-g", GID_INDEX, "-n", "200", "-c", *flags], **how):
            self.assertIn("200 iters in", text)

    def test_polling(self):
        self.check()

    def test_sleeping_on_events(self):
        self.check("-e")

    def test_sleeping_while_the_wire_takes_its_time(self):
        self.check("-e", words="rate=10g,latency=20us")

    def test_between_two_emulated_hosts(self):
        self.check(hosts=(0, 1))

    def test_under_ld_preload(self):
        self.check(way="LD_PRELOAD")

    def test_with_packets_lost(self):
        self.check(words="loss=1%,latency=2us")


class Perftest(unittest.TestCase):
    def bandwidth(self, program, *flags, **how):
        _, text = run_pair([program, "-d", "softnic0", "-x", GID_INDEX, "-F", *flags], **how)
        row = result_row(text)
        self.assertGreater(row[3], 0)
        return row

    def test_write_bw(self):
        self.assertEqual(self.bandwidth("ib_write_bw", "-n", "500")[:2], [65536, 500])

    def test_read_bw(self):
        self.assertEqual(self.bandwidth("ib_read_bw", "-n", "500")[:2], [65536, 500])

    def test_send_bw(self):
        self.assertEqual(self.bandwidth("ib_send_bw", "-n", "500")[:2], [65536, 500])

    def test_send_bw_on_events(self):
        self.bandwidth("ib_send_bw", "-n", "200", "-e")

    def test_several_queue_pairs_both_ways(self):
        self.bandwidth("ib_write_bw", "-n", "200", "-q", "4", "-b")

    def test_write_lat(self):
        _, text = run_pair(["ib_write_lat", "-d", "softnic0", "-x", GID_INDEX, "-F", "-n", "500"])
        self.assertGreater(result_row(text)[4], 0)

    def test_write_bw_is_the_rate_of_the_link(self):
        # Exact on an idle machine. This one may be busy: never more than the wire's, and the best of three near it.
        best = 0
        for _ in range(3):
            mib_per_s = self.bandwidth("ib_write_bw", "-n", "2000", words="rate=4g", hosts=(0, 1))[3]
            share = mib_per_s * 8 * (1 << 20) / 4e9
            self.assertLess(share, 1.01)
            best = max(best, share)
            if best > 0.8:
                break
        self.assertGreater(best, 0.8)

    def test_write_lat_is_the_latency_of_the_link(self):
        # On a busy machine the typical time grows; it can never be less than the wire's.
        _, text = run_pair(["ib_write_lat", "-d", "softnic0", "-x", GID_INDEX, "-F", "-n", "200"], words="latency=50us")
        self.assertGreaterEqual(result_row(text)[2], 50)


def main():
    global LIBRARY
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    options, rest = parser.parse_known_args()
    LIBRARY = options.library
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed (Debian: ibverbs-utils, perftest)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
