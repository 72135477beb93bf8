"""The kernel of k-mers with gaps, by explicit features: letters at the places of fixed patterns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise, product
from math import comb, prod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from representer.checks import check_integer
from representer.errors import ArgumentError, DataError
from representer.kernels.alphabets import ALPHABETS, codes_of, detected, letter_vectors
from representer.kernels.kernel import Kernel, Objects
from representer.ops import core
from representer.ops.features import sparse_gram

POOLINGS = ("sum", "max")
STRANDS = ("one", "both")
UNKNOWN = -1  # the code of a token that training has not seen
MOST_OPTIONS = 256  # k-mers that the ambiguous letters of one stand for
_TABLED = 2**20  # codes whose positions are looked up in a table
_MOST_CODES = 2**62  # different k-mers of a pattern, whose codes are 64-bit integers
_MOST_DENSE = 2**14  # k-mers of a pattern, where letters are similar
_MOST_VALUES = 2**27  # k-mers of all sequences; of more, fewer patterns are read
_BLOCK = 2**18  # letters of sequences whose k-mers are in memory together
_CHOSEN_ON, _CHOSEN_BY = 1000, 6  # sequences on which strands are compared, and patterns
_RIDGE = tuple(2.0**k for k in range(-7, 7))
_WITH_STRANDS = ("dna", "rna")  # in which codes k and 3 - k are complements


class Letters(NamedTuple):
    """The letters or tokens that sequences consist of."""

    alphabet: str  # ``"dna"``, ``"rna"``, ``"protein"`` or ``"any"``
    tokens: tuple[Any, ...]  # its letters, or all tokens of the training sequences

    @classmethod
    def learn(cls, alphabet: str, sequences: Sequence[Any]) -> Letters:
        """Return the letters of an alphabet; ``"auto"`` detects it."""
        name = detected(sequences) if alphabet == "auto" else alphabet
        if name in ALPHABETS:
            return cls(name, tuple(ALPHABETS[name]))
        tokens = {token for item in sequences for token in item}
        return cls(name, tuple(sorted(tokens, key=lambda token: (type(token).__name__, token))))

    def options(self) -> list[tuple[int, ...]]:
        """Return the letters that each code stands for: first of each letter, then of the others.

        The last code is that of a gap or of an unknown token, which stands for none.
        """
        plain: list[tuple[int, ...]] = [(k,) for k in range(len(self.tokens))]
        if self.alphabet not in ALPHABETS:
            return [*plain, ()]
        ambiguous = {some for some in codes_of(self.alphabet).values() if len(some) > 1}
        return [*plain, *sorted(ambiguous), ()]

    def complements(self) -> NDArray[np.int64]:
        """Return the code of the complement of each code of DNA or RNA."""
        options = self.options()
        return np.array([options.index(tuple(sorted(3 - k for k in some))) for some in options])

    def encode(self, X: Sequence[Any]) -> list[NDArray[np.int64]]:
        """Return the code of each token of each sequence ``(T_i,)``, see `options`."""
        options = self.options()
        if self.alphabet not in ALPHABETS:
            offset = {token: k for k, token in enumerate(self.tokens)}
            last = len(options) - 1
            return [np.array([offset.get(token, last) for token in item], np.int64) for item in X]
        offset = {some: k for k, some in enumerate(options)}
        table = np.full(128, UNKNOWN)
        for letter, some in codes_of(self.alphabet).items():
            table[[ord(letter), ord(letter.lower())]] = offset[some]
        listed = []
        for row, item in enumerate(X):
            text = item if isinstance(item, str) else "".join(map(str, item))
            raw = np.frombuffer(text.encode("ascii", "replace"), np.uint8)
            codes = table[np.minimum(raw, 127)]
            if len(rows_at := np.flatnonzero(codes == UNKNOWN)) or len(raw) != len(item):
                where = int(rows_at[0]) if len(rows_at) else 0
                letter, name = text[where], self.alphabet
                problem = (
                    f"X[{row}] has {letter!r} at position {where}, which is no letter of {name}"
                )
                fix = "Correct it, or pass alphabet='any', for which any token is a letter."
                raise DataError(problem, fix=fix)
            listed.append(codes)
        return listed

    def vectors(self, base: str) -> NDArray[np.float64]:
        """Return the vector of each code ``(codes, d)``: the mean of those it stands for."""
        entry = letter_vectors(base, self.alphabet, len(self.tokens))
        zeros = np.zeros(entry.shape[1])
        return np.array([entry[list(some)].mean(0) if some else zeros for some in self.options()])


class Pattern(NamedTuple):
    """Places of the letters of a k-mer, the first of which is 0."""

    places: tuple[int, ...]

    @property
    def span(self) -> int:
        """Places from the first to the last letter."""
        return self.places[-1] + 1

    def named(self, letters: Sequence[Any]) -> str:
        """Return letters with a dash for each gap, or words with blanks between them."""
        row = ["-"] * self.span
        for offset, letter in zip(self.places, letters, strict=True):
            row[offset] = str(letter)
        return ("" if all(len(item) == 1 for item in row) else " ").join(row)


class Kmer(NamedTuple):
    """A k-mer of a sequence, and its contribution to a linear function of the features."""

    name: str  # its letters
    where: tuple[int, ...]  # their positions
    value: float  # the contribution


class Logo(NamedTuple):
    """A k-mer, and the coefficients of those that differ from it in one letter or none."""

    name: str  # its letters
    value: float  # its coefficient
    columns: list[dict[str, float]]  # for each letter of its span; those of a gap are empty


class KmerKernel(Kernel):
    r"""Compares sequences by the k-mers that both contain, letters apart from each other included.

    .. math::
        k(x, y) = \frac{1}{|O|} \sum_{n \in O} \frac{\langle \phi_n(x), \phi_n(y) \rangle}
            {\|\phi_n(x)\|\, \|\phi_n(y)\|}, \qquad
        \langle \phi_n(x), \phi_n(y) \rangle =
            \sum_{p} \sum_{i,j} \kappa(i, j) \prod_{l=1}^{n} B(x_{i+p_l}, y_{j+p_l})

    O are the orders. A pattern p has n places, of which the first is 0 and the last at most `span`
    - 1; patterns with all numbers of gaps are drawn from those that there are. B is the kernel of
    two letters; an ambiguous letter is the mean of those it stands for, and a k-mer that stands for
    more than 256 counts nothing. κ is 1, or one of the offset: with `position` w, the inner product
    of the weights of i and j between the knots 0, w, 2w, ... of linear interpolation.

    The features of a sequence take time proportional to its length. A linear function of them is a
    sum over the k-mers of the sequence, see `occurrences`.

    Args:
        orders: Numbers of letters of a k-mer.
        span: Maximum number of places of a k-mer; equal to the order, there are no gaps.
        num_patterns: Maximum number of patterns of each order.
        alphabet: ``"dna"``, ``"rna"``, ``"protein"``, ``"any"`` or ``"auto"``.
        base: B: ``"one-hot"``; ``"mismatch"`` (1 for equal letters, 0.3 for others); or
            ``"blosum62"`` and ``"pam250"``, the odds of substitutions of amino acids.
        strands: ``"one"``, or ``"both"``: the k-mers of the reverse complement are counted, too; or
            ``"auto"``, which takes those with the smaller error of ridge regression on training
            sequences left out one by one.
        pooling: ``"sum"`` counts a k-mer as often as it occurs; ``"max"`` takes the maximum over
            its positions, which is 1 for any number of occurrences.
        position: w in letters; None, if positions are irrelevant.

    Shape:
        - X, Y: sequences of strings or lists of tokens
        - returns ``(N, M)``

    References:
        Ghandi et al., Enhanced Regulatory Sequence Prediction Using Gapped k-mer Features, PLoS
        Computational Biology 2014. Leslie et al., The Spectrum Kernel, PSB 2002. Chen, Jacob and
        Mairal, Recurrent Kernel Networks, NeurIPS 2019 (maxima). Meinicke et al., Oligo kernels for
        datamining on biological sequences, BMC Bioinformatics 2004 (positions).
    """

    by_squares: ClassVar[bool] = True  # classes are separated by ridge regression
    most_rows: ClassVar[int] = 4000  # sequences up to which a Gram matrix replaces the features

    def __init__(
        self, orders: Sequence[int] = (6,), span: int = 12, num_patterns: int = 12,
        alphabet: str = "auto", base: str = "one-hot", strands: str = "one", pooling: str = "sum",
        position: float | None = None,
    ) -> None:  # fmt: skip
        self.orders = orders
        self.span = span
        self.num_patterns = num_patterns
        self.alphabet = alphabet
        self.base = base
        self.strands = strands
        self.pooling = pooling
        self.position = position
        self.check()

    @property
    def leaves_one_out(self) -> float:
        """Most sequences for which left-out scores, of dense rows, choose the penalty."""
        return self.most_rows if self.base == "one-hot" else np.inf

    @property
    def objects(self) -> Objects:
        return "sequences"

    def no_network(self) -> str:
        return "Its features count k-mers, so that they have no derivatives in a sequence."

    def __call__(self, X: Any, Y: Any = None) -> NDArray[np.float64]:
        every = [*X] if Y is None else [*X, *Y]
        features = self.fit_transform(every)
        left, right = features[: len(X)], features if Y is None else features[len(X) :]
        gram = left @ right.T
        return np.asarray(gram.toarray() if sparse.issparse(gram) else gram)

    def diag(self, X: Any) -> NDArray[np.float64]:
        """Return k(x, x) of each sequence: 1, or less if it has no k-mer of an order."""
        features = self.fit_transform(X)
        return (
            np.asarray(features.multiply(features).sum(1)).ravel()
            if sparse.issparse(features)
            else (features**2).sum(1)
        )

    def fit(self, X: Sequence[Any], targets: NDArray[np.float64] | None = None) -> Self:
        """Find the letters, the strands and the k-mers of sequences, see `fit_transform`."""
        self.fit_transform(X, targets)
        return self

    def fit_transform(self, X: Sequence[Any], targets: NDArray[np.float64] | None = None) -> Any:
        """Find the letters, the strands and the k-mers of sequences, and return their features.

        Args:
            X: The sequences.
            targets: Indicators of classes, or numbers ``(N, C)``, by which strands are chosen.
        """
        self.check()
        self.letters_ = Letters.learn(self.alphabet, X)
        has_strands = self.letters_.alphabet in _WITH_STRANDS
        if self.strands == "both" and not has_strands:
            expected = f"one for the alphabet {self.letters_.alphabet}, which has no complement"
            raise ArgumentError("strands", self.strands, expected)
        self.patterns_, self.strands_ = self._drawn(X), self.strands
        if self.strands == "auto":
            self.strands_ = self._chosen(X, targets) if has_strands else "one"
        if self.base == "one-hot":
            listed = self._kmers(X)
            self.codes_ = np.concatenate(listed)
            widths = [len(codes) for codes in listed]
        else:
            self.codes_, size = np.zeros(0, np.int64), self._vectors().shape[1]
            widths = [size ** len(pattern.places) for pattern in self.patterns_]
        self.ends_ = np.cumsum(widths)
        # of very many, half the memory; a regression on them rounds alike
        return self._features(X, np.float32 if len(X) > self.most_rows else np.float64)

    def transform(self, X: Sequence[Any]) -> Any:
        """Return the features ``(N, F)``, sparse with the base ``"one-hot"``."""
        check_is_fitted(self)
        return self._features(X, np.float64)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.ends_[-1])

    def occurrences(self, x: Any, coefficients: NDArray[np.float64]) -> list[Kmer]:
        """Return the contribution of each k-mer of a sequence to a linear function of its features.

        Args:
            x: The sequence.
            coefficients: Of the features ``(F,)``.
        """
        check_is_fitted(self)
        scales, listed = self._scales(self._blocks([x]))[:, 0], list[Kmer]()
        size, read = len(self.letters_.tokens), self._read([x])
        for k, pattern in enumerate(self.patterns_):
            windows = [*self._windows(read, k)]
            codes = np.concatenate([entry.codes for entry in windows])
            weights = np.concatenate([entry.weights for entry in windows])
            starts = np.concatenate([entry.starts for entry in windows])
            strands = np.repeat(np.arange(len(windows)), [len(entry.codes) for entry in windows])
            if self.pooling == "max":
                weights = _maxima(codes, weights)
            values = weights * self._of_codes(k, codes, coefficients) * scales[k]
            for code, start, strand, value in zip(
                (codes % size ** len(pattern.places)).tolist(), starts.tolist(), strands.tolist(),
                values.tolist(), strict=True,
            ):  # fmt: skip
                letters = [self.letters_.tokens[digit] for digit in _digits(code, size, pattern)]
                name = pattern.named(letters)
                where = tuple(start + offset for offset in pattern.places)
                if strand:
                    where = tuple(len(x) - 1 - offset for offset in reversed(where))
                    name += ", other strand"
                listed.append(Kmer(name, where, value))
        return listed

    def logos(self, coefficients: NDArray[np.float64], count: int) -> list[Logo]:
        """Return the k-mer with the largest coefficient of each pattern, the largest first.

        Args:
            coefficients: Of the features ``(F,)``.
            count: Patterns with the largest ones.
        """
        check_is_fitted(self)
        size, listed = len(self.letters_.tokens), list[Logo]()
        names = [str(token) for token in self.letters_.tokens]
        for k, pattern in enumerate(self.patterns_):
            codes = np.arange(size ** len(pattern.places))
            if self.base == "one-hot":
                codes = self.codes_[self.ends_[k - 1] if k else 0 : self.ends_[k]]
            if not len(codes):
                continue
            values = self._of_codes(k, codes, coefficients)
            code = int(codes[values.argmax()])
            columns: list[dict[str, float]] = [{} for _ in range(pattern.span)]
            digits = _digits(code % size ** len(pattern.places), size, pattern)
            powers = size ** np.arange(len(digits))[::-1]
            for offset, digit, step in zip(pattern.places, digits, powers.tolist(), strict=True):
                others = self._of_codes(k, code + (np.arange(size) - digit) * step, coefficients)
                columns[offset] = dict(zip(names, others.tolist(), strict=True))
            name = pattern.named([self.letters_.tokens[digit] for digit in digits])
            listed.append(Logo(name, float(values.max()), columns))
        return sorted(listed, key=lambda logo: -logo.value)[:count]

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        tokens = [f"{'i' if isinstance(item, int) else 's'}{item}" for item in self.letters_.tokens]
        patterns = [" ".join(map(str, pattern.places)) for pattern in self.patterns_]
        named = {"tokens": tokens, "patterns": patterns}
        arrays = {"codes": self.codes_, "ends": self.ends_}
        return named | {"chosen": [self.letters_.alphabet, self.strands_]}, arrays

    def restore(
        self, tokens: Mapping[str, Sequence[str]], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Set what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        alphabet, self.strands_ = tokens["chosen"]
        names = tuple(int(item[1:]) if item[:1] == "i" else item[1:] for item in tokens["tokens"])
        self.letters_ = Letters(alphabet, names)
        self.patterns_ = [Pattern(tuple(map(int, entry.split()))) for entry in tokens["patterns"]]
        self.codes_ = arrays["codes"]
        self.ends_ = arrays["ends"]
        is_fine = self.ends_.shape == (len(self.patterns_),) and self.strands_ in STRANDS
        is_fine = is_fine and (np.diff(self.ends_, prepend=0) >= 0).all()
        is_fine = is_fine and alphabet in (*ALPHABETS, "any")
        if not is_fine or not self.patterns_ or len(self.codes_) not in (0, self.width):
            raise ValueError("the k-mers are damaged")
        return self

    def check(self) -> None:
        if not isinstance(self.orders, (list, tuple)) or not self.orders:
            raise ArgumentError("orders", self.orders, "a list of positive integers")
        for k, order in enumerate(self.orders):
            check_integer(f"orders[{k}]", order)
        check_integer("span", self.span)
        check_integer("num_patterns", self.num_patterns)
        choices = {
            "alphabet": ("auto", *ALPHABETS, "any"), "strands": ("auto", *STRANDS),
            "pooling": POOLINGS, "base": ("one-hot", "mismatch", "blosum62", "pam250"),
        }  # fmt: skip
        for name, allowed in choices.items():
            if (value := getattr(self, name)) not in allowed:
                raise ArgumentError(name, value, f"one of {', '.join(allowed)}")
        if self.position is not None and not self.position > 0:
            raise ArgumentError("position", self.position, "a positive number of letters, or None")
        if self.base != "one-hot" and (self.position is not None or self.pooling == "max"):
            hint = "A maximum, or a kernel of positions, counts equal letters."
            raise ArgumentError(
                "base", self.base, "one-hot with pooling='max' or position", hint=hint
            )

    def _drawn(self, X: Sequence[Any]) -> list[Pattern]:
        """Return patterns of each order, drawn from all that there are; the first has no gap."""
        size = max(2, len(self.letters_.tokens))
        read = 2 * max(1, sum(map(len, X)) * len(self.orders))
        listed = list[Pattern]()
        for order in self.orders:
            largest = _MOST_CODES if self.base == "one-hot" else _MOST_DENSE
            if size**order > largest:
                problem = f"numbers up to {int(np.log(largest) / np.log(size))} for {size} letters"
                raise ArgumentError("orders", self.orders, problem)
            rest, rng = max(self.span, order) - 1, np.random.default_rng(0)
            count = min(self.num_patterns, max(1, _MOST_VALUES // read), comb(rest, order - 1))
            chosen = {tuple(range(order)): None}
            while len(chosen) < count:
                places = 1 + rng.choice(rest, order - 1, replace=False)
                chosen[0, *sorted(places.tolist())] = None
            listed += map(Pattern, chosen)
        return listed

    def _chosen(self, X: Sequence[Any], targets: NDArray[np.float64] | None) -> str:
        """Return the strands with which ridge regression has the smaller left-out error."""
        if targets is None:
            return "one"
        rows = np.random.default_rng(0).permutation(len(X))[:_CHOSEN_ON]
        some, truth, errors = [X[row] for row in rows], targets[rows] - targets[rows].mean(0), {}
        for strands in STRANDS:
            again = type(self)(**self.get_params(deep=False)).set_params(
                strands=strands, alphabet=self.letters_.alphabet,
                num_patterns=min(self.num_patterns, _CHOSEN_BY),
            )  # fmt: skip
            features = again.fit_transform(some)
            values, vectors = np.linalg.eigh(inner_products(features))
            projected = vectors.T @ truth
            for ridge in _RIDGE:  # a left-out residual is that of the fit over 1 - leverage
                kept = np.maximum(values, 0) / (np.maximum(values, 0) + ridge)
                fit = vectors @ (kept[:, None] * projected)
                leverages = vectors**2 @ kept + 1 / len(rows)  # the latter by the mean
                left = (truth - fit) / np.maximum(1 - leverages, 1e-9)[:, None]
                errors[strands, ridge] = float((left**2).mean())
        return min(errors, key=lambda key: errors[key])[0]

    def _read(self, X: Sequence[Any]) -> _Read:
        """Return the codes of all sequences, one after another."""
        strands = [self.letters_.encode(X)]
        if self.strands_ == "both":
            complements = self.letters_.complements()
            strands.append([complements[entry][::-1] for entry in strands[0]])
        lengths = np.array([len(entry) for entry in strands[0]], np.int64)
        ends = np.cumsum(lengths)
        positions = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
        owners = np.repeat(np.arange(len(X), dtype=np.int32), lengths)
        rest = np.repeat(lengths, lengths) - positions
        flat = [np.concatenate(entry) if entry else np.zeros(0, np.int64) for entry in strands]
        return _Read(flat, owners, positions, rest)

    def _kmers(self, X: Sequence[Any]) -> list[NDArray[np.int64]]:
        """Return the codes of the k-mers of each pattern that occur, in order."""
        listed = [np.zeros(0, np.int64) for _ in self.patterns_]
        for some in _in_blocks(X):
            read = self._read(some)
            for k, before in enumerate(listed):
                codes = [before, *(entry.codes for entry in self._windows(read, k))]
                listed[k] = _distinct(np.concatenate(codes))
        return listed

    def _features(self, X: Sequence[Any], dtype: Any) -> Any:
        """Return the features ``(N, F)``, computed for a block of sequences at a time."""
        pieces = [self._joined(self._blocks(some)).astype(dtype) for some in _in_blocks(X)]
        return _stacked(pieces) if self.base == "one-hot" else np.concatenate(pieces)

    def _windows(self, read: _Read, k: int) -> Iterator[_Windows]:
        """Yield the k-mers of a pattern, those of each strand."""
        pattern, size = self.patterns_[k], len(self.letters_.tokens)
        first = np.flatnonzero(read.rest >= pattern.span)
        options = self.letters_.options()
        for flat in read.strands:
            codes, is_plain = np.zeros(len(first), np.int64), np.ones(len(first), bool)
            for offset in pattern.places:
                letters = flat[first + offset]
                is_plain &= letters < size
                codes = codes * size + letters
            weights = np.ones(len(first))
            chosen = np.flatnonzero(is_plain)
            extra = [
                (row, code, 1 / total)
                for row in np.flatnonzero(~is_plain).tolist()
                for some in [[options[flat[first[row] + offset]] for offset in pattern.places]]
                for total in [prod(map(len, some))]
                if 0 < total <= MOST_OPTIONS
                for code in [reduce(lambda a, b: a * size + b, entry) for entry in product(*some)]
            ]
            if extra:
                rows, others, shares = (np.array(column) for column in zip(*extra, strict=True))
                chosen = np.concatenate([chosen, rows])
                codes = np.concatenate([codes[is_plain], others])
                weights = np.concatenate([weights[is_plain], shares])
            else:
                codes, weights = codes[chosen], weights[chosen]
            rows_at = first[chosen]
            listed = _Windows(read.owners[rows_at], read.positions[rows_at], codes, weights)
            yield listed if self.position is None else self._placed(listed, pattern)

    def _placed(self, listed: _Windows, pattern: Pattern) -> _Windows:
        """Return k-mers with the knots beside them as parts of their codes."""
        assert self.position is not None
        knots, shares = np.divmod(listed.starts / self.position, 1.0)
        step = len(self.letters_.tokens) ** len(pattern.places)
        return _Windows(
            np.tile(listed.rows, 2), np.tile(listed.starts, 2),
            np.concatenate([listed.codes + (knots.astype(np.int64) + k) * step for k in (0, 1)]),
            np.concatenate([listed.weights * (1 - shares), listed.weights * shares]),
        )  # fmt: skip

    def _blocks(self, X: Sequence[Any]) -> list[Any]:
        """Return the features of each pattern before they are scaled."""
        read, starts = self._read(X), [0, *self.ends_[:-1].tolist()]
        codes = [
            self.codes_[start:end] if self.base == "one-hot" else None
            for start, end in zip(starts, self.ends_.tolist(), strict=True)
        ]
        return [
            self._block(len(X), k, [*self._windows(read, k)], entry)
            for k, entry in enumerate(codes)
        ]

    def _block(self, count: int, k: int, windows: list[_Windows], codes: Any) -> Any:
        """Return the features of a pattern before they are scaled ``(N, F_k)``."""
        rows, listed, weights = (
            np.concatenate([getattr(entry, name) for entry in windows])
            for name in ("rows", "codes", "weights")
        )
        if codes is not None:
            columns, is_kept = _positions(codes, listed)
            rows, columns, weights = rows[is_kept], columns[is_kept], weights[is_kept]
            if self.pooling == "max":
                weights = _maxima(rows * np.int64(len(codes) + 1) + columns, weights)
            places = rows.astype(np.int32), columns.astype(np.int32)  # which other packages require
            return sparse.csr_array((weights, places), shape=(count, len(codes)))
        size, order = len(self.letters_.tokens), len(self.patterns_[k].places)
        vectors = self._vectors()
        counts = sparse.csr_array((weights, (rows, listed)), shape=(count, size**order))
        parts = []
        for start in range(0, max(1, count), 500):
            some = counts[start : start + 500].toarray()
            moments = some.reshape(len(some), *(size,) * order)
            for _ in range(order):  # each contraction moves its axis to the end
                moments = np.tensordot(moments, vectors, (1, 0))
            parts.append(moments.reshape(len(some), vectors.shape[1] ** order))
        return np.concatenate(parts)

    def _vectors(self) -> NDArray[np.float64]:
        return letter_vectors(self.base, self.letters_.alphabet, len(self.letters_.tokens))

    def _scales(self, blocks: Sequence[Any]) -> NDArray[np.float64]:
        """Return the factor of each sequence in each block ``(K, N)``, one for each order."""
        squares = np.array([np.asarray((block * block).sum(1), np.float64) for block in blocks])
        orders = np.array([len(pattern.places) for pattern in self.patterns_])
        norms = np.array([squares[orders == order].sum(0) for order in orders])
        scales = np.where(norms > 0, norms, 1.0) ** -0.5
        return np.where(norms > 0, scales, 0.0) / len(np.unique(orders)) ** 0.5

    def _joined(self, blocks: Sequence[Any]) -> Any:
        scales = self._scales(blocks)
        if self.base != "one-hot":
            return np.concatenate(
                [entry * s[:, None] for entry, s in zip(blocks, scales, strict=True)], 1
            )
        for block, entry in zip(blocks, scales, strict=True):
            block.data *= np.repeat(entry, np.diff(block.indptr))
        return sparse.hstack(blocks, format="csr")

    def _of_codes(
        self, k: int, codes: NDArray[np.int64], coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the coefficients of k-mers of a pattern; those not in training have 0."""
        entry = coefficients[self.ends_[k - 1] if k else 0 : self.ends_[k]]
        if self.base != "one-hot":
            vectors, order = self._vectors(), len(self.patterns_[k].places)
            table = entry.reshape((vectors.shape[1],) * order)
            for _ in range(order):
                table = np.tensordot(table, vectors, (0, 1))
            return table.ravel()[codes]
        stored = self.codes_[self.ends_[k - 1] if k else 0 : self.ends_[k]]
        columns, is_known = _positions(stored, codes)
        values = np.zeros(len(codes))
        values[is_known] = entry[columns[is_known]]
        return values


