"""The contributions of the steps to the last output of a recurrent cell.

Given the gates, a cell without tanh is linear in its input:

    c~_t = X~_0 x_t + ... + X~_{n-1} x_{t-(n-1)d} + H~ h_{t-1}
    c_t  = i_t * c~_t + f_t * m_{t-1},      h_t = o_t * a c_t,      m = c or h

so h_T is a sum of contributions of the steps s, each propagated through memory and feedback with
all gates held constant. Without feedback and for n = 1, the contribution of step s is
o_T * f_T * ... * f_{s+1} * i_s * X~ x_s. Liang et al. 2019, (9), (10), (20).

Shapes: T time, G gates, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.explain.recurrent_parts import (
    SLOPES,
    check_decomposable,
    forget_gate,
    input_gate,
    pre_activations,
)
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


def recurrent_contributions(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    """Return the contribution of each step to the last output of a layer ``(T, H)``.

    Raises:
        KindError: If the output is not a sum over the steps; the message states the reason.
    """
    check_decomposable(layer)
    cell, slope = layer.cell, SLOPES[layer.cell.output]
    gates_TGH, static = pre_activations(layer, x)[0].sigmoid(), layer.static_gates()
    gate = dict(zip(cell.gates, gates_TGH.unbind(1), strict=True))
    feedback = layer.recurrent().get("candidate")
    filters = layer.filters()["candidate"]
    written = [x @ slot.T for slot in filters.unbind(-1)]  # from x_s to c~ of step s + slot d
    hold_c, hold_h = layer.zoneout
    c = x.new_zeros(len(x), layer.hidden_size)  # the contributions of the steps to c_t
    h = torch.zeros_like(c)
    for t in range(len(x)):
        candidate = torch.zeros_like(c) if feedback is None else h @ feedback.T
        for slot, products in enumerate(written):
            s = t - slot * layer.dilation
            if s >= 0:
                candidate[s] += products[s]
        c_new = input_gate(cell, gate, static, t) * candidate
        if cell.forget_gate != "none":
            c_new = c_new + forget_gate(gate, static, t) * (h if cell.memory == "output" else c)
        h_new = slope * c_new
        if cell.output_gate:
            h_new = gate["output"][t] * h_new
        c, h = torch.lerp(c_new, c, hold_c), torch.lerp(h_new, h, hold_h)
    return h
