"""Use a trained molecule model: ``evaluate``, ``predict`` and ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from representer.data.molecules import (
    MoleculeTable,
    molecule_graph,
    molecules_of,
    read_molecules,
)
from representer.data.tables import Grid, read_grid
from representer.errors import DataError
from representer.printable import printable, say
from representer.report import write_report
from representer.report.page import EXPLAINED
from representer.storage import atomic
from representer.storage.run_files import require_finite
from representer.tasks.molecule.molecule_config import FileOptions, MoleculeReading
from representer.tasks.molecule.molecule_data import make_part, tell
from representer.tasks.molecule.molecule_explain import explain_molecule
from representer.tasks.molecule.molecule_predictions import Predictions, figures_of
from representer.tasks.molecule.molecule_run import TrainedMolecule, load_run
from representer.tasks.table_file import (
    as_csv,
    check_output,
    refuse_same_columns,
    shown_cell,
    write_table,
)


def evaluate(
    run: str | Path, data: str | Path, reading: MoleculeReading, options: FileOptions
) -> dict[str, Any]:
    """Evaluate a trained model on a table with the targets.

    Args:
        run: The run folder.
        data: The table.
        reading: Columns of the table; by default those of the training data.
        options: Delimiter and encoding of the file.

    Returns:
        The metrics of each target, with the names of run and data.

    Raises:
        DataError: If the table cannot be used.
    """
    trained = load_run(run)
    reading = _like_training(trained, reading)
    table = _read(data, reading, options, reading.target)
    if len(table.target_columns) != len(trained.targets.names):
        columns, known = ", ".join(table.target_columns), ", ".join(trained.targets.names)
        problem = f"the targets are {columns or 'no columns'}; the model has {known}"
        raise DataError(problem, file=data, fix="Name them: --target A,B")
    part = make_part(table, range(len(table)), trained.targets, trained.features)
    predictions = trained.predict(part.graphs)
    _require_finite(run, predictions)
    found = figures_of(trained.targets, part.values, predictions)
    return {"run": str(run), "data": str(data), "left_out": len(table.dropped), "targets": found}


def predict(
    run: str | Path,
    data: str | Path,
    output: str | Path | None,
    reading: MoleculeReading,
    options: FileOptions,
) -> None:
    """Write the rows of a table, in order, with a prediction and its uncertainty.

    For one target the columns are ``prediction`` and ``uncertainty``; for several, the name of the
    target is appended. The uncertainty of a number is a standard deviation in its unit. That of a
    class is one minus its probability, and the probability of each class is written, too.

    Args:
        run: The run folder.
        data: The table.
        output: CSV file, written atomically; stdout if None.
        reading: Its column of SMILES; that of the training data where not named. With
            ``skip_invalid`` a row without a valid SMILES keeps its place, without an answer; stderr
            says which.
        options: Delimiter and encoding of the file.

    Raises:
        DataError: If the table cannot be used, with the row, or the output cannot be where it
            should.
        StorageError: If the output cannot be written.
    """
    if output is not None:
        check_output(Path(output), Path(data))
    trained = load_run(run)
    reading = _like_training(trained, reading)
    grid = _grid(data, reading, options)
    table = molecules_of(grid, str(data), reading.smiles, None, skip_invalid=reading.skip_invalid)
    for line in (*table.notes, table.dropped_summary(len(table.dropped))):
        if line:
            say(f"{table.source}: {line.replace('left out', 'without a prediction')}")
    predictions = trained.predict(_graphs(trained, table))
    _require_finite(run, predictions)
    columns, rows = _columns(trained, table, predictions)
    refuse_same_columns(columns, grid.columns, str(data))
    nothing = [""] * len(columns)
    body = (
        [*map(shown_cell, cells), *rows.get(line, nothing)]
        for cells, line in zip(grid.rows, grid.lines, strict=True)
    )
    write_table(output, as_csv([[*grid.columns, *columns], *body]))


def explain(
    run: str | Path,
    data: str | Path,
    reading: MoleculeReading,
    options: FileOptions,
    *,
    limit: int,
    top: int,
) -> list[dict[str, Any]]:
    """Explain the predictions of a trained model for the first molecules of a table.

    Writes explanations.json into the run folder and updates its report.

    Args:
        run: The run folder.
        data: The table.
        reading: Its column of SMILES, as for `predict`.
        options: Delimiter and encoding of the file.
        limit: Number of molecules.
        top: Number of walks to list for each.

    Returns:
        One entry per molecule, as in explanations.json.

    Raises:
        DataError: If the table cannot be used.
        KindError: If the predictions are not sums over walks.
    """
    trained = load_run(run)
    reading = _like_training(trained, reading)
    table = _read(data, reading, options, None)
    entries = [
        {"line": line, "truth": "", **explain_molecule(trained, smiles, graph, top)}
        for line, smiles, graph in zip(
            table.lines[:limit], table.smiles[:limit], _graphs(trained, table, limit), strict=True
        )
    ]
    for entry in entries:
        require_finite(run, [entry["uncertainty"], entry["evidence"], *entry["atoms"]])
    folder = Path(run)
    atomic.write_json(folder / EXPLAINED, entries)
    if all((folder / name).is_file() for name in ("metrics.json", "details.json")):
        say(f"report: {write_report(folder)}")
    return entries


def as_text(entry: dict[str, Any], *, styled: bool) -> str:
    """Return an explanation as lines for the terminal; no words in it are styled."""
    shown = entry["prediction"]
    answer = shown if isinstance(shown, str) else f"{shown:.4g} ± {entry['uncertainty']:.2g}"
    lines = [f"line {entry['line']}: {entry['smiles']}", f"  {entry['target']}: {answer}"]
    lines += [f"  {walk['contribution']:+9.4f}  {walk['text']}" for walk in entry["walks"]]
    named = sum(walk["contribution"] for walk in entry["walks"])
    rest = entry["evidence"] - entry["constant"] - named
    lines += [f"  {rest:+9.4f}  all other walks", f"  {entry['constant']:+9.4f}  constant"]
    if entry["gp"]:
        lines.append(f"  {entry['gp']:+9.4f}  Gaussian process")
    return printable("\n".join(lines), keep="\n")


def _columns(
    trained: TrainedMolecule, table: MoleculeTable, predictions: Predictions
) -> tuple[list[str], dict[int, list[str]]]:
    """Return the names of the added columns, and their cells by line."""
    targets = trained.targets
    ends = [""] if len(targets.names) == 1 else [f"_{name}" for name in targets.names]
    columns: list[str] = []
    parts: list[list[list[str]]] = []
    for k, end in enumerate(ends):
        columns += [f"prediction{end}", f"uncertainty{end}"]
        if predictions.numbers is not None and predictions.deviations is not None:
            numbers = zip(predictions.numbers[:, k], predictions.deviations[:, k], strict=True)
            parts.append([[f"{number:.6g}", f"{off:.6g}"] for number, off in numbers])
            continue
        names, chances = targets.classes[k], predictions.probabilities[k]
        columns += [f"probability{end}_{name}" for name in names]
        parts.append(
            [[names[int(row.argmax())], f"{1 - row.max():.6f}", *(f"{c:.6f}" for c in row)]
             for row in chances]
        )  # fmt: skip
    joined = [[cell for part in row for cell in part] for row in zip(*parts, strict=True)]
    return columns, dict(zip(table.lines, joined, strict=True))


def _require_finite(run: str | Path, predictions: Predictions) -> None:
    for part in (predictions.numbers, predictions.deviations, *(predictions.probabilities or ())):
        if part is not None:
            require_finite(run, part)


def _graphs(trained: TrainedMolecule, table: MoleculeTable, limit: int | None = None) -> list[Any]:
    return [molecule_graph(smiles, trained.features) for smiles in table.smiles[:limit]]


def _like_training(trained: TrainedMolecule, reading: MoleculeReading) -> MoleculeReading:
    """Return the columns, by default those of the training data."""
    smiles, target = reading.smiles or trained.reading.smiles, reading.target
    return replace(reading, smiles=smiles, target=target or trained.reading.target)


def _grid(data: str | Path, reading: MoleculeReading, options: FileOptions) -> Grid:
    wanted: Sequence[str] = [reading.smiles or ""]
    return read_grid(
        data, list(wanted), header=True, delimiter=options.delimiter, encoding=options.encoding
    )


def _read(
    data: str | Path, reading: MoleculeReading, options: FileOptions, target: str | None
) -> MoleculeTable:
    table = read_molecules(
        data, reading.smiles, target, skip_invalid=reading.skip_invalid,
        delimiter=options.delimiter, encoding=options.encoding,
    )  # fmt: skip
    tell(table)
    return table
