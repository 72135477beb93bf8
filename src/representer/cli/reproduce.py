"""``representer reproduce NAME``: reproduce a table of a paper, within a budget."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from representer.cli.errors import UsageError, did_you_mean

SUMMARY = "Reproduce a table of a paper; `reproduce list` lists them."


def add_arguments(parser: Any) -> None:
    """Add the recipe and its options."""
    parser.add_argument("name", type=str, help="recipe, or list", metavar="NAME")
    parser.add_argument(
        "--data", type=str, default=os.environ.get("REPRESENTER_DATA", "data"), metavar="DIR",
        help="folder with the datasets; default: $REPRESENTER_DATA",
    )  # fmt: skip
    help_text = "folder for the runs and the table; default: runs/NAME"
    parser.add_argument("--out", type=str | None, help=help_text, metavar="DIR")
    parser.add_argument(
        "--budget", type=float, default=1.0, help="fraction of the training steps, in (0, 1]"
    )
    parser.add_argument("--smoke", action="store_true", help="a tiny run that checks the setup")
    help_text = "run nothing; write the table of the finished runs"
    parser.add_argument("--json", action="store_true", help="of list: every row as JSON")
    parser.add_argument("--table-only", action="store_true", help=help_text)
    help_text = "folder for the results, a JSON line a run; default: results.jsonl in --out"
    parser.add_argument("--record", type=str | None, help=help_text, metavar="DIR")
    for option, chosen in (
        ("--seeds", "random seeds (default: those of the recipe)"), ("--datasets", "subset"),
        ("--cells", "subset"), ("--filter-lengths", "subset"),
        ("--lengths", "subset of the sequence lengths"),
    ):  # fmt: skip
        help_text = f"comma-separated {chosen}"
        parser.add_argument(option, type=str | None, help=help_text, metavar="LIST")
    parser.add_argument(
        "--preset", type=str, default="paper", help="settings: paper or authors_code"
    )
    parser.add_argument(
        "--vectors", type=str | None, help="file of pretrained word vectors", metavar="FILE"
    )
    parser.add_argument(
        "--threads", type=int, default=0, help="CPU threads; 0: the default of torch"
    )


def run(arguments: Any) -> None:
    """Run the recipe and print its table."""
    from representer.tasks.recipe import Request, installed_recipes
    from representer.training.freed_memory import keep_freed_memory

    recipes = installed_recipes()
    if arguments.name == "list":
        if arguments.json:
            print(json.dumps(_rows(recipes, arguments.record), ensure_ascii=False, indent=1))
            return
        for recipe in recipes.values():
            print(f"{recipe.name:<16} {recipe.source:<12} {recipe.title}")
        return
    if arguments.name not in recipes:
        hint = did_you_mean(arguments.name, list(recipes))
        raise UsageError(
            f"{arguments.name!r} is not a recipe. {hint}All of them: representer reproduce list"
        )
    keep_freed_memory()
    seeds = recipes[arguments.name].seeds[: 1 if arguments.smoke else None]
    request = Request(
        data=Path(arguments.data),
        out=Path(arguments.out or f"runs/{arguments.name}"),
        budget=arguments.budget,
        seeds=_numbers("seeds", arguments.seeds) or seeds,
        smoke=arguments.smoke,
        datasets=_words(arguments.datasets),
        cells=_words(arguments.cells),
        filter_lengths=_numbers("filter-lengths", arguments.filter_lengths),
        lengths=_numbers("lengths", arguments.lengths),
        preset=arguments.preset,
        vectors=arguments.vectors,
        threads=arguments.threads,
        table_only=arguments.table_only,
        record=Path(arguments.record) if arguments.record else None,
        command=shlex.join(["representer", *sys.argv[1:]]),
    )
    table = recipes[arguments.name].run(request)
    print(table.read_text(encoding="utf-8"))
    print(table)


def _rows(recipes: Any, record: str | None) -> list[dict[str, Any]]:
    """Return every row of every table, with the mean hours of its runs at the paper's length."""
    from representer.tasks.recipe import Request

    rows = []
    for recipe in recipes.values():
        path = Path(record or "docs/results/runs") / f"{recipe.name}.jsonl"
        texts = path.read_text("utf-8").splitlines() if path.exists() else []
        hours: dict[Any, list[float]] = {}
        for line in map(json.loads, texts):
            if line["hours"] and line["status"] == "finished" and not line["smoke"]:
                whole = (line["paper"] or line["planned"]) / line["planned"]
                hours.setdefault(line["row"], []).append(line["hours"] * whole)
        for preset in recipe.presets:
            request = Request(Path(), Path(), preset=preset, seeds=recipe.seeds)
            shown = {"recipe": recipe.name, "table": recipe.source, "preset": preset}
            shown["differences"] = recipe.differences_of(request)
            for row in recipe.cells or (None,):
                of_row = hours.get(row)
                mean = round(sum(of_row) / len(of_row), 3) if of_row else None
                rows.append({**shown, "row": row, "hours": mean})
    return rows


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def _numbers(option: str, text: str | None) -> tuple[int, ...]:
    words = _words(text)
    if not all(re.fullmatch("-?[0-9]{1,18}", word) for word in words):
        raise UsageError(
            f"--{option} is {text!r}; expected comma-separated integers, such as 0,1,2."
        )
    return tuple(map(int, words))
