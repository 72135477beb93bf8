"""``fit``, ``evaluate``, ``predict`` and ``explain`` of texts: reader, baselines, facts, demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from representer.data.stored import sampled
from representer.data.tables import read_grid
from representer.data.tables.blocks import DETECTION, SMALL
from representer.data.tables.columns import requested
from representer.data.text import (
    Table,
    Vocabulary,
    assemble,
    code_lines,
    read_tables,
    read_vectors,
    tokenize,
    truncation,
)
from representer.data.text.code_lines import SWAPPED
from representer.errors import KindError
from representer.estimators import TextClassifier, TextRegressor
from representer.estimators.explanation import KERNEL, NETWORK
from representer.estimators.text import TextInputs
from representer.estimators.text_parameters import RANDOM, TRAINING, TextParameters
from representer.functional import Cell
from representer.nn import StringKernelRNN
from representer.storage.run_folder import RunFolder
from representer.tasks import estimator_explain
from representer.tasks.baselines import Baseline, constant_prediction, tfidf
from representer.tasks.cells_table import memory_equation, output_equation
from representer.tasks.estimator_comparison import EstimatorComparison
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_objects import Objects
from representer.tasks.estimator_results import Facts, Model, Trained
from representer.tasks.estimator_task import EstimatorTask
from representer.tasks.live_examples import tested
from representer.tasks.text.large_tables import is_large, stored
from representer.tasks.text.text_task import TextConfig, TextReading, defaults_of

STARTS = {
    RANDOM: "at random",
    None: "at random",
    TRAINING: "from the words that stand together in the training texts",
}  # of word vectors
PARTS = {"embedding": "word vectors", "head": "classifier"}
_ENOUGH = 32  # characters for each word that a text must have
BESIDE, TOP = "lstm", 8  # of the demo: the second cell, and the n-grams that are shown


def read(
    path: str | Path, *, text: str | None, label: str | None, is_regression: bool,
    require_labels: bool, **layout: Any,
) -> Objects:  # fmt: skip
    """Read the texts and labels of a table; see `read_table`."""
    if require_labels and is_large(path):
        how = {"is_regression": is_regression, "require_labels": True} | layout
        return stored(path, read_in_blocks(path, text=text, label=label, **how))
    label = label if require_labels else None
    grid = read_grid(path, requested(text) + requested(label), **layout)
    table = assemble(grid, str(Path(path)), text, label, require_label=require_labels)
    objects = objects_of(table, (Path(path),))
    return objects if require_labels else replace(objects, table=grid, notes=grid.notes)


def read_in_blocks(
    path: str | Path, *, text: str | None, label: str | None, is_regression: bool,
    require_labels: bool, **layout: Any,
) -> Iterator[Objects]:  # fmt: skip
    """Yield the texts and labels of the files of a table in blocks; see `read_tables`."""
    wanted = text, label if require_labels else None
    size = SMALL if text else DETECTION
    for grid, table in read_tables(
        path, *wanted, require_label=require_labels, size=size, **layout
    ):
        objects = objects_of(table, (Path(table.source),))
        yield objects if require_labels else replace(objects, table=grid, notes=grid.notes)


def objects_of(table: Table, files: tuple[Path, ...] = ()) -> Objects:
    """Return the texts and labels of a table."""
    return Objects(
        source=table.source,
        labels_file=table.source,
        objects=table.texts,
        labels=table.labels or [None] * len(table),
        lines=table.lines,
        files=files,
        notes=table.notes,
        dropped=table.dropped,
        reading={
            "text": table.text_column, "label": table.label_column, "header": table.header
        },
        column=table.text_column,
        label_column=table.label_column,
        is_numbered_by_line=True,
    )  # fmt: skip


def too_short(estimator: Any, config: TextConfig | None, text: str) -> str:
    """Return a reason if a text has too few words, after training if it has none."""
    least = config.min_length if config else 1
    scheme = getattr(estimator, "inputs_", estimator).tokenizer
    start = text[: _ENOUGH * least]  # tells of most texts; its last word may be cut
    if len(tokenize(start, scheme)) > least:
        return ""
    return "" if len(tokenize(text, scheme)) >= least else "too short"


def describe(config: TextConfig, data: Data) -> Facts:
    """Return the columns, the vocabulary and the lengths of the texts."""
    reading, vocabulary = data.sources[0][1].reading, data.inputs.vocabulary
    texts = [text for part in data.parts.values() for text in sampled(part.objects)]
    lengths = sorted(len(tokenize(text, config.tokenizer)) for text in texts)
    cut = truncation(lengths, config.max_length)
    tested = [number for document in data.encoded["test"] for number in document]
    unknown = tested.count(Vocabulary.UNKNOWN) / max(1, len(tested))
    plural = "" if config.min_count == 1 else "s"
    values = {
        "text column": str(reading["text"]),
        "label column": str(reading["label"]),
        "vocabulary": f"{len(vocabulary) - len(Vocabulary.MARKS):,} words that occur at least "
        f"{config.min_count} time{plural} in training",
        "unknown words": f"{unknown:.1%} of the words of the test documents",
        "length": f"median {lengths[len(lengths) // 2]} words; {cut}",
        "word vectors": STARTS.get(config.vectors, "from a file")
        + (", fixed" if config.freeze_embeddings else ", then trained"),
    }
    notes = [str(cut)]
    if config.demo:
        notes.append(
            f"{len(data.parts['train'])} lines of code to train on; in half of them, two tokens "
            "are swapped. Which ones? Only the order of the tokens tells."
        )
    return Facts(values, notes)


def resources(config: TextConfig, inputs: TextInputs) -> dict[str, Any]:
    """Return the word vectors."""
    if config.vectors in STARTS:
        return {}
    return {"vectors": read_vectors(config.vectors, inputs.vocabulary)}


def describe_model(config: TextConfig, data: Data, estimator: Any, network: Any) -> Model:
    """Return the name and the equations of the cell, and the coverage of the word vectors."""
    name = estimator._network_name
    if network is None:
        return Model(name)
    values = {
        "cell": name,
        **_equations(network.cell),
        "head": f"mean over time → {network.config.head_size} ReLU → {network.config.num_classes}",
    }
    if config.vectors in STARTS:
        return Model(name, values, PARTS)
    words = (data.inputs.words(text) for text in sampled(data.parts["train"].objects))
    counts = Counter(word for document in words for word in document)
    coverage = f"{estimator.coverage_}; {estimator.coverage_.running(counts):.1%} of running words"
    notes = [f"{config.vectors}: {coverage}"]
    return Model(name, values, PARTS, {"word vectors": coverage}, notes)


def _equations(layer: Any) -> dict[str, str]:
    """Return the equations of the memory cell and of the output."""
    if isinstance(layer, StringKernelRNN):
        memory = "c_{j,t} = λ c_{j,t−1} + c_{j−1,t−1} ⊙ W_j x_t"
        return {"memory cell": memory, "output": f"h_t = {layer.activation or ''}(c_{{n,t}})"}
    cell: Cell | None = getattr(layer, "cell", None)
    if cell is None:
        return {}
    return {"memory cell": memory_equation(cell), "output": output_equation(cell)}


def train_baselines(data: Data, *, tuned: bool = False) -> list[Baseline]:
    """Train both baselines on the words that the network reads, and predict the test texts.

    Tuned baselines select their regularization on the validation texts.
    """
    objects = {name: part.objects for name, part in data.parts.items()}
    objects["train"], train = sampled(objects["train"], data.values["train"])
    words = {name: [data.inputs.words(text) for text in own] for name, own in objects.items()}
    is_regression = data.is_regression
    valid = (words["valid"], data.values["valid"]) if tuned else None
    return [
        tfidf(words["train"], train, words["test"], valid, is_regression=is_regression),
        constant_prediction(train, len(words["test"]), is_regression=is_regression),
    ]


def title(config: TextConfig, data: Data) -> str:
    """Return the title of the report: the columns of the table."""
    main = data.sources[0][1]
    text, label = str(main.reading["text"]), main.reading["label"]
    if config.demo:
        return f"{main.source[:1].upper()}{main.source[1:]}: original, or with two tokens swapped"
    if not main.reading["header"]:
        text, label = f"column {text.replace(',', ' and ')}", f"column {label}"
    return f"{Path(main.source).name}: {label} from {text}"


def networks(config: TextConfig) -> dict[str, TextConfig]:
    """Return the configuration, in the demo with that of an LSTM of the same width beside it."""
    if not config.demo or config.answer == KERNEL:
        return {"": config}
    out = str(Path(config.out or "") / BESIDE)
    beside = replace(config, cell=BESIDE, answer=NETWORK, out=out)
    return {config.cell: config, beside.cell: beside}


def explain_one(task: EstimatorTask, run: RunFolder, trained: Trained) -> str:
    """Return the explanation of the demo's first swapped test line."""
    test = trained.data.parts["test"]
    if not trained.config.demo:
        return ""
    first = test.subset([list(test.labels).index(SWAPPED)])
    try:
        (entry,) = task.entries(run.path, trained.estimator, first, TOP)
    except KindError as error:
        return f"No explanation: {error}"
    total = sum(one["contribution"] for one in entry["contributions"])
    total += entry["others"]["contribution"] + entry["constant"]
    explained = estimator_explain.as_text(entry, styled=False).splitlines()[1:]
    return "\n".join(
        [
            "\nThe first test line with two swapped tokens:\n",
            f"  {' '.join(entry['words'])}\n",
            f"The prediction is {entry['prediction']}, by these n-grams and their exact "
            "contributions:\n",
            *explained,
            f"\nThe contributions and the constant sum to {total:+.6f}.\n",
        ]
    )


FLOW = EstimatorTask(
    name="text",
    noun="document",
    nouns="documents",
    reading=TextReading,
    read=read,
    blocks=read_in_blocks,
    remembered={"text": "the column with the texts", "label": ""},
    reason=too_short,
    remedy="Is this the right column? Otherwise lower min_length.",
    parameters=TextParameters,
    classifier=TextClassifier,
    regressor=TextRegressor,
    defaults=defaults_of,
    demo=lambda: objects_of(code_lines()),
    baselines=lambda config, data: train_baselines(data, tuned=config.demo),
    describe=describe,
    resources=resources,
    describe_model=describe_model,
    title=title,
    networks=networks,
    closing=explain_one,
)
fit, evaluate, predict, explain = FLOW.fit, FLOW.evaluate, FLOW.predict, FLOW.explain
comparison, drift = partial(EstimatorComparison.read, FLOW), FLOW.drift
examples = partial(tested, FLOW, FLOW.demo)
opened = FLOW.opened
