"""What the drivers of this folder ask of the machine they run on: its name, its GPUs, and hosts with slow links on
it."""
import os
import re
import shutil
import subprocess
from pathlib import Path


def processor():
    match = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else "unknown"


def file_name(text):
    """A processor's or GPU's name as a part of the name of a results file."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def gpus():
    """What nvidia-smi says of each of this host's NVIDIA GPUs."""
    fields = ["name", "driver_version", "memory.total", "compute_cap"]
    try:
        result = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
                                capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if result.returncode != 0:
        return []
    return [dict(zip(fields, map(str.strip, line.split(",")))) for line in result.stdout.splitlines() if line.strip()]


class NotHere(Exception):
    """What this machine or this user can't do."""


class Network:
    """Network namespaces on a bridge, in a namespace of its own too: nothing of this host's network is touched. Token
    buckets let no more than `rate` through each way, and `burst` at once, both in tc's words: at the host's end of each
    cable, and at the bridge's end where several hosts may send to one. That needs root and the programs ip and tc:
    NotHere without them."""
    subnet = "10.0.0.0/24"

    def __init__(self, count, rate, burst):
        prefix = f"bench-{os.getpid()}"
        self.switch = f"{prefix}-switch"
        self.hosts = [f"{prefix}-{rank}" for rank in range(count)]
        self.rate = rate
        self.burst = burst

    @staticmethod
    def address(rank):
        return f"10.0.0.{rank + 1}"

    def command(self, *words):
        result = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        if result.returncode != 0:
            raise NotHere(f"{' '.join(map(str, words))}: {result.stderr.strip()}")

    def set_rate(self, rate):
        """From now on, in all links."""
        self.rate = rate
        ends = [(host, "eth0") for host in self.hosts]
        if len(self.hosts) > 2:
            ends += [(self.switch, f"port{rank}") for rank in range(len(self.hosts))]
        for name, device in ends:
            self.command("tc", "-n", name, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst",
                         self.burst, "latency", "500ms")

    def __enter__(self):
        for program in ("ip", "tc"):
            if not shutil.which(program):
                raise NotHere(f"the program {program} is missing (package iproute2)")
        try:
            for name in [self.switch, *self.hosts]:
                self.command("ip", "netns", "add", name)
            self.command("ip", "-n", self.switch, "link", "add", "bridge0", "type", "bridge")
            self.command("ip", "-n", self.switch, "link", "set", "bridge0", "up")
            for rank, host in enumerate(self.hosts):
                self.command("ip", "-n", self.switch, "link", "add", f"port{rank}", "type", "veth", "peer", "name",
                             "eth0",
                             "netns", host)
                self.command("ip", "-n", self.switch, "link", "set", f"port{rank}", "master", "bridge0", "up")
                self.command("ip", "-n", host, "addr", "add", f"{self.address(rank)}/24", "dev", "eth0")
                self.command("ip", "-n", host, "link", "set", "eth0", "up")
                self.command("ip", "-n", host, "link", "set", "lo", "up")
            self.set_rate(self.rate)
        except NotHere:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in [self.switch, *self.hosts]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
