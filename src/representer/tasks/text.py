"""Text classification from a table of texts and labels to a described model."""

from __future__ import annotations

import time
import warnings
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from representer.data.tables import Dropped, Grid, LabelMap, read_grid
from representer.data.tables.columns import name_of, requested, resolve
from representer.data.tables.files import DETECTION, SMALL
from representer.data.tables.reading import table_files
from representer.data.text import (
    FREQUENT,
    Table,
    Vocabulary,
    assemble,
    code_lines,
    read_tables,
    read_vectors,
    stored_texts,
    tokenize,
    truncation,
)
from representer.data.text.table import SWAPPED
from representer.data.text.words import most, sampled
from representer.errors import ArgumentError, KindError, MissingExtraError
from representer.estimators import TextClassifier, TextRegressor
from representer.estimators.explanation import KERNEL, NETWORK
from representer.estimators.label_sets import LabelSets
from representer.estimators.linear_models import MANY
from representer.estimators.text import TextInputs
from representer.functional import Cell
from representer.kernels.vector_features import TextRow
from representer.models.cells import memory_equation, output_equation
from representer.nn import StringKernelRNN
from representer.options.task import parameters_of
from representer.options.text import RANDOM, TASK, TRAINING, TextConfig
from representer.storage.run import RunFolder
from representer.tasks import use
from representer.tasks.flow import EstimatorTask
from representer.tasks.objects import Data, Objects, are_fractions
from representer.tasks.results import (
    Baseline,
    Facts,
    Model,
    Trained,
    constant_prediction,
    ranks,
)
from representer.training.generators import return_freed_memory

# Tables of texts that are larger than memory, or consist of several files.

LARGE = 128 << 20  # bytes from which texts stay in a file


def is_large(path: str | Path) -> bool:
    """Return True for a folder or a pattern, or a file of 128 MiB or more."""
    if Path(path).is_file():
        return Path(path).stat().st_size >= LARGE
    return Path(path).is_dir() or any(mark in str(path) for mark in "*?[")


def stored(path: str | Path, blocks: Iterable[Objects]) -> Objects:
    """Return the texts of all blocks of a table, of which memory holds labels and lines alone.

    If they are small, they are in memory as always.
    """
    files = tuple(table_files(path))
    names: dict[Any, Any] = {}
    labels, groups = list[Any](), list[str]()
    dropped: list[Dropped] = []
    lines = array("q")
    first: Objects | None = None

    def texts() -> Iterator[str]:
        nonlocal first
        for block in blocks:
            bare: Any = {"objects": [], "labels": [], "lines": [], "groups": []}
            first = first or replace(block, **bare, rows=range(0))
            labels.extend(names.setdefault(label, label) for label in block.labels)
            groups.extend(names.setdefault(group, group) for group in block.groups)
            lines.extend(block.lines)
            dropped.extend(block.dropped)
            yield from block.objects

    objects = stored_texts(texts())
    assert first is not None  # a table without usable rows is an error of its reader
    if first.has_label_sets and not first.are_indicators:
        first = replace(first, targets=labels_in(names))
    is_one = len(files) == 1
    result = replace(
        first, source=str(path), labels_file=str(path), objects=objects, labels=labels,
        lines=np.asarray(lines), rows=np.arange(1, len(labels) + 1), files=files, dropped=dropped,
        has_lines=is_one, is_numbered_by_line=is_one, groups=groups,
    )  # fmt: skip
    if sum(file.stat().st_size for file in files) < LARGE:
        return result.in_memory()
    return_freed_memory()
    some = f"{most(objects):,} rows"
    note = (
        "The table is large: its texts stay in a file. Parts that are split off have at most "
        f"{some}; kernel and baselines learn from {some}, the network from all."
    )
    return replace(result, notes=[*result.notes, note])


# ``fit``, ``evaluate``, ``predict`` and ``explain`` of texts: reader, baselines, facts, demo.

