"""Runs commands in a guest for the host. One JSON object per line, both ways, over a virtio port.

From the host: {"run": id, "command": [...], "environment": {...}, "folder": path} and {"end": id, "signal": number}.
To the host: {"ready": true}, {"id": id, "stream": 1 or 2, "text": latin-1 text}, {"id": id, "status": number}.
"""
import glob
import json
import os
import signal
import subprocess
import threading

LINGER_S = 2.0  # for output of what a command has left behind


def open_port():
    for name in glob.glob("/sys/class/virtio-ports/*/name"):
        with open(name) as file:
            if file.read().strip() == "agent":
                return open("/dev/" + name.split("/")[-2], "r+b", buffering=0)
    raise SystemExit("no virtio port is called agent")


class Agent:
    def __init__(self, port):
        self.port, self.writing, self.jobs = port, threading.Lock(), {}

    def tell(self, **message):
        rest = memoryview(json.dumps(message).encode() + b"\n")
        with self.writing:
            while rest:
                rest = rest[self.port.write(rest):]

    def forward(self, job, stream, pipe):
        while data := os.read(pipe.fileno(), 1 << 16):
            self.tell(id=job, stream=stream, text=data.decode("latin-1"))

    def run(self, job, command, environment, folder):
        try:
            process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=folder, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            self.tell(id=job, stream=2, text=f"{error.filename or command[0]}: {error.strerror}\n")
            self.tell(id=job, status=127)
            return
        self.jobs[job] = process
        readers = [threading.Thread(target=self.forward, args=(job, number, pipe), daemon=True)
                   for number, pipe in ((1, process.stdout), (2, process.stderr))]
        for reader in readers:
            reader.start()
        status = process.wait()
        for reader in readers:
            reader.join(LINGER_S)
        self.tell(id=job, status=status if status >= 0 else 128 - status)
        del self.jobs[job]

    def end(self, job, number):
        process = self.jobs.get(job)
        if process:
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass

    def serve(self):
        self.tell(ready=True)
        for line in self.port:
            message = json.loads(line)
            if "run" in message:
                arguments = (message["run"], message["command"], message["environment"], message["folder"])
                threading.Thread(target=self.run, args=arguments, daemon=True).start()
            else:
                self.end(message["end"], message["signal"])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Agent(open_port()).serve()
