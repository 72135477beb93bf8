"""L17 Table 3: the Weisfeiler-Lehman network and baselines on the Clean Energy Project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import ArgumentError, RunFolderError, TrainingError
from representer.tasks.recipe import Recipe, Request
from representer_papers.string_graph2017.table3 import NETWORKS, REPORTED, SOURCE

if TYPE_CHECKING:
    from representer_papers.string_graph2017.molecule_sets import MoleculeSet


def run(request: Request) -> Path:
    """Run the missing networks, and write the table.

    Each network is a run folder ``OUT/NETWORK-seedK``. Finished runs are kept, interrupted runs
    resume, and runs that another process is working on are skipped.

    Returns:
        The path of the table.

    Raises:
        ArgumentError: If the request names an unknown network, preset or data set, or a folder has
            a run with other settings.
        DataError: If the file is missing or invalid.
    """
    from representer_papers.string_graph2017.molecules_table import write_table

    rows = _rows(request)
    if not request.table_only:
        _run_all(request, rows)
    return write_table(request)


GRAPH_MOLECULES = Recipe(
    name="graph-molecules",
    title="Molecules: WL network with and without gates, fingerprint, loopy BP, GINE, CEP",
    source=SOURCE,
    run=run,
    reported=REPORTED,
)


def _rows(request: Request) -> tuple[str, ...]:
    for name in ("filter_lengths", "vectors"):
        if getattr(request, name):
            raise ArgumentError(name, getattr(request, name), "nothing, for this recipe")
    if request.preset != "paper":
        hint = "Settings that the paper leaves open are those of the authors' code."
        raise ArgumentError("preset", request.preset, "'paper'", hint=hint)
    for name in request.datasets:
        if name != "cep":
            raise ArgumentError("datasets", name, "cep")
    for row in request.cells:
        if row not in NETWORKS:
            raise ArgumentError("cells", row, f"some of {', '.join(NETWORKS)}")
    return request.cells or tuple(NETWORKS)


def _run_all(request: Request, rows: tuple[str, ...]) -> None:
    from representer_papers.string_graph2017.molecule_baselines import write_baselines
    from representer_papers.string_graph2017.molecule_run import settings
    from representer_papers.string_graph2017.molecule_sets import locate, read

    path = locate(request.data)
    # one seed of all networks before the next, so that the table is useful early
    wanted = [settings(r, s, request.budget, request.smoke) for s in request.seeds for r in rows]
    places = [request.out / f"{chosen['network']}-seed{chosen['seed']}" for chosen in wanted]
    waiting = [(place, c) for place, c in zip(places, wanted, strict=True) if not _done(place, c)]
    baselines = request.out / "baselines.json"
    if not waiting and baselines.exists():
        return
    data = read(path, request)
    if not baselines.exists():
        write_baselines(baselines, data)
    for place, chosen in waiting:
        _run(place, chosen, data, request.threads or None)


def _done(place: Path, chosen: dict[str, Any]) -> bool:
    path = place / "recipe.json"
    if not path.exists():
        return False
    if json.loads(path.read_text("utf-8")) != chosen:
        hint = "Choose another --out, or the --budget and --smoke of the existing run."
        raise ArgumentError("out", str(place), "a run with these settings", hint=hint)
    return (place / "metrics.json").exists()


def _run(place: Path, chosen: dict[str, Any], data: MoleculeSet, threads: int | None) -> None:
    from representer.storage.run_folder import RunFolder
    from representer_papers.string_graph2017 import molecule_run

    print(f"{place}:", flush=True)
    try:
        with RunFolder(place, resume=place.exists()) as folder:
            molecule_run.run(folder, chosen, data, threads)
    except TrainingError as error:  # divergence of one network must not stop the others
        print(f"{place}: {error}")
    except RunFolderError as error:  # another process is working on it
        print(f"skipped: {error}")
