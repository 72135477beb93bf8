"""Linear kernel with static gates, L19 (9), (15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from representer.functional import cell as cells
from representer.nn.checks import check_flag
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine
from representer.nn.recurrent.options import CellOptions, shows


class LinearKernelRNN(RecurrentKernelMachine):
    r"""The recurrent kernel machine of a linear kernel, with static gates.

    .. math::
        c_t = \sigma_i^2 (\tilde X \cdot X_t + \tilde H h_{t-1}) + \sigma_f^2 c_{t-1}

    and :math:`h_t = o_t \odot c_t` with an output gate, :math:`h_t = \tanh(c_t)` without (Table 1;
    ``output_nonlinearity="identity"`` is equation (9)). The input of N steps ago has the weight
    :math:`\sigma_i^2 \sigma_f^{2N}`. Without feedback, the state is bounded if σ_f² < 1; with
    feedback, only layer norm bounds it.

    Args:
        output_gate: Add a dynamic output gate.
        static_gates: The pair (σ_i², σ_f²).
        learn_static_gates: Learn the gates: one σ_i², and one σ_f² per unit, in (0, 1).
        feedback: Feed h_{t−1} back to the cell; False is equation (15).

    The other arguments, the shapes and the state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (9), (15).
    """

    @shows(CellOptions)
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
        **options: Unpack[CellOptions],
    ) -> None:
        output_gate = check_flag("output_gate", output_gate)
        feedback = check_flag("feedback", feedback)
        learn_static_gates = check_flag("learn_static_gates", learn_static_gates)
        row = cells.LINEAR_KERNEL_GATED if output_gate else cells.LINEAR_KERNEL
        self.cell = row if feedback else replace(row, feedback="none")
        self.output_gate, self.feedback = output_gate, feedback
        self.static, self.learn_static = static_gates, learn_static_gates
        layout = num_layers, bias, batch_first, dropout, bidirectional
        super().__init__(input_size, hidden_size, *layout, **options)
        self._shown |= {"static_gates": static_gates, "learn_static_gates": learn_static_gates}
