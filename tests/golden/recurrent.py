"""Recurrent layers: their initial values, results and gradients."""
import json

import torch

LAYERS = {
    "rnn_tanh": (torch.nn.RNN, {}),
    "rnn_relu": (torch.nn.RNN, {"nonlinearity": "relu"}),
    "lstm": (torch.nn.LSTM, {}),
    "gru": (torch.nn.GRU, {}),
}
# name -> (options, shape of x, whether an initial state is given)
CASES = {
    "plain": ({}, (5, 3, 4), False),
    "state": ({}, (5, 3, 4), True),
    "layers": ({"num_layers": 3, "batch_first": True}, (3, 5, 4), True),
    "bidirectional": ({"num_layers": 2, "bidirectional": True, "bias": False}, (4, 2, 4), True),
    "bidirectional_batch_first": ({"num_layers": 2, "bidirectional": True, "batch_first": True}, (2, 4, 4), False),
    "single": ({"num_layers": 2, "bidirectional": True, "batch_first": True}, (4, 4), True),
}
HIDDEN = 6


def make(save):
    tensors, metadata = {}, {}
    generator = torch.Generator().manual_seed(20)
    uniform = lambda *shape: torch.rand(shape, generator=generator) * 2 - 1
    for kind, (layer, of_kind) in LAYERS.items():
        for case, (options, shape, has_state) in CASES.items():
            name = f"{kind}_{case}"
            torch.manual_seed(7)
            module = layer(shape[-1], HIDDEN, **options, **of_kind)
            cells = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
            batch = () if len(shape) == 2 else (shape[0 if options.get("batch_first") else 1],)
            slots = ["h", "c"] if kind == "lstm" else ["h"]
            inputs = {"x": uniform(*shape)}
            if has_state:
                inputs |= {f"{slot}_0": uniform(cells, *batch, HIDDEN) for slot in slots}
            for tensor in inputs.values():
                tensor.requires_grad_()
            state = tuple(inputs.values())[1:]
            output, last = module(inputs["x"], (state if kind == "lstm" else state[0]) if state else None)
            results = {"output": output} | {f"{slot}_n": t
                                            for slot, t in zip(slots, last if kind == "lstm" else [last])}
            gradients = {key: uniform(*result.shape) for key, result in results.items()}
            torch.autograd.backward(list(results.values()), list(gradients.values()))
            of_case = (inputs | results | {f"grad_{key}": gradient for key, gradient in gradients.items()}
                       | {f"grad_{key}": tensor.grad for key, tensor in inputs.items()}
                       | {f"state/{key}": value for key, value in module.state_dict().items()}
                       | {f"grad/{key}": parameter.grad for key, parameter in module.named_parameters()})
            tensors |= {f"{name}/{key}": tensor for key, tensor in of_case.items()}
            metadata[name] = json.dumps({"kind": kind, "names": list(module.state_dict()), "options": options})
    save("recurrent.safetensors", tensors, metadata)
