"""``fit``, ``evaluate``, ``predict`` and ``explain`` of molecules: reader, facts and drawings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from representer.data.molecules import (
    MoleculeTable,
    assembled_molecules,
    molecules_of,
    scaffold,
    split_molecules,
)
from representer.data.molecules.columns import are_numbers
from representer.data.molecules.files import read_molecule_grid
from representer.estimators import MoleculeClassifier, MoleculeRegressor
from representer.estimators.explanation import NETWORK
from representer.estimators.graph_parameters import MoleculeRegressorParameters
from representer.printable import printable
from representer.tasks import estimator_explain
from representer.tasks.estimator_comparison import EstimatorComparison
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_objects import Objects, strings_of
from representer.tasks.estimator_results import Facts, Model
from representer.tasks.estimator_task import EstimatorTask
from representer.tasks.live_examples import tested
from representer.tasks.molecule.molecule_baselines import train_baselines
from representer.tasks.molecule.molecule_task import MoleculeConfig, MoleculeReading, defaults_of

GINE = "gine"
OTHER_ELEMENT = {62: 43, 82: 62}  # places of "other" in the lists of atom features


def read(
    path: str | Path, *, smiles: str | None, target: str | None, skip_invalid: bool,
    is_regression: bool, require_labels: bool, **layout: Any,
) -> Objects:  # fmt: skip
    """Read the molecules and targets of a table; see `read_molecules`."""
    wanted = target if require_labels else None
    grid, smiles = read_molecule_grid(path, smiles, wanted, **layout)
    table = molecules_of(
        grid, str(Path(path)), smiles, wanted,
        skip_invalid=skip_invalid, require_target=require_labels,
    )  # fmt: skip
    objects = objects_of(table, (Path(path),))
    if require_labels:
        return objects
    return replace(objects, table=grid, targets=_names(target))


def strings(smiles: Sequence[str], noun: str, reading: dict[str, Any]) -> Objects:
    """Return molecules of the command line; their targets are those of the run."""
    return replace(strings_of(smiles, noun, reading), targets=_names(reading["target"]))


def _names(target: str | None) -> tuple[str, ...]:
    return tuple(target.split(",")) if target else ()


def objects_of(table: MoleculeTable, files: tuple[Path, ...] = ()) -> Objects:
    """Return the molecules and targets of a table."""
    return Objects(
        source=table.source,
        labels_file=table.source,
        objects=table.smiles,
        labels=table.targets,
        lines=table.lines,
        files=files,
        notes=table.notes,
        dropped=table.dropped,
        reading={"smiles": table.smiles_column, "target": ",".join(table.target_columns)},
        targets=table.target_columns,
        is_numbered_by_line=True,
    )


def numbers(objects: Objects) -> bool:
    """Return True if a target is a number to predict; 0 and 1 of others are numbers beside it."""
    return any(are_numbers([label or "" for label in labels]) for _, labels in objects.columns)


def split_by(
    config: MoleculeConfig, objects: Objects, fractions: Sequence[float]
) -> Sequence[Sequence[int]]:
    """Return the positions in each part; all copies of a molecule are in one part."""
    labels = None
    if FLOW.kind(config, {"all": objects}) is MoleculeClassifier and len(objects.targets) == 1:
        labels = [label for (label,) in objects.labels]
    return split_molecules(objects.objects, fractions, config.seed, config.split, labels)


def scaffolds(config: MoleculeConfig, objects: Objects) -> list[str] | None:
    """Return the scaffolds of the molecules if a split keeps each of them together."""
    return [scaffold(one) for one in objects.objects] if config.split == "scaffold" else None


def describe(config: MoleculeConfig, data: Data) -> Facts:
    """Return the sizes of the molecules, and what is unusual about some of them."""
    molecules = [smiles for part in data.parts.values() for smiles in part.objects]
    graphs = [graph for part in data.encoded.values() for graph in part]
    atoms = sorted(len(graph.x) for graph in graphs)
    other = OTHER_ELEMENT[config.features]
    values = {
        "SMILES column": data.sources[0][1].reading["smiles"],
        "split": config.split,
        "atoms": f"median {atoms[len(atoms) // 2]}, maximum {atoms[-1]}",
        "single atoms": f"{sum(count == 1 for count in atoms):,}",
        "molecules of several components": f"{sum('.' in smiles for smiles in molecules):,}",
        "molecules with an element outside the list of atom features": (
            f"{sum(bool(graph.x[:, other].any()) for graph in graphs):,}"
        ),
    }
    return Facts(values)


def describe_model(config: MoleculeConfig, data: Data, estimator: Any, network: Any) -> Model:
    """Return the name of the network, with its members."""
    name = estimator._network_name
    return Model(name, {"network": name, "units": str(config.hidden_size)} if network else {})


def networks(config: MoleculeConfig) -> dict[str, MoleculeConfig]:
    """Return the configuration, and on request that of GINE of the same size beside it."""
    if config.baselines != "all" or config.network == GINE:
        return {"": config}
    out = str(Path(config.out or "") / GINE)
    return {config.network: config, GINE: replace(config, network=GINE, answer=NETWORK, out=out)}


def title(config: MoleculeConfig, data: Data) -> str:
    """Return the title of the report: the targets of the table."""
    source = data.sources[0][1].source
    name = source if config.demo else Path(source).name
    return f"{name}: {', '.join(data.targets)} from the molecule"


def as_text(entry: dict[str, Any], *, styled: bool) -> str:
    """Return an explanation as lines for the terminal, with the SMILES."""
    first, _, rest = estimator_explain.as_text(entry, styled=styled).partition("\n")
    return f"{first}, {printable(entry['smiles'])}\n{rest}"


FLOW = EstimatorTask(
    name="molecule",
    noun="molecule",
    nouns="molecules",
    reading=MoleculeReading,
    read=read,
    strings=strings,
    remembered={"smiles": "", "target": ""},
    parameters=MoleculeRegressorParameters,
    classifier=MoleculeClassifier,
    regressor=MoleculeRegressor,
    defaults=defaults_of,
    demo=lambda: objects_of(assembled_molecules()),
    baselines=train_baselines,
    describe=describe,
    describe_model=describe_model,
    title=title,
    networks=networks,
    numbers=numbers,
    split_by=split_by,
    calibrated_by=scaffolds,
)
fit, evaluate, predict, explain = FLOW.fit, FLOW.evaluate, FLOW.predict, FLOW.explain
comparison, drift = partial(EstimatorComparison.read, FLOW), FLOW.drift
examples = partial(tested, FLOW, FLOW.demo)
