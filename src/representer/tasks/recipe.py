"""A recipe reproduces a table of a paper: its name, the paper's figures, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path

from representer.errors import ArgumentError, MissingExtraError

GROUP = "representer.recipes"


@dataclass(frozen=True)
class Reported:
    """A figure that a paper printed.

    Attributes:
        value: As printed.
        unit: What it is, for example ``"% accuracy"``.
        source: Where, for example ``"L19 Table 2"``.
    """

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Request:
    """Options of a recipe; empty choices select everything that the recipe has.

    Attributes:
        data: Folder with the data sets.
        out: Folder for the runs and the table.
        budget: Fraction of the paper's training steps, in (0, 1].
        seeds: Random seeds, one run for each.
        smoke: Make a tiny run that checks the setup.
        datasets: Names of data sets.
        cells: Names of cells.
        filter_lengths: Lengths of the n-gram filters.
        lengths: Lengths of the sequences.
        preset: Settings, ``"paper"`` or ``"authors_code"``.
        vectors: File of pretrained word vectors.
        threads: CPU threads; 0 selects the default of torch.
        table_only: Run nothing; write the table of the finished runs.
        command: The command line, printed below the table.
    """

    data: Path
    out: Path
    budget: float = 1.0
    seeds: tuple[int, ...] = (0,)
    smoke: bool = False
    datasets: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    filter_lengths: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    preset: str = "paper"
    vectors: str | None = None
    threads: int = 0
    table_only: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.budget <= 1:
            raise ArgumentError("budget", self.budget, "a number in (0, 1]")
        if not self.seeds:
            raise ArgumentError("seeds", self.seeds, "at least one seed")


@dataclass(frozen=True)
class Recipe:
    """One table of a paper.

    Attributes:
        name: Name for ``representer reproduce``.
        title: Short description.
        source: Paper and table.
        run: Runs the recipe and returns the path of its table.
        reported: The paper's figures by (row, column) of that table.
    """

    name: str
    title: str
    source: str
    run: Callable[[Request], Path]
    reported: Mapping[tuple[str, str], Reported] = field(default_factory=dict)


def installed_recipes() -> dict[str, Recipe]:
    """Return the recipes of all installed packages, by name.

    Raises:
        MissingExtraError: If no installed package has recipes.
    """
    recipes: dict[str, Recipe] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        recipes |= entry.load().RECIPES
    if not recipes:
        raise MissingExtraError("finding recipes", "the installed package", "train")
    return recipes
