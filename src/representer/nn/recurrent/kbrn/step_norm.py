"""Normalization over the batch with statistics of every time step, M18 section 3."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class StepNorm(nn.Module):
    r"""Gain, offset, and the running statistics of every time step.

    .. math::
        \hat a_t = \gamma \frac{a_t - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta

    One mean and variance for all steps do not do: what a recurrence carries grows over its first
    steps. A running statistic is the mean of the batches that had the step until their number is
    1 / momentum, and a decaying one after that.

    Args:
        num_features: H.
        max_steps: S, steps with statistics of their own; later ones share the last row.
        momentum: Weight of a new batch.
        eps: Added to variances.
        device: Of the parameters.
        dtype: Of the parameters.

    Shape:
        - ``weight`` is the gain and ``bias`` the offset, each ``(H,)``; ``running`` mean and
          variance ``(2, S, H)``; ``batches`` how many each row has seen ``(S,)``

    References:
        Marra et al., 2018, section 3; what is printed as the deviation there is a variance.
    """

    running: Tensor
    batches: Tensor

    def __init__(
        self,
        num_features: int,
        max_steps: int,
        momentum: float,
        eps: float,
        *,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
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
        """Set gains to 1 and offsets to 0, and forget the statistics."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        with torch.no_grad():
            self.running[0], self.running[1] = 0.0, 1.0
            self.batches.zero_()

    def rows(self, steps: Tensor, time: int) -> Tensor:
        """Return the running statistics of the next steps of each sequence ``(2, T, B, H)``.

        Beyond the last step that was seen in training its row is used again.

        Args:
            steps: Steps taken ``(B,)``.
            time: T.
        """
        seen = ((self.batches > 0).sum() - 1).clamp(min=0)
        places = steps + torch.arange(time, device=steps.device)[:, None]
        return self.running[:, torch.minimum(places, seen)]

    def placeholder(self, time: int, batch: int) -> Tensor:
        """Return statistics ``(2, T, B, H)`` for a call that uses none of them."""
        zeros = self.running.new_zeros(2, 1, 1, self.running.shape[2])
        return zeros.expand(-1, time, batch, -1)

    @torch.no_grad()
    def update(self, used: Tensor, steps: Tensor, lengths: Tensor | None) -> None:
        """Take in the statistics of a batch.

        Args:
            used: Mean and variance ``(2, T, H)``.
            steps: Steps taken before ``(B,)``.
            lengths: True lengths ``(B,)``, or None.
        """
        time, rows = used.shape[1], len(self.batches)
        if lengths is None and not steps.stride(0):  # all at the same step
            steps = steps[:1]
            if _can_be_read(steps) and int(steps) + time <= rows:
                self._update_rows(slice(int(steps), int(steps) + time), used)
                return
        t = torch.arange(time, device=used.device)[:, None]
        real = torch.ones_like(steps + t) if lengths is None else (t < lengths).long()
        if lengths is not None:  # steps of one sequence took no statistics
            real = torch.where(real.sum(1, keepdim=True) >= 2, real, 0)
        places = (steps + t).clamp(max=rows - 1) * time + t
        weights = used.new_zeros(rows * time)
        weights = weights.index_add(0, places.flatten(), real.to(used.dtype).flatten())
        weights = weights.reshape(rows, time)
        total = weights.sum(1, keepdim=True)
        fresh = weights @ used / total.clamp(min=1)
        self.batches += (total[:, 0] > 0).long()
        share = (1 / self.batches.clamp(min=1)).clamp(min=self.momentum)[:, None]
        share = torch.where(total > 0, share, 0.0).to(used.dtype)
        self.running.lerp_(fresh, share.expand_as(fresh))

    def _update_rows(self, rows: slice, used: Tensor) -> None:
        """Take in statistics of which each has a row of its own: a tenth of the work."""
        batches = self.batches[rows].add_(1)
        share = (1 / batches).clamp(min=self.momentum).to(used.dtype)[:, None]
        self.running[:, rows].lerp_(used, share.expand_as(used))

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{len(self.weight)}, max_steps={len(self.batches)}, momentum={self.momentum}"


def _can_be_read(steps: Tensor) -> bool:
    """Return whether a number can be read without waiting for it, or breaking a graph."""
    if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(steps):  # pyright: ignore
        return False
    return steps.device.type == "cpu"
