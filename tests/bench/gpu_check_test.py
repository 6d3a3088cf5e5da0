#!/usr/bin/env python3
"""Tests what scripts/gpu_check reports about programs that fail, crash or hang, or in which compute-sanitizer finds
errors. Scripts replace the programs that need a GPU."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.dont_write_bytecode = True
SCRIPT = Path(__file__).resolve().parents[2] / "scripts/gpu_check"
loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(gpu_check)

# A program with GoogleTest's command line. The name of a test says what it does. A first line, which names Python, is
# added to this text and the next.
TEST_CUDA = """
import os, sys, time
option, _, value = sys.argv[1].partition("=")
if option == "--gtest_list_tests":
    print("Suite.", *NAMES, sep="\\n  ")
    sys.exit()
names, code = value.split(":"), 0
for name in names:
    print("[ RUN      ]", name, flush=True)
    verdict = "      OK"
    if "crashes" in name:
        os.abort()
    if "hangs" in name:
        time.sleep(60)
    if "reported" in name and "SANITIZER" in os.environ:
        print("========= Invalid __global__ read of size 4 bytes")
        code = 99
    if "skips" in name:
        print("file.cpp:1: Skipped\\nneeds two GPUs")
        verdict = " SKIPPED"
    if "fails" in name:
        verdict, code = "  FAILED", 1
    print(f"[{verdict} ] {name} (7 ms)", flush=True)
    if "ends_badly" in name:
        os.abort()
