"""The recurrent network of learned activations, M18 section 2."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.functional.kernel_activation import Green
from representer.nn.activation.kernel_activation import Init, KernelActivation
from representer.nn.recurrent.kbrn_direction import KBRNDirection, Start, Statistics
from representer.nn.recurrent.options import (
    check_probability,
    check_size,
    warn_of_idle_dropout,
)
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.nn.recurrent.states import KBRNState, StateLayout
from representer.nn.recurrent.step_norm import StepNorm


class KBRN(SequenceLayer):
    r"""A recurrent network whose units learn their activations.

    .. math::
        h_t = f(\operatorname{norm}_t(W x_t + U h_{t-1} + b)), \qquad
        f_i(a) = \sum_{k=1}^{d} \chi_{ik}\, g(a - c_{ik}) \; (+\, \theta_i a + \nu_i)

    A function that is steep in places and flat in others lets a state grow where it must be kept
    and shrink where it must be forgotten. What makes long sequences learnable is the normalization
    over the batch, with statistics of every time step:

    .. math::
        \operatorname{norm}_t(a) = \gamma \frac{a - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta

    In training :math:`\mu_t` and :math:`\sigma_t^2` are those of the batch at step t; running ones
    are kept for every step and used in evaluation, those of the last step that was seen in training
    also beyond it. Gain and offset are the same at all steps. A packed batch takes its statistics
    over the sequences that have the step, and the running ones where only one has.

    Args:
        input_size: I, features of one step.
        hidden_size: H, units.
        num_layers: L, layers on top of each other.
        bias: Whether there is a bias b.
        batch_first: Whether input and output are ``(B, T, …)`` instead of ``(T, B, …)``.
        dropout: Dropout between layers.
        bidirectional: Whether a second direction reads each sequence from its true end.
        num_centers: d, of each function.
        green: g, as :class:`~representer.nn.KernelActivation` takes it.
        limits: The range on which an initial function is fitted.
        init: What the functions are at the start. ``"tanh"`` learns reliably; ``"zeros"`` is the
            authors' code, whose runs wait some hundred updates for the functions to bend.
        linear_term: Whether each function has a line.
        bandwidth: s of a Gaussian.
        shared: Whether all units of a layer share one function.
        normalize: Whether there is a normalization.
        eval_statistics: ``"running"`` statistics in evaluation, or those of the ``"batch"``, as in
            the authors' code.
        momentum: Weight of a new batch in the running statistics.
        eps: Added to the variances.
        max_steps: Steps that have running statistics of their own; later ones share the last.
        variational_dropout: Dropout on each layer's input with one mask a sequence.
        start: How W and U are drawn: ``"normal"`` as in the authors' code, ``"orthogonal"`` for
            long sequences, with U orthogonal and W small, so that a state lasts.
        device: Of the parameters.
        dtype: Of the parameters.

    Shape:
        - input ``(T, B, I)``, ``(B, T, I)``, ``(T, I)`` or a ``PackedSequence``
        - output the same with ``D·H``; state: see ``KBRNState``

    Raises:
        ArgumentError: If an option has a value that is not allowed.

    References:
        Marra, Zanca, Betti & Gori, Learning Neuron Non-Linearities with Kernel-Based Deep Neural
        Networks, 2018, section 2 (cyclic graphs), (6), section 3.
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
        num_centers: int = 20,
        green: str | Green = "abs",
        limits: tuple[float, float] = (-4.0, 4.0),
        init: Init = "tanh",
        linear_term: bool = False,
        bandwidth: float = 1.0,
        shared: bool = False,
        normalize: bool = True,
        eval_statistics: Statistics = "running",
        momentum: float = 0.1,
        eps: float = 1e-3,
        max_steps: int = 512,
        variational_dropout: float = 0.0,
        start: Start = "normal",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            variational_dropout=variational_dropout,
        )
        if eval_statistics not in ("running", "batch"):
            raise ArgumentError("eval_statistics", eval_statistics, "'running' or 'batch'")
        if start not in ("normal", "orthogonal"):
            raise ArgumentError("start", start, "'normal' or 'orthogonal'")
        if not 0 < eps < float("inf"):
            raise ArgumentError("eps", eps, "a number above 0")
        self.normalize, self.shared, self.eval_statistics = normalize, shared, eval_statistics
        self.momentum, self.eps = check_probability("momentum", momentum), float(eps)
        self.max_steps = check_size("max_steps", max_steps)
        width = hidden_size * self.num_directions
        features = [input_size if not k else width for k in range(num_layers)]
        features = [f for f in features for _ in range(self.num_directions)]
        made = {"device": device, "dtype": dtype}
        self.directions = nn.ModuleList(
            KBRNDirection(
                size,
                hidden_size,
                bias=bias,
                activation=KernelActivation(
                    1 if shared else hidden_size, num_centers, green, limits, init, linear_term,
                    bandwidth=bandwidth, **made,
                ),
                norm=StepNorm(hidden_size, max_steps, self.momentum, self.eps, **made)
                if normalize
                else None,
                eval_statistics=eval_statistics,
                start=start,
                **made,
            )
            for size in features
        )  # fmt: skip
        zeros = (0,) * len(features)
        self.layout = StateLayout(
            KBRNState, {"h": (), "steps": None}, hidden_size, zeros, tuple(features)
        )
        warn_of_idle_dropout(dropout, num_layers, stacklevel=3)

    def activation(self, layer: int = 0, reverse: bool = False) -> KernelActivation:
        """Return the learned functions of one direction of one layer.

        Raises:
            ArgumentError: If there is no such layer or direction.
        """
        return cast(KBRNDirection, self.direction(layer, reverse)).activation

    def penalty(self) -> Tensor:
        r"""Return the l1 norm of all coefficients (M18 section 3)."""
        parts = [cast(KBRNDirection, d).activation.penalty() for d in self.directions]
        return torch.stack(parts).sum()

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults."""
        f = cast(KBRNDirection, self.directions[0]).activation
        shown = {
            "num_layers": (self.num_layers, 1),
            "bias": (self.bias, True),
            "batch_first": (self.batch_first, False),
            "dropout": (self.dropout, 0.0),
            "bidirectional": (self.bidirectional, False),
            "num_centers": (f.num_centers, 20),
            "green": (f.green, "abs"),
            "limits": (f.limits, (-4.0, 4.0)),
            "init": (f._init[0], "tanh"),
            "linear_term": (f.line is not None, False),
            "bandwidth": (f.bandwidth, 1.0),
            "shared": (self.shared, False),
            "normalize": (self.normalize, True),
            "eval_statistics": (self.eval_statistics, "running"),
            "momentum": (self.momentum, 0.1),
            "eps": (self.eps, 1e-3),
            "max_steps": (self.max_steps, 512),
            "variational_dropout": (self.variational_dropout, 0.0),
            "start": (cast(KBRNDirection, self.directions[0]).start, "normal"),
        }
        options = [
            f"{name}={value!r}" for name, (value, default) in shown.items() if value != default
        ]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *options])
