"""optimizers.safetensors and schedules.json: sequences of torch.optim and torch.optim.lr_scheduler."""
import json
import math

import torch
from torch import nn
from torch.optim import lr_scheduler as schedulers

from golden_file import FOLDER, save

STEPS, SIZE = 50, 7

OPTIMIZERS = {
    "adam": ("Adam", {}),
    "adam_lr": ("Adam", dict(lr=0.1)),
    "adam_betas_eps": ("Adam", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3)),
    "adam_low_beta": ("Adam", dict(lr=0.02, betas=(0.3, 0.4))),
    "adam_zero_betas": ("Adam", dict(lr=0.02, betas=(0.0, 0.0), eps=1e-4)),
    "adam_weight_decay": ("Adam", dict(lr=0.01, weight_decay=0.1)),
    "adam_amsgrad": ("Adam", dict(lr=0.05, amsgrad=True)),
    "adam_maximize": ("Adam", dict(lr=0.01, weight_decay=0.1, amsgrad=True, maximize=True)),
    "adamw": ("AdamW", {}),
    "adamw_lr": ("AdamW", dict(lr=0.1, weight_decay=0.05)),
    "adamw_none": ("AdamW", dict(lr=0.01, weight_decay=0.0)),
    "adamw_amsgrad": ("AdamW", dict(lr=0.05, betas=(0.7, 0.9), weight_decay=0.2, amsgrad=True, maximize=True)),
    "rmsprop": ("RMSprop", {}),
    "rmsprop_alpha": ("RMSprop", dict(lr=0.005, alpha=0.9, eps=1e-4, weight_decay=0.05)),
    "rmsprop_centered": ("RMSprop", dict(lr=0.005, centered=True)),
    "rmsprop_momentum": ("RMSprop", dict(lr=0.001, momentum=0.9)),
    "rmsprop_all": ("RMSprop", dict(lr=0.001, alpha=0.95, momentum=0.8, centered=True, weight_decay=0.01,
                                    maximize=True)),
    "adagrad": ("Adagrad", {}),
    "adagrad_decay": ("Adagrad", dict(lr=0.1, lr_decay=0.05, weight_decay=0.05)),
    "adagrad_initial": ("Adagrad", dict(lr=0.1, initial_accumulator_value=0.3, eps=1e-3, maximize=True)),
}


