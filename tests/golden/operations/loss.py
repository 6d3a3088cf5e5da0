"""Losses, and the operations that they consist of."""
import torch
import torch.nn.functional as F

INF = float("inf")


def softmaxes(ops):
    for name, function in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
        for shape, dim in [((3, 10), -1), ((4, 7), -1), ((2, 3, 5), -1), ((3, 1), -1), ((2, 3, 5), 1), ((2, 3, 5), 0),
                           ((2, 5, 4, 7), 1), ((2, 5, 4, 7), -2), ((1, 3, 1, 37), 1), ((17,), 0), ((), 0), ((0, 3), 1),
                           ((3, 0), 0), ((13, 61), -1), ((2, 13, 17), 1), ((1, 300), -1)]:
            suffix = "x".join(map(str, shape)) + f"_dim{dim}".replace("-", "m")
            ops.case(f"{name}_{suffix}", name, [ops.uniform(*shape, low=-4, high=4)], lambda x: function(x, dim),
                     dim=dim)
        special = torch.tensor([[1, -INF, 2], [-INF, -INF, -INF], [INF, 1, 2], [float("nan"), 1, 2], [1e4, -1e4, 0]])
        with torch.no_grad():
            ops.tensors[f"{name}_special/input0"] = special
            ops.tensors[f"{name}_special/output"] = function(special, -1)
        ops.metadata[f"{name}_special"] = '{"op": "%s", "dim": -1}' % name


def class_losses(ops):
    def targets(classes, *shape, ignored=False):
        t = torch.randint(classes, shape, generator=ops.generator)
        if ignored:
            t.view(-1)[::3] = -100
        return t

    def case(name, op, function, shape, target, low=-5, weight=False, **options):
        inputs = [ops.uniform(*shape, low=low, high=5)]
        if op == "nll_loss":
            inputs = [torch.log_softmax(inputs[0], 0 if len(shape) == 1 else 1)]
        arguments = dict(options)
        if weight:
            arguments["weight"] = ops.uniform(shape[0] if len(shape) == 1 else shape[1], low=0.5, high=2)
            options["weight"] = arguments["weight"].tolist()
        ops.case(name, op, inputs + [target], lambda x, t: function(x, t, **arguments), **options)

    for n, classes in [(4, 10), (1, 2), (7, 13), (100, 10), (3, 1), (2, 130)]:
        case(f"cross_entropy_{n}x{classes}", "cross_entropy", F.cross_entropy, (n, classes), targets(classes, n))
    # Logits that differ widely: the sum of exponentials must not overflow.
    ops.case("cross_entropy_large", "cross_entropy",
             [ops.uniform(3, 5, low=-300, high=300), torch.tensor([0, 4, 2])], F.cross_entropy)
    for op, function in {"cross_entropy": F.cross_entropy, "nll_loss": F.nll_loss}.items():
        for reduction in ["mean", "sum", "none"]:
            for form, shape in {"rows": (7, 5), "image": (2, 3, 4, 5), "wide": (2, 3, 7, 19),
                                "line": (2, 4, 3)}.items():
                rows = (shape[0],) + shape[2:]
                smooth = {"label_smoothing": 0.1} if op == "cross_entropy" else {}
                name = f"{op}_{form}_{reduction}"
                case(name, op, function, shape, targets(shape[1], *rows), reduction=reduction)
                case(f"{name}_all", op, function, shape, targets(shape[1], *rows, ignored=True), weight=True,
                     reduction=reduction, **smooth)
        case(f"{op}_ignore_index", op, function, (5, 4), torch.tensor([1, 3, 1, 0, 2]), ignore_index=1)
        case(f"{op}_one", op, function, (6,), torch.tensor(2))
        case(f"{op}_empty_sum", op, function, (0, 3), targets(3, 0), reduction="sum")
        case(f"{op}_empty_none", op, function, (0, 3), targets(3, 0), reduction="none")
        case(f"{op}_all_ignored", op, function, (2, 3), torch.tensor([-100, -100]), reduction="sum")
    case("cross_entropy_smooth", "cross_entropy", F.cross_entropy, (6, 5), targets(5, 6), label_smoothing=0.25)
    case("cross_entropy_one_smooth", "cross_entropy", F.cross_entropy, (6,), torch.tensor(2), label_smoothing=0.5)
    case("cross_entropy_weighted", "cross_entropy", F.cross_entropy, (13, 50), targets(50, 13), weight=True)
    for reduction in ["mean", "sum", "none"]:
        for form, shape in {"rows": (4, 6), "image": (2, 3, 4, 5), "one": (5,)}.items():
            name = f"cross_entropy_probabilities_{form}_{reduction}"
            dim = 0 if len(shape) == 1 else 1
            case(name, "cross_entropy", F.cross_entropy, shape, torch.softmax(ops.uniform(*shape), dim),
                 reduction=reduction)
            case(f"{name}_all", "cross_entropy", F.cross_entropy, shape, torch.softmax(ops.uniform(*shape), dim),
                 weight=True, reduction=reduction, label_smoothing=0.1)


