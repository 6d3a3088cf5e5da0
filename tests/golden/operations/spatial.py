"""Operations on images."""
import torch
import torch.nn.functional as F


def convolutions(ops):
    # name: input shape, output channels, kernel, stride, padding, dilation, bias
    forms = {
        "1_16_k5p2": ((1, 1, 12, 12), 16, (5, 5), (1, 1), (2, 2), (1, 1), True),
        "16_17_k5p2": ((2, 16, 5, 6), 17, (5, 5), (1, 1), (2, 2), (1, 1), True),
        "16_16_k3p1_nobias": ((1, 16, 6, 7), 16, (3, 3), (1, 1), (1, 1), (1, 1), False),
        "3_5_k3": ((2, 3, 9, 8), 5, (3, 3), (1, 1), (0, 0), (1, 1), True),
        "3_5_k3_nobias": ((2, 3, 9, 8), 5, (3, 3), (1, 1), (0, 0), (1, 1), False),
        "3_5_k3s2p1": ((3, 3, 11, 7), 5, (3, 3), (2, 2), (1, 1), (1, 1), True),
        "3_5_k3p2d2": ((2, 3, 9, 9), 5, (3, 3), (1, 1), (2, 2), (2, 2), True),
        "4_8_k3s2p3d3": ((1, 4, 13, 10), 8, (3, 3), (2, 2), (3, 3), (3, 3), False),
        "3_5_k1": ((2, 3, 5, 6), 5, (1, 1), (1, 1), (0, 0), (1, 1), True),
        "8_8_k1s2": ((2, 8, 7, 7), 8, (1, 1), (2, 2), (0, 0), (1, 1), False),
        "3_4_k7s2p3": ((1, 3, 17, 15), 4, (7, 7), (2, 2), (3, 3), (1, 1), False),
        "1_1_k1_one": ((1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0), (1, 1), True),
        "1_1_k3p1_one": ((1, 1, 1, 1), 1, (3, 3), (1, 1), (1, 1), (1, 1), True),
        "2_3_k3x5s2x1p1x2d1x2": ((2, 2, 8, 13), 3, (3, 5), (2, 1), (1, 2), (1, 2), True),
        # Most of the kernel sees only padding.
        "3_5_k3p12d12": ((2, 3, 5, 7), 5, (3, 3), (1, 1), (12, 12), (12, 12), True),
        "3_5_k3p6d6": ((2, 3, 7, 8), 5, (3, 3), (1, 1), (6, 6), (6, 6), True),
        "4_8_k3s2p5d5": ((1, 4, 9, 11), 8, (3, 3), (2, 2), (5, 5), (5, 5), False),
        "2_3_k4x3p9x1d4x3": ((2, 2, 5, 6), 3, (4, 3), (1, 1), (9, 1), (4, 3), True),
        "3_6_k1s3p2": ((2, 3, 5, 7), 6, (1, 1), (3, 3), (2, 2), (1, 1), True),
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
        "k2s2_16": ((1, 16, 4, 6), (2, 2), (2, 2), (0, 0)),
    }
    for name, (shape, kernel, stride, padding) in forms.items():
        ops.case(f"max_pool2d_{name}", "max_pool2d", [ops.uniform(*shape)],
                 lambda x: F.max_pool2d(x, kernel, stride, padding), kernel=kernel, stride=stride, padding=padding)


