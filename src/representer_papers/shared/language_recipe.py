"""Run the missing models of a table of language models, and write the table."""

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
    default: Collection[str],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Run the missing models of a table, and write it.

    Args:
        request: The request.
        title: Title of the page.
        about: Lines below the title.
        datasets: Names of the recipe's texts.
        variants: Function that returns the rows with the settings for a text.
        default: Names of the rows that run by default.
        orders: Names of rows in the order in which the paper ranks them, best first.

    Returns:
        The path of the table.

    Raises:
        ArgumentError: If the request names an unknown row, text or preset, or a folder has a run
            with other settings.
        DataError: If a text is missing, or one of its files is invalid.
    """
    if request.preset != "paper":
        hint = "Settings that the papers leave open are those of the authors' code."
        raise ArgumentError("preset", request.preset, "'paper'", hint=hint)
    places = locate(request, datasets)
    for dataset, folder in places:
        wanted = chosen(request, variants(dataset.name))
        if not request.cells:
            wanted = [variant for variant in wanted if variant.name in default]
        if not request.table_only:
            run_missing(request, dataset, folder, wanted)
    rows = variants(datasets[0])
    return write_language_table(
        request, title, about, [dataset for dataset, _ in places], rows, orders
    )