def make_optimizers():
    generator = torch.Generator().manual_seed(70)
    tensors, metadata = {}, {}
    for name, (kind, options) in OPTIMIZERS.items():
        # In some steps, the second parameter has no gradient.
        parameters = [nn.Parameter(torch.rand(SIZE, generator=generator) - 0.5) for _ in range(2)]
        for number, parameter in enumerate(parameters):
            tensors[f"{name}/initial{number}"] = parameter.detach().clone()
        optimizer = getattr(torch.optim, kind)(parameters, **options)
        gradients = torch.rand(STEPS, 2, SIZE, generator=generator) - 0.4
        rows = [[], []]
        for step in range(STEPS):
            for number, parameter in enumerate(parameters):
                parameter.grad = None if number == 1 and step % 3 == 0 else gradients[step, number].clone()
            optimizer.step()
            for row, parameter in zip(rows, parameters):
                row.append(parameter.detach().clone())
        tensors[f"{name}/gradients"] = gradients
        for number, parameter in enumerate(parameters):
            tensors[f"{name}/weights{number}"] = torch.stack(rows[number])
            for slot, value in optimizer.state[parameter].items():
                tensors[f"{name}/state{number}/{slot}"] = value
        metadata[name] = json.dumps(dict(kind=kind, **options))

    # AveragedModel's averages after each of several steps.
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    for use_buffers in [False, True]:
        averaged = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=use_buffers)
        prefix = f"ema_{'with' if use_buffers else 'without'}_buffers"
        for step in range(4):
            for key, value in model.state_dict().items():
                with torch.no_grad():
                    if value.is_floating_point():
                        value.copy_(torch.rand(value.shape, generator=generator))
                    else:
                        value.fill_(10 * step + 3)
                tensors[f"{prefix}/{step}/model/{key}"] = value.clone()
            averaged.update_parameters(model)
            for key, value in averaged.module.state_dict().items():
                tensors[f"{prefix}/{step}/average/{key}"] = value.clone()

    # Gradient clipping.
    for name, (clip, shapes, scale) in {
        "two": (dict(max_norm=1.0), [(3, 4), (5,), ()], 1.0),
        "two_below": (dict(max_norm=100.0), [(3, 4), (5,)], 1.0),
        "one": (dict(max_norm=2.0, norm_type=1.0), [(3, 4), (70,)], 1.0),
        "three": (dict(max_norm=0.5, norm_type=3.0), [(3, 4), (70,)], 1.0),
        "half": (dict(max_norm=0.5, norm_type=0.5), [(4,), (7,)], 1.0),
        "inf": (dict(max_norm=0.1, norm_type=math.inf), [(3, 4), (70,)], 1.0),
        "large": (dict(max_norm=1.0), [(3000,), (7,)], 1e10),
    }.items():
        parameters = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
        for number, parameter in enumerate(parameters):
            parameter.grad = (torch.rand(parameter.shape, generator=generator) - 0.5) * scale
            tensors[f"clip_{name}/before{number}"] = parameter.grad.clone()
        tensors[f"clip_{name}/norm"] = nn.utils.clip_grad_norm_(parameters, **clip)
        for number, parameter in enumerate(parameters):
            tensors[f"clip_{name}/after{number}"] = parameter.grad
        metadata[f"clip_{name}"] = json.dumps({key: str(value) for key, value in clip.items()} | {"count": len(shapes)})
    save("optimizers.safetensors", tensors, metadata)



SCHEDULES = {
    "StepLR": [dict(step_size=3), dict(step_size=1, gamma=0.9), dict(step_size=10, gamma=0.5)],
    "MultiStepLR": [dict(milestones=[2, 5]), dict(milestones=[7, 3, 3, 12], gamma=0.3)],
    "ExponentialLR": [dict(gamma=0.9), dict(gamma=1.01)],
    "CosineAnnealingLR": [dict(T_max=30), dict(T_max=7, eta_min=0.003), dict(T_max=1, eta_min=0.001)],
    "CosineAnnealingWarmRestarts": [dict(T_0=5), dict(T_0=3, T_mult=2, eta_min=0.001), dict(T_0=1, T_mult=3)],
    "PolynomialLR": [dict(), dict(total_iters=25, power=0.9), dict(total_iters=12, power=2.0)],
    "OneCycleLR": [
        dict(max_lr=0.1, total_steps=30),
        dict(max_lr=0.1, total_steps=30, anneal_strategy="linear", pct_start=0.4, div_factor=10.0,
             final_div_factor=100.0),
        dict(max_lr=0.3, epochs=5, steps_per_epoch=6, three_phase=True, base_momentum=0.7, max_momentum=0.9),
        dict(max_lr=0.3, total_steps=30, three_phase=True, anneal_strategy="linear", cycle_momentum=False),
    ],
    "LinearLR": [dict(), dict(start_factor=0.1, end_factor=1.0, total_iters=10),
                 dict(start_factor=1.0, end_factor=0.0, total_iters=20)],
    "ConstantLR": [dict(), dict(factor=0.1, total_iters=8)],
}


