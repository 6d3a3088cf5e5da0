"""Normalisation."""
import torch
import torch.nn.functional as F


def batch_norms(ops):
    momentum, eps = 0.1, 1e-5

    def case(name, op, shape, training, chain, more=()):
        channels = shape[1]
        inputs = [ops.uniform(*shape), *more, ops.uniform(channels, low=0.5, high=1.5), ops.uniform(channels)]
        mean, var = ops.uniform(channels), ops.uniform(channels, low=0.5, high=2.0)
        ops.tensors[f"{name}/running_mean"] = mean.clone()
        ops.tensors[f"{name}/running_var"] = var.clone()
        ops.case(name, op, inputs,
                 lambda x, *rest: chain(F.batch_norm(x, mean, var, *rest[-2:], training, momentum, eps), *rest[:-2]),
                 training=training, momentum=momentum, eps=eps)
        ops.tensors[f"{name}/running_mean_after"] = mean
        ops.tensors[f"{name}/running_var_after"] = var

    shapes = {"3": (4, 3, 5, 6), "16": (3, 16, 8, 8), "1": (2, 1, 3, 3), "one_image": (1, 5, 7, 3)}
    for form, shape in shapes.items():
        case(f"batch_norm_train_{form}", "batch_norm", shape, True, lambda x: x)
        case(f"batch_norm_eval_{form}", "batch_norm", shape, False, lambda x: x)
    for form, shape in {"3": (4, 3, 6, 6), "16": (3, 16, 8, 8), "odd": (2, 5, 7, 9)}.items():
        for mode in ["train", "eval"]:
            training = mode == "train"
            case(f"batch_norm_relu_{mode}_{form}", "batch_norm_relu", shape, training, torch.relu)
            case(f"batch_norm_relu_max_pool2d_{mode}_{form}", "batch_norm_relu_max_pool2d", shape, training,
                 lambda x: F.max_pool2d(torch.relu(x), 2, 2))
            case(f"batch_norm_add_relu_{mode}_{form}", "batch_norm_add_relu", shape, training,
                 lambda x, addend: torch.relu(x + addend), [ops.uniform(*shape)])


def batch_norms_of_vectors(ops):
    """(N, C) and (N, C, L), without weights and without running statistics."""
    for form, shape in {"vectors": (7, 5), "lines": (4, 3, 6), "wide": (9, 33)}.items():
        for training in [True, False]:
            mean, var = ops.uniform(shape[1]), ops.uniform(shape[1], low=0.5, high=2.0)
            name = f"batch_norm_{form}_{'train' if training else 'eval'}"
            ops.tensors[f"{name}/running_mean"] = mean.clone()
            ops.tensors[f"{name}/running_var"] = var.clone()
            ops.case(name, "batch_norm",
                     [ops.uniform(*shape), ops.uniform(shape[1], low=0.5, high=1.5), ops.uniform(shape[1])],
                     lambda x, w, b: F.batch_norm(x, mean, var, w, b, training, 0.1, 1e-5), training=training,
                     momentum=0.1, eps=1e-5)
            ops.tensors[f"{name}/running_mean_after"] = mean
            ops.tensors[f"{name}/running_var_after"] = var
    for form, shape in {"vectors": (7, 5), "image": (3, 4, 5, 6)}.items():
        ops.case(f"batch_norm_untracked_{form}", "batch_norm_untracked", [ops.uniform(*shape)],
                 lambda x: F.batch_norm(x, None, None, training=True, eps=1e-3), eps=1e-3)


def other_norms(ops):
    def parameters(*shape):
        return [ops.uniform(*shape, low=0.5, high=1.5), ops.uniform(*shape)]

    def case(name, op, x, count, shape, function, **attributes):
        ops.case(name, op, [x] + parameters(*shape)[:count], function, **attributes)

    shapes = {"3x4": ((3, 4), 1), "2x3x5": ((2, 3, 5), 1), "two_dims": ((2, 3, 4, 5), 2), "one_row": ((37,), 1),
              "64": ((5, 64), 1), "100": ((4, 100), 1), "image": ((2, 3, 4, 5), 1),
              "large": ((8, 130), 1), "no_rows": ((0, 3), 1), "scalar_rows": ((1, 1, 17), 1)}
    for form, (shape, dims) in shapes.items():
        over = shape[len(shape) - dims:]
        for count in [0, 1, 2] if form in ["3x4", "two_dims", "no_rows"] else [2]:
            case(f"layer_norm_{form}_{count}", "layer_norm", ops.uniform(*shape), count, over,
                 lambda x, w=None, b=None: F.layer_norm(x, over, w, b, 1e-5), dims=dims, eps=1e-5)
        for count in [0, 1] if form in ["3x4", "two_dims", "no_rows"] else [1]:
            case(f"rms_norm_{form}_{count}", "rms_norm", ops.uniform(*shape), count, over,
                 lambda x, w=None: F.rms_norm(x, over, w), dims=dims)
    # The mean is far from 0, and the variance must not be lost.
    ops.case("layer_norm_far", "layer_norm", [ops.integers(3, 50, low=100, high=110).float()],
             lambda x: F.layer_norm(x, (50,)), dims=1, eps=1e-5)
    case("rms_norm_eps", "rms_norm", ops.uniform(3, 7), 1, (7,), lambda x, w: F.rms_norm(x, (7,), w, 0.1), dims=1,
         eps=0.1)

    shapes = {"6_2": ((2, 6, 4, 5), 2), "4_4": ((3, 4, 3, 3), 4), "5_1": ((2, 5, 7, 3), 1), "vectors": ((4, 12), 3),
              "line": ((2, 4, 9), 2), "32_8": ((1, 32, 3, 4), 8), "17_17": ((1, 17, 2, 5), 17),
              "one_place": ((3, 8, 1, 1), 2),
              "empty": ((0, 4, 3, 3), 2), "many": ((1, 2, 24, 25), 1), "volume": ((2, 4, 2, 3, 2), 2)}
    for form, (shape, groups) in shapes.items():
        for count in [0, 1, 2] if form == "5_1" else [2]:
            case(f"group_norm_{form}_{count}", "group_norm", ops.uniform(*shape), count, (shape[1],),
                 lambda x, w=None, b=None: F.group_norm(x, groups, w, b, 1e-5), groups=groups, eps=1e-5)
    for form, shape in {"3": (2, 3, 4, 5), "16": (2, 16, 3, 3), "line": (2, 3, 8)}.items():
        for count in [0, 2]:
            case(f"instance_norm_{form}_{count}", "instance_norm", ops.uniform(*shape), count, (shape[1],),
                 lambda x, w=None, b=None: F.instance_norm(x, weight=w, bias=b, eps=1e-5), eps=1e-5)


def make(ops):
    batch_norms(ops)
    batch_norms_of_vectors(ops)
    other_norms(ops)
