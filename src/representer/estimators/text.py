"""Estimators of texts: words, their vectors, a recurrent cell and a head."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from representer.data.splits import digest_of
from representer.data.text import (
    FREQUENT,
    Vocabulary,
    WordVectors,
    collate,
    cooccurrence_vectors,
    document_lengths,
    length_buckets,
    read_vectors,
    stored_documents,
    tokenize,
    tokenize_pieces,
)
from representer.data.text.words import Stored, sampled
from representer.errors import DataError, KindError
from representer.estimators.explanation import (
    KERNEL,
    NETWORK,
    Contribution,
    Explained,
    Explanation,
    Places,
)
from representer.estimators.label_sets import LabelSets
from representer.estimators.linear_models import has_many
from representer.estimators.supervised import Classifier, Regressor, SupervisedEstimator
from representer.estimators.targets import centered, columns_of
from representer.explain import StackReadout, reference_card, stack_readout
from representer.explain.stacks import Layer, ngram_contributions, require_layers, with_gaps
from representer.kernels.sequences import Numbered, records_of, strings_of
from representer.kernels.text_kernel import WORDS, TextKernel
from representer.kernels.vector_features import TextRow
from representer.models import (
    SequenceClassifierConfig,
    SequenceNetwork,
    StackedClassifier,
    StackedClassifierConfig,
)
from representer.models.cells import TITLES
from representer.nn import StringKernelRNN
from representer.options.task import DECAYS, in_common
from representer.options.text import NORMALIZATIONS, TRAINING, VECTORS, TextParameters
from representer.storage.atomic import from_values
from representer.storage.run import RunFiles, RunFolder
from representer.training import generators

# The output of a text network as an exact sum over the n-grams of a text.
#
# The classifier is y = W_2 relu(W_1 h + b_1) + b_2 of the mean h of the outputs of the cell, or y =
# W h of the means of several layers. Given which relus are active, and the weight of each step in
# the mean, an output is a weighted sum of the cell's outputs, which ``representer.explain``
# decomposes through all layers down to the words. The explained score is the logit of the predicted
# class minus the mean of all logits, since a constant added to all logits does not change the
# prediction; with one output it is the output.

TextModel = SequenceNetwork | StackedClassifier


class Evidence(NamedTuple):
    """A prediction, and its score as a weighted sum of the outputs of the cell."""

    label: int  # the explained class; 0 with one output
    probability: float  # probability of this class
    # weight of the output of every step, for each layer that is read ``(T, D·H)``
    weights: list[Tensor]
    constant: float  # contribution of the biases


class NgramSum(NamedTuple):
    """The score of a document, and the contributions that sum to it."""

    label: int  # the explained class
    probability: float  # of this class
    # positions of the words of each n-gram, and its contribution, in reading order
    ngrams: list[tuple[tuple[int, ...], float]]
    constant: float  # contribution of the biases
    score: float  # the score, from a forward pass of the network in float64


def ngram_sum(
    model: TextModel, ids: Sequence[int], output: int | None = None,
    width: int | slice | None = None,
) -> NgramSum:  # fmt: skip
    """Return the score of a document as a sum over its n-grams; see `ngram_contributions`.

    ``output`` is the class whose score is explained, by default the predicted one; ``width`` the
    number of outputs of the first target, which is explained, by default all. A slice has those
    that are meant, where one of several labels is explained. Without words, the score is the
    constant.

    Raises:
        KindError: If the output of the cell is not a sum over the words.
    """
    layers, tokens = layers_of(model), torch.tensor(ids)
    chosen = width if isinstance(width, slice) else slice(width)
    exact = copy.deepcopy(model).double()
    if not len(ids):
        with torch.no_grad():  # one step of padding, which is not read
            outputs = exact(torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0]))[0, chosen]
        label = int(outputs.argmax()) if output is None else output
        score = centered(outputs)[label].item()
        return NgramSum(label, outputs.softmax(0)[label].item(), [], score, score)
    with torch.no_grad():
        evidence = evidence_of(exact, tokens, output, chosen)
        x = model.embedding(tokens)
        outputs = exact(tokens[None], torch.tensor([len(ids)]))[0, chosen]
    ngrams, constant = ngram_contributions(layers, x, evidence.weights)
    return NgramSum(
        label=evidence.label, probability=evidence.probability, ngrams=ngrams,
        constant=evidence.constant + constant, score=centered(outputs)[evidence.label].item(),
    )  # fmt: skip


def layers_of(model: TextModel) -> list[Layer]:
    """Return the recurrent layers of a text network."""
    if isinstance(model, SequenceNetwork) and model.lookahead:
        hint = "Its gates depend on later words, too."
        raise KindError("filter_padding", model.config.filter_padding, "'causal'", hint=hint)
    layers = [model.cell] if isinstance(model, SequenceNetwork) else list(model.layers)
    return require_layers(layers, getattr(model.config, "cell", type(model).__name__))


def evidence_of(
    model: TextModel, ids: Tensor, output: int | None = None, width: int | slice | None = None
) -> Evidence:
    """Return the prediction for one document, and the weight of each output in its score.

    ``output`` and ``width`` are those of `ngram_sum`.
    """
    length = torch.tensor([len(ids)])
    if isinstance(model, SequenceNetwork):
        outputs, is_step = model.read(ids[None], length)
        shares = model.step_weights(outputs, is_step)[0].double()
        means = shares @ outputs[0].double()
        first, second = (
            layer for layer in model.head if isinstance(layer, torch.nn.Linear)
        )  # the others are dropout and relu
        w1, b1 = first.weight.double(), first.bias.double()
        w2, b2 = second.weight.double(), second.bias.double()
        on = (w1 @ means + b1 > 0).double()
        rows, constants, parts = (w2 * on) @ w1, (w2 * on) @ b1 + b2, 1
    else:
        means = model.encode(ids[None], length)[0].double()
        rows, parts = model.output.weight.double(), len(model.layers)
        constants = torch.zeros(len(rows))
        shares = torch.full((len(ids),), 1 / len(ids), dtype=torch.float64)
    chosen = width if isinstance(width, slice) else slice(width)
    rows, constants = rows[chosen], constants[chosen]
    chances = (rows @ means + constants).softmax(0)
    label = int(chances.argmax()) if output is None else output
    weights = shares[:, None] * centered(rows)[label]
    return Evidence(
        label, chances[label].item(), list(weights.chunk(parts, dim=1)),
        centered(constants)[label].item(),
    )  # fmt: skip


# Details of the explanation of a text: its words, and the units of the network one level deeper.
#
# See `text_explanation` for the score that the contributions sum to.

UNITS, NEAR = 5, 3  # units to list, and their n-grams


def details_of(estimator: TextNetwork, text: str, explanation: Explanation) -> dict[str, Any]:
    """Return the contribution of each word of a text, and units or steps of the network.

    The contribution of an n-gram is divided equally among its words.
    """
    top = explanation.listed
    inside = _inside(estimator, text, top) if estimator.pool_.network else {}
    return explanation.marks(estimator.names_in(text)) | inside


def _inside(estimator: TextNetwork, text: str, top: int) -> dict[str, Any]:
    """Return the units with the largest contributions, or the steps and their gates."""
    words = estimator.inputs_.words(text)
    ids = torch.tensor(estimator.inputs_.vocabulary.encode(words))
    network = estimator.network_
    with torch.no_grad():
        x = network.embedding(ids)
        ((scores, _), *_) = estimator.moments([text])  # of both parts: as in the explanation
        output, width = int(scores[0].argmax()), slice(scores.shape[1])
        if isinstance(estimator.target_, LabelSets):
            output, width = 0, slice(output, output + 1)
        evidence = evidence_of(network, ids, output, width)
    layers = layers_of(network)
    scale = estimator.target_.unit[0] * estimator.pool_.network
    readout = stack_readout(layers, x, [scale * each for each in evidence.weights])
    details: dict[str, Any] = {"layers": sum(layer.num_layers for layer in layers)}
    if isinstance(layers[0], StringKernelRNN):
        return details | {"units": _units(estimator, readout, words, x)}
    rows = [{**row._asdict(), "word": words[row.step]} for row in readout.rows(top)]
    return details | {"steps": rows}


def _units(
    estimator: TextNetwork, readout: StackReadout, words: Sequence[str], x: Tensor
) -> list[dict[str, Any]]:
    """Return the strongest units of the first layer, with the n-grams that they take it from."""
    effects = readout.steps().sum(0)
    strongest = effects.abs().topk(min(UNITS, len(effects))).indices.tolist()
    return [
        {
            "unit": unit,
            "contribution": effects[unit].item(),
            "half_life": _half_life(estimator, readout, unit, x),
            "ngrams": [
                {
                    "text": with_gaps(words, sorted(ngram.positions)),
                    "contribution": ngram.contribution,
                }
                for ngram in readout.ngrams(unit, NEAR)
            ],
        }
        for unit in strongest
    ]


def _half_life(estimator: TextNetwork, readout: StackReadout, unit: int, x: Tensor) -> float | None:
    """Return the half-life of a unit of the first layer in words; None if it never forgets."""
    marks = len(estimator.inputs_.vocabulary.MARKS)  # marks are not words
    words_known = estimator.inputs_.vocabulary.words[marks:]
    vectors = estimator.network_.embedding.weight.detach()[marks:]
    direction, index = divmod(unit, readout.parts[0].hidden_size)
    layer = readout.parts[direction]
    assert isinstance(layer, StringKernelRNN)
    read = x.double().flip(0) if direction else x.double()
    card = reference_card(layer, index, words_known, vectors, k=1, data=[read])
    return card.half_life if card.half_life != float("inf") else None


@dataclass(frozen=True)
class Tokenizer:
    """A function from a text to its words, or from many texts to their numbers."""

    scheme: Any

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text."""
        return tokenize(text, self.scheme)

    def numbered(self, texts: Iterable[str]) -> Numbered:
        """Return the words of texts; what stands between spaces is read once."""
        if self.scheme != "words":
            return Numbered.of(map(self, texts))
        pieces, ids, lengths = Numbered.of(text.split() for text in texts)
        words, of_piece, counts = Numbered.of(tokenize_pieces(pieces))
        repeated = counts[ids]
        ends = np.append(0, np.cumsum(repeated))
        first = (np.cumsum(counts) - counts)[ids] - ends[:-1]
        every = of_piece[np.repeat(first, repeated) + np.arange(ends[-1])]
        borders = ends[np.append(0, np.cumsum(lengths))]
        return Numbered(words, every, np.diff(borders))


