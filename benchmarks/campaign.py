"""The fault campaign: every suite of `faults`, and the page of what was tried and what held.

    python benchmarks/campaign.py --out docs/results/reliability.md

A suite that ends appends its line to ``--record``, and the page is made of the newest line of each
suite. A case that was tried is not tried again when the command is started again with the same seed
on the same commit; a case that ends its process counts as failed and the others go on. One case
again, and the page alone:

    python benchmarks/campaign.py --only SUITE --case NAME
    python benchmarks/campaign.py --only --out docs/results/reliability.md
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from faults import Case, Suite, Unavailable, suites
from machine import cores
from report import publish, table
from representer import __version__, machine
from representer_papers.shared.tables import Line, read_lines

STARTED, PASSED, FAILED, UNAVAILABLE = "started", "passed", "failed", "not available"
RECIPE, RECORD = "reliability", Path("docs/results/reliability.jsonl")
REASON = 300  # characters of a reason on the page
ABOUT = """\
Made by `python benchmarks/campaign.py --only --out docs/results/reliability.md` from the newest
line of each suite in `docs/results/reliability.jsonl`; no number was typed. Each case is drawn from
the seed: one fault, then a check that fails if anything was lost, changed or wrongly accepted. *Not
available* means that the machine cannot produce this fault; the reason stands below."""

Row = Mapping[str, Any]  # group, case, outcome, reason and seconds of a case


def main() -> int:
    """Run the suites, append their lines and write the page; return 1 if a case failed."""
    parser = argparse.ArgumentParser(description="Try faults and count what held.")
    parser.add_argument("--out", type=Path, help="page to write, of all lines")
    parser.add_argument("--record", type=Path, default=RECORD, help="receives a line of each suite")
    parser.add_argument("--work", type=Path, default=Path("runs/campaign"), help="what was done")
    parser.add_argument(
        "--only", nargs="*", default=sorted(suites()), help="suites; none: the page"
    )
    parser.add_argument("--case", help="the case to try again, of one suite, in this process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the cases, in (0, 1]")
    parser.add_argument("--workers", type=int, default=2, help="suites at a time")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.only) - set(suites()))
    if unknown:
        parser.error(f"--only must name suites of {', '.join(suites())}; got {', '.join(unknown)}")
    commit = commit_of()
    folder = chosen.work / f"seed-{chosen.seed}-share-{chosen.share:g}-{commit}"
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.case is not None or chosen.inside:
        for name in chosen.only:
            run(suites()[name], folder / f"{name}.jsonl", chosen.seed, chosen.share, chosen.case)
        return 0

    def whole(name: str) -> list[Row]:
        apart(name, folder, chosen.work, chosen.seed, chosen.share)
        rows = outcomes(folder / f"{name}.jsonl")
        write(chosen.record, line_of(name, rows, chosen, commit))
        return rows

    with ThreadPoolExecutor(chosen.workers) as pool:
        failed = [row for rows in pool.map(whole, chosen.only) for row in rows
                  if row["outcome"] == FAILED]  # fmt: skip
    if chosen.out is not None:
        publish(page_of(read_lines(chosen.record).values()), chosen.out)
    print(*(f"{row['group']}: {row['case']}: {row['reason']}" for row in failed), sep="\n")
    return int(bool(failed))


def apart(name: str, folder: Path, work: Path, seed: int, share: float) -> None:
    """Run a suite in a process of its own, again after each case that ends the process."""
    rows = folder / f"{name}.jsonl"
    command = [sys.executable, __file__, "--inside", "--only", name, "--work", str(work)]
    command += ["--seed", str(seed), "--share", str(share)]
    while (status := subprocess.run(command, check=False).returncode) != 0:
        unfinished = [row for row in outcomes(rows) if row["outcome"] == STARTED]
        if not unfinished:
            raise SystemExit(f"the suite {name} ended with status {status} outside of its cases")
        write(rows, {**unfinished[-1], "outcome": FAILED, "reason": f"ended by status {status}"})


def run(suite: Suite, rows: Path, seed: int, share: float, only: str | None = None) -> None:
    """Run the cases of a suite that have no outcome yet, or one case."""
    done = {row["case"] for row in outcomes(rows) if row["outcome"] != STARTED}
    is_ready = False
    for case in suite.cases(seed, share):
        if case.name in done if only is None else case.name != only:
            continue
        if not is_ready:
            suite.setup()
            is_ready = True
        row = {"group": case.group, "case": case.name, "outcome": STARTED, "reason": ""}
        write(rows, {**row, "seconds": 0.0})
        start = time.monotonic()
        outcome, reason = tried(case)
        seconds = round(time.monotonic() - start, 3)
        write(rows, {**row, "outcome": outcome, "reason": reason, "seconds": seconds})


def tried(case: Case) -> tuple[str, str]:
    """Run a case; return its outcome and the reason if it did not pass."""
    try:
        case.run()
    except Unavailable as error:
        return UNAVAILABLE, str(error)
    except Exception as error:
        traceback.print_exc()
        return FAILED, f"{type(error).__name__}: {error}"
    return PASSED, ""


def write(rows: Path, row: Row) -> None:
    """Append a row."""
    rows.parent.mkdir(parents=True, exist_ok=True)
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def outcomes(rows: Path) -> list[Row]:
    """Return the last row of each case; a line that a kill cut off is skipped."""
    found: dict[str, Row] = {}
    for line in rows.read_text(encoding="utf-8").splitlines() if rows.is_file() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[row["case"]] = row
    return list(found.values())


def line_of(name: str, rows: Iterable[Row], chosen: argparse.Namespace, commit: str) -> Line:
    """Return the line of a suite, with the fields of the lines of recipes."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[row["group"]].append(row)
    groups = {
        group: [
            sum(row["outcome"] != UNAVAILABLE for row in cases),
            sum(row["outcome"] == PASSED for row in cases),
            round(sum(row["seconds"] for row in cases), 1),
        ]
        for group, cases in by.items()
    }
    tried, passed, seconds = (sum(column) for column in zip(*groups.values(), strict=True))
    return {
        "recipe": RECIPE, "variant": name, "seed": chosen.seed, "settings": f"{chosen.share:g}",
        "status": "finished", "unit": "cases", "steps": tried,
        "planned": sum(map(len, by.values())), "metric": "cases passed", "value": passed,
        "hours": round(seconds / 3600, 4),
        "machine": f"{machine.processor()}, {cores()} cores", "commit": commit,
        "versions": f"representer {__version__}, torch {torch.__version__}",
        "date": datetime.now(UTC).date().isoformat(), "smoke": chosen.share < 1,
        "command": f"python benchmarks/campaign.py --only {name}"
        + f" --share {chosen.share:g}" * (chosen.share < 1), "groups": groups,
        "remarks": remarks([row for cases in by.values() for row in cases]),
    }  # fmt: skip


