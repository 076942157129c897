"""Which kernel do the guests run, and what do they boot from? Debian's package, cached as a kernel and an initramfs.

Nothing is installed: the package is downloaded, unpacked, and thrown away once the few modules are taken out of it.
"""
import glob
import gzip
import lzma
import os
import re
import shutil
import subprocess
import tempfile

PACKAGE = r"linux-image-6\.12\.[0-9]+\+deb12-amd64-unsigned"
# rdma_rxe computes its checksums by the name "crc32" and does not ask for the module itself.
MODULES = ["crc32_generic", "virtio_net", "9p", "9pnet_virtio", "rdma_rxe", "ib_uverbs", "rdma_ucm", "sch_netem"]
FORMAT = 1  # of the cache: another number makes it anew


class LabMissing(Exception):
    """What the lab needs and cannot have here, as a sentence."""


def cache_root():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "twohop", f"lab-{FORMAT}")


def version_key(name):
    return [int(number) for number in re.findall(r"\d+", name)]


def boot_files(say):
    """(kernel, initramfs without /init), from the cache if it has any."""
    cached = sorted(glob.glob(os.path.join(cache_root(), "*", "modules.cpio.gz")), key=version_key)
    folder = os.path.dirname(cached[-1]) if cached else make_boot_files(say)
    return os.path.join(folder, "vmlinuz"), os.path.join(folder, "modules.cpio.gz")


def make_boot_files(say):
    os.makedirs(cache_root(), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=cache_root()) as work:
        package = download(work, say)
        say(f"unpacking {os.path.basename(package)}")
        tree = os.path.join(work, "tree")
        command("dpkg-deb", "-x", package, tree)
        version = os.listdir(os.path.join(tree, "lib", "modules"))[0]
        made = os.path.join(work, "made")
        os.mkdir(made)
        shutil.copy(os.path.join(tree, "boot", f"vmlinuz-{version}"), os.path.join(made, "vmlinuz"))
        pack(os.path.join(made, "modules.cpio.gz"), module_files(tree, version))
        folder = os.path.join(cache_root(), version)
        try:
            os.rename(made, folder)
        except OSError:
            if not os.path.isdir(folder):  # else another run was faster
                raise
        return folder


def download(work, say):
    name = newest_package()
    if not name and os.geteuid() == 0:
        command("apt-get", "update", "-q")
        name = newest_package()
    if not name:
        raise LabMissing("apt knows no package linux-image-6.12.*+deb12-amd64-unsigned: add bookworm-updates and "
                         "bookworm-security to its sources and run apt-get update")
    say(f"downloading {name} (about 100 MB, once)")
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    try:
        command("apt-get", "download", "-q", *sandbox, name, cwd=work)
    except LabMissing:
        if os.geteuid() != 0:
            raise
        command("apt-get", "update", "-q")  # the list may name a version that is gone
        command("apt-get", "download", "-q", *sandbox, newest_package() or name, cwd=work)
    return glob.glob(os.path.join(work, "*.deb"))[0]


def newest_package():
    found = command("apt-cache", "search", "--names-only", f"^{PACKAGE}$")
    return max((line.split()[0] for line in found.splitlines()), key=version_key, default=None)


def module_files(tree, version):
    """[(name in the initramfs, content)]; the names' order is the order of loading."""
    command("depmod", "-b", tree, version)
    order = []
    for module in MODULES:
        for line in command("modprobe", "-d", tree, "-S", version, "--show-depends", module).splitlines():
            action, path = line.split()[:2]
            if action == "insmod" and path not in order:
                order.append(path)
    files = []
    for number, path in enumerate(order):
        with lzma.open(path) as module:
            files.append((f"modules/{number:02}-{os.path.basename(path)[:-3]}", module.read()))
    with open(need("busybox"), "rb") as busybox:
        files.append(("bin/busybox", busybox.read()))
    return files


def pack(path, files):
    """Writes a compressed cpio archive ("newc") of executable files."""
    folders = sorted({os.path.dirname(name) for name, _ in files} - {""})
    with gzip.open(path, "wb", compresslevel=6) as out:
        for number, (name, mode, content) in enumerate(
                [(f, 0o040755, b"") for f in folders] + [(n, 0o100755, c) for n, c in files] +
                [("TRAILER!!!", 0, b"")]):
            fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
            header = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
            out.write(header + b"\0" * (-len(header) % 4) + content + b"\0" * (-len(content) % 4))


def need(program):
    # Administrators' programs are in no ordinary user's PATH.
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise LabMissing(f"the program {program} is missing: run scripts/deps --lab")
    return found


def command(program, *arguments, cwd=None):
    try:
        return subprocess.run([need(program), *arguments], cwd=cwd, check=True, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True).stdout
    except subprocess.CalledProcessError as error:
        raise LabMissing(f"{program} {' '.join(arguments)} failed: {error.stderr.strip()[-400:]}") from error
