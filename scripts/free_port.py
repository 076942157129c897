"""Which port can a server on this machine take? For scripts/launch, the figures and the tests. Standard library only."""
import random
import socket


def free_port(neighbours=0):
    """A port that nothing uses now, nor the `neighbours` after it.

    It is none of those from which the kernel takes the near end of an outgoing connection: such a port may be gone by the
    time that the server listens.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        low, high = map(int, file.read().split())
    ranges = [(first, end) for first, end in ((10000, low), (high + 1, 65536)) if end - first >= 1000]
    first, end = random.choice(ranges or [(1024, 65536)])
    for _ in range(1000):
        port = random.randrange(first, end - neighbours)
        if all(is_free(p) for p in range(port, port + neighbours + 1)):
            return port
    raise OSError(f"no {neighbours + 1} free ports in a row between {first} and {end - 1}")


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
