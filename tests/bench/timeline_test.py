#!/usr/bin/env python3
"""Tests the picture that bench/plot timeline draws of a small trace. All times, and so all boxes, are known."""
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

PLOT = Path(__file__).resolve().parents[2] / "bench" / "plot"
SVG = "{http://www.w3.org/2000/svg}"


def event(name, begin, end, thread=0, /, **notes):
    """Returns a range with times in milliseconds."""
    return {"ph": "X", "name": name, "pid": 0, "tid": thread, "ts": 1000 * begin, "dur": 1000 * (end - begin),
            "args": notes}


def names(process, *threads):
    return [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": process}},
            *({"ph": "M", "name": "thread_name", "pid": 0, "tid": i, "args": {"name": name}}
              for i, name in enumerate(threads))]


def step(begin, late=0):
    """Returns a step of 20 ms + `late`, with two layers, two buckets, and a wait of 6 ms + `late`."""
    at = begin
    return [event("load batch", at, at + 1), event("forward", at + 1, at + 5), event("backward", at + 5, at + 13),
            event("linear backward", at + 5, at + 7, module="fc"),
            event("conv2d backward", at + 7, at + 13, module="layer1"),
            event("all_reduce", at + 7, at + 12, 1, name="gradient bucket 0"),
            event("all_reduce", at + 13, at + 19 + late, 1, name="gradient bucket 1"),
            event("wait for gradients", at + 13, at + 19 + late), event("SGD::step", at + 19 + late, at + 20 + late)]


