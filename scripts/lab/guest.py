"""One virtual machine: its qemu process, and commands that run in it. Knows nothing of the other guests."""
import ctypes
import itertools
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

from lab.kernel import need

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY = "1G"


class LabFailed(Exception):
    """The lab itself does not work, as a sentence."""


def die_with_parent():
    """In the child: when this process is killed, it is too."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start_child(command, stdin=subprocess.DEVNULL, **more):
    return subprocess.Popen(command, stdin=stdin, start_new_session=True, preexec_fn=die_with_parent, **more)


class Job:
    """A command in a guest: its output so far, and its status once it has ended."""

    def __init__(self, guest, number, show):
        self.guest, self.number, self.show = guest, number, show
        self.output, self.status, self.ended = "", None, threading.Event()

    def accept(self, message):
        if "text" in message:
            text = message["text"].encode("latin-1").decode(errors="replace")
            self.output += text
            if self.show:
                stream = sys.stdout if message["stream"] == 1 else sys.stderr
                stream.write(text)
                stream.flush()
        else:
            self.status = message["status"]
            self.ended.set()

    def end(self, number=signal.SIGTERM):
        if not self.ended.is_set():
            self.guest.tell(end=self.number, signal=int(number))


class Guest:
    """`wires`: the -netdev of the control network, then of each rail."""

    def __init__(self, number, folder, boot, wires, largest_mtu, words, accelerator="tcg"):
        self.number, self.folder = number, os.path.join(folder, f"guest{number}")
        os.mkdir(self.folder)
        self.jobs, self.numbers, self.writing = {}, itertools.count(), threading.Lock()
        self.ready = threading.Event()
        kernel, initramfs = boot
        # Emulated, "rep movsb" and clearing pages for nobody are slow: both cost a quarter of the throughput.
        cpu = "max,-erms" if accelerator == "tcg" else "host"
        command = [
            need("qemu-system-x86_64"), "-accel", accelerator, "-cpu", cpu,
            "-smp", "1", "-m", MEMORY, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel, "-initrd", initramfs,
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable init_on_alloc=0 " + words,
            "-serial", f"file:{self.path('console')}",
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,path={self.path('agent')},server=on,wait=off",
            "-device", "virtserialport,chardev=agent,name=agent",
            "-qmp", f"unix:{self.path('qmp')},server=on,wait=off",
        ]
        for i, wire in enumerate(wires):
            command += ["-netdev", f"{wire},id=net{i}", "-device",
                        f"virtio-net-pci,netdev=net{i},id=nic{i},mac=52:54:00:98:{i:02x}:{number + 1:02x},addr={i + 8:#x},"
                        f"host_mtu={largest_mtu},romfile="]
        with open(self.path("qemu.log"), "w") as log:
            self.process = start_child(command, stdout=log, stderr=log)
        self.agent = self.connect("agent")
        threading.Thread(target=self.read, daemon=True).start()

    def path(self, name):
        return os.path.join(self.folder, name)

    def connect(self, name):
        """qemu makes the socket early, but not at once."""
        deadline = time.monotonic() + 20
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self.path(name))
                return connection
            except OSError:
                connection.close()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise LabFailed(f"qemu did not start: {self.text('qemu.log')}") from None
                time.sleep(0.05)

    def text(self, name):
        try:
            with open(self.path(name), errors="replace") as file:
                return file.read()[-2000:].strip()
        except OSError:
            return ""

    def read(self):
        with self.agent.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "ready" in message:
                    self.ready.set()
                else:
                    self.jobs[message["id"]].accept(message)
        for job in list(self.jobs.values()):
            if not job.ended.is_set():
                job.accept({"stream": 2, "text": f"guest {self.number} has ended: {self.text('console')}\n"})
                job.accept({"status": 255})

    def await_boot(self, deadline):
        while not self.ready.wait(0.2):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise LabFailed(f"guest {self.number} did not boot; its console: {self.text('console')} "
                                f"{self.text('qemu.log')}")

    def tell(self, **message):
        with self.writing:
            self.agent.sendall(json.dumps(message).encode() + b"\n")

    def start(self, command, environment=None, folder="/", show=False):
        job = Job(self, next(self.numbers), show)
        self.jobs[job.number] = job
        self.tell(run=job.number, command=list(command), environment=environment or {}, folder=folder)
        return job

    def run(self, *command, timeout=60):
        """The output of a small command that must succeed."""
        job = self.start(command)
        if not job.ended.wait(timeout) or job.status != 0:
            raise LabFailed(f"guest {self.number}: {' '.join(command)} gave status {job.status}: {job.output.strip()}")
        return job.output

    def set_link(self, rail, up):
        """Pulls the cable, or puts it back."""
        with self.connect("qmp") as connection, connection.makefile("rw") as lines:
            for request in ({"execute": "qmp_capabilities"},
                            {"execute": "set_link", "arguments": {"name": f"nic{rail + 1}", "up": up}}):
                lines.write(json.dumps(request) + "\n")
                lines.flush()
                while "return" not in (answer := json.loads(lines.readline())):
                    if "error" in answer:
                        raise LabFailed(f"qemu refuses {request}: {answer['error']}")

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.agent.close()