def grouped(ops):
    # name: input shape, output channels, kernel, stride, padding, dilation, groups
    forms = {
        "g2": ((2, 4, 6, 5), 6, (3, 3), (1, 1), (1, 1), (1, 1), 2),
        "g3s2": ((1, 6, 7, 9), 3, (3, 2), (2, 2), (1, 0), (1, 1), 3),
        "depthwise": ((2, 5, 6, 7), 5, (3, 3), (1, 1), (1, 1), (1, 1), 5),
        "depthwise_16": ((1, 16, 9, 9), 16, (3, 3), (2, 2), (1, 1), (1, 1), 16),
        "depthwise_d2": ((1, 20, 6, 5), 20, (3, 3), (1, 1), (2, 2), (2, 2), 20),
        "depthwise_x2": ((2, 3, 5, 5), 6, (3, 3), (1, 1), (0, 0), (1, 1), 3),
        "g2_16": ((1, 32, 4, 4), 16, (3, 3), (1, 1), (1, 1), (1, 1), 2),
        "g2_k1": ((2, 8, 4, 5), 4, (1, 1), (1, 1), (0, 0), (1, 1), 2),
        "g4_empty": ((0, 8, 4, 5), 4, (3, 3), (1, 1), (1, 1), (1, 1), 4),
        "empty": ((0, 3, 4, 5), 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    }
    for name, (shape, out, kernel, stride, padding, dilation, groups) in forms.items():
        inputs = [ops.uniform(*shape), ops.uniform(out, shape[1] // groups, *kernel, low=-0.5, high=0.5),
                  ops.uniform(out)]
        ops.case(f"conv2d_{name}", "conv2d", inputs,
                 lambda *i: F.conv2d(*i, stride=stride, padding=padding, dilation=dilation, groups=groups),
                 stride=stride, padding=padding, dilation=dilation, groups=groups)
    # name: input shape, output channels, kernel, stride, padding, dilation, groups, bias
    signals = {
        "3_5_k3": ((2, 3, 9), 5, 3, 1, 0, 1, 1, True),
        "4_6_k5s2p2": ((2, 4, 12), 6, 5, 2, 2, 1, 1, True),
        "4_4_k3p2d2_depthwise": ((1, 4, 11), 4, 3, 1, 2, 2, 4, False),
        "16_17_k3p1": ((2, 16, 13), 17, 3, 1, 1, 1, 1, True),
        "1_1_k1": ((1, 1, 1), 1, 1, 1, 0, 1, 1, True),
        "empty": ((0, 3, 9), 5, 3, 1, 0, 1, 1, True),
    }
    for name, (shape, out, kernel, stride, padding, dilation, groups, bias) in signals.items():
        inputs = [ops.uniform(*shape), ops.uniform(out, shape[1] // groups, kernel, low=-0.5, high=0.5)]
        if bias:
            inputs.append(ops.uniform(out))
        ops.case(f"conv1d_{name}", "conv1d", inputs,
                 lambda *i: F.conv1d(*i, stride=stride, padding=padding, dilation=dilation, groups=groups),
                 stride=stride, padding=padding, dilation=dilation, groups=groups)


def transposed(ops):
    # name: input shape, output channels, kernel, stride, padding, output padding, groups, dilation, bias
    forms = {
        "k3": ((2, 3, 4, 5), 4, (3, 3), (1, 1), (0, 0), (0, 0), 1, (1, 1), True),
        "k4s2p1": ((1, 5, 4, 3), 3, (4, 4), (2, 2), (1, 1), (0, 0), 1, (1, 1), True),
        "k3s2p1o1": ((2, 4, 3, 4), 6, (3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 1), False),
        "k3s2x3p1o0x2g2d2": ((2, 4, 4, 3), 6, (3, 3), (2, 3), (1, 1), (0, 2), 2, (2, 1), True),
        "depthwise": ((1, 6, 4, 4), 6, (4, 4), (2, 2), (1, 1), (0, 0), 6, (1, 1), True),
        "16_16": ((1, 16, 3, 4), 16, (3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 1), True),
        "k2s3": ((1, 2, 3, 3), 2, (2, 2), (3, 3), (0, 0), (1, 1), 1, (1, 1), True),
        "one": ((1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0), (0, 0), 1, (1, 1), True),
        "empty": ((0, 3, 4, 5), 4, (3, 3), (2, 2), (0, 0), (0, 0), 1, (1, 1), True),
    }
    for name, (shape, out, kernel, stride, padding, output_padding, groups, dilation, bias) in forms.items():
        inputs = [ops.uniform(*shape), ops.uniform(shape[1], out // groups, *kernel, low=-0.5, high=0.5)]
        if bias:
            inputs.append(ops.uniform(out))
        ops.case(f"conv_transpose2d_{name}", "conv_transpose2d", inputs,
                 lambda *i: F.conv_transpose2d(*i, stride=stride, padding=padding, output_padding=output_padding,
                                               groups=groups, dilation=dilation),
                 stride=stride, padding=padding, output_padding=output_padding, groups=groups, dilation=dilation)
    signals = {
        "k3": ((2, 3, 5), 4, 3, 1, 0, 0, 1, 1, True),
        "k4s2p1": ((2, 4, 6), 2, 4, 2, 1, 0, 1, 1, False),
        "k3s3o2g2d2": ((1, 4, 5), 6, 3, 3, 2, 2, 2, 2, True),
    }
    for name, (shape, out, kernel, stride, padding, output_padding, groups, dilation, bias) in signals.items():
        inputs = [ops.uniform(*shape), ops.uniform(shape[1], out // groups, kernel, low=-0.5, high=0.5)]
        if bias:
            inputs.append(ops.uniform(out))
        ops.case(f"conv_transpose1d_{name}", "conv_transpose1d", inputs,
                 lambda *i: F.conv_transpose1d(*i, stride=stride, padding=padding, output_padding=output_padding,
                                               groups=groups, dilation=dilation),
                 stride=stride, padding=padding, output_padding=output_padding, groups=groups, dilation=dilation)


def more_pools(ops):
    # name: input shape, kernel, stride, padding, dilation, ceil mode
    forms = {
        "d2": ((2, 3, 9, 8), (3, 3), (1, 1), (0, 0), (2, 2), False),
        "d2x3p1s2": ((1, 2, 9, 11), (3, 2), (2, 2), (1, 1), (2, 3), False),
        "ceil": ((2, 3, 6, 8), (3, 3), (2, 2), (0, 0), (1, 1), True),
        "ceil_p1": ((1, 2, 7, 6), (2, 3), (3, 2), (1, 1), (1, 1), True),
        "ceil_in_padding": ((1, 1, 3, 3), (2, 2), (2, 2), (1, 1), (1, 1), True),
        "large": ((1, 2, 18, 20), (17, 18), (1, 1), (0, 0), (1, 1), False),
        "empty": ((0, 3, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
    }
    for name, (shape, kernel, stride, padding, dilation, ceil_mode) in forms.items():
        ops.case(f"max_pool2d_{name}", "max_pool2d", [ops.uniform(*shape)],
                 lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode),
                 kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    for name, (shape, kernel, stride, padding, dilation, ceil_mode) in {
            "k2": ((2, 3, 8), 2, 2, 0, 1, False),
            "k3s2p1d2_ceil": ((2, 3, 11), 3, 2, 1, 2, True),
            "k3s1": ((1, 5, 7), 3, 1, 1, 1, False)}.items():
        ops.case(f"max_pool1d_{name}", "max_pool1d", [ops.uniform(*shape)],
                 lambda x: F.max_pool1d(x, kernel, stride, padding, dilation, ceil_mode),
                 kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)

    # name: input shape, kernel, stride, padding, ceil mode, count_include_pad, divisor
    averages = {
        "k2": ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0), False, True, None),
        "k3s2p1": ((2, 3, 7, 8), (3, 3), (2, 2), (1, 1), False, True, None),
        "k3s2p1_without_pad": ((2, 3, 7, 8), (3, 3), (2, 2), (1, 1), False, False, None),
        "k3x2s2p1_ceil": ((2, 3, 8, 7), (3, 2), (2, 2), (1, 1), True, True, None),
        "k3s2_ceil_without_pad": ((1, 2, 6, 8), (3, 3), (2, 2), (1, 1), True, False, None),
        "k3s1_divisor": ((1, 3, 5, 5), (3, 3), (1, 1), (1, 1), False, True, 4),
        "k3s1p1_16": ((1, 16, 6, 6), (3, 3), (1, 1), (1, 1), False, True, None),
        "k2_70": ((1, 70, 4, 5), (2, 2), (2, 2), (0, 0), False, True, None),
        "one": ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), False, True, None),
        "empty": ((0, 3, 6, 8), (2, 2), (2, 2), (0, 0), False, True, None),
    }
    for name, (shape, kernel, stride, padding, ceil_mode, include, divisor) in averages.items():
        ops.case(f"avg_pool2d_{name}", "avg_pool2d", [ops.uniform(*shape)],
                 lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil_mode, include, divisor),
                 kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode, count_include_pad=include,
                 divisor=divisor or 0)
    for name, (shape, kernel, stride, padding, ceil_mode, include) in {
            "k2": ((2, 3, 8), 2, 2, 0, False, True),
            "k3s2p1_ceil": ((2, 3, 10), 3, 2, 1, True, True),
            "k3s2p1_without_pad": ((1, 5, 9), 3, 2, 1, False, False)}.items():
        ops.case(f"avg_pool1d_{name}", "avg_pool1d", [ops.uniform(*shape)],
                 lambda x: F.avg_pool1d(x, kernel, stride, padding, ceil_mode, include),
                 kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode, count_include_pad=include)

    for op, function in {"adaptive_avg_pool2d": F.adaptive_avg_pool2d,
                         "adaptive_max_pool2d": F.adaptive_max_pool2d}.items():
        for name, (shape, size) in {
                "1": ((2, 3, 5, 7), (1, 1)), "1_16": ((1, 16, 6, 5), (1, 1)), "1_70": ((2, 70, 3, 3), (1, 1)),
                "3x2": ((2, 3, 7, 7), (3, 2)), "divides": ((1, 4, 6, 9), (2, 3)), "larger": ((1, 2, 3, 4), (5, 7)),
                "keep": ((2, 3, 5, 6), (None, 4)), "same": ((1, 2, 3, 4), (3, 4)), "one": ((1, 1, 1, 1), (1, 1)),
                "empty": ((0, 3, 5, 7), (2, 2)), "big_window": ((1, 1, 20, 19), (1, 1))}.items():
            ops.case(f"{op}_{name}", op, [ops.uniform(*shape)], lambda x: function(x, size),
                     size=[-1 if s is None else s for s in size])
    for name, (shape, size) in {"1": ((2, 3, 7), 1), "4": ((2, 3, 7), 4), "larger": ((1, 2, 3), 5)}.items():
        ops.case(f"adaptive_avg_pool1d_{name}", "adaptive_avg_pool1d", [ops.uniform(*shape)],
                 lambda x: F.adaptive_avg_pool1d(x, size), size=size)


def resizes(ops):
    # name: input shape, size, scale factor
    forms = {
        "up": ((2, 3, 3, 4), (7, 9), None),
        "up_33": ((1, 1, 5, 5), (33, 33), None),
        "down": ((2, 3, 9, 8), (4, 3), None),
        "mixed": ((1, 2, 5, 9), (8, 4), None),
        "same": ((1, 3, 4, 5), (4, 5), None),
        "to_one": ((1, 2, 4, 5), (1, 1), None),
        "from_one": ((1, 2, 1, 1), (3, 4), None),
        "scale_2": ((2, 3, 4, 5), None, 2.0),
        "scale_2x3": ((1, 2, 3, 3), None, (2.0, 3.0)),
        "scale_odd": ((1, 2, 5, 7), None, (1.7, 2.3)),
        "scale_down": ((1, 3, 9, 7), None, 0.4),
        "up_16": ((1, 16, 3, 3), (5, 6), None),
        "up_21": ((1, 21, 3, 2), (5, 6), None),
        "empty": ((0, 3, 4, 5), (8, 10), None),
    }
    for name, (shape, size, scale) in forms.items():
        factors = list(scale) if isinstance(scale, tuple) else [scale, scale] if scale else []
        ops.case(f"interpolate_nearest_{name}", "interpolate", [ops.uniform(*shape)],
                 lambda x: F.interpolate(x, size=size, scale_factor=scale, mode="nearest"),
                 mode="nearest", size=list(size or []), scale=factors, align_corners=False)
        for align in [False, True]:
            ops.case(f"interpolate_bilinear_{name}{'_aligned' if align else ''}", "interpolate", [ops.uniform(*shape)],
                     lambda x: F.interpolate(x, size=size, scale_factor=scale, mode="bilinear", align_corners=align),
                     mode="bilinear", size=list(size or []), scale=factors, align_corners=align)
    ops.case("interpolate_bytes", "interpolate", [ops.integers(2, 3, 4, 5, low=0, high=256, dtype=torch.uint8)],
             lambda x: F.interpolate(x, size=(7, 3), mode="nearest"),
             mode="nearest", size=[7, 3], scale=[], align_corners=False)


def unbatched(ops):
    """One image or signal without a batch, and other cases that were added later."""
    inputs = [ops.uniform(4, 6, 7), ops.uniform(6, 2, 3, 3, low=-0.5, high=0.5), ops.uniform(6)]
    ops.case("conv2d_unbatched", "conv2d", inputs, lambda *i: F.conv2d(*i, stride=2, padding=1, groups=2),
             stride=[2, 2], padding=[1, 1], groups=2)
    inputs = [ops.uniform(4, 9), ops.uniform(6, 4, 3, low=-0.5, high=0.5), ops.uniform(6)]
    ops.case("conv1d_unbatched", "conv1d", inputs, lambda *i: F.conv1d(*i, stride=2, padding=1), stride=2, padding=1)
    # name: input shape, output channels, kernel, stride, padding, output padding, groups, dilation, bias
    forms = {
        "unbatched": ((3, 4, 5), 4, (3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 1), True),
        "o2d3": ((2, 3, 4, 5), 4, (3, 3), (1, 1), (0, 0), (2, 2), 1, (3, 3), True),
        "o1d2p2": ((1, 4, 4, 3), 6, (3, 2), (1, 1), (2, 2), (1, 1), 2, (2, 3), True),
        "o2x1s2x3d3x1": ((2, 3, 3, 3), 2, (2, 3), (2, 3), (1, 0), (2, 1), 1, (3, 1), False),
        "o0x2d1x3_unbatched": ((3, 3, 4), 2, (2, 2), (1, 1), (0, 3), (0, 2), 1, (1, 3), True),
    }
    for name, (shape, out, kernel, stride, padding, output_padding, groups, dilation, bias) in forms.items():
        inputs = [ops.uniform(*shape), ops.uniform(shape[-3], out // groups, *kernel, low=-0.5,
                                                   high=0.5)] + ([ops.uniform(out)] if bias else [])
        ops.case(f"conv_transpose2d_{name}", "conv_transpose2d", inputs,
                 lambda *i: F.conv_transpose2d(*i, stride=stride, padding=padding, output_padding=output_padding,
                                               groups=groups, dilation=dilation),
                 stride=stride, padding=padding, output_padding=output_padding, groups=groups, dilation=dilation)
    for name, (shape, stride, padding, output_padding, dilation) in {"unbatched": ((3, 5), 2, 1, 1, 1),
                                                                     "o2d3p1": ((2, 3, 5), 1, 1, 2, 3)}.items():
        inputs = [ops.uniform(*shape), ops.uniform(3, 4, 3, low=-0.5, high=0.5), ops.uniform(4)]
        ops.case(f"conv_transpose1d_{name}", "conv_transpose1d", inputs,
                 lambda *i: F.conv_transpose1d(*i, stride=stride, padding=padding, output_padding=output_padding,
                                               dilation=dilation),
                 stride=stride, padding=padding, output_padding=output_padding, groups=1, dilation=dilation)
    ops.case("max_pool2d_unbatched", "max_pool2d", [ops.uniform(3, 6, 7)], lambda x: F.max_pool2d(x, 3, 2, 1),
             kernel=[3, 3], stride=[2, 2], padding=[1, 1])
    ops.case("max_pool1d_unbatched", "max_pool1d", [ops.uniform(3, 8)], lambda x: F.max_pool1d(x, 2), kernel=2,
             stride=2, padding=0)
    average = dict(padding=[0, 0], ceil_mode=False, count_include_pad=True, divisor=0)
    ops.case("avg_pool2d_unbatched", "avg_pool2d", [ops.uniform(3, 6, 7)], lambda x: F.avg_pool2d(x, 2), kernel=[2, 2],
             stride=[2, 2], **average)
    ops.case("avg_pool1d_unbatched", "avg_pool1d", [ops.uniform(3, 8)], lambda x: F.avg_pool1d(x, 2), kernel=2,
             stride=2, **(average | dict(padding=0)))
    ops.case("adaptive_avg_pool2d_unbatched", "adaptive_avg_pool2d", [ops.uniform(3, 5, 7)],
             lambda x: F.adaptive_avg_pool2d(x, (2, 3)), size=[2, 3])
    ops.case("adaptive_max_pool2d_unbatched", "adaptive_max_pool2d", [ops.uniform(3, 5, 7)],
             lambda x: F.adaptive_max_pool2d(x, (2, 3)), size=[2, 3])
    ops.case("adaptive_avg_pool1d_unbatched", "adaptive_avg_pool1d", [ops.uniform(3, 7)],
             lambda x: F.adaptive_avg_pool1d(x, 3), size=3)
    # name: input shape, kernel, stride, padding, dilation, ceil mode
    forms = {
        "k2": ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
        "k3s2p1": ((2, 3, 7, 5), (3, 3), (2, 2), (1, 1), (1, 1), False),
        "d2x3p1s2": ((1, 2, 9, 11), (3, 2), (2, 2), (1, 1), (2, 3), False),
        "ceil": ((1, 2, 7, 6), (2, 3), (3, 2), (1, 1), (1, 1), True),
        "large": ((1, 2, 18, 20), (17, 18), (1, 1), (0, 0), (1, 1), False),
        "empty": ((0, 3, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
        "unbatched": ((3, 6, 7), (3, 2), (1, 2), (1, 1), (1, 1), False),
        "16": ((1, 16, 4, 6), (2, 2), (2, 2), (0, 0), (1, 1), False),
    }
    for name, (shape, kernel, stride, padding, dilation, ceil_mode) in forms.items():
        ops.case(f"max_pool2d_with_indices_{name}", "max_pool2d_with_indices", [ops.uniform(*shape)],
                 lambda x: F.max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil_mode),
                 kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    for name, (shape, size, scale) in {"up": ((2, 3, 5), 9, None), "down": ((2, 3, 9), 4, None),
                                       "scale_2": ((2, 3, 4), None, 2.0), "scale_odd": ((1, 2, 7), None, 1.7),
                                       "one": ((1, 1, 1), 3, None), "empty": ((0, 2, 4), 8, None)}.items():
        for mode, align in [("nearest", False), ("linear", False), ("linear", True)]:
            ops.case(f"interpolate_{mode}_signal_{name}{'_aligned' if align else ''}", "interpolate",
                     [ops.uniform(*shape)],
                     lambda x: F.interpolate(x, size=size, scale_factor=scale, mode=mode,
                                             **({} if mode == "nearest" else dict(align_corners=align))),
                     mode=mode, size=[size, size] if size else [], scale=[scale, scale] if scale else [],
                     align_corners=align)


def make(ops):
    convolutions(ops)
    pools(ops)
    grouped(ops)
    transposed(ops)
    more_pools(ops)
    resizes(ops)
    unbatched(ops)
