"""The comparisons of the data sets: reader, splits and options of ``fit``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from representer.data.text import read_labeled_lines
from representer.estimators.fitting import epochs_for
from representer.estimators.graph_reading import PlainGraph
from representer.tasks.comparison import Comparison
from representer.tasks.estimator_comparison import EstimatorComparison
from representer.tasks.estimator_objects import Objects
from representer.tasks.estimator_task import EstimatorTask
from representer.tasks.graph.graph_flow import FLOW as GRAPH_FLOW
from representer.tasks.graph.graph_task import GraphConfig
from representer.tasks.language.language_comparison import LanguageComparison
from representer.tasks.language.language_task import LanguageConfig
from representer.tasks.molecule.molecule_flow import FLOW as MOLECULE_FLOW
from representer.tasks.molecule.molecule_task import MoleculeConfig
from representer.tasks.recipe import Request
from representer.tasks.signal.signal_comparison import SignalComparison
from representer.tasks.signal.signal_data import SignalData, digest_of
from representer.tasks.signal.signal_task import SignalConfig
from representer.tasks.text.text_flow import FLOW as TEXT_FLOW
from representer.tasks.text.text_flow import objects_of
from representer.tasks.text.text_task import TextConfig
from representer_papers.own_data import GRAPHS, LANGUAGE, MOLECULES, SIGNALS, TEXTS
from representer_papers.own_data.before import BEFORE, OPTIONS
from representer_papers.rkm2019 import datasets as documents
from representer_papers.rkm2019.lfp_sets import SIGNAL_SETS
from representer_papers.shared.datasets import existing, missing
from representer_papers.string_graph2017 import graph_sets, treebank

# Tiny sizes that check the setup.
_SMOKE, _SMOKE_SIZES = 60, {"epochs": 1, "hidden_size": 8, "embedding_size": 8, "members": 1}
_SMALL = 128  # units with which a language model of 10,000 words has 1.5 million parameters
# Every subject has one class, which standardizing by subject would remove.
_SIGNAL_OPTIONS = {"alcoholism": {"standardize": "window"}}
_SOLUBILITY = "measured log solubility in mols per litre"
_TARGETS = {
    "esol": ("delaney-processed.csv", _SOLUBILITY),
    "freesolv": ("freesolv.csv", "freesolv"),
    "qm8": ("qm8.csv", "E1-CC2"),
}


def comparison(name: str, request: Request) -> Comparison:
    """Return the comparison of a data set.

    Raises:
        MissingError: Its files are missing.
        DataError: They are invalid.
    """
    kinds: tuple[tuple[Mapping[str, str], Callable[..., Comparison]], ...] = (
        (TEXTS, _text), (GRAPHS, _graph), (MOLECULES, _molecule), (SIGNALS, _signal),
        (LANGUAGE, _language),
    )  # fmt: skip
    return next(read for names, read in kinds if name in names)(name, request)


def _text(name: str, request: Request) -> Comparison:
    if name.startswith("sst-"):
        (place,) = treebank.locate(request.data, [f"{name.removeprefix('sst-')}-roots"])
        paths = {"all": place.train, "valid": place.valid, "test": place.test}
        sources = {
            part: objects_of(read_labeled_lines(path, place.dataset.labels), (path,))
            for part, path in paths.items()
        }
        return _compared(TEXT_FLOW, TextConfig(), request, sources)
    (found,) = documents.locate(request.data, [name.replace("-", "_")])
    config = TextConfig(
        data=str(found.train), test=str(found.test), text=found.text, label="1", header=False
    )
    return _compared(TEXT_FLOW, config, request)


def _graph(name: str, request: Request) -> Comparison:
    folder = GRAPHS[name]
    path = existing(request.data, ("tu", ""), (f"{folder}/{folder}.txt",))
    if path is None:
        raise missing(f"tu/{folder}/{folder}.txt", request.data)
    read = [*graph_sets.read_graphs(path)]
    has_labels = len({tag for tags, _, _ in read for tag in tags.tolist()}) > 1
    graphs = [
        PlainGraph(
            row, len(tags), edges.numpy(), tuple(tags.tolist()) if has_labels else None, None
        )
        for row, (tags, edges, _) in enumerate(read)
    ]
    labels = [str(label) for _, _, label in read]
    objects = Objects(folder, str(path), graphs, labels, range(1, len(read) + 1), (path,))
    folds = graph_sets.read_folds(path.parent / "fold.txt", len(read)) - 1
    return _compared(
        GRAPH_FLOW, GraphConfig(), request, {"all": objects}, folds=tuple(folds.tolist())
    )


def _molecule(name: str, request: Request) -> Comparison:
    file, target = _TARGETS[name]
    path = existing(request.data, ("molecules", ""), (file,))
    if path is None:
        raise missing(f"molecules/{file}", request.data)
    config = MoleculeConfig(data=str(path), target=target, smiles="smiles")
    return _compared(MOLECULE_FLOW, config, request)


def _signal(name: str, request: Request) -> Comparison:
    read = SIGNAL_SETS[name].recordings(request.data, smoke=request.smoke)
    config = SignalConfig(threads=request.threads or 1, **_SIGNAL_OPTIONS.get(name, {}))
    config, variants = _options("signal", config, request, len(read))
    data = SignalData(read, digest_of(read), name)
    return SignalComparison(config=config, data=data, splits=request.seeds, variants=variants)


def _language(name: str, request: Request) -> Comparison:
    folder = request.data / name
    if not folder.is_dir():
        raise missing(f"folder {name} with train, valid and test files", request.data)
    config = LanguageConfig(data=str(folder), hidden_size=_SMALL, threads=request.threads)
    config, variants = _options("language", config, request, 0)
    return LanguageComparison(config=config, splits=request.seeds, variants=variants)


def _compared(
    flow: EstimatorTask,
    config: Any,
    request: Request,
    sources: dict[str, Objects] | None = None,
    folds: tuple[int, ...] = (),
) -> Comparison:
    config = replace(config, threads=request.threads)
    sources = flow.sources(config) if sources is None else sources
    if request.smoke:
        sources = {part: _first(objects) for part, objects in sources.items()}
        folds = ()  # some would be without a test graph
    config, variants = _options(flow.name, config, request, len(sources["all"]))
    return EstimatorComparison(
        flow=flow, config=config, sources=sources, folds=folds, splits=request.seeds,
        variants=variants,
    )  # fmt: skip


def _options(
    kind: str, config: Any, request: Request, count: int
) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Return the options of a request, and those of the network before if they differ.

    Args:
        kind: The task.
        config: Options for the whole budget.
        request: The request.
        count: Number of training examples.
    """
    before = OPTIONS[kind]
    if request.smoke:
        config, before = with_options(config, _SMOKE_SIZES), before | _SMOKE_SIZES
    config = with_options(config, _shortened(vars(config), request.budget, count))
    before = before | _shortened(before, request.budget, count)
    known = vars(config)
    changed = {k: v for k, v in before.items() if k in known and known[k] != v}
    return config, {BEFORE: changed} if changed else {}


def with_options(config: Any, options: Mapping[str, Any]) -> Any:
    """Return options of ``fit`` with those of some values that they have."""
    return replace(config, **{name: own for name, own in options.items() if name in vars(config)})


def _shortened(options: Mapping[str, Any], budget: float, count: int) -> dict[str, int]:
    """Return the number of epochs of a budget; none for the whole budget.

    Args:
        options: Those of the network.
        budget: Fraction of the epochs.
        count: Number of training examples.
    """
    if budget == 1:
        return {}
    epochs = options["epochs"] or epochs_for(-(-count // (options["batch_size"] or 32)))
    return {"epochs": max(1, round(budget * epochs))}


def _first(objects: Objects) -> Objects:
    """Return the first objects of each class, or the first ones if labels are numbers."""
    places: dict[Any, list[int]] = {}
    for i, label in enumerate(objects.labels):
        places.setdefault(label, []).append(i)
    if len(places) > _SMOKE:
        return objects.subset(range(_SMOKE))
    return objects.subset(sorted(i for own in places.values() for i in own[: _SMOKE // 4]))
