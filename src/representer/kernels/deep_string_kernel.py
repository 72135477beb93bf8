"""The deep string kernel, L17 section 2.2, Theorem 2, appendix C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.functional import string_kernel
from representer.kernels.kernel import Kernel
from representer.kernels.point_kernels import InversePolynomial, PointKernel
from representer.kernels.sequence_kernel import SequenceKernel
from representer.requirements import check_integer


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
        self,
        orders: Sequence[int] = (2, 2),
        decay: float | Sequence[float] = 0.5,
        activation: PointKernel | None = None,
        combine: str = "multiply",
        normalized: bool | str = False,
        base: str | Kernel = "linear",
    ) -> None:
        self.orders = orders
        self.decay = decay
        self.activation = activation
        self.combine = combine
        self.normalized = normalized
        self.base = base
        self._check()

    def _check(self) -> None:
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
        self, item: Tensor, own: Any, padded: Tensor, lengths: Tensor, others: list[Any]
    ) -> Tensor:
        K = self._similarities(item, padded)
        steps = torch.arange(padded.shape[1], device=lengths.device)
        is_real = (steps < lengths[:, None])[:, None, :]
        for layer in range(len(self.orders) - 1):
            K = torch.where(is_real, self._layer(layer, K), 0.0)
            squares = torch.nn.utils.rnn.pad_sequence([o[layer] for o in others], batch_first=True)
            K = self._activate(K, own[layer][:, None], squares[:, None, :])
        ends = (torch.full_like(lengths, len(item)), lengths)
        return self._layer(len(self.orders) - 1, K, ends)

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
            similarities,
            self.orders[layer],
            decay,
            combine=self.combine,
            normalized=self.normalized,
            lengths=ends,
        )
