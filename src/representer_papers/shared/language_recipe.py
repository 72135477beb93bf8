"""A table of language models: run what is missing of it, and write it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from representer.errors import ArgumentError
from representer.tasks.recipe import Request
from representer_papers.shared.language import Variant, chosen, locate, run_missing
from representer_papers.shared.language_table import write_language_table


def reproduce(
    request: Request,
    title: str,
    about: Sequence[str],
    datasets: Sequence[str],
    variants: Callable[[str], Sequence[Variant]],
    usual: Collection[str],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Run what is not yet there of a table, and write it.

    Args:
        request: What the user asked.
        title: Of the page.
        about: Lines below it.
        datasets: Names of the recipe's texts.
        variants: The rows, with the settings for a text.
        usual: Names of the rows that are run where none are asked for.
        orders: Names of rows as the paper ranks them, best first.

    Returns:
        The path of the table.

    Raises:
        ArgumentError: If a choice is not one of those there are, or a folder holds a run with other
            settings.
        DataError: If a text is missing, or a file of it cannot be used.
    """
    if request.preset != "paper":
        hint = "The papers leave settings open; these are those of the code behind them."
        raise ArgumentError("preset", request.preset, "'paper'", hint=hint)
    places = locate(request, datasets)
    for dataset, folder in places:
        wanted = chosen(request, variants(dataset.name))
        if not request.cells:
            wanted = [variant for variant in wanted if variant.name in usual]
        if not request.table_only:
            run_missing(request, dataset, folder, wanted)
    rows = variants(datasets[0])
    return write_language_table(
        request, title, about, [dataset for dataset, _ in places], rows, orders
    )
