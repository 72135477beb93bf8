"""One direction of one layer of learned activations: its parameters and its run."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import functional
from representer.errors import ArgumentError
from representer.nn.activation.kernel_activation import KernelActivation
from representer.nn.recurrent.step_norm import StepNorm
from representer.nn.regularization.undropped import undropped
from representer.ops.kbrn_scan import run

Statistics = Literal["running", "batch"]
Start = Literal["normal", "orthogonal"]
SMALL = 0.3  # deviation of W x beside an orthogonal start, for x of variance 1


class KBRNDirection(nn.Module):
    """Weights, learned activations and normalization of one direction.

    Args:
        input_size: I, features of one step.
        hidden_size: H.
        bias: Whether there is a bias.
        activation: f, of H features or of one.
        norm: Normalization, or None.
        eval_statistics: Which statistics there are in evaluation.
        start: How weights are drawn.
        device: Of the parameters.
        dtype: Of the parameters.

    Attributes:
        input_weight: W ``(H, I)``.
        recurrent: U ``(H, H)``, output by input.
        bias: b ``(H,)``, or None.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool,
        activation: KernelActivation,
        norm: StepNorm | None,
        eval_statistics: Statistics,
        start: Start,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.hidden_size, self.eval_statistics, self.start = hidden_size, eval_statistics, start
        weight = torch.empty(hidden_size, input_size, device=device, dtype=dtype)
        recurrent = torch.empty(hidden_size, hidden_size, device=device, dtype=dtype)
        self.input_weight, self.recurrent = nn.Parameter(weight), nn.Parameter(recurrent)
        empty = torch.empty(hidden_size, device=device, dtype=dtype)
        self.bias = nn.Parameter(empty) if bias else None
        self.activation, self.norm = activation, norm
        self._draw_weights()

    def reset_parameters(self) -> None:
        """Draw weights and functions anew, and forget the statistics."""
        self._draw_weights()
        self.activation.reset_parameters()
        if self.norm is not None:
            self.norm.reset_parameters()

    def _draw_weights(self) -> None:
        """Draw from a normal distribution cut at two deviations, which are 1 if they may be.

        Normalization makes the scale of the weights nearly indifferent; without it outputs would
        grow from step to step. Of an orthogonal start the sums are nearly a rotation of the state,
        however many features the input has.
        """
        recurrent = undropped(self, "recurrent")
        fan_in = self.input_weight.shape[1] + self.hidden_size
        deviation = 1.0 if self.norm is not None else fan_in**-0.5
        for weight in (self.input_weight, recurrent):
            _cut_normal(weight, deviation)
        if self.start == "orthogonal":
            drawn = torch.empty_like(
                recurrent, dtype=torch.promote_types(recurrent.dtype, torch.float32)
            )
            with torch.no_grad():
                recurrent.copy_(nn.init.orthogonal_(drawn))
            _cut_normal(self.input_weight, SMALL * self.input_weight.shape[1] ** -0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Tensor,
        state: tuple[Tensor, ...],
        window: Tensor,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Run over a sequence.

        Args:
            x: ``(T, B, I)``.
            state: h ``(B, H)`` and the steps taken ``(B,)``.
            window: Without rows ``(B, 0, I)``; returned as it is.
            lengths: True lengths ``(B,)``, or None.
            reverse: Whether to run from the true end to the start.

        Returns:
            Output ``(T, B, H)``, the new state, the window.

        Raises:
            ArgumentError: If a batch of one is to be normalized with its own statistics, or the
                centers are no finite numbers.
        """
        h0, steps = state
        x = _reversed(x, lengths) if reverse else x
        # autocast may halve products, not the recurrence
        z = F.linear(x, self.input_weight, self.bias).to(self.input_weight.dtype)
        output, h, used = self._scan(z, h0, steps, lengths)
        if self.norm is not None and self.training:
            self.norm.update(used, steps, lengths)
        output = _reversed(output, lengths) if reverse else output
        return output, (h, steps + (len(x) if lengths is None else lengths)), window

    def _scan(
        self, z: Tensor, h0: Tensor, steps: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        f, norm = self.activation, self.norm
        time, batch = z.shape[:2]
        of_batch = self.training or self.eval_statistics == "batch"
        scale = statistics = None
        if norm is not None:
            if of_batch and batch == 1:
                wanted = "2 or more sequences to be normalized over"
                raise ArgumentError("batch", 1, wanted, hint="Use eval().")
            scale, is_idle = norm.scale, of_batch and lengths is None
            statistics = norm.placeholder(time, batch) if is_idle else norm.rows(steps, time)
        _check_centers(f.centers)
        tables = (
            f.centers.expand(self.hidden_size, -1),
            f.coefficients.expand(self.hidden_size, -1),
        )
        line = None if f.line is None else f.line.expand(self.hidden_size, -1)
        if isinstance(f.green, str):
            operands = (z, self.recurrent, h0, *tables, line, scale, statistics, lengths)
            eps = 1.0 if norm is None else norm.eps
            return run(operands, (of_batch, f.green, f.bandwidth, eps))
        return functional.kbrn_scan(
            z, h0, *tables, weight=self.recurrent, line=line, norm=scale, statistics=statistics,
            batch_statistics=of_batch, lengths=lengths, green=f.green,
            epsilon=1.0 if norm is None else norm.eps,
        )  # fmt: skip


def _cut_normal(weight: Tensor, deviation: float) -> None:
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return each sequence from its true end to its start, and then its padding."""
    if lengths is None:
        return x.flip(0)
    t = torch.arange(len(x), device=x.device)[:, None]
    places = torch.where(t < lengths, lengths - 1 - t, t)
    return x.gather(0, places[:, :, None].expand_as(x))


def _check_centers(centers: Tensor) -> None:
    if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(centers):  # pyright: ignore
        return
    if not centers.is_meta and not bool(centers.isfinite().all()):
        hint = "A step of the optimizer may have been too long."
        raise ArgumentError("centers", "not finite", "finite numbers", hint=hint)