VOCABULARY = "vocabulary.json"
START = 80  # characters whose words tell of most texts that some are known
_LACKING = {  # options that are on by default, and the cells without them
    "layer_norm": ("string-kernel", "torch-lstm")
}


@dataclass(frozen=True)
class TextInputs:
    """Texts as the numbers of their words.

    Args:
        vocabulary: Words of the training texts.
        tokenizer: Tokenization scheme.
        max_length: Maximum number of words of a text.
        texts: The training texts; later None.
        documents: The same, encoded; word vectors can start from them. Later None.
    """

    vocabulary: Vocabulary
    tokenizer: str
    max_length: int | None
    texts: Sequence[str] | None = field(default=None, repr=False, compare=False)
    documents: Sequence[list[int]] | None = field(default=None, repr=False, compare=False)

    def words(self, text: str) -> list[str]:
        """Return the words of a text that the network reads."""
        return tokenize(text, self.tokenizer)[: self.max_length]  # type: ignore[arg-type]

    def encode(self, X: Sequence[str]) -> Sequence[list[int]]:
        """Return the numbers of the words of each text."""
        if X is self.texts and self.documents is not None:
            return self.documents
        words = Tokenizer(self.tokenizer).numbered(X)
        return [ids[: self.max_length] for ids in words.lists(self.vocabulary.encode(words.tokens))]

    def collate(self, encoded: Sequence[list[int]], multiple: int = 1) -> tuple[Any, ...]:
        """Return padded numbers ``(B, T)`` and lengths ``(B,)``."""
        return collate(encoded, multiple=multiple)

    def size(self, encoded: list[int]) -> int:
        """Return the number of words."""
        return len(encoded)

    def batches(
        self, encoded: Sequence[list[int]], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        """Return the function from an epoch to batches of texts of similar length."""
        is_stored = isinstance(encoded, Stored)
        lengths = document_lengths(encoded) if is_stored else [len(x) for x in encoded]
        return lambda epoch: length_buckets(lengths, batch_size, seed, epoch)


@dataclass(frozen=True)
class _SavedInputs:
    """The inputs in model.json; the vocabulary has a file of its own."""

    tokenizer: Literal["words", "blanks", "leam"]
    max_length: int | None


def rows_of(X: Any, features: Sequence[str]) -> list[str]:
    """Return the texts of a table, with the cells of the columns next to them.

    The text is in the only other column, or in the one named ``text``.
    """
    rows: list[str] = []
    for row, record in enumerate(records_of(X)):
        if isinstance(record, str):  # without cells, if it is no `TextRow`
            rows.append(record)
            continue
        is_record = isinstance(record, Mapping)
        missing = [name for name in features if not is_record or name not in record] or ["text"]
        others = [name for name in record if name not in features] if missing == ["text"] else []
        text = record[others[0]] if len(others) == 1 else dict(record).get("text") if others else 0
        if not isinstance(text, str):
            problem = f"X[{row}] is {record!r:.40} without a text or a column {missing[0]!r}"
            fix = f"Pass a table with the columns text, {', '.join(features)}."
            raise DataError(problem, fix=fix)
        cells = [record[name] for name in features]
        rows.append(TextRow.of(text, ["" if c is None or c != c else str(c) for c in cells]))
    return rows


class TextNetwork(TextParameters, SupervisedEstimator):
    """The network for texts, see `TextClassifier`."""

    _task: ClassVar[str] = "text"
    noun: ClassVar[str] = "text"
    _input_tags: ClassVar[tuple[str, ...]] = ("string",)
    _config: ClassVar[type[SequenceClassifierConfig]] = SequenceClassifierConfig
    few: ClassVar[int] = 200
    inputs_: TextInputs
    network_: TextModel

    def _check_objects(self, X: Any) -> list[str]:
        is_table = self.features and not isinstance(X, str)
        return rows_of(X, self.features) if is_table else strings_of(X, "texts", "a string")

    @staticmethod
    def _digest(one: str) -> int:
        return digest_of("\x1f".join((one, *getattr(one, "cells", ()))))

    def _has_content(self, one: str) -> bool:
        start, vocabulary = one[:START].rpartition(" ")[0], self.inputs_.vocabulary
        if self.tokenizer == "words" and (self.max_length or START) >= START:
            pieces = start.lower().split()  # of which those of ASCII letters are words
            if any(x.isascii() and x.isalpha() and x in vocabulary for x in pieces):
                return True
        for text in (start, one):
            if any(word in vocabulary for word in self.inputs_.words(text)):
                return True
        if any(target.pool.network for target in self.targets_):
            return False
        return any(target.machine.kernel.knows(one) for target in self.targets_ if target.machine)

    def learn_inputs(self, objects: Sequence[str], seed: int) -> TextInputs:
        words = TextInputs(Vocabulary(Vocabulary.MARKS), self.tokenizer, self.max_length)
        if isinstance(objects, Stored):
            vocabulary, encoded = stored_documents(objects, words.words, self.min_count)
        else:
            documents = [words.words(text) for text in objects]
            vocabulary = Vocabulary.build(documents, self.min_count)
            encoded = [vocabulary.encode(document) for document in documents]
        if len(vocabulary) == len(Vocabulary.MARKS):
            fix = "Lower min_count."
            raise DataError(f"no word of X occurs {self.min_count} times", fix=fix)
        return TextInputs(vocabulary, self.tokenizer, self.max_length, objects, encoded)

    def _configure(self, inputs: TextInputs, width: int) -> SequenceClassifierConfig:
        self._word_vectors = vectors = self._read_vectors(inputs)
        has_norm = self.cell not in _LACKING["layer_norm"]
        usual = "state" if self.cell == "string-kernel" else SequenceClassifierConfig.decay
        decay = usual if self.decay is None else self.decay
        settings = {
            "vocabulary_size": len(inputs.vocabulary), "num_classes": width,
            "embedding_size": vectors.dimensions if vectors else self.embedding_size,
            "filter_length": self._units_by_length() or self.filter_length,
            "decay": decay if decay in DECAYS else float(decay),
            "normalized": NORMALIZATIONS[self.normalized], "head_size": self.hidden_size,
            "layer_norm": has_norm if self.layer_norm is None else self.layer_norm,
            "max_length": self.max_length if self.pooling == "padded_mean" else None,
            "padding_index": inputs.vocabulary.PAD,
        }  # fmt: skip
        return SequenceClassifierConfig(**in_common(self, SequenceClassifierConfig) | settings)

    def _units_by_length(self) -> dict[int, int]:
        """Return the units of each of several filter lengths, as equal as they can be."""
        share, others = divmod(self.hidden_size, len(self.filter_lengths) or 1)
        return {n: share + (k < others) for k, n in enumerate(self.filter_lengths)}

    @staticmethod
    def _make(config: Any) -> TextModel:
        is_stacked = isinstance(config, StackedClassifierConfig)
        return (StackedClassifier if is_stacked else SequenceNetwork)(config)

    def _read_config(self, values: dict[str, Any]) -> Any:
        is_stacked = "rnn_dropout" in values  # a network of L17 section 6.2
        return from_values(StackedClassifierConfig if is_stacked else self._config, values)

    @property
    def network_name(self) -> str:
        return TITLES[self.cell]

    def _require_sizes(self, config: Any) -> None:
        if config.vocabulary_size != len(self.inputs_.vocabulary):
            raise ValueError(f"the network has {config.vocabulary_size:,} words, {VOCABULARY} "
                             f"{len(self.inputs_.vocabulary):,}")  # fmt: skip
        if config.num_classes != self.target_.width:
            raise ValueError(f"the network has {config.num_classes:,} outputs for "
                             f"{self.target_.width:,} targets")  # fmt: skip

    def _initialize(self, network: SequenceNetwork, inputs: TextInputs, seed: int) -> None:
        vectors = vars(self)["_word_vectors"]
        if self.answer == NETWORK:
            del self._word_vectors  # read once, and not kept
        self.inputs_ = replace(inputs, texts=None, documents=None)
        if vectors is not None:
            generator = generators.generator(seed, "vectors")
            matrix, self.coverage_ = vectors.align(inputs.vocabulary, generator)
        elif self.vectors == TRAINING and inputs.documents is not None:
            words, features = network.embedding.weight.shape
            derived = generators.derive(seed, "vectors") % 2**32
            documents = sampled(inputs.documents)
            table = cooccurrence_vectors(documents, words, features, derived)
            matrix = torch.from_numpy(table)
        else:
            network.embedding.weight.requires_grad_(not self.freeze_embeddings)
            return
        network.set_vectors(matrix, freeze=self.freeze_embeddings)

    def _read_vectors(self, inputs: TextInputs) -> WordVectors | None:
        if isinstance(self.vectors, WordVectors):
            return self.vectors
        if self.vectors is None or self.vectors in VECTORS:
            return None
        return read_vectors(self.vectors, inputs.vocabulary, frequent=FREQUENT)

    def _new_kernel(self) -> TextKernel:
        nothing = WordVectors((), np.zeros((0, 1), np.float32))  # what a run has takes its place
        return TextKernel(Tokenizer(self.tokenizer), vectors=nothing, features=self.features)

    def kernel_candidates(self, objects: Any) -> Sequence[TextKernel]:
        """Return the kernel with the vectors of words, if there are some."""
        if "_word_vectors" not in vars(self):
            self._word_vectors = self._read_vectors(self.inputs_)
        vectors = vars(self).pop("_word_vectors")
        kernel = self._new_kernel().set_params(vectors=vectors and vectors.halved())
        # a class of three texts has rare words; two sets of texts that are compared have no classes
        columns = columns_of(self.target_) if "target_" in vars(self) else ()
        if any(map(has_many, columns)):
            return [kernel.of_rare()]
        return [kernel]

    def _explain_network(self, one: str, output: int) -> Explained:
        words = self.inputs_.words(one)
        width: int | slice = columns_of(self.target_)[0].width
        if isinstance(self.target_, LabelSets):
            width, output = slice(output, output + 1), 0
        result = ngram_sum(self.network_, self.inputs_.vocabulary.encode(words), output, width)
        parts = [
            Contribution(with_gaps(words, where), where, NETWORK, value)
            for where, value in result.ngrams
        ]
        return result.score, result.constant, parts

    def explain_kernel(self, one: str, output: int) -> Explained:
        machine = self.machine_
        assert machine is not None
        if isinstance(self.target_, LabelSets):
            machine, output = machine.only(output), 0
        coefficients, constant = machine.centered(output)
        score = machine.centered_score([one], output)
        joined, occurrences = machine.kernel.occurrences(one)
        words, parts = joined.split(), []
        spaces = np.cumsum([letter == " " for letter in joined])
        for column, view, where, value in occurrences:
            if view == WORDS:
                what, steps = " ".join(words[t] for t in where), where
            else:  # characters of one of the joined words, maybe with the space before or after it
                what = f"'{''.join(joined[t] for t in where)}'"
                steps = (int(spaces[where[1] - 1]) - 1,)
            parts.append(Contribution(what, steps, KERNEL, value * float(coefficients[column])))
        fixed, shares = machine.kernel.vector_shares(one, coefficients)
        for where, value in shares:
            what = f"{' … '.join(words[t] for t in where)} (vectors)"
            parts.append(Contribution(what, where, KERNEL, value))
        for k, (what, value) in enumerate(machine.kernel.table_shares(one, coefficients)):
            parts.append(Contribution(what, (len(words) + k,), KERNEL, value))
        return score, constant + fixed, parts

    def places_of(self, one: str, contributions: Sequence[Contribution]) -> Places:
        return Places.numbered(self.names_in(one), "whole text", ("word", "n-gram"))

    def names_in(self, one: str) -> list[str]:
        """Return the words of a text, and the columns next to it with their cells."""
        scheme: Any = self.inputs_.tokenizer
        machine = self.machine_ if self.features else None
        cells = machine.kernel.table_shares(one, machine.coefficients[0]) if machine else []
        return [*tokenize(one, scheme), *(what for what, _ in cells)]

    def explanation_details(self, one: str, explanation: Explanation) -> dict[str, Any]:
        return details_of(self, one, explanation)

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        run.write_text(VOCABULARY, self.inputs_.vocabulary.to_json() + "\n")
        return {"tokenizer": self.inputs_.tokenizer, "max_length": self.inputs_.max_length}

    def _load_inputs(self, files: RunFiles, values: Any) -> TextInputs:
        saved = from_values(_SavedInputs, values)
        vocabulary = Vocabulary.from_json(files.text(VOCABULARY), file=files.folder / VOCABULARY)
        return TextInputs(vocabulary, saved.tokenizer, saved.max_length)


class TextClassifier(TextNetwork, Classifier):
    """A classifier of texts.

    Each word's vector goes through a recurrent cell (L19 Table 1, or a string kernel of L17); the
    mean of its outputs goes through a head of two layers.

    Examples:
        >>> from representer.estimators import TextClassifier
        >>> texts = ["good film", "bad film", "good play", "bad play"] * 5
        >>> labels = ["+", "-"] * 10
        >>> model = TextClassifier(epochs=1, random_state=0, verbose=0).fit(texts, labels)
        >>> model.predict(["good film"]).shape
        (1,)

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, section 6.1.
    """


class TextRegressor(TextNetwork, Regressor):
    """A regressor of texts; the network is that of `TextClassifier`, with squared error."""
