"""The estimator of running text: n-gram counts and a recurrent network predict the next token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from representer.data.language import LanguageVocabulary, Level, count_tokens
from representer.errors import DataError
from representer.estimators.division import validation_fraction
from representer.estimators.explanation import KERNEL, NETWORK, Explanation
from representer.estimators.fitting import seed_of
from representer.estimators.generate import generate
from representer.estimators.language_estimator import LanguageEstimator
from representer.estimators.language_explanation import explain_next
from representer.estimators.language_inputs import checked_prompts, hold_out, lines_of
from representer.estimators.language_predictors import (
    LAST,
    figures,
    log_likelihoods,
    negative_log_likelihood,
)
from representer.estimators.language_report import results_of
from representer.estimators.language_training import check_texts
from representer.printable import say
from representer.requirements import check_integer
from representer.storage.run_folder import UnsavedRun


class LanguageModel(LanguageEstimator):
    r"""A language model of words or characters.

    The kernel half counts n-grams, the features of an exact string kernel, with Kneser-Ney
    smoothing, and keeps a cache of recent tokens. The network half has recurrent layers
    (string-kernel networks of L17, or the cells of L19 Table 1) and a softmax that shares the
    embedding. With ``answer="both"`` the probabilities are their log-linear pool

    .. math::
        p(w) \propto p_\text{kernel}(w)^a\, p_\text{network}(w)^b

    with weights fitted to the validation text. A text is a string, a `pathlib.Path`, or an iterable
    of lines; each line ends with the token ``<eos>``.

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

    _results_of = staticmethod(results_of)

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
        self._check_parameters()
        level: Level = self.level  # type: ignore[assignment]
        lines, seed = lines_of(text, self.encoding), seed_of(self.random_state)
        if validation is None:
            lines, valid_lines = hold_out(
                lines, validation_fraction(self.valid_fraction, len(lines)), level
            )
        else:
            valid_lines = lines_of(validation, self.encoding)
        self.inputs_ = self.learn_inputs(count_tokens(lines, level))
        train, valid = self.inputs_.encode(lines), self.inputs_.encode(valid_lines)
        check_texts(self, len(self.inputs_.vocabulary), train, valid)
        network = self.new_network(seed) if self.has_network else None
        self.train_on(UnsavedRun(), network, train, valid, seed)
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
        score = self.log_likelihood(tokens)
        if not np.isfinite(score):
            raise DataError("the predictions are not finite", fix="Train it again.")
        return score

    def perplexity(self, text: Any) -> float:
        """Return the perplexity of a text; see `score`."""
        return figures(-self.score(text), 0, self.inputs_.level)["perplexity"]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each next token ``(N, V)``.

        Args:
            X: The beginnings of N texts; the next token follows the last one of each.
        """
        logs = [self._log_probabilities(ids) for ids in self._encoded(X)]
        return torch.cat(logs).exp().numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable next token of each beginning of a text ``(N,)``."""
        return np.asarray(self.tokens_)[self.most_probable(X)[0]]

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
        (tokens,) = self._encoded([prompt])
        length = check_integer("length", length)
        sampled = generate(
            self.predictor_, tokens, length, size=len(self.tokens_), temperature=temperature,
            top_p=top_p, never=[LanguageVocabulary.UNKNOWN], seed=seed_of(random_state),
        )  # fmt: skip
        return self.inputs_.pieces(sampled, starts_line=tokens[-1] == LanguageVocabulary.END)

    def explain(self, X: Any, k: int = 10) -> list[Explanation]:
        """Return each most probable next token with the contributions that sum to its score.

        The score is the logit of the token minus the mean of all logits; of both halves, their
        weighted sum. In the kernel half, a context of n - 1 tokens contributes the change from
        order n - 1 to order n. A contribution's ``where`` counts the tokens of the text from 0; the
        ``<eos>`` before the text has no position.

        Args:
            X: The beginnings of N texts.
            k: Number of contributions to show for each; all of them are returned.

        Raises:
            KindError: The cell has no contributions, or the model has `cutoffs`.
        """
        check_is_fitted(self)
        here = self._on_cpu()
        return [here._explained(ids, k) for ids in self._encoded(X)]

    def log_likelihood(self, tokens: Tensor) -> float:
        """Return the mean log-probability of each of a text's tokens ``(N,)`` but the first."""
        if self.answer == NETWORK:
            return -negative_log_likelihood(self.network_, tokens)
        return float(self.log_likelihoods(tokens).mean())

    def log_likelihoods(self, tokens: Tensor) -> NDArray[np.float64]:
        """Return the log-probability of each of a text's tokens but the first ``(N - 1,)``."""
        if self.answer == KERNEL and self.machine_ is not None:  # without sums over the vocabulary
            return self.machine_.likelihoods(tokens.numpy())
        return log_likelihoods(self.predictor_, tokens).numpy()

    def most_probable(self, X: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the number of each most probable next token and its probability ``(N,)`` each.

        Takes less memory than `predict_proba`.
        """
        best = [self._log_probabilities(ids)[0].max(0) for ids in self._encoded(X)]
        numbers = np.array([int(one.indices) for one in best])
        return numbers, np.exp([float(one.values) for one in best])

    # ---- how it is done

    def _encoded(self, X: Any) -> list[list[int]]:
        """Return the tokens of beginnings of texts, after naming unknown ones on stderr."""
        check_is_fitted(self)
        prompts = checked_prompts(X)
        for unknown in map(self.inputs_.unknown, prompts if self.verbose else ()):
            if unknown:
                shown = ", ".join(repr(token[:40]) for token in unknown[:20])
                say(f"unknown tokens, read as <unk>: {shown}")
        return [self.inputs_.encode_prompt(prompt) for prompt in prompts]

    def _log_probabilities(self, ids: list[int]) -> Tensor:
        return self.predictor_.read(torch.tensor(ids), rows=LAST)[0]

    def _explanation_details(self, one: str, explanation: Explanation) -> dict[str, Any]:
        (ids,) = self._encoded([one])
        return explanation.marks([self.tokens_[number] for number in ids[1:]])

    def _explained(self, ids: list[int], k: int) -> Explanation:
        words, token = self.tokens_, int(self._log_probabilities(ids).argmax())
        machine: Any = self.machine_
        score, constant, parts = self.pool_.explain(
            lambda: machine.explain(ids, words, token),
            lambda: explain_next(self.network_, ids, words, token),
        )
        ordered = tuple(sorted(parts, key=lambda part: -abs(part.contribution)))
        return Explanation(words[token], score, constant, ordered, k)
