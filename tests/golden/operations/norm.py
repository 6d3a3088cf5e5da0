"""Normalisation."""
import torch
import torch.nn.functional as F


def batch_norms(ops):
    momentum, eps = 0.1, 1e-5

    def case(name, op, shape, training, chain):
        channels = shape[1]
        inputs = [ops.uniform(*shape), ops.uniform(channels, low=0.5, high=1.5), ops.uniform(channels)]
        mean, var = ops.uniform(channels), ops.uniform(channels, low=0.5, high=2.0)
        ops.tensors[f"{name}/running_mean"] = mean.clone()
        ops.tensors[f"{name}/running_var"] = var.clone()
        ops.case(name, op, inputs,
                 lambda x, weight, bias: chain(F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)),
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


def make(ops):
    batch_norms(ops)
