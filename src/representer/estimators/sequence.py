"""Estimators of sequences: k-mers with gaps, or a kernel that the user composes; its network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.data.splits import digest_of
from representer.errors import DataError
from representer.estimators.explanation import (
    KERNEL,
    NETWORK,
    Contribution,
    Explained,
    Explanation,
    Places,
)
from representer.estimators.fitting import Inputs
from representer.estimators.kernel_halves import KernelHalves
from representer.estimators.supervised import Classifier, Regressor
from representer.estimators.targets import classes_of
from representer.kernels import KmerKernel, StringKernel
from representer.kernels.alphabets import ALPHABETS, codes_of, detected
from representer.kernels.kernel import Kernel
from representer.kernels.kmer_kernel import Letters, Logo
from representer.models.kernel_model import KernelModel, KernelModelConfig
from representer.options.sequence import SequenceKernelParameters

ORDERS, DECAY = (1, 2, 3), 0.5  # of the default kernel
OF_ALPHABETS = {"dna": (6,), "rna": (6,)}  # orders of k-mers; of others those above
SHOWN = 1000  # letters of an explained sequence in a report

Vectors = NDArray[np.float64]


def default_kernel() -> Kernel:
    """Return the kernel of all n-grams with gaps of up to three tokens, each order of norm 1.

    Without a decay of the tokens that follow, an n-gram has equal weight wherever it stands.
    """
    return sum(StringKernel(n, DECAY, trailing=False).cosine() for n in ORDERS)  # type: ignore[return-value]


@dataclass(frozen=True)
class SequenceInputs(Inputs):
    """Sequences as vectors: tokens one-hot or by their similarity, vectors as they are.

    Args:
        alphabet: The tokens of the training sequences, or the letters of a biological alphabet;
            empty for vectors. All other tokens share a column.
        width: Features of a token.
        name: ``"dna"``, ``"rna"``, ``"protein"`` or ``"any"``.
        base: Kernel of two letters, see `KmerKernel`.
    """

    alphabet: tuple[Any, ...]
    width: int
    name: str = "any"
    base: str = "one-hot"

    @property
    def letters(self) -> Letters:
        """The letters as the kernel of k-mers takes them."""
        return Letters(self.name, self.alphabet)

    def encode(self, X: Sequence[Any]) -> list[Vectors]:
        """Return the vectors of each sequence ``(T, d)``.

        Raises:
            DataError: A sequence has another number of features; the message names its row.
        """
        if (self.name, self.base) != ("any", "one-hot") and not any(
            isinstance(sequence, np.ndarray) for sequence in X
        ):
            vectors = self.letters.vectors(self.base)
            return [vectors[codes] for codes in self.letters.encode(X)]
        return [self._encode(sequence, row) for row, sequence in enumerate(X)]

    def _encode(self, one: Any, row: int) -> Vectors:
        if isinstance(one, np.ndarray):
            if self.alphabet or one.shape[1] != self.width:
                expected = "tokens" if self.alphabet else f"{self.width} features"
                problem = f"X[{row}] has vectors of {one.shape[1]}; training had {expected}"
                raise DataError(problem)
            return one
        if not self.alphabet and len(one):
            raise DataError(f"X[{row}] has tokens; training had vectors of {self.width} features")
        numbers = {token: k for k, token in enumerate(self.alphabet)}
        codes = [numbers.get(token, len(numbers)) for token in one]
        return np.eye(self.width)[codes].reshape(len(codes), self.width)

    def collate(self, encoded: Sequence[Vectors], multiple: int = 1) -> tuple[Tensor, Tensor]:
        """Return padded sequences ``(B, T, d)`` and lengths ``(B,)``."""
        lengths = torch.tensor([len(codes) for codes in encoded])
        steps = max(1, int(lengths.max()))
        padded = torch.zeros(len(encoded), -(-steps // multiple) * multiple, self.width)
        for row, codes in enumerate(encoded):
            padded[row, : len(codes)] = torch.from_numpy(codes)
        return padded, lengths

    def size(self, encoded: Vectors) -> int:
        """Return the number of tokens."""
        return len(encoded)


class SequenceHalves(SequenceKernelParameters, KernelHalves):
    """Both halves of a kernel of sequences, see `SequenceClassifier`."""

    noun: ClassVar[str] = "sequence"
    _task: ClassVar[str] = "sequence"
    compares: ClassVar[tuple[str, ...]] = ("sequences",)
    is_kernel_unsupervised: ClassVar[bool] = True
    _inputs: ClassVar[type[SequenceInputs]] = SequenceInputs
    inputs_: SequenceInputs

    def expression(self) -> Kernel:
        return default_kernel() if self.kernel is None else self.kernel

    @property
    def has_kmers(self) -> bool:
        """True if the kernel half counts k-mers: there are tokens, and no kernel of the user's."""
        return self.kernel is None and bool(self.inputs_.alphabet)

    def leaves_one_out(self, count: int) -> bool:
        """Return True of k-mers, unless there are so many sequences that some are held out."""
        return self.has_kmers and count <= self._new_kernel().leaves_one_out

    def _new_kernel(self) -> Any:
        if not self.has_kmers:
            return super()._new_kernel()
        orders = self.orders or OF_ALPHABETS.get(self.inputs_.name, ORDERS)
        return KmerKernel(
            tuple(orders), self.span, self.num_patterns, self.inputs_.name, self.base,
            self.strands, self.pooling, self.position,
        )  # fmt: skip

    def _has_content(self, one: Any) -> bool:
        inputs, orders = self.inputs_, self.orders or OF_ALPHABETS.get(self.inputs_.name, ORDERS)
        has_network = any(target.pool.network for target in self.targets_)
        if isinstance(one, np.ndarray) or not inputs.alphabet:
            return len(one) > 0
        if self.has_kmers and not has_network and len(one) < min(orders):
            return False
        codes = codes_of(inputs.name) if inputs.name in ALPHABETS else None
        return any(codes.get(t.upper()) if codes else t in inputs.alphabet for t in one)

    def kernel_objects(self, objects: Any) -> Any:
        return objects if self.has_kmers else super().kernel_objects(objects)

    def explain_kernel(self, one: Any, output: int) -> Explained:
        machine = self.machine_
        if machine is None or not self.has_kmers:
            return super().explain_kernel(one, output)
        coefficients, constant = machine.centered(output)
        hits = machine.kernel.occurrences(one, coefficients)
        parts = [Contribution(hit.name, hit.where, KERNEL, hit.value) for hit in hits]
        return machine.centered_score([one], output), constant, parts

    def explanation_details(self, one: Any, explanation: Explanation) -> dict[str, Any]:
        if isinstance(one, np.ndarray) or not 0 < len(one) <= SHOWN:
            return {}
        return explanation.marks([str(token) for token in one])

    def motifs(self, count: int = 6) -> list[dict[str, Any]]:
        """Return the k-mers and the references of the network with the largest coefficients.

        Returns:
            For each class, or number, and each part: ``title``, ``part`` and ``logos``, see `Logo`;
            those of vectors and of kernels that compare other objects are left out.
        """
        names = (classes_of(self.target_) or [["value"]])[0]
        entries, machine = [], self.machine_
        for k, name in enumerate(names):
            if machine is not None and self.has_kmers:
                logos = machine.kernel.logos(machine.centered(k)[0], count)
                entries.append({"title": str(name), "part": KERNEL, "logos": logos})
            if self.network_ is not None and (logos := self._references(k, count)):
                entries.append({"title": str(name), "part": NETWORK, "logos": logos})
        return [entry | {"logos": [logo._asdict() for logo in entry["logos"]]} for entry in entries]

    def _references(self, output: int, count: int) -> list[Logo]:
        """Return the references of the network as vectors of each letter, by their weights."""
        model, inputs = self.network_, self.inputs_
        references = getattr(model.network, "reference", None)
        if not isinstance(references, Tensor) or references.ndim != 3 or not inputs.alphabet:
            return []
        letters = Letters(inputs.name, inputs.alphabet)
        has_base = inputs.name != "any" or inputs.base != "one-hot"
        vectors = (
            letters.vectors(inputs.base)[: len(inputs.alphabet)]
            if has_base
            else np.eye(len(inputs.alphabet), inputs.width)
        )
        weights = model.head.weight.detach().double().numpy()
        above = weights[output] - (weights.mean(0) if len(weights) > 1 else 0.0)
        heights = references.detach().double().numpy() @ vectors.T
        tokens, listed = [*map(str, inputs.alphabet)], []
        for unit in np.argsort(-above, kind="stable")[
            : min(count, int((above > 0).sum()))
        ].tolist():
            columns = [dict(zip(tokens, row, strict=True)) for row in heights[unit].tolist()]
            listed.append(Logo(f"unit {unit}", float(above[unit]), columns))
        return listed

    def width(self, inputs: SequenceInputs) -> int:
        return inputs.width

    def exact(self, objects: Sequence[Any]) -> list[Tensor]:
        return [torch.from_numpy(codes) for codes in self.inputs_.encode(objects)]

    def names_of(self, one: Any) -> Sequence[str]:
        return [f"step {t}" for t in range(len(one))] if isinstance(one, np.ndarray) else one

    def places_of(self, one: Any, contributions: Sequence[Contribution]) -> Places:
        nouns = "step" if isinstance(one, np.ndarray) else "token", "feature"
        return Places.numbered(
            [*map(str, self.names_of(one))], "whole sequence", nouns, (KERNEL, NETWORK)
        )

    def _check_objects(self, X: Any) -> list[Any]:
        return read_sequences(X)

    @classmethod
    def digests(cls, objects: Sequence[Any]) -> NDArray[np.int64]:
        """Return numbers by which sequences are equal, in either case of biological letters."""
        if any(isinstance(sequence, np.ndarray) for sequence in objects):
            return super().digests(objects)
        name = detected(objects)
        if name in ALPHABETS:
            table = str.maketrans("U", "U" if name == "protein" else "T")
            objects = [tuple("".join(tokens).upper().translate(table)) for tokens in objects]
        return super().digests(objects)

    @staticmethod
    def _digest(one: Any) -> int:
        return digest_of(one.tobytes() if isinstance(one, np.ndarray) else repr(one))

    def learn_inputs(self, objects: Sequence[Any], seed: int) -> SequenceInputs:
        vectors = next((value for value in objects if isinstance(value, np.ndarray)), None)
        if vectors is not None:
            return SequenceInputs((), vectors.shape[1])
        if not any(map(len, objects)):
            raise DataError("X has empty sequences only", fix="Pass sequences with tokens.")
        name, tokens = Letters.learn(self.alphabet, objects)
        if name == "any" and self.base == "one-hot":
            return SequenceInputs(tokens, len(tokens) + 1)
        width = Letters(name, tokens).vectors(self.base).shape[1]
        return SequenceInputs(tokens, width, name, self.base)

    @staticmethod
    def _make(config: KernelModelConfig) -> KernelModel:
        return KernelModel(config)


