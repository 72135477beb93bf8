"""Static gates: constant σ_i² of the input and σ_f² of the memory (L19 (9))."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError


class StaticGates(nn.Module):
    """One σ_i² and one σ_f² per unit, fixed or learned in (0, 1).

    Args:
        values: The pair (σ_i², σ_f²); the initial values if they are learned.
        hidden_size: H.
        learned: Learn the gates, as sigmoids of parameters.

    Raises:
        ArgumentError: If a value is negative, or not in (0, 1) for learned gates.
    """

    values: Tensor

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
            isinstance(v, (int, float)) and math.isfinite(v) for v in values
        )
        if not are_numbers or len(values) != 2 or min(values) < 0:
            raise ArgumentError("static_gates", values, "two finite, non-negative numbers")
        if learned and any(not 0 < v < 1 for v in values):
            raise ArgumentError(
                "static_gates", values, "two numbers in (0, 1), since they are learned"
            )
        self.start, self.hidden_size = values, hidden_size
        fixed = torch.tensor(values, device=device, dtype=dtype)[:, None].repeat(1, hidden_size)
        self.register_buffer("values", fixed, persistent=False)
        self.input_logit = self.forget_logit = None
        if learned:
            self.input_logit = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
            self.forget_logit = nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))

    @property
    def is_learned(self) -> bool:
        """True if the gates are parameters."""
        return self.input_logit is not None

    def reset_parameters(self) -> None:
        """Set the gates to their initial values."""
        self._fill()
        for logit, value in zip((self.input_logit, self.forget_logit), self.start, strict=True):
            if logit is not None:
                nn.init.constant_(logit, math.log(value / (1 - value)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._fill()  # fixed gates are not in the state dict, so to_empty() must restore them
        return self

    def _fill(self) -> None:
        with torch.no_grad():
            self.values.copy_(torch.tensor(self.start, dtype=self.values.dtype)[:, None])

    def forward(self) -> Tensor:
        """Return σ_i² and σ_f² ``(2, H)``."""
        if self.input_logit is None or self.forget_logit is None:
            return self.values
        logits = torch.stack((self.input_logit.expand(self.hidden_size), self.forget_logit))
        return torch.sigmoid(logits)


def fill_fixed_gates(layer: nn.Module, loaded: object) -> None:
    """Fill fixed gates on meta, which ``load_state_dict(assign=True)`` does not replace."""
    for module in layer.modules():
        if isinstance(module, StaticGates) and module.values.is_meta and not module.is_learned:
            module.to_empty(device=next(layer.parameters()).device)
