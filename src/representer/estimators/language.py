"""The estimator of running text: n-gram counts and a recurrent network predict the next token."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.optim import Optimizer

from representer import models
from representer.checks import check_integer
from representer.data.language import LanguageVocabulary, Level, count_tokens, fixed_segments
from representer.errors import ArgumentError, DataError, KindError, say
from representer.estimators import base
from representer.estimators.base import Estimator
from representer.estimators.explanation import (
    KERNEL,
    NETWORK,
    Contribution,
    Explanation,
    Places,
    explanations_of,
)
from representer.estimators.fitting import seed_of, start_from, validation_fraction
from representer.estimators.halves import NETWORK_ALONE, JointTarget, Pool, attempted, train
from representer.estimators.language_training import (
    LAST,
    SEGMENT,
    JointPredictor,
    LanguageInputs,
    LanguageKernel,
    NetworkPredictor,
    Predictor,
    available,
    check_memory,
    figures,
    generate,
    has_words,
    hold_out,
    lines_of,
    log_likelihoods,
    negative_log_likelihood,
    network_config,
    optimizer_for,
    streams_for,
    trainer_config,
    training_task,
)
from representer.estimators.results import about
from representer.estimators.targets import Classes, Moments, centered
from representer.explain.stacks import ngram_contributions, require_layers, with_gaps
from representer.kernels.sequences import strings_of
from representer.models import LanguageModelConfig, LanguageNetwork
from representer.models.language_model import TiedSoftmax
from representer.options.language import LanguageParameters
from representer.report.metrics import mean_over_lines, perplexity_interval
from representer.report.page import Predictions, Results
from representer.storage.atomic import from_values
from representer.storage.run import RunFiles, RunFolder, UnsavedRun
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask, best_index
from representer.training.state import TrainingResult

# The report of a language model; the page of a run of ``fit language`` has the same template.

EXCERPT = 150  # tokens of the excerpt of the test text, and of the sample
JUDGED, AT_ONCE = 2000, 250  # tokens whose surprise is compared with the expected one
EXAMPLES, WORDS, SEARCHED = 4, 8, 400  # explained beginnings of test lines, and their tokens


def results_of(estimator: LanguageModel, X: Any, y: Any, k: int, examples: int) -> Results:
    """Return what the report of a language model shows; see `Estimator.report`."""
    inputs = estimator.inputs_
    metrics, details = about(estimator, f"language model of {inputs.level}s")
    counts = {name: {"tokens": count} for name, count in estimator.examples_.items()}
    details["data"] = {"vocabulary": len(inputs.vocabulary), "parts": counts}
    details |= {"excerpt": [], "sample": sample(estimator, seed_of(estimator.random_state))}
    best = best_index([row.get("valid_loss") for row in estimator.history_], "min")
    valid = None if best is None else estimator.history_[best]
    metrics |= {"task": "language", "level": inputs.level, "valid": valid}
    explained: list[dict[str, Any]] = []
    if X is not None:
        lines = lines_of(X, estimator.encoding)
        tokens = estimator.encode_text(lines)
        metrics |= figures_of(estimator, tokens, estimator.log_likelihoods(tokens))
        counts["test"] = token_counts(inputs, tokens)
        details["excerpt"] = surprisals(estimator, tokens)
        first = [line.rstrip("\r\n") for line in lines[:examples]]
        explained = _explained(estimator, first, "after line", k)
    return Results(metrics, details, estimator.history_, explained)


def figures_of(
    estimator: LanguageModel, tokens: Tensor, logs: NDArray[np.float64]
) -> dict[str, dict[str, Any]]:
    """Return the metrics of a text ``(N,)``, and share, seconds and metrics of each half.

    ``logs`` are the log-probabilities of the tokens, see `LanguageModel.log_likelihoods`.
    """
    level, count = estimator.inputs_.level, len(logs)
    # The network's own mean is of float32, as in validation.
    is_network = estimator.answer == NETWORK
    loss = estimator.log_likelihood(tokens) if is_network else float(logs.mean())
    interval = perplexity_interval(logs, lines_of_tokens(tokens))
    halves = {
        name: half._asdict() | figures(-estimator.part(name).log_likelihood(tokens), count, level)
        for name, half in estimator.parts_.items()
    }
    test = figures(-loss, count, level) | {"perplexity_interval": list(interval)}
    return {"test": test | surprise(estimator, tokens), "parts": halves}


def token_counts(inputs: LanguageInputs, tokens: Tensor) -> dict[str, int]:
    """Return the number of tokens, of lines and of unknown tokens of a text."""
    vocabulary = inputs.vocabulary
    marks = {"lines": vocabulary.END, "unknown": vocabulary.UNKNOWN}
    return {
        "tokens": len(tokens),
        **{name: int((tokens == mark).sum()) for name, mark in marks.items()},
    }


def unknown_note(inputs: LanguageInputs, tokens: Tensor) -> str:
    """Return a note if words of a text are unknown: its perplexity then tells little."""
    counts = token_counts(inputs, tokens)
    words = counts["tokens"] - counts["lines"]
    if inputs.level != "word" or not counts["unknown"]:
        return ""
    if 3 * counts["unknown"] <= words:
        return f"{counts['unknown']:,} of the {words:,} words to test are unknown, read as <unk>"
    return (
        f"{counts['unknown'] / words:.0%} of the words to test are unknown, so perplexity tells "
        "little; --level char reads characters"
    )


def lines_of_tokens(tokens: Tensor) -> NDArray[np.int64]:
    """Return the line of each token of a text but the first ``(N - 1,)``; equal lines are one."""
    breaks = np.flatnonzero(tokens[1:-1].numpy() == LanguageVocabulary.END) + 1
    lines, numbers = np.split(tokens[1:].numpy(), breaks), dict[bytes, int]()
    numbered = [numbers.setdefault(line.tobytes(), len(numbers)) for line in lines]
    return np.repeat(numbered, [len(line) for line in lines])


def sample(estimator: LanguageModel, seed: int) -> list[str]:
    """Return tokens that the model generates."""
    vocabulary = estimator.inputs_.vocabulary
    sampled = generate(
        estimator.predictor_, [vocabulary.END], EXCERPT, size=len(vocabulary), top_p=0.9,
        never=[vocabulary.UNKNOWN], seed=seed,
    )  # fmt: skip
    return [vocabulary.words[token] for token in sampled]


def surprisals(estimator: LanguageModel, text: Tensor) -> list[dict[str, Any]]:
    """Return the first tokens of a text, each with its surprisal in bits and the likeliest one."""
    tokens = text[: EXCERPT + 1]
    logs = estimator.predictor_.read(tokens[:-1])[0]
    bits = -logs.gather(1, tokens[1:, None])[:, 0] / math.log(2)
    best, expected = logs.max(1)
    decode = estimator.inputs_.vocabulary.decode
    rows = zip(
        decode(tokens[1:].tolist()), bits.tolist(), decode(expected.tolist()), best.exp().tolist(),
        strict=True,
    )  # fmt: skip
    return [
        {"token": token, "bits": round(bits, 2), "expected": guess, "chance": round(chance, 4)}
        for token, bits, guess, chance in rows
    ]


def surprise(estimator: LanguageModel, text: Tensor) -> dict[str, Any]:
    """Return whether a model is as surprised by the first tokens of a text as it expects to be.

    These are ``expected_bits``, the mean entropy of its predictions; ``surprise``, by how much the
    mean surprisal exceeds it, in bits per token; and ``surprise_interval`` (95 %, over lines).
    """
    tokens, state, excess, entropies = text[: JUDGED + 1], None, [], []
    for start in range(0, len(tokens) - 1, AT_ONCE):
        read = tokens[start : min(start + AT_ONCE, len(tokens) - 1)]
        logs, state = estimator.predictor_.read(read, state)
        wanted = tokens[start + 1 : start + 1 + len(read), None]
        entropies.append(-(logs.exp() * logs).nan_to_num(0.0).sum(1) / math.log(2))
        excess.append(-logs.gather(1, wanted)[:, 0] / math.log(2) - entropies[-1])
    values = torch.cat(excess).numpy()
    mean, low, high = mean_over_lines(values, lines_of_tokens(tokens))
    expected = float(torch.cat(entropies).mean())
    return {"expected_bits": expected, "surprise": mean, "surprise_interval": [low, high]}


def explained_lines(estimator: LanguageModel, text: Tensor, top: int) -> list[dict[str, Any]]:
    """Return the explanations of the token after the beginnings of some lines of a text."""
    vocabulary = estimator.inputs_.vocabulary
    ends = [-1, *(text == vocabulary.END).nonzero()[:, 0].tolist()]
    lines = [text[a + 1 : b].tolist()[: WORDS + 1] for a, b in pairwise(ends) if b - a > WORDS + 1]
    readable = [line for line in lines[:SEARCHED] if vocabulary.UNKNOWN not in line][:EXAMPLES]
    between = "" if estimator.inputs_.level == "char" else " "
    beginnings = [between.join(vocabulary.decode(line[:-1])) for line in readable]
    truths = vocabulary.decode([line[-1] for line in readable])
    return _explained(estimator, beginnings, "token after", top, truths)


def _explained(
    estimator: LanguageModel, texts: Sequence[str], noun: str, top: int, truths: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the explanations of the tokens after some texts; none if the cell has none."""
    if not texts:
        return []
    numbers, chances = estimator.most_probable(texts)
    best, rows = [Predictions(numbers, chances=chances)], range(1, len(texts) + 1)
    try:
        return explanations_of(estimator, texts, best, rows, noun, top, (), truths)
    except KindError:
        return []


Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
VOCABULARY = "vocabulary.json"
POOLED = 2**22  # log-probabilities of each half that determine the weights