def number_losses(ops):
    # Only the cases named ties have whole numbers, of which some differ by exactly 0 or beta.
    pairs = {"same": ((3, 4, 5), (3, 4, 5)), "scalar": ((), ()), "empty": ((0, 3), (0, 3)), "odd": ((7, 13), (7, 13)),
             "image": ((2, 3, 4, 5), (2, 3, 4, 5)), "large": ((1, 300), (1, 300))}
    broadcast = {"row": ((3, 4), (4,)), "outer": ((5, 1), (1, 7))}
    losses = {
        "mse_loss": (F.mse_loss, [{}]),
        "l1_loss": (F.l1_loss, [{}]),
        "smooth_l1_loss": (F.smooth_l1_loss, [{}, {"beta": 0.3}, {"beta": 0.0}]),
        "huber_loss": (F.huber_loss, [{}, {"delta": 0.4}]),
    }
    for op, (function, options) in losses.items():
        for reduction in ["mean", "sum", "none"]:
            for number, more in enumerate(options):
                forms = pairs | broadcast if number == 0 else {"odd": pairs["odd"]}
                for form, (left, right) in forms.items():
                    if form == "empty" and reduction == "mean" or form == "large" and reduction != "mean":
                        continue
                    ops.case(f"{op}_{form}_{reduction}_{number}", op, [ops.uniform(*left), ops.uniform(*right)],
                             lambda x, t: function(x, t, reduction=reduction, **more), reduction=reduction, **more)
        if op != "l1_loss":
            ops.case(f"{op}_ties", op, [ops.integers(40).float(), ops.integers(40).float()], function, reduction="mean")

    for op, function, inputs in [
            ("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits,
             lambda *s: ops.uniform(*s, low=-6, high=6)),
            ("binary_cross_entropy", F.binary_cross_entropy, lambda *s: ops.uniform(*s, low=0.02, high=0.98))]:
        for reduction in ["mean", "sum", "none"]:
            for form, (shape, _) in pairs.items():
                if form == "empty" and reduction == "mean" or form == "large" and reduction != "mean":
                    continue
                target = ops.uniform(*shape, low=0.05, high=0.95)
                ops.case(f"{op}_{form}_{reduction}", op, [inputs(*shape), target],
                         lambda x, t: function(x, t, reduction=reduction), reduction=reduction)
            weight = ops.uniform(3, low=0.5, high=2)
            ops.case(f"{op}_weight_{reduction}", op, [inputs(4, 3), ops.uniform(4, 3, low=0, high=1)],
                     lambda x, t: function(x, t, weight=weight, reduction=reduction), reduction=reduction,
                     weight=weight.tolist())
    for reduction in ["mean", "none"]:
        weight, positive = ops.uniform(3, low=0.5, high=2), ops.uniform(3, low=0.5, high=3)
        ops.case(f"binary_cross_entropy_with_logits_pos_weight_{reduction}", "binary_cross_entropy_with_logits",
                 [ops.uniform(4, 3, low=-5, high=5), ops.uniform(4, 3, low=0, high=1)],
                 lambda x, t: F.binary_cross_entropy_with_logits(x, t, weight=weight, pos_weight=positive,
                                                                 reduction=reduction),
                 reduction=reduction, weight=weight.tolist(), pos_weight=positive.tolist())
    far = torch.tensor([-200.0, -90, -20, 0, 20, 90, 200, 1e-4])
    ops.case("binary_cross_entropy_with_logits_far", "binary_cross_entropy_with_logits",
             [far, torch.tensor([0.0, 1, 0, 1, 1, 0, 1, 0])], F.binary_cross_entropy_with_logits, reduction="mean")

    for reduction in ["mean", "sum", "none", "batchmean"]:
        for log_target in [False, True]:
            for form, (shape, other) in (pairs | {"row": ((3, 4), (4,))}).items():
                is_undefined = form in ["empty", "scalar"] and reduction in ["mean", "batchmean"]
                if is_undefined or form == "large" and reduction != "mean":
                    continue
                target = ops.uniform(*other, low=-3, high=0) if log_target else ops.uniform(*other, low=0.1, high=1)
                ops.case(f"kl_div_{form}_{reduction}_{int(log_target)}", "kl_div",
                         [ops.uniform(*shape, low=-4, high=0), target],
                         lambda x, t: F.kl_div(x, t, reduction=reduction, log_target=log_target),
                         reduction=reduction, log_target=log_target)


def make(ops):
    softmaxes(ops)
    class_losses(ops)
    number_losses(ops)
