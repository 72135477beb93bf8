"""Public data sets as a user's own: kernel, network and both with the defaults of `fit`.

python benchmarks/own_data.py --data DIR --out runs/own-data --seeds 0,1,2,3,4

With ``--vectors FILE`` the sets of texts are compared with pretrained vectors of words, too; with
``--train`` and ``--test``, on a random part of them.

The comparisons are those of `representer compare`; what is finished in the output folder is kept,
and the command can be repeated until the table is complete.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.text import read_labeled_lines
from representer.errors import DataError, say
from representer.estimators.explanation import BOTH, KERNEL, NETWORK
from representer.estimators.graph_inputs import PlainGraph
from representer.options.graph import GraphConfig
from representer.options.language import LanguageConfig
from representer.options.molecule import MoleculeConfig
from representer.options.signal import SignalConfig
from representer.options.text import TextConfig
from representer.report.summary import AHEAD, BEHIND
from representer.storage import atomic
from representer.tasks.comparison import (
    BASELINES,
    RESULTS,
    SETTINGS,
    Comparison,
    ComparisonRow,
    ComparisonTable,
    finished,
    run_missing,
)
from representer.tasks.flow import EstimatorComparison
from representer.tasks.graph import FLOW as GRAPH_FLOW
from representer.tasks.language import FLOW as LANGUAGE_FLOW
from representer.tasks.molecule import FLOW as MOLECULE_FLOW
from representer.tasks.objects import Objects
from representer.tasks.recipe import Request
from representer.tasks.signal.data import windows_to_fit
from representer.tasks.signal.flow import FLOW as SIGNAL_FLOW
from representer.tasks.signal.flow import SignalComparison
from representer.tasks.text import FLOW as TEXT_FLOW
from representer.tasks.text import objects_of
from representer.training.config import plain
from representer_papers.rkm2019 import documents
from representer_papers.rkm2019.lfp import SIGNAL_SETS
from representer_papers.shared.datasets import MissingError, existing, missing, wanted
from representer_papers.shared.tables import table_head, table_row, write_page
from representer_papers.string_graph2017 import graph_sets, sentiment

# By task: the name of each set on the command line, and its title in the table.
SETS: dict[str, dict[str, str]] = {
    "Texts": {
        "ag-news": "AG News, subset", "dbpedia": "DBpedia, subset", "yelp": "Yelp, five stars",
        "yahoo": "Yahoo! Answers, two topics", "sst-fine": "SST, five classes",
        "sst-binary": "SST, two classes",
    },
    "Graphs": {
        name.lower(): name for name in ("MUTAG", "NCI1", "NCI109", "PROTEINS", "IMDB-BINARY")
    },
    "Molecules": {"esol": "ESOL", "freesolv": "FreeSolv", "qm8": "QM8, E1-CC2"},
    "Signals": {
        "arithmetic": "EEG, mental arithmetic", "alcoholism": "EEG, alcoholism",
        "condition": "EEG, stimulus condition",
    },
    "Language": {"ptb": "Penn Treebank, 1.5m parameters"},
}  # fmt: skip
SETS["Texts with vectors"] = {f"{k}-vectors": title for k, title in SETS["Texts"].items()}
TITLES = {name: title for titles in SETS.values() for name, title in titles.items()}
TARGETS = {
    "esol": ("delaney-processed.csv", "measured log solubility in mols per litre"),
    "freesolv": ("freesolv.csv", "freesolv"),
    "qm8": ("qm8.csv", "E1-CC2"),
}
SMALL = 128  # units with which a language model of 10,000 words has 1.5 million parameters
# Every subject has one class, which standardizing by subject would remove.
SIGNAL_OPTIONS = {"alcoholism": {"standardize": "window"}}
# Tiny sizes that check the setup.
SMOKE, SMOKE_SIZES = 60, {"epochs": 1, "hidden_size": 8, "embedding_size": 8, "members": 1}
ABOUT = (
    "",
    "Everything has its defaults, and no option was set for a set. The defaults were chosen with",
    "some of these sets in view ([log](../log.md)): those of the network for texts with AG News,",
    "Yahoo! Answers and SST, those of signals with mental arithmetic and the stimulus condition.",
    "There the differences favor `both`. A cell is the mean over the splits",
    "of the test accuracy in %, the RMSE in the unit of the target or the perplexity, with the",
    "half-width of its 95 % interval. The last columns are paired differences",
    "with their 95 % intervals: `both` minus the best simple baseline, and `both` minus the best",
    "of the other columns. Of RMSE and perplexity, negative differences favor `both`. Texts have",
    "a test file, and their splits differ in seed and validation part; graphs have the first",
    "folds of their files; molecules have random splits of 80, 10 and 10 %; of signals, five",
    "groups of subjects are left out in turn; the text has a test part, and its splits differ in",
    "their seed. The intervals are those of `representer compare`. Seconds are the median time of",
    "fitting `both`, of kernel and network.",
)
COLUMNS = (KERNEL, NETWORK, BOTH)
HEADS = ("best simple baseline", *COLUMNS, "both − baseline", "both − best other", "splits",
         "seconds")  # fmt: skip


@dataclass(frozen=True)
class OwnRequest(Request):
    """A request with the largest numbers of texts; 0 for all.

    Attributes:
        train: Training texts, drawn at random.
        test: Test texts, drawn at random.
    """

    train: int = 0
    test: int = 0


def comparison(name: str, request: Request) -> Comparison:
    """Return the comparison of a data set.

    Raises:
        MissingError: Its files are missing.
        DataError: They are invalid.
    """
    root, threads = request.data, request.threads
    if name in SETS["Signals"]:
        recordings = SIGNAL_SETS[name].recordings(root, smoke=request.smoke)
        config = SignalConfig(threads=threads or 1, **SIGNAL_OPTIONS.get(name, {}))
        return SignalComparison(
            flow=SIGNAL_FLOW, config=_sized(config, request),
            sources={"all": windows_to_fit(recordings, config, name)}, splits=request.seeds,
        )  # fmt: skip
    if name in SETS["Language"]:
        if not (root / name).is_dir():
            raise missing(f"folder {name} with train, valid and test files", root)
        language = LanguageConfig(data=str(root / name), hidden_size=SMALL, threads=threads)
        return LANGUAGE_FLOW.comparison(_sized(language, request), splits=request.seeds)
    folds: tuple[int, ...] = ()
    if name in SETS["Graphs"]:
        flow, config = GRAPH_FLOW, GraphConfig()
        sources, folds = graph_objects(TITLES[name], root)
    elif name in TARGETS:
        file, target = TARGETS[name]
        path = existing(root, ("molecules", ""), (file,))
        if path is None:
            raise missing(f"molecules/{file}", root)
        config = MoleculeConfig(data=str(path), target=target, smiles="smiles")
        flow, sources = MOLECULE_FLOW, MOLECULE_FLOW.sources(config)
    else:
        plain_name = name.removesuffix("-vectors")
        flow, (config, sources) = TEXT_FLOW, text_sources(plain_name, root)
        if name != plain_name:
            if request.vectors is None:
                raise missing("vectors of words, see --vectors", root)
            config = replace(config, vectors=request.vectors)
        most = {"all": getattr(request, "train", 0), "test": getattr(request, "test", 0)}
        sources = {part: _drawn(one, most.get(part, 0)) for part, one in sources.items()}
    if request.smoke:
        sources = {part: _first(objects) for part, objects in sources.items()}
        folds = ()  # some would be without a test graph
    config = _sized(replace(config, threads=threads), request)
    return EstimatorComparison(
        flow=flow, config=config, sources=sources, folds=folds, splits=request.seeds
    )


def text_sources(name: str, root: Path) -> tuple[TextConfig, dict[str, Objects]]:
    if name.startswith("sst-"):
        (treebank,) = sentiment.locate_treebank(root, [f"{name.removeprefix('sst-')}-roots"])
        labels = treebank.dataset.labels
        paths = {"all": treebank.train, "valid": treebank.valid, "test": treebank.test}
        read = {n: objects_of(read_labeled_lines(p, labels), (p,)) for n, p in paths.items()}
        return TextConfig(), read
    (files,) = documents.locate_documents(root, [name.replace("-", "_")])
    config = TextConfig(
        data=str(files.train), test=str(files.test), text=files.text, label="1", header=False
    )
    return config, TEXT_FLOW.sources(config)


def graph_objects(folder: str, root: Path) -> tuple[dict[str, Objects], tuple[int, ...]]:
    """Return the graphs of a TU set, and the fold of each.

    Raises:
        MissingError: Its files are missing.
        DataError: They are invalid.
    """
    path = existing(root, ("tu", ""), (f"{folder}/{folder}.txt",))
    if path is None:
        raise missing(f"tu/{folder}/{folder}.txt", root)
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
    return {"all": objects}, tuple(folds.tolist())


def _sized(config: Any, request: Request) -> Any:
    """Return the options, with tiny sizes for a smoke run."""
    sizes = SMOKE_SIZES if request.smoke else {}
    return replace(config, **{k: v for k, v in sizes.items() if k in vars(config)})


def _drawn(objects: Objects, count: int) -> Objects:
    """Return some objects, drawn at random; all of them for 0."""
    if not 0 < count < len(objects):
        return objects
    rows = np.random.default_rng(0).permutation(len(objects))[:count]
    drawn = objects.subset(sorted(rows.tolist()))
    return replace(drawn, files=())  # the digest is then that of the objects


def _first(objects: Objects) -> Objects:
    """Return the first objects of each class, or the first ones if labels are numbers."""
    rows: dict[Any, list[int]] = {}
    for i, label in enumerate(objects.labels):
        rows.setdefault(label, []).append(i)
    if len(rows) > SMOKE:
        return objects.subset(range(SMOKE))
    return objects.subset(sorted(i for of_label in rows.values() for i in of_label[: SMOKE // 4]))


def reproduce(request: Request) -> Path:
    """Run what is missing in ``OUT/DATASET``, and write the table of what is finished."""
    tables: dict[str, ComparisonTable] = {}
    absent = []
    for name in wanted(request.data, request.datasets, {name: name for name in TITLES}):
        try:
            compared = comparison(name, request)
        except MissingError as error:
            absent.append(name)
            say(f"{name} is skipped: {error}")
            continue
        folder = request.out / name
        if name.endswith("-vectors"):
            _share_baselines(request.out / name.removesuffix("-vectors"), folder, compared)
        if not request.table_only:
            print(f"{compared.title}:", flush=True)
            run_missing(compared, folder)
        tables[name] = ComparisonTable.of(compared, finished(compared, folder))
    if not tables:
        raise DataError(f"there are no files of {', '.join(absent)}", file=request.data)
    title = "Kernel, network and both on data as a user brings it"
    return write_page(request, title, ABOUT, _lines(tables, absent))


def _share_baselines(source: Path, folder: Path, compared: Comparison) -> None:
    """Copy the finished baselines of a set, which know nothing of vectors, to another folder."""
    if not (source / RESULTS).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / SETTINGS).exists():
        atomic.write_json(folder / SETTINGS, plain(compared.settings))
    path, splits = folder / RESULTS, {*compared.splits}
    before = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in (source / RESULTS).read_text("utf-8").splitlines():
        unit = json.loads(line)
        if unit["name"] == BASELINES and unit["split"] in splits and line not in before:
            atomic.append(path, f"{line}\n".encode())


def _lines(tables: Mapping[str, ComparisonTable], absent: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for heading, titles in SETS.items():
        shown = {titles[n]: tables[n] for n in titles if n in tables and tables[n].rows}
        if shown:
            lines += ["", f"## {heading}", "", *table_head("", *HEADS)]
            lines += [table_row(*cells(title, table)) for title, table in shown.items()]
            lines += summary(shown)
    not_run = [n for n in TITLES if n in tables and not tables[n].rows]
    not_run += [n for n in TITLES if n not in absent and n not in tables]
    for what, names in (("not run", not_run), ("missing in the folder of the data", absent)):
        lines += ["", f"Data sets that are {what}: {', '.join(names)}."] if names else []
    return lines


def cells(title: str, table: ComparisonTable) -> list[str]:
    rows = {row.name: row for row in table.rows}
    baseline = table.baseline
    figures = [f"{baseline.name}: {_figure(table, baseline)}" if baseline else "–"]
    figures += [_figure(table, rows.get(name)) for name in COLUMNS]
    differences = ["–", "–"]
    if (both := rows.get(BOTH)) is not None:
        pairs = (baseline, next((row for row in table.rows if row.name != BOTH), None))
        differences = [
            "–" if row is None else table.signed(table.difference(both, row)) for row in pairs
        ]
    splits = sorted({row.splits for row in table.rows})
    seconds = "–" if both is None else f"{both.seconds:.0f}"
    return [title, *figures, *differences, " to ".join(map(str, splits)), seconds]


def _figure(table: ComparisonTable, row: ComparisonRow | None) -> str:
    if row is None:
        return "not run"
    mean, digits = row.score.mean, table.metric.digits
    half = max(row.score.high - mean, mean - row.score.low)  # one of them ends at the best score
    return f"{mean:.{digits}f}" + ("" if np.isnan(half) else f" ± {half:.{digits}f}")


def summary(tables: Mapping[str, ComparisonTable]) -> list[str]:
    """Return sentences that count the sets by title, and the mean difference of accuracies."""
    above, means, behind = 0, [], []
    for title, table in tables.items():
        rows = {row.name: row for row in table.rows}
        if BOTH not in rows or table.baseline is None:
            continue
        difference = table.difference(rows[BOTH], table.baseline)
        above += table.relation(difference) == AHEAD
        means.append(difference.mean)
        best = next(row for row in table.rows if row.name != BOTH)
        if table.relation(table.difference(rows[BOTH], best)) == BEHIND:
            behind.append(title)
    if not means:
        return []
    sentence = (
        f"The interval of `both` minus the best simple baseline excludes 0 in favor of `both` on "
        f"{above} of {len(means)} sets. "
    )
    if all(table.metric.name == "accuracy" for table in tables.values()):
        sentence += f"The mean difference is {float(np.mean(means)):+.2f} points. "
    listed = f"on {', '.join(behind)}" if behind else "on none of them"
    return [
        "",
        f"{sentence}The interval to the best other column excludes 0 against `both` {listed}.",
    ]


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Compare the defaults of fit on public data.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs and table.md")
    parser.add_argument("--datasets", default="", help=f"some of {','.join(TITLES)}")
    parser.add_argument("--seeds", default="0,1,2,3,4", help="splits, separated by commas")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--vectors", help="file of pretrained vectors of words")
    parser.add_argument("--train", type=int, default=0, help="most training texts; 0: all")
    parser.add_argument("--test", type=int, default=0, help="most test texts; 0: all")
    parser.add_argument("--smoke", action="store_true", help="tiny models that check the setup")
    parser.add_argument("--table-only", action="store_true", help="write the table, run nothing")
    options = vars(parser.parse_args(words))
    options["seeds"] = tuple(map(int, options["seeds"].split(",")))
    options["datasets"] = tuple(filter(None, options["datasets"].split(",")))
    command = f"python benchmarks/own_data.py {shlex.join(words)}"
    print(reproduce(OwnRequest(**options, command=command)))


if __name__ == "__main__":
    main(sys.argv[1:])
