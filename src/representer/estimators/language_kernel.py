"""The kernel half of a language model: Kneser-Ney counts and a cache of recent tokens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from representer.data.language import Level
from representer.estimators.explanation import Contribution
from representer.estimators.kernel_machine import ARRAYS, DESCRIPTION
from representer.estimators.language_training import ALL, LAST
from representer.kernels.token_counts import MOST, KneserNey, NgramTable, RecentTokens
from representer.storage.checkpoint import Forms
from representer.storage.run import RunFiles, RunFolder

ORDERS: dict[Level, int] = {"word": 5, "char": 8}
DECAYS = (0.98, 0.99, 0.995, 0.998, 0.999)  # of the cache: half of it is 35 to 700 tokens
MOST_CACHE = 0.9  # weight of it
NEGLIGIBLE = 0.02  # weight below which the cache is dropped
RECENT = "recent tokens"

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
        for decay in DECAYS:
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
        changes = zip([*named, RECENT], places, np.diff(scores), strict=True)
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
