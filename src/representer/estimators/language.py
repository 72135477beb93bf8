"""The estimator of running text: a recurrent language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from representer import models
from representer.data.language import LanguageVocabulary, Level
from representer.errors import ArgumentError, DataError
from representer.estimators.explanation import Contribution, Explanation
from representer.estimators.generate import generate
from representer.estimators.language_explanation import explain_next
from representer.estimators.language_inputs import LanguageInputs, hold_out, lines_of
from representer.estimators.language_parameters import LanguageParameters
from representer.estimators.language_training import (
    network_config,
    optimizer_for,
    streams_for,
    trainer_config,
    training_task,
)
from representer.estimators.network_estimator import NetworkEstimator, seed_of
from representer.estimators.perplexity import figures, negative_log_likelihood
from representer.models import LanguageModelConfig
from representer.printable import say
from representer.storage.fields import from_values
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder, UnsavedRun
from representer.training import generators

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
        return self._fit(UnsavedRun(), text, validation)

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
        """Return a continuation of a prompt, without the prompt.

        Unknown tokens of the prompt are read as ``<unk>``, which is never generated.

        Args:
            prompt: The text to continue; an empty one starts a line.
            length: Number of tokens.
            temperature: Softmax temperature; below 1 sharpens the distribution; 0: greedy.
            top_p: Sample from the smallest set of tokens with this total probability.
            random_state: Random seed.

        Raises:
            ArgumentError: A value is out of its range.
        """
        (prompt,) = self._prompts([prompt])
        if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
            raise ArgumentError("length", length, "a positive integer")
        tokens = self.inputs_.encode_prompt(prompt)
        sampled = generate(
            self.network_, tokens, int(length), temperature=temperature, top_p=top_p,
            never=[LanguageVocabulary.UNKNOWN], seed=seed_of(random_state),
        )  # fmt: skip
        is_start = tokens[-1] == LanguageVocabulary.END
        return "".join(self.inputs_.pieces(sampled, starts_line=is_start))

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
        explanations = []
        for prompt in self._prompts(X):
            ids = self.inputs_.encode_prompt(prompt)
            words = [self.tokens_[number] for number in ids]
            result = explain_next(self.network_, ids)
            parts = [
                Contribution(
                    " ".join(words[t] for t in at), tuple(t - 1 for t in at if t), "network", value
                )
                for at, value in result.ngrams
            ]
            ordered = tuple(sorted(parts, key=lambda part: -abs(part.contribution)))
            token = self.tokens_[result.token]
            explanations.append(Explanation(token, result.score, result.constant, ordered, k))
        return explanations

    # ---- how it is done

    def _fit(self, run: RunFolder, text: Any, validation: Any) -> Self:
        """Train in a run folder, from its newest checkpoint if it is opened to be resumed."""
        self.check()
        level: Level = self.level  # type: ignore[assignment]
        lines, seed = lines_of(text, self.encoding), self._seed()
        if validation is None:
            lines, valid_lines = hold_out(lines, self.valid_fraction, level)
        else:
            valid_lines = lines_of(validation, self.encoding)
        start = self._load_start()
        most = self.max_vocabulary or None
        self.inputs_ = (
            start.inputs_ if start else LanguageInputs.learn(lines, level, self.min_count, most)
        )
        train, valid = self.inputs_.encode(lines), self.inputs_.encode(valid_lines)
        _require_length("training", train, 2 * streams_for(self, len(train)))
        _require_length("validation", valid, 1)
        config = network_config(self, len(self.inputs_.vocabulary))
        with generators.initializing(seed):
            network = models.LanguageModel(config)
        if start:
            network.load_state_dict(start.network_.state_dict())
        task = training_task(self, train, valid, network, seed)
        optimizer = optimizer_for(self, network)
        self._train_network(run, network, task, trainer_config(self, len(train), seed), optimizer)
        return self

    _make = staticmethod(models.LanguageModel)

    def _prompts(self, X: Any) -> list[str]:
        """Return beginnings of texts, after naming unknown tokens on stderr."""
        check_is_fitted(self)
        if isinstance(X, str):
            raise DataError("X is one string; expected a sequence of texts", fix="Pass [text].")
        prompts = list(X)
        for row, prompt in enumerate(prompts):
            if not isinstance(prompt, str):
                kind = type(prompt).__name__
                raise DataError(f"X[{row}] is {prompt!r:.40} of type {kind}; expected a string")
            if self.verbose and (unknown := self.inputs_.unknown(prompt)):
                say(f"unknown tokens, read as <unk>: {', '.join(map(repr, unknown))}")
        if not prompts:
            raise DataError("X has 0 sample(s); at least one text is required")
        return prompts

    @torch.no_grad()
    def _log_probabilities(self, ids: list[int]) -> Tensor:
        tokens = torch.tensor(ids, device=next(self.network_.parameters()).device)
        features = self.network_(tokens[:, None]).features[-1, 0]
        return self.network_.output.log_probabilities(features).double().cpu()

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        run.write_text(VOCABULARY, self.inputs_.vocabulary.to_json() + "\n")
        return {"level": self.inputs_.level}

    def _load_inputs(self, files: RunFiles, values: Any) -> LanguageInputs:
        saved = from_values(_SavedInputs, values)
        path = files.folder / VOCABULARY
        vocabulary = LanguageVocabulary.from_json(files.text(VOCABULARY), file=path)
        return LanguageInputs(vocabulary, saved.level)


def _require_length(name: str, tokens: Tensor, more_than: int) -> None:
    if len(tokens) <= more_than:
        problem = f"the {name} text has {len(tokens)} token(s); more than {more_than} are needed"
        raise DataError(problem, fix="Give a longer text; a file is passed as pathlib.Path.")
