"""A kernel of texts: n-grams of words and of the characters in them, weighted and normalized."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import combinations, repeat
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from representer.checks import check_integer, check_integers, is_integer
from representer.errors import ArgumentError
from representer.kernels.kernel import Kernel, value_of
from representer.kernels.sequences import SPACE, CodeIndex, Numbered, read_texts, token_lists
from representer.kernels.vector_features import Shares, TableFeatures, VectorFeatures
from representer.ops import core
from representer.ops.features import Ngrams, text_features

# A kernel of sequences of tokens through its explicit sparse features: counts of n-grams.

BITS = 62  # of a code; an n-gram of n tokens is a number of n digits, so that no two collide
COUNTED = "It counts tokens, which are not differentiable in a reference; embed them first."


class Occurrence(NamedTuple):
    """One n-gram of a sequence."""

    column: int  # its feature
    where: tuple[int, ...]  # positions of its tokens
    weight: float  # λ to the power of its gaps


class NgramKernel(Kernel):
    r"""Compares the n-grams of two sequences, of several orders, gaps allowed.

    .. math::
        K(x, y) = \sum_g w_g^2\, \psi(c_g(x))\, \psi(c_g(y)), \qquad
        c_g(x) = \sum_{i_1 < \dots < i_n:\; x_{i_1} \dots x_{i_n} = g} \lambda^{i_n - i_1 - n + 1}

    Without `damped` and before `fit`, this is the sum over orders of
    ``StringKernel(n, λ, base="delta", trailing=False)``, L17 (1) between one-hot tokens. Its
    features are sparse, so that a linear model on them needs no Gram matrix.

    Args:
        orders: The lengths n of the n-grams. With N the largest, `fit` numbers the 2^(62/N) − 1
            most frequent tokens, 4095 for N = 5, and warns if there are more.
        decay: λ in [0, 1]; 0 allows no gaps.
        max_gap: Largest number of skipped tokens in an n-gram; None for no limit.
        damped: True for :math:`\psi(c) = \log(1 + c)`, False for :math:`\psi(c) = c`.
        boundary: A token that may begin or end an n-gram and may not be inside, such as the space
            between the words of a string of characters; None for no such token.

    Attributes:
        weights_: w, after `fit` ``(F,)``.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (1).
        Wang and Manning, Baselines and Bigrams: Simple, Good Sentiment and Topic Classification,
        ACL 2012, for the weights.
    """

    def __init__(
        self, orders: Sequence[int] = (1, 2), decay: float = 0.0, max_gap: int | None = None,
        damped: bool = False, boundary: Hashable = None,
    ) -> None:  # fmt: skip
        self.orders = orders
        self.decay = decay
        self.max_gap = max_gap
        self.damped = damped
        self.boundary = boundary
        self.check()

    def __sklearn_is_fitted__(self) -> bool:
        """Return True, since all n-grams count before `fit`."""
        return True

    def no_network(self) -> str:
        return COUNTED

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> NDArray[np.float64]:
        x = token_lists(X)
        y = [] if Y is None else token_lists(Y, "Y")
        model = self._fitted([*x, *y])
        left = model.transform(x)
        right = left if Y is None else model.transform(y)
        return dense(left @ right.T)

    def diag(self, X: Iterable[Any]) -> NDArray[np.float64]:
        x = token_lists(X)
        model = self._fitted(x)
        return np.asarray(model.transform(x).power(2).sum(axis=1)).ravel()

    def fit(self, X: Iterable[Any], min_count: int = 1) -> Self:
        """Number the n-grams of some sequences; see `fit_transform`."""
        self.fit_transform(X, min_count)
        return self

    def fit_transform(
        self, X: Iterable[Any], min_count: int = 1, most: int | None = None
    ) -> sparse.csr_array:
        """Number the n-grams of some sequences and return their features; all weights are 1.

        Args:
            X: Strings, or lists or arrays ``(T_i,)`` of tokens: strings or integers.
            min_count: N-grams in fewer sequences are left out.
            most: Largest number of n-grams, so that the rarest are left out; None for no limit.
        """
        self.check()
        return self.fit_numbered(Numbered.of(token_lists(X)), min_count, most)

    def fit_numbered(
        self, numbered: Numbered, min_count: int = 1, most: int | None = None,
        sums: sparse.csr_array | None = None,
    ) -> sparse.csr_array:  # fmt: skip
        """Number the n-grams of sequences whose tokens are numbered; see `fit_transform`.

        Args:
            numbered: The sequences ``(N,)``.
            min_count: N-grams in fewer sequences, or sums, are left out.
            most: As of `fit_transform`.
            sums: How often each sequence stands in a sum ``(M, N)``: rows of the features are sums
                of sequences, before they are damped. None for the sequences themselves.
        """
        often = None if sums is None else np.repeat(_column_sums(sums), numbered.lengths)
        counts = np.bincount(numbered.ids, often, len(numbered.tokens))
        largest = 2 ** (BITS // max(self.orders)) - 1
        if len(counts) > largest:
            text = f"{len(counts) - largest:,} of {len(counts):,} tokens, the rarest, are left out"
            why = f"with n-grams of {max(self.orders)} tokens, {largest:,} can be numbered"
            warnings.warn(f"{text}: {why}", stacklevel=3)
        ordered = np.argsort(-counts, kind="stable")[:largest].tolist()
        self.tokens_ = tuple(numbered.tokens[number] for number in ordered)
        self._numbers = {token: number for number, token in enumerate(self.tokens_)}
        ids, rows = self._ids(numbered)
        kept, parts, frequencies = [], [], []
        for order in self.orders:
            codes, row_of, values = self._coded(ids, rows, order)
            new, columns = np.unique(codes, return_inverse=True)
            block = _matrix(values, row_of, columns, (len(numbered.lengths), len(new)))
            block = block if sums is None else _sorted(sums @ block)
            frequency = np.bincount(block.indices, minlength=len(new))
            is_frequent = frequency >= min_count
            kept.append(new[is_frequent])
            parts.append(block if is_frequent.all() else _chosen(block, is_frequent))
            frequencies.append(frequency[is_frequent])
        least = _least_count(np.concatenate(frequencies), min_count, most)
        for k, frequency in enumerate(frequencies if least > min_count else ()):
            kept[k], parts[k] = kept[k][frequency >= least], _chosen(parts[k], frequency >= least)
        self._set(kept, np.ones(sum(map(len, kept))))
        return self._weighted(parts)

    def restore(
        self, tokens: Sequence[Hashable], codes: Sequence[NDArray[np.int64]], weights: Any
    ) -> Self:
        """Set what `fit` finds: ``tokens_``, ``codes_`` and ``weights_``.

        Raises:
            ValueError: They do not fit together.
        """
        base = len(tokens) + 1
        if len(set(tokens)) != len(tokens) or base > 2 ** (BITS // max(self.orders)):
            raise ValueError("the tokens are repeated or too many")
        for order, ngrams in zip(self.orders, codes, strict=True):
            is_sorted = bool((np.diff(ngrams) > 0).all())
            if not is_sorted or (len(ngrams) and not 0 <= ngrams[0] <= ngrams[-1] < base**order):
                raise ValueError("the codes of the n-grams are not sorted or out of their range")
        if weights.shape != (sum(map(len, codes)),) or not (weights >= 0).all():
            raise ValueError("the weights do not fit the n-grams")
        self.tokens_ = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens_)}
        self._set(codes, weights)
        return self

    def transform(self, X: Iterable[Any]) -> sparse.csr_array:
        """Return the weighted features ``(N, F)``; n-grams that `fit` did not number are 0."""
        return self.transform_numbered(Numbered.of(token_lists(X)))

    def transform_numbered(
        self, numbered: Numbered, sums: sparse.csr_array | None = None
    ) -> sparse.csr_array:
        """Return the weighted features of sequences, or of sums of them; see `fit_numbered`."""
        ids, rows = self._ids(numbered)
        parts, start = [], 0
        for order, terms, index in zip(self.orders, self.codes_, self._indices, strict=True):
            codes, row_of, values = self._coded(ids, rows, order)
            columns = index.positions(codes)
            is_known = columns >= 0
            parts.append((values[is_known], row_of[is_known], columns[is_known] + start))
            start += len(terms)
        values, row_of, columns = map(np.concatenate, zip(*parts, strict=True))
        features = _matrix(values, row_of, columns, (len(numbered.lengths), start))
        return self._weighted([features if sums is None else sums @ features])

    def view(self, numbered: Numbered, summed: NDArray[np.int64] | None = None) -> Ngrams:
        """Return sequences as the core counts them; `summed` are those of all texts."""
        inside = -1 if self.boundary is None else self._numbers.get(self.boundary, -1)
        tables = [index.table for index in self._indices]
        return Ngrams(
            np.array(self.orders, np.int64), self.codes_, tables, self.weights_,
            len(self.tokens_) + 1, inside, self._ids(numbered)[0], numbered.lengths, summed,
        )  # fmt: skip

    def occurrences(self, x: Any) -> Iterator[Occurrence]:
        """Yield the n-grams of a sequence that `fit` has numbered."""
        ids, rows = self._ids(Numbered.of(token_lists([x])))
        start = 0
        for order, ngrams, index in zip(self.orders, self.codes_, self._indices, strict=True):
            for offsets in self._offsets(order, len(ids)):
                codes, _, starts = self._at(ids, rows, offsets)
                columns = index.positions(codes)
                is_known = columns >= 0
                weight = self._weight(offsets)
                for column, first in zip(columns[is_known], starts[is_known], strict=True):
                    where = tuple(int(first) + offset for offset in offsets)
                    yield Occurrence(start + int(column), where, weight)
            start += len(ngrams)

    def _fitted(self, x: list[Any]) -> NgramKernel:
        return self if hasattr(self, "weights_") else NgramKernel(**self.get_params(False)).fit(x)

    def _set(self, codes: Sequence[NDArray[np.int64]], weights: NDArray[np.float64]) -> None:
        self.codes_, self.weights_ = tuple(codes), weights
        self._indices = [CodeIndex(ngrams) for ngrams in codes]

    def _weighted(self, parts: list[sparse.csr_array]) -> sparse.csr_array:
        """Return the features of all orders, from counts of n-grams of each."""
        features = _beside(parts)
        if self.damped:
            features.data = np.log1p(features.data)
        features.data *= self.weights_[features.indices]
        return features

    def _ids(self, numbered: Numbered) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the number of every token, -1 if unknown, and its sequence."""
        numbers = map(self._numbers.get, numbered.tokens, repeat(-1))
        of_tokens = np.fromiter(numbers, np.int64, len(numbered.tokens))
        rows = np.repeat(np.arange(len(numbered.lengths), dtype=np.int32), numbered.lengths)
        return of_tokens[numbered.ids], rows

    def _coded(
        self, ids: NDArray[np.int64], rows: NDArray[np.int32], order: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return the code, sequence and weight of every n-gram."""
        longest = int(np.bincount(rows).max()) if len(rows) else 0
        parts = []
        for offsets in self._offsets(order, longest):
            codes, row_of, _ = self._at(ids, rows, offsets)
            parts.append((codes, row_of, np.broadcast_to(self._weight(offsets), len(codes))))
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
        if len(parts) == 1:  # without copies
            return parts[0]
        codes, row_of, values = map(np.concatenate, zip(*parts, strict=True))
        return codes, row_of, values

    def _at(
        self, ids: NDArray[np.int64], rows: NDArray[np.int32], offsets: tuple[int, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        """Return code, sequence and first position of the n-grams with these offsets."""
        last, base = offsets[-1], len(self.tokens_) + 1
        count = max(0, len(ids) - last)
        is_fine = rows[:count] == rows[last : last + count]
        codes = np.zeros(count, np.int64)
        inside = self._numbers.get(self.boundary, -1) if self.boundary is not None else -1
        for k, offset in enumerate(offsets):
            tokens = ids[offset : offset + count]
            is_fine = is_fine & (tokens >= 0)
            if inside >= 0 and 0 < k < len(offsets) - 1:
                is_fine &= tokens != inside
            codes = codes * base + tokens
        return codes[is_fine], rows[:count][is_fine], np.flatnonzero(is_fine)

    def _offsets(self, order: int, longest: int) -> Iterator[tuple[int, ...]]:
        """Yield the positions of the tokens of an n-gram, counted from its first."""
        most = longest - order if self.max_gap is None else min(self.max_gap, longest - order)
        if most < 0:
            return
        if order == 1:
            yield (0,)
            return
        for end in range(order - 1, order + (most if self.decay > 0 else 0)):
            for inner in combinations(range(1, end), order - 2):
                yield (0, *inner, end)

    def _weight(self, offsets: tuple[int, ...]) -> float:
        return float(self.decay) ** (offsets[-1] - len(offsets) + 1)

    def check(self) -> None:
        check_integers("orders", self.orders, 1, 8)
        if not 0 <= value_of(self.decay) <= 1:
            raise ArgumentError("decay", self.decay, "a number in [0, 1]")
        if self.max_gap is not None and not is_integer(self.max_gap, 0):
            raise ArgumentError("max_gap", self.max_gap, "0 or more, or None")


def dense(matrix: Any) -> NDArray[np.float64]:
    """Return a sparse matrix as an array."""
    return matrix.toarray()  # scipy types a product as any of its results


def _matrix(
    values: NDArray[np.float64], rows: NDArray[np.int32], columns: NDArray[np.int64],
    shape: tuple[int, int],
) -> sparse.csr_array:  # fmt: skip
    """Return the matrix of sums of values with the same row and column."""
    indices = rows.astype(np.int32, copy=False), columns.astype(np.int32)
    return sparse.coo_array((values, indices), shape=shape).tocsr()


def _least_count(frequencies: NDArray[np.int64], min_count: int, most: int | None) -> int:
    """Return the number of sequences that an n-gram must be in, so that no more than `most` are."""
    if most is None or (frequencies >= min_count).sum() <= most:
        return min_count
    return int(np.partition(frequencies, -most - 1)[-most - 1]) + 1


def _chosen(matrix: sparse.csr_array, is_chosen: NDArray[np.bool_]) -> sparse.csr_array:
    """Return some columns of a matrix."""
    columns = np.cumsum(is_chosen, dtype=np.int32) - 1
    is_kept = is_chosen[matrix.indices]
    ends = np.concatenate([[0], np.cumsum(is_kept)])[matrix.indptr]
    entries = matrix.data[is_kept], columns[matrix.indices[is_kept]], ends.astype(np.int32)
    return sparse.csr_array(entries, shape=(len(ends) - 1, int(is_chosen.sum())))


def _beside(parts: list[Any]) -> sparse.csr_array:
    """Return the columns of all parts."""
    return parts[0] if len(parts) == 1 else sparse.csr_array(sparse.hstack(parts, format="csr"))


def _sorted(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return a matrix with its columns in order, in place."""
    matrix.sort_indices()
    return matrix


def _column_sums(matrix: sparse.csr_array) -> NDArray[Any]:
    shape: Any = matrix.shape
    return np.bincount(matrix.indices, matrix.data, shape[1])


# Weights of sparse features, by how rare they are and how unevenly spread over classes.


def inverse_document_frequency(features: sparse.csr_array) -> NDArray[np.float64]:
    """Return ``log((1 + N) / (1 + df)) + 1`` of each column ``(F,)``."""
    shape: Any = features.shape
    rows, columns = shape
    frequency = np.bincount(features.indices, minlength=columns)
    return np.log((1 + rows) / (1 + frequency)) + 1


def class_ratio(features: sparse.csr_array, classes: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return :math:`\max_c |\log (p_{gc} / q_{gc})|` of each column g ``(F,)``.

    p and q are the shares of a column among the occurrences in class c and in all others, with one
    occurrence added to each. Of the features ``(N, F)``, only which are not 0 counts; the classes
    ``(N, C)`` are indicators.

    References:
        Wang and Manning, Baselines and Bigrams, ACL 2012.
    """
    is_there = sparse.csr_array(
        (np.ones(len(features.data)), features.indices, features.indptr), shape=features.shape
    )
    inside = sparse.csr_array(classes.T) @ is_there
    count, every = classes.shape[1], np.asarray(inside.sum(axis=0)).ravel()
    ratio, totals = np.zeros(len(every)), np.asarray(inside.sum(axis=1)).ravel() + len(every)
    for c in range(count):  # one at a time, so that many classes need little memory
        p = dense(inside[[c]])[0] + 1
        q = every + count - p - (count - 2)
        np.maximum(ratio, np.abs(np.log(p / totals[c] * (q.sum() / q))), out=ratio)
    return ratio


def unit_rows(features: sparse.csr_array) -> sparse.csr_array:
    """Return features with rows of length 1, in place; rows of zeros stay."""
    lengths = np.diff(features.indptr)
    is_filled = lengths > 0
    starts = features.indptr[:-1][is_filled]
    if len(starts):
        norms = np.sqrt(np.add.reduceat(features.data**2, starts))
        features.data /= np.repeat(np.where(norms > 0, norms, 1.0), lengths[is_filled])
    return features


SLICE = 1 << 20  # characters whose features are computed together
WORDS, CHARACTERS = VIEWS = ("words", "characters")
VECTORS, TABLE = "vectors", "features"
MAX_COEFFICIENTS = 1 << 25  # n-grams times classes: 256 MiB
EVEN = 0.5  # of the mean square of the weights by classes, added to each of these squares


class TextFeature(NamedTuple):
    """The part of a text's features that one n-gram makes up."""

    column: int  # its feature
    view: str  # ``"words"``, ``"characters"`` or ``"vectors"``
    # positions of the words, or of the characters in the text of joined words
    where: tuple[int, ...]
    value: float  # its part of the feature's value


class TextKernel(Kernel):
    r"""The mean of two kernels of texts, each scaled to a unit diagonal.

    One compares the n-grams of words, the other those of characters inside words, see
    :class:`NgramKernel` with ``damped=True``. `fit` weights every n-gram by its inverse document
    frequency and, if it is given classes, by :math:`\sqrt{r^2 + m / 2}`, with r how unevenly it is
    spread over them, see `class_ratio`, and m the mean of :math:`r^2`. With vectors, the kernels of
    `VectorFeatures` are added to this mean.

    Args:
        split: From a text to its words. If it has a method ``numbered``, from texts to `Numbered`,
            many texts are read by that.
        orders: Lengths of the n-grams of words.
        characters: Lengths of the n-grams of characters.
        min_count: N-grams of words in fewer texts are left out.
        min_characters: N-grams of characters in fewer texts are left out.
        vectors: Vectors of words, ``data.text.WordVectors``; None for n-grams alone.
        features: Names of columns next to the texts, which are `TextRow`: the kernel of their
            `TableFeatures` is added.

    Raises:
        NotFittedError: If the kernel is called before `fit`.

    References:
        Wang and Manning, Baselines and Bigrams, ACL 2012.
    """

    def __init__(
        self, split: Callable[[str], list[str]] = str.split, orders: tuple[int, ...] = (1, 2, 3),
        characters: tuple[int, ...] = (2, 3, 4, 5), min_count: int = 2, min_characters: int = 3,
        vectors: Any = None, features: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.split = split
        self.orders = orders
        self.characters = characters
        self.min_count = min_count
        self.min_characters = min_characters
        self.vectors = vectors
        self.features = features

    def of_rare(self) -> Self:
        """Return an unfitted kernel that counts every n-gram, for classes of a few texts."""
        rare: dict[str, Any] = {"min_count": 1, "min_characters": 1}
        return type(self)(**self.get_params(False) | rare)

    def no_network(self) -> str:
        return COUNTED

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> NDArray[np.float64]:
        check_is_fitted(self)
        left = self.transform(X)
        right = left if Y is None else self.transform(Y)
        return dense(left @ right.T)

    def diag(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return k(x, x) of each text: 1 if both views know one of its n-grams, without vectors."""
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
        X = X if isinstance(X, Sequence) or not self.features else list(X)
        read, most = self._read(X), None
        if targets is not None:
            most = MAX_COEFFICIENTS // (len(self.views_) * targets.shape[1])
        for (numbered, *sums), kernel, count in zip(read, self.views_, least, strict=True):
            features = kernel.fit_numbered(numbered, count, most, *sums)
            kernel.weights_ = inverse_document_frequency(features)
            if targets is not None and targets.shape[1] > 1:
                squares = class_ratio(features, targets) ** 2
                kernel.weights_ *= np.sqrt(
                    squares + EVEN * (squares.mean() if len(squares) else 0.0)
                )
            features.data *= kernel.weights_[features.indices]
            parts.append(features)
        self.vectors_ = None if self.vectors is None else VectorFeatures(self.vectors)
        self.table_ = TableFeatures(self.features).fit(list(X)) if self.features else None
        dense = [self.vectors_.fit_transform(read[0][0].lists())] if self.vectors_ else []
        return _joined(parts, [*dense, *([self.table_.transform(list(X))] if self.table_ else [])])

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        tokens, arrays = {}, {}
        for name, view in zip(VIEWS, self.views_, strict=True):
            tokens[name] = list(view.tokens_)
            arrays[f"{name}.weights"] = view.weights_
            arrays |= {
                f"{name}.{n}": codes for n, codes in zip(view.orders, view.codes_, strict=True)
            }
        if self.vectors_ is not None:
            tokens[VECTORS], learned = self.vectors_.fitted()
            arrays |= learned
        if self.table_ is not None:
            tokens[TABLE] = self.table_.fitted()
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
        has_vectors = VECTORS in tokens
        self.vectors_ = VectorFeatures(self.vectors) if has_vectors else None
        if self.vectors_ is not None:
            self.vectors_.restore(tokens[VECTORS], arrays)
        self.table_ = None
        if self.features:
            self.table_ = TableFeatures(self.features).restore(tokens[TABLE])
        return self

    @property
    def width(self) -> int:
        """Number of features."""
        return self._counted + sum(dense.width for dense in (self.vectors_, self.table_) if dense)

    @property
    def _counted(self) -> int:
        """Number of n-grams."""
        return sum(len(view.weights_) for view in self.views_)

    def knows(self, text: str) -> bool:
        """Return True if a text has an n-gram that `fit` has numbered, or a word with a vector."""
        if self.occurrences(text)[1]:
            return True
        return self.vectors_ is not None and bool(
            (self.vectors_.vectors.rows(self.split(text)) >= 0).any()
        )

    def vector_shares(self, text: str, coefficients: NDArray[np.float64]) -> Shares:
        """Return the parts in a score with these coefficients, see `VectorFeatures.shares`."""
        if self.vectors_ is None:
            return 0.0, []
        start, width = self._counted, self.vectors_.width
        return self.vectors_.shares(self.split(text), coefficients[start : start + width])

    def table_shares(self, text: str, coefficients: NDArray[np.float64]) -> list[tuple[str, float]]:
        """Return what each column next to the text adds to a score with these coefficients."""
        if self.table_ is None:
            return []
        return self.table_.shares(text, coefficients[self.width - self.table_.width :])

    def transform(self, X: Iterable[str]) -> sparse.csr_array:
        """Return the features ``(N, F)``, whose inner products are the kernel."""
        parts = [*map(self._features, _slices(X))]
        return parts[0] if len(parts) == 1 else sparse.csr_array(sparse.vstack(parts, format="csr"))

    def occurrences(self, text: str) -> tuple[str, list[TextFeature]]:
        """Return the text of joined words, and each n-gram's part of the features."""
        words = self.split(text)
        joined = f"{SPACE}{SPACE.join(words)}{SPACE}"
        values = self._features([text])
        shown = dict(zip(values.indices.tolist(), values.data.tolist(), strict=True))
        result, start = [], 0
        for name, kernel, ids in zip(VIEWS, self.views_, (words, joined), strict=True):
            places = list(kernel.occurrences(ids))
            totals: dict[int, float] = {}
            for each in places:
                totals[each.column] = totals.get(each.column, 0.0) + each.weight
            for each in places:
                share = each.weight / totals[each.column] * shown.get(start + each.column, 0.0)
                result.append(TextFeature(start + each.column, name, each.where, share))
            start += len(kernel.weights_)
        return joined, result

    def _features(self, X: list[str]) -> sparse.csr_array:
        read = self._read(X)
        counted = self._counted_features(read)
        dense = [self.vectors_.transform(read[0][0].lists())] if self.vectors_ else []
        beside = [*dense, *([self.table_.transform(X)] if self.table_ else [])]
        return _beside([counted, *beside]) if beside else counted

    def _counted_features(self, read: list[tuple[Any, ...]]) -> sparse.csr_array:
        """Return the features of n-grams, to the last bit the same with and without the core."""
        words, characters = read[0][0], read[1][0]
        if core.MISSING:
            views = zip(self.views_, read, strict=True)
            return _joined([kernel.transform_numbered(*numbered) for kernel, numbered in views])
        pairs = (words, None), (characters, words.ids)
        views = [view.view(*pair) for view, pair in zip(self.views_, pairs, strict=True)]
        *entries, width = text_features(views, words.lengths, len(views) ** -0.5)
        return sparse.csr_array(tuple(entries), shape=(len(words.lengths), width))

    def _new_views(self) -> list[NgramKernel]:
        return [
            NgramKernel(self.orders, damped=True),
            NgramKernel(self.characters, damped=True, boundary=SPACE),
        ]

    def _read(self, X: Iterable[str]) -> list[tuple[Any, ...]]:
        """Return what each view counts: words of texts, and characters of words, of texts.

        No n-gram of characters reaches beyond its word and the spaces around it, so that those of a
        text are the sum of those of its words.
        """
        texts, split = read_texts(X), self.split
        many: Callable[[Iterable[str]], Numbered] | None = getattr(split, "numbered", None)
        words = many(texts) if many else Numbered.of(map(split, texts))
        ends = np.concatenate([[0], np.cumsum(words.lengths)]).astype(np.int32)
        counted = np.ones(len(words.ids)), words.ids.astype(np.int32), ends
        sums = sparse.csr_array(counted, shape=(len(ends) - 1, len(words.tokens)))
        return [(words,), (Numbered.of_characters(words.tokens), sums)]


def _slices(X: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts in slices, since a character makes up hundreds of bytes of n-grams."""
    batch, size = list[str](), 0
    for text in read_texts(X):
        batch.append(text)
        size += len(text)
        if size > SLICE:
            yield batch
            batch, size = [], 0
    yield batch


def _joined(
    parts: list[sparse.csr_array], beside: Sequence[NDArray[np.float64]] = ()
) -> sparse.csr_array:
    """Return the features of all views, each scaled to rows of length 1 and equally weighted.

    Those of vectors and of other columns, if there are any, stand beside them.
    """
    joined = _beside([unit_rows(x) for x in parts])
    joined.data *= len(parts) ** -0.5
    return _beside([joined, *beside]) if beside else joined
