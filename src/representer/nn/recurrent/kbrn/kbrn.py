"""The recurrent network of learned activations, M18 section 2."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.functional.kernel_activation import Green
from representer.nn.activation.kernel_activation import Init, KernelActivation
from representer.nn.recurrent.kbrn.direction import KBRNDirection
from representer.nn.recurrent.kbrn.step_norm import StepNorm
from representer.nn.recurrent.options import (
    check_probability,
    check_size,
)
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.nn.recurrent.states import KBRNState, StateLayout
from representer.nn.regularization.undropped import undropped

Statistics = Literal["running", "batch"]
Start = Literal["normal", "orthogonal"]
SMALL = 0.3  # deviation of W x beside an orthogonal start, for x of variance 1


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
        layout = num_layers, bias, batch_first, dropout, bidirectional, variational_dropout
        super().__init__(input_size, hidden_size, *layout)
        if eval_statistics not in ("running", "batch"):
            raise ArgumentError("eval_statistics", eval_statistics, "'running' or 'batch'")
        if start not in ("normal", "orthogonal"):
            raise ArgumentError("start", start, "'normal' or 'orthogonal'")
        if not 0 < eps < float("inf"):
            raise ArgumentError("eps", eps, "a number above 0")
        self.normalize, self.shared, self.eval_statistics = normalize, shared, eval_statistics
        self.momentum, self.eps = check_probability("momentum", momentum), float(eps)
        self.max_steps, self.start = check_size("max_steps", max_steps), start
        self._shown |= {
            "num_centers": num_centers, "green": green, "limits": limits, "init": init,
            "linear_term": linear_term, "bandwidth": bandwidth,
        }  # fmt: skip
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        for k, suffix in enumerate(self.suffixes):
            f = KernelActivation(
                1 if shared else hidden_size, num_centers, green, limits, init, linear_term,
                bandwidth=bandwidth, **made,
            )  # fmt: skip
            norm = None
            if normalize:
                norm = StepNorm(hidden_size, self.max_steps, self.momentum, self.eps, **made)
            self._add("weight_ih", k, hidden_size, self.features[k], **made)
            self._add("weight_hh", k, hidden_size, hidden_size, **made)
            self._add("bias", k, hidden_size * bias, **made)
            self.add_module("activation" + suffix, f)
            self.add_module("step_norm" + suffix, norm)
            self._draw_weights(k)
        zeros = (0,) * len(self.features)
        fields = {"h": (), "steps": None}
        self.layout = StateLayout(KBRNState, fields, hidden_size, zeros, self.features)

    def activation(self, layer: int = 0, reverse: bool = False) -> KernelActivation:
        """Return the learned functions of one direction of one layer.

        Raises:
            ArgumentError: If there is no such layer or direction.
        """
        return self._own("activation", self.index(layer, reverse))

    def penalty(self) -> Tensor:
        r"""Return the l1 norm of all coefficients (M18 section 3)."""
        parts = [self._own("activation", k).penalty() for k in range(len(self.suffixes))]
        return torch.stack(parts).sum()

    def _direction(self, k: int) -> KBRNDirection:
        names = ("weight_ih", "weight_hh", "bias", "activation", "step_norm")
        weight, recurrent, bias, f, norm = (self._own(name, k) for name in names)
        of_batch = self.training or self.eval_statistics == "batch"
        return KBRNDirection(weight, recurrent, bias, f, norm, self.training, of_batch)

    def _reset_direction(self, k: int) -> None:
        """Draw weights and functions anew, and forget the statistics."""
        self._draw_weights(k)
        self._own("activation", k).reset_parameters()
        if self.normalize:
            self._own("step_norm", k).reset_parameters()

    def _draw_weights(self, k: int) -> None:
        """Draw from a normal distribution cut at two deviations, which are 1 if they may be.

        Normalization makes the scale of the weights nearly indifferent; without it outputs would
        grow from step to step. Of an orthogonal start the sums are nearly a rotation of the state,
        however many features the input has.
        """
        weight, size = self._own("weight_ih", k), self.features[k]
        recurrent = undropped(self, "weight_hh" + self.suffixes[k])
        deviation = 1.0 if self.normalize else (size + self.hidden_size) ** -0.5
        _cut_normal(weight, deviation)
        _cut_normal(recurrent, deviation)
        if self.start == "orthogonal":
            drawn = torch.empty_like(
                recurrent, dtype=torch.promote_types(recurrent.dtype, torch.float32)
            )
            with torch.no_grad():
                recurrent.copy_(nn.init.orthogonal_(drawn))
            _cut_normal(weight, SMALL * size**-0.5)
        if self._own("bias", k) is not None:
            nn.init.zeros_(self._own("bias", k))


def _cut_normal(weight: Tensor, deviation: float) -> None:
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
