#!/usr/bin/env python3
"""The PyTorch side of bench/ops. Lines, answers and names are those of ops.cpp."""
import math
import sys
import time

import torch
import torch.nn.functional as F


def rows(elements, width=1024):
    width = min(width, elements)
    return elements // width, width


def side(elements):
    return math.isqrt(elements)


def one(n):
    return [torch.rand(rows(n))]


def short_rows(n):
    return [torch.rand(rows(n, 64))]


def stacked(n):
    height = min(128, max(1, n // 64))
    return [torch.rand(max(1, n // (64 * height)), height, 64)]


def two(n):
    return [torch.rand(rows(n)), torch.rand(rows(n))]


def matrices(n):
    return [torch.rand(side(n), side(n)), torch.rand(side(n), side(n))]


def batches(n):
    batch = max(1, n // (128 * 64))
    return [torch.rand(batch, 128, 64), torch.rand(batch, 64, 128)]


def images(n):
    size = min(32, max(3, side(n // 64)))
    x = torch.rand(max(1, n // (64 * size * size)), 64, size, size).to(memory_format=torch.channels_last)
    return [x, torch.rand(64, 64, 3, 3).to(memory_format=torch.channels_last)]


def heads(n):
    length = min(512, max(1, n // 512))
    return [torch.rand(max(1, n // (512 * length)), 8, length, 64) for _ in range(3)]


def normalised(n):
    shape = rows(n)
    return [torch.rand(shape), torch.rand(shape[1]), torch.rand(shape[1])]


def classes(n):
    shape = rows(n)
    return [torch.rand(shape), torch.randint(shape[1], (shape[0],))]


def row_indices(n):
    shape = rows(n)
    return [torch.rand(shape), torch.randint(shape[0], (shape[0],))]


def element_indices(n):
    shape = rows(n)
    return [torch.rand(shape), torch.randint(shape[1], shape)]


def tokens(n):
    return [torch.rand(1000, 64), torch.randint(1000, (max(1, n // 64),))]


def feature_maps(n):
    channels = min(2048, n)
    size = min(33, max(1, side(n // channels)))
    return torch.rand(max(1, n // (channels * size * size)), channels, size, size)


def parameters(n):
    made = [torch.nn.Parameter(torch.rand(max(1, n // 10))) for _ in range(10)]
    for p in made:
        p.grad = torch.rand_like(p)
    return made


def optimizer(kind, forms, **options):
    """The fastest of PyTorch's forms: one parameter after another, foreach, or fused."""
    def make(n):
        steps = [kind(parameters(n), **options, **form).step
                 for form in [{"foreach": False}, *({f: True} for f in forms)]]
        return min(steps, key=lambda step: shortest(step, 0.02))
    return make


def clip(n):
    mine = parameters(n)
    return min((lambda foreach=foreach: torch.nn.utils.clip_grad_norm_(mine, 1.0, foreach=foreach)
                for foreach in (False, True)),
               key=lambda run: shortest(run, 0.02))


def pool(x):
    return F.adaptive_avg_pool2d(x, 1)


def convolve(x, weight):
    return F.conv2d(x, weight, padding=1)


def normalise(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


TABLE = {
    "add": (two, torch.add),
    "add_number": (one, lambda x: x + 1.5),
    "add_row": (lambda n: [torch.rand(rows(n)), torch.rand(rows(n)[1])], torch.add),
    "add_column": (lambda n: [torch.rand(rows(n)), torch.rand(rows(n)[0], 1)], torch.add),
    "add_narrow_row": (lambda n: [torch.rand(rows(n, 3)), torch.rand(rows(n, 3)[1])], torch.add),
    "add_transposed": (lambda n: [torch.rand(side(n), side(n)), torch.rand(side(n), side(n)).T], torch.add),
    "mul": (two, torch.mul),
    "where": (two, lambda x, y: torch.where(x > 0.5, x, y)),
    "to_bf16": (one, lambda x: x.bfloat16()),
    "relu": (one, torch.relu),
    "exp": (one, torch.exp),
    "log": (one, torch.log),
    "sqrt": (one, torch.sqrt),
    "tanh": (one, torch.tanh),
    "sigmoid": (one, torch.sigmoid),
    "gelu": (one, F.gelu),
    "sum": (one, torch.sum),
    "sum_last": (one, lambda x: x.sum(1)),
    "sum_first": (one, lambda x: x.sum(0)),
    "sum_short_rows": (short_rows, lambda x: x.sum(1)),
    "sum_middle": (stacked, lambda x: x.sum(1)),
    "mean": (one, lambda x: x.mean(1)),
    "amax_last": (one, lambda x: x.amax(1)),
    "amax_middle": (stacked, lambda x: x.amax(1)),
    "argmax_last": (one, lambda x: x.argmax(1)),
    "var_last": (one, lambda x: x.var(1)),
    "cumsum_last": (one, lambda x: x.cumsum(1)),
    "sort_last": (one, lambda x: x.sort(1)),
    "sort_all": (one, lambda x: x.reshape(-1).sort(0)),
    "topk_last": (one, lambda x: x.topk(min(5, x.shape[1]), 1)),
    "softmax": (one, lambda x: x.softmax(1)),
    "log_softmax": (one, lambda x: x.log_softmax(1)),
    "cross_entropy": (classes, F.cross_entropy),
    "layer_norm": (normalised, normalise),
    "matmul": (matrices, torch.matmul),
    "matmul_bf16": (lambda n: [m.bfloat16() for m in matrices(n)], torch.matmul),
    "bmm": (batches, torch.bmm),
    "conv2d": (images, convolve),
    "max_pool2d": (images, lambda x, weight: F.max_pool2d(x, 2)),
    "attention": (heads, F.scaled_dot_product_attention),
    "cat_first": (two, lambda x, y: torch.cat([x, y], 0)),
    "cat_last": (two, lambda x, y: torch.cat([x, y], 1)),
    "transpose_copy": (matrices, lambda x, y: x.T.contiguous()),
    "pad": (one, lambda x: F.pad(x, (1, 1, 1, 1))),
    "flip": (one, lambda x: x.flip(1)),
    "outer": (lambda n: [torch.rand(side(n)), torch.rand(side(n))], torch.outer),
    "dot": (two, lambda x, y: torch.dot(x.flatten(), y.flatten())),
    "index_select": (row_indices, lambda x, i: x.index_select(0, i)),
    "gather": (element_indices, lambda x, i: x.gather(1, i)),
    "scatter_add": (lambda n: element_indices(n) + [torch.rand(rows(n))], lambda x, i, y: x.scatter_add(1, i, y)),
    "embedding": (tokens, lambda table, i: F.embedding(i, table)),
    "dropout": (one, lambda x: F.dropout(x, 0.1, training=True)),
    "global_avg_pool": (lambda n: [feature_maps(n).to(memory_format=torch.channels_last)], pool),
    "global_avg_pool_rows": (lambda n: [feature_maps(n)], pool),
}
# Operations that are not functions of arrays are prepared separately.
PREPARED = {
    "sgd": optimizer(torch.optim.SGD, ["foreach", "fused"], lr=1e-3, momentum=0.9),
    "adam": optimizer(torch.optim.Adam, ["foreach", "fused"]),
    "adamw": optimizer(torch.optim.AdamW, ["foreach", "fused"]),
    "rmsprop": optimizer(torch.optim.RMSprop, ["foreach"]),
    "clip_grad_norm": clip,
}


def convolution(description, n):
    """One step for each of PyTorch's layouts. ops.cpp explains the description."""
    function, channels, kernel, stride, groups, size, dtype, *train = description.split(":")
    cin, cout = map(int, channels.split("-"))
    kernel, stride, groups, size = int(kernel), int(stride), int(groups), int(size)
    dtype = torch.bfloat16 if dtype == "bf16" else torch.float32
    options = {"stride": stride, "padding": kernel // 2, "groups": groups}
    f = getattr(F, function)
    flat = function == "conv1d"
    x = torch.rand([n, cin] + [size] * (1 if flat else 2)).to(dtype)
    sides = (cin, cout) if function == "conv_transpose2d" else (cout, cin)
    weight = torch.rand([sides[0], sides[1] // groups] + [kernel] * (1 if flat else 2)).to(dtype)
    formats = [torch.contiguous_format] if flat else [torch.contiguous_format, torch.channels_last]
    return [step_of(lambda x, w: f(x, w, **options), [a.to(memory_format=layout) for a in (x, weight)], bool(train))
            for layout in formats]


def prepare(name, elements):
    if name in PREPARED:
        return PREPARED[name](elements)
    make, f = TABLE[name.removesuffix("_train")]
    inputs = make(elements)
    return step_of(f, inputs, name.endswith("_train"))


def step_of(f, inputs, trains):
    """A call of f, and with `trains` also its backward pass."""
    if not trains:
        return lambda: f(*inputs)
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    gradient = torch.ones_like(f(*inputs))

    def step():
        for x in inputs:
            x.grad = None
        f(*inputs).backward(gradient)
    return step


def shortest(run, seconds):
    def measure(calls):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return time.perf_counter() - start
    measure(3)
    calls = max(1, int(50e-6 / measure(1)))
    best, spent = 1e9, 0.0
    while spent < seconds:
        t = measure(calls)
        best = min(best, t / calls)
        spent += t
    return best


def main():
    torch.manual_seed(0)
    for line in sys.stdin:
        name, elements, seconds = line.split()
        steps = convolution(name, int(elements)) if ":" in name else [prepare(name, int(elements))]
        print(min(shortest(step, float(seconds)) for step in steps), flush=True)


if __name__ == "__main__":
    main()
