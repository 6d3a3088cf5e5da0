"""Recurrence: the part of torch's recurrent layers after the product with the input."""
import torch

# kind -> (torch's function, gates for each unit)
KINDS = {"tanh": (torch._VF.rnn_tanh, 1), "relu": (torch._VF.rnn_relu, 1), "lstm": (torch._VF.lstm, 4),
         "gru": (torch._VF.gru, 3)}


def recur(ops, kind, form, length, batch, units, biased=False, has_state=False, reverse=False):
    function, gates = KINDS[kind]
    states = 2 if kind == "lstm" else 1
    inputs = [ops.uniform(length, batch, gates * units), ops.uniform(gates * units, units)]
    inputs += [ops.uniform(gates * units)] if biased else []
    inputs += [ops.uniform(batch, units) for _ in range(states)] if has_state else []

    # The rows of one table: the output, and after the last step h and, for an LSTM, c.
    def reference(from_x, weight, *rest):
        rest = list(rest)
        bias = rest.pop(0) if biased else torch.zeros(gates * units)
        first = rest or [torch.zeros(batch, units) for _ in range(states)]
        first = [state[None] for state in first]
        # With an identity matrix as its weight, the input remains from_x.
        parameters = [torch.eye(gates * units), weight, torch.zeros(gates * units), bias]
        output, *last = function(from_x.flip(0) if reverse else from_x, first if states == 2 else first[0], parameters,
                                 True, 1, 0.0, True, False, False)
        output = output.flip(0) if reverse else output
        return torch.cat([output.flatten(0, 1)] + [state[0] for state in last])

    ops.case(f"recurrence_{kind}_{form}", "recurrence", inputs, reference, kind=kind, biased=biased, reverse=reverse)


def make(ops):
    for kind in KINDS:
        recur(ops, kind, "plain", 4, 3, 5)
        recur(ops, kind, "all", 5, 2, 3, biased=True, has_state=True)
        recur(ops, kind, "reverse", 3, 2, 4, biased=True, has_state=True, reverse=True)
        recur(ops, kind, "one_step", 1, 1, 1, biased=True)
        recur(ops, kind, "wide", 2, 3, 35, biased=True)  # whole vectors, and a rest
        recur(ops, kind, "no_batch", 3, 0, 2)