def make_schedules():
    """Each row has the schedule, its options, the optimizer's learning rates, and the learning rates and momenta at
    each step."""
    rows = []

    def run(name, options, make, kind="SGD", steps=30, momentum=False):
        base = [0.05, 0.2]
        parameters = [nn.Parameter(torch.zeros(1)) for _ in base]
        groups = [dict(params=[p], lr=lr) for p, lr in zip(parameters, base)]
        optimizer = torch.optim.SGD(groups, momentum=0.9) if kind == "SGD" else torch.optim.Adam(groups)
        schedule = make(optimizer)
        lrs, momenta = [], []
        for step in range(steps):
            lrs.append([group["lr"] for group in optimizer.param_groups])
            momenta.append([group["momentum"] if kind == "SGD" else group["betas"][0]
                            for group in optimizer.param_groups])
            optimizer.step()
            if step + 1 < steps:
                schedule.step()
        row = dict(schedule=name, optimizer=kind, options=options, base_lrs=base, lrs=lrs)
        if momentum:
            row["momenta"] = momenta
        rows.append(row)

    for name, variants in SCHEDULES.items():
        for options in variants:
            cycles = name == "OneCycleLR" and options.get("cycle_momentum", True)
            for kind in ["SGD", "Adam"] if cycles else ["SGD"]:
                run(name, options, lambda o: getattr(schedulers, name)(o, **options), kind, momentum=cycles)
    run("LambdaLR", {}, lambda o: schedulers.LambdaLR(o, lambda step: 1 / (1 + step)))
    run("LambdaLR_groups", {}, lambda o: schedulers.LambdaLR(o, [lambda step: 0.95**step, lambda step: 1 + step]))
    run("SequentialLR", {"case": "warm_up_cosine"}, lambda o: schedulers.SequentialLR(o, [
        schedulers.LinearLR(o, 0.1, 1.0, 5), schedulers.CosineAnnealingLR(o, 25)], [5]))
    run("SequentialLR", {"case": "three"}, lambda o: schedulers.SequentialLR(o, [
        schedulers.ConstantLR(o, 0.1, 4), schedulers.ExponentialLR(o, 0.9), schedulers.StepLR(o, 3, 0.5)], [4, 14]))
    run("ChainedScheduler", {"case": "constant_exponential"}, lambda o: schedulers.ChainedScheduler([
        schedulers.ConstantLR(o, 0.1, 4), schedulers.ExponentialLR(o, 0.9)]))
    run("ChainedScheduler", {"case": "linear_step_cosine"}, lambda o: schedulers.ChainedScheduler([
        schedulers.LinearLR(o, 0.2, 1.0, 6), schedulers.MultiStepLR(o, [8, 20], 0.3),
        schedulers.CosineAnnealingLR(o, 40)]))

    metrics = [1.0, 0.9, 0.95, 0.899999, 0.92, 0.93, 0.91, 0.5, 0.6, 0.7, 0.7, 0.7, 0.7, 0.49, 0.4899, 0.48, 0.6, 0.6,
               0.6,
               0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, float("nan"), 0.6]
    plateaus = []
    for options in [dict(patience=2), dict(patience=0, factor=0.5, cooldown=2), dict(mode="max", patience=1),
                    dict(patience=1, threshold=0.05, threshold_mode="abs", min_lr=0.01),
                    dict(mode="max", threshold=0.1, threshold_mode="abs", patience=3, min_lr=[0.001, 0.1]),
                    dict(patience=0, eps=0.01)]:
        base = [0.05, 0.2]
        optimizer = torch.optim.SGD([dict(params=[nn.Parameter(torch.zeros(1))], lr=lr) for lr in base])
        schedule = schedulers.ReduceLROnPlateau(optimizer, **options)
        lrs = []
        for metric in metrics:
            schedule.step(metric)
            lrs.append([group["lr"] for group in optimizer.param_groups])
        plateaus.append(dict(options=options, base_lrs=base, metrics=[None if math.isnan(m) else m for m in metrics],
                             lrs=lrs))
    sections = [f"{json.dumps(key)}: [\n" + ",\n".join(map(json.dumps, value)) + "\n]"
                for key, value in {"schedules": rows, "plateaus": plateaus}.items()]
    (FOLDER / "schedules.json").write_text("{\n" + ",\n".join(sections) + "\n}\n")
