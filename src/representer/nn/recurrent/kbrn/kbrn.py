"""The recurrent network with learned activations, M18 section 2."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.functional.kernel_activation import Green
from representer.nn.activation.kernel_activation import Init, KernelActivation
from representer.nn.checks import check_flag, check_probability
from representer.nn.recurrent.kbrn.direction import KBRNDirection
from representer.nn.recurrent.kbrn.step_norm import StepNorm
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.nn.recurrent.states import KBRNState, StateLayout
from representer.nn.regularization.undropped import undropped
from representer.ops.checks import has_values
from representer.requirements import check_integer

Statistics = Literal["running", "batch"]
Start = Literal["normal", "orthogonal"]
SMALL = 0.3  # standard deviation of W x with start="orthogonal", for x of variance 1


class KBRN(SequenceLayer):
    r"""A recurrent network with learned activations.

    .. math::
        h_t = f(\operatorname{norm}_t(W x_t + U h_{t-1} + b)), \qquad
        f_i(a) = \sum_{k=1}^{d} \chi_{ik}\, g(a - c_{ik}) \; (+\, \theta_i a + \nu_i)

    With a slope that depends on the input, a unit can both keep and forget its state. Long
    sequences become learnable by normalization over the batch, with statistics of each time step:

    .. math::
        \operatorname{norm}_t(a) = \gamma \frac{a - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta

    In training, :math:`\mu_t` and :math:`\sigma_t^2` are those of the batch at step t; in
    evaluation, running statistics of step t are used, or those of the last step in training for
    later steps. Gain and offset are shared by all steps. In a packed batch, the statistics of a
    step are over the sequences of that length, and running ones if there is only one.

    Args:
        input_size: I, features of one step.
        hidden_size: H, units.
        num_layers: L, stacked layers.
        bias: Add a bias b.
        batch_first: Input and output are ``(B, T, …)`` instead of ``(T, B, …)``.
        dropout: Dropout between layers.
        bidirectional: Add a reverse direction, from the true end of each sequence.
        num_centers: d of each function.
        green: g, as in :class:`~representer.nn.KernelActivation`.
        limits: The range on which an initial function is fitted.
        init: The initial functions. ``"tanh"`` trains reliably; ``"zeros"`` is the authors' code,
            where training makes no progress for some hundred updates.
        linear_term: Add a line to each function.
        bandwidth: s of a Gaussian.
        shared: Share one function between all units of a layer.
        normalize: Normalize over the batch. Without it, a state whose functions have steep tails,
            such as those of ``init="random"``, may grow with every step. Beyond 65,504, the range
            of float16, it is infinite there and then NaN.
        eval_statistics: ``"running"`` statistics in evaluation, or those of the ``"batch"``, as in
            the authors' code.
        momentum: Weight of a new batch in the running statistics.
        eps: Added to the variances.
        max_steps: Number of steps with separate running statistics; later steps share the last.
        variational_dropout: Dropout on each layer's input with one mask per sequence.
        start: Initialization of W and U: ``"normal"`` as in the authors' code, or ``"orthogonal"``
            for long sequences, with U orthogonal and W small, so that the state persists.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Shape:
        - input ``(T, B, I)``, ``(B, T, I)``, ``(T, I)`` or a ``PackedSequence``
        - output: the same with ``D·H``; state: see ``KBRNState``

    Raises:
        ArgumentError: If an option has an invalid value.

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
        shared, normalize = check_flag("shared", shared), check_flag("normalize", normalize)
        if eval_statistics not in ("running", "batch"):
            raise ArgumentError("eval_statistics", eval_statistics, "'running' or 'batch'")
        if start not in ("normal", "orthogonal"):
            raise ArgumentError("start", start, "'normal' or 'orthogonal'")
        if not 0 < eps < float("inf"):
            raise ArgumentError("eps", eps, "a number above 0")
        self.normalize, self.shared, self.eval_statistics = normalize, shared, eval_statistics
        self.momentum, self.eps = check_probability("momentum", momentum), float(eps)
        self.max_steps, self.start = check_integer("max_steps", max_steps), start
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
        uses_batch = self.training or self.eval_statistics == "batch"
        return KBRNDirection(weight, recurrent, bias, f, norm, self.training, uses_batch)

    def _reset_direction(self, k: int) -> None:
        """Reinitialize weights and functions, and reset the statistics."""
        self._draw_weights(k)
        self._own("activation", k).reset_parameters()
        if self.normalize:
            self._own("step_norm", k).reset_parameters()

    def _draw_weights(self, k: int) -> None:
        """Draw from a normal distribution truncated at two standard deviations.

        With normalization, the scale of the weights hardly matters and the deviation is 1; without
        it, outputs would grow from step to step. With ``start="orthogonal"``, a step is nearly a
        rotation of the state for any number of input features.
        """
        weight, size = self._own("weight_ih", k), self.features[k]
        recurrent = undropped(self, "weight_hh" + self.suffixes[k])
        deviation = 1.0 if self.normalize else (size + self.hidden_size) ** -0.5
        _cut_normal(weight, deviation)
        _cut_normal(recurrent, deviation)
        if self.start == "orthogonal":
            draw = torch.empty_like(
                recurrent, dtype=torch.promote_types(recurrent.dtype, torch.float32)
            )
            with torch.no_grad():
                recurrent.copy_(nn.init.orthogonal_(draw))
            _cut_normal(weight, SMALL * size**-0.5)
        if self._own("bias", k) is not None:
            nn.init.zeros_(self._own("bias", k))


def _cut_normal(weight: Tensor, deviation: float) -> None:
    if has_values(weight):
        nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
