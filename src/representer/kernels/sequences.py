"""Sequences, tokens and strings as users pass them, read as tensors, arrays or numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from representer.errors import ArgumentError, DataError, KindError, ShapeError
from representer.kernels.kernel import Kernel, takes_rows, value_of


@dataclass(frozen=True)
class Sequences:
    """Sequences as tensors ``(T_i, I)`` of one dtype and device."""

    items: list[Tensor]  # the sequences
    from_tensors: bool  # true if they were tensors, so that the kernel returns a tensor


Pair = tuple[Sequences, Sequences]
EMPTY = torch.Size((0, 1))  # of an empty sequence without other sequences that have features


def read_sequences(
    X: Iterable[Any], name: str = "X", like: Sequences | None = None, hint: str = ""
) -> Sequences:
    """Read a list of sequences, each a tensor, an array or nested lists ``(T_i, I)``.

    A tensor or array ``(N, T, I)`` is N of them, and ``[]`` none; one of shape ``(0,)`` is an empty
    sequence. They will be compared with ``like``; ``hint`` is that of the error for strings or
    tokens.

    Raises:
        ArgumentError: If a number is not finite.
        ShapeError: If one is not ``(time, features)``, or feature sizes differ.
    """
    if isinstance(X, (str, bytes, dict)) or not isinstance(X, Iterable):
        raise KindError(name, type(X).__name__, "a list of sequences (time, features)", hint=hint)
    raw = list(X)
    others = like.items if like is not None else []
    is_tensor = isinstance(raw[0], Tensor) if raw else isinstance(X, Tensor)
    from_tensors = like.from_tensors if others and like is not None else is_tensor
    items = [_read(sequence, f"{name}[{i}]", from_tensors, hint) for i, sequence in enumerate(raw)]
    filled = (item for item in [*others, *items] if item.dim() == 2 and item.shape != EMPTY)
    first = next(filled, None)
    items = [item if item.dim() == 2 else _empty(item, first) for item in items]
    for i, item in enumerate(items):
        _check_like(item, f"{name}[{i}]", items[0] if first is None else first)
    if not _are_finite_at_once(items):
        for i, item in enumerate(items):
            _check_finite(item, f"{name}[{i}]")
    return Sequences(items, from_tensors)


def read_pair(X: Iterable[Any], Y: Iterable[Any] | None, hint: str = "") -> Pair:
    """Read the sequences of a Gram matrix, X and Y, or X twice; see `read_sequences`."""
    x = read_sequences(X, "X", None, hint)
    if Y is None:
        return x, x
    y = read_sequences(Y, "Y", x, hint)
    first = next((item for item in y.items if item.shape != EMPTY), None)
    if first is None or any(item.shape != EMPTY for item in x.items):
        return x, y
    return Sequences([_empty(item, first) for item in x.items], y.from_tensors), y


def empty_gram(*sets: Sequences) -> Tensor:
    """Return the Gram matrix ``(N, M)`` of two sets, or the diagonal ``(N,)``, if one is empty."""
    like = next((item for x in sets for item in x.items), torch.empty(0).double())
    dtype = like.dtype if like.is_floating_point() else torch.float64
    return torch.zeros([len(x.items) for x in sets], dtype=dtype, device=like.device)


def _empty(item: Tensor, first: Tensor | None) -> Tensor:
    """Return an empty sequence with the features of another one, which may be unknown."""
    return item.reshape(EMPTY) if first is None else first.new_zeros(0, first.shape[1])


def read_vectors(X: Any, name: str = "X", like: Sequences | None = None) -> Sequences:
    """Read vectors ``(N, d)``, a tensor, an array or nested lists, as one item.

    Raises:
        ArgumentError: If a number is not finite.
        KindError: If they are not numbers, or tensors and others are mixed.
        ShapeError: If they are not ``(N, d)``, or d differs from that of ``like``.
    """
    from_tensors = isinstance(X, Tensor) if like is None else like.from_tensors
    if isinstance(X, (list, tuple)) and X and all(isinstance(x, Tensor) for x in X):
        X = torch.stack([*X])
        from_tensors = True if like is None else from_tensors
    item = _read(X, name, from_tensors, "")
    if item.dim() != 2:
        raise ShapeError(name, item.shape, "(vectors, features)")
    _check_like(item, name, item if like is None else like.items[0])
    _check_finite(item, name)
    return Sequences([item], from_tensors)


def _read(sequence: Any, name: str, from_tensors: bool, hint: str) -> Tensor:
    if isinstance(sequence, Tensor) != from_tensors:
        expected = "a tensor" if from_tensors else "an array or nested lists"
        raise KindError(
            name, type(sequence).__name__, f"{expected}, as the first sequence",
            hint="Pass only tensors to get a tensor, or no tensors to get a float64 array.",
        )  # fmt: skip
    item = sequence if from_tensors else _tensor(sequence, name, hint)
    if not item.is_floating_point():
        raise KindError(
            name, str(item.dtype), "a floating-point dtype", hint=f"Use {name}.double()."
        )
    if item.shape == (0,):
        return item
    if item.dim() != 2 or not item.shape[1]:
        hint = "Put a single sequence into a list." if item.dim() < 2 else ""
        raise ShapeError(name, item.shape, "(time, features)", hint=hint)
    return item


def _tensor(sequence: Any, name: str, hint: str) -> Tensor:
    try:
        array = np.asarray(sequence)
    except ValueError:  # nested lists of unequal lengths
        array = None
    if array is None or array.dtype.kind not in "biuf":
        expected = "a tensor, an array or nested lists of numbers (time, features)"
        raise KindError(name, type(sequence).__name__, expected, hint=hint)
    return torch.from_numpy(array.astype(np.float64))


def _check_like(item: Tensor, name: str, first: Tensor) -> None:
    if item.shape[1] != first.shape[1]:
        raise ShapeError(
            name, item.shape, f"(time, {first.shape[1]}), the features of the first sequence"
        )
    if item.dtype != first.dtype:
        hint = f"Use {name}.to({first.dtype})."
        raise KindError(name, str(item.dtype), f"{first.dtype}, as the first sequence", hint=hint)
    check_device(item, name, first, "the first sequence")


def check_device(item: Tensor, name: str, other: Tensor, whose: str) -> None:
    """Check that a tensor is on the device of another one."""
    if item.device != other.device:
        hint = f"Use {name}.to({str(other.device)!r})."
        expected = f"on {other.device}, as {whose}"
        raise KindError(name, f"on {item.device}", expected, hint=hint)


def _are_finite_at_once(items: list[Tensor]) -> bool:
    """Return True if all numbers are finite and on CUDA, where each answer is waited for."""
    if len(items) < 2 or not _is_on_cuda(items[0]) or torch.compiler.is_compiling():
        return False
    return bool(torch.isfinite(torch.cat([item.detach() for item in items])).all())


def _check_finite(item: Tensor, name: str) -> None:
    if torch.compiler.is_compiling() or bool(torch.isfinite(item.detach()).all()):
        return
    step, feature = (int(i) for i in torch.isfinite(item.detach()).logical_not().nonzero()[0])
    value = float(item[step, feature])
    hint = "Drop or fill the missing step." if value != value else ""
    raise ArgumentError(f"{name}[{step}, {feature}]", value, "a finite number", hint=hint)


# Reading of strings and lists of tokens as integers.

SEQUENCES = "strings or of lists of tokens"
REFUSED = (dict, set, frozenset, bytes, bytearray, Tensor, np.ndarray)  # of no order, or no tokens
VECTORS = 'Sequences of vectors are compared with base="linear" or a point kernel.'


def read_tokens(
    X: Iterable[Any], vocabulary: dict[Hashable, int], name: str = "X",
    like: Sequences | None = None,
) -> Sequences:  # fmt: skip
    """Read a list of strings (each character is a token), lists of tokens or arrays ``(T_i,)``.

    ``vocabulary`` has the ids of previous tokens, and gets those of new ones. The integers are on
    the device of the sequences if they are tensors.

    Raises:
        KindError: If one is not a string or list of tokens, or a token not a string or integer, or
            if devices are mixed.
        ShapeError: If one is an array with more than one axis.
    """
    require_several(X, SEQUENCES, name)
    raw = list(X)
    items = [_numbers(tokens, vocabulary, f"{name}[{i}]") for i, tokens in enumerate(raw)]
    for i, item in enumerate(items):
        first = like.items[0] if like is not None and like.items else items[0]
        check_device(item, f"{name}[{i}]", first, "the first sequence")
    return Sequences(items, bool(raw) and isinstance(raw[0], Tensor))


def token_lists(X: Iterable[Any], name: str = "X") -> list[Sequence[Any]]:
    """Return the tokens of strings, of lists of tokens, or of arrays ``(T_i,)``; see `read_tokens`.

    Raises:
        KindError: If one is not a string or list of tokens, or a token not a string or integer.
        ShapeError: If one is an array with more than one axis.
    """
    require_several(X, SEQUENCES, name)
    return [_tokens(tokens, f"{name}[{i}]") for i, tokens in enumerate(X)]


def read_texts(X: Iterable[Any], name: str = "X") -> Iterator[str]:
    """Yield the texts of a list, one after the other, since they may be read from a file."""
    require_several(X, "texts", name)
    for row, text in enumerate(X):
        if not isinstance(text, str):
            got = type(text).__name__
            raise KindError(f"{name}[{row}]", got, "a string", hint=string_fix(text))
        yield text


def string_fix(value: Any) -> str:
    """Return how to fix a value instead of a string, or an empty text."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return "Leave it out."
    if isinstance(value, (bytes, bytearray)):
        return "Decode it, with .decode()."
    if hasattr(value, "GetAtoms"):  # a molecule of RDKit
        return "Pass its SMILES, rdkit.Chem.MolToSmiles(molecule)."
    return "Pass one column." if isinstance(value, np.ndarray) else ""


