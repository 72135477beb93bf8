"""The string kernel between sequences, L17 (1)-(3), Table 5, and the deep one, section 2.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError
from representer.functional import string_kernel
from representer.functional.strings import (
    decay_matrix,
    distinct_string_kernel,
    divide_by_mass,
    ngram_mass,
    slot_features,
    slot_weights,
    string_features,
)
from representer.kernels.kernel import Kernel
from representer.kernels.point_kernels import InversePolynomial, PointKernel
from representer.kernels.sequences import BLOCK, SequenceKernel, Sequences
from representer.ops.string_gram import missing, string_gram

FEATURES = 2**24  # entries of the explicit feature maps in memory


class StringKernel(SequenceKernel):
    r"""Compares all gapped n-grams of two sequences.

    .. math::
        K_n(x, y) = \sum_{i_1 < \dots < i_n} \sum_{k_1 < \dots < k_n}
            \lambda^{|x| - i_1 - n + 1} \lambda^{|y| - k_1 - n + 1}
            \prod_{j=1}^n \langle x_{i_j}, y_{k_j} \rangle

    The exponent is the number of tokens after the first one that are not in the n-gram: the gaps
    and the trailing tokens. :math:`0^0 = 1`: with λ = 0, only the last n tokens contribute; with
    λ = 1, all n-grams have equal weight. The kernel of a sequence of fewer than n tokens is 0.

    Args:
        order: n, tokens of an n-gram.
        decay: λ in [0, 1]; a tensor ``()`` may require a gradient, and the result then has one.
        combine: ``"multiply"``, or ``"add"``, the sum of the n similarities instead of their
            product (Table 5 (c), before normalization).
        normalized: True multiplies by (1 − λ)^n, as in the printed networks; ``"exact"`` divides
            by the masses of both sequences, the sums of their n-gram weights, Table 5's Z.
        base: Kernel of two tokens: ``"linear"`` (inner product), ``"delta"`` (1 for equal tokens,
            else 0), or a kernel of vectors such as ``kernels.Gaussian()``.
        trailing: Apply the decay to tokens after an n-gram. Otherwise, the exponent is
            :math:`i_n - i_1 - n + 1`, as in the kernel of Lodhi et al. without its factor λ^{2n}.
        binary: Count each distinct n-gram once in a sequence, with the largest of its weights, for
            ``base="delta"``; with λ = 1, it is the number of n-grams that both have, (1).

    Shape:
        - X a list of N sequences ``(T_i, d)``, for ``base="delta"`` of strings or lists of tokens;
          Y the same, of M
        - returns ``(N, M)``: a differentiable tensor for tensors, else a float64 array

    Raises:
        ArgumentError: If an argument is invalid, or a sequence contains NaN or infinity.
        ShapeError: If a sequence is not ``(time, features)``, or the features differ.
        KindError: If a sequence has the wrong type, such as a string without ``base="delta"``.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (1)-(3), Table 5, appendix B.
        Lodhi et al., Text Classification using String Kernels, JMLR 2002.
    """

    def __init__(
        self, order: int = 2, decay: float = 0.5, combine: str = "multiply",
        normalized: bool | str = False, base: str | Kernel = "linear", trailing: bool = True,
        binary: bool = False,
    ) -> None:  # fmt: skip
        self.order = order
        self.decay = decay
        self.combine = combine
        self.normalized = normalized
        self.base = base
        self.trailing = trailing
        self.binary = binary
        self.check()

    def shortest_reference(self) -> int:
        """Return the order: a shorter sequence has no n-gram."""
        return self.order

    def check(self) -> None:
        check_integer("order", self.order)
        self._check_decay("decay", self.decay)
        self._check_options(self.combine, self.normalized)
        for name, value in (("trailing", self.trailing), ("binary", self.binary)):
            if not isinstance(value, bool):
                raise ArgumentError(name, value, "True or False")
        if not self.binary:
            return
        for name, value in {
            "base": "delta", "combine": "multiply", "normalized": False, "trailing": True,
        }.items():  # fmt: skip
            if getattr(self, name) != value and not (name == "trailing" and self.decay == 1):
                expected = f"{value!r} with binary=True"
                raise ArgumentError(name, getattr(self, name), expected)

    def _gram(self, x: Sequences, y: Sequences) -> Tensor:
        lam = self._decay_like(x)
        symmetric = y is x
        if self._has_features(x, y):
            K = self._features_gram(x, y, lam)
        elif self._runs_at_once(x, y, lam):
            K = string_gram(
                x.items, None if symmetric else y.items, self.order, lam.detach(),
                trailing=self.trailing, similarities=self._of_all_pairs(),
            )  # fmt: skip
        else:
            K = super()._gram(x, y)
        if self.normalized is True:
            return (1 - lam) ** self.order * K
        if not self.normalized:
            return K
        mass = self._masses(x, lam)
        return divide_by_mass(K, mass[:, None] * (mass if symmetric else self._masses(y, lam)))

    def _diag(self, x: Sequences) -> Tensor:
        lam, longest = self._decay_like(x), max(1, *map(len, x.items))
        step = max(1, BLOCK // longest**2)
        parts = [x.items[i : i + step] for i in range(0, len(x.items), step)]
        K = super()._diag(x) if self.binary else torch.cat([*map(self._squares, parts)])
        if self.normalized == "exact":
            return divide_by_mass(K, self._masses(x, lam).square())
        return (1 - lam) ** self.order * K if self.normalized else K

    def _squares(self, items: list[Tensor]) -> Tensor:
        """Return the kernel of each sequence with itself, but for the norms, in one batch."""
        lengths = torch.tensor([len(item) for item in items], device=items[0].device)
        padded = torch.nn.utils.rnn.pad_sequence(items, batch_first=True)
        if self.base == "linear":
            similarities = padded @ padded.mT
        else:
            size = padded.shape[1]
            pairs = [self._similarities(item, item[None])[0] for item in items]
            grown = [F.pad(each, (0, size - len(each)) * 2) for each in pairs]
            similarities = torch.stack(grown)
        return string_kernel(
            similarities, self.order, self.decay, combine=self.combine, trailing=self.trailing,
            lengths=(lengths, lengths),
        )  # fmt: skip

    def _pairs(
        self, item: Tensor, prepared: Any, padded: Tensor, lengths: Tensor, others: list[Any]
    ) -> Tensor:
        if self.binary:
            lam = torch.as_tensor(self.decay, dtype=torch.float64, device=item.device)
            return distinct_string_kernel(item, padded, lengths, self.order, lam)
        return string_kernel(
            self._similarities(item, padded), self.order, self.decay, combine=self.combine,
            trailing=self.trailing, lengths=(torch.full_like(lengths, len(item)), lengths),
        )  # fmt: skip

    def of_similarities(self, xy: Tensor, lengths: tuple[Tensor, Tensor]) -> Tensor:
        """Return the kernel of padded sequences from those of all pairs of tokens ``(…, S, T)``."""
        return string_kernel(
            xy, self.order, self.decay, combine=self.combine, normalized=self.normalized,
            trailing=self.trailing, lengths=lengths,
        )  # fmt: skip

    def _has_features(self, x: Sequences, y: Sequences) -> bool:
        """Return True if the explicit feature map is cheaper than all pairs."""
        if self.base != "linear":
            return False
        if self.combine == "add" or self.order == 1:
            return True
        N, M = len(x.items), 0 if y is x else len(y.items)
        tokens_x, tokens_y = (sum(map(len, s.items)) for s in (x, y))
        size = float(x.items[0].shape[1]) ** self.order
        steps = tokens_x if y is x else tokens_x + tokens_y
        # multiplications: of d^n numbers for a step and for a pair of sequences, or of d numbers
        # for a pair of tokens and about four for each of its slots; half of them if y is x
        features = (steps + N * (M or N)) * size
        pairs = tokens_x * tokens_y * (x.items[0].shape[1] + 4 * self.order)
        return features < pairs * (0.5 if y is x else 1.0)

    def _features_gram(self, x: Sequences, y: Sequences, lam: Tensor) -> Tensor:
        longest = max(len(item) for s in (x, y) for item in s.items)
        d = x.items[0].shape[1]
        if self.combine == "add" or self.order == 1:
            weights = slot_weights(self.order, longest, lam, self.trailing)
            return self._products(
                x, y, lambda item: slot_features(item, self.order, lam, weights=weights)
            )
        discount = decay_matrix(longest, lam)
        most = max(len(x.items), len(y.items)) * d ** (self.order - 1)
        step = max(1, FEATURES // most)  # features of the first slot per block
        K = lam.new_zeros(())
        for start in range(0, d, step):
            first = slice(start, start + step)
            K = K + self._products(
                x,
                y,
                lambda item, first=first: string_features(
                    item, self.order, lam, trailing=self.trailing, discount=discount, first=first
                ),
            )
        return K

    def _products(self, x: Sequences, y: Sequences, features: Callable[[Tensor], Tensor]) -> Tensor:
        left = torch.stack([features(item) for item in x.items])
        right = left if y is x else torch.stack([features(item) for item in y.items])
        return left @ right.mT

    def _runs_at_once(self, x: Sequences, y: Sequences, lam: Tensor) -> bool:
        """Return True if one call of the core, or a few kernels on CUDA, take all pairs."""
        if self.binary or self.combine != "multiply":
            return False
        similarities, longest = self._of_all_pairs(), max(x.items, key=len)
        if missing(longest, lam.dtype, self.order, similarities):
            return False
        if not torch.is_grad_enabled():
            return True
        if any(t.requires_grad for t in (lam, *x.items, *y.items)):
            return False
        # a base kernel may be learned
        return not (similarities and similarities(longest[:1], longest[:1]).requires_grad)

    def _of_all_pairs(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Return the base kernel of all pairs of vectors, or None if it has a name."""
        if not isinstance(self.base, Kernel):
            return None
        return lambda x, y: self._similarities(x, y[None])[0]

    def _masses(self, x: Sequences, lam: Tensor) -> Tensor:
        lengths = [len(item) for item in x.items]
        return ngram_mass(self.order, max(lengths), lam, self.trailing)[lengths]

    def _decay_like(self, x: Sequences) -> Tensor:
        """Return lam in the dtype of the computation, float64 for tokens."""
        item = x.items[0]
        dtype = item.dtype if item.is_floating_point() else torch.float64
        return torch.as_tensor(self.decay, dtype=dtype, device=item.device)


