"""How much each step of a sequence adds to the output of a recurrent cell.

Given the gates, a cell without tanh is linear in its input:

    c~_t = X~_0 x_t + ... + X~_{n-1} x_{t-(n-1)d} + H~ h_{t-1}
    c_t  = i_t * c~_t + f_t * m_{t-1},      h_t = o_t * a c_t,      m = c or h

so h_T is a sum over the steps s of what x_s wrote, followed through memory and feedback with every
gate held at the value that it had. Without feedback and for n = 1 the share of step s is
o_T * f_T * ... * f_{s+1} * i_s * X~ x_s. Liang et al. 2019, (9), (10), (20).

Shapes: T time, S = T steps whose shares are followed, G gates, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.functional import Cell, ngram_product, rkm_scan
from representer.nn.recurrent.inputs import check_input
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine

SLOPES = {"identity": 1.0, "linear": 0.5}  # the output functions that are a multiple of the cell


def influence(layer: RecurrentKernelMachine, input: Tensor) -> Tensor:
    """Split the last output of a layer into the shares of the steps of its input.

    The shares sum to the output exactly, from a zero state, as the layer computes it in evaluation.
    They are exact given the gates: what a step did to the gates of later steps is not counted
    as its own, since it scales the shares of other steps.

    Args:
        layer: A cell without tanh on candidate and output: RKM-LSTM, RKM-CIFG, RAN, Gated CNN,
            the linear kernel with an output gate or ``output_nonlinearity="identity"``, or an RKM
            of ``q="linear"``. One layer, one direction, no layer norm.
        input: One sequence.

    Shape:
        - input ``(T, I)``
        - returns ``(T, H)``; its sum over T is the output of step T

    Raises:
        KindError: If the layer's output is no such sum, with the reason; or if the input is no
            tensor, or of another dtype or device.
        ShapeError: If the input is not one sequence.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (20).
    """
    _refuse_what_is_no_sum(layer)
    if not isinstance(input, Tensor):
        raise KindError("input", type(input).__name__, f"a tensor (time, {layer.input_size})")
    if input.dim() != 2:
        raise ShapeError(
            "input",
            input.shape,
            f"one sequence (time, {layer.input_size})",
            hint="Explain the sequences of a batch one by one.",
        )
    check_input(input, layer.input_size, False, like=next(layer.parameters()))
    with torch.no_grad():
        return _shares(layer, input)


def _shares(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    cell, slope = layer.cell, SLOPES[layer.cell.output]
    gates_TGH, static = _pre_activations(layer, x).sigmoid(), layer.static_gates()
    gate = dict(zip(cell.gates, gates_TGH.unbind(1), strict=True))
    feedback = layer.recurrent().get("candidate")
    filters = layer.filters()["candidate"]
    written = [x @ slot.T for slot in filters.unbind(-1)]  # by x_s into c~ of step s + slot d
    hold_c, hold_h = layer.zoneout
    c = x.new_zeros(len(x), layer.hidden_size)  # the shares of the steps in c_t
    h = torch.zeros_like(c)
    for t in range(len(x)):
        candidate = torch.zeros_like(c) if feedback is None else h @ feedback.T
        for slot, products in enumerate(written):
            s = t - slot * layer.dilation
            if s >= 0:
                candidate[s] += products[s]
        fresh_c = _input(cell, gate, static, t) * candidate
        if cell.forget_gate != "none":
            fresh_c = fresh_c + _forget(gate, static, t) * (h if cell.memory == "output" else c)
        fresh_h = slope * fresh_c
        if cell.output_gate:
            fresh_h = gate["output"][t] * fresh_h
        c, h = torch.lerp(fresh_c, c, hold_c), torch.lerp(fresh_h, h, hold_h)
    return h


def _pre_activations(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    """Return the pre-activations of all gates ``(T, G, H)``, as the layer has them."""
    cell, units = layer.cell, layer.hidden_size
    filters_GHIn = torch.stack(list(layer.filters().values()))
    reach = (filters_GHIn.shape[-1] - 1) * layer.dilation
    extended = torch.cat((x.new_zeros(reach, x.shape[1]), x))[:, None]
    z = ngram_product(extended, filters_GHIn.flatten(0, 1), layer.dilation)
    z = z.unflatten(-1, (len(cell.gates), units))
    biases = layer.biases()
    for g, name in enumerate(cell.gates):
        if name in biases:
            z[:, :, g] += biases[name]
    recurrent = layer.recurrent()
    weight = torch.stack(list(recurrent.values())) if recurrent else None
    zeros = x.new_zeros(1, units)
    hold = x.new_tensor(layer.zoneout)[:, None, None, None].expand(2, len(x), 1, units)
    static = layer.static_gates()
    h, _, _ = rkm_scan(z, weight, zeros, zeros, cell=cell, static=static, hold=hold)
    if weight is not None:
        before = torch.cat((zeros[None], h[:-1]))
        z[:, :, len(cell.gates) - len(weight) :] += torch.einsum("rij,tbj->tbri", weight, before)
    return z[:, 0]


def _input(cell: Cell, gate: dict[str, Tensor], static: Tensor | None, t: int) -> Tensor:
    if cell.input_gate == "dynamic":
        return gate["input"][t]
    if cell.input_gate == "coupled":
        return 1 - gate["forget"][t]
    assert static is not None
    return static[0]


def _forget(gate: dict[str, Tensor], static: Tensor | None, t: int) -> Tensor:
    if "forget" in gate:
        return gate["forget"][t]
    assert static is not None
    return static[1]


def _refuse_what_is_no_sum(layer: RecurrentKernelMachine) -> None:
    if not isinstance(layer, RecurrentKernelMachine):
        raise KindError("layer", type(layer).__name__, "a layer of the recurrent kernel machines")
    cell = layer.cell
    reasons = {
        f"The candidate passes through {cell.candidate}.": cell.candidate != "identity",
        f"The output is {cell.output} of the cell.": cell.output not in SLOPES,
        "The layer norm divides by what all steps wrote together.": layer.layer_norm,
        "Explain one layer at a time.": layer.num_layers > 1,
        "Explain one direction at a time.": layer.bidirectional,
        "The output non-linearity is a function of its own.": any(
            getattr(direction, "psi", None) is not None for direction in layer.directions
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            raise KindError(
                "layer", repr(layer), "one whose output is a sum over the steps", hint=reason
            )
