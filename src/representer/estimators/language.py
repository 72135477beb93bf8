"""The estimator of running text: a recurrent language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from representer import models
from representer.data.language import LanguageVocabulary, Level, count_tokens
from representer.errors import ArgumentError, DataError
from representer.estimators import saving
from representer.estimators.explanation import Explanation
from representer.estimators.generate import generate
from representer.estimators.language_explanation import explain_next
from representer.estimators.language_inputs import (
    LanguageInputs,
    checked_prompts,
    hold_out,
    lines_of,
)
from representer.estimators.language_parameters import LanguageParameters
from representer.estimators.language_training import (
    check_texts,
    network_config,
    optimizer_for,
    trainer_config,
    training_task,
)  # fmt: skip
from representer.estimators.network_estimator import NetworkEstimator, seed_of
from representer.estimators.perplexity import figures, negative_log_likelihood
from representer.models import LanguageModelConfig
from representer.printable import say
from representer.storage.fields import from_values
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder, UnsavedRun
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_result import TrainingResult

VOCABULARY = "vocabulary.json"


@dataclass(frozen=True)
class _SavedInputs:
    """The inputs in model.json; the vocabulary has a file of its own."""

    level: Level


class LanguageModel(LanguageParameters, NetworkEstimator):
    r"""A language model of words or characters.

    Recurrent layers (string-kernel networks of L17, or the cells of L19 Table 1) read the text, and
    a softmax that shares the embedding predicts the next token. A text is a string, a
    `pathlib.Path`, or an iterable of lines; each line ends with the token ``<eos>``.

    Examples:
        >>> from representer.estimators import LanguageModel
        >>> model = LanguageModel(hidden_size=16, epochs=1, random_state=0, verbose=0)
        >>> model = model.fit("the cat sat on the mat\n" * 50)
        >>> model.perplexity("the cat sat") > 1
        True

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.1. Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 5.3.
    """

    _task: ClassVar[str] = "language"
    _config: ClassVar[type[LanguageModelConfig]] = LanguageModelConfig
    _input_tags: ClassVar[tuple[str, ...]] = ("string",)
    inputs_: LanguageInputs
    network_: models.LanguageModel

    def fit(self, text: Any, y: Any = None, *, validation: Any = None) -> Self:
        """Train on a text.

        Args:
            text: The text.
            y: Not used.
            validation: A text that selects the best epoch; by default the last lines of the
                training text, `valid_fraction`, are held out for this.

        Returns:
            The fitted estimator.

        Raises:
            DataError: A text is too short or cannot be used.
            ArgumentError: A parameter is out of its range.
        """
        self.check()
        level: Level = self.level  # type: ignore[assignment]
        lines, seed = lines_of(text, self.encoding), self._seed()
        if validation is None:
            lines, valid_lines = hold_out(lines, self.valid_fraction, level)
        else:
            valid_lines = lines_of(validation, self.encoding)
        self.inputs_ = self.learn_inputs(count_tokens(lines, level))
        train, valid = self.inputs_.encode(lines), self.inputs_.encode(valid_lines)
        check_texts(self, len(self.inputs_.vocabulary), train, valid)
        self.train_on(UnsavedRun(), self.new_network(seed), train, valid, seed)
        return self

    @property
    def tokens_(self) -> tuple[str, ...]:
        """The tokens, in the order of the columns of `predict_proba`."""
        check_is_fitted(self)
        return self.inputs_.vocabulary.words

    def score(self, text: Any, y: Any = None) -> float:
        """Return the mean log-probability per token of a text in nats.

        The state is carried through the text; its first token is given, not predicted.

        Raises:
            DataError: The text has no token to predict.
        """
        check_is_fitted(self)
        tokens = self.inputs_.encode(lines_of(text, self.encoding))
        if len(tokens) < 2:
            raise DataError("the text has no token to predict", fix="Give a longer text.")
        nats = negative_log_likelihood(self.network_, tokens)
        if not np.isfinite(nats):
            raise DataError("the network's predictions are not finite", fix="Train it again.")
        return -nats

    def perplexity(self, text: Any) -> float:
        """Return the perplexity of a text; see `score`."""
        return figures(-self.score(text), 0, self.inputs_.level)["perplexity"]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each next token ``(N, V)``.

        Args:
            X: The beginnings of N texts; the next token follows the last one of each.
        """
        prompts = self._prompts(X)
        logs = [self._log_probabilities(self.inputs_.encode_prompt(prompt)) for prompt in prompts]
        return torch.stack(logs).exp().numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable next token of each beginning of a text ``(N,)``."""
        return np.asarray(self.tokens_)[self.predict_proba(X).argmax(axis=1)]

    def generate(
        self,
        prompt: str = "",
        length: int = 100,
        temperature: float = 1.0,
        *,
        top_p: float = 1.0,
        random_state: Any = None,
    ) -> str:
        """Return a continuation of a prompt, without the prompt; see `stream`.

        Args:
            prompt: The text to continue; an empty one starts a line.
            length: Number of tokens.
            temperature: Softmax temperature; below 1 sharpens the distribution; 0: greedy.
            top_p: Sample from the smallest set of tokens with this total probability.
            random_state: Random seed.

        Raises:
            ArgumentError: A value is out of its range.
        """
        pieces = self.stream(prompt, length, temperature, top_p=top_p, random_state=random_state)
        return "".join(pieces)

    def stream(
        self,
        prompt: str = "",
        length: int = 100,
        temperature: float = 1.0,
        *,
        top_p: float = 1.0,
        random_state: Any = None,
    ) -> Iterator[str]:
        """Return the pieces of a continuation, each as soon as it is sampled; see `generate`.

        Unknown tokens of the prompt are read as ``<unk>``, which is never generated.
        """
        (prompt,) = self._prompts([prompt])
        if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
            raise ArgumentError("length", length, "a positive integer")
        tokens = self.inputs_.encode_prompt(prompt)
        sampled = generate(
            self.network_, tokens, int(length), temperature=temperature, top_p=top_p,
            never=[LanguageVocabulary.UNKNOWN], seed=seed_of(random_state),
        )  # fmt: skip
        return self.inputs_.pieces(sampled, starts_line=tokens[-1] == LanguageVocabulary.END)

    def explain(self, X: Any, k: int = 10) -> list[Explanation]:
        """Return each most probable next token with the contributions that sum to its score.

        The score is the logit of the token minus the mean of all logits. A contribution's ``where``
        counts the tokens of the text from 0; the ``<eos>`` before the text has no position.

        Args:
            X: The beginnings of N texts.
            k: Number of contributions to show for each; all of them are returned.

        Raises:
            KindError: The cell has no contributions, or the model has `cutoffs`.
        """
        ids = [self.inputs_.encode_prompt(prompt) for prompt in self._prompts(X)]
        return [explain_next(self.network_, own, self.tokens_, k) for own in ids]

    # ---- how it is done

    def learn_inputs(self, counts: Counter[str]) -> LanguageInputs:
        """Return the inputs for a training text with these tokens, or those of `warm_start`.

        Raises:
            DataError: No token is frequent enough, or the run cannot be used.
            ArgumentError: The run that training starts from has tokens of another level.
        """
        level: Level = self.level  # type: ignore[assignment]
        if self.warm_start is None:
            return LanguageInputs.from_counts(counts, level, self.min_count, self.max_vocabulary)
        inputs: LanguageInputs = saving.load_inputs(self.warm_start, type(self))
        if inputs.level != level:
            raise ArgumentError("level", level, f"{inputs.level!r}, as in {self.warm_start}")
        return inputs

    def new_network(self, seed: int, *, is_resumed: bool = False) -> models.LanguageModel:
        """Return the network with its initial weights: random, or those of `warm_start`.

        Args:
            seed: The seed of random weights.
            is_resumed: The weights come from a checkpoint; `warm_start` may be gone.
        """
        with generators.initializing(seed):
            network = models.LanguageModel(network_config(self, len(self.inputs_.vocabulary)))
        if not is_resumed:
            self._start_from(self._load_start(), network)
        return network

    def train_on(
        self,
        run: RunFolder,
        network: models.LanguageModel,
        train: Tensor,
        valid: Tensor,
        seed: int,
        *,
        settings: Callable[[TrainerConfig], dict[str, Any]] = lambda config: {},
    ) -> TrainingResult:
        """Train a network in a run folder, from its newest checkpoint if there is one.

        Args:
            run: The folder for checkpoints and metrics.
            network: With its initial weights.
            train: Tokens of the training text ``(N,)``, encoded by `inputs_`.
            valid: Tokens of the validation text ``(M,)``.
            seed: Of the lengths of segments and of dropout.
            settings: What else determines a run that is resumed, from the trainer's configuration.
        """
        task = training_task(self, train, valid, network, seed)
        config, optimizer = trainer_config(self, len(train), seed), optimizer_for(self, network)
        return self._train_network(run, network, task, config, optimizer, settings(config))

    _make = staticmethod(models.LanguageModel)

    def _prompts(self, X: Any) -> list[str]:
        """Return beginnings of texts, after naming unknown tokens on stderr."""
        check_is_fitted(self)
        prompts = checked_prompts(X)
        for unknown in map(self.inputs_.unknown, prompts if self.verbose else ()):
            if unknown:
                say(f"unknown tokens, read as <unk>: {', '.join(map(repr, unknown))}")
        return prompts

    @torch.no_grad()
    def _log_probabilities(self, ids: list[int]) -> Tensor:
        tokens = torch.tensor(ids, device=self.network_.embedding.weight.device)
        features = self.network_(tokens[:, None]).features[-1, 0]
        return self.network_.output.log_probabilities(features).double().cpu()

    def _require_sizes(self, config: LanguageModelConfig) -> None:
        if (n := len(self.inputs_.vocabulary)) != config.vocabulary_size:
            raise ValueError(f"it has {n:,} tokens; the model has {config.vocabulary_size:,}")

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        run.write_text(VOCABULARY, self.inputs_.vocabulary.to_json() + "\n")
        return {"level": self.inputs_.level}

    def _load_inputs(self, files: RunFiles, values: Any) -> LanguageInputs:
        saved = from_values(_SavedInputs, values)
        path = files.folder / VOCABULARY
        vocabulary = LanguageVocabulary.from_json(files.text(VOCABULARY), file=path)
        return LanguageInputs(vocabulary, saved.level)
