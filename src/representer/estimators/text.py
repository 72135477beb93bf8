"""Estimators of texts: words, their vectors, a recurrent cell and a head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch

from representer.data.stored import Stored, sampled
from representer.data.text import (
    Vocabulary,
    WordVectors,
    collate,
    cooccurrence_vectors,
    document_lengths,
    length_buckets,
    read_vectors,
    stored_documents,
    tokenize,
)
from representer.errors import DataError
from representer.estimators.containers import strings_of
from representer.estimators.explanation import KERNEL, NETWORK, Contribution, Explanation
from representer.estimators.kinds import Classifier, Regressor
from representer.estimators.ngram_contributions import with_gaps
from representer.estimators.parameters import DECAYS
from representer.estimators.pool import Explained
from representer.estimators.supervised import SupervisedEstimator
from representer.estimators.targets import columns_of
from representer.estimators.text_details import details_of
from representer.estimators.text_explanation import TextModel, ngram_sum
from representer.estimators.text_parameters import (
    NORMALIZATIONS,
    TRAINING,
    VECTORS,
    TextParameters,
)
from representer.kernels.text_kernel import WORDS, TextKernel
from representer.models import (
    SequenceClassifier,
    SequenceClassifierConfig,
    StackedClassifier,
    StackedClassifierConfig,
)
from representer.models.cells import TITLES
from representer.storage.fields import from_values
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder
from representer.training import generators

VOCABULARY = "vocabulary.json"
_LACKING = {  # options that are on by default, and the cells without them
    "layer_norm": ("string-kernel", "torch-lstm"),
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
        return [self.vocabulary.encode(self.words(text)) for text in X]

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
        lengths = document_lengths(encoded) if is_stored else [len(one) for one in encoded]
        return lambda epoch: length_buckets(lengths, batch_size, seed, epoch)


@dataclass(frozen=True)
class _SavedInputs:
    """The inputs in model.json; the vocabulary has a file of its own."""

    tokenizer: Literal["words", "blanks", "leam"]
    max_length: int | None


class TextNetwork(TextParameters, SupervisedEstimator):
    """The network for texts, see `TextClassifier`."""

    _task: ClassVar[str] = "text"
    _noun: ClassVar[str] = "text"
    _input_tags: ClassVar[tuple[str, ...]] = ("string",)
    _config: ClassVar[type[SequenceClassifierConfig]] = SequenceClassifierConfig
    inputs_: TextInputs
    network_: TextModel

    def _check_objects(self, X: Any) -> list[str]:
        return strings_of(X, "texts", "a string")

    def _has_content(self, one: str) -> bool:
        words = self.inputs_.words(one)
        if not words or any(word in self.inputs_.vocabulary for word in words):
            return True
        if any(target.pool.network for target in self.targets_):
            return False
        machines = [target.machine for target in self.targets_ if target.machine]
        return any(machine.kernel.transform([one]).nnz for machine in machines)

    def _learn_inputs(self, objects: Sequence[str], seed: int) -> TextInputs:
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
        return SequenceClassifierConfig(
            vocabulary_size=len(inputs.vocabulary),
            num_classes=width,
            cell=self.cell,
            embedding_size=vectors.dimensions if vectors else self.embedding_size,
            hidden_size=self.hidden_size,
            filter_length=self._units_by_length() or self.filter_length,
            filter_padding=self.filter_padding,  # type: ignore[arg-type]
            order=self.order,
            decay=decay if decay in DECAYS else float(decay),
            combine=self.combine,  # type: ignore[arg-type]
            normalized=NORMALIZATIONS[self.normalized],  # type: ignore[arg-type]
            readout=self.readout,  # type: ignore[arg-type]
            dilation=self.dilation,
            initialization=self.initialization,  # type: ignore[arg-type]
            num_layers=self.num_layers,
            bidirectional=self.bidirectional,
            layer_norm=has_norm if self.layer_norm is None else self.layer_norm,
            forget_bias=self.forget_bias,
            candidate_bias=self.candidate_bias,
            learn_static_gates=self.learn_static_gates,
            dropout=self.dropout,
            head_size=self.hidden_size,
            pooling=self.pooling,  # type: ignore[arg-type]
            max_length=self.max_length if self.pooling == "padded_mean" else None,
            padding_index=inputs.vocabulary.PAD,
        )

    def _units_by_length(self) -> dict[int, int]:
        """Return the units of each of several filter lengths, as equal as they can be."""
        share, others = divmod(self.hidden_size, len(self.filter_lengths) or 1)
        return {n: share + (k < others) for k, n in enumerate(self.filter_lengths)}

    @staticmethod
    def _make(config: Any) -> TextModel:
        is_stacked = isinstance(config, StackedClassifierConfig)
        return (StackedClassifier if is_stacked else SequenceClassifier)(config)

    def _read_config(self, values: dict[str, Any]) -> Any:
        is_stacked = "rnn_dropout" in values  # a network of L17 section 6.2
        return from_values(StackedClassifierConfig if is_stacked else self._config, values)

    @property
    def _network_name(self) -> str:
        return TITLES[self.cell]

    def _require_sizes(self, config: Any) -> None:
        if config.vocabulary_size != len(self.inputs_.vocabulary):
            raise ValueError(f"the network has {config.vocabulary_size:,} words, {VOCABULARY} "
                             f"{len(self.inputs_.vocabulary):,}")  # fmt: skip
        if config.num_classes != self.target_.width:
            raise ValueError(f"the network has {config.num_classes:,} outputs for "
                             f"{self.target_.width:,} targets")  # fmt: skip

    def _initialize(self, network: SequenceClassifier, inputs: TextInputs, seed: int) -> None:
        vectors = vars(self).pop("_word_vectors")  # read once, and not kept
        self.inputs_ = replace(inputs, texts=None, documents=None)
        if vectors is not None:
            generator = generators.generator(seed, "vectors")
            matrix, self.coverage_ = vectors.align(inputs.vocabulary, generator)
        elif self.vectors == TRAINING and inputs.documents is not None:
            words, features = network.embedding.weight.shape
            derived = generators.derive(seed, "vectors") % 2**32
            documents = sampled(inputs.documents)
            found = cooccurrence_vectors(documents, words, features, derived)
            matrix = torch.from_numpy(found)
        else:
            network.embedding.weight.requires_grad_(not self.freeze_embeddings)
            return
        network.set_vectors(matrix, freeze=self.freeze_embeddings)

    def _read_vectors(self, inputs: TextInputs) -> WordVectors | None:
        if isinstance(self.vectors, WordVectors):
            return self.vectors
        if self.vectors is None or self.vectors in VECTORS:
            return None
        return read_vectors(self.vectors, inputs.vocabulary)

    def _new_kernel(self) -> TextKernel:
        scheme: Any = self.tokenizer
        return TextKernel(partial(tokenize, scheme=scheme))

    def _explain_network(self, one: str, output: int) -> Explained:
        words = self.inputs_.words(one)
        width = columns_of(self.target_)[0].width
        result = ngram_sum(self.network_, self.inputs_.vocabulary.encode(words), output, width)
        parts = [
            Contribution(with_gaps(words, at), at, NETWORK, value) for at, value in result.ngrams
        ]
        return result.score, result.constant, parts

    def _explain_kernel(self, one: str, output: int) -> Explained:
        machine = self.machine_
        assert machine is not None
        coefficients, constant = machine.centered(output)
        score = machine.centered_score([one], output)
        joined, found = machine.kernel.occurrences(one)
        words, parts = joined.split(), []
        for column, view, where, value in found:
            if view == WORDS:
                what, at = " ".join(words[t] for t in where), where
            else:  # characters of one of the joined words, maybe with the space before or after it
                what = f"'{''.join(joined[t] for t in where)}'"
                at = (joined[: where[1]].count(" ") - 1,)
            parts.append(Contribution(what, at, KERNEL, value * float(coefficients[column])))
        return score, constant, parts

    def _explanation_details(self, one: str, explanation: Explanation) -> dict[str, Any]:
        return details_of(self, one, explanation)

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        run.write_text(VOCABULARY, self.inputs_.vocabulary.to_json() + "\n")
        return {"tokenizer": self.inputs_.tokenizer, "max_length": self.inputs_.max_length}

    def _load_inputs(self, files: RunFiles, values: Any) -> TextInputs:
        known = from_values(_SavedInputs, values)
        vocabulary = Vocabulary.from_json(files.text(VOCABULARY), file=files.folder / VOCABULARY)
        return TextInputs(vocabulary, known.tokenizer, known.max_length)


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
