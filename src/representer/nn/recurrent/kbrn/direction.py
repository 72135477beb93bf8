"""One direction of one layer of learned activations: its weights, and its run."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError
from representer.nn.activation.kernel_activation import KernelActivation
from representer.nn.recurrent.kbrn.step_norm import StepNorm
from representer.ops.kbrn_scan import run

Scanned = tuple[Tensor, Tensor, Tensor]


class KBRNDirection(NamedTuple):
    """The weights of one direction, as they are now.

    Attributes:
        input_weight: W ``(H, I)``.
        weight: U ``(H, H)``, output by input.
        bias: b ``(H,)``, or None.
        activation: f, of H features or of one.
        norm: Normalization, or None.
        training: Whether the layer is in training.
        of_batch: Whether statistics are those of the batch.
    """

    input_weight: Tensor
    weight: Tensor
    bias: Tensor | None
    activation: KernelActivation
    norm: StepNorm | None
    training: bool
    of_batch: bool

    def __call__(
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

    def _scan(self, z: Tensor, h0: Tensor, steps: Tensor, lengths: Tensor | None) -> Scanned:
        f, norm = self.activation, self.norm
        time, batch, units = z.shape
        scale = statistics = None
        if norm is not None:
            if self.of_batch and batch == 1:
                wanted = "2 or more sequences to be normalized over"
                raise ArgumentError("batch", 1, wanted, hint="Use eval().")
            scale = torch.stack((norm.weight, norm.bias))
            is_idle = self.of_batch and lengths is None
            statistics = norm.placeholder(time, batch) if is_idle else norm.rows(steps, time)
        _check_centers(f.centers)
        tables = (
            f.centers.expand(units, -1),
            f.coefficients.expand(units, -1),
        )
        line = None if f.line is None else f.line.expand(units, -1)
        if isinstance(f.green, str):
            operands = (z, self.weight, h0, *tables, line, scale, statistics, lengths)
            eps = 1.0 if norm is None else norm.eps
            return run(operands, (self.of_batch, f.green, f.bandwidth, eps))
        return functional.kbrn_scan(
            z, h0, *tables, weight=self.weight, line=line, norm=scale, statistics=statistics,
            batch_statistics=self.of_batch, lengths=lengths, green=f.green,
            epsilon=1.0 if norm is None else norm.eps,
        )  # fmt: skip


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
