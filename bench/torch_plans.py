#!/usr/bin/env python3
"""Times each convolution of a plan log (TANDEM_PLAN_LOG, docs/gpu.md) next to PyTorch's on the same GPU.

    bench/torch_plans.py PLAN_LOG [--seconds 60]

PyTorch uses cuDNN's graph API and also chooses by timing (torch.backends.cudnn.benchmark). Each convolution is timed as
ten calls in one CUDA graph. Prints microseconds, ours over theirs, and the algorithm; the largest loss comes first.
"""
import argparse
import re
import time

import torch

LINE = re.compile(r"cuDNN (?P<kind>\w+) (?P<dtype>\w+) (?P<format>\w+) (?P<x>\(.*?\)) x (?P<weight>\(.*?\)) "
                  r"-> (?P<y>\(.*?\)), stride (?P<stride>.*?), padding (?P<padding>.*?), dilation (?P<dilation>.*?), "
                  r"groups (?P<groups>\d+), chosen in [\d.]+ ms$")
TIME = re.compile(r"  algorithm (\d+), math (\d)(, adds bias)?, workspace (\d+) KiB: ([\d.]+) us$")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def numbers(text):
    found = [int(n) for n in re.findall(r"\d+", text)]
    return found * 2 if len(found) == 1 else found


def plans(path):
    """{line: (its match, [the fastest algorithm's words, its microseconds])}"""
    found, line = {}, None
    for text in open(path):
        text = text.rstrip("\n")
        if match := re.search(LINE, text):
            line = match.group(0)
            found.setdefault(line, (match, []))
        elif (match := TIME.match(text)) and line and not found[line][1]:
            found[line][1].extend([text.strip(), float(match.group(5))])
    return {line: entry for line, entry in found.items() if entry[1] and entry[0]["dtype"] in DTYPES}


def microseconds(work):
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            work()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    least = float("inf")
    for _ in range(3):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        least = min(least, begin.elapsed_time(end))
    return 100 * least


def pytorch(match):
    dtype = DTYPES[match["dtype"]]
    memory = torch.channels_last if match["format"] == "nhwc" else torch.contiguous_format

    def made(name):
        return torch.randn(numbers(match[name]), device="cuda").to(dtype).to(memory_format=memory)

    x, weight, y = made("x"), made("weight"), made("y")
    stride, padding, dilation = (numbers(match[name]) for name in ("stride", "padding", "dilation"))
    groups = int(match["groups"])
    if match["kind"] == "forward":
        return microseconds(lambda: torch.nn.functional.conv2d(x, weight, None, stride, padding, dilation, groups))
    mask = [match["kind"] == "grad_input", match["kind"] == "grad_weight", False]
    return microseconds(lambda: torch.ops.aten.convolution_backward(y, x, weight, None, stride, padding, dilation,
                                                                    False, [0, 0], groups, mask))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="what TANDEM_PLAN_LOG named")
    parser.add_argument("--seconds", type=float, default=60, help="ends after so long; the rest is left out")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    end = time.monotonic() + args.seconds
    rows, found = [], plans(args.log)
    for line, (match, (words, ours)) in found.items():
        if time.monotonic() > end:
            break
        rows.append((ours - pytorch(match), ours, line, words))
    print(f"{torch.cuda.get_device_name()}: {len(rows)} of {len(found)} convolutions, "
          f"{sum(row[1] for row in rows):.0f} us; PyTorch {sum(row[1] - row[0] for row in rows):.0f} us")
    for loss, ours, line, words in sorted(rows, reverse=True):
        print(f"{ours:9.1f} {ours - loss:9.1f} {ours / (ours - loss):6.2f}  {line.removeprefix('cuDNN ')} | {words}")


if __name__ == "__main__":
    main()
