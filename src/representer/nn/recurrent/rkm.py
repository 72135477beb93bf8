"""The recurrent kernel machine of any kernel q, L19 (6), (8), (14), (17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import NONLINEARITIES, Cell
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine, name_of


class RKM(RecurrentKernelMachine):
    r"""The recurrent kernel machine: unit i evaluates a recurrent kernel against its filter.

    .. math::
        c_t = \tilde X \cdot X_t + \tilde H h_{t-1} + q(c_{t-1}), \qquad h_t = q(c_t)

    Without feedback, h_t is the kernel of (5) between the sequence and the filter, exactly. The
    memory term before the first step is 0. ``q="gaussian"`` is footnote 2's form on inputs and
    filters that are scaled to unit length: :math:`c_t = -\tfrac12 \lVert\tilde z - z_t\rVert^2`,
    :math:`h_t = e^{c_t}`.

    Args:
        q: A name of ``functional.NONLINEARITIES``, or an elementwise callable, which then runs
            through autograd.
        feedback: Whether the cell sees h_{t−1} through H̃ (8); otherwise (6).

    There are no biases and no gates. The other arguments, shapes and the state are those of
    :class:`~representer.nn.recurrent.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (5)-(8), (17).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        q: str | Callable[[Tensor], Tensor] = "tanh",
        feedback: bool = True,
        filter_length: int | dict[int, int] = 1,
        dilation: int = 1,
        filters: Literal["dense", "wavelet"] = "dense",
        stride: int = 1,
        free_phase: bool = False,
        sampling_rate: float | None = None,
        layer_norm: bool = False,
        weight_drop: float = 0.0,
        variational_dropout: float = 0.0,
        zoneout: float | tuple[float, float] = 0.0,
        recompute_gates: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not callable(q) and q not in NONLINEARITIES:
            raise ArgumentError("q", q, f"a callable or one of {', '.join(NONLINEARITIES)}")
        self.feedback = feedback
        self.own_options = {
            "q": (name_of(q), "tanh"),
            "feedback": (feedback, True),
            "bias": (False, False),
            "output_nonlinearity": (None, None),
        }
        self.cell = Cell(
            "static",
            "static",
            False,
            feedback="all" if feedback else "none",
            memory="expm1" if q == "gaussian" else "output",
        )
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            False,
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
            output_nonlinearity=q,
            weight_drop=weight_drop,
            variational_dropout=variational_dropout,
            zoneout=zoneout,
            recompute_gates=recompute_gates,
            device=device,
            dtype=dtype,
        )

    @property
    def q(self) -> str | Callable[[Tensor], Tensor]:
        """The function q, by name where it has one."""
        psi = self._direction(0, False).psi
        return self.cell.output if psi is None else psi

    def references(self, layer: int = 0) -> Tensor:
        """Return the reference of each unit ``(H, n, I)``: its filter, oldest slot first."""
        return self.filters(layer)["candidate"].transpose(1, 2).flip(1)
