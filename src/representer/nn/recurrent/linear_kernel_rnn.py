"""Linear kernel with static gates, L19 (9), (15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from representer.functional import cell as cells
from representer.nn.recurrent.kernel_machine import OutputNonlinearity, RecurrentKernelMachine


class LinearKernelRNN(RecurrentKernelMachine):
    r"""The recurrent kernel machine of a linear kernel, with static gates.

    .. math::
        c_t = \sigma_i^2 (\tilde X \cdot X_t + \tilde H h_{t-1}) + \sigma_f^2 c_{t-1}

    and :math:`h_t = o_t \odot c_t` with an output gate, :math:`h_t = \tanh(c_t)` without (Table 1;
    ``output_nonlinearity="identity"`` is equation (9)). What a step wrote N steps ago weighs
    :math:`\sigma_i^2 \sigma_f^{2N}`. Without feedback, σ_f² < 1 keeps it bounded; with feedback
    only layer norm does.

    Args:
        output_gate: Whether the output has a dynamic gate.
        static_gates: The pair (σ_i², σ_f²).
        learn_static_gates: Whether they are learned: one σ_i², one σ_f² a unit, inside (0, 1).
        feedback: Whether the cell sees h_{t−1}; False is equation (15).

    The other arguments, shapes and the state are those of
    :class:`~representer.nn.recurrent.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (9), (15).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        output_gate: bool = True,
        static_gates: tuple[float, float] = (0.5, 0.5),
        learn_static_gates: bool = False,
        feedback: bool = True,
        filter_length: int | dict[int, int] = 1,
        dilation: int = 1,
        filters: Literal["dense", "wavelet"] = "dense",
        stride: int = 1,
        free_phase: bool = False,
        sampling_rate: float | None = None,
        layer_norm: bool = False,
        output_nonlinearity: OutputNonlinearity = None,
        forget_bias: float = 0.0,
        weight_drop: float = 0.0,
        variational_dropout: float = 0.0,
        zoneout: float | tuple[float, float] = 0.0,
        recompute_gates: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        row = cells.LINEAR_KERNEL_GATED if output_gate else cells.LINEAR_KERNEL
        self.cell = row if feedback else replace(row, feedback="none")
        self.static, self.learn_static = static_gates, learn_static_gates
        self.own_options = {
            "output_gate": (output_gate, True),
            "static_gates": (static_gates, (0.5, 0.5)),
            "learn_static_gates": (learn_static_gates, False),
            "feedback": (feedback, True),
        }
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            filter_length=filter_length,
            dilation=dilation,
            filters=filters,
            stride=stride,
            free_phase=free_phase,
            sampling_rate=sampling_rate,
            layer_norm=layer_norm,
            output_nonlinearity=output_nonlinearity,
            forget_bias=forget_bias,
            weight_drop=weight_drop,
            variational_dropout=variational_dropout,
            zoneout=zoneout,
            recompute_gates=recompute_gates,
            device=device,
            dtype=dtype,
        )
