"""The comparison of language models: blocks of a text, or several seeds with one test text."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from representer.data.language import PARTS
from representer.errors import ArgumentError
from representer.estimators import LanguageModel
from representer.estimators.explanation import BOTH, NETWORK
from representer.models.cells import resolve_cell
from representer.storage.run_folder import UnsavedRun
from representer.tasks.comparison import BASELINES, MODEL, Comparison, Result, parts_of
from representer.tasks.language.language_data import LanguageData, has_own_test, prepare
from representer.tasks.language.language_fit import counted


@dataclass(frozen=True, kw_only=True)
class LanguageComparison(Comparison):
    """Kernel, network, both, variants of the network and n-gram counts on parts of a text.

    The lines of a single text are rotated, so that each split tests on another block of them.
    With a test text of its own, the splits differ in the seed.

    Raises:
        ArgumentError: An option is invalid.
        DataError: The text cannot be used.
    """

    def __post_init__(self) -> None:
        for options in self.variants.values():
            resolve_cell(replace(self.config, **options).cell)
        self._prepared(self.config, self.splits[0])  # raises now what would fail later

    @property
    def title(self) -> str:
        """The text and the kind of its parts."""
        name = "demo" if self.config.demo else Path(self.config.data).name
        if self.has_fixed_test:
            return f"{name}: {len(self.splits)} seeds, one test text (intervals over seeds only)"
        return f"{name}: tested on {len(self.splits)} blocks of its lines in turn"

    @property
    def metric(self) -> str:
        """Perplexity per token."""
        return "perplexity"

    @property
    def has_fixed_test(self) -> bool:
        """True if the test text is a file of its own."""
        return has_own_test(self.config)

    @property
    def settings(self) -> dict[str, Any]:
        """The options, and the text in the parts of the first split."""
        _, data = self._prepared(self.config, self.splits[0])
        blocks = {} if self.has_fixed_test else {"blocks": len(self.splits)}
        return {"task": "language", **self.options(), **blocks, "sha256": data.digests}

    def run(self, split: int, unit: str) -> list[Result]:
        """Train and test some rows on one split, see `Comparison`."""
        options = {"answer": BOTH} if unit == MODEL else {"answer": NETWORK}
        options |= self.variants.get(unit, {})
        config = replace(self.config, seed=self.config.seed + split, **options)
        estimator, data = self._prepared(config, split)
        train, valid, test = (data.tokens[part] for part in PARTS)
        known, count = len(train) + len(valid), len(test)
        if unit == BASELINES:
            return [
                Result(name, [-scores.mean()], seconds, known, True, count)
                for name, scores, seconds in (counted(data) if config.baselines != "none" else [])
            ]
        started = time.perf_counter()
        network = estimator.new_network(config.seed)
        estimator.train_on(UnsavedRun(), network, train, valid, config.seed)
        parts = parts_of(estimator, time.perf_counter() - started)
        results = [
            Result(name, [-part.log_likelihood(test)], seconds, known, test=count)
            for name, seconds, part in parts
        ]
        return results if unit == MODEL else [replace(results[0], name=unit)]

    def _prepared(self, config: Any, split: int) -> tuple[LanguageModel, LanguageData]:
        estimator, data = prepare(config, [*self.splits].index(split) / len(self.splits))
        return estimator.set_params(verbose=0), data


def comparison(config: Any, **options: Any) -> LanguageComparison:
    """Return the comparison of a text; the other arguments are those of the class.

    Raises:
        ArgumentError: No data are named.
    """
    if not config.demo and config.data is None:
        hint = "Without data of your own: representer compare language --demo"
        raise ArgumentError("data", None, "the path of a text", hint=hint)
    return LanguageComparison(config=config, **options)
