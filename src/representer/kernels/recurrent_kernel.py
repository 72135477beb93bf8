"""The recurrent kernel between sequences, L19 (5), (14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError, ShapeError
from representer.functional import nonlinearity
from representer.kernels.composition import mercer_violation
from representer.kernels.kernel import Kernel, takes_rows
from representer.kernels.sequences import Sequences, empty_gram, read_pair, read_sequences

if TYPE_CHECKING:
    from representer.nn import RKM


class RecurrentKernel(Kernel):
    r"""Compares two sequences step by step, from their last steps backwards.

    .. math::
        k(x, y) = q(\langle X_T, Y_S \rangle + k(x_{<T}, y_{<S})), \qquad k(\emptyset, \cdot) = 0

    where X_t = (x_t, x_{t−d}, …, x_{t−(n−1)d}) with zeros before the first step; X_t = x_t for
    n = 1. Steps of the longer sequence beyond the length of the shorter one have no influence. The
    nested values grow without bound if q is not a contraction (for the exponential, with inner
    products above about 0.2), and z/(2 − z) is a kernel only for arguments below 2, so the inputs
    must be scaled.

    ``q="gaussian"`` is footnote 2's form on windows scaled to unit length,
    :math:`k = e^{-\frac12 \lVert X_T - Y_S \rVert^2 - \frac12 \lVert h_x - h_y \rVert^2}` with
    :math:`\frac12 \lVert h_x - h_y \rVert^2 = 1 - k(x_{<T}, y_{<S})`. Here, two empty prefixes are
    equal, an empty and a non-empty one are orthogonal, and a window of zeros is orthogonal to all
    others. As for every q, the kernel of an empty sequence is 0.

    Args:
        q: A name of ``functional.NONLINEARITIES``, or an elementwise callable of a tensor.
        check_mercer: Raise an error if q has no power series with non-negative coefficients;
            without the check, the Gram matrix may have negative eigenvalues.
        filter_length: n, steps in a window.
        dilation: d, steps between the slots of a window.
        repeat: Treat the objects of Y as references: single windows ``(n, I)``, oldest step first,
            which are repeated at every step (L19 section 2). A unit of ``nn.RKM(feedback=False)``
            evaluates this kernel.

    Shape:
        - X a list of N sequences ``(T_i, I)``; Y a list of M, or of references ``(n, I)``
        - returns ``(N, M)``: a differentiable tensor for tensors, else a float64 array

    Raises:
        ArgumentError: If q is invalid, or a size is not a positive integer.
        ShapeError: If a sequence is not ``(time, features)``.
        KindError: If a sequence has the wrong type, dtype or device.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (5), (14), footnote 2.
        Hermans and Schrauwen, Recurrent Kernel Machines, Neural Computation 2012.
    """

    def __init__(
        self,
        q: str | Callable[[Tensor], Tensor] = "exponential",
        *,
        check_mercer: bool = True,
        filter_length: int = 1,
        dilation: int = 1,
        repeat: bool = False,
    ) -> None:
        self.q = q
        self.check_mercer = check_mercer
        self.filter_length = filter_length
        self.dilation = dilation
        self.repeat = repeat
        self._check()

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        """Return the Gram matrix of X with Y, or of X with itself."""
        self._check()
        if Y is None and self.repeat:
            raise ArgumentError(
                "Y",
                None,
                f"a list of references ({self.filter_length}, features), since repeat is True",
                hint="To compare sequences with sequences, use repeat=False.",
            )
        x, y = read_pair(X, Y)
        has_values = bool(x.items and y.items)
        return self._values(x, lambda: self._gram(x, y) if has_values else empty_gram(x, y))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        """Return k(x, x) of each sequence."""
        self._check()
        if self.repeat:
            raise ArgumentError(
                "repeat",
                True,
                "False for diag()",
                hint="A reference has no length, so it has no kernel with itself.",
            )
        x = read_sequences(X)

        def squares() -> Tensor:
            windows, lengths = self._windows(x)
            own = windows.square().sum(-1)
            return self._nest(lambda age: own[age], lengths, lengths >= 0)

        return self._values(x, squares if x.items else lambda: empty_gram(x))

    def network(self, input_size: int, hidden_size: int, **options: Any) -> RKM:
        """Return a layer whose units evaluate this kernel against learned references.

        References are repeated at every step: ``network.kernel`` is this kernel with
        ``repeat=True``, and the last output of unit i is ``network.kernel([x], [reference_i])``.

        Args:
            input_size: I, features of one step.
            hidden_size: Number of references.
            options: Other arguments of :class:`representer.nn.RKM`.
        """
        self._check()
        return self._network(input_size, hidden_size, options)

    def _check(self) -> None:
        for name in ("filter_length", "dilation"):
            check_integer(name, getattr(self, name))
        if not isinstance(self.q, str) and not callable(self.q):
            raise ArgumentError("q", self.q, "a name of functional.NONLINEARITIES, or a callable")
        if isinstance(self.q, str):
            nonlinearity(self.q, "q")
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
        if self.repeat:
            references = self._references(y)
            lengths = x_lengths[:, None].expand(-1, len(references))
            return self._nest(lambda age: x_windows[age] @ references.T, lengths, lengths >= 0)
        y_windows, y_lengths = (x_windows, x_lengths) if y is x else self._windows(y)
        lengths = torch.minimum(x_lengths[:, None], y_lengths)
        same_start = x_lengths[:, None] == y_lengths
        return self._nest(lambda age: x_windows[age] @ y_windows[age].T, lengths, same_start)

    def _nest(
        self, similarity: Callable[[int], Tensor], lengths: Tensor, same_start: Tensor
    ) -> Tensor:
        """Nest q over the common steps of each pair of sequences.

        Args:
            similarity: ⟨X_{T−age}, Y_{S−age}⟩ of every pair, from ``age``.
            lengths: Number of common steps of each pair.
            same_start: True if both sequences of a pair start with the oldest common step.
        """
        gaussian = self.q == "gaussian"
        q = nonlinearity(self.q).value if isinstance(self.q, str) else self.q
        zeros = torch.zeros_like(similarity(0))
        k = torch.where(same_start, 1.0, zeros) if gaussian else zeros
        for age in reversed(range(int(lengths.max()))):
            z = similarity(age) + k
            k = torch.where(age < lengths, q(z - 2) if gaussian else q(z), k)
        return torch.where(lengths > 0, k, zeros)

    def _windows(self, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Return the windows ``(T, N, n·I)``, newest first, and the lengths ``(N,)``."""
        items = sequences.items
        lengths = torch.tensor([len(item) for item in items], device=items[0].device)
        newest_first = torch.nn.utils.rnn.pad_sequence([item.flip(0) for item in items])
        time, reach = max(1, len(newest_first)), (self.filter_length - 1) * self.dilation
        padded = F.pad(newest_first, (0, 0, 0, 0, 0, time + reach - len(newest_first)))
        slots = [padded[start : start + time] for start in range(0, reach + 1, self.dilation)]
        return self._scaled(torch.cat(slots, dim=-1)), lengths

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
        if self.q != "gaussian":
            return windows
        norm = windows.norm(dim=-1, keepdim=True)
        return windows / torch.where(norm == 0, 1.0, norm)