def commit_of() -> str:
    """Return the commit of this checkout, with ``+`` if files were changed since."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=8"]
    words += ["--dirty=+", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def remarks(rows: Iterable[Row]) -> list[list[str]]:
    """Return the cases that failed or could not be tried, by reason."""
    grouped: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in rows:
        if row["outcome"] != PASSED:
            reason = row["reason"][:REASON].replace("|", "\\|").replace("\n", " ")
            grouped[row["group"], row["outcome"], reason].append(row["case"])
    return [
        [group, outcome, str(len(names)), f"`{names[0]}`", reason]
        for (group, outcome, reason), names in sorted(grouped.items())
    ]


def page_of(lines: Iterable[Line]) -> str:
    """Return the page of the newest line of each suite, and of shares of suites tried since.

    Lines come in the order in which they were written.
    """
    newest: dict[str, Line] = {}
    shares: dict[str, Line] = {}
    for line in lines:
        name = line["variant"]
        if not line["smoke"]:
            newest[name] = line
            shares.pop(name, None)
        elif name in newest and line["commit"] != newest[name]["commit"]:
            shares[name] = line
    sums = [sum(line[name] for line in newest.values()) for name in ("steps", "value")]
    parts = [
        "# Faults: what was tried and what held", ABOUT,
        f"**{sums[0]:,} cases tried, {sums[1]:,} passed.**",
    ]  # fmt: skip
    for name, line in sorted(newest.items()):
        shown = table(
            ["by", "tried", "passed", "seconds"],
            [[group, *(f"{n:,.0f}" for n in row)] for group, row in line["groups"].items()],
        )
        about = (
            f"On {line['machine']}, {line['date']}, {line['versions']}, commit "
            f"{line['commit'] or 'unknown'}, by `{line['command']}`."
        )
        title = name.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n{suites()[name].title}.\n\n{about}\n\n{shown}")
    if shares:
        heads = ["suite", "share", "tried", "passed", "seconds", "date", "commit"]
        body = [
            [name.replace("_", " "), line["settings"], f"{line['steps']:,}", f"{line['value']:,}",
             f"{3600 * line['hours']:,.0f}", line["date"], line["commit"]]
            for name, line in sorted(shares.items())
        ]  # fmt: skip
        about = "Of these suites, a share of the cases was tried again on a later commit."
        parts.append(f"## Shares tried since\n\n{about}\n\n{table(heads, body)}")
    counted = [*newest.values(), *shares.values()]
    if rows := [row for line in counted for row in line["remarks"]]:
        heads = ["by", "outcome", "cases", "the first", "reason"]
        parts.append(f"## Cases that failed or could not be tried\n\n{table(heads, rows)}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