class _Read(NamedTuple):
    """The codes of sequences, one after another, on each strand; whose they are, and where."""

    strands: list[NDArray[np.int64]]
    owners: NDArray[np.int32]
    positions: NDArray[np.int64]
    rest: NDArray[np.int64]  # letters from here to the end


class _Windows(NamedTuple):
    """The k-mers of a pattern: their sequences, first positions, codes and weights."""

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    codes: NDArray[np.int64]
    weights: NDArray[np.float64]


def inner_products(features: Any) -> NDArray[np.float64]:
    """Return the inner products of the rows of features, perhaps sparse ones ``(N, N)``."""
    if isinstance(features, np.ndarray):
        return features @ features.T
    if not core.MISSING:
        columns = sparse.csc_array(features)
        if not columns.has_canonical_format:
            columns = columns.copy()
            columns.sum_duplicates()
        return sparse_gram(columns).astype(np.float64, copy=False)
    count = features.shape[0]
    gram, step = np.empty((count, count)), max(1, count // 8)
    for start in range(0, count, step):  # only those on one side of the diagonal are computed
        block: Any = features[start : start + step] @ features[start:].T
        gram[start : start + step, start:] = block.toarray()
        gram[start:, start : start + step] = gram[start : start + step, start:].T
    return gram


def _distinct(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different codes, ascending."""
    if codes.max(initial=0) >= _TABLED:
        return np.unique(codes)
    return np.flatnonzero(np.bincount(codes))


def _positions(
    codes: NDArray[np.int64], listed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the positions of listed codes among different ascending ones, and which are there."""
    if not len(codes):
        return np.zeros(len(listed), np.int64), np.zeros(len(listed), bool)
    if (end := int(codes[-1]) + 1) <= _TABLED:
        table = np.full(end + 1, -1)
        table[codes] = np.arange(len(codes))
        positions = table[np.minimum(listed, end)]
        return positions, positions >= 0
    positions = np.minimum(np.searchsorted(codes, listed), len(codes) - 1)
    return positions, codes[positions] == listed


def _in_blocks(X: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield successive sequences of about `_BLOCK` letters together; at least one block."""
    ends = np.cumsum([len(item) for item in X])
    starts = np.flatnonzero(np.diff(ends // _BLOCK, prepend=0)).tolist()
    bounds = sorted({0, *starts, len(X)})
    for start, end in pairwise(bounds) if len(X) else [(0, 0)]:
        yield X[start:end]


def _stacked(pieces: list[Any]) -> Any:
    """Return sparse rows below each other; the list is emptied, so that memory has them once."""
    if len(pieces) == 1:
        return pieces[0]
    width, lengths = pieces[0].shape[1], [np.diff(piece.indptr) for piece in pieces]
    ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    data, columns = np.empty(ends[-1], pieces[0].dtype), np.empty(ends[-1], np.int32)
    start, shape = 0, (len(ends) - 1, width)
    for piece in iter(lambda: pieces.pop(0) if pieces else None, None):
        end = start + piece.nnz
        data[start:end], columns[start:end] = piece.data, piece.indices
        start = end
    ends = ends.astype(np.int32 if ends[-1] < 2**31 else np.int64)
    return sparse.csr_array((data, columns, ends), shape=shape)


def _maxima(keys: NDArray[np.int64], weights: NDArray[Any]) -> NDArray[Any]:
    """Return weights whose sum over equal keys is their maximum, in equal parts of the largest."""
    _, groups = np.unique(keys, return_inverse=True)
    largest = np.zeros(groups.max(initial=-1) + 1)
    np.maximum.at(largest, groups, weights)
    is_largest = weights >= largest[groups]
    counts = np.bincount(groups, is_largest, len(largest))
    return np.where(is_largest, weights / np.maximum(counts, 1)[groups], 0.0)


def _digits(code: int, size: int, pattern: Pattern) -> list[int]:
    digits = []
    for _ in pattern.places:
        code, digit = divmod(code, size)
        digits.append(digit)
    return digits[::-1]
