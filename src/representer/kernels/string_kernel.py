"""The string kernel between sequences of vectors or tokens, L17 (1)-(3), Table 5."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import string_kernel
from representer.functional.string_kernel import ngram_mass, over_mass, slot_weights
from representer.kernels.kernel import Kernel
from representer.kernels.sequences import Sequences, read_sequences
from representer.kernels.tokens import read_tokens

if TYPE_CHECKING:
    from torch import nn

COMBINE = ("multiply", "add")
BASES = ("linear", "delta")
BLOCK = 2**20  # entries of the similarities of one block
STRINGS = 'Strings and tokens are compared with base="delta".'


class StringKernel(Kernel):
    r"""Compares all n-grams of two sequences, gaps allowed.

    .. math::
        K_n(x, y) = \sum_{i_1 < \dots < i_n} \sum_{k_1 < \dots < k_n}
            \lambda^{|x| - i_1 - n + 1} \lambda^{|y| - k_1 - n + 1}
            \prod_{j=1}^n \langle x_{i_j}, y_{k_j} \rangle

    The exponent counts the tokens behind the first that are not in the n-gram, the gaps and what
    trails behind it. :math:`0^0 = 1`: with λ = 0 only the last n tokens count, with λ = 1 all
    n-grams alike. A sequence of fewer than n tokens has no n-gram, and its kernel is 0.

    Args:
        order: n, tokens of an n-gram.
        decay: λ in [0, 1]; a tensor ``()`` takes part in gradients.
        combine: ``"multiply"``, or ``"add"``, the sum of the n similarities in the place of their
            product (Table 5 (c), before normalisation).
        normalized: True multiplies by (1 − λ)^n, as the printed networks do; ``"exact"`` divides
            by the masses of both sequences, the sums of their n-grams' weights, Table 5's Z.
        base: How two tokens are compared: ``"linear"`` (inner product), ``"delta"`` (1 if they are
            the same token, else 0), or a kernel of vectors such as ``kernels.Gaussian()``.
        trailing: Whether tokens behind the n-gram decay it. Without, the exponent is
            :math:`i_n - i_1 - n + 1`, which is the kernel of Lodhi et al. less a factor λ^{2n}.

    Shape:
        - X a list of N sequences ``(T_i, d)``, for ``base="delta"`` of strings or lists of tokens;
          Y the same, of M
        - returns ``(N, M)``: a differentiable tensor for tensors, else a float64 array

    Raises:
        ArgumentError: If an argument has no meaning, or a number of a sequence is not finite.
        ShapeError: If a sequence is not ``(time, features)``, or the features differ.
        KindError: If a sequence is of the wrong kind, such as a string without ``base="delta"``.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (1)-(3), Table 5, appendix B.
        Lodhi et al., Text Classification using String Kernels, JMLR 2002.
    """

    def __init__(
        self,
        order: int = 2,
        decay: float = 0.5,
        combine: str = "multiply",
        normalized: bool | str = False,
        base: str | Kernel = "linear",
        trailing: bool = True,
    ) -> None:
        self.order = order
        self.decay = decay
        self.combine = combine
        self.normalized = normalized
        self.base = base
        self.trailing = trailing
        self._check()

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        """Return the Gram matrix of X with Y, or of X with itself."""
        self._check()
        vocabulary: dict[Hashable, int] = {}
        x = self._read(X, vocabulary, "X")
        y = x if Y is None else self._read(Y, vocabulary, "Y", x)
        with torch.set_grad_enabled(x.from_tensors and torch.is_grad_enabled()):
            return x.answer(self._normalize(self._gram(x, y), x, y))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        """Return k(x, x) of each sequence."""
        self._check()
        x = self._read(X, {}, "X")
        with torch.set_grad_enabled(x.from_tensors and torch.is_grad_enabled()):
            K = torch.cat([self._row(item, [item]) for item in x.items])
            return x.answer(self._normalize(K, x))

    def network(self, input_size: int, hidden_size: int, **options: Any) -> nn.Module:
        """Return a layer each of whose units evaluates this kernel against one learned reference.

        The layer's ``cell_states`` are this kernel of every prefix of the input with the unit's
        reference, and ``network.kernel`` gives the kernel back.

        Args:
            input_size: d, features of one token.
            hidden_size: Number of references.
            options: Other arguments of ``representer.nn.StringKernelRNN``.
        """
        from representer.kernels.networks import network_of

        self._check()
        return network_of(self, input_size, hidden_size, options)

    def _check(self) -> None:
        if type(self.order) is not int or self.order < 1:
            raise ArgumentError("order", self.order, "a whole number from 1 on")
        decay = self.decay
        is_number = isinstance(decay, (int, float, np.floating)) and not isinstance(decay, bool)
        is_tensor = isinstance(decay, Tensor) and decay.dim() == 0
        value = decay.detach() if isinstance(decay, Tensor) else decay
        if not (is_number or is_tensor) or not 0 <= value <= 1:
            raise ArgumentError("decay", decay, "a number in [0, 1]")
        if self.combine not in COMBINE:
            raise ArgumentError("combine", self.combine, " or ".join(map(repr, COMBINE)))
        if self.normalized is not True and self.normalized not in (False, "exact"):
            raise ArgumentError("normalized", self.normalized, "False, True or 'exact'")
        if not isinstance(self.base, Kernel) and self.base not in BASES:
            raise ArgumentError("base", self.base, "'linear', 'delta' or a kernel of vectors")
        if not isinstance(self.trailing, bool):
            raise ArgumentError("trailing", self.trailing, "True or False")

    def _read(
        self,
        X: Iterable[Any],
        vocabulary: dict[Hashable, int],
        name: str,
        like: Sequences | None = None,
    ) -> Sequences:
        if self.base == "delta":
            return read_tokens(X, vocabulary, name)
        return read_sequences(X, name, like, STRINGS)

    def _gram(self, x: Sequences, y: Sequences) -> Tensor:
        if self.base == "linear" and (self.combine == "add" or self.order == 1):
            slots = self._slots(x)
            return slots @ (slots if y is x else self._slots(y)).mT
        if y is not x:
            return torch.stack([self._row(item, y.items) for item in x.items])
        rows = [self._row(item, x.items[i:]) for i, item in enumerate(x.items)]
        upper = torch.stack([torch.nn.functional.pad(r, (len(rows) - len(r), 0)) for r in rows])
        return upper + upper.triu(1).mT

    def _row(self, item: Tensor, others: list[Tensor]) -> Tensor:
        """Return the kernel of one sequence with each of the others, before normalisation."""
        longest = max(1, len(item)) * max(1, *(len(other) for other in others), 1)
        step = max(1, BLOCK // longest)
        blocks = [others[i : i + step] for i in range(0, len(others), step)]
        return torch.cat([self._pairs(item, block) for block in blocks])

    def _pairs(self, item: Tensor, block: list[Tensor]) -> Tensor:
        padded = torch.nn.utils.rnn.pad_sequence(block, batch_first=True)  # (B, T, d) or (B, T)
        lengths = torch.tensor([len(other) for other in block], device=item.device)
        similarities = self._similarities(item, padded)
        own = torch.tensor(len(item), device=item.device)
        return string_kernel(
            similarities,
            self.order,
            self.decay,
            combine=self.combine,
            trailing=self.trailing,
            lengths=(own.expand_as(lengths), lengths),
        )

    def _similarities(self, item: Tensor, padded: Tensor) -> Tensor:
        """Return the base kernel of every two tokens ``(B, S, T)``."""
        if self.base == "delta":
            return (item[:, None] == padded[:, None, :]).double()
        if self.base == "linear":
            return item @ padded.mT
        assert isinstance(self.base, Kernel)
        B, T, d = padded.shape
        if not len(item) or not B * T:
            return item.new_zeros(B, len(item), T)
        values = self.base(item, padded.reshape(B * T, d))
        assert isinstance(values, Tensor)
        return values.reshape(len(item), B, T).movedim(0, 1)

    def _slots(self, x: Sequences) -> Tensor:
        """Return the weighted sums of the tokens in each slot ``(N, n·d)``, a feature map."""
        lam = self._decay_like(x.items[0])
        longest = max(len(item) for item in x.items)
        weights = slot_weights(self.order, longest, lam, self.trailing)
        rows = [
            (weights[:, len(item) - 1, : len(item)] @ item).flatten()
            if len(item)
            else item.new_zeros(self.order * item.shape[1])
            for item in x.items
        ]
        return torch.stack(rows)

    def _normalize(self, K: Tensor, x: Sequences, y: Sequences | None = None) -> Tensor:
        """Normalise a Gram matrix ``(N, M)``, or a diagonal ``(N,)`` if there is no y."""
        if not self.normalized:
            return K
        lam = self._decay_like(K)
        if self.normalized is True:
            return (1 - lam) ** self.order * K
        mass = self._masses(x, lam)
        if y is None:
            return over_mass(K, mass * mass)
        return over_mass(K, mass[:, None] * (mass if y is x else self._masses(y, lam)))

    def _masses(self, x: Sequences, lam: Tensor) -> Tensor:
        lengths = [len(item) for item in x.items]
        return ngram_mass(self.order, max(lengths), lam, self.trailing)[lengths]

    def _decay_like(self, tensor: Tensor) -> Tensor:
        return torch.as_tensor(self.decay, dtype=tensor.dtype, device=tensor.device)
