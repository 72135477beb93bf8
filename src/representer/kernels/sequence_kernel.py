"""The base class of sequence kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError
from representer.kernels.kernel import Kernel, takes_rows, value_of
from representer.kernels.sequences import Pair, Sequences, empty_gram, read_pair
from representer.kernels.tokens import read_tokens

BASES = ("linear", "delta")
COMBINE = ("multiply", "add")
BLOCK = 2**20  # similarities per block
STRINGS = 'Strings and tokens are compared with base="delta".'


class SequenceKernel(Kernel):
    """Base class of kernels that depend on the ``base`` kernel of all pairs of tokens."""

    base: str | Kernel

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        """Return the Gram matrix of X with Y, or of X with itself."""
        self._check()
        x, y = self._read(X, Y)
        has_values = bool(x.items and y.items)
        return self._values(x, lambda: self._gram(x, y) if has_values else empty_gram(x, y))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        """Return k(x, x) of each sequence."""
        self._check()
        x, _ = self._read(X)
        return self._values(x, lambda: self._diag(x) if x.items else empty_gram(x))

    def _of_row(self, row: np.ndarray) -> Any:
        """Return a row of an array as a list of one sequence: of tokens, or of one feature."""
        is_token = isinstance(self.base, str) and self.base == "delta"
        return [row] if is_token else super()._of_row(row)

    @abstractmethod
    def _check(self) -> None:
        """Check the arguments, which ``set_params`` may have changed."""

    @abstractmethod
    def _pairs(
        self, item: Tensor, own: Any, padded: Tensor, lengths: Tensor, others: list[Any]
    ) -> Tensor:
        """Return the kernel ``(B,)`` of one sequence with a padded batch ``(B, T, …)``.

        ``own`` and ``others`` are the results of ``_prepare`` for the sequences.
        """

    def _prepare(self, item: Tensor) -> Any:
        """Compute the intermediate results shared by all pairs with a sequence."""
        return None

    def _read(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Pair:
        if not (isinstance(self.base, str) and self.base == "delta"):
            return read_pair(X, Y, STRINGS)
        vocabulary: dict[Hashable, int] = {}
        x = read_tokens(X, vocabulary, "X")
        return x, x if Y is None else read_tokens(Y, vocabulary, "Y", x)

    def _gram(self, x: Sequences, y: Sequences) -> Tensor:
        prepared = [(item, self._prepare(item)) for item in x.items]
        if y is not x:
            others = [(item, self._prepare(item)) for item in y.items]
            return torch.stack([self._row(*pair, others) for pair in prepared])
        rows = [self._row(*pair, prepared[i:]) for i, pair in enumerate(prepared)]
        upper = torch.stack([F.pad(row, (len(rows) - len(row), 0)) for row in rows])
        return upper + upper.triu(1).mT

    def _diag(self, x: Sequences) -> Tensor:
        pairs = [(item, self._prepare(item)) for item in x.items]
        return torch.cat([self._row(*pair, [pair]) for pair in pairs])

    def _row(self, item: Tensor, own: Any, others: list[tuple[Tensor, Any]]) -> Tensor:
        """Return the kernel of one sequence with each of the others."""
        largest = max(1, len(item)) * max(1, max(len(other) for other, _ in others))
        step = max(1, BLOCK // largest)
        parts = []
        for i in range(0, len(others), step):
            block, prepared = zip(*others[i : i + step], strict=True)
            padded = torch.nn.utils.rnn.pad_sequence(list(block), batch_first=True)
            lengths = torch.tensor([len(other) for other in block], device=item.device)
            parts.append(self._pairs(item, own, padded, lengths, list(prepared)))
        return torch.cat(parts)

    def _similarities(self, item: Tensor, padded: Tensor) -> Tensor:
        """Return the base kernel of all pairs of tokens ``(B, S, T)``."""
        if not isinstance(self.base, Kernel):
            if self.base == "delta":
                return (item[:, None] == padded[:, None, :]).double()
            return item @ padded.mT
        B, T, d = padded.shape
        if not len(item) or not B * T:
            return item.new_zeros(B, len(item), T)
        values = self.base(item, padded.reshape(B * T, d))
        assert isinstance(values, Tensor)
        return values.reshape(len(item), B, T).movedim(0, 1)

    def _check_decay(self, name: str, decay: Any) -> None:
        if not 0 <= value_of(decay) <= 1:
            raise ArgumentError(name, decay, "a number in [0, 1]")

    def _check_options(self, combine: Any, normalized: Any) -> None:
        if combine not in COMBINE:
            raise ArgumentError("combine", combine, " or ".join(map(repr, COMBINE)))
        if normalized is not True and normalized not in (False, "exact"):
            raise ArgumentError("normalized", normalized, "False, True or 'exact'")
        if not isinstance(self.base, Kernel) and self.base not in BASES:
            raise ArgumentError("base", self.base, "'linear', 'delta' or a kernel of vectors")
