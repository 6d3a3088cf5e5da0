"""Linear algebra."""
import torch
import torch.nn.functional as F


def products(ops):
    for n, k, m in [(3, 4, 5), (1, 7, 1), (17, 33, 9), (1, 1, 1), (5, 1, 6)]:
        ops.case(f"matmul_{n}x{k}x{m}", "matmul", [ops.uniform(n, k), ops.uniform(k, m)], torch.matmul)
    for n, k, m in [(5, 7, 3), (1, 1, 1), (6, 129, 11), (1, 8, 10)]:
        inputs = [ops.uniform(n, k), ops.uniform(m, k), ops.uniform(m)]
        ops.case(f"linear_{n}x{k}x{m}", "linear", inputs, F.linear)
        ops.case(f"linear_{n}x{k}x{m}_nobias", "linear", inputs[:2], F.linear)


def make(ops):
    products(ops)
