"""The recurrent network with learned activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import functional
from representer.checks import check_integer
from representer.errors import ArgumentError
from representer.functional.activations import Green
from representer.nn.activation.kernel_activation import Init, KernelActivation
from representer.nn.layer import HasKernel, check_flag, check_probability
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.nn.recurrent.states import KBRNState, StateLayout
from representer.nn.regularization import undropped
from representer.ops.common import can_be_read, has_values, without_autocast
from representer.ops.kbrn_scan import run

if TYPE_CHECKING:
    from representer.kernels import Kernel  # noqa: F401 (named in a string)

# Normalization over the batch with statistics of every time step, M18 section 3.


class StepNorm(nn.Module):
    r"""Normalization with running statistics of every time step.

    .. math::
        \hat a_t = \gamma \frac{a_t - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta

    A mean and variance shared by all steps would not suffice, since the state of a recurrence grows
    over its first steps. A running statistic is the mean over the batches with that step until
    their number is 1 / momentum, and an exponential moving average afterwards.

    Args:
        num_features: H.
        max_steps: S, steps with separate statistics; later ones share the last row.
        momentum: Weight of a new batch.
        eps: Added to variances.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Shape:
        - ``weight`` is the gain and ``bias`` the offset, each ``(H,)``; ``running`` mean and
          variance ``(2, S, H)``; ``batches`` the number of batches of each row ``(S,)``

    References:
        Marra et al., 2018, section 3; the "deviation" printed there is a variance.
    """

    running: Tensor
    batches: Tensor

    def __init__(
        self, num_features: int, max_steps: int, momentum: float, eps: float, *,
        device: torch.device | str | None, dtype: torch.dtype | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.empty(num_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(num_features, device=device, dtype=dtype))
        rows = torch.empty(2, max_steps, num_features, device=device, dtype=dtype)
        self.register_buffer("running", rows)
        counts = torch.empty(max_steps, device=device, dtype=torch.int64)
        self.register_buffer("batches", counts)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set gains to 1 and offsets to 0, and reset the statistics."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        with torch.no_grad():
            self.running[0], self.running[1] = 0.0, 1.0
            self.batches.zero_()

    def rows(self, steps: Tensor, time: int) -> Tensor:
        """Return the running statistics of the next T steps of each sequence ``(2, T, B, H)``.

        ``steps`` are those taken ``(B,)``; steps beyond the last one in training use its row.
        """
        seen = ((self.batches > 0).sum() - 1).clamp(min=0)
        positions = steps + torch.arange(time, device=steps.device)[:, None]
        return self.running[:, torch.minimum(positions, seen)]

    def placeholder(self, time: int, batch: int) -> Tensor:
        """Return statistics ``(2, T, B, H)`` for a call that does not use them."""
        zeros = self.running.new_zeros(2, 1, 1, self.running.shape[2])
        return zeros.expand(-1, time, batch, -1)

    @torch.no_grad()
    def update(self, used: Tensor, steps: Tensor, lengths: Tensor | None) -> None:
        """Update the running statistics with mean and variance of a batch ``(2, T, H)``.

        ``steps`` are those taken before ``(B,)``.
        """
        if not steps.shape[0]:  # an empty batch
            return
        time, rows = used.shape[1], len(self.batches)
        if lengths is None and not steps.stride(0):  # all at the same step
            steps = steps[:1]
            if can_be_read(steps) and int(steps) + time <= rows:
                self._update_rows(slice(int(steps), int(steps) + time), used)
                return
        t = torch.arange(time, device=used.device)[:, None]
        real = torch.ones_like(steps + t) if lengths is None else (t < lengths).long()
        if lengths is not None:  # steps of a single sequence have no statistics
            real = torch.where(real.sum(1, keepdim=True) >= 2, real, 0)
        positions = (steps + t).clamp(max=rows - 1) * time + t
        weights = used.new_zeros(rows * time)
        weights = weights.index_add(0, positions.flatten(), real.to(used.dtype).flatten())
        weights = weights.reshape(rows, time)
        total = weights.sum(1, keepdim=True)
        updated = weights @ used / total.clamp(min=1)
        self.batches += (total[:, 0] > 0).long()
        weight_new = (1 / self.batches.clamp(min=1)).clamp(min=self.momentum)[:, None]
        weight_new = torch.where(total > 0, weight_new, 0.0).to(used.dtype)
        self.running.lerp_(updated, weight_new.expand_as(updated))

    def _update_rows(self, rows: slice, used: Tensor) -> None:
        """Update separate rows, at a tenth of the cost of the general case."""
        batches = self.batches[rows].add_(1)
        weight_new = (1 / batches).clamp(min=self.momentum).to(used.dtype)[:, None]
        self.running[:, rows].lerp_(used, weight_new.expand_as(used))

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{len(self.weight)}, max_steps={len(self.batches)}, momentum={self.momentum}"


# One direction of one layer with learned activations.

Scanned = tuple[Tensor, Tensor, Tensor]


class KBRNDirection(NamedTuple):
    """The current weights and options of one direction."""

    input_weight: Tensor | None  # W (H, I)
    weight: Tensor  # U (H, H), output by input
    bias: Tensor | None  # b (H,)
    activation: KernelActivation  # f, with H features or one
    norm: StepNorm | None
    training: bool
    uses_batch: bool  # use the statistics of the batch
    input_layer: nn.Module | None  # in place of W x

    def __call__(
        self, x: Tensor, state: tuple[Tensor, ...], window: Tensor, lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:  # fmt: skip
        """Run over a sequence ``(T, B, I)``; see `SequenceLayer`.

        The state is h ``(B, H)`` and the number of steps taken ``(B,)``.

        Raises:
            ArgumentError: If a batch of size 1 is normalized with its own statistics, or a center
                is not finite.
        """
        h0, steps = state
        x = _reversed(x, lengths) if reverse else x
        # autocast may reduce the precision of products, but not of the recurrence
        dtype = self.weight.dtype
        if self.input_layer is not None:
            z = self.input_layer(x).to(dtype)
            z = z if self.bias is None else z + self.bias
        else:
            assert self.input_weight is not None
            z = F.linear(x, self.input_weight, self.bias).to(dtype)
        output, h, used = self._scan(z, h0, steps, lengths)
        if self.norm is not None and self.training:
            self.norm.update(used, steps, lengths)
        output = _reversed(output, lengths) if reverse else output
        return output, (h, steps + (x.shape[0] if lengths is None else lengths)), window

    def _scan(self, z: Tensor, h0: Tensor, steps: Tensor, lengths: Tensor | None) -> Scanned:
        f, norm = self.activation, self.norm
        time, batch, units = z.shape
        scale = statistics = None
        if norm is not None:
            if self.uses_batch and batch == 1:
                expected = "2 or more sequences for normalization"
                raise ArgumentError("batch", 1, expected, hint="Use eval().")
            scale = torch.stack((norm.weight, norm.bias))
            is_idle = self.uses_batch and lengths is None
            statistics = norm.placeholder(time, batch) if is_idle else norm.rows(steps, time)
        _check_centers(f.centers)
        tables = f.centers.expand(units, -1), f.coefficients.expand(units, -1)
        line = None if f.line is None else f.line.expand(units, -1)
        if isinstance(f.green, str):
            operands = (z, self.weight, h0, *tables, line, scale, statistics, lengths)
            eps = 1.0 if norm is None else norm.eps
            return run(operands, (self.uses_batch, f.green, f.bandwidth, eps))
        with without_autocast(z):
            return functional.kbrn_scan(
                z, h0, *tables, weight=self.weight, line=line, norm=scale, statistics=statistics,
                batch_statistics=self.uses_batch, lengths=lengths, green=f.green,
                epsilon=1.0 if norm is None else norm.eps,
            )  # fmt: skip


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each sequence up to its true length; the padding stays at the end."""
    if lengths is None:
        return x.flip(0)
    t = torch.arange(x.shape[0], device=x.device)[:, None]
    positions = torch.where(t < lengths, lengths - 1 - t, t)
    return x.gather(0, positions[:, :, None].expand_as(x))


def _check_centers(centers: Tensor) -> None:
    if not can_be_read(centers):  # on a GPU, the loss is not finite either
        return
    is_finite = centers.isfinite().all()
    if has_values(is_finite) and not bool(is_finite):  # fake beside a fake input
        hint = "The learning rate may be too large."
        raise ArgumentError("centers", "not finite", "finite numbers", hint=hint)


# The recurrent network with learned activations, M18 section 2.

Statistics = Literal["running", "batch"]
Start = Literal["normal", "orthogonal"]
SMALL = 0.3  # standard deviation of W x with start="orthogonal", for x of variance 1


class KBRN(HasKernel["Kernel"], SequenceLayer):
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
        linear_term: Add a line to each function; by default where ``init`` needs it.
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
        input_layer: Makes a layer in place of W x from the number of features and units, such as
            ``nn.KernelLinear``, with a learned function on every edge; see `KernelLinear`.
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
        linear_term: bool | None = None,
        bandwidth: float = 1.0,
        shared: bool = False,
        normalize: bool = True,
        eval_statistics: Statistics = "running",
        momentum: float = 0.1,
        eps: float = 1e-3,
        max_steps: int = 512,
        variational_dropout: float = 0.0,
        start: Start = "normal",
        input_layer: Callable[[int, int], nn.Module] | None = None,
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
            "linear_term": linear_term, "bandwidth": bandwidth, "input_layer": input_layer,
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
            edges = None
            if input_layer is not None:
                edges = input_layer(self.features[k], hidden_size).to(device, dtype)
            self._add("weight_ih", k, hidden_size * (edges is None), self.features[k], **made)
            self.add_module("input_layer" + suffix, edges)
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

    def not_linear(self) -> str:
        return "Its learned activations are applied to the sum of input and state at every step."

    def _direction(self, k: int) -> KBRNDirection:
        names = ("weight_ih", "weight_hh", "bias", "activation", "step_norm")
        weight, recurrent, bias, f, norm = (self._own(name, k) for name in names)
        uses_batch = self.training or self.eval_statistics == "batch"
        edges = self._own("input_layer", k)
        return KBRNDirection(weight, recurrent, bias, f, norm, self.training, uses_batch, edges)

    def _reset_direction(self, k: int) -> None:
        """Reinitialize weights and functions, and reset the statistics."""
        self._draw_weights(k)
        edges = self._own("input_layer", k)
        if edges is not None and hasattr(edges, "reset_parameters"):
            edges.reset_parameters()
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
        if weight is not None:
            _cut_normal(weight, deviation)
        _cut_normal(recurrent, deviation)
        if self.start == "orthogonal":
            draw = torch.empty_like(
                recurrent, dtype=torch.promote_types(recurrent.dtype, torch.float32)
            )
            with torch.no_grad():
                recurrent.copy_(nn.init.orthogonal_(draw))
            if weight is not None:
                _cut_normal(weight, SMALL * size**-0.5)
        if self._own("bias", k) is not None:
            nn.init.zeros_(self._own("bias", k))


def _cut_normal(weight: Tensor, deviation: float) -> None:
    if has_values(weight):
        nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
