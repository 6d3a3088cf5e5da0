"""Queries the machine that runs these drivers: its processor, its GPUs, and virtual hosts with slow links."""
import os
import re
import shutil
import subprocess
from pathlib import Path


def processor():
    match = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else "unknown"


def file_name(text):
    """Turns the name of a processor or GPU into a part of a results file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def gpus():
    """Lists this host's NVIDIA GPUs, as nvidia-smi reports them."""
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
    """This machine or this user lacks something that a measurement needs."""


class Network:
    """Network namespaces on a bridge, which is in a separate namespace, so the host's network does not change. Token
    buckets limit each direction to `rate`, with bursts of `burst`, both in tc's notation. They are at the host's end of
    each cable, and also at the bridge's end if several hosts may send to one. Needs root and the programs ip and tc;
    raises NotHere without them."""
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
        """Sets the rate of all links from now on."""
        self.rate = rate
        ends = [(host, "eth0") for host in self.hosts]
        if len(self.hosts) > 2:
            ends += [(self.switch, f"port{rank}") for rank in range(len(self.hosts))]
        for name, device in ends:
            self.command("tc", "-n", name, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst",
                         self.burst, "latency", "500ms")

    def sent(self):
        """The bytes that each host's interface has sent so far."""
        counter = "/sys/class/net/eth0/statistics/tx_bytes"
        commands = [["ip", "netns", "exec", host, "cat", counter] for host in self.hosts]
        return [int(subprocess.run(command, check=True, capture_output=True).stdout) for command in commands]

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
