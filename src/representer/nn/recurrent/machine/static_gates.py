"""Static gates: constant σ_i² of the input and σ_f² of the memory (L19 (9))."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.numbers import is_number


class StaticGates(nn.Module):
    """One σ_i² and one σ_f² per unit, fixed or learned in (0, 1).

    Fixed gates are no buffer: one that is not in the state dict stays empty where other libraries
    make a model on the meta device and load its weights.

    Args:
        values: The pair (σ_i², σ_f²); the initial values if they are learned.
        hidden_size: H.
        learned: Learn the gates, as sigmoids of parameters.

    Raises:
        ArgumentError: If a value is negative, or not in (0, 1) for learned gates.
    """

    def __init__(
        self,
        values: tuple[float, float],
        hidden_size: int,
        *,
        learned: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        are_numbers = isinstance(values, (tuple, list)) and all(
            is_number(v) and math.isfinite(v) for v in values
        )
        if not are_numbers or len(values) != 2 or min(values) < 0:
            raise ArgumentError("static_gates", values, "two finite, non-negative numbers")
        if learned and any(not 0 < v < 1 for v in values):
            raise ArgumentError(
                "static_gates", values, "two numbers in (0, 1), since they are learned"
            )
        self.start, self.hidden_size = tuple(values), hidden_size
        self.input_logit = self.forget_logit = None
        if learned:
            self.input_logit = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
            self.forget_logit = nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))

    @property
    def is_learned(self) -> bool:
        """True if the gates are parameters."""
        return self.input_logit is not None

    def reset_parameters(self) -> None:
        """Set learned gates to their initial values."""
        for logit, value in zip((self.input_logit, self.forget_logit), self.start, strict=True):
            if logit is not None:
                nn.init.constant_(logit, math.log(value / (1 - value)))

    def forward(self, like: Tensor) -> Tensor:
        """Return σ_i² and σ_f² ``(2, H)``; fixed ones with the dtype and device of a tensor."""
        if self.input_logit is None or self.forget_logit is None:
            return torch.stack([like.new_full((self.hidden_size,), value) for value in self.start])
        logits = torch.stack((self.input_logit.expand(self.hidden_size), self.forget_logit))
        return torch.sigmoid(logits)