@dataclass(frozen=True)
class _SavedInputs:
    """The inputs in model.json; the vocabulary has a file of its own."""

    level: Level


def _stride(text: Tensor, size: int) -> int:
    """Return how far apart the places of a text are at which the halves are weighted."""
    return min(SEGMENT, -(-len(text) * size // POOLED))


def _at_some_places(predictor: Predictor, text: Tensor, size: int) -> Moments:
    """Return log-probabilities at evenly spread places of each segment of a text."""
    logs, state, places = [], None, slice(None, None, _stride(text, size))
    for start, length in fixed_segments(len(text) - 1, SEGMENT):
        some, state = predictor.read(text[start : start + length], state, places)
        logs.append(some)
    every = torch.cat(logs).numpy()
    return every, every[:0]


def _after_places(text: Tensor, size: int) -> Numbers:
    """Return the tokens that follow these places."""
    segments = text[1:].split(SEGMENT)
    return torch.cat([segment[:: _stride(text, size)] for segment in segments]).numpy()


# The score of the next token as an exact sum over the tokens of a text.
#
# The logits are E h + b with the last output h of the last layer, so the logit of a token minus the
# mean of all logits is a weighted sum of h, which ``representer.explain`` decomposes through all
# layers down to the tokens.


@torch.no_grad()
def explain_next(
    model: LanguageNetwork, ids: Sequence[int], words: Sequence[str], token: int
) -> tuple[float, float, list[Contribution]]:
    """Return the score of a next token, its constant part, and its contributions.

    The first of the tokens is the ``<eos>`` before the text.
    """
    if not isinstance(model.output, TiedSoftmax):
        hint = "The probability of a rare token is a product over clusters."
        raise KindError(
            "the softmax", type(model.output).__name__, "one without cutoffs", hint=hint
        )
    layers = require_layers(model.layers, model.config.cell)
    exact = copy.deepcopy(model).double()
    tokens = torch.tensor(ids)
    logits = centered(exact.output(exact(tokens[:, None]).features[-1, 0]))
    sizes = [units for _, units in model.config.layer_sizes]
    weights = [exact.embedding.weight.new_zeros(len(ids), units) for units in sizes]
    weights[-1][-1] = centered(exact.embedding.weight)[token]
    ngrams, constant = ngram_contributions(layers, model.embedding(tokens), weights)
    bias = exact.output.bias
    constant += 0.0 if bias is None else centered(bias)[token].item()
    text = [words[number] for number in ids]
    parts = [
        Contribution(with_gaps(text, where), tuple(t - 1 for t in where if t), "network", value)
        for where, value in ngrams
    ]
    return logits[token].item(), constant, parts


class LanguageModel(LanguageParameters, Estimator):
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

    _task: ClassVar[str] = "language"
    _config: ClassVar[type[LanguageModelConfig]] = LanguageModelConfig
    _input_tags: ClassVar[tuple[str, ...]] = ("string",)
    _results_of = staticmethod(results_of)
    _make = staticmethod(models.LanguageNetwork)
    inputs_: LanguageInputs
    network_: Any

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
            fraction = validation_fraction(self.valid_fraction, len(lines))
            lines, valid_lines = hold_out(lines, fraction, level)
        else:
            valid_lines = lines_of(validation, self.encoding)
        tokens = self.encode_parts({"train": lines, "valid": valid_lines})
        network = self.new_network(seed) if self.has_network else None
        self.fit_parts(UnsavedRun(), network, tokens, seed)
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
        score = self.log_likelihood(self.encode_text(lines_of(text, self.encoding)))
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
        here = self.on_cpu()
        return [here._explained(ids, k) for ids in self._encoded(X)]

    def encode_text(self, lines: Sequence[str]) -> Tensor:
        """Return the tokens of a text to test on ``(N,)``.

        Raises:
            DataError: The text has no token to predict, or blank lines alone.
        """
        tokens = self.inputs_.encode(lines)
        if len(tokens) < 2 or not has_words(tokens):
            fix = "Give a text with a word in it."
            raise DataError("the text has no token to predict", fix=fix)
        return tokens

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
        numbers = np.array([int(row.indices) for row in best])
        return numbers, np.exp([float(row.values) for row in best])

    # ---- how it is done; what tasks, reports and serving call, too, has a public name

    @property
    def target_(self) -> Classes:
        """The tokens as classes."""
        return Classes(self.inputs_.vocabulary.words)

    def learn_inputs(self, counts: Counter[str]) -> LanguageInputs:
        """Return the inputs for a training text with these tokens, or those of `warm_start`.

        Raises:
            DataError: No token is frequent enough, or the run cannot be used.
            ArgumentError: The run that training starts from has tokens of another level.
        """
        level: Level = self.level  # type: ignore[assignment]
        if self.warm_start is None:
            return LanguageInputs.from_counts(counts, level, self.min_count, self.max_vocabulary)
        inputs: LanguageInputs = base.load_inputs(self.warm_start, type(self))
        if inputs.level != level:
            raise ArgumentError("level", level, f"{inputs.level!r}, as in {self.warm_start}")
        return inputs

    def encode_parts(self, lines: Mapping[str, Sequence[str]]) -> dict[str, Tensor]:
        """Learn the inputs from the lines of the part ``"train"``; return the tokens of each part.

        Raises:
            DataError: No token is frequent enough, or a part is too short.
            ArgumentError: The vocabulary does not fit into memory.
        """
        level: Level = self.level  # type: ignore[assignment]
        self.inputs_ = self.learn_inputs(count_tokens(lines["train"], level))
        tokens = {name: self.inputs_.encode(of_part) for name, of_part in lines.items()}
        for key, numbers in tokens.items():
            name = {"train": "training", "valid": "validation"}.get(key, key)
            least = 2 * streams_for(self, len(numbers)) if key == "train" else 1
            problem = "" if has_words(numbers) else "has blank lines alone"
            if len(numbers) <= least:
                problem = f"has {len(numbers)} token(s); more than {least} are needed"
            if problem:
                fix = "Give a longer text; a file is passed as pathlib.Path."
                raise DataError(f"the {name} text {problem}", fix=fix)
        check_memory(self, len(self.inputs_.vocabulary), available())
        return tokens

    def new_network(self, seed: int) -> models.LanguageNetwork:
        """Return the network with its initial weights: random, or those of `warm_start`."""
        with generators.initializing(seed):
            network = models.LanguageNetwork(network_config(self, len(self.inputs_.vocabulary)))
        start = type(self).load(str(self.warm_start)) if self.warm_start else None
        start_from(start, network, str(self.warm_start))
        return network

    def fit_parts(
        self, run: RunFolder, network: models.LanguageNetwork | None, parts: Mapping[str, Tensor],
        seed: int, *, groups: Any = None, encoded: Any = None, **options: Any,
    ) -> TrainingResult | None:  # fmt: skip
        """Train a network and fit the kernel half to the tokens of both parts.

        The arguments are those of `halves.fit_parts`; tokens are inputs of the network already.
        """
        self.examples_ = {name: len(tokens) for name, tokens in parts.items()}
        texts = [tokens.numpy() for tokens in parts.values()]
        counts: Any = (None, None) if self.answer == NETWORK else self._count(*texts)
        result = train(self, run, network, [*parts.values()], seed, **options)
        self._join(counts, *texts)
        if run.is_saved:
            self.save_fitted(run)
        return result

    def training_plan(
        self, train: Tensor, valid: Tensor, network: Any, seed: int
    ) -> tuple[TrainingTask, TrainerConfig, Optimizer | None]:
        task = training_task(self, train, valid, network, seed)
        return task, trainer_config(self, len(train), seed), optimizer_for(self, network)

    def _count(
        self, train: Numbers, valid: Numbers
    ) -> tuple[LanguageKernel | None, Moments | None]:
        """Return the counts of the training text, and their moments on the validation text.

        They take a moment, and come before the network: their perplexity is what it has to add to.
        """
        size, level = len(self.inputs_.vocabulary), self.inputs_.level

        def scored() -> tuple[LanguageKernel, Moments]:
            half = LanguageKernel.select(level, size, train, valid)
            return half, _at_some_places(half, torch.from_numpy(valid), size)

        machine, logs = attempted(self.answer, "kernel", scored)
        if machine is not None and self.has_network and self.verbose:
            perplexity = np.exp(-machine.likelihoods(valid).mean())
            say(f"the n-gram counts alone: valid_perplexity {perplexity:.2f}")
        return machine, logs

    def _join(
        self, counts: tuple[LanguageKernel | None, Moments | None], train: Numbers, valid: Numbers
    ) -> None:
        """Find the weights of both halves.

        The counts are those of the training text while the weights are found on the validation
        text, and then those of both.
        """
        self.targets_ = (NETWORK_ALONE,)
        if self.answer == NETWORK:
            return
        (machine, logs), network = counts, None
        text, size = torch.from_numpy(valid), len(self.inputs_.vocabulary)
        if self.has_network:

            def scored() -> tuple[None, Moments]:
                return None, _at_some_places(NetworkPredictor(self.network_), text, size)

            _, network = attempted(self.answer, NETWORK, scored)
        scores = logs and logs[0], network and network[0]
        pool = Pool.fit(self.target_, *scores, _after_places(text, size))
        machine = machine and machine.refit(np.concatenate([train, valid]))
        self.targets_ = (JointTarget(pool, machine),)

    @property
    def predictor_(self) -> JointPredictor:
        """Both halves with their weights."""
        network = None if self.network_ is None else NetworkPredictor(self.network_)
        return JointPredictor(self.machine_, network, self.pool_)

    @property
    def network_name(self) -> str:
        return self.cell

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

    def _write_machines(self, run: RunFolder, machines: Sequence[LanguageKernel]) -> None:
        machines[0].write(run)

    def _read_machines(self, files: RunFiles) -> list[LanguageKernel]:
        size, level = len(self.inputs_.vocabulary), self.inputs_.level
        return [LanguageKernel.read_from(files, level, size)]

    def _encoded(self, X: Any) -> list[list[int]]:
        """Return the tokens of beginnings of texts, after naming unknown ones on stderr."""
        check_is_fitted(self)
        prompts = strings_of(X, "texts", "a string")
        if not prompts:
            raise DataError("X has 0 sample(s); at least one text is required")
        for unknown in map(self.inputs_.unknown, prompts if self.verbose else ()):
            if unknown:
                shown = ", ".join(repr(token[:40]) for token in unknown[:20])
                say(f"unknown tokens, read as <unk>: {shown}")
        return [self.inputs_.encode_prompt(prompt) for prompt in prompts]

    def _log_probabilities(self, ids: list[int]) -> Tensor:
        return self.predictor_.read(torch.tensor(ids), rows=LAST)[0]

    def explanation_details(self, one: str, explanation: Explanation) -> dict[str, Any]:
        (ids,) = self._encoded([one])
        return explanation.marks([self.tokens_[number] for number in ids[1:]])

    def _explained(self, ids: list[int], k: int) -> Explanation:
        words, token = self.tokens_, int(self._log_probabilities(ids).argmax())
        machine: Any = self.machine_
        score, constant, parts = self.pool_.explain(
            lambda: machine.explain(ids, words, token),
            lambda: explain_next(self.network_, ids, words, token),
        )
        places = Places.numbered(
            [words[number] for number in ids[1:]], "beginning of the text", ("token", "n-gram")
        )
        return Explanation.of(words[token], score, constant, parts, k, places)