def require_several(X: Any, what: str, name: str = "X") -> None:
    """Require a list of strings or the like; a single string would be read as its characters.

    A table would be read as the names of its columns.
    """
    shape = getattr(X, "shape", None)
    is_table = len(shape or ()) == 2 and hasattr(X, "columns")
    is_one = isinstance(X, (str, bytes, dict)) or shape == () or not isinstance(X, Iterable)
    if is_table or is_one:
        hint = "Put a single string into a list." if isinstance(X, str) else ""
        hint = "Pass one of its columns." if is_table else hint
        raise KindError(name, type(X).__name__, f"a list of {what}", hint=hint)


# Strings and targets as users have them: lists, arrays, columns of tables of any library.

_ROWS = "__iter__", "__getitem__", "__array__"  # a sequence has at least one


def strings_of(X: Any, several: str, one: str) -> list[str]:
    """Return the strings of a list, an array, a column, or a table with a single column.

    Tables are those of pandas, polars, Arrow or ``datasets``; ``several`` ("texts") and ``one`` ("a
    string") are words for messages.
    """
    if isinstance(X, str):
        raise DataError(f"X is one string; expected a sequence of {several}", fix="Pass [X].")
    values = list(as_sequence(column_of(X), "X"))
    for row, value in enumerate(values):
        if not isinstance(value, str):
            problem = f"X[{row}] is {value!r:.40} of type {type(value).__name__}; expected {one}"
            raise DataError(problem, fix=string_fix(value))
    return [str(value) for value in values]  # not of a subclass, such as those of NumPy


