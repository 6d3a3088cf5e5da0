"""Starts the processes of a measurement, and reads the lines of JSON that the first one prints."""
import json
import os
import subprocess

TIMEOUT = 300  # seconds, for any one run


class Failure(Exception):
    pass


def environment(threads, **variables):
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "OMP_NUM_THREADS": str(threads), **variables}


def start(command, variables, first=True, cores=None):
    """On `cores` only, if given. What processes other than the first print is dropped."""
    return subprocess.Popen(list(map(str, command)), env=variables, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE if first else subprocess.DEVNULL,
                            preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)))


def finish(processes):
    """The lines that the first process printed, when all have ended well."""
    try:
        output = processes[0].communicate(timeout=TIMEOUT)[0]
        for process in processes:
            if process.wait(timeout=TIMEOUT) != 0:
                raise Failure(f"{' '.join(process.args)}\nended with {process.returncode}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return [json.loads(line) for line in output.splitlines()]
