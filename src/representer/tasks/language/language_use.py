"""Use of a trained language model: ``evaluate``, ``predict``, ``explain`` and ``generate``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from representer.data.language import LanguageVocabulary, text_lines, topics
from representer.data.tables import Grid
from representer.errors import DataError
from representer.estimators import LanguageModel
from representer.estimators.explanation import Example
from representer.estimators.language_predictors import figures
from representer.estimators.parameters import AUTO
from representer.printable import say
from representer.report.results import Predictions
from representer.requirements import check_integer
from representer.storage.run_files import require_finite
from representer.tasks.estimator_objects import Objects, strings_of
from representer.tasks.estimator_use import EstimatorUse
from representer.tasks.language.language_task import LanguageReading
from representer.tasks.live_examples import named, of_path

WORDS, EXAMPLES = 12, 50  # of a beginning, and beginnings to look at in the demo


def read_lines(path: str | Path, *, encoding: str, **others: Any) -> Objects:
    """Read the lines of a text; the next token after each is predicted."""
    lines = [line.rstrip("\r\n") for line in text_lines(path, encoding)]
    numbers = [*range(1, len(lines) + 1)]
    table = Grid(["line"], [[str(number)] for number in numbers], numbers, [], True, False, [])
    return Objects(str(path), str(path), lines, [None] * len(lines), numbers, table=table)


class LanguageUse(EstimatorUse):
    """`predict` and `explain` of the next token after a line."""

    def _load(
        self, run: str | Path, options: Any, device: str, *, is_path: bool = True
    ) -> tuple[LanguageModel, dict[str, Any], None]:
        estimator = LanguageModel.load(run, device=device)
        return estimator, {"encoding": estimator.encoding}, None

    def _predictions(
        self, run: str | Path, estimator: Any, objects: Sequence[Any]
    ) -> list[Predictions]:
        tokens = estimator.inputs_.encode(objects)
        if unknown := int((tokens == LanguageVocabulary.UNKNOWN).sum()):
            say(f"{unknown} unknown tokens are read as <unk>")
        estimator.set_params(verbose=0)
        numbers, chances = estimator.most_probable(objects)
        require_finite(run, chances)
        return [Predictions(numbers, chances=chances)]


def evaluate(run: str | Path, data: str | Path, *, device: str = AUTO) -> dict[str, Any]:
    """Test a trained language model on another text.

    Args:
        run: The run folder.
        data: The text file.
        device: Device of the network, see `estimators.load`.

    Returns:
        Tokens, loss in nats per token, perplexity, bits per character where tokens are characters,
        and the number of unknown tokens.

    Raises:
        DataError: If the text cannot be used.
    """
    estimator = LanguageModel.load(run, device=device)
    inputs = estimator.inputs_
    tokens = inputs.encode(text_lines(data, estimator.encoding))
    if len(tokens) < 2:
        fix = "Give a text with a word in it."
        raise DataError("has no token to predict", file=Path(data), fix=fix)
    nats = -estimator.log_likelihood(tokens)
    require_finite(run, nats)
    unknown = int((tokens == inputs.vocabulary.UNKNOWN).sum())
    metrics = figures(nats, len(tokens) - 1, inputs.level)
    return {"run": str(run), "data": str(data), "unknown": unknown, **metrics}


def generate(
    run: str | Path,
    prompt: str,
    tokens: int,
    *,
    temperature: float,
    top_p: float,
    seed: int,
    device: str = AUTO,
) -> Iterator[str]:
    """Return the continuation of a prompt, piece by piece as it is sampled."""
    check_integer("tokens", tokens)
    model = LanguageModel.load(run, device=device)
    return model.stream(prompt, tokens, temperature, top_p=top_p, random_state=seed)


FLOW = LanguageUse(
    noun="after line",
    reading=LanguageReading,
    read=read_lines,
    strings=lambda strings, noun, reading: strings_of(strings, "beginning", reading),
)
predict, explain = FLOW.predict, FLOW.explain


def examples(run: str, data: str | None) -> list[Example]:
    """Return the lines of a text, or the beginnings of some lines of the demo's test part."""
    if data is not None:
        return named(of_path(FLOW, run, data), "line")
    lines, _ = topics()
    starts = [" ".join(line.split()[:WORDS]) for line in lines[-EXAMPLES:]]
    return named(strings_of(starts, "beginning", {}), "beginning")
