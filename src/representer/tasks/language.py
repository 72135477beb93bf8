"""Language models: fit, evaluate, generate."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from representer.checks import check_integer
from representer.data.copies import TRAINED, as_hex
from representer.data.language import (
    PARTS,
    LanguageVocabulary,
    Lines,
    count_tokens,
    cut,
    digests_of,
    file_lines,
    find_parts,
    text_lines,
    topics,
)
from representer.data.tables import Grid
from representer.errors import ArgumentError, DataError, say
from representer.estimators import LanguageModel, base
from representer.estimators.explanation import BOTH, NETWORK, Example
from representer.estimators.language_report import (
    explained_lines,
    lines_of_tokens,
    part_figures,
    sample,
    surprisals,
    text_figures,
    token_counts,
)
from representer.estimators.language_training import LanguageInputs, check_texts, figures
from representer.estimators.parameters import AUTO
from representer.estimators.results import model_name, parameter_counts
from representer.kernels.token_counts import KneserNey
from representer.models.cells import resolve_cell
from representer.report.metrics import perplexity_difference
from representer.report.page import Predictions
from representer.report.summary import PERPLEXITY, parts_sentence, standing
from representer.storage import checkpoint
from representer.storage.run import MODEL, RunFolder, UnsavedRun, require_finite
from representer.tasks.comparison import BASELINES, MODEL_UNIT, Comparison, Result, parts_of
from representer.tasks.flow import (
    WITHOUT_EFFECT_ON_TRAINING,
    opened,
    publish,
    repeated,
    require_same_options,
    with_output_folder,
)
from representer.tasks.language_options import LanguageReading, defaults
from representer.tasks.objects import Objects, strings_of
from representer.tasks.options import as_yaml, determining, parameters_of
from representer.tasks.results import named_examples, of_path
from representer.tasks.use import EstimatorUse, count_trained_on
from representer.training.state import TrainingResult

# Read, split and encode the text of a language model.


@dataclass(frozen=True)
class LanguageData:
    """The data of a run.

    Attributes:
        tokens: Tokens of the training, validation and test part ``(N,)``, by name.
        inputs: The vocabulary, and the level of the tokens.
        source: Path or description of their source.
        trained: Digests of the lines of the training and the validation part.
    """

    tokens: dict[str, Tensor]
    inputs: LanguageInputs
    source: str
    trained: NDArray[np.int64]

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the tokens of each part."""
        return {
            part: hashlib.sha256(tokens.numpy().tobytes()).hexdigest()
            for part, tokens in self.tokens.items()
        }

    def splits(self) -> dict[str, Any]:
        """Return the digests and the counts of the parts, as in splits.json."""
        return {"sha256": self.digests, **self.report, TRAINED: as_hex(self.trained)}

    @property
    def report(self) -> dict[str, Any]:
        """Counts of tokens, lines and unknown tokens for the report."""
        parts = {name: token_counts(self.inputs, tokens) for name, tokens in self.tokens.items()}
        size = len(self.inputs.vocabulary)
        return {"source": self.source, "vocabulary": size, "parts": parts}


def has_own_test(config: Any) -> bool:
    """Return True if the test text is a file of its own."""
    return bool(config.test) or (not config.demo and Path(config.data).is_dir())


def prepare(config: Any, shift: float = 0.0) -> tuple[LanguageModel, LanguageData]:
    """Read, split and encode the text; nothing is written.

    Args:
        config: The options of the run.
        shift: Fraction by which the lines of a single text are rotated before they are split.

    Returns:
        The estimator with the inputs of the text, or of the run that is resumed, and the data.

    Raises:
        DataError: If the data cannot be used.
        ArgumentError: If no data are named, the vocabulary does not fit into memory, or a
            parameter is out of its range.
    """
    estimator = LanguageModel(**parameters_of(config, LanguageModel))
    estimator.check()
    sources, name = _sources(config, shift)
    own_run = Path(config.out or "")
    if config.warm_start and config.resume and (own_run / MODEL).exists():
        inputs = base.load_inputs(own_run, LanguageModel)  # the other run may be gone by now
    else:
        counts = count_tokens(sources["train"](), estimator.level)  # type: ignore[arg-type]
        with _naming(name):
            inputs = estimator.learn_inputs(counts)
    tokens = {part: inputs.encode(sources[part]()) for part in PARTS}
    estimator.inputs_ = inputs
    with _naming(name):
        check_texts(estimator, len(inputs.vocabulary), tokens["train"], tokens["valid"])
        if len(tokens["test"]) < 2:
            raise DataError(
                f"the test text has {len(tokens['test'])} token(s); at least 2 are needed"
            )
    *others, tested = (digests_of(sources[part]()) for part in PARTS)
    seen = np.concatenate(others)
    if count := int(np.isin(tested, seen).sum()):
        say(f"{name}: {count:,} of {len(tested):,} test lines are lines of the training, too; only "
            "others measure generalization")  # fmt: skip
    return estimator, LanguageData(tokens, inputs, name, seen)


