"""Hosts on this machine, each a network namespace with one link eth0 to a bridge; root only. Standard library only.

The namespaces, their bridge and links have names of this process, are reached by nothing outside, and are removed
however the caller ends.
"""
import os
import subprocess


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Namespaces:
    """with Namespaces(4, "1gbit") as hosts: ... `rate` limits each link both ways; None: no limit."""

    def __init__(self, nodes, rate=None):
        self.names = [f"th{os.getpid()}n{i}" for i in range(nodes)]
        self.hub = f"th{os.getpid()}hub"
        self.rate = rate
        self.made = []

    def __enter__(self):
        try:
            self.add(self.hub)
            ip("-n", self.hub, "link", "add", "br0", "type", "bridge")
            ip("-n", self.hub, "addr", "add", f"{self.hub_address()}/24", "dev", "br0")
            ip("-n", self.hub, "link", "set", "br0", "up")
            for i, name in enumerate(self.names):
                self.add(name)
                self.join(i, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def join(self, i, name):
        ip("-n", self.hub, "link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", self.hub, "link", "set", f"v{i}", "master", "br0", "up")
        ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        if self.rate:
            for namespace, device in ((name, "eth0"), (self.hub, f"v{i}")):
                limit = ["tbf", "rate", self.rate, "burst", "256kb", "latency", "20ms"]
                command = ["ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", device, "root", *limit]
                subprocess.run(command, check=True, capture_output=True, text=True)

    def add(self, name):
        ip("netns", "add", name)
        self.made.append(name)
        ip("-n", name, "link", "set", "lo", "up")

    def __exit__(self, *_):
        for name in reversed(self.made):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    @staticmethod
    def address(node):
        return f"10.78.0.{node + 1}"

    @staticmethod
    def hub_address():
        return "10.78.0.254"

    def inside(self, node):
        """What to put before a command that is to run on a host."""
        return ["ip", "netns", "exec", self.names[node]]

    def inside_hub(self):
        return ["ip", "netns", "exec", self.hub]

    def sent(self):
        """Bytes that each host's link has carried out of it so far: what the bridge's end has received."""
        paths = [f"/sys/class/net/v{i}/statistics/rx_bytes" for i in range(len(self.names))]
        command = ["ip", "netns", "exec", self.hub, "cat", *paths]
        return [int(word) for word in subprocess.check_output(command, text=True).split()]
