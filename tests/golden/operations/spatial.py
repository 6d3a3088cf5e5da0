"""Images."""
import torch.nn.functional as F


def convolutions(ops):
    # name: input shape, output channels, kernel, stride, padding, dilation, bias
    forms = {
        "1_16_k5p2": ((2, 1, 12, 12), 16, (5, 5), (1, 1), (2, 2), (1, 1), True),
        "16_32_k5p2": ((2, 16, 7, 7), 32, (5, 5), (1, 1), (2, 2), (1, 1), True),
        "16_32_k5p2_nobias": ((1, 16, 6, 7), 32, (5, 5), (1, 1), (2, 2), (1, 1), False),
        "3_5_k3": ((2, 3, 9, 8), 5, (3, 3), (1, 1), (0, 0), (1, 1), True),
        "3_5_k3_nobias": ((2, 3, 9, 8), 5, (3, 3), (1, 1), (0, 0), (1, 1), False),
        "3_5_k3s2p1": ((3, 3, 11, 7), 5, (3, 3), (2, 2), (1, 1), (1, 1), True),
        "3_5_k3p2d2": ((2, 3, 9, 9), 5, (3, 3), (1, 1), (2, 2), (2, 2), True),
        "4_8_k3s2p3d3": ((1, 4, 13, 10), 8, (3, 3), (2, 2), (3, 3), (3, 3), False),
        "3_5_k1": ((2, 3, 5, 6), 5, (1, 1), (1, 1), (0, 0), (1, 1), True),
        "8_8_k1s2": ((2, 8, 7, 7), 8, (1, 1), (2, 2), (0, 0), (1, 1), False),
        "3_8_k7s2p3": ((1, 3, 17, 15), 8, (7, 7), (2, 2), (3, 3), (1, 1), False),
        "1_1_k1_one": ((1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0), (1, 1), True),
        "1_1_k3p1_one": ((1, 1, 1, 1), 1, (3, 3), (1, 1), (1, 1), (1, 1), True),
        "2_3_k3x5s2x1p1x2d1x2": ((2, 2, 8, 13), 3, (3, 5), (2, 1), (1, 2), (1, 2), True),
    }
    for name, (shape, out, kernel, stride, padding, dilation, bias) in forms.items():
        inputs = [ops.uniform(*shape), ops.uniform(out, shape[1], *kernel, low=-0.5, high=0.5)]
        if bias:
            inputs.append(ops.uniform(out))
        ops.case(f"conv2d_{name}", "conv2d", inputs,
                 lambda *i: F.conv2d(*i, stride=stride, padding=padding, dilation=dilation),
                 stride=stride, padding=padding, dilation=dilation)


def pools(ops):
    forms = {
        "k2s2": ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0)),
        "k2s2_odd": ((2, 3, 7, 5), (2, 2), (2, 2), (0, 0)),
        "k3s2p1": ((2, 3, 9, 8), (3, 3), (2, 2), (1, 1)),
        "k3s2p1_odd": ((1, 5, 7, 11), (3, 3), (2, 2), (1, 1)),
        "k3s1p1": ((2, 4, 5, 5), (3, 3), (1, 1), (1, 1)),
        "k2s2_one": ((1, 1, 2, 2), (2, 2), (2, 2), (0, 0)),
        "k2s2_16": ((2, 16, 8, 8), (2, 2), (2, 2), (0, 0)),
    }
    for name, (shape, kernel, stride, padding) in forms.items():
        ops.case(f"max_pool2d_{name}", "max_pool2d", [ops.uniform(*shape)],
                 lambda x: F.max_pool2d(x, kernel, stride, padding), kernel=kernel, stride=stride, padding=padding)


def make(ops):
    convolutions(ops)
    pools(ops)