@contextmanager
def _naming(source: str) -> Iterator[None]:
    """Add the source to an error of its content."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error), file=source) from None


def _sources(config: Any, shift: float) -> tuple[dict[str, Lines], str]:
    """Return the lines of each part, and a description of their source."""
    fractions = config.valid_fraction, config.test_fraction
    if config.demo:
        lines, name = topics()
        return cut(_rotated(lines, shift), *fractions), name
    if config.data is None:
        hint = "Without data of your own: representer fit language --demo"
        raise ArgumentError("data", None, "the path of a text", hint=hint)
    path = Path(config.data)
    given = {"valid": config.valid, "test": config.test}
    files = {part: Path(file) for part, file in given.items() if file}
    if path.is_dir():
        files = find_parts(path) | files
    elif files:
        files["train"] = path
        if missing := [part for part in PARTS if part not in files]:
            hint = f"Add --{missing[0]} FILE."
            raise ArgumentError(missing[0], None, "a file, as for the other part", hint=hint)
    if files:
        return {part: file_lines(file, config.encoding) for part, file in files.items()}, str(path)
    lines = list(text_lines(path, config.encoding))
    with _naming(str(path)):
        return cut(_rotated(lines, shift), *fractions), str(path)


def _rotated(lines: Sequence[str], shift: float) -> list[str]:
    start = round(shift * len(lines))
    return [*lines[start:], *lines[:start]]


# ``fit language``: train a `LanguageModel`, test it, and write its results and the report.


def fit(config: Any) -> dict[str, Any]:
    """Train a language model, test it, and write the run folder.

    Nothing is written before the data have been read and checked. A finished demo prints its
    results again, and an interrupted one continues.

    Args:
        config: The options of the run.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: As ``errors`` lists them; the message names the location and the fix.
    """
    config = with_output_folder(config, "language-demo", "language")
    prepared = prepare(config)
    with opened(config) as run:
        return _train_and_report(run, config, *prepared)


def fit_in(run: RunFolder, config: Any) -> dict[str, Any]:
    """Train and test a language model in a folder that is open already, see `fit`."""
    return _train_and_report(run, config, *prepare(config))


def _train_and_report(
    run: RunFolder, config: Any, estimator: LanguageModel, data: LanguageData
) -> dict[str, Any]:
    train, valid, test = (data.tokens[part] for part in PARTS)
    say(
        f"{data.source}: {len(train):,} tokens to train on, {len(valid):,} to validate, "
        f"{len(test):,} to test; a vocabulary of {len(data.inputs.vocabulary):,}"
    )
    counts = token_counts(data.inputs, test)
    words = counts["tokens"] - counts["lines"]
    if 3 * counts["unknown"] > words and data.inputs.level == "word":
        say(
            f"{counts['unknown'] / words:.0%} of the words to test are unknown, so perplexity "
            "tells little; --level char reads characters"
        )
    is_trained = run.resume and bool(checkpoint.steps(run.checkpoints))
    network = None
    if estimator.has_network:
        network = estimator.new_network(config.seed, is_resumed=is_trained)
    if run.resume:
        require_same_options(run.path, config, data.splits())
    if not is_trained:  # otherwise they exist and must not change
        run.write_text("config.yaml", as_yaml(config))
        run.write_json("splits.json", data.splits())
    result = estimator.train_on(
        run, network, train, valid, config.seed,
        settings=lambda trainer: determining(config, trainer, WITHOUT_EFFECT_ON_TRAINING)
        | {"sha256": data.digests},
    )  # fmt: skip
    run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
    if not run.is_writer:
        return {}
    metrics = metrics_of(config, data, estimator, result)
    usual = defaults(config.preset, demo=config.demo)
    details = details_of(config, data, estimator) | repeated("language", config, usual, estimator)
    return publish(run, metrics, details, closing(metrics))


LINES = 6  # of an explanation in the report
ORDERS = {"word": (1, 3), "char": (1, 5)}


def metrics_of(
    config: Any, data: LanguageData, estimator: LanguageModel, training: TrainingResult | None
) -> dict[str, Any]:
    """Return metrics.json: the test metrics, how training went, and the best baseline."""
    test, level = data.tokens["test"], data.inputs.level
    parts, count = estimator.parts_, len(test) - 1
    model = model_name(parts, estimator.network_name)
    baselines = [] if config.baselines == "none" else baselines_of(data, estimator)
    differences = {row["name"]: row["difference"] for row in baselines}
    lines = len(set(lines_of_tokens(test).tolist()))
    units = lines if lines > 1 else count
    found = standing(model, differences, PERPLEXITY, f"{count} test tokens", units)
    return {
        "task": "language",
        "model": model,
        "level": level,
        "test": text_figures(estimator, test),
        "parts": part_figures(estimator, test),
        "valid": training and training.best,
        "epochs": training.epoch if training else 0,
        "steps": training.step if training else 0,
        "stopped_by": training and training.reason,
        "seconds": sum(part.seconds or 0.0 for part in parts.values()),
        "parameters": parameter_counts(estimator),
        "baselines": baselines,
        "standing": found,
        "verdict": found.get("sentence", ""),
    }


def counted(data: LanguageData) -> Iterator[tuple[str, NDArray[np.float64], float]]:
    """Yield name, log-probability of each test token, and seconds of n-gram counts."""
    train, test = (data.tokens[part].numpy() for part in ("train", "test"))
    for order in ORDERS[data.inputs.level]:
        started = time.perf_counter()
        counts = KneserNey(order).fit(train, len(data.inputs.vocabulary))
        scores = np.log(counts.probabilities(test)[1:])
        name = f"{order}-gram, Kneser-Ney" if order > 1 else "1-gram"
        yield name, scores, time.perf_counter() - started


def baselines_of(data: LanguageData, estimator: LanguageModel) -> list[dict[str, Any]]:
    """Return the metrics of n-gram counts on the test text, and how the model differs from them."""
    test, level = data.tokens["test"], data.inputs.level
    own = estimator.log_likelihoods(test)
    lines = lines_of_tokens(test)
    return [
        {
            "name": name,
            "seconds": seconds,
            "difference": perplexity_difference(own, scores, lines),
            **figures(-float(scores.mean()), len(scores), level),
        }
        for name, scores, seconds in counted(data)
    ]


def details_of(config: Any, data: LanguageData, estimator: LanguageModel) -> dict[str, Any]:
    """Return details.json without what repeats the run: data, an excerpt, and a sample."""
    return {
        "title": f"Language model of {data.source if config.demo else Path(data.source).name}",
        "data": data.report,
        "excerpt": surprisals(estimator, data.tokens["test"]),
        "sample": sample(estimator, config.seed),
        "examples": explained_lines(estimator, data.tokens["test"], LINES),
    }


def closing(metrics: dict[str, Any]) -> list[str]:
    """Return the closing lines for the terminal: perplexities, parts, and the best baseline."""
    best, parts = metrics["valid"] or {}, metrics["parts"]
    rows = [
        (metrics["model"], metrics["test"]),
        *((f"  {name} alone", own) for name, own in parts.items() if len(parts) > 1),
        *((baseline["name"], baseline) for baseline in metrics["baselines"]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{metrics['test']['tokens']:,} tokens of the test text"]
    for name, row in rows:
        bits = row.get("bits_per_character")
        shown = "" if bits is None else f"   {bits:.3f} bits per character"
        lines.append(f"{name:<{width}}  perplexity {row['perplexity']:9.2f}{shown}")
    if best.get("valid_perplexity"):
        network = 2 if len(parts) > 1 else 0  # the row of the network alone
        lines[1 + network] += (
            f"   (validation {best['valid_perplexity']:.2f}, epoch {best['epoch']})"
        )
    return ["\n".join(lines), parts_sentence(parts), metrics["verdict"]]


# Use of a trained language model: ``evaluate``, ``predict``, ``explain`` and ``generate``.

WORDS, EXAMPLES = 12, 50  # of a beginning, and beginnings to look at in the demo


def read_lines(path: str | Path, *, encoding: str, **others: Any) -> Objects:
    """Read the lines of a text; the next token after each is predicted."""
    lines = [line.rstrip("\r\n") for line in text_lines(path, encoding)]
    numbers = [*range(1, len(lines) + 1)]
    table = Grid(["line"], [[str(number)] for number in numbers], numbers, [], True, False, [])
    return Objects(str(path), str(path), lines, [None] * len(lines), numbers, table=table)


class LanguageUse(EstimatorUse):
    """`predict` and `explain` of the next token after a line."""

    def load(
        self, run: str | Path, options: Any, device: str, *, is_path: bool = True
    ) -> tuple[LanguageModel, dict[str, Any], None]:
        """Return the model of a run, and how to read data, as in training."""
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
    lines = list(text_lines(data, estimator.encoding))
    tokens = inputs.encode(lines)
    if len(tokens) < 2:
        fix = "Give a text with a word in it."
        raise DataError("has no token to predict", file=Path(data), fix=fix)
    nats = -estimator.log_likelihood(tokens)
    require_finite(run, nats)
    unknown = int((tokens == inputs.vocabulary.UNKNOWN).sum())
    metrics = figures(nats, len(tokens) - 1, inputs.level)
    known = count_trained_on(run, data, digests_of(lines), "line")
    return {"run": str(run), "data": str(data), "unknown": unknown, TRAINED: known, **metrics}


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
        return named_examples(of_path(FLOW, run, data), "line")
    lines, _ = topics()
    starts = [" ".join(line.split()[:WORDS]) for line in lines[-EXAMPLES:]]
    return named_examples(strings_of(starts, "beginning", {}), "beginning")


# The comparison of language models: blocks of a text, or several seeds with one test text.


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
        options = {"answer": BOTH} if unit == MODEL_UNIT else {"answer": NETWORK}
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
        return results if unit == MODEL_UNIT else [replace(results[0], name=unit)]

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
