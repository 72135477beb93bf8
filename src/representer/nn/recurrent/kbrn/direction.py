"""One direction of one layer with learned activations."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError
from representer.nn.activation.kernel_activation import KernelActivation
from representer.nn.recurrent.kbrn.step_norm import StepNorm
from representer.ops.checks import can_be_read, has_values, without_autocast
from representer.ops.kbrn_scan import run

Scanned = tuple[Tensor, Tensor, Tensor]


class KBRNDirection(NamedTuple):
    """The current weights and options of one direction."""

    input_weight: Tensor  # W (H, I)
    weight: Tensor  # U (H, H), output by input
    bias: Tensor | None  # b (H,)
    activation: KernelActivation  # f, with H features or one
    norm: StepNorm | None
    training: bool
    uses_batch: bool  # use the statistics of the batch

    def __call__(
        self,
        x: Tensor,
        state: tuple[Tensor, ...],
        window: Tensor,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Run over a sequence ``(T, B, I)``; see `SequenceLayer`.

        The state is h ``(B, H)`` and the number of steps taken ``(B,)``.

        Raises:
            ArgumentError: If a batch of size 1 is normalized with its own statistics, or a center
                is not finite.
        """
        h0, steps = state
        x = _reversed(x, lengths) if reverse else x
        # autocast may reduce the precision of products, but not of the recurrence
        z = F.linear(x, self.input_weight, self.bias).to(self.input_weight.dtype)
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
    if not can_be_read(centers, may_wait=True):
        return
    is_finite = centers.isfinite().all()
    if has_values(is_finite) and not bool(is_finite):  # fake beside a fake input
        hint = "The learning rate may be too large."
        raise ArgumentError("centers", "not finite", "finite numbers", hint=hint)
