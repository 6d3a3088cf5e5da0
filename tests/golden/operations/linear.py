"""Linear algebra."""
import torch
import torch.nn.functional as F


def name_of(*shapes):
    return "_".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def products(ops):
    pairs = [
        # matrices
        ((3, 4), (4, 5)), ((17, 33), (33, 9)), ((1, 7), (7, 1)), ((1, 1), (1, 1)), ((5, 1), (1, 6)), ((2, 40), (40, 3)),
        ((31, 27), (27, 37)), ((0, 4), (4, 3)), ((3, 0), (0, 2)), ((3, 2), (2, 0)),
        # vectors
        ((6,), (6,)), ((1,), (1,)), ((0,), (0,)), ((5, 6), (6,)), ((6,), (6, 5)), ((4, 2, 6), (6,)), ((6,), (2, 6, 3)),
        ((6,), (3, 2, 6, 4)),
        # batches, some of them broadcast
        ((2, 3, 4), (2, 4, 5)), ((7, 1, 5), (7, 5, 1)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
        ((1, 3, 4), (5, 4, 2)),
        ((5, 3, 4), (1, 4, 2)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 3, 3, 4), (2, 3, 4, 2)), ((2, 3, 3, 4), (4, 2)),
        ((2, 1, 3, 4), (1, 3, 4, 2)), ((2, 1, 2, 2, 3), (2, 1, 3, 2)), ((0, 3, 4), (4, 5)), ((2, 0, 4), (2, 4, 3)),
        ((2, 3, 0), (2, 0, 4)), ((3, 26, 29), (3, 29, 25)),
    ]
    for a, b in pairs:
        ops.case(f"matmul_{name_of(a, b)}", "matmul", [ops.uniform(*a), ops.uniform(*b)], torch.matmul)
    forms = {
        "mm": [((3, 4), (4, 5)), ((3, 0), (0, 2))],
        "bmm": [((2, 3, 4), (2, 4, 5)), ((3, 2, 0), (3, 0, 2))],
        "mv": [((3, 4), (4,)), ((40, 100), (100,))],
        "dot": [((7,), (7,)), ((0,), (0,))],
        "outer": [((3,), (4,)), ((0,), (2,)), ((1,), (1,))],
    }
    for op, shapes in forms.items():
        for a, b in shapes:
            ops.case(f"{op}_{name_of(a, b)}", op, [ops.uniform(*a), ops.uniform(*b)], getattr(torch, op))
    for shape, beta, alpha in [((3, 5), 1.0, 1.0), ((5,), 0.5, -2.0), ((1,), 2.0, 1.0), ((3, 1), 1.0, 3.0)]:
        ops.case(f"addmm_{name_of(shape)}", "addmm", [ops.uniform(*shape), ops.uniform(3, 4), ops.uniform(4, 5)],
                 lambda i, a, b: torch.addmm(i, a, b, beta=beta, alpha=alpha), beta=beta, alpha=alpha)


def layers(ops):
    for x, out in [((5, 7), 3), ((1, 1), 1), ((6, 129), 11), ((1, 8), 10), ((2, 3, 4), 5), ((2, 1, 3, 4), 1), ((4,), 3),
                   ((0, 4), 2), ((2, 0, 3), 2), ((3, 0), 2)]:
        inputs = [ops.uniform(*x), ops.uniform(out, x[-1]), ops.uniform(out)]
        ops.case(f"linear_{name_of(x)}_{out}", "linear", inputs, F.linear)
        ops.case(f"linear_{name_of(x)}_{out}_nobias", "linear", inputs[:2], F.linear)


def bilinears(ops):
    for form, (lead, in1, in2, out) in {"rows": ((5,), 3, 4, 2), "vector": ((), 3, 2, 4), "batch": ((2, 3), 4, 4, 5),
                                        "one": ((1,), 1, 1, 1), "large": ((9,), 17, 19, 11),
                                        "empty": ((0,), 3, 4, 2)}.items():
        inputs = [ops.uniform(*lead, in1), ops.uniform(*lead, in2), ops.uniform(out, in1, in2), ops.uniform(out)]
        ops.case(f"bilinear_{form}", "bilinear", inputs, F.bilinear)
        ops.case(f"bilinear_{form}_nobias", "bilinear", inputs[:3], F.bilinear)


def make(ops):
    products(ops)
    layers(ops)
    bilinears(ops)
