"""Several guests joined by rails, and what is done over all of them: ranks started, packets lost, links pulled."""
import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time

from lab.guest import HERE, Guest, LabFailed, start_child
from lab.kernel import boot_files, need, pack

ROOT = os.path.dirname(os.path.dirname(HERE))
CONTROL_ADDRESS = "10.98.0.{}"  # init.sh gives it; one more than the guest's number
BOOT_S = 300
GRACE_S = 10.0  # for ranks to tell what they know, once one has failed


class Ended:
    """What a command over all guests came to."""

    def __init__(self, status, jobs):
        self.status, self.jobs = status, jobs
        self.output = "".join(job.output for job in jobs)


class Lab:
    """with Lab(...) as lab: ... leaves no process and no file behind, whatever happens in between."""

    def __init__(self, guests=2, rails=2, mtu=(9000,), accelerator="tcg", show=(), say=lambda text: None):
        self.count, self.rails, self.accelerator, self.say = guests, rails, accelerator, say
        self.show = [ROOT, os.getcwd(), *show]  # what of the host is seen although it lies in /tmp or the like
        self.largest_mtu = 9000 if guests == 2 else 1500  # a vde_switch drops larger frames
        self.mtu = [min(m, self.largest_mtu) for m in (list(mtu) * guests if len(mtu) == 1 else mtu)]
        self.folder, self.guests, self.switches, self.timers = None, [], [], []
        self.port = 29500
        self.pulled = set()
        self.disturbed = False
        self.has_mpirun = False

    def __enter__(self):
        try:
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def boot(self):
        kernel, modules = boot_files(self.say)
        for program in ("qemu-system-x86_64", "vde_switch"):
            need(program)
        self.folder = tempfile.mkdtemp(prefix="twohop-lab-")
        initramfs = os.path.join(self.folder, "initramfs")
        with open(os.path.join(HERE, "init.sh"), "rb") as init:
            pack(initramfs, [("init", init.read())])
        with open(initramfs, "ab") as both, open(modules, "rb") as file:
            shutil.copyfileobj(file, both)
        wires = [self.wire(rail) for rail in range(-1, self.rails)]
        start = time.monotonic()
        for g in range(self.count):
            words = " ".join(f"lab.{k}={v}" for k, v in self.words(g).items())
            self.guests.append(Guest(g, self.folder, (kernel, initramfs), [w(g) for w in wires], self.largest_mtu, words,
                                     self.accelerator))
        for guest in self.guests:
            guest.await_boot(start + BOOT_S)
        self.say(f"{self.count} guests of {self.rails} rails are up after {time.monotonic() - start:.0f} s")

    def words(self, guest):
        for path in self.show:
            if any(c in path for c in " :\"\\"):
                raise LabFailed(f"{path}: the lab cannot show paths with spaces, quotes or colons to its guests")
        return {"guest": guest, "guests": self.count, "rails": self.rails, "mtu": self.mtu[guest],
                "show": ":".join(self.show), "agent": os.path.join(HERE, "agent.py")}

    def wire(self, rail):
        """guest -> its -netdev on this wire. Unix sockets in our own folder: no other user, no other machine."""
        path = os.path.join(self.folder, f"wire{rail + 1}")
        if self.count == 2:
            return lambda guest: (f"stream,server={'on' if guest == 0 else 'off'},addr.type=unix,addr.path={path}")
        log = open(path + ".log", "w")
        with log:
            # It ends with its standard input, so with us.
            switch = start_child([need("vde_switch"), "--sock", path], stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.switches.append(switch)
        deadline = time.monotonic() + 20
        while not os.path.exists(os.path.join(path, "ctl")):
            if switch.poll() is not None or time.monotonic() > deadline:
                with open(path + ".log") as file:
                    raise LabFailed(f"vde_switch did not start: {file.read().strip()}")
            time.sleep(0.05)
        return lambda guest: f"vde,sock={path}"

    def __exit__(self, *_):
        for timer in self.timers:
            timer.cancel()
        for guest in self.guests:
            guest.stop()
        for switch in self.switches:
            switch.kill()
            switch.wait()
            switch.stdin.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- What happens to the wires ----

    def disturb(self, loss=0, delay=0):
        """Every packet that a guest sends on a rail: lost by so many per cent, late by so many milliseconds.

        Until restore(). A long queue: nothing else is to be lost.
        """
        self.disturbed = True
        how = ["netem", "limit", "100000", "loss", f"{loss}%", "delay", f"{delay}ms"]
        for guest in self.guests:
            for rail in range(self.rails):
                guest.run("tc", "qdisc", "replace", "dev", f"rail{rail}", "root", *how)

    def calm(self):
        for guest in self.guests:
            for rail in range(self.rails):
                guest.run("tc", "qdisc", "delete", "dev", f"rail{rail}", "root")
        self.disturbed = False

    def set_link(self, rail, up):
        (self.pulled.discard if up else self.pulled.add)(rail)
        for guest in self.guests:
            guest.set_link(rail, up)

    def after(self, seconds, action, *arguments):
        timer = threading.Timer(seconds, action, arguments)
        timer.daemon = True
        self.timers.append(timer)
        timer.start()

    def restore(self):
        """Forgets what was to happen, puts back the cables that were pulled, disturbs no packet any more."""
        for timer in self.timers:
            timer.cancel()
            timer.join()
        self.timers.clear()
        for rail in self.pulled.copy():
            self.set_link(rail, True)
        if self.disturbed:
            self.calm()

    def hw_counters(self):
        """{(guest, rail): {counter: value}} of all Soft-RoCE devices."""
        found = {}
        for g, guest in enumerate(self.guests):
            for line in guest.run("sh", "-c", "cd /sys/class/infiniband && grep -H . */ports/1/hw_counters/*"
                                  ).splitlines():
                path, value = line.rsplit(":", 1)
                device, name = path.split("/")[0], path.split("/")[-1]
                if name != "lifespan":
                    found.setdefault((g, int(device[3:])), {})[name] = int(value)
        return found

    # ---- What runs in the guests ----

    def launch(self, command, ranks_per_guest=1, environment=None, per_guest=None, folder=None, timeout=None, show=False):
        """Ranks by the launcher's environment, as scripts/launch sets it. The first that fails gives the status."""
        world, secret = ranks_per_guest * self.count, secrets.token_hex(32)
        self.port += 2
        jobs = []
        for rank in range(world):
            g = rank // ranks_per_guest
            jobs.append(self.guests[g].start(command, {
                "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % ranks_per_guest),
                "MASTER_ADDR": CONTROL_ADDRESS.format(1), "MASTER_PORT": str(self.port), "TWOHOP_JOB_SECRET": secret,
                "TWOHOP_SOCKET_IFNAME": "=ctl", **(environment or {}), **((per_guest or {}).get(g, {})),
            }, folder or os.getcwd(), show))
        return self.await_jobs(jobs, timeout)

    def everywhere(self, command, environment=None, folder=None, timeout=None, show=False):
        """The same command once in each guest."""
        folder = folder or os.getcwd()
        return self.await_jobs([g.start(command, environment, folder, show) for g in self.guests], timeout)

    def mpirun(self, command, ranks_per_guest=1, environment=None, folder=None, timeout=None, show=False):
        self.prepare_mpirun()
        environment = {"TWOHOP_SOCKET_IFNAME": "=ctl", **(environment or {})}
        words = ["mpirun", "--allow-run-as-root", "-np", str(ranks_per_guest * self.count), "--host",
                 ",".join(f"lab{g}:{ranks_per_guest}" for g in range(self.count)), "--wdir", folder or os.getcwd()]
        for name in environment:
            words += ["-x", name]
        for name, value in (("plm_rsh_agent", "dbclient -y -y -i /run/key"), ("oob_tcp_if_include", "ctl"),
                            ("btl_tcp_if_include", "ctl"), ("btl", "tcp,self,vader"), ("mpi_yield_when_idle", "1"),
                            ("hwloc_base_binding_policy", "none"), ("rmaps_base_oversubscribe", "1"),
                            ("btl_vader_single_copy_mechanism", "none"), ("orte_tmpdir_base", "/tmp")):
            words += ["--mca", name, value]
        job = self.guests[0].start(words + list(command), environment, "/", show)
        return self.await_jobs([job], timeout)

    def prepare_mpirun(self):
        """A key for guest 0, which all guests accept."""
        if self.has_mpirun:
            return
        self.guests[0].run("dropbearkey", "-t", "ed25519", "-f", "/run/key")
        key = next(line for line in self.guests[0].run("dropbearkey", "-y", "-f", "/run/key").splitlines()
                   if line.startswith("ssh-"))
        for guest in self.guests:
            guest.run("sh", "-c", "umask 077; mkdir -p ~/.ssh; echo \"$0\" >~/.ssh/authorized_keys; "
                      "dropbearkey -t ed25519 -f /run/host_key; "
                      f"exec dropbear -s -r /run/host_key -p {CONTROL_ADDRESS.format(guest.number + 1)}:22", key)
        self.has_mpirun = True

    def await_jobs(self, jobs, timeout):
        """The status of the first job that fails, in order of time. 124 when time is up, as of timeout(1)."""
        deadline = time.monotonic() + timeout if timeout else None
        try:
            while True:
                failed = [job for job in jobs if job.ended.is_set() and job.status != 0]
                running = [job for job in jobs if not job.ended.is_set()]
                if failed or not running:
                    break
                if deadline and time.monotonic() > deadline:
                    return Ended(124, jobs)
                running[0].ended.wait(0.1)
            end = time.monotonic() + GRACE_S
            for job in jobs:
                job.ended.wait(max(0.0, end - time.monotonic()))
            return Ended(failed[0].status if failed else 0, jobs)
        finally:
            self.end(jobs)

    @staticmethod
    def end(jobs):
        for number in (15, 9):
            for job in jobs:
                job.end(number)
            for job in jobs:
                job.ended.wait(5)
