"""Read and split the molecules of a run, and make their graphs and targets."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from representer.data.molecules import (
    MoleculeTable,
    assembled_molecules,
    canonical,
    molecule_graph,
    read_molecules,
    split_molecules,
)
from representer.errors import ArgumentError, DataError
from representer.printable import say
from representer.tasks.molecule.molecule_config import MoleculeConfig, MoleculeReading
from representer.tasks.molecule.molecule_targets import Targets, find_targets

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS = ("train", "valid", "test")
OTHER_ELEMENT = {62: 43, 82: 62}  # places of "other" in the lists of atom features
SHOWN = 20  # skipped rows listed one by one


@dataclass(frozen=True)
class MoleculePart:
    """Molecules of one part, in the order of their file.

    Attributes:
        source: Path of the file.
        smiles: SMILES as read.
        lines: Line of each molecule in the file.
        graphs: Graphs with the features of L17.
        values: Targets ``(N, K)``, NaN where unknown.
    """

    source: str
    smiles: list[str]
    lines: list[int]
    graphs: list[Data]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.smiles)


@dataclass(frozen=True)
class MoleculeData:
    """Data of a molecule run.

    Attributes:
        train: The training part.
        valid: The validation part, also for calibrating uncertainties.
        test: The test part.
        targets: The targets.
        reading: Columns as detected.
        report: Statistics of the data, for the report.
        digests: SHA-256 of every file, by its path.
        skipped: Skipped rows as (file, line, reason).
    """

    train: MoleculePart
    valid: MoleculePart
    test: MoleculePart
    targets: Targets
    reading: MoleculeReading
    report: dict[str, Any]
    digests: dict[str, str]
    skipped: list[tuple[str, int, str]]

    def part(self, name: str) -> MoleculePart:
        """Return a part by its name."""
        return getattr(self, name)

    def splits(self) -> dict[str, Any]:
        """Return the lines of each part, as in splits.json."""
        parts = {name: self.part(name) for name in PARTS}
        lines = {name: {"file": p.source, "lines": p.lines} for name, p in parts.items()}
        return {"sha256": self.digests, **lines}


def prepare(config: MoleculeConfig) -> MoleculeData:
    """Read, check and split the data and make graphs, without writing anything.

    Raises:
        DataError: If the data cannot be used.
        ArgumentError: If there are no data, or no target.
    """
    tables = _tables(config)
    main = tables["all"]
    for table in tables.values():
        tell(table)
        if config.task == "regression":
            table.numbers()  # raises for a cell that is not a number
    rows = _divide(tables, config)
    targets = find_targets(main, config.task, rows["train"], standardize=config.standardize)
    if config.balance and len(targets.names) > 1:
        raise ArgumentError("balance", config.balance, "0 where there are several targets")
    parts = {
        name: make_part(tables.get(name, main), rows[name], targets, config.features)
        for name in PARTS
    }
    digests = {table.source: _digest(table) for table in tables.values()}
    if shared := _shared(parts):
        say(f"{shared} molecules of the test file are training molecules, too")
    report = {
        "sources": [_source(name, t, digests[t.source]) for name, t in tables.items()],
        "smiles_column": main.smiles_column,
        "targets": {
            name: _described(targets, k, parts["train"].values[:, k])
            for k, name in enumerate(targets.names)
        },
        **{name: len(part) for name, part in parts.items()},
        **_sizes(parts, config.features),
        "shared": shared,
    }
    reading = MoleculeReading(main.smiles_column, ",".join(main.target_columns))
    skipped = [(t.source, d.line, d.reason) for t in tables.values() for d in t.dropped]
    return MoleculeData(**parts, targets=targets, reading=reading, report=report,
                        digests=digests, skipped=skipped)  # fmt: skip


def make_part(
    table: MoleculeTable, rows: Sequence[int], targets: Targets, features: int
) -> MoleculePart:
    """Return some rows of a table, with graphs and values."""
    return MoleculePart(
        table.source,
        [table.smiles[i] for i in rows],
        [table.lines[i] for i in rows],
        [molecule_graph(table.smiles[i], features) for i in rows],
        targets.values(table)[list(rows)],
    )


def tell(table: MoleculeTable) -> None:
    """Print detected columns and skipped rows of a table."""
    for line in (*table.notes, table.dropped_summary(SHOWN)):
        if line:
            say(f"{table.source}: {line}")


def _tables(config: MoleculeConfig) -> dict[str, MoleculeTable]:
    if config.demo:
        return {"all": assembled_molecules()}
    if config.data is None:
        hint = "Without data of your own: representer fit molecule --demo"
        raise ArgumentError("data", None, "the path of a table", hint=hint)
    if config.target is None:
        raise ArgumentError("target", None, "the column with the values to learn")
    files = {"all": config.data, "valid": config.valid, "test": config.test}
    return {
        name: read_molecules(
            path, config.smiles, config.target, skip_invalid=config.skip_invalid,
            delimiter=config.delimiter, encoding=config.encoding,
        )
        for name, path in files.items()
        if path is not None
    }  # fmt: skip


def _divide(tables: dict[str, MoleculeTable], config: MoleculeConfig) -> dict[str, list[int]]:
    """Return the rows of each part; parts without their own file are split from the main one."""
    main = tables["all"]
    wanted = {"valid": config.valid_fraction, "test": config.test_fraction}
    shares = {name: share for name, share in wanted.items() if name not in tables}
    rows = {name: list(range(len(table))) for name, table in tables.items()}
    if shares:
        fractions = (1 - sum(shares.values()), *shares.values())
        try:
            found = split_molecules(main.smiles, fractions, config.seed, config.split)  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(str(error), file=main.source) from None
        rows |= dict(zip(("train", *shares), found, strict=True))
    return {"train": rows["all"], **rows}


def _shared(parts: dict[str, MoleculePart]) -> int:
    """Return the number of test molecules that are training molecules, too, up to notation."""
    if parts["test"].source == parts["train"].source:
        return 0  # the split is disjoint
    known = {canonical(smiles) for smiles in parts["train"].smiles}
    return sum(canonical(smiles) in known for smiles in parts["test"].smiles)


def _sizes(parts: dict[str, MoleculePart], features: int) -> dict[str, Any]:
    every = [
        (s, g) for part in parts.values() for s, g in zip(part.smiles, part.graphs, strict=True)
    ]
    atoms = sorted(len(graph.x) for _, graph in every if graph.x is not None)
    other = OTHER_ELEMENT[features]
    return {
        "median_atoms": atoms[len(atoms) // 2],
        "most_atoms": atoms[-1],
        "single_atoms": sum(n == 1 for n in atoms),
        "several_parts": sum("." in smiles for smiles, _ in every),
        "other_elements": sum(bool(g.x[:, other].any()) for _, g in every if g.x is not None),
    }


def _described(targets: Targets, k: int, values: NDArray[np.float64]) -> dict[str, Any]:
    own = values[~np.isnan(values)]
    if targets.is_regression:
        return {
            "count": len(own),
            "mean": float(own.mean()),
            "deviation": float(own.std()),
            "least": float(own.min()),
            "most": float(own.max()),
        }
    counts = Counter(own.astype(int).tolist())
    names = targets.classes[k]
    return {"count": len(own), "classes": {name: counts[c] for c, name in enumerate(names)}}


def _source(name: str, table: MoleculeTable, digest: str) -> dict[str, Any]:
    lines: dict[str, list[int]] = {}
    for row in table.dropped:
        lines.setdefault(row.reason.partition(" '")[0], []).append(row.line)
    return {
        "file": table.source,
        "role": {"all": "training, and parts without their own file"}.get(name, name),
        "sha256": digest,
        "rows": len(table) + len(table.dropped),
        "kept": len(table),
        "dropped": [
            {"reason": reason, "count": len(at), "lines": at[:5]} for reason, at in lines.items()
        ],
    }


def _digest(table: MoleculeTable) -> str:
    """Return the SHA-256 of the file, or of the molecules if they do not come from a file."""
    path = Path(table.source)
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(repr([table.smiles, table.targets]).encode()).hexdigest()
