"""Banks of n-gram filters, one for every gate of a cell.

L19 (12), (18), (19): each gate has its own filters X~; section 4.1: different filter lengths may
constitute different units of the memory cell.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.functional import ngram_product, ngram_windows


class DenseFilters(nn.Module):
    """One free coefficient for every gate, unit, feature and slot.

    Args:
        gates: G, how many gates have filters.
        input_size: I, features of one step.
        lengths: Units of each filter length, in the order of the units.
        dilation: Steps between the slots of a filter.
        stride: Steps of the input between two of the cell.
        unit_norm: Whether filters and windows are scaled to length 1 (L19 footnote 2).
    """

    def __init__(
        self,
        gates: int,
        input_size: int,
        lengths: dict[int, int],
        *,
        dilation: int = 1,
        stride: int = 1,
        unit_norm: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.lengths, self.dilation, self.stride = dict(lengths), dilation, stride
        self.unit_norm = unit_norm
        self.reach = (max(lengths) - 1) * dilation
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(gates, units, input_size, n, device=device, dtype=dtype))
            for n, units in lengths.items()
        )

    def reset_parameters(self, bound: float) -> None:
        """Draw every coefficient from U(−bound, bound)."""
        for weight in self.weights:
            nn.init.uniform_(weight, -bound, bound)

    def effective(self) -> Tensor:
        """Return the filters as used, ``(G, H, I, n)``, zero-padded to the longest."""
        longest = max(self.lengths)
        return torch.cat([F.pad(w, (0, longest - w.shape[-1])) for w in self._scaled()], dim=1)

    def forward(self, extended: Tensor, *, reverse: bool = False) -> Tensor:
        """Multiply windows of the extended ``(P + T, B, I)``; return ``(T / stride, B, G, H)``."""
        products = []
        for weight in self._scaled():
            gates, units, _, n = weight.shape
            excess = self.reach - (n - 1) * self.dilation
            seen = extended[: len(extended) - excess] if reverse else extended[excess:]
            product = ngram_product(seen, weight.flatten(0, 1), self.dilation, reverse=reverse)
            products.append(product.unflatten(-1, (gates, units)))
            if self.unit_norm:
                products[-1] = products[-1] / _window_norm(seen, n, self.dilation, reverse)
        product = products[0] if len(products) == 1 else torch.cat(products, dim=-1)
        return product[self._steps(reverse)]

    @property
    def is_plain(self) -> bool:
        """True if the products are one matrix times the windows, as ``operands`` returns them."""
        return len(self.weights) == 1 and not self.unit_norm

    def operands(self, extended: Tensor, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
        """Return windows ``(T / stride, B, n I)`` and the plain filters as ``(G, H, n I)``."""
        (weight,) = self.weights
        windows = ngram_windows(extended, weight.shape[-1], self.dilation, reverse=reverse)
        return windows[self._steps(reverse)], weight.movedim(3, 2).flatten(2)

    def _steps(self, reverse: bool) -> slice:
        """Return where the windows end that a step sees: with the last step of each stride."""
        return slice(0 if reverse else self.stride - 1, None, self.stride)

    def _scaled(self) -> list[Tensor]:
        if not self.unit_norm:
            return list(self.weights)
        return [w / w.flatten(2).norm(dim=-1)[..., None, None] for w in self.weights]


def units_by_length(filter_length: int | dict[int, int], hidden_size: int) -> dict[int, int]:
    """Read ``filter_length``: n, or the units of each length in the order of the units.

    Raises:
        ArgumentError: If a length is not a positive integer, or the units do not sum to
            ``hidden_size``.
    """
    lengths = filter_length if isinstance(filter_length, dict) else None
    if lengths is None and type(filter_length) is int:
        lengths = {filter_length: hidden_size}
    if not lengths or any(type(n) is not int or n < 1 for n in lengths):
        raise ArgumentError(
            "filter_length", filter_length, "a positive integer, or a dict {length: units}"
        )
    expected = f"positive numbers of units that sum to hidden_size = {hidden_size}"
    if any(type(u) is not int or u < 1 for u in lengths.values()):
        raise ArgumentError("filter_length", filter_length, expected)
    if sum(lengths.values()) != hidden_size:
        hint = f"These sum to {sum(lengths.values())}."
        raise ArgumentError("filter_length", filter_length, expected, hint=hint)
    return dict(lengths)


def _window_norm(extended: Tensor, n: int, dilation: int, reverse: bool) -> Tensor:
    """Return the length of every window ``(T, B, 1, 1)``; 1 where the window is all zeros."""
    squares = extended.square().sum(-1, keepdim=True)
    ones = torch.ones(1, 1, n, dtype=squares.dtype, device=squares.device)
    square = ngram_product(squares, ones, dilation, reverse=reverse)
    # replaced before the root, whose slope at 0 is infinite
    return torch.where(square == 0, 1.0, square).sqrt()[..., None]
