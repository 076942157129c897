"""How the figures run programs: ranks by the launcher environment, Open MPI beside them, medians over rounds."""
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PERF = os.path.join(ROOT, "build", "release", "perf")
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "scripts", "lab")]
from free_port import free_port  # noqa: E402

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through all `finally`: no rank and no namespace stays behind

LAUNCHER_VARIABLES = ("TWOHOP_", "OMPI_", "PMI", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SOFTNIC")


def run_ranks(nranks, command, environment=None, of_rank=None, prefix=None, timeout=300):
    """Runs the ranks of one job to their end and returns what each has written; a rank that fails ends the program."""
    port = str(free_port())
    common = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_VARIABLES)}
    common |= {"WORLD_SIZE": str(nranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TWOHOP_PORT": port,
               "TWOHOP_JOB_SECRET": secrets.token_hex(16), "TWOHOP_SOCKET_IFNAME": "=lo", **(environment or {})}
    ranks = []
    try:
        for rank in range(nranks):
            own = common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | (of_rank(rank) if of_rank else {})
            before = prefix(rank) if prefix else []
            ranks.append(subprocess.Popen(before + command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                          text=True))
        texts = [rank.communicate(timeout=timeout)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for rank, text in zip(ranks, texts):
        if rank.returncode != 0:
            sys.exit(f"{' '.join(command)}: status {rank.returncode}\n{text[-3000:]}")
    return texts


def allreduce(nranks, size, iterations, *more, **how):
    """allreduce_perf, out of place; its times in microseconds, its counts, and what the ranks have written."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [f"{PERF}/allreduce_perf", "-b", str(size), "-e", str(size), "-n", str(iterations), "-c", "0",
                   "--json", file.name, *more]
        texts = run_ranks(nranks, command, **how)
        result = json.load(open(file.name, encoding="utf-8"))["results"][0]
    return {**result, **result["time_us"], "texts": texts}


MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PMIX_MCA_gds": "hash",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_base_warn_component_unused": "0",
}


def open_mpi(nranks, size, iterations, warmup=5, before=(), arguments=(), timeout=300):
    """The same of MPI_Allreduce. `before`: where mpirun itself runs."""
    command = [*before, "mpirun", *arguments, "-n", str(nranks), f"{PERF}/mpi_perf", "-b", str(size), "-n",
               str(iterations), "-w", str(warmup)]
    done = subprocess.run(command, env={**os.environ, **MPI_ENVIRONMENT}, capture_output=True, text=True,
                          timeout=timeout)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(lines[0])


def interleaved(rounds, runs):
    """Runs each of `runs` (name -> function) once per round, in rotated order; all results by name."""
    names, results = list(runs), {name: [] for name in runs}
    for round_ in range(rounds):
        first = round_ % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(runs[name]())
    return results


def median(results, key):
    return statistics.median(result[key] for result in results)


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def bytes_of(text):
    """4096, 64K, 16M."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1].upper()] if text[-1].upper() in units else int(text)


def table(head, rows):
    print(f"| {' | '.join(head)} |")
    print(f"|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)
