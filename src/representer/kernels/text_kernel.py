"""A kernel of texts: n-grams of words and of the characters in them, weighted and normalized."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError
from representer.kernels.kernel import Kernel
from representer.kernels.ngram_kernel import NgramKernel, dense
from representer.kernels.ngram_weights import class_ratio, inverse_document_frequency, unit_rows
from representer.kernels.tokens import read_texts
from representer.requirements import check_integer

SPACE = " "
SLICE = 1 << 18  # characters whose features are computed together
WORDS, CHARACTERS = VIEWS = ("words", "characters")


class TextFeature(NamedTuple):
    """The part of a text's features that one n-gram makes up.

    Attributes:
        column: Its feature.
        view: ``"words"`` or ``"characters"``.
        where: Positions of the words, or of the characters in the text of joined words.
        value: Its part of the feature's value.
    """

    column: int
    view: str
    where: tuple[int, ...]
    value: float


class TextKernel(Kernel):
    r"""The mean of two kernels of texts, each scaled to a unit diagonal.

    One compares the n-grams of words, the other those of characters inside words, see
    :class:`NgramKernel` with ``damped=True``. `fit` weights every n-gram by its inverse document
    frequency and, if it is given classes, by how unevenly it is spread over them.

    Args:
        split: From a text to its words.
        orders: Lengths of the n-grams of words.
        characters: Lengths of the n-grams of characters.
        min_count: N-grams of words in fewer texts are left out.
        min_characters: N-grams of characters in fewer texts are left out.

    References:
        Wang and Manning, Baselines and Bigrams, ACL 2012.
    """

    def __init__(
        self,
        split: Callable[[str], list[str]] = str.split,
        orders: tuple[int, ...] = (1, 2, 3),
        characters: tuple[int, ...] = (2, 3, 4, 5),
        min_count: int = 2,
        min_characters: int = 3,
    ) -> None:
        self.split = split
        self.orders = orders
        self.characters = characters
        self.min_count = min_count
        self.min_characters = min_characters

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """Return the Gram matrix of X with Y, or of X with itself."""
        check_is_fitted(self)
        left = self.transform(X)
        right = left if Y is None else self.transform(Y)
        return dense(left @ right.T)

    def diag(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return k(x, x) of each text: 1 if both views know one of its n-grams."""
        check_is_fitted(self)
        return np.asarray(self.transform(X).power(2).sum(axis=1)).ravel()

    def fit(self, X: Iterable[str], targets: NDArray[np.float64] | None = None) -> Self:
        """Number and weight the n-grams of some texts; see `fit_transform`."""
        self.fit_transform(X, targets)
        return self

    def fit_transform(
        self, X: Iterable[str], targets: NDArray[np.float64] | None = None
    ) -> sparse.csr_array:
        """Number and weight the n-grams of some texts, and return their features ``(N, F)``.

        Args:
            X: The texts.
            targets: Indicators of the class of each ``(N, C)``; a single column is not used.
        """
        least = self.min_count, self.min_characters
        for name in ("min_count", "min_characters"):
            check_integer(name, getattr(self, name), 0)
        if not callable(self.split):
            raise ArgumentError("split", self.split, "a function from a text to its words")
        self.views_, parts = self._new_views(), []
        for sequences, kernel, count in zip(self._read(X), self.views_, least, strict=True):
            features = kernel.fit_transform(sequences, count)
            kernel.weights_ = inverse_document_frequency(features)
            if targets is not None and targets.shape[1] > 1:
                kernel.weights_ *= class_ratio(features, targets)
            features.data *= kernel.weights_[features.indices]
            parts.append(features)
        return _joined(parts)

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        tokens, arrays = {}, {}
        for name, view in zip(VIEWS, self.views_, strict=True):
            tokens[name] = list(view.tokens_)
            arrays[f"{name}.weights"] = view.weights_
            arrays |= {f"{name}.{n}": own for n, own in zip(view.orders, view.codes_, strict=True)}
        return tokens, arrays

    def restore(self, tokens: dict[str, list[str]], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        self.views_ = self._new_views()
        for name, view in zip(VIEWS, self.views_, strict=True):
            codes = [arrays[f"{name}.{n}"] for n in view.orders]
            view.restore(tokens[name], codes, arrays[f"{name}.weights"])
        return self

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(len(view.weights_) for view in self.views_)

    def transform(self, X: Iterable[str]) -> sparse.csr_array:
        """Return the features ``(N, F)``, whose inner products are the kernel."""
        return sparse.csr_array(sparse.vstack([*map(self._features, _slices(X))], format="csr"))

    def occurrences(self, text: str) -> tuple[str, list[TextFeature]]:
        """Return the text of joined words, and each n-gram's part of the features."""
        (words,), (joined,) = self._read([text])
        values = self._features([text])
        own = dict(zip(values.indices.tolist(), values.data.tolist(), strict=True))
        result, start = [], 0
        for name, kernel, one in zip(VIEWS, self.views_, (words, joined), strict=True):
            found = list(kernel.occurrences(one))
            totals: dict[int, float] = {}
            for each in found:
                totals[each.column] = totals.get(each.column, 0.0) + each.weight
            for each in found:
                share = each.weight / totals[each.column] * own.get(start + each.column, 0.0)
                result.append(TextFeature(start + each.column, name, each.where, share))
            start += len(kernel.weights_)
        return joined, result

    def _features(self, X: Iterable[str]) -> sparse.csr_array:
        views = zip(self.views_, self._read(X), strict=True)
        return _joined([kernel.transform(sequences) for kernel, sequences in views])

    def _new_views(self) -> list[NgramKernel]:
        return [
            NgramKernel(self.orders, damped=True),
            NgramKernel(self.characters, damped=True, boundary=SPACE),
        ]

    def _read(self, X: Iterable[str]) -> tuple[list[list[str]], list[str]]:
        """Return the words of each text, and its joined words with spaces around them."""
        words = [self.split(text) for text in read_texts(X)]
        return words, [f"{SPACE}{SPACE.join(own)}{SPACE}" for own in words]


def _slices(X: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts in slices, since a character makes up hundreds of bytes of n-grams."""
    own, size = list[str](), 0
    for text in read_texts(X):
        own.append(text)
        size += len(text)
        if size > SLICE:
            yield own
            own, size = [], 0
    yield own


def _joined(parts: list[sparse.csr_array]) -> sparse.csr_array:
    """Return the features of all views, each scaled to rows of length 1 and equally weighted."""
    joined = sparse.hstack([unit_rows(part) for part in parts], format="csr")
    return sparse.csr_array(joined) * len(parts) ** -0.5