# The deep string kernel, L17 section 2.2, Theorem 2, appendix C.


class DeepStringKernel(SequenceKernel):
    r"""The kernel of a stack of string-kernel layers, independent of their references.

    .. math::
        K^{(1)}[s, t] &= K_{n_1}(x_{1:s}, y_{1:t}) \\
        K^{(l)}[s, t] &= \sum_{i_1 < \dots < i_{n_l} \le s} \sum_{k_1 < \dots < k_{n_l} \le t}
            \lambda^{s - i_1 - n_l + 1} \lambda^{t - k_1 - n_l + 1}
            \prod_{j=1}^{n_l} K_\sigma^{(l-1)}[i_j, k_j]

    :math:`K_\sigma^{(l)}[s, t]` is the activation kernel in the feature space of
    :math:`K^{(l)}[s, t]`, where step s of a sequence represents its prefix. The kernel is
    :math:`K^{(L)}` at the last steps, before an activation (``.activated(...)`` adds one). If the
    space of the activation kernel contains σ, the space of this kernel contains the states
    :math:`c^{(L)}_n` of every network of L layers with activation σ, as functions of the input.

    Args:
        orders: n of each layer, from the lowest.
        decay: λ in [0, 1], one for all layers or one for each.
        activation: The activation kernel between two layers; by default
            ``kernels.InversePolynomial()``, as in Lemma 1, which requires states of squared norm
            below 2. ``kernels.Linear()`` for none.
        combine: As in :class:`StringKernel`, for all layers.
        normalized: As in :class:`StringKernel`, for all layers.
        base: As in :class:`StringKernel`, for the lowest layer.

    Shape:
        - X a list of N sequences ``(T_i, d)``, for ``base="delta"`` of strings or lists of tokens;
          Y the same, of M
        - returns ``(N, M)``: a differentiable tensor for tensors, else a float64 array

    Raises:
        ArgumentError: If an argument is invalid, or a sequence contains NaN or infinity.
        ShapeError: If a sequence is not ``(time, features)``, or the features differ.
        KindError: If a sequence or the activation has an unsupported type.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 2.2, Theorem 2, appendix C.
    """

    def __init__(
        self, orders: Sequence[int] = (2, 2), decay: float | Sequence[float] = 0.5,
        activation: PointKernel | None = None, combine: str = "multiply",
        normalized: bool | str = False, base: str | Kernel = "linear",
    ) -> None:  # fmt: skip
        self.orders = orders
        self.decay = decay
        self.activation = activation
        self.combine = combine
        self.normalized = normalized
        self.base = base
        self.check()

    def shortest_reference(self) -> int:
        """Return 1 + Σ(n_l − 1): the n-grams of a layer end at n_l steps of the layer below."""
        return 1 + sum(order - 1 for order in self.orders)

    def check(self) -> None:
        if not isinstance(self.orders, (list, tuple)) or not self.orders:
            raise ArgumentError("orders", self.orders, "a list of the layers' orders")
        for layer, order in enumerate(self.orders):
            check_integer(f"orders[{layer}]", order)
        if isinstance(self.decay, (list, tuple)):
            if len(self.decay) != len(self.orders):
                expected = f"one number for each of the {len(self.orders)} layers"
                raise ArgumentError("decay", self.decay, expected)
            for layer, decay in enumerate(self.decay):
                self._check_decay(f"decay[{layer}]", decay)
        else:
            self._check_decay("decay", self.decay)
        if self.activation is not None and not isinstance(self.activation, PointKernel):
            expected = "a kernel of vectors, such as kernels.InversePolynomial()"
            raise KindError("activation", repr(self.activation), expected)
        self._check_options(self.combine, self.normalized)

    def _pairs(
        self, item: Tensor, prepared: Any, padded: Tensor, lengths: Tensor, others: list[Any]
    ) -> Tensor:
        K = self._similarities(item, padded)
        steps = torch.arange(padded.shape[1], device=lengths.device)
        is_real = (steps < lengths[:, None])[:, None, :]
        for layer in range(len(self.orders) - 1):
            K = torch.where(is_real, self._layer(layer, K), 0.0)
            squares = torch.nn.utils.rnn.pad_sequence([o[layer] for o in others], batch_first=True)
            K = self._activate(K, prepared[layer][:, None], squares[:, None, :])
        ends = (torch.full_like(lengths, len(item)), lengths)
        return self._layer(len(self.orders) - 1, K, ends)

    def of_similarities(
        self, xy: Tensor, xx: Tensor, yy: Tensor, lengths: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return the kernel of padded sequences from those of all pairs of tokens.

        Args:
            xy: Of x and y ``(…, S, T)``.
            xx: Of x ``(…, S, S)``.
            yy: Of y ``(…, T, T)``.
            lengths: True lengths of x and y ``(…)``.
        """
        is_x, is_y = (
            torch.arange(K.shape[-1], device=K.device) < ends[..., None]
            for K, ends in zip((xx, yy), lengths, strict=True)
        )
        for layer in range(len(self.orders) - 1):
            xy, xx, yy = (self._layer(layer, K) for K in (xy, xx, yy))
            of_x, of_y = (
                torch.where(is_real, K.diagonal(dim1=-2, dim2=-1), 0.0)
                for K, is_real in ((xx, is_x), (yy, is_y))
            )
            xy, xx, yy = (
                self._activate(
                    torch.where(left[0][..., None] & right[0][..., None, :], K, 0.0),
                    left[1][..., None], right[1][..., None, :],
                )
                for K, left, right in (
                    (xy, (is_x, of_x), (is_y, of_y)),
                    (xx, (is_x, of_x), (is_x, of_x)),
                    (yy, (is_y, of_y), (is_y, of_y)),
                )
            )  # fmt: skip
        return self._layer(len(self.orders) - 1, xy, lengths)

    def _prepare(self, item: Tensor) -> list[Tensor]:
        """Return K^(l) of each prefix with itself ``(T,)``, for all layers but the last."""
        K, squares = self._similarities(item, item[None])[0], []
        for layer in range(len(self.orders) - 1):
            K = self._layer(layer, K)
            squares.append(K.diagonal())
            K = self._activate(K, squares[-1][:, None], squares[-1])
        return squares

    def _activate(self, inner: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
        return (self.activation or InversePolynomial()).of_products(inner, xx, yy)

    def _layer(
        self, layer: int, similarities: Tensor, ends: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        decay: Any = self.decay[layer] if isinstance(self.decay, (list, tuple)) else self.decay
        return string_kernel(
            similarities, self.orders[layer], decay, combine=self.combine,
            normalized=self.normalized, lengths=ends,
        )  # fmt: skip