def read_sequences(X: Any) -> list[Any]:
    """Return strings and lists of tokens as tuples, lists of vectors as arrays ``(T, d)``."""
    if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__len__"):
        fix = "Put a single sequence into a list."
        raise DataError(f"X is a {type(X).__name__}, not a list of sequences", fix=fix)
    sequences = [_read(x, row) for row, x in enumerate(X)]
    widths = sorted({x.shape[1] for x in sequences if isinstance(x, np.ndarray)})
    are_vectors = [isinstance(x, np.ndarray) for x in sequences if len(x)]
    if len(widths) > 1 or len(set(are_vectors)) > 1:
        problem = f"X has vectors of {widths} features" if len(widths) > 1 else "X mixes kinds"
        raise DataError(problem, fix="Pass only tokens, or only vectors of one length.")
    if not widths:
        return sequences
    return [np.zeros((0, widths[0])) if not len(x) else x for x in sequences]


def _read(value: Any, row: int) -> Any:
    if isinstance(value, str):
        return tuple(value)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if not isinstance(value, (list, tuple, np.ndarray)):
        problem = f"X[{row}] is a {type(value).__name__}"
        raise DataError(
            problem, fix="Pass a string, a list of tokens or an array (time, features)."
        )
    is_nested = len(value) > 0 and not isinstance(value[0], str) and np.ndim(value[0]) == 1
    if not is_nested:
        if not all(isinstance(token, (str, int, np.integer)) for token in value):
            fix = "Tokens are texts or integers; vectors are rows of an array (time, features)."
            raise DataError(f"X[{row}] has a token that is no token", fix=fix)
        return tuple(int(t) if isinstance(t, np.integer) else t for t in value)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or not np.isfinite(array).all():
        raise DataError(f"X[{row}] is no array (time, features) of finite numbers")
    return array


