"""The RKM-LSTM as a plain Python loop with autograd, the baseline of every fast kernel.

    a_t = X~ x_t + b + H~ h_{t-1},   c_t = i_t * c~_t + f_t * c_{t-1},   h_t = o_t * c_t

The input product of all steps is computed at once. How the steps are then separated decides the
cost of the gradient: with ``z[t]``, autograd fills a tensor of the size of z for every step, which
costs O(T^2); with ``z.unbind()`` it does not.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.nn import RKMLSTM


class EagerRKMLSTM(nn.Module):
    """The equations with the parameters of a layer; ``by_index`` takes the steps as ``z[t]``."""

    def __init__(self, layer: RKMLSTM, *, by_index: bool) -> None:
        super().__init__()
        self.by_index = by_index

        def stacked(by_gate: dict[str, Tensor]) -> nn.Parameter:
            return nn.Parameter(torch.cat(list(by_gate.values())).clone())

        filters = {gate: weight[:, :, 0] for gate, weight in layer.filters().items()}
        no_bias = {"candidate": torch.zeros(layer.hidden_size)}
        self.filters, self.recurrent = stacked(filters), stacked(layer.recurrent())
        self.bias = stacked({**no_bias, **layer.biases()})

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Run over ``(T, B, I)`` from zeros."""
        z = F.linear(x, self.filters, self.bias)
        h = c = x.new_zeros(x.shape[1], self.recurrent.shape[1])
        outputs = []
        for z_t in (z[t] for t in range(len(z))) if self.by_index else z.unbind():
            candidate, i, f, o = (z_t + F.linear(h, self.recurrent)).chunk(4, dim=-1)
            c = torch.sigmoid(i) * candidate + torch.sigmoid(f) * c
            h = torch.sigmoid(o) * c
            outputs.append(h)
        return torch.stack(outputs), (h, c)
