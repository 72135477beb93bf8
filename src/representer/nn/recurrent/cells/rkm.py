"""The recurrent kernel machine for any kernel q, L19 (6), (8), (14), (17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import NONLINEARITIES, Cell
from representer.nn.checks import check_flag
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine, name_of
from representer.nn.recurrent.options import MachineOptions, shows, with_defaults


class RKM(RecurrentKernelMachine):
    r"""The recurrent kernel machine: unit i evaluates a recurrent kernel against its filter.

    .. math::
        c_t = \tilde X \cdot X_t + \tilde H h_{t-1} + q(c_{t-1}), \qquad h_t = q(c_t)

    Without feedback, h_t is the kernel of (5) between the sequence and the filter, exactly. The
    memory term before the first step is 0. ``q="gaussian"`` is footnote 2's form on inputs and
    filters that are scaled to unit length: :math:`c_t = -\tfrac12 \lVert\tilde z - z_t\rVert^2`,
    :math:`h_t = e^{c_t}`.

    Args:
        bias: False, in the position that it has in ``torch.nn.LSTM``; there are no biases.
        q: A name of ``functional.NONLINEARITIES``, or an elementwise callable, which is
            differentiated by autograd.
        feedback: Feed h_{t−1} back to the cell through H̃ (8); otherwise (6).

    There are no gates. The other arguments, the shapes and the state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (5)-(8), (17).
    """

    @shows(MachineOptions)
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = False,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        q: str | Callable[[Tensor], Tensor] = "tanh",
        feedback: bool = True,
        **options: Unpack[MachineOptions],
    ) -> None:
        if not callable(q) and q not in NONLINEARITIES:
            raise ArgumentError("q", q, f"a callable or one of {', '.join(NONLINEARITIES)}")
        with_defaults(MachineOptions, options)
        feedback = check_flag("feedback", feedback)
        if check_flag("bias", bias):
            hint = "Positional arguments are in the order of torch.nn.LSTM."
            raise ArgumentError("bias", bias, "False: its equations have no bias", hint=hint)
        self.feedback = feedback
        seen, memory = "all" if feedback else "none", "expm1" if q == "gaussian" else "output"
        self.cell = Cell("static", "static", False, feedback=seen, memory=memory)
        layout = num_layers, False, batch_first, dropout, bidirectional
        super().__init__(input_size, hidden_size, *layout, output_nonlinearity=q, **options)
        self._shown["q"] = name_of(q)

    @property
    def q(self) -> str | Callable[[Tensor], Tensor]:
        """The function q, by name if it has one."""
        return self.cell.output if self.psi is None else self.psi

    def references(self, layer: int = 0) -> Tensor:
        """Return the reference of each unit ``(H, n, I)``: its filter, oldest slot first."""
        return self.filters(layer)["candidate"].transpose(1, 2).flip(1)