class Timeline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_plot(self, traces, *options):
        paths = []
        for i, trace in enumerate(traces):
            paths.append(self.folder / f"trace{i}.json")
            paths[-1].write_text(json.dumps(trace))
        return subprocess.run([PLOT, "timeline", *paths, self.folder / "picture.svg", *options], capture_output=True,
                              text=True)

    def draw(self, traces, *options):
        """Returns all texts, and the boxes as one {words: (x, width)} for each height."""
        run = self.run_plot(traces, *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        root = ElementTree.parse(self.folder / "picture.svg").getroot()
        lanes = {}
        for box in root.iter(f"{SVG}rect"):
            words = box.find(f"{SVG}title")
            if words is not None:
                place = tuple(float(box.get(key)) for key in ("x", "width"))
                lanes.setdefault(float(box.get("y")), {})[words.text] = place
        return [lanes[y] for y in sorted(lanes)], [text.text for text in root.iter(f"{SVG}text")]

    def test_layers_buckets_and_waits_of_two_ranks(self):
        ranks = [names(f"rank {rank}", "compute", "communication") + step(100) + step(200, late=rank)
                 for rank in (0, 1)]
        lanes, texts = self.draw(ranks, "--step", "0", "--title", "One of <two>")
        self.assertEqual(len(lanes), 4)
        compute, buckets = lanes[0], lanes[1]
        self.assertEqual(lanes[2:], lanes[:2])  # in this step, both ranks do the same things at the same time
        self.assertEqual(list(compute),
                         ["forward 4.00 ms", "fc linear backward 2.00 ms", "layer1 conv2d backward 6.00 ms",
                          "wait for gradients 6.00 ms", "SGD::step 1.00 ms"])
        self.assertEqual(sorted(buckets),
                         ["all_reduce gradient bucket 0 5.00 ms", "all_reduce gradient bucket 1 6.00 ms",
                          "bucket filling gradient bucket 0 2.00 ms", "bucket filling gradient bucket 1 6.00 ms"])
        millisecond = compute["forward 4.00 ms"][1] / 4
        begin = compute["forward 4.00 ms"][0] - millisecond  # of loading the batch
        for lane, words, at, length in [
                (compute, "layer1 conv2d backward 6.00 ms", 7, 6), (compute, "wait for gradients 6.00 ms", 13, 6),
                (buckets, "bucket filling gradient bucket 0 2.00 ms", 5, 2),
                (buckets, "all_reduce gradient bucket 0 5.00 ms", 7, 5),
                (buckets, "bucket filling gradient bucket 1 6.00 ms", 7, 6),
                (buckets, "all_reduce gradient bucket 1 6.00 ms", 13, 6)]:
            self.assertAlmostEqual(lane[words][0], begin + at * millisecond, delta=0.2, msg=words)
            self.assertAlmostEqual(lane[words][1], length * millisecond, delta=0.2, msg=words)
        for words in ("One of <two>", "rank 0: compute", "rank 1: compute", "buckets", "layer1", "0", "1",
                      "milliseconds", "waiting for ranks", "bucket in flight", "backward", "forward", "optimizer",
                      "bucket filling"):
            self.assertIn(words, texts)

    def test_a_rank_that_is_late(self):
        ranks = [names(f"rank {rank}", "compute", "communication") + step(100) + step(200, late=rank)
                 for rank in (0, 1)]
        lanes, _ = self.draw(ranks)  # of the last step
        self.assertIn("wait for gradients 6.00 ms", lanes[0])
        self.assertIn("wait for gradients 7.00 ms", lanes[2])
        self.assertIn("all_reduce gradient bucket 1 7.00 ms", lanes[3])

    def test_the_shortest_step(self):
        trace, begin = names("rank 0", "compute", "communication"), 0
        for number in range(12):
            late = {0: 0, 7: 1}.get(number, 2)  # step 7 is the shortest; the first steps do not count
            trace += step(begin, late)
            begin += 20 + late
        lanes, _ = self.draw([trace], "--step", "shortest")
        self.assertIn("wait for gradients 7.00 ms", lanes[0])
        run = self.run_plot([names("rank 0", "compute", "communication") + step(0)], "--step", "shortest")
        self.assertRegex(run.stderr, "has 1 steps; --step shortest needs at least 10")

    def test_threads_of_one_process_have_a_lane_each(self):
        trace = names("rank 0", "compute", "replica", "replica 2") + [
            event("load batch", 0, 1), event("forward", 2, 4, 2), event("forward", 1, 3, 1),
            event("backward", 4, 9), event("linear backward", 4, 8, 1, module="fc"),
            event("linear backward", 5, 9, 2, module="fc"), event("SGD::step", 9, 10)]
        lanes, texts = self.draw([trace])
        self.assertEqual([list(lane) for lane in lanes],
                         [["SGD::step 1.00 ms"], ["forward 2.00 ms", "fc linear backward 4.00 ms"],
                          ["forward 2.00 ms", "fc linear backward 4.00 ms"]])
        shown = [text for text in texts if text.startswith("rank 0: ")]
        self.assertEqual(shown, ["rank 0: compute", "rank 0: replica", "rank 0: replica 2"])
        self.assertNotIn("buckets", texts)
        self.assertNotIn("bucket in flight", texts)  # the legend lists only what the picture shows

    def test_a_message_is_named(self):
        trace = names("rank 0", "compute") + [
            event("load batch", 0, 1), event("backward", 1, 3), event("linear backward", 1, 2),
            event("wait for ranks", 2, 5, name="receive 'gradients'")]
        lanes, _ = self.draw([trace])
        self.assertIn("wait for ranks receive 'gradients' 3.00 ms", lanes[0])

    def test_what_cannot_be_drawn(self):
        trace = names("rank 0", "compute", "communication") + step(100)
        for traces, options, words in [([trace], ["--step", "1"], r"trace0\.json: has 1 steps, asked for step 1"),
                                       ([trace, 5], [], r"trace1\.json: expected a trace that --profile wrote")]:
            run = self.run_plot(traces, *options)
            self.assertEqual(run.returncode, 1)
            self.assertRegex(run.stderr, words)
            self.assertFalse((self.folder / "picture.svg").exists())


if __name__ == "__main__":
    unittest.main()
