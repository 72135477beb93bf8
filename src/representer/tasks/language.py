"""Language models: fit, evaluate, generate."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.checks import check_integer
from representer.data.language import (
    PARTS,
    LanguageVocabulary,
    Level,
    cut,
    digests_of,
    find_parts,
    text_lines,
    topics,
)
from representer.data.splits import TRAINED, as_hex
from representer.data.tables import Grid
from representer.errors import ArgumentError, say
from representer.estimators import LanguageModel
from representer.estimators.explanation import Example
from representer.estimators.fitting import validation_fraction
from representer.estimators.language import (
    explained_lines,
    figures_of,
    lines_of_tokens,
    sample,
    surprisals,
    token_counts,
    unknown_note,
)
from representer.estimators.language_training import figures
from representer.kernels.token_counts import KneserNey
from representer.options.language import TASK
from representer.options.task import AUTO, without_data
from representer.report.metrics import perplexity_difference
from representer.report.page import Predictions
from representer.report.summary import PERPLEXITY, parts_sentence, standing
from representer.storage import checkpoint
from representer.storage.run import MODEL, RunFolder, require_finite
from representer.tasks.comparison import Result
from representer.tasks.flow import EstimatorComparison, EstimatorTask
from representer.tasks.objects import Data, Objects, Split, equal_objects, naming, strings_of
from representer.tasks.results import Baseline, Facts, Trained, named_examples, of_path
from representer.tasks.use import count_trained_on

# The text of a language model: its lines are the objects, and its parts are numbered tokens.


@dataclass(frozen=True, kw_only=True)
class LanguageData(Data):
    """The data of a run, whose parts are the tokens ``(N,)`` of some lines."""

    source: str  # path or description of the text
    trained: NDArray[np.int64]  # digests of the lines of the training and the validation part

    def labeled(self, part: str) -> Any:
        """Return the tokens of a part; each is predicted from those before it."""
        return self.parts[part]

    def splits(self) -> dict[str, Any]:
        """Return the digests of the files and the counts of the parts, as in splits.json."""
        digests = {text.source: text.digest for _, text in self.sources}
        return {"sha256": digests, **self.described(), TRAINED: as_hex(self.trained)}

    def described(self, facts: Mapping[str, str] | None = None) -> dict[str, Any]:
        parts: dict[str, Any] = self.parts
        counts = {name: token_counts(self.inputs, tokens) for name, tokens in parts.items()}
        return {"source": self.source, "vocabulary": len(self.inputs.vocabulary), "parts": counts}


def objects_of(source: str, lines: Sequence[str], *files: Path) -> Objects:
    """Return the lines of a text."""
    numbers = range(1, len(lines) + 1)
    return Objects(source, source, lines, [None] * len(lines), numbers, files)


# ``fit language``: train a `LanguageModel`, test it, and write its results and the report.

LINES = 6  # of an explanation in the report
ORDERS = {"word": (1, 3), "char": (1, 5)}


def split(objects: Objects, fractions: Sequence[float], start: float = 0.0) -> list[list[int]]:
    """Return the lines of each part, after rotating the text by a fraction of its lines."""
    rows = np.roll(np.arange(len(objects)), -round(start * len(objects))).tolist()
    parts = cut([objects.objects[row] for row in rows], fractions)
    return [[rows[k] for k in chosen] for chosen in parts]


def compared(
    logs: NDArray[np.float64], test: Any, level: Level, baselines: Sequence[Baseline]
) -> list[dict[str, Any]]:
    """Return the metrics of each baseline, and how the model differs from it."""
    lines = lines_of_tokens(test)
    return [
        {
            "name": baseline.name,
            "seconds": baseline.seconds,
            "difference": perplexity_difference(logs, baseline.predictions, lines),
            **figures(-float(baseline.predictions.mean()), len(logs), level),
        }
        for baseline in baselines
    ]


def closing(metrics: dict[str, Any]) -> list[str]:
    """Return the closing lines for the terminal: perplexities, parts, and the best baseline."""
    best, parts = metrics["valid"] or {}, metrics["parts"]
    rows = [
        (metrics["model"], metrics["test"]),
        *((f"  {name} alone", figures) for name, figures in parts.items() if len(parts) > 1),
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


WORDS, EXAMPLES = 12, 50  # of a beginning, and beginnings to look at in the demo


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


class LanguageTask(EstimatorTask):
    """The task ``language``; its objects are the lines of a text, and have no labels."""

    declared, noun, nouns = TASK, "after line", "lines"
    classifier = LanguageModel
    demo_folder = "language-demo"

    def read(
        self, path: str | Path, *, encoding: str, require_labels: bool = False, **others: Any
    ) -> Objects:
        """Read the lines of a text; the next token after each is predicted."""
        lines = [line.rstrip("\r\n") for line in text_lines(path, encoding)]
        objects, numbers = objects_of(str(path), lines, Path(path)), [*range(1, len(lines) + 1)]
        rows = [] if require_labels else [[str(number)] for number in numbers]
        return replace(objects, table=Grid(["line"], rows, numbers, [], True, False, []))

    def as_trained(self, estimator: Any, form: Any) -> dict[str, Any]:
        """Return the encoding of the training."""
        return {"encoding": estimator.encoding}

    def strings(self, strings: Sequence[str], reading: dict[str, Any]) -> Objects:
        return strings_of(strings, "beginning", reading)

    def demo(self) -> Objects:
        lines, name = topics()
        return objects_of(name, lines)

    def sources(self, config: Any) -> dict[str, Objects]:
        """Read the lines of the text as ``"all"``, and of files for ``"valid"`` and ``"test"``."""
        self._estimator(self.classifier, config).check()
        if config.demo:
            sources = {"all": self.demo()}
        elif config.data is None:
            hint = without_data("language", config)
            raise ArgumentError("data", None, "the path of a text", hint=hint)
        else:
            path, named = Path(config.data), {"valid": config.valid, "test": config.test}
            files = find_parts(path) if path.is_dir() else {"train": path}
            files |= {name: Path(file) for name, file in named.items() if file}
            sources = {
                "all" if name == "train" else name: self.read(
                    file, encoding=config.encoding, require_labels=True
                )
                for name, file in files.items()
            }
        for name, text in sources.items():
            sources[name] = replace(text, digests=digests_of(text.objects))
        for note in equal_objects(sources, self.nouns).values():
            say(f"{sources['all'].source}: {note}")
        return sources

    def divide(
        self, config: Any, sources: dict[str, Objects], split_by: Split | None = None,
        *, is_silent: bool = False,
    ) -> LanguageData:  # fmt: skip
        main, source = sources["all"], sources["all"].source
        if not config.demo:
            source = config.data
        test = 0.0 if "test" in sources else config.test_fraction
        valid = validation_fraction(config.valid_fraction, len(main), test)
        shares = {"valid": valid, "test": test}
        shares = {name: share for name, share in shares.items() if name not in sources}
        resumed = {}
        if config.warm_start and config.resume and (Path(config.out or "") / MODEL).exists():
            resumed = {"warm_start": config.out}  # the other run may be gone by now
        estimator = self._estimator(self.classifier, config, **resumed)
        with naming(source):
            division = (split_by or split)(main, (1 - sum(shares.values()), *shares.values()))
            of_part = dict(zip(("train", *shares), division, strict=True))
            lines = {
                name: [main.objects[row] for row in of_part[name]]
                if name in of_part
                else sources[name].objects
                for name in PARTS
            }
            tokens: dict[str, Any] = estimator.encode_parts(lines)
        files = [(name, objects_of(text.source, [], *text.files)) for name, text in sources.items()]
        data = LanguageData(
            target=estimator.target_, parts=tokens, values={}, inputs=estimator.inputs_,
            sources=files, source=source,
            trained=digests_of(chain(lines["train"], lines["valid"])),
        )  # fmt: skip
        for note in () if is_silent else self.describe(config, data).notes:
            say(note)
        return data

    def new_estimator(self, run: RunFolder, config: Any, data: Data) -> LanguageModel:
        has_weights = run.resume and checkpoint.steps(run.checkpoints)
        start = {"warm_start": None} if has_weights else {}
        estimator = self._estimator(self.classifier, config, **data.resources, **start)
        estimator.inputs_ = data.inputs
        return estimator

    def predicted(self, estimator: Any, data: Data) -> Sequence[Predictions]:
        return []

    def results(
        self, run: RunFolder, trained: Trained, others: Sequence[Trained],
        baselines: Sequence[Baseline],
    ) -> tuple[dict[str, Any], dict[str, Any], Sequence[str]]:  # fmt: skip
        config, estimator = trained.config, trained.estimator
        data: Any = trained.data
        outcome, training = trained.outcome, trained.outcome.training
        test = data.parts["test"]
        logs = estimator.log_likelihoods(test)
        rows = compared(logs, test, data.inputs.level, baselines)
        differences = {row["name"]: row["difference"] for row in rows}
        count, lines = len(test) - 1, len(set(lines_of_tokens(test).tolist()))
        on, units = f"{count} test tokens", lines if lines > 1 else count
        beside = standing(outcome.name, differences, PERPLEXITY, on, units)
        metrics = {
            "task": self.name,
            "model": outcome.name,
            "level": data.inputs.level,
            **figures_of(estimator, test, logs),
            "valid": training and training.best,
            "epochs": training.epoch if training else 0,
            "steps": training.step if training else 0,
            "stopped_by": training and training.reason,
            "seconds": outcome.seconds,
            "parameters": outcome.parameters,
            "baselines": rows,
            "standing": beside,
            "verdict": beside.get("sentence", ""),
        }
        name = data.source if config.demo else Path(data.source).name
        details = {
            "title": f"Language model of {name}",
            "data": data.described(),
            "excerpt": surprisals(estimator, test),
            "sample": sample(estimator, config.seed),
            "examples": explained_lines(estimator, test, LINES),
        }
        return metrics, details, closing(metrics)

    def evaluate(
        self, run: str | Path, data: str | Path, options: Any, grouping: Any = None, *,
        device: str = AUTO,
    ) -> dict[str, Any]:  # fmt: skip
        """Test a trained model on another text: the loss is in nats per token.

        Raises:
            DataError: If the text cannot be used.
        """
        estimator, _, objects = self.opened(run, data, options, device=device, require_labels=True)
        with naming(str(data)):
            tokens = estimator.encode_text(objects.objects)
        if note := unknown_note(estimator.inputs_, tokens):
            say(f"{data}: {note}")
        nats = -estimator.log_likelihood(tokens)
        require_finite(run, nats)
        unknown = int((tokens == LanguageVocabulary.UNKNOWN).sum())
        metrics = figures(nats, len(tokens) - 1, estimator.inputs_.level)
        trained = count_trained_on(run, data, digests_of(objects.objects), "line")
        return {"run": str(run), "data": str(data), "unknown": unknown, TRAINED: trained, **metrics}

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

    def describe(self, config: Any, data: Any) -> Facts:
        train, valid, test = (len(data.parts[name]) for name in PARTS)
        notes = [
            f"{data.source}: {train:,} tokens to train on, {valid:,} to validate, {test:,} to "
            f"test; a vocabulary of {len(data.inputs.vocabulary):,}"
        ]
        return Facts({}, [*notes, *filter(None, [unknown_note(data.inputs, data.parts["test"])])])

    def baselines(self, config: Any, data: Any) -> list[Baseline]:
        train, test = (data.parts[name].numpy() for name in ("train", "test"))
        results = []
        for order in ORDERS[data.inputs.level]:
            started = time.perf_counter()
            counts = KneserNey(order).fit(train, len(data.inputs.vocabulary))
            scores = np.log(counts.probabilities(test)[1:])
            name = f"{order}-gram, Kneser-Ney" if order > 1 else "1-gram"
            results.append(Baseline(name, "", scores, time.perf_counter() - started))
        return results

    def examples(self, run: str, data: str | None) -> list[Example]:
        if data is not None:
            return named_examples(of_path(self, run, data), "line")
        lines, _ = topics()
        starts = [" ".join(line.split()[:WORDS]) for line in lines[-EXAMPLES:]]
        return named_examples(strings_of(starts, "beginning", {}), "beginning")

    def comparison(self, config: Any, **options: Any) -> EstimatorComparison:
        return LanguageComparison.read(self, config, **options)


# The comparison of language models: blocks of a text, or several seeds with one test text.


@dataclass(frozen=True, kw_only=True)
class LanguageComparison(EstimatorComparison):
    """Kernel, network, both, variants of the network and n-gram counts on parts of a text.

    The lines of a single text are rotated, so that each split tests on another block of them.
    With a test text of its own, the splits differ in the seed.

    Raises:
        ArgumentError: An option is invalid.
    """

    @property
    def title(self) -> str:
        name = "demo" if self.config.demo else Path(self.config.data).name
        if self.has_fixed_test:
            return f"{name}: {len(self.splits)} seeds, one test text (intervals over seeds only)"
        return f"{name}: tested on {len(self.splits)} blocks of its lines in turn"

    @property
    def metric(self) -> str:
        """Perplexity per token."""
        return "perplexity"

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | ({} if self.has_fixed_test else {"blocks": len(self.splits)})

    def split_by(self, number: int) -> Split | None:
        if self.has_fixed_test:
            return None
        return partial(split, start=[*self.splits].index(number) / len(self.splits))

    def tested(self, data: Data, name: str, seconds: float, part: Any) -> Result:
        return self._of_loss(data, name, seconds, -part.log_likelihood(data.parts["test"]))

    def tested_baseline(self, data: Data, baseline: Baseline) -> Result:
        row = self._of_loss(data, baseline.name, baseline.seconds, -baseline.predictions.mean())
        return replace(row, is_baseline=True)

    def _of_loss(self, data: Data, name: str, seconds: float, loss: float) -> Result:
        train, valid, test = (len(data.parts[name]) for name in PARTS)
        return Result(name, [loss], seconds, train + valid, test=test)


FLOW = LanguageTask()
