#!/usr/bin/env python3
"""Tests the model of a training step behind bench/scaling with numbers that are known."""
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import step_model as model  # noqa: E402
from step_model import Job, Link, Network  # noqa: E402

LINK = Link(latency=1, rate=10)  # 1 s, and 10 bytes a second


class Collectives(unittest.TestCase):
    def test_the_ring_takes_two_rounds_for_each_other_rank(self):
        self.assertEqual(model.ring(LINK, 4, 40), 6 * (1 + 1))
        self.assertEqual(model.ring(LINK, 1, 40), 0)
        self.assertEqual(model.half_ring(LINK, 4, 40), 3 * (1 + 1))

    def test_direct_messages_share_the_link_of_their_sender(self):
        self.assertEqual(model.direct(LINK, 4, 40), 1 + 3 * 4)
        self.assertEqual(model.half_direct(LINK, 4, 40), 1 + 3)

    def test_gloo_sends_small_arrays_directly(self):
        fast = Link(0.01, 1e6)
        at_most = model.DIRECT_BYTES // 3
        self.assertEqual(model.ring_or_direct(fast, 4, at_most), model.direct(fast, 4, at_most))
        self.assertEqual(model.ring_or_direct(fast, 4, at_most + 4), model.ring(fast, 4, at_most + 4))

    def test_the_tree_has_the_depth_of_a_logarithm(self):
        self.assertEqual(model.tree(LINK, 8, 40), 2 * (3 + 4))

    def test_inside_a_host_only_its_fast_link_is_used(self):
        network = Network(LINK, Link(0.5, 100), ranks_per_host=4)
        self.assertEqual(model.over_hosts(model.ring)(network, 4, 40), model.ring(network.inside, 4, 40))
        self.assertEqual(model.over_hosts(model.ring)(network, 8, 40), model.ring(LINK, 8, 40))
        self.assertEqual(model.hierarchical(network, 8, 40),
                         model.ring(network.inside, 4, 40) + model.ring(LINK, 2, 40))


class Steps(unittest.TestCase):
    # Buckets of one layer, which are ready 10, 20 and 30 s after the start of backward.
    job = Job(layers=3, gradient_bytes=300, forward=15, backward=30, first_bucket=1, bucket=1)

    def step(self, seconds_of_a_bucket):
        return model.ddp(lambda network, ranks, n: n / 100 * seconds_of_a_bucket)(self.job, Network(LINK), 2)

    def test_only_the_last_bucket_of_a_fast_link_is_exposed(self):
        self.assertAlmostEqual(self.step(4), 15 + 30 + 4)

    def test_buckets_of_a_slow_link_wait_for_each_other(self):
        self.assertAlmostEqual(self.step(25), 15 + 10 + 3 * 25)

    def test_buckets_have_the_sizes_of_ddp(self):
        job = Job(layers=6, gradient_bytes=600, forward=0, backward=6, first_bucket=50, bucket=200)
        self.assertEqual(model.bucket_ends(job), [(1, 100), (3, 200), (5, 200), (6, 100)])

    def test_zero_gathers_after_the_optimizer_which_has_less_work(self):
        job = Job(layers=1, gradient_bytes=100, forward=1, backward=2, optimizer=8)
        step = model.zero(lambda *_: 5, lambda *_: 7)
        self.assertEqual(step(job, Network(LINK), 4), 1 + 2 + 5 + 2 + 7)

    def test_local_sgd_averages_now_and_then(self):
        step = model.local_sgd(lambda network, ranks, n: n, every=50)
        self.assertAlmostEqual(step(self.job, Network(LINK), 2), 45 + 300 / 50)


class Stragglers(unittest.TestCase):
    def test_the_largest_of_a_few_is_that_of_tables(self):
        # For a small spread s, the mean is 1 + s E[largest of W normal numbers]: 0.5642 for 2, 1.5388 for 10.
        for ranks, normal in ((2, 0.5642), (10, 1.5388), (1000, 3.2414)):
            self.assertAlmostEqual(model.largest_factor(1e-4, ranks), 1 + 1e-4 * normal, delta=2e-7)

    def test_the_mean_of_one_rank_is_known(self):
        self.assertAlmostEqual(model.largest_factor(0.5, 1), math.exp(0.125))
        self.assertEqual(model.largest_factor(0, 1000), 1)

    def test_stragglers_alone_cost_efficiency_and_local_sgd_evens_them_out(self):
        job = Job(layers=1, gradient_bytes=1, forward=1, backward=2, spread=0.1)
        free = Network(Link(0, math.inf))
        synchronous = model.efficiency(model.ddp(model.over_hosts(model.ring)), job, free, 64)
        rare = model.efficiency(model.local_sgd(model.over_hosts(model.ring), 100), job, free, 64)
        self.assertAlmostEqual(synchronous, model.mean_of_factor(0.1) / model.largest_factor(0.1, 64))
        self.assertLess(synchronous, 0.82)
        self.assertGreater(rare, 0.97)


class Drawing(unittest.TestCase):
    def test_all_curves_are_inside_of_the_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "scaling.svg"
            run = subprocess.run([BENCH / "scaling", "draw", picture], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("| MNIST's network | 39 | 0.1 |", run.stdout)
            root = ElementTree.parse(picture).getroot()
        width, height = (float(root.get(key)) for key in ("width", "height"))
        lines = root.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(lines), 4 * (4 + 5 + 5))  # networks; links and strategies
        for line in lines:
            for point in line.get("points").split():
                x, y = map(float, point.split(","))
                self.assertTrue(0 <= x <= width and 0 <= y <= height, point)


if __name__ == "__main__":
    unittest.main()