STARTS = {
    RANDOM: "at random",
    None: "at random",
    TRAINING: "from the words that stand together in the training texts",
}  # of word vectors
PARTS = {"embedding": "word vectors", "head": "classifier"}
_ENOUGH = 32  # characters for each word that a text must have
BESIDE, TOP = "lstm", 8  # of the demo: the second cell, and the n-grams that are shown


def labels_in(labels: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the distinct labels of all objects, as those of classes are ordered."""
    names = {label for names in labels for label in names}
    return LabelMap.build(names).names if names else ()


def objects_of(table: Table, files: tuple[Path, ...] = ()) -> Objects:
    """Return the texts and labels of a table."""
    labels: list[Any] = table.labels or [None] * len(table)
    has_sets, columns = table.has_label_sets and table.labels is not None, table.targets
    return Objects(
        source=table.source,
        labels_file=table.source,
        objects=table.texts,
        labels=labels,
        targets=columns or (labels_in(labels) if has_sets else ()),
        has_label_sets=has_sets,
        are_indicators=has_sets and bool(columns),
        lines=table.lines,
        files=files,
        notes=table.notes,
        dropped=table.dropped,
        reading={
            "text": table.text_column, "label": table.label_column, "header": table.header,
            "separator": table.separator,
        } | ({"multilabel": True} if has_sets else {"targets": columns} if columns else {}),
        column=table.text_column,
        label_column=table.label_column,
        groups=table.groups,
        is_numbered_by_line=True,
    )  # fmt: skip


def _equations(layer: Any) -> dict[str, str]:
    """Return the equations of the memory cell and of the output."""
    if isinstance(layer, StringKernelRNN):
        memory = "c_{j,t} = λ c_{j,t−1} + c_{j−1,t−1} ⊙ W_j x_t"
        return {"memory cell": memory, "output": f"h_t = {layer.activation or ''}(c_{{n,t}})"}
    cell: Cell | None = getattr(layer, "cell", None)
    if cell is None:
        return {}
    return {"memory cell": memory_equation(cell), "output": output_equation(cell)}


# Baselines.

DEFAULT_C = 10.0  # of logistic regression; a support vector machine has 1
MAX_TERMS = 100_000  # the most frequent; rare pairs add little and take most of the memory
FEWEST_TERMS, MAX_COEFFICIENTS = 1_000, 1 << 25  # terms times classes: 256 MiB


def train_baselines(data: Data, *, tuned: bool = False) -> list[Baseline]:
    """Train the baselines on the words that the network reads, and predict the test texts.

    Tuned logistic regression selects its regularization on the validation texts.
    """
    objects = {name: objects.objects for name, objects in data.parts.items()}
    objects["train"], train = sampled(objects["train"], data.values["train"])
    words = {name: [data.inputs.words(text) for text in texts] for name, texts in objects.items()}
    is_regression = data.is_regression
    valid = (words["valid"], data.values["valid"]) if tuned else None
    parts = words["train"], train, words["test"]
    weights = WordWeights.of(*parts, valid, is_regression=is_regression)
    options: dict[str, Any] = {"is_regression": is_regression, "weights": weights}
    return [
        tfidf(*parts, valid, **options),
        tfidf(*parts, **options, characters=True),  # tuned, the demo's slowest
        constant_prediction(train, len(words["test"]), is_regression=is_regression),
    ]


Documents = Sequence[Sequence[str]]
Valid = tuple[Documents, Sequence[float] | NDArray[Any]]


def _class_count(targets: NDArray[Any], is_regression: bool) -> int:
    """Return how many classes targets ``(N,)`` or ``(N, K)`` have together, 1 of numbers."""
    columns = targets.reshape(len(targets), -1).T
    return 1 if is_regression else sum(len(np.unique(x[~np.isnan(x)])) for x in columns)


class WordWeights(NamedTuple):
    """TF-IDF weights ``(N, F)`` of words and pairs of words, counted once for all baselines."""

    train: Any
    valid: Any  # None without validation documents
    test: Any
    terms: int  # F at most
    seconds: float  # of counting, which belong to each baseline

    @classmethod
    def of(
        cls, train_tokens: Documents, train_values: Sequence[float] | NDArray[Any],
        test_tokens: Documents, valid: Valid | None = None, *, is_regression: bool = False,
    ) -> Self:  # fmt: skip
        """Count the words of documents; the arguments are those of `tfidf`."""
        try:
            from sklearn.feature_extraction.text import TfidfVectorizer
        except ImportError as error:
            raise MissingExtraError("the TF-IDF baseline", "scikit-learn", "train") from error
        started = time.perf_counter()
        count = _class_count(np.asarray(train_values), is_regression)
        terms = max(FEWEST_TERMS, min(MAX_TERMS, MAX_COEFFICIENTS // count))
        if count >= MANY:  # whose centroids are sparse
            terms = MAX_TERMS
        vectorizer = cast("Any", TfidfVectorizer)(
            analyzer=_words_and_pairs, max_features=terms, sublinear_tf=True, dtype=np.float32
        )
        train = vectorizer.fit_transform(train_tokens)
        documents = None if valid is None else vectorizer.transform(valid[0])
        test = vectorizer.transform(test_tokens)
        return cls(train, documents, test, terms, time.perf_counter() - started)


def tfidf(
    train_tokens: Documents, train_values: Sequence[float] | NDArray[Any],
    test_tokens: Documents, valid: Valid | None = None, *,
    is_regression: bool = False, characters: bool = False, weights: WordWeights | None = None,
) -> Baseline:  # fmt: skip
    """Train a linear model on TF-IDF weights of words and pairs of words, maybe of characters, too.

    The baseline gets the same words as the network, so that any difference is due to the model.
    ``valid`` documents select C among a tenth of the default, the default and ten times as much.
    With ``characters``, n-grams of 2 to 5 characters inside words are added, and a linear support
    vector machine with C = 1 is trained, otherwise logistic regression with C = 10; of numbers,
    ridge regression with penalty 1/C, and of very many classes, of which these take hours, the
    nearest centroid of a class. Several targets ``(N, K)``, NaN where unknown,
    have a model each. ``weights`` are those of the words, counted here if left out.
    """
    weights = weights or WordWeights.of(
        train_tokens, train_values, test_tokens, valid, is_regression=is_regression
    )
    from scipy.sparse import csr_matrix, hstack
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import normalize
    from sklearn.svm import LinearSVC

    started, truths = time.perf_counter() - weights.seconds, np.asarray(train_values)
    targets, count = truths.reshape(len(truths), -1).T, _class_count(truths, is_regression)
    train, documents, tested = weights.train, weights.valid, weights.test
    if characters:
        inside = CharacterWeights(3 * weights.terms)
        train = hstack([train, inside.fit_transform(train_tokens)]).tocsr()
        tested = hstack([tested, inside.transform(test_tokens)]).tocsr()
        if valid is not None:
            documents = hstack([documents, inside.transform(valid[0])]).tocsr()
    default = 1.0 if characters else DEFAULT_C
    candidates = (
        [default] if valid is None or count >= MANY else [default / 10, default, default * 10]
    )

    def fitted(c: float, rows: Any, values: NDArray[Any]) -> Any:
        if not is_regression and len(np.unique(values)) < 2:  # one of several, in this part
            return DummyClassifier(strategy="most_frequent").fit(rows, values)
        if is_regression:
            return Ridge(alpha=1 / c).fit(rows, values)
        if count >= MANY:
            from sklearn.neighbors import KNeighborsClassifier

            classes, numbers = np.unique(values, return_inverse=True)
            of_rows = np.ones(len(values)), (numbers, np.arange(len(values)))
            centroids = normalize(csr_matrix(of_rows) @ rows)
            with warnings.catch_warnings(action="ignore", category=UserWarning):  # many classes
                return KNeighborsClassifier(1, algorithm="brute").fit(centroids, classes)
        if characters:
            return LinearSVC(C=c, random_state=0).fit(rows, values)
        # L-BFGS takes 7 to 25 times as long on two data sets, and stops before the minimum
        return LogisticRegression(C=c, max_iter=1000, solver="newton-cg").fit(rows, values)

    predicted, selected, origin = [], 0, ""
    ranked = list[NDArray[np.float64] | None]()
    for k, target in enumerate(targets):
        labeled = np.flatnonzero(~np.isnan(target))
        values = target[labeled] if is_regression else target[labeled].astype(np.int64)
        rows = train if len(labeled) == len(target) else train[labeled]
        models, selected = [fitted(c, rows, values) for c in candidates], 0
        if valid is not None and documents is not None:
            truth = np.asarray(valid[1]).reshape(len(valid[1]), -1)[:, k]
            seen = np.flatnonzero(~np.isnan(truth))
            scores = [model.score(documents[seen], truth[seen]) for model in models]
            selected, origin = int(np.argmax(scores)), ", selected on the validation documents"
        predicted.append(models[selected].predict(tested))
        ranked.append(ranks(models[selected], tested))
    name = "linear SVM" if characters else "logistic regression"
    name = "ridge regression" if is_regression else "nearest centroid" if count >= MANY else name
    what = (
        "Words, pairs of words and 2 to 5 characters" if characters else "Words and pairs of words"
    )
    predictions = predicted[0] if truths.ndim == 1 else np.stack(predicted, axis=1)
    setting = "" if count >= MANY else f" (C = {candidates[selected]:g}{origin})"
    return Baseline(
        f"TF-IDF of words and characters + {name}" if characters else f"TF-IDF + {name}",
        f"{what}, weighted by TF-IDF, through {name}{setting}.",
        predictions.astype(np.float64 if is_regression else np.int64),
        time.perf_counter() - started,
        ranked,
    )


def _words_and_pairs(tokens: Sequence[str]) -> list[str]:
    return [*tokens, *map(" ".join, pairwise(tokens))]


class CharacterWeights:
    """TF-IDF weights of 2 to 5 characters inside words, counted once for each distinct word.

    To the last bit those of scikit-learn's ``TfidfVectorizer(analyzer="char_wb")``, which cuts
    every occurrence of a word: the counts of documents are those of words times those in words.

    Args:
        most: n-grams that are kept, the most frequent.
    """

    def __init__(self, most: int) -> None:
        from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

        self.most = most
        self.counter = partial(cast("Any", CountVectorizer), dtype=np.float32, lowercase=False)
        self.inside = self.counter(analyzer="char_wb", ngram_range=(2, 5))
        self.weights = cast("Any", TfidfTransformer)(sublinear_tf=True)

    def _counted(self, documents: Documents) -> tuple[Any, Sequence[str]]:
        """Return how often each document has each word ``(N, W)``, and the words."""
        split = [" ".join(document).split() for document in documents]
        words = sorted({word for document in split for word in document}) or [""]
        counts = self.counter(analyzer=lambda document: document, vocabulary=words)
        return counts.transform(split), words

    def fit_transform(self, documents: Documents) -> Any:
        """Select n-grams, and return the weights of the documents ``(N, F)``."""
        counts, words = self._counted(documents)
        counts = counts @ self.inside.fit_transform(words)
        totals = np.asarray(counts.sum(axis=0)).ravel()
        self.kept = np.sort((-totals).argsort()[: self.most])
        return self.weights.fit_transform(self._sorted(counts[:, self.kept]))

    def transform(self, documents: Documents) -> Any:
        """Return the weights of documents ``(N, F)``."""
        counts, words = self._counted(documents)
        inside = self.inside.transform(words)[:, self.kept]
        return self.weights.transform(self._sorted(counts @ inside))

    @staticmethod
    def _sorted(counts: Any) -> Any:
        counts.sort_indices()
        return counts


def _of_labels(options: dict[str, Any], is_required: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of columns of labels, and the others, which are those of the file."""
    named = "multilabel", "separator", "target", "targets", "features"
    chosen = {name: options.get(name) for name in named[:2]} if is_required else {}
    chosen["multilabel"] = bool(chosen.get("multilabel"))
    layout = {name: value for name, value in options.items() if name not in named}
    return chosen | {"require_label": is_required}, layout


def with_cells(objects: Objects, grid: Grid, features: Sequence[str]) -> Objects:
    """Return texts with the cells of the columns next to them."""
    if not features:
        return objects
    columns = [resolve(grid, name, "features", objects.source)[0] for name in features]
    taken = {grid.columns[i] for i in columns} & {
        *requested(objects.column), *requested(objects.label_column)
    }  # fmt: skip
    if taken:
        raise ArgumentError("features", min(taken), "columns other than those of text and label")
    rows = dict(zip(grid.lines, grid.rows, strict=True))
    cells = [[name_of(rows[line][i]) for i in columns] for line in objects.lines]
    return replace(objects, objects=[*map(TextRow.of, objects.objects, cells)])


@dataclass(frozen=True)
class TextForm:
    """The table of a run, besides the options of reading."""

    multilabel: bool = False  # a text has any number of labels
    targets: tuple[str, ...] = ()  # names of several targets
    features: tuple[str, ...] = ()  # columns next to the text


class TextTask(EstimatorTask):
    """The task ``text``."""

    declared, noun, nouns = TASK, "document", "documents"
    classifier, regressor = TextClassifier, TextRegressor
    form = TextForm
    remembered: ClassVar = {"text": "the column with the texts", "label": "", "separator": ""}
    remedy = "Is this the right column? Otherwise lower min_length."

    def read(
        self, path: str | Path, *, text: str | None, label: str | None, is_regression: bool,
        require_labels: bool, groups: str | None = None, **options: Any,
    ) -> Objects:  # fmt: skip
        """Read the texts and labels of a table; see `assemble`."""
        features = options.get("features") or ()
        if require_labels and is_large(path) and not features:
            how = {"is_regression": is_regression, "require_labels": True, "groups": groups}
            return stored(path, self.blocks(path, text=text, label=label, **how, **options))
        label = (options.get("target") or label) if require_labels else None
        chosen, layout = _of_labels(options, require_labels)
        names = requested(text) + requested(label) + requested(groups) + [*features]
        grid = read_grid(path, names, **layout)
        chosen |= {"groups": groups}
        table = assemble(grid, str(Path(path)), text, label, **chosen)
        objects = with_cells(objects_of(table, (Path(path),)), grid, features)
        return objects if require_labels else replace(objects, table=grid, notes=grid.notes)

    def blocks(
        self, path: str | Path, *, text: str | None, label: str | None, is_regression: bool,
        require_labels: bool, **options: Any,
    ) -> Iterator[Objects]:  # fmt: skip
        """Yield the texts and labels of the files of a table in blocks; see `read_tables`."""
        wanted = text, (options.get("target") or label) if require_labels else None
        size = SMALL if text else DETECTION
        chosen, layout = _of_labels(options, require_labels)
        for grid, table in read_tables(path, *wanted, size=size, **chosen, **layout):
            objects = objects_of(table, (Path(table.source),))
            objects = with_cells(objects, grid, options.get("features") or ())
            yield objects if require_labels else replace(objects, table=grid, notes=grid.notes)

    def numbers(self, objects: Objects) -> bool:
        """Return True if all targets are numbers to predict."""
        return not objects.has_label_sets and all(
            are_fractions(labels) for _, labels in objects.columns
        )

    def as_trained(self, estimator: Any, form: Any) -> dict[str, Any]:
        """Return that a text has any number of labels, if it has in training."""
        has_sets = isinstance(estimator.target_, LabelSets)
        return {"multilabel": has_sets, "features": estimator.features}

    def adapted(self, estimator: Any, form: Any, objects: Objects) -> Objects:
        """Return texts with the labels of the training."""
        if objects.has_label_sets and isinstance(estimator.target_, LabelSets):
            return replace(objects, targets=tuple(map(str, estimator.target_.labels)))
        return objects if objects.targets else replace(objects, targets=form.targets)

    def _reading(self, config: Any) -> dict[str, Any]:
        features = parameters_of(config, TextClassifier)["features"]
        return super()._reading(config) | {"multilabel": config.multilabel, "features": features}

    def reason(self, estimator: Any, config: TextConfig | None, value: str) -> str:
        """Return a reason if a text has too few words, after training if it has none."""
        least = config.min_length if config else 1
        scheme = getattr(estimator, "inputs_", estimator).tokenizer
        start = value[: _ENOUGH * least]  # tells of most texts; its last word may be cut
        if len(tokenize(start, scheme)) > least:
            return ""
        return "" if len(tokenize(value, scheme)) >= least else "too short"

    def demo(self) -> Objects:
        return objects_of(code_lines())

    def baselines(self, config: TextConfig, data: Data) -> list[Baseline]:
        return train_baselines(data, tuned=config.demo)

    def describe(self, config: TextConfig, data: Data) -> Facts:
        reading, vocabulary = data.sources[0][1].reading, data.inputs.vocabulary
        texts = [text for objects in data.parts.values() for text in sampled(objects.objects)]
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
                f"{len(data.parts['train'])} lines of code to train on; in half of them, two "
                "tokens are swapped. Which ones? Only the order of the tokens tells."
            )
        return Facts(values, notes)

    def resources(self, config: TextConfig, inputs: TextInputs) -> dict[str, Any]:
        """Return the word vectors."""
        if config.vectors in STARTS:
            return {}
        return {"vectors": read_vectors(config.vectors, inputs.vocabulary, frequent=FREQUENT)}

    def describe_model(self, config: TextConfig, data: Data, estimator: Any, network: Any) -> Model:
        name = estimator.network_name
        if network is None:
            return Model(name)
        hidden = network.config.head_size
        values = {
            "cell": name,
            **_equations(network.cell),
            "head": f"mean over time → {hidden} ReLU → {network.config.num_classes}",
        }
        if config.vectors in STARTS:
            return Model(name, values, PARTS)
        words = (data.inputs.words(text) for text in sampled(data.parts["train"].objects))
        counts = Counter(word for document in words for word in document)
        coverage = (
            f"{estimator.coverage_}; {estimator.coverage_.running(counts):.1%} of running words"
        )
        notes = [f"{config.vectors}: {coverage}"]
        return Model(name, values, PARTS, {"word vectors": coverage}, notes)

    def title(self, config: TextConfig, data: Data) -> str:
        main = data.sources[0][1]
        text, label = str(main.reading["text"]), main.reading["label"]
        if config.demo:
            return (
                f"{main.source[:1].upper()}{main.source[1:]}: original, or with two tokens swapped"
            )
        if not main.reading["header"]:
            text, label = f"column {text.replace(',', ' and ')}", f"column {label}"
        return f"{Path(main.source).name}: {label} from {text}"

    def networks(self, config: TextConfig) -> dict[str, TextConfig]:
        if not config.demo or config.answer == KERNEL:
            return {"": config}
        out = str(Path(config.out or "") / BESIDE)
        beside = replace(config, cell=BESIDE, answer=NETWORK, out=out)
        return {config.cell: config, beside.cell: beside}

    def closing(self, run: RunFolder, trained: Trained) -> str:
        """Return the explanation of the demo's first swapped test line."""
        test = trained.data.parts["test"]
        if not trained.config.demo:
            return ""
        first = test.subset([list(test.labels).index(SWAPPED)])
        try:
            (entry,) = self.entries(run.path, trained.estimator, first, TOP)
        except KindError as error:
            return f"No explanation: {error}"
        total = sum(word["contribution"] for word in entry["by_place"]) + entry["constant"]
        explained = use.as_text(entry, styled=False).splitlines()[1:]
        decimals = len(explained[-1].split()[1].partition(".")[2])  # of the score
        return "\n".join(
            [
                "\nThe first test line with two swapped tokens:\n",
                f"  {' '.join(entry['words'])}\n",
                f"The prediction is {entry['prediction']}, by these words and their exact "
                "contributions:\n",
                *explained,
                f"\nThe contributions and the constant sum to {total:+.{decimals}f}.\n",
            ]
        )


FLOW = TextTask()
