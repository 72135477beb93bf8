"""The network of a language model, and how it is trained."""

from __future__ import annotations

import io
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from representer.data.language import (
    LanguageVocabulary,
    Level,
    cut,
    encode_lines,
    fixed_segments,
    fold,
    text_lines,
    tokens_of_line,
    variable_segments,
)
from representer.errors import ArgumentError, CheckpointError, DataError
from representer.estimators.explanation import Contribution
from representer.estimators.fitting import epochs_for, trainer_options
from representer.estimators.halves import Pool
from representer.estimators.kernel_machine import ARRAYS, DESCRIPTION
from representer.functional import activation_regularization
from representer.kernels.sequences import as_sequence, column_of
from representer.kernels.token_counts import MOST, KneserNey, NgramTable, RecentTokens
from representer.models import LanguageModelConfig, LanguageNetwork
from representer.options.language import LanguageParameters
from representer.options.task import DECAYS, in_common
from representer.storage.checkpoint import Forms
from representer.storage.run import RunFiles, RunFolder
from representer.training import generators
from representer.training.averages import NonMonotonicASGD
from representer.training.config import Loss, TrainerConfig, TrainingTask
from representer.training.cuda_graphs import replayed

# The tokens of a language model: reading, numbering and writing running text.


@dataclass(frozen=True)
class LanguageInputs:
    """Running text as the numbers of its tokens."""

    vocabulary: LanguageVocabulary
    level: Level

    @classmethod
    def from_counts(
        cls, counts: Counter[str], level: Level, min_count: int, max_vocabulary: int
    ) -> LanguageInputs:
        """Return the inputs for a training text with these tokens, see `count_tokens`."""
        vocabulary = LanguageVocabulary.from_counts(counts, min_count, max_vocabulary or None)
        if len(vocabulary) == len(vocabulary.MARKS):
            raise DataError(f"no token occurs {min_count} times", fix="Lower min_count.")
        return cls(vocabulary, level)

    def encode(self, lines: Iterable[str]) -> Tensor:
        """Return the numbers of all tokens ``(N,)``, with an end-of-line token after each line."""
        return encode_lines(lines, self.vocabulary, self.level)

    def encode_prompt(self, prompt: str) -> list[int]:
        """Return the numbers of a prompt after an end-of-line token, as lines begin in training.

        The last line stays open.
        """
        numbers = [self.vocabulary.END]
        for number, line in enumerate(prompt.split("\n")):
            numbers += [self.vocabulary.END] if number else []
            numbers += self.vocabulary.encode(tokens_of_line(line, self.level))
        return numbers

    def unknown(self, prompt: str) -> list[str]:
        """Return the distinct tokens of a prompt that are unknown."""
        words = [w for line in prompt.split("\n") for w in tokens_of_line(line, self.level)]
        return [word for word in dict.fromkeys(words) if word not in self.vocabulary]

    def pieces(self, numbers: Iterable[int], *, starts_line: bool) -> Iterator[str]:
        """Yield tokens as text, each with the blank or line end that precedes it."""
        blank = " " if self.level == "word" else ""
        for number in numbers:
            if number == self.vocabulary.END:
                yield "\n"
            else:
                yield ("" if starts_line else blank) + self.vocabulary.words[number]
            starts_line = number == self.vocabulary.END


def lines_of(text: Any, encoding: str) -> list[str]:
    """Return the lines of a text."""
    if isinstance(text, Path):
        return list(text_lines(text, encoding))
    if isinstance(text, str):
        return _physical(text)
    text = column_of(text)
    if not isinstance(text, Iterable):
        problem = f"the text is a {type(text).__name__}; expected a string, a Path or lines"
        raise DataError(problem)
    lines: list[str] = []
    for row, line in enumerate(as_sequence(text, "X")):
        if not isinstance(line, str):
            problem = f"text[{row}] is {line!r:.40} of type {type(line).__name__}; expected a line"
            raise DataError(problem)
        lines += _physical(line) or [""]
    return lines


def _physical(text: str) -> list[str]:
    return list(io.StringIO(text, newline=None))


def hold_out(lines: list[str], fraction: float, level: Level) -> tuple[list[str], list[str]]:
    """Return the lines to train on and the last ones, to validate on; of one line, its tokens."""
    if len(lines) > 1:
        train, valid = ([lines[k] for k in rows] for rows in cut(lines, (1 - fraction, fraction)))
        return train, valid
    tokens = tokens_of_line("".join(lines), level)
    first = len(tokens) - max(1, round(fraction * len(tokens)))
    blank = " " if level == "word" else ""
    return [blank.join(tokens[:first])], [blank.join(tokens[first:])]