sys.exit(code)
"""
SANITIZER = """
import os, subprocess, sys
program = next(i for i, word in enumerate(sys.argv) if word.endswith("test_cuda"))
print("========= COMPUTE-SANITIZER", flush=True)
code = subprocess.run(sys.argv[program:], env={**os.environ, "SANITIZER": "1"}).returncode
print(f"========= ERROR SUMMARY: {int(code == 99)} errors", flush=True)
sys.exit(code)
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        gpu_check.LEAST = 0

    def write(self, name, text):
        path = self.folder / name
        path.write_text(f"#!{sys.executable}{text}")
        path.chmod(0o755)

    def check(self, names, **options):
        """Returns a Check whose test_cuda has tests with these names."""
        self.write("test_cuda", TEST_CUDA.replace("NAMES", repr(names)))
        args = argparse.Namespace(**{"programs": self.folder, "rehearse": False, "minutes": 1, "patience": 1,
                                     "output": self.folder, "data": ".", "python": sys.executable, "epochs": 1,
                                     **options})
        scratch = tempfile.TemporaryDirectory(dir=self.folder)
        self.addCleanup(scratch.cleanup)
        return gpu_check.Check(args, [{"name": "a GPU"}], scratch.name)

    def run_tests(self, names, **options):
        """Returns the result and the error message."""
        check, result = self.check(names), {}
        try:
            check.run_tests(check.list_tests(), "conformance", result, **options)
        except gpu_check.Failed as error:
            return result, str(error)
        return result, ""

    @staticmethod
    def summary(step, result, state):
        steps = {step: {"state": state, "reason": "a reason", "seconds": 1, "result": result}}
        return gpu_check.summary({"date": "", "commit": "", "gpus": [], "steps": steps})

    def verdicts(self, suite="conformance"):
        cases = ElementTree.parse(self.folder / "gpu-tests.xml").findall(f"testsuite[@name='{suite}']/testcase")
        return {case.get("name"): [child.get("message") for child in case] for case in cases}

    def test_all_pass(self):
        result, problem = self.run_tests(["passes", "passes_too"])
        self.assertEqual((result, problem), ({"tests": 2, "skipped": {}}, ""))

    def test_a_crash_takes_no_other_test_with_it(self):
        result, problem = self.run_tests(["passes", "crashes", "passes_behind", "fails"])
        self.assertEqual(result["tests"], 2)
        self.assertIn("2 passed, 1 failed, 1 crashed of 4 tests", problem)
        self.assertIn("Suite.crashes: crashed: \ntest_cuda ended with -6", problem)
        self.assertEqual(self.verdicts(), {"passes": [], "crashes": ["crashed"], "passes_behind": [],
                                           "fails": ["failed"]})

    def test_a_hang_takes_no_other_test_with_it(self):
        begin = time.monotonic()
        result, problem = self.run_tests(["passes", "hangs", "passes_behind"], limit=4)
        self.assertLess(time.monotonic() - begin, 50)
        self.assertEqual(result["tests"], 2)
        self.assertIn("Suite.hangs: crashed: \ntest_cuda did not end within 4 s", problem)

    def test_a_process_that_ends_badly_behind_its_tests_is_no_success(self):
        result, problem = self.run_tests(["passes", "ends_badly"])
        self.assertEqual(result["tests"], 1)
        self.assertIn("Suite.ends_badly: crashed: \ntest_cuda ended with -6", problem)

    def test_a_test_that_needs_more_gpus_is_no_failure_and_said(self):
        result, problem = self.run_tests(["passes", "skips", "skips_too"])
        self.assertEqual((result, problem), ({"tests": 1, "skipped": {"needs two GPUs": 2}}, ""))
        self.assertIn("- 2: needs two GPUs", self.summary("conformance", result, "passed"))

    def test_what_compute_sanitizer_reports_is_a_failure(self):
        self.write("compute-sanitizer", SANITIZER)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{self.folder}:{path}"
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        check = self.check(["passes", "reported", "passes_too"])
        result = {}
        with self.assertRaises(gpu_check.Failed) as failed:
            check.step_memcheck(result)
        self.assertIn("2 passed, 1 failed of 3 tests", str(failed.exception))
        self.assertIn("Invalid __global__ read", str(failed.exception))
        self.assertEqual(self.verdicts("memcheck"), {"passes": [], "reported": ["failed"], "passes_too": []})

    def test_what_is_left_of_a_step_is_out_of_time(self):
        check = self.check(["passes", "hangs", "passes_behind"])
        check.step_end = time.monotonic() + 1
        with self.assertRaises(gpu_check.Failed):
            check.run_tests(check.list_tests(), "conformance", {})
        check.step_end = time.monotonic() - 1
        with self.assertRaises(gpu_check.OutOfTime):
            check.command("true", log="late")

    def test_two_ranks_on_one_gpu_are_a_matter_of_nccl(self):
        self.addCleanup(setattr, gpu_check, "nccl_version", gpu_check.nccl_version)
        for version, kind in ((22809, gpu_check.NotHere), (23001, gpu_check.Failed)):
            gpu_check.nccl_version = lambda version=version: version
            check = self.check([])
            check.train = self.train
            result = {}
            with self.assertRaises(kind):
                check.step_two_ranks(result)
            self.assertIn("| two_ranks | **not run**", self.summary("two_ranks", result, "not run"))

    def train(self, log, *options, ranks=1, **environment):
        if ranks == 1:
            return [{"epoch_seconds": 1, "total_loss": 1}]
        self.assertEqual(environment["NCCL_MULTI_RANK_GPU_ENABLE"], "1")
        raise gpu_check.Failed("a bug")

    def test_the_sample_gives_no_figures(self):
        check = self.check([])
        check.args.data = self.folder
        (self.folder / "train-images-idx3-ubyte").write_bytes(b"few")
        with self.assertRaises(gpu_check.NotHere):
            check.data()
        check.args.rehearse = True
        self.assertEqual(check.data(), self.folder)

    def test_results_of_others_are_put_aside(self):
        record = {"commit": "a", "gpus": []}
        path = self.folder / "gpu.json"
        self.assertEqual(gpu_check.steps_before(self.folder, record), {})
        path.write_text(json.dumps({**record, "steps": {"driver": 1}}))
        self.assertEqual(gpu_check.steps_before(self.folder, record), {"driver": 1})
        for other in (json.dumps({"commit": "b", "gpus": [], "steps": {"driver": 1}}), '{"commit": "a", "gp'):
            path.write_text(other)
            self.assertEqual(gpu_check.steps_before(self.folder, record), {})
            self.assertEqual((self.folder / "before-gpu.json").read_text(), other)
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
