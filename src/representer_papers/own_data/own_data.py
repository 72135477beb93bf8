"""Every data set compared with the defaults of ``fit``, and the table of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from representer.errors import DataError
from representer.estimators.explanation import BOTH, KERNEL, NETWORK
from representer.printable import say
from representer.report.standing import AHEAD, BEHIND
from representer.tasks.comparison import Comparison, finished, run_missing
from representer.tasks.comparison_statistics import Interval
from representer.tasks.comparison_table import Row, Table
from representer.tasks.recipe import Request
from representer_papers.own_data import KINDS, RECIPES
from representer_papers.own_data.before import BEFORE
from representer_papers.own_data.sets import comparison
from representer_papers.shared.datasets import MissingError, wanted
from representer_papers.shared.table import table_head, table_row, write_page

_TITLE = "Kernel, network and both on data as a user brings it"
_ABOUT = (
    "",
    "Everything has its defaults, and no option was set for a set. The defaults were chosen with",
    "some of these sets in view ([log](../log.md)): those of the network for texts with AG News,",
    "Yahoo! Answers and SST, those of signals with mental arithmetic and the stimulus condition.",
    "There the differences favor `both`. A cell is the mean over the splits",
    "of the test accuracy in %, the RMSE in the unit of the target or the perplexity, with the",
    "half-width of its 95 % interval. *Network before* has the default options of version 0.1.0;",
    "*=* marks sets where these are the present ones; networks of molecules then had a Gaussian",
    "process on their last layers. The last columns are paired differences",
    "with their 95 % intervals: `both` minus the best simple baseline, and `both` minus the best",
    "of the other columns. Of RMSE and perplexity, negative differences favor `both`. Texts have",
    "a test file, and their splits differ in seed and validation part; graphs have the first",
    "folds of their files; molecules have random splits of 80, 10 and 10 %; of signals, five",
    "groups of subjects are left out in turn; the text has a test part, and its splits differ in",
    "their seed. The intervals are those of `representer compare`.",
)
_COLUMNS = (KERNEL, BEFORE, NETWORK, BOTH)
_HEADS = ("best simple baseline", *_COLUMNS, "both − baseline", "both − best other", "splits")
_NAMES = {"text": "Texts", "graph": "Graphs", "molecule": "Molecules", "signal": "Signals",
          "language": "Language"}  # fmt: skip


def reproduce(request: Request) -> Path:
    """Run what is missing in ``OUT/DATASET``, and write the table of what is finished."""
    known = {name: name for name in RECIPES["own-data"].datasets}
    tables: dict[str, Table] = {}
    absent = []
    for name in wanted(request.data, request.datasets, known):
        try:
            own = comparison(name, request)
        except MissingError as error:
            absent.append(name)
            say(f"{name} is skipped: {error}")
            continue
        tables[name] = _table(own, request.out / name, request)
    if not tables:
        fix = "Pass --data DIR, or set REPRESENTER_DATA."
        raise DataError(f"there are no files of {', '.join(absent)}", file=request.data, fix=fix)
    return write_page(request, _TITLE, _ABOUT, _lines(tables, absent))


def _table(own: Comparison, folder: Path, request: Request) -> Table:
    if not request.table_only:
        print(f"{own.title}:", flush=True)
        run_missing(own, folder)
    return Table.of(own, finished(own, folder))


def _lines(tables: Mapping[str, Table], absent: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for kind, titles in KINDS.items():
        shown = {name: tables[name] for name in titles if name in tables and tables[name].rows}
        if not shown:
            continue
        heads = (
            "best simple baseline",
            *_COLUMNS,
            "both − baseline",
            "both − best other",
            "splits",
        )
        lines += ["", f"## {_NAMES[kind]}", "", *table_head("", *heads)]
        lines += [table_row(*_cells(titles[name], table)) for name, table in shown.items()]
        lines += _summary(kind, shown)
    names = [name for name in RECIPES["own-data"].datasets if name not in absent]
    not_run = [name for name in names if name in tables and not tables[name].rows]
    not_run += [name for name in names if name not in tables]
    for what, of_them in (("not run", not_run), ("missing in the folder of the data", absent)):
        lines += ["", f"Data sets that are {what}: {', '.join(of_them)}."] if of_them else []
    return lines


def _cells(title: str, table: Table) -> list[str]:
    rows = {row.name: row for row in table.rows}
    baseline = table.baseline
    figures = [f"{baseline.name}: {_figure(table, baseline)}" if baseline else "–"]
    for name in _COLUMNS:
        is_same = name == BEFORE and name not in rows and NETWORK in rows
        figures.append("=" if is_same else _figure(table, rows.get(name)))
    differences = ["–", "–"]
    if (both := rows.get(BOTH)) is not None:
        others = [row for row in table.rows if row.name != BOTH]
        pairs = (baseline, others[0] if others else None)
        differences = ["–" if one is None else table.signed(table.difference(both, one))
                       for one in pairs]  # fmt: skip
    splits = sorted({row.splits for row in table.rows})
    return [title, *figures, *differences, " to ".join(map(str, splits))]


def _figure(table: Table, row: Row | None) -> str:
    if row is None:
        return "not run"
    mean, digits = row.score.mean, table.metric.digits
    half = max(row.score.high - mean, mean - row.score.low)  # one of them ends at the best score
    return f"{mean:.{digits}f}" + ("" if np.isnan(half) else f" ± {half:.{digits}f}")


def _summary(kind: str, tables: Mapping[str, Table]) -> list[str]:
    """Return sentences that count the sets, and the mean difference of accuracies."""
    to_baseline: list[tuple[Table, Interval]] = []
    behind = []
    for name, table in tables.items():
        rows = {row.name: row for row in table.rows}
        if BOTH not in rows or table.baseline is None:
            continue
        to_baseline.append((table, table.difference(rows[BOTH], table.baseline)))
        best = next(row for row in table.rows if row.name != BOTH)
        if table.relation(table.difference(rows[BOTH], best)) == BEHIND:
            behind.append(KINDS[kind][name])
    if not to_baseline:
        return []
    above = sum(table.relation(difference) == AHEAD for table, difference in to_baseline)
    sentence = (
        f"The interval of `both` minus the best simple baseline excludes 0 in favor of `both` on "
        f"{above} of {len(to_baseline)} sets. "
    )
    if all(table.metric.name == "accuracy" for table, _ in to_baseline):
        mean = float(np.mean([difference.mean for _, difference in to_baseline]))
        sentence += f"The mean difference is {mean:+.2f} points. "
    listed = f"on {', '.join(behind)}" if behind else "on none of them"
    return [
        "",
        f"{sentence}The interval to the best other column excludes 0 against `both` {listed}.",
    ]