def as_sequence(y: Any, name: str = "y") -> Any:
    """Return targets, or a column, with a length and rows of plain values; tables as ``(N, K)``."""
    has_rows = any(hasattr(y, name) for name in _ROWS)
    if getattr(y, "shape", None) == () or not has_rows:
        raise DataError(f"{name} is {y!r:.40} of type {type(y).__name__}; expected a sequence")
    if isinstance(y, Mapping | Set):
        problem = f"{name} is a {type(y).__name__}; expected a sequence"
        fix = f"Pass [*{name}.values()]." if isinstance(y, Mapping) else "Sets have no order."
        raise DataError(problem, fix=fix)
    if isinstance(y, np.ma.MaskedArray):  # what is masked is missing
        missing: Any = np.nan if y.dtype.kind == "f" else None
        return np.where(y.mask, missing, y.data) if np.ma.is_masked(y) else np.asarray(y)
    if hasattr(y, "to_numpy") and hasattr(y, "convert_dtypes"):  # pandas; missing values are None
        return y.to_numpy(dtype=object, na_value=None)
    if has_columns(y):
        columns = [as_sequence(_named(y, name)) for name in _names(y)]
        table = np.empty((len(y), len(columns)), dtype=object)
        for k, column in enumerate(columns):
            table[:, k] = column
        return table
    for listed in ("to_pylist", "to_list"):  # Arrow, polars
        if hasattr(y, listed):
            return getattr(y, listed)()
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    if hasattr(y, "__len__") and hasattr(y, "__getitem__"):
        return y
    return np.asarray(y) if hasattr(y, "__array__") else list(y)


