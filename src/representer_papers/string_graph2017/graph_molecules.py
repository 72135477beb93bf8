"""L17 Table 3: the Weisfeiler-Lehman network and baselines on the Clean Energy Project."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from representer.tasks.recipe import Recipe, Request
from representer_papers.string_graph2017.table3 import NETWORKS, REPORTED, SOURCE


def reproduce(request: Request) -> Path:
    """Run the missing networks in ``OUT/NETWORK-seedK``, and write the table."""
    from representer_papers.shared.runs import Run, run_missing
    from representer_papers.string_graph2017 import molecule_run
    from representer_papers.string_graph2017.molecule_baselines import write_baselines
    from representer_papers.string_graph2017.molecule_sets import locate, read
    from representer_papers.string_graph2017.molecules_table import write_table

    if not request.table_only:
        path = locate(request.data)
        settings = partial(molecule_run.settings, budget=request.budget, smoke=request.smoke)
        # one seed of all networks before the next, so that the table is useful early
        runs = [
            Run(request.out / f"{row}-seed{seed}", settings(row, seed))
            for seed in request.seeds
            for row in request.cells or NETWORKS
        ]
        train = partial(molecule_run.run, request.threads or None)
        beside = {request.out / "baselines.json": write_baselines}
        run_missing(runs, lambda: read(path, request), train, beside)
    return write_table(request)


GRAPH_MOLECULES = Recipe(
    name="graph-molecules",
    title="Molecules: WL network with and without gates, fingerprint, loopy BP, GINE, CEP",
    source=SOURCE,
    reproduce=reproduce,
    cells=tuple(NETWORKS),
    datasets=("cep",),
    reported=REPORTED,
)
