"""Normalization over the batch with statistics of every time step, M18 section 3."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from representer.ops.checks import can_be_read


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