# The state of a recurrent model, carried from one segment of a text to the next.


def detached(state: Any) -> Any:
    """Return a state of tensors, tuples and named tuples, detached from its graph."""
    return tree_map(Tensor.detach, state)


class CarriedState:
    """The state between the segments of an epoch, and in checkpoints.

    Args:
        example: ``example(rows)`` returns a state of the right form for this number of streams.

    Attributes:
        value: The state; None before the first segment of a text.
    """

    def __init__(self, example: Callable[[int], Any]) -> None:
        self.value: Any = None
        self._example = example

    def state_dict(self) -> list[Tensor] | None:
        """Return the tensors of the state for a checkpoint."""
        return None if self.value is None else [t.cpu().clone() for t in tree_leaves(self.value)]

    def load_state_dict(self, saved: list[Tensor] | None) -> None:
        """Continue from what `state_dict` returned."""
        if saved is None:
            self.value = None
            return
        # Layers first, then streams, as in torch.nn.LSTM; a network without a memory has no tensor.
        rows = int(saved[0].shape[1]) if saved else 1
        example, form = tree_flatten(self._example(rows))
        tensors = [new.to(old) for new, old in zip(saved, example, strict=True)]
        self.value = tree_unflatten(tensors, form)


@torch.no_grad()
def example_state(model: torch.nn.Module, rows: int) -> Any:
    """Return a state of a language model for a number of streams; no random state changes."""
    device = next(model.parameters()).device
    was_training = model.training
    try:
        return model.eval()(torch.zeros(1, rows, dtype=torch.int64, device=device)).state
    finally:
        model.train(was_training)


# Predictors of the next token: a kernel, a network, or both together; their perplexity.

SEGMENT = 256  # steps at a time; the metrics do not depend on it
ALL, LAST = slice(None), slice(-1, None)


class Predictor(Protocol):
    """The next tokens of a text that is read in parts."""

    def read(self, tokens: Tensor, state: Any = None, rows: slice = ALL) -> tuple[Tensor, Any]:
        """Return log p of every token after each token of a text, and the state after the text.

        The state is None at the beginning; ``rows`` are the tokens after which predictions ``(R,
        V)`` are returned, in float64 on the CPU.
        """
        ...


@dataclass(frozen=True)
class NetworkPredictor:
    """A network, in evaluation mode."""

    network: LanguageNetwork
    # what calls it for several tokens; the network itself by default
    read_part: Callable[..., Any] | None = None

    @torch.no_grad()
    def read(self, tokens: Tensor, state: Any = None, rows: slice = ALL) -> tuple[Tensor, Any]:
        """Return log p of every token after each token of a text, see `Predictor`."""
        tokens = tokens.to(self.network.embedding.weight.device)
        if len(tokens) == 1:  # time does not grow with the text
            logs, state = self.network.step(tokens, state)
        else:
            result = (self.read_part or self.network)(tokens[:, None], state)
            logs = self.network.output.log_probabilities(result.features[rows, 0])
            state = result.state
        return logs.cpu().double(), detached(state)


@dataclass(frozen=True)
class JointPredictor:
    """The log-linear pool of a kernel and a network, normalized over the vocabulary."""

    kernel: Predictor | None  # may be None if its weight is 0
    network: Predictor | None  # may be None if its weight is 0
    pool: Pool  # the weights

    def read(self, tokens: Tensor, state: Any = None, rows: slice = ALL) -> tuple[Tensor, Any]:
        """Return log p of every token after each token of a text, see `Predictor`."""
        states: list[Any] = [None, None] if state is None else list(state)
        scores: list[Tensor] = []
        weighted = (self.kernel, self.pool.kernel), (self.network, self.pool.network)
        for k, (model, weight) in enumerate(weighted):
            if model is not None and weight:
                logs, states[k] = model.read(tokens, states[k], rows)
                scores.append(weight * logs)
        return torch.stack(scores).sum(0).log_softmax(-1), states