class SequenceClassifier(SequenceHalves, Classifier):
    """A classifier of DNA, RNA, proteins, lists of events, or sequences of vectors.

    X is a sequence of strings or lists of tokens, or of arrays ``(T, d)``. By default, the kernel
    half of letters and tokens is ridge regression of the classes on k-mers with gaps, see
    `KmerKernel`, and the network half compares n-grams with learned references. `explain` returns
    the contribution of each k-mer, with the positions of its letters in ``where``.

    With a `kernel`, the kernel half predicts with the kernel itself and training objects, whose
    tokens are one-hot vectors, and the network half with `kernel.network` and learned references;
    both are functions of the same space, and `explain` divides both into the parts of a sum and the
    tokens in the same way.

    Examples:
        >>> from representer.estimators import SequenceClassifier
        >>> from representer.kernels import KmerKernel, StringKernel
        >>> X, y = ["abab", "abba", "aabb", "cdcd", "cddc", "ccdd"] * 5, [0, 0, 0, 1, 1, 1] * 5
        >>> kernel = StringKernel(1) + 0.5 * StringKernel(2, decay=0.8)
        >>> model = SequenceClassifier(kernel=kernel, epochs=1, random_state=0, verbose=0).fit(X, y)
        >>> model.predict(["abab"]).shape
        (1,)

        >>> reads = ["ACGTTGCANN", "ttgacgtaac", "ACGGGTCCAA", "GGTACCTTGA"] * 5
        >>> model = SequenceClassifier(answer="kernel", random_state=0, verbose=0)
        >>> model.fit(reads, ["bound", "bound", "free", "free"] * 5).predict(reads[:1]).tolist()
        ['bound']

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017. Ghandi
        et al., Enhanced Regulatory Sequence Prediction Using Gapped k-mer Features, 2014.
    """


class SequenceRegressor(SequenceHalves, Regressor):
    """A regressor of sequences; X, kernel and network are those of `SequenceClassifier`."""