def column_of(X: Any) -> Any:
    """Return the only column of a table or an array ``(N, 1)``, and anything else as it is."""
    shape = getattr(X, "shape", ())
    if len(shape) != 2:
        return X
    names = _names(X)
    if shape[1] != 1:
        listed = ", ".join(str(name) for name in names[:5])
        fix = f"Pass one column, such as X[{names[0]!r}]." if names else ""
        raise DataError(f"X has {shape[1]} columns: {listed}; expected one", fix=fix)
    if hasattr(X, "iloc"):
        return X.iloc[:, 0]
    return _named(X, names[0]) if has_columns(X) else X[:, 0]


def records_of(X: Any) -> Any:
    """Return the rows of a table as dictionaries, and anything else as a sequence."""
    if not has_columns(X):
        return as_sequence(X, "X")
    names = _names(X)
    columns = [as_sequence(X[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def has_columns(X: Any) -> bool:
    """Return True for tables of pandas, Arrow, polars and Hugging Face's ``datasets``."""
    is_table = len(getattr(X, "shape", ())) == 2
    return is_table and (hasattr(X, "column_names") or hasattr(X, "columns"))


def _names(X: Any) -> list[Any]:
    return [*getattr(X, "column_names", getattr(X, "columns", range(X.shape[1])))]


def _named(X: Any, name: Any) -> Any:
    return X.column(name) if hasattr(X, "column") else X[name]


def _numbers(sequence: Any, vocabulary: dict[Hashable, int], name: str) -> Tensor:
    device = sequence.device if isinstance(sequence, Tensor) else None
    tokens = _tokens(sequence, name)
    numbers = [vocabulary.setdefault(token, len(vocabulary)) for token in tokens]
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def _tokens(sequence: Any, name: str) -> Sequence[Any]:
    if isinstance(sequence, str):
        return sequence
    if isinstance(sequence, (Tensor, np.ndarray)) and sequence.ndim:
        if sequence.ndim > 1:
            shape, expected = tuple(sequence.shape), "(time,), one token per step"
            raise ShapeError(name, shape, expected, hint=VECTORS)
        sequence = sequence.tolist()
    if isinstance(sequence, REFUSED) or not isinstance(sequence, Iterable):
        is_of_array = isinstance(sequence, (Tensor, np.number))
        hint = "Put a single sequence into a list." if is_of_array else string_fix(sequence)
        raise KindError(name, type(sequence).__name__, "a string or a list of tokens", hint=hint)
    tokens = sequence if isinstance(sequence, Sequence) else list(sequence)
    if {*map(type, tokens)} <= {str, int}:
        return tokens
    for t, token in enumerate(tokens):
        if token is None or isinstance(token, (float, np.floating)) or not _is_hashable(token):
            got, expected = type(token).__name__, "a token: a string or an integer"
            hint = string_fix(token) if token is None else VECTORS
            raise KindError(f"{name}[{t}]", got, expected, hint=hint)
    return tokens


def _is_hashable(token: Any) -> bool:
    if isinstance(token, (Tensor, np.ndarray)):  # hashed by identity
        return False
    try:
        hash(token)
    except TypeError:
        return False
    return True


# The base class of sequence kernels.

BASES = ("linear", "delta")
COMBINE = ("multiply", "add")
BLOCK = 2**20  # similarities per block
BLOCK_ON_CUDA = 2**27  # where few large launches are fastest
MOST_PADDED = 2**28  # numbers of all sequences padded at once on CUDA
NOT_SMOOTH = (
    'base="delta" compares {} for equality, which is not differentiable in a reference; embed them '
    'first, and use base="linear" or a kernel of vectors.'
)
STRINGS = 'Strings and tokens are compared with base="delta".'


def check_base(base: Any) -> None:
    """Check a kernel of two tokens or nodes."""
    is_name = isinstance(base, str) and base in BASES
    if not is_name and not (isinstance(base, Kernel) and base.objects == "vectors"):
        raise ArgumentError("base", base, "'linear', 'delta' or a kernel of vectors")
    if isinstance(base, Kernel):
        base.check()


def why_not_smooth(base: str | Kernel, what: str) -> str:
    """Return why a kernel of tokens or nodes has no gradient in a reference, else ""."""
    if isinstance(base, Kernel):
        return base.no_network()
    return NOT_SMOOTH.format(what) if base == "delta" else ""


def _padded(items: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return sequences padded with zeros ``(B, T, …)``, and their lengths."""
    lengths = torch.tensor([len(item) for item in items], device=items[0].device)
    return torch.nn.utils.rnn.pad_sequence(list(items), batch_first=True), lengths


def _padded_once(items: Sequence[Tensor]) -> tuple[Tensor, Tensor] | None:
    """Return all sequences padded for the blocks of every row on CUDA, unless they are too large.

    There, to pad is a launch for each sequence, and lengths are copied from the host.
    """
    longest = max(items, key=len)
    is_small = len(items) * longest.numel() <= MOST_PADDED
    return _padded(items) if _is_on_cuda(longest) and is_small else None


def _is_on_cuda(item: Tensor) -> bool:
    return item.is_cuda


class SequenceKernel(Kernel):
    """Base class of kernels that depend on the ``base`` kernel of all pairs of tokens."""

    base: str | Kernel

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        self.check()
        x, y = self._read(X, Y)
        has_values = bool(x.items and y.items)
        return self._values(x, lambda: self._gram(x, y) if has_values else empty_gram(x, y))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        self.check()
        x, _ = self._read(X)
        return self._values(x, lambda: self._diag(x) if x.items else empty_gram(x))

    def no_network(self) -> str:
        return why_not_smooth(self.base, "tokens")

    def _of_row(self, row: np.ndarray) -> Any:
        """Return a row of an array as a list of one sequence: of tokens, or of one feature."""
        is_token = isinstance(self.base, str) and self.base == "delta"
        return [row] if is_token else super()._of_row(row)

    @abstractmethod
    def check(self) -> None:
        """Check the arguments, which ``set_params`` may have changed."""

    @abstractmethod
    def _pairs(
        self, item: Tensor, prepared: Any, padded: Tensor, lengths: Tensor, others: list[Any]
    ) -> Tensor:
        """Return the kernel ``(B,)`` of one sequence with a padded batch ``(B, T, …)``.

        ``prepared`` and ``others`` are the results of ``_prepare`` for the sequences.
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
        prepared, batch = [(item, self._prepare(item)) for item in x.items], _padded_once(y.items)
        if y is not x:
            others = [(item, self._prepare(item)) for item in y.items]
            return torch.stack([self._row(*pair, others, batch) for pair in prepared])
        rows = [
            self._row(*pair, prepared[i:], batch and (batch[0][i:], batch[1][i:]))
            for i, pair in enumerate(prepared)
        ]
        upper = torch.stack([F.pad(row, (len(rows) - len(row), 0)) for row in rows])
        return upper + upper.triu(1).mT

    def _diag(self, x: Sequences) -> Tensor:
        pairs = [(item, self._prepare(item)) for item in x.items]
        return torch.cat([self._row(*pair, [pair]) for pair in pairs])

    def _row(
        self, item: Tensor, state: Any, others: list[tuple[Tensor, Any]],
        batch: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the kernel of one sequence with each of the others; ``batch`` has them padded."""
        largest = max(1, len(item)) * max(1, max(len(other) for other, _ in others))
        step = max(1, (BLOCK if batch is None else BLOCK_ON_CUDA) // largest)
        parts = []
        for i in range(0, len(others), step):
            block, prepared = zip(*others[i : i + step], strict=True)
            padded, lengths = _padded(block) if batch is None else (x[i : i + step] for x in batch)
            parts.append(self._pairs(item, state, padded, lengths, list(prepared)))
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
        check_base(self.base)


# Tokens and codes as numbers: of many sequences at once, and by hashing.

SPACE = " "


class Numbered(NamedTuple):
    """Sequences of tokens as numbers."""

    tokens: list[Any]  # the distinct tokens, in the order in which they first occur
    ids: NDArray[np.int64]  # the number of each token of all sequences ``(T,)``
    lengths: NDArray[np.int64]  # of the sequences ``(N,)``

    @classmethod
    def of(cls, sequences: Iterable[Sequence[Hashable]]) -> Self:
        """Number the tokens of sequences."""
        numbers, ids, lengths = (
            defaultdict[Hashable, int](count().__next__),
            list[int](),
            list[int](),
        )
        for sequence in sequences:  # while its tokens are in the cache
            ids += map(numbers.__getitem__, sequence)
            lengths.append(len(sequence))
        return cls([*numbers], np.array(ids, np.int64), np.array(lengths, np.int64))

    @classmethod
    def of_characters(cls, words: Sequence[str]) -> Self:
        """Number the characters of words with a space before and after each."""
        joined = f"{SPACE}{(2 * SPACE).join(words)}{SPACE}" if words else ""
        points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        numbers = np.full(points.max(initial=0) + 1, len(points))
        numbers[points[::-1]] = np.arange(len(points))[::-1]  # where each first occurs
        distinct = np.flatnonzero(numbers < len(points))
        distinct = distinct[np.argsort(numbers[distinct])]
        numbers[distinct] = np.arange(len(distinct))
        lengths = np.fromiter(map(len, words), np.int64, len(words)) + 2
        return cls([*map(chr, distinct.tolist())], numbers[points], lengths)

    def lists(self, values: Sequence[Any] | None = None) -> list[list[Any]]:
        """Return the tokens of each sequence, or a value for each of them."""
        ends, tokens = np.cumsum(self.lengths).tolist(), self.tokens if values is None else values
        every = [tokens[number] for number in self.ids.tolist()]
        return [every[a:b] for a, b in zip([0, *ends], ends, strict=False)]


class CodeIndex:
    """The positions of codes, as a hash table with open addressing that is made when needed.

    A binary search misses the cache at each of its steps.
    """

    def __init__(self, codes: NDArray[np.int64]) -> None:
        self._codes, self._bits = codes, len(codes).bit_length() + 1

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """The position of the code in each slot, -1 without one."""
        table = np.full(1 << self._bits, -1, np.int32)
        waiting = np.arange(len(self._codes), dtype=np.int32)
        slots = self._first(self._codes)
        while len(waiting):
            is_free = table[slots] < 0
            table[slots[is_free]] = waiting[is_free]  # of several codes, the last one stays
            is_left = table[slots] != waiting
            waiting, slots = waiting[is_left], (slots[is_left] + 1) & (len(table) - 1)
        return table

    def positions(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the position of each code, -1 if it is not there."""
        if not len(self._codes):
            return np.full(len(codes), -1, np.int32)
        slots = self._first(codes)
        result = self.table[slots]
        others = np.flatnonzero((result >= 0) & (self._codes[result] != codes))
        while len(others):
            slots[others] = (slots[others] + 1) & (len(self.table) - 1)
            result[others] = held = self.table[slots[others]]
            others = others[(held >= 0) & (self._codes[held] != codes[others])]
        return result

    def _first(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first slot of each code: the highest bits of a product, Knuth's hash."""
        product = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (product >> np.uint64(64 - self._bits)).astype(np.int64)
