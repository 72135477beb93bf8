"""A recipe reproduces a table of a paper: its name, the paper's figures, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name

from representer.checks import installed
from representer.errors import ArgumentError, MissingExtraError


@dataclass(frozen=True)
class Reported:
    """A figure that a paper printed."""

    value: float  # as printed
    unit: str  # what it is, for example ``"% accuracy"``
    source: str  # where, for example ``"L19 Table 2"``


@dataclass(frozen=True)
class Request:
    """Options of a recipe; empty choices select everything that the recipe has."""

    data: Path  # folder with the data sets
    out: Path  # folder for the runs and the table
    budget: float = 1.0  # fraction of the paper's training steps, in (0, 1]
    seeds: tuple[int, ...] = (0,)  # random seeds, one run for each
    smoke: bool = False  # make a tiny run that checks the setup
    datasets: tuple[str, ...] = ()  # names of data sets
    cells: tuple[str, ...] = ()  # names of cells
    filter_lengths: tuple[int, ...] = ()  # lengths of the n-gram filters
    lengths: tuple[int, ...] = ()  # lengths of the sequences
    preset: str = "paper"  # settings, ``"paper"`` or ``"authors_code"``
    vectors: str | None = None  # file of pretrained word vectors
    threads: int = 0  # CPU threads; 0 selects the default of torch
    table_only: bool = False  # run nothing; write the table of the finished runs
    record: Path | None = None  # folder for the results as JSON lines; None for ``out``
    command: str = ""  # the command line, printed below the table

    def __post_init__(self) -> None:
        if not 0 < self.budget <= 1:
            raise ArgumentError("budget", self.budget, "a number in (0, 1]")
        if not self.seeds:
            raise ArgumentError("seeds", self.seeds, "at least one seed")


@dataclass(frozen=True)
class Recipe:
    """One table of a paper."""

    name: str  # name for ``representer reproduce``
    title: str  # short description
    source: str  # paper and table
    reproduce: Callable[[Request], Path]  # runs what is missing, and returns the path of the table
    cells: Sequence[str] = ()  # rows that a request may name; none if ``--cells`` has no meaning
    datasets: Sequence[str] = ()  # data sets that a request may name
    presets: Sequence[str] = ("paper",)  # settings that the recipe has
    # those of ``filter_lengths``, ``lengths`` and ``vectors`` that it uses
    options: Sequence[str] = ()
    seeds: tuple[int, ...] = (0,)  # seeds of a request that names none
    # the paper's figures by (row, column) of that table
    reported: Mapping[tuple[str, str], Reported] = field(default_factory=dict)
    # how a preset differs from what the paper prints, one line each
    differences: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def differences_of(self, request: Request) -> list[str]:
        """Return how a request differs from what the paper prints, one line each."""
        lines = [*self.differences.get(request.preset, ())]
        if "vectors" in self.options and request.vectors is None:
            lines.append("no pretrained word vectors (--vectors FILE); the paper has GloVe 840B")
        if len(request.seeds) < len(self.seeds):
            lines.append(f"{len(request.seeds)} of {len(self.seeds)} seeds (--seeds)")
        if request.budget < 1:
            lines.append(f"{request.budget:g} of the training (--budget)")
        return lines

    def run(self, request: Request) -> Path:
        """Run what is missing of the table, write it, and return its path.

        Finished runs are kept and interrupted runs resume, so a command can be repeated until the
        table is complete.

        Raises:
            DataError: If a data set is missing or invalid.
        """
        for name in ("filter_lengths", "lengths", "vectors"):
            if getattr(request, name) and name not in self.options:
                raise ArgumentError(name, getattr(request, name), "nothing, for this recipe")
        for name, names in (("cells", self.cells), ("datasets", self.datasets)):
            for value in getattr(request, name):
                if value not in names:
                    expected = (
                        f"some of {', '.join(names)}" if names else "nothing, for this recipe"
                    )
                    raise ArgumentError(name, value, expected)
        if request.preset not in self.presets:
            raise ArgumentError("preset", request.preset, " or ".join(map(repr, self.presets)))
        for line in () if request.table_only else self.differences_of(request):
            print(f"differs from {self.source}: {line}", flush=True)
        return self.reproduce(request)


def imported(name: str) -> Callable[[Request], Path]:
    """Return a function by its name, ``module:function``, which is imported when it is called."""
    return lambda request: resolve_name(name)(request)


def installed_recipes() -> dict[str, Recipe]:
    """Return the recipes of all installed packages, by name."""
    recipes: dict[str, Recipe] = {}
    for module in installed("recipes").values():
        recipes |= module.RECIPES
    if not recipes:
        raise MissingExtraError("finding recipes", "the installed package", "train")
    return recipes
