#!/usr/bin/env python3
"""Are the ports of scripts/free_port.py free, and none that an outgoing connection may take?"""
import pathlib
import socket
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import free_port as ports  # noqa: E402


class FreePort(unittest.TestCase):
    def test_can_be_bound_and_is_not_among_the_outgoing_ones(self):
        low, high = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
        for _ in range(100):
            port = ports.free_port()
            self.assertTrue(port < low or port > high or low < 11000 and high > 64536, port)
            with socket.socket() as server:
                server.bind(("127.0.0.1", port))

    def test_neither_it_nor_its_neighbour_is_in_use(self):
        with socket.socket() as server:
            taken = ports.free_port(neighbours=2)
            server.bind(("127.0.0.1", taken))
            with mock.patch("random.randrange", side_effect=[taken, taken - 1, taken + 1]):
                self.assertEqual(ports.free_port(neighbours=1), taken + 1)

    def test_where_all_are_in_use_that_is_said(self):
        with mock.patch.object(ports, "is_free", return_value=False), self.assertRaisesRegex(OSError, "no 2 free ports"):
            ports.free_port(neighbours=1)

    def test_ports_above_the_outgoing_ones_do_where_there_are_none_below(self):
        with mock.patch("builtins.open", mock.mock_open(read_data="1024\t50000\n")):
            self.assertGreater(ports.free_port(), 50000)


if __name__ == "__main__":
    unittest.main()
