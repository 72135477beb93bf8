"""A recipe reproduces a table of a paper: its name, the paper's figures, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name

from representer.errors import ArgumentError, MissingExtraError
from representer.installed import installed


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
        record: Folder for the results as JSON lines; None for ``out``.
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
    record: Path | None = None
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
        reproduce: Runs what is missing, and returns the path of the table.
        cells: Rows that a request may name; none if ``--cells`` has no meaning.
        datasets: Data sets that a request may name.
        presets: Settings that the recipe has.
        options: Those of ``filter_lengths``, ``lengths`` and ``vectors`` that it uses.
        seeds: Seeds of a request that names none.
        reported: The paper's figures by (row, column) of that table.
        differences: How a preset differs from what the paper prints, one line each.
    """

    name: str
    title: str
    source: str
    reproduce: Callable[[Request], Path]
    cells: Sequence[str] = ()
    datasets: Sequence[str] = ()
    presets: Sequence[str] = ("paper",)
    options: Sequence[str] = ()
    seeds: tuple[int, ...] = (0,)
    reported: Mapping[tuple[str, str], Reported] = field(default_factory=dict)
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
            ArgumentError: If the request names something that the recipe does not have, or a folder
                has a run with other settings.
            DataError: If a data set is missing or invalid.
        """
        for name in ("filter_lengths", "lengths", "vectors"):
            if getattr(request, name) and name not in self.options:
                raise ArgumentError(name, getattr(request, name), "nothing, for this recipe")
        for name, known in (("cells", self.cells), ("datasets", self.datasets)):
            for value in getattr(request, name):
                if value not in known:
                    expected = (
                        f"some of {', '.join(known)}" if known else "nothing, for this recipe"
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
    """Return the recipes of all installed packages, by name.

    Raises:
        MissingExtraError: If no installed package has recipes.
    """
    recipes: dict[str, Recipe] = {}
    for module in installed("recipes").values():
        recipes |= module.RECIPES
    if not recipes:
        raise MissingExtraError("finding recipes", "the installed package", "train")
    return recipes
