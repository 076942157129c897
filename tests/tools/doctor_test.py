#!/usr/bin/env python3
"""Does `twohop doctor` find what is wrong with a host, and say what to do? On made trees of hosts.

usage: doctor_test.py --twohop PROGRAM
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

OPTIONS = None
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max locked memory         {memlock:<20} unlimited            bytes
Max open files            {files:<20} 1048576              files
"""
V4 = "0000:0000:0000:0000:0000:ffff:0a40:0001"
LINK_LOCAL = "fe80:0000:0000:0000:0000:00ff:fe00:0001"


class Host:
    """A folder with the files of a host: one mlx5 port on RoCE, all well."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        port = "sys/class/infiniband/mlx5_0/ports/1/"
        self.files = {
            "sys/class/infiniband/mlx5_0/hca_type": "MT4129",
            "sys/class/infiniband/mlx5_0/fw_ver": "28.39.1002",
            port + "state": "4: ACTIVE",
            port + "phys_state": "5: LinkUp",
            port + "rate": "400 Gb/sec (4X NDR)",
            port + "link_layer": "Ethernet",
            port + "gids/0": LINK_LOCAL,
            port + "gids/1": V4,
            port + "gids/2": "0000:" * 7 + "0000",
            port + "gid_attrs/types/0": "IB/RoCE v1",
            port + "gid_attrs/types/1": "RoCE v2",
            port + "gid_attrs/ndevs/1": "eth0",
            port + "hw_counters/local_ack_timeout_err": "0",
            port + "counters/symbol_error": "0",
            "sys/class/net/eth0/mtu": "9000",
            "dev/infiniband/uverbs0": "",
            "proc/self/limits": LIMITS.format(memlock="unlimited", files=1048576),
            "proc/modules": "ib_uverbs 1 0 - Live\n",
        }
        self.port = port

    def write(self):
        for name, text in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else (text + "\n").encode())


def run(root, *arguments, env=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TWOHOP_", "MASTER_"))}
    command = [OPTIONS.twohop, "doctor", "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**clean, **(env or {})})


def acs(control):
    """A bridge's configuration space with access control: in the second of two extended capabilities."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x140 << 20 | 1 << 16 | 0x0001)
    struct.pack_into("<IHH", space, 0x140, 1 << 16 | 0x000D, 0x5F, control)
    return bytes(space)


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.host = Host(self.folder.name)

    def examine(self, env=None):
        self.host.write()
        out = run(self.host.root, "--json", env=env)
        self.report = json.loads(out.stdout)
        self.assertEqual(out.returncode, 1 if self.report["errors"] else 0, out.stdout)
        return {f["check"]: f for f in self.report["findings"]}

    def assert_found(self, check, level, next_step="", env=None):
        found = self.examine(env)
        self.assertIn(check, found)
        self.assertEqual(found[check]["level"], level, found[check])
        self.assertIn(next_step, found[check]["next"])
        if level in ("warning", "error"):
            self.assertTrue(found[check]["meaning"] and found[check]["next"], found[check])

    def test_a_sound_host_has_no_problem(self):
        self.examine()
        self.assertEqual((self.report["errors"], self.report["warnings"]), (0, 0), self.report)

    def test_a_host_without_devices_uses_tcp(self):
        self.host.files = {k: v for k, v in self.host.files.items() if "infiniband" not in k}
        self.assert_found("RDMA devices", "info", "lspci")

    def test_a_container_without_device_files(self):
        del self.host.files["dev/infiniband/uverbs0"]
        self.assert_found("/dev/infiniband", "error", "--device")

    def test_a_port_that_is_down(self):
        self.host.files[self.host.port + "state"] = "1: DOWN"
        self.assert_found("mlx5_0:1", "warning", "cable")

    def test_a_fabric_without_a_subnet_manager(self):
        self.host.files[self.host.port + "link_layer"] = "InfiniBand"
        self.host.files[self.host.port + "state"] = "2: INIT"
        self.assert_found("mlx5_0:1", "error", "opensm")

    def test_a_link_on_one_lane(self):
        self.host.files[self.host.port + "link_layer"] = "InfiniBand"
        self.host.files[self.host.port + "rate"] = "100 Gb/sec (1X NDR)"
        self.assert_found("mlx5_0:1", "warning", "reseat")

    def test_gids(self):
        self.host.files[self.host.port + "gid_attrs/types/1"] = "IB/RoCE v1"
        self.assert_found("mlx5_0:1 GIDs", "warning", "RoCE v2")
        self.host.files[self.host.port + "gids/1"] = "0000:" * 7 + "0000"
        self.host.files[self.host.port + "gids/0"] = "0000:" * 7 + "0000"
        self.assert_found("mlx5_0:1 GIDs", "error", "address")

    def test_an_mtu_below_rdma_packets_and_an_interface_elsewhere(self):
        self.host.files["sys/class/net/eth0/mtu"] = "1500"
        self.assert_found("mlx5_0:1 MTU", "warning", "mtu 9000")
        self.host.files[self.host.port + "gid_attrs/ndevs/1"] = "eth9"
        self.assert_found("mlx5_0:1 MTU", "warning", "TWOHOP_IB_HCA")

    def test_counters_of_trouble(self):
        self.host.files[self.host.port + "hw_counters/local_ack_timeout_err"] = "17"
        self.host.files[self.host.port + "counters/symbol_error"] = "3"
        self.assert_found("mlx5_0:1 local_ack_timeout_err", "warning", "PFC")
        self.assert_found("mlx5_0:1 symbol_error", "warning", "cable")

    def test_limits(self):
        self.host.files["proc/self/limits"] = LIMITS.format(memlock=65536, files=200)
        self.assert_found("memlock", "error", "ulimit -l")
        self.assert_found("open files", "error", "ulimit -n")
        self.host.files["proc/self/limits"] = LIMITS.format(memlock="unlimited", files=1024)
        self.assert_found("open files", "warning", "LimitNOFILE")

    def test_gpu_direct(self):
        self.host.files["proc/driver/nvidia/gpus/0000:01:00.0/information"] = "x"
        self.assert_found("GPUDirect RDMA", "warning", "nvidia_peermem")
        self.host.files["proc/modules"] += "nvidia_peermem 16384 0 - Live"
        self.assert_found("GPUDirect RDMA", "ok")

    def test_access_control_of_bridges(self):
        bridge = "sys/bus/pci/devices/0000:00:01.0/"
        self.host.files[bridge + "class"] = "0x060400"
        self.host.files[bridge + "config"] = acs(0x1D)
        self.assert_found("PCIe ACS", "warning", "setpci")
        self.host.files[bridge + "config"] = acs(0)
        self.assert_found("PCIe ACS", "ok")
        self.host.files[bridge + "config"] = acs(0x1D)[:64]
        self.assert_found("PCIe ACS", "info", "root")
        # A list of capabilities that leads nowhere, or in a circle.
        space = bytearray(acs(0))
        struct.pack_into("<I", space, 0x100, 0x100 << 20 | 1 << 16 | 0x0001)
        self.host.files[bridge + "config"] = bytes(space)
        self.assert_found("PCIe ACS", "ok")

    def test_variables(self):
        self.assert_found("TWOHOP_NCHANNELS", "error", "unset", {"TWOHOP_NCHANNELS": "many"})
        self.assert_found("variables", "warning", "name", {"TWOHOP_ALGRO": "flat"})

    def test_text_has_the_next_step_and_no_control_characters(self):
        self.host.files[self.host.port + "state"] = "1: DOWN\x1b[31m"
        self.host.write()
        out = run(self.host.root, "--problems")
        self.assertIn("next: check cable", out.stdout)
        self.assertNotIn("\x1b", out.stdout)
        self.assertIn("0 errors, 1 warnings", out.stdout)

    def test_this_host_is_examined_in_full(self):
        out = run("/", "--json")
        checks = {f["check"] for f in json.loads(out.stdout)["findings"]}
        self.assertLessEqual({"memlock", "open files", "memfd", "network interface", "libibverbs", "softnic"}, checks)

    def test_a_rendezvous_port_that_is_taken(self):
        import socket
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", 0))
            taken.listen()
            port = taken.getsockname()[1]
            out = json.loads(run("/", "--json", env={"TWOHOP_PORT": str(port)}).stdout)
        found = [f for f in out["findings"] if f["check"] == "rendezvous port"]
        self.assertEqual([f["level"] for f in found], ["warning"], found)

    def test_a_root_that_is_none_is_refused(self):
        self.assertEqual(run("/nonexistent").returncode, 1)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--twohop", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)


if __name__ == "__main__":
    main()
