"""Starts the processes of a measurement and reads their output. Some processes run once, others wait for commands."""
import json
import os
import select
import socket
import subprocess
import time

TIMEOUT = 900  # seconds, for any single run
ANSWER_TIMEOUT = 120  # seconds, for the start of ranks and for each answer


class Failure(Exception):
    pass


def environment(threads, **variables):
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "OMP_NUM_THREADS": str(threads), **variables}


def start(command, variables, first=True, cores=None):
    """Runs a command, on `cores` only if given. Discards the output of all processes except the first."""
    return subprocess.Popen(list(map(str, command)), env=variables, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE if first else subprocess.DEVNULL,
                            preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)))


def finish(processes):
    """Returns the lines that the first process printed. Raises Failure if a process failed."""
    try:
        output = processes[0].communicate(timeout=TIMEOUT)[0]
        for process in processes:
            if process.wait(timeout=TIMEOUT) != 0:
                raise Failure(f"{' '.join(process.args)}\nended with {process.returncode}")
    except subprocess.TimeoutExpired as expired:
        raise Failure(f"{' '.join(expired.cmd)}\ndid not end within {TIMEOUT} s") from None
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return [json.loads(line) for line in output.splitlines()]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Side:
    """A program that answers each line that it reads with a number."""

    def __init__(self, command, threads=1):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True,
                                        env=environment(threads))

    def ask(self, *words, timeout=ANSWER_TIMEOUT):
        ended = "ended"
        try:
            print(*words, file=self.process.stdin, flush=True)
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                self.process.kill()
                ended = f"did not answer within {timeout} s"
            return float(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):  # the program has ended without an answer
            self.process.wait()
            raise Failure(f"{' '.join(self.process.args)}\n{ended}: {' '.join(map(str, words))}") from None

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Ranks:
    """Processes that wait for commands. All get the same line, each through the FIFO `prefix`.RANK, because mpirun
    passes its input to the first rank only. Output other than answers is shown if one of them fails."""

    def __init__(self, name, prefix, count):
        self.name = name
        self.log = open(f"{prefix}.log", "w+b")
        self.running, self.pipes = [], []
        self.told = "start"
        for rank in range(count):
            os.mkfifo(f"{prefix}.{rank}")
            # Opened for reading too, so that opening does not wait for the other end.
            self.pipes.append(os.open(f"{prefix}.{rank}", os.O_RDWR))

    def start(self, command, variables, answers=True):
        """Starts a process. With `answers`, it answers each command with a line."""
        self.running.append(subprocess.Popen(
            list(map(str, command)), env={**os.environ, **{name: str(value) for name, value in variables.items()}},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if answers else self.log, stderr=self.log))

    def tell(self, *words):
        self.told = " ".join(map(str, words))
        for pipe in self.pipes:
            os.write(pipe, (self.told + "\n").encode())

    def answer(self, process):
        text = b""
        deadline = time.monotonic() + ANSWER_TIMEOUT
        while not text.endswith(b"\n"):
            readable, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
            more = os.read(process.stdout.fileno(), 1 << 16) if readable else b""
            if not more:
                self.log.seek(0)
                reason = "ended" if readable else f"did not answer within {ANSWER_TIMEOUT} s"
                raise Failure(f"{self.name}, {self.told}: {reason}\n"
                              + self.log.read().decode(errors="replace")[-3000:])
            text += more
        return text.decode()

    def stop(self):
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in self.pipes:
            os.close(pipe)
        self.log.close()
