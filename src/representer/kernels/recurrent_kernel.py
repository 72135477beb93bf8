"""The recurrent kernel between sequences, L19 (5), (14)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import check_integer
from representer.errors import ArgumentError, ShapeError
from representer.functional import nonlinearity
from representer.kernels.composition import mercer_violation
from representer.kernels.kernel import Kernel, OwnReference, takes_rows, value_of
from representer.kernels.sequences import Sequences, empty_gram, read_pair, read_sequences
from representer.ops import gated_scan


class RecurrentKernel(Kernel):
    r"""Compares two sequences step by step, from their last steps backwards.

    .. math::
        k(x, y) = q(\langle X_T, Y_S \rangle + k(x_{<T}, y_{<S})), \qquad k(\emptyset, \cdot) = 0

    where X_t = (x_t, x_{t−d}, …, x_{t−(n−1)d}) with zeros before the first step; X_t = x_t for
    n = 1. Steps of the longer sequence beyond the length of the shorter one have no influence. The
    nested values grow without bound if q is not a contraction (for the exponential, with inner
    products above about 0.2), and z/(2 − z) is a kernel only for arguments below 2, so the inputs
    must be scaled.

    ``q="gaussian"`` is the form of the footnote on Gaussian kernels, on windows scaled to unit
    length or, with ``unit_norm=False``, of any length,
    :math:`k = e^{-\frac12 \lVert X_T - Y_S \rVert^2 - \frac12 \lVert h_x - h_y \rVert^2}` with
    :math:`\frac12 \lVert h_x - h_y \rVert^2 = 1 - k(x_{<T}, y_{<S})`. Here, two empty prefixes are
    equal, an empty and a non-empty one are orthogonal, and a window of zeros that would be scaled
    is orthogonal to all others. As for every q, the kernel of an empty sequence is 0.

    With ``static_gates=(a, b)``, the kernel of (9) and (15),

    .. math::
        k(x, y) = a \langle X_T, Y_S \rangle + b \, k(x_{<T}, y_{<S})
            = \sum_N a b^N \langle X_{T-N}, Y_{S-N} \rangle

    where a is σ_i² and b is σ_f²; ``q="linear"`` alone is (½, ½).

    Args:
        q: A name of ``functional.NONLINEARITIES``, or an elementwise callable of a tensor; a module
            may have parameters, which are trained through the values of tensors.
        check_mercer: Raise an error if q has no power series with non-negative coefficients;
            without the check, the Gram matrix may have negative eigenvalues. A module is checked
            at construction, and can become a q without such coefficients in training.
        filter_length: n, steps in a window.
        dilation: d, steps between the slots of a window.
        repeat: Treat the objects of a given Y as references: single windows ``(n, I)``, oldest step
            first, which are repeated at every step (L19 section 2). A unit of
            ``nn.RKM(feedback=False)`` evaluates this kernel. ``k(X)`` and ``diag(X)`` compare
            sequences.
        static_gates: The pair (a, b) of non-negative numbers, for ``q="linear"`` only.
        unit_norm: Scale windows to unit length, for ``q="gaussian"`` only.

    Shape:
        - X a list of N sequences ``(T_i, I)``; Y a list of M, or of references ``(n, I)``
        - returns ``(N, M)``: a differentiable tensor for tensors, else a float64 array

    Raises:
        ArgumentError: If q is invalid, or a size is not a positive integer.
        ShapeError: If a sequence is not ``(time, features)``.
        KindError: If a sequence has the wrong type, dtype or device.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (5), (9), (14), (15), footnote 2 (footnote 1 of the text on arXiv).
        Hermans and Schrauwen, Recurrent Kernel Machines, Neural Computation 2012.
    """

    def __init__(
        self, q: str | Callable[[Tensor], Tensor] = "exponential", *, check_mercer: bool = True,
        filter_length: int = 1, dilation: int = 1, repeat: bool = False,
        static_gates: tuple[float, float] | None = None, unit_norm: bool = True,
    ) -> None:  # fmt: skip
        self.q = q
        self.check_mercer = check_mercer
        self.filter_length = filter_length
        self.dilation = dilation
        self.repeat = repeat
        self.static_gates = static_gates
        self.unit_norm = unit_norm
        self.check()
        self._check_mercer()

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        self.check()
        Y, is_repeated = OwnReference.inner(Y)
        if is_repeated:
            return self.repeating()(X, Y)
        x, y = read_pair(X, Y)
        has_values = bool(x.items and y.items)
        return self._values(x, lambda: self._gram(x, y) if has_values else empty_gram(x, y))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        self.check()
        x = read_sequences(X)

        def squares() -> Tensor:
            windows, lengths = self._windows(x)
            sq = windows.square().sum(-1)
            return self._nest(lambda age: sq[age] - self._halves(sq[age], sq[age]), lengths)

        return self._values(x, squares if x.items else lambda: empty_gram(x))

    def of_padded(self, x: Tensor, lengths: Tensor, y: Tensor) -> Tensor:
        """Return the kernel of padded sequences and of sequences of L steps.

        Args:
            x: Padded sequences ``(B, T, I)``.
            lengths: Their true lengths ``(B,)``.
            y: Sequences ``(H, L, I)``, of which L steps of x count.

        Returns:
            The kernel ``(B, H)``.
        """
        time = y.shape[1]
        ages = torch.arange(time + (self.filter_length - 1) * self.dilation, device=x.device)
        index = lengths[:, None] - 1 - ages
        rows = torch.arange(x.shape[0], device=x.device)[:, None]
        newest_first = x[rows, index.clamp(min=0)]
        newest_first = torch.where(index[..., None] < 0, 0.0, newest_first)
        windows = self._slots(newest_first.transpose(0, 1), time)
        others = self._slots(y.flip(1).transpose(0, 1), time)
        steps, ends = lengths.clamp(max=time)[:, None].expand(-1, len(y)), lengths[:, None] == time
        return self._nest(self._similarity(windows, others), steps, ends, time)

    def squares_of_padded(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return k(x, x) of padded sequences ``(B, T, I)``, for a linear q."""
        a, b = (0.5, 0.5) if self.static_gates is None else self.static_gates
        squares, reach = x.square().sum(-1), self.filter_length * self.dilation
        time = x.shape[1]
        slots = [F.pad(squares, (age, 0))[:, :time] for age in range(0, reach, self.dilation)]
        decay = torch.as_tensor(b, dtype=x.dtype, device=x.device).expand(1)
        z = a * torch.stack(slots).sum(0).mT[..., None]  # (T, B, 1)
        return gated_scan(z, decay, lengths=lengths)[1][:, 0]

    def shortest_reference(self) -> int:
        """Return 1, or the length of a window if it is repeated."""
        return self.filter_length if self.repeat else 1

    def check(self) -> None:
        for name in ("filter_length", "dilation"):
            check_integer(name, getattr(self, name))
        if not isinstance(self.q, str) and not callable(self.q):
            raise ArgumentError("q", self.q, "a name of functional.NONLINEARITIES, or a callable")
        if isinstance(self.q, str):
            nonlinearity(self.q, "q")
        if not isinstance(self.q, nn.Module):
            self._check_mercer()
        if self.static_gates is None:
            return
        gates = self.static_gates if isinstance(self.static_gates, (tuple, list)) else ()
        if len(gates) != 2 or not all(0 <= value_of(gate) < math.inf for gate in gates):
            expected = "two finite, non-negative numbers"
            raise ArgumentError("static_gates", self.static_gates, expected)
        if self.q != "linear":
            raise ArgumentError("q", self.q, "'linear' with static_gates")

    def _check_mercer(self) -> None:
        violation = mercer_violation(self.q) if self.check_mercer else ""
        if violation:
            raise ArgumentError(
                "q",
                self.q,
                "a power series with non-negative coefficients, which makes k a Mercer kernel",
                hint=f"But {violation}. Pass check_mercer=False to use it anyway.",
            )

    def _gram(self, x: Sequences, y: Sequences) -> Tensor:
        x_windows, x_lengths = self._windows(x)
        if self.repeat and y is not x:
            references = self._references(y)
            lengths = x_lengths[:, None].expand(-1, len(references))
            return self._nest(self._similarity(x_windows, references[None]), lengths)
        y_windows, y_lengths = (x_windows, x_lengths) if y is x else self._windows(y)
        lengths = torch.minimum(x_lengths[:, None], y_lengths)
        similarity = self._similarity(x_windows, y_windows)
        return self._nest(similarity, lengths, x_lengths[:, None] == y_lengths)

    def _similarity(self, x: Tensor, y: Tensor) -> Callable[[int], Tensor]:
        """Return ⟨X_{T−age}, Y_{S−age}⟩ from ``age``; for a Gaussian minus half the squares."""

        def similarity(age: int) -> Tensor:
            left, right = x[age], y[min(age, len(y) - 1)]
            squares = left.square().sum(-1)[:, None], right.square().sum(-1)
            return left @ right.T - self._halves(*squares)

        return similarity

    def _halves(self, xx: Tensor, yy: Tensor) -> Tensor | float:
        """Return ½‖X‖² + ½‖Y‖² for a Gaussian, 1 for windows of unit length; 0 for other q."""
        if self.q != "gaussian":
            return 0.0
        return 1.0 if self.unit_norm else (xx + yy) / 2

    def _nest(
        self, similarity: Callable[[int], Tensor], lengths: Tensor,
        same_start: Tensor | None = None, steps: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Nest q over the common steps of each pair of sequences.

        Args:
            similarity: See `_similarity`.
            lengths: Number of common steps of each pair.
            same_start: True if both sequences of a pair start with the oldest common step; for all
                pairs if it is None.
            steps: Steps at most; by default, the largest length.
        """
        is_gaussian = self.q == "gaussian"
        q = nonlinearity(self.q).value if isinstance(self.q, str) else self.q
        zeros = torch.zeros_like(similarity(0))
        start = lengths >= 0 if same_start is None else same_start
        k = torch.where(start, 1.0, zeros) if is_gaussian else zeros
        for age in reversed(range(int(lengths.max()) if steps is None else steps)):
            if self.static_gates is not None:
                a, b = self.static_gates
                value = a * similarity(age) + b * k
            else:
                z = similarity(age) + k
                value = q(z - 1) if is_gaussian else q(z)
            k = torch.where(age < lengths, value, k)
        return torch.where(lengths > 0, k, zeros)

    def _windows(self, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Return the windows ``(T, N, n·I)``, newest first, and the lengths ``(N,)``."""
        items = sequences.items
        lengths = torch.tensor([len(item) for item in items], device=items[0].device)
        newest_first = torch.nn.utils.rnn.pad_sequence([item.flip(0) for item in items])
        return self._slots(newest_first, max(1, len(newest_first))), lengths

    def _slots(self, newest_first: Tensor, time: int) -> Tensor:
        """Return the windows of the newest steps ``(time, N, n·I)``."""
        reach = (self.filter_length - 1) * self.dilation
        padded = F.pad(newest_first, (0, 0, 0, 0, 0, time + reach - len(newest_first)))
        slots = [padded[start : start + time] for start in range(0, reach + 1, self.dilation)]
        return self._scaled(torch.cat(slots, dim=-1))

    def _references(self, y: Sequences) -> Tensor:
        """Return the references ``(M, n·I)``, newest slot first."""
        for i, reference in enumerate(y.items):
            if len(reference) != self.filter_length:
                raise ShapeError(
                    f"Y[{i}]",
                    reference.shape,
                    f"({self.filter_length}, features): one window, since repeat is True",
                )
        return self._scaled(torch.stack(y.items).flip(1).flatten(1))

    def _scaled(self, windows: Tensor) -> Tensor:
        if self.q != "gaussian" or not self.unit_norm:
            return windows
        norm = windows.norm(dim=-1, keepdim=True)
        return windows / torch.where(norm == 0, 1.0, norm)