def log_likelihoods(predictor: Predictor, tokens: Tensor) -> Tensor:
    """Return the log-probability of each token of a text but the first ``(T - 1,)``, in nats."""
    # One tensor for all: results of each part, kept between its large temporary tensors, would keep
    # the next part from reusing their memory, gigabytes in a long text.
    values = torch.empty(len(tokens) - 1, dtype=torch.float64)
    state, predictor = None, _with_graphs(predictor)
    for start, length in fixed_segments(len(tokens) - 1, SEGMENT):
        logs, state = predictor.read(tokens[start : start + length], state)
        following = tokens[start + 1 : start + length + 1, None]
        values[start : start + length] = logs.gather(1, following)[:, 0]
    return values


def _with_graphs(predictor: Any) -> Any:
    """Return a predictor that reads the parts of one text, on a GPU from CUDA graphs."""
    if isinstance(predictor, JointPredictor):
        return replace(predictor, network=_with_graphs(predictor.network))
    if isinstance(predictor, NetworkPredictor):
        return replace(predictor, read_part=replayed(predictor.network))
    return predictor


@torch.no_grad()
def negative_log_likelihood(
    model: LanguageNetwork, tokens: Tensor, rows: int = 1, check: Callable[[], None] = lambda: None,
) -> float:  # fmt: skip
    """Return the mean negative log-likelihood of a text in nats per token.

    The state is carried through the whole text; its first token is given, not predicted. The
    streams (``rows``) are parallel; of several, each starts from zeros and a few tokens are left
    out. ``check`` is called after every segment.
    """
    device = next(model.parameters()).device
    inputs, targets = fold(tokens, min(rows, len(tokens) - 1))
    total, state, forward = 0.0, None, replayed(model)
    for start, length in fixed_segments(len(inputs), max(1, SEGMENT // inputs.shape[1])):
        span = slice(start, start + length)
        result = forward(inputs[span].to(device), state)
        total += model.output.loss(result.features, targets[span].to(device)).item()
        state = detached(result.state)
        check()
    return total / targets.numel()


def figures(nats: float, tokens: int, level: Level) -> dict[str, Any]:
    """Return the metrics of a text."""
    metrics: dict[str, Any] = {
        "tokens": tokens,
        "loss": nats,
        "perplexity": math.exp(min(nats, 700)),
    }
    return metrics | ({"bits_per_character": nats / math.log(2)} if level == "char" else {})


RECENT = 5  # validations that do not count where the last is compared with those before


def network_config(parameters: LanguageParameters, vocabulary_size: int) -> LanguageModelConfig:
    """Return the configuration of the network.

    Raises:
        ArgumentError: If a value is out of its range.
    """
    p = parameters
    settings: dict[str, Any] = {
        "vocabulary_size": vocabulary_size,
        "embedding_size": p.embedding_size or p.hidden_size,
        "decay": p.decay if p.decay in DECAYS else float(p.decay),
        "is_locked": p.locked,
        "cutoffs": tuple(p.cutoffs),
    }
    return LanguageModelConfig(**in_common(p, LanguageModelConfig) | settings)


def streams_for(parameters: LanguageParameters, tokens: int) -> int:
    """Return the number of parallel streams: by default 32, fewer for less than 11,000 tokens."""
    by_size = int(np.clip(tokens // (10 * parameters.unroll), 1, 32))
    return parameters.batch_size or by_size


def has_words(tokens: Tensor) -> bool:
    """Return False for blank lines alone."""
    return bool((tokens != LanguageVocabulary.END).any())


def trainer_config(parameters: LanguageParameters, tokens: int, seed: int) -> TrainerConfig:
    """Return the configuration of the trainer; what is not given follows the number of tokens."""
    p = parameters
    epochs = p.epochs or epochs_for(tokens // (streams_for(p, tokens) * p.unroll))
    recent = RECENT if p.optimizer == "asgd" else None
    loss = {"monitor": "valid_loss", "direction": "min"}
    return trainer_options(p, epochs, seed, nonmonotone=recent, **loss)


def optimizer_for(parameters: LanguageParameters, model: nn.Module) -> torch.optim.Optimizer | None:
    """Return the optimizer; None for the trainer's own Adam."""
    p = parameters
    if p.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), p.lr, weight_decay=p.weight_decay)
    if p.optimizer in ("nt-asgd", "asgd"):
        return NonMonotonicASGD(
            model.parameters(), p.lr, p.weight_decay, RECENT,
            starts_averaging=p.optimizer == "asgd",
        )  # fmt: skip
    return None


def training_task(
    parameters: LanguageParameters, train: Tensor, valid: Tensor, model: LanguageNetwork, seed: int
) -> TrainingTask:
    """Return segments, loss and validation for the trainer.

    A batch is described by (stream, start, length) of each of its streams.
    """
    p, streams = parameters, streams_for(parameters, len(train))
    level: Level = p.level  # type: ignore[assignment]
    inputs, targets = fold(train, streams)
    carried = CarriedState(lambda rows: example_state(model, rows))
    order = generators.derive(seed, "order")

    def batches(epoch: int) -> list[list[tuple[int, int, int]]]:
        steps = len(inputs)
        if p.variable_unroll:
            segments = variable_segments(steps, p.unroll, order, epoch)
        else:
            segments = fixed_segments(steps, p.unroll)
        return [[(row, *segment) for row in range(streams)] for segment in segments]

    def load(description: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor, bool]:
        rows = [row for row, _, _ in description]
        _, start, length = description[0]
        span = slice(start, start + length)
        return inputs[span, rows].contiguous(), targets[span, rows].contiguous(), start == 0

    def loss(wrapped: nn.Module, batch: Any) -> Loss:
        tokens, following, is_first = batch
        result = wrapped(tokens, None if is_first else carried.value)
        carried.value = detached(result.state)
        network = cast(LanguageNetwork, getattr(wrapped, "module", wrapped))
        mean = network.output.loss(result.features, following) / following.numel()
        penalty = activation_regularization(
            result.features, result.raw, p.activation_penalty, p.slowness_penalty
        )
        return Loss(mean + penalty, following.numel(), mean)

    def evaluate(trained: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        network = cast(LanguageNetwork, trained)
        nats = negative_log_likelihood(network, valid, p.evaluation_rows, check)
        metrics = figures(nats, len(valid) - 1, level)
        return {f"valid_{name}": value for name, value in metrics.items() if name != "tokens"}

    return TrainingTask(
        batches, load, loss, evaluate, carried=carried,
        lr_scale=lambda description: description[0][2] / p.unroll,
    )  # fmt: skip


_BYTES = 4  # of a float32
_COPIES = {"adam": 6, "sgd": 4, "nt-asgd": 6, "asgd": 6}
"""Weights, gradient, best and saved weights; moments, or averages and current weights."""


def available() -> int | None:
    """Return the available memory in bytes; None if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return 1024 * int(sizes["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def check_memory(parameters: LanguageParameters, vocabulary_size: int, free: int | None) -> None:
    """Refuse a vocabulary whose embedding does not fit into memory in training."""
    size = parameters.embedding_size or parameters.hidden_size
    weights = vocabulary_size * (size + 1) * _BYTES * _COPIES[parameters.optimizer]
    logits = 512 * vocabulary_size * _BYTES * 2  # rows of the softmax at a time
    if free is None or weights + logits <= free:
        return
    raise ArgumentError(
        "the vocabulary",
        f"{vocabulary_size:,} tokens of {size} numbers",
        f"less than {(weights + logits) / 2**30:.1f} GiB for it in training; "
        f"{free / 2**30:.1f} GiB are free",
        hint="Raise min_count, or lower max_vocabulary or embedding_size.",
    )


# Generate text token by token with a language model.


def generate(
    predictor: Predictor, prompt: Sequence[int], count: int, *, size: int, temperature: float = 1.0,
    top_p: float = 1.0, never: Sequence[int] = (), seed: int = 0,
) -> Iterator[int]:  # fmt: skip
    """Yield the continuation of a prompt; time and memory per token do not grow.

    Args:
        predictor: Predicts the next token.
        prompt: Tokens to continue, at least one.
        count: Number of tokens to yield.
        size: Number of tokens of the vocabulary.
        temperature: Softmax temperature; below 1 sharpens the distribution; 0 takes the most
            probable token.
        top_p: Sample from the smallest set of tokens with this total probability.
        never: Tokens that are not sampled, such as the one for unknown words.
        seed: Random seed.

    Raises:
        ArgumentError: If a value is out of its range.
    """
    if not prompt:
        raise ArgumentError("prompt", list(prompt), "at least one token")
    if count < 1:
        raise ArgumentError("tokens", count, "1 or more")
    if not 0 <= temperature < float("inf"):
        raise ArgumentError("temperature", temperature, "0 or more, and finite")
    if not 0 < top_p <= 1:
        raise ArgumentError("top_p", top_p, "above 0 and up to 1")
    if len(set(never)) >= size:
        raise ArgumentError("never", sorted(never), "not all tokens")
    return _sampled(predictor, prompt, count, temperature, top_p, list(never), seed)


def _sampled(
    predictor: Predictor, prompt: Sequence[int], count: int, temperature: float, top_p: float,
    never: list[int], seed: int,
) -> Iterator[int]:  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    logs, state = predictor.read(torch.tensor(prompt), rows=LAST)
    for _ in range(count):
        scores = logs[0]
        if not scores.isfinite().all():
            raise CheckpointError("The model's predictions are not finite. Train again.")
        scores[never] = -float("inf")
        token = _sample(scores, temperature, top_p, generator)
        yield token
        logs, state = predictor.read(torch.tensor([token]), state)


def _sample(scores: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> int:
    if temperature == 0:
        return int(scores.argmax())
    chances = torch.softmax(scores / temperature, dim=0)
    if top_p < 1:
        ordered, places = chances.sort(descending=True, stable=True)
        before = ordered.cumsum(0) - ordered  # of all more probable tokens; 0 for the first
        chances = chances.index_fill(0, places[before >= top_p], 0.0)
    return int(torch.multinomial(chances, 1, generator=generator))


# The kernel half of a language model: Kneser-Ney counts and a cache of recent tokens.

ORDERS: dict[Level, int] = {"word": 5, "char": 8}
CACHE_DECAYS = (0.98, 0.99, 0.995, 0.998, 0.999)  # of the cache: half of it is 35 to 700 tokens
MOST_CACHE = 0.9  # weight of it
NEGLIGIBLE = 0.02  # weight below which the cache is dropped
RECENT_TOKENS = "recent tokens"

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Saved:
    """kernel.json."""

    orders: int
    decay: float
    cache: float
    seconds: float

    def __post_init__(self) -> None:
        if not (1 <= self.orders <= MOST and 0 < self.decay < 1 and 0 <= self.cache <= MOST_CACHE):
            raise ValueError("a value is out of its range")


class KernelState(NamedTuple):
    """The part of a text that the next tokens depend on."""

    last: Numbers  # its last tokens, as many as the longest n-gram has
    recent: Floats  # the frequencies of recent tokens ``(V,)``


@dataclass
class LanguageKernel:
    r"""Probabilities of the next token from n-grams and recent tokens.

    .. math::
        p(w) = (1 - \mu\, m)\, p_{\text{Kneser-Ney}}(w) + \mu\, s(w), \qquad m = \sum_v s(v)
    """

    kernel: KneserNey  # the counts of n-grams
    recent: RecentTokens  # s, the recent tokens
    cache: float  # μ, the weight of the cache; 0 if it adds nothing
    seconds: float = 0.0  # time of fitting

    @classmethod
    def select(cls, level: Level, size: int, train: Numbers, valid: Numbers) -> Self:
        """Return the counts of a text, with the cache that has the smallest loss on another."""
        started = time.perf_counter()
        ngrams = KneserNey(ORDERS[level]).fit(train, size)
        p = ngrams.probabilities(valid)[1:]
        best: tuple[float, float, float] | None = None
        for decay in CACHE_DECAYS:
            s, mass = (array[1:] for array in RecentTokens(decay).of_text(valid))
            result: Any = minimize_scalar(
                lambda weight, s=s, m=mass: -np.log(_mixed(p, s, m, weight)).mean(),
                bounds=(0, MOST_CACHE), method="bounded",
            )  # fmt: skip
            if best is None or result.fun < best[0]:
                best = float(result.fun), decay, float(result.x)
        assert best is not None
        cache = best[2] if best[2] > NEGLIGIBLE else 0.0
        return cls(ngrams, RecentTokens(best[1]), cache, time.perf_counter() - started)

    def refit(self, tokens: Numbers) -> Self:
        """Return the counts of another text, with the same cache."""
        started = time.perf_counter()
        ngrams = KneserNey(self.kernel.order).fit(tokens, self.kernel.size_)
        seconds = self.seconds + time.perf_counter() - started
        return type(self)(ngrams, self.recent, self.cache, seconds)

    def likelihoods(self, tokens: Numbers) -> Floats:
        """Return log p of each token of a text but the first ``(T - 1,)``."""
        s, mass = self.recent.of_text(tokens)
        return np.log(_mixed(self.kernel.probabilities(tokens), s, mass, self.cache))[1:]

    def read(
        self, tokens: Tensor, state: KernelState | None = None, rows: slice = ALL
    ) -> tuple[Tensor, KernelState]:
        """Return log p of every token after each token of a text, see `Predictor`."""
        numbers = tokens.cpu().numpy()
        if state is None:
            state = KernelState(numbers[:0], np.zeros(self.kernel.size_))
        text = np.concatenate([state.last, numbers])
        recent = self.recent.after(numbers, state.recent)
        is_short = rows == LAST or not self.cache
        s = recent[None] if is_short else self.recent.read(numbers, state.recent)[rows]
        contexts = self.kernel.numbers(text)[:, len(state.last) + 1 :]
        p = self.kernel.distributions(contexts[:, rows])
        mixed = _mixed(p, s, s.sum(axis=1, keepdims=True), self.cache)
        return torch.from_numpy(np.log(mixed)), KernelState(text[-self.kernel.order :], recent)

    def explain(
        self, ids: Sequence[int], words: Sequence[str], token: int
    ) -> tuple[float, float, list[Contribution]]:
        """Return the score of a token after a text, its constant part, and its contributions.

        The score is log p minus the mean of log p over all tokens. A context of n - 1 tokens
        contributes its change of it, from :math:`p_{n-1}` to :math:`p_n`, and recent tokens the
        change by the cache; no context contributes the frequency of the token.
        """
        text = np.array(ids)
        contexts = self.kernel.numbers(text)[:, -1:]
        lengths = range(1, 1 + int((contexts[: self.kernel.order] >= 0).sum()))
        steps = [self.kernel.distributions(contexts[:n])[0] for n in lengths]
        steps.append(self.read(torch.from_numpy(text), rows=LAST)[0][0].exp().numpy())
        scores = [float(np.log(p[token]) - np.log(p).mean()) for p in steps]
        places = [tuple(range(len(text) - n, len(text))) for n in lengths[:-1]]
        named = [" ".join(words[ids[t]] for t in span) for span in places]
        places.append(tuple(np.flatnonzero(text == token).tolist()))
        changes = zip([*named, RECENT_TOKENS], places, np.diff(scores), strict=True)
        parts = [
            Contribution(what, tuple(t - 1 for t in span if t), "kernel", float(change))
            for what, span, change in changes
            if change
        ]
        return scores[-1], scores[0], parts

    @property
    def description(self) -> str:
        """Description of the counts and of the cache."""
        cache = f", a cache with weight {self.cache:.2g}" if self.cache else ""
        return f"n-grams up to {self.kernel.order}, Kneser-Ney{cache}"

    @property
    def size(self) -> int:
        """Number of n-grams."""
        return sum(len(table.counts) for table in self.kernel.tables_)

    def write(self, run: RunFolder) -> None:
        """Write what `read_from` reads into a run folder."""
        tables = self.kernel.tables_
        saved = _Saved(len(tables), self.recent.decay, self.cache, self.seconds)
        run.write_json(DESCRIPTION, asdict(saved))
        arrays = {
            f"{name}.{n}": torch.from_numpy(array)
            for n, table in enumerate(tables, 1)
            for name, array in table._asdict().items()
        }
        run.write_tensors(ARRAYS, arrays)

    @classmethod
    def read_from(cls, files: RunFiles, level: Level, size: int) -> Self:
        """Return what `write` wrote.

        Raises:
            DataError: A file is missing, or they do not fit together.
            CheckpointError: The arrays are damaged.
        """
        saved = files.read(DESCRIPTION, _Saved)
        names = [[f"{name}.{n + 1}" for name in NgramTable._fields] for n in range(saved.orders)]

        def check(forms: Forms) -> None:
            if sorted(forms) != sorted(chain.from_iterable(names)):
                raise ValueError("it does not hold the n-grams of each order")

        tensors, _ = files.tensors(ARRAYS, check)
        tables = [NgramTable(*(tensors[name].numpy() for name in columns)) for columns in names]
        restored = KneserNey(ORDERS[level])
        files.parsed(ARRAYS, lambda: restored.restore(tables, size))
        return cls(restored, RecentTokens(saved.decay), saved.cache, saved.seconds)


def _mixed(p: Floats, s: Floats, mass: Floats, weight: float) -> Floats:
    return (1 - weight * mass) * p + weight * s
