"""Starts the ranks of one job as processes, reads what they tell, and leaves nothing behind. Standard library only."""
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from free_port import free_port  # noqa: E402

LAUNCHER_VARIABLES = ("TWOHOP_", "OMPI_", "PMI", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_")


class Rank:
    """One process: its JSON lines as `events`, its other output as `text`."""

    def __init__(self, number, command, environment, changed):
        self.number, self.events, self.text, self._changed = number, [], "", changed
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, stream):
        for line in stream:
            with self._changed:
                if line.startswith("{"):
                    self.events.append(json.loads(line))
                else:
                    self.text += line
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def find(self, event):
        return [e for e in self.events if e["event"] == event]


class Job:
    """with Job(n, command) as job: ... ends every process that is still there, whatever happened."""

    def __init__(self, nranks, command, environment=None, per_rank=None, prefix=None):
        self.nranks, self.changed, self.ranks = nranks, threading.Condition(), []
        self.port = free_port()
        self.command, self.per_rank, self.prefix = command, per_rank or {}, prefix or (lambda rank: [])
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_VARIABLES)},
            "WORLD_SIZE": str(nranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
            "TWOHOP_PORT": str(self.port),
            "TWOHOP_JOB_SECRET": secrets.token_hex(16),
            "TWOHOP_SOCKET_IFNAME": "=lo",
            "TWOHOP_TIMEOUT_S": "60",
            **(environment or {}),
        }

    def start(self, rank):
        environment = dict(self.environment, RANK=str(rank), LOCAL_RANK=str(rank), **self.per_rank.get(rank, {}))
        process = Rank(rank, self.prefix(rank) + self.command, environment, self.changed)
        self.ranks.append(process)
        return process

    def __enter__(self):
        for rank in range(self.nranks):
            self.start(rank)
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.send_signal(signal.SIGCONT)
                rank.process.kill()
        for rank in self.ranks:
            rank.process.wait()
            for reader in rank.readers:
                reader.join(5)
            rank.process.stdout.close()
            rank.process.stderr.close()

    def until(self, condition, seconds, what):
        """Waits until condition() holds; an AssertionError with all that was seen if it does not in time."""
        end = time.monotonic() + seconds
        with self.changed:
            while not condition():
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not within {seconds} s: {what}\n{self.story()}")
                self.changed.wait(min(left, 0.1))

    def until_event(self, event, seconds, ranks=None):
        what = f"event '{event}' of {ranks or 'all'} ranks"
        self.until(lambda: all(r.find(event) for r in self.pick(ranks)), seconds, what)

    def until_ended(self, seconds, ranks=None):
        def ended(rank):
            return rank.process.poll() is not None and not any(t.is_alive() for t in rank.readers)

        self.until(lambda: all(map(ended, self.pick(ranks))), seconds, f"end of {ranks or 'all'} ranks")

    def pick(self, ranks):
        return self.ranks if ranks is None else [r for r in self.ranks if r.number in ranks]

    def story(self):
        parts = []
        for r in self.ranks:
            lines = "\n".join(json.dumps(e) for e in r.events[-6:])
            parts.append(f"rank {r.number} (exit code {r.process.poll()}):\n{lines}\n{r.text[-2000:]}")
        return "\n".join(parts)


def sockets_of(pid):
    """Names of the abstract Unix sockets that process `pid` has open."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return {name for inode, name in abstract_sockets() if inode in inodes}


def abstract_sockets():
    with open("/proc/net/unix") as table:
        rows = [line.split(None, 7) for line in table.readlines()[1:]]
    return [(row[6], row[7].strip()) for row in rows if len(row) == 8 and row[7].startswith("@")]
