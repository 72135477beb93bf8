"""A molecule model on a small data set: its error, its time, and two uncertainties beside it.

    python benchmarks/molecules.py DATA.csv --target COLUMN --out docs/results/molecules.md

runs `fit molecule` with its defaults on several random splits and on the scaffold split. For the
uncertainties the same networks are asked in several ways, all calibrated on the validation part.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from machine import load
from report import machine_table, publish, table
from representer.tasks.molecule.molecule_config import MoleculeConfig
from representer.tasks.molecule.molecule_data import MoleculeData, prepare
from representer.tasks.molecule.molecule_fit import fit
from representer.tasks.molecule.molecule_mixture import mixture, process_parts
from representer.tasks.molecule.molecule_model import layers_and_outputs_of
from representer.tasks.molecule.molecule_process import fit_process
from representer.tasks.molecule.molecule_run import TrainedMolecule, load_run
from representer.tasks.molecule.molecule_uncertainty import (
    LEVELS,
    calibrate,
    coverage,
    likelihood,
)

ABOUT = """\
Written by the command below; no number here was typed. `fit molecule` with its defaults: an
ensemble of five gated WL kernel networks of 64 units, 40 epochs, answering together with a Gaussian
process on their last layers (GINE likewise); a tenth of the molecules each to validate and to test;
baselines on the same splits. ± is the standard deviation over the splits."""

OF_UNCERTAINTY = """\
Every deviation is √(a v + b), where v is what the model itself says and a and b have the greatest
likelihood on the validation molecules; *constant* has a = 0. The Gaussian processes compare the
last hidden layers, of all members or of the first alone, which costs a fifth of the training. What
part of the answer is the process's and what the networks', the validation molecules say, by least
squares. The Bayesian last layer is linear in that of the first member. Errors are those of the
answer of the model in question. log loss is the mean negative log density of the truth, in nats;
the columns in percent say how much of the truth lies in the intervals that promise so much; rank is
Spearman's correlation of the deviation and the size of the error. `fit molecule` answers by the
ensemble and the process."""


@dataclass(frozen=True)
class Row:
    """What a model says of the test molecules of one split."""

    rmse: float
    loss: float
    shares: dict[str, float]
    rank: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a molecule model.")
    parser.add_argument("data")
    parser.add_argument("--target", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--no-scaffold", action="store_true", help="random splits only")
    parser.add_argument("--epochs", type=int, default=MoleculeConfig().epochs)
    parser.add_argument("--members", type=int, default=MoleculeConfig().members)
    parser.add_argument("--runs", help="folder of the runs, to be kept and gone on with")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    before = load()
    splits = [("random", seed) for seed in range(chosen.seeds)]
    splits += [] if chosen.no_scaffold else [("scaffold", 0)]
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind, _ in splits}
    found: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = chosen.runs or made
        for kind, seed in splits:
            config = MoleculeConfig(
                data=chosen.data, target=chosen.target, out=f"{folder}/{kind}{seed}", split=kind,
                seed=seed, epochs=chosen.epochs, members=chosen.members, threads=1,
            )  # fmt: skip
            runs[kind].append(run(config))
            for name, row in uncertainties(prepare(config), load_run(config.out or "")).items():
                found.setdefault(f"{kind}: {name}", []).append(row)
            print(kind, seed, file=sys.stderr)
    publish(page(chosen, runs, found, (before, load())), chosen.out)


def run(config: MoleculeConfig) -> dict[str, Any]:
    """Return the metrics of a run and the seconds it took; one that is there is read."""
    out = Path(config.out or "")
    kept = out / "spent.json"
    if not kept.is_file():
        started, wall = time.process_time(), time.perf_counter()
        fit(replace(config, resume=out.exists()))
        spent = {"cpu": time.process_time() - started, "wall": time.perf_counter() - wall}
        kept.write_text(json.dumps(spent), encoding="utf-8")
    files = (out / "metrics.json", kept)
    metrics, spent = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    return {**metrics, **spent}


def uncertainties(data: MoleculeData, trained: TrainedMolecule) -> dict[str, Row]:
    """Return how well each model's deviations describe its errors on the test molecules."""
    from sklearn.linear_model import BayesianRidge
    from sklearn.preprocessing import StandardScaler

    targets, parts = trained.targets, (data.train, data.valid, data.test)
    truth = [part.values for part in parts]
    found = [layers_and_outputs_of(trained.model, part.graphs) for part in parts]
    layers = [layer for layer, _ in found]
    answers = [targets.in_unit(outputs) for _, outputs in found]
    means, variances = [a.mean(0) for a in answers], [a.var(0) for a in answers]
    first = [layer[:, : trained.model.config.hidden_size] for layer in layers]
    none = [0 * v for v in variances]
    members = len(answers[0])
    rows = {}
    for name, own, said in (
        (f"ensemble of {members} and Gaussian process", layers, (means, variances)),
        ("one member and Gaussian process", first, ([a[0] for a in answers], none)),
    ):
        process = fit_process(own[0], truth[0])
        alone = [process.predict(of_part) for of_part in own]
        shares = process_parts(alone[1][0], said[0][1], truth[1])
        networks = zip(*said, strict=True)
        both = [mixture(shares, *pair) for pair in zip(alone, networks, strict=True)]
        rows[name] = row([a[0] for a in both], [a[1] for a in both], truth)
        if own is layers:
            name = f"Gaussian process alone, of {members} members"
            rows[name] = row([a[0] for a in alone], [a[1] for a in alone], truth)
    scale = StandardScaler().fit(first[0])
    linear = BayesianRidge().fit(scale.transform(first[0]), truth[0][:, 0])
    asked = [linear.predict(scale.transform(layer), return_std=True) for layer in first]
    columns = [[a[k][:, None] for a in asked] for k in range(2)]
    rows["Bayesian last layer, one member"] = row(columns[0], [s**2 for s in columns[1]], truth)
    rows[f"ensemble of {members} alone"] = row(means, variances, truth)
    rows["ensemble, constant deviation"] = row(means, none, truth)
    return rows


def row(
    answers: list[NDArray[np.float64]],
    variances: list[NDArray[np.float64]],
    truth: list[NDArray[np.float64]],
) -> Row:
    """Calibrate on the validation part, and say how good that is on the test part."""
    from scipy.stats import spearmanr

    chosen = calibrate(answers[1], variances[1], truth[1])
    deviations = chosen.deviations(variances[2])[:, 0]
    own, wanted = answers[2][:, 0], truth[2][:, 0]
    errors = np.abs(own - wanted)
    rank = 0.0 if np.ptp(deviations) == 0 else float(spearmanr(deviations, errors)[0])
    rmse = float((errors**2).mean() ** 0.5)
    return Row(rmse, likelihood(own, deviations, wanted), coverage(own, deviations, wanted), rank)


def page(
    chosen: argparse.Namespace,
    runs: dict[str, list[dict[str, Any]]],
    found: dict[str, list[Row]],
    loads: tuple[str, str],
) -> str:
    """Return the whole page."""
    name = Path(chosen.data).name
    data = f"{name} --target {shlex.quote(chosen.target)}"
    out = chosen.out or "PAGE.md"
    command = f"python benchmarks/molecules.py {data} --seeds {chosen.seeds} --out {out}"
    parts = [f"# Molecules: {name}", ABOUT, machine_table(command, loads)]
    parts += ["## Errors on the test molecules", errors_table(runs), times(runs)]
    parts += ["## Which uncertainty", OF_UNCERTAINTY, uncertainty_table(found)]
    return "\n\n".join(parts) + "\n"


def errors_table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Return RMSE and MAE of the model and the baselines, by kind of split."""
    by_name: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for kind, metrics in runs.items():
        for one in metrics:
            for entry in (one | {"name": one["model"]}, *one["baselines"]):
                figures = next(iter(entry["test"].values()))
                name = entry["name"].partition(", mean")[0].partition(" and a Gauss")[0]
                by_name.setdefault(name, {}).setdefault(kind, []).append(figures)
    head = ["", *(f"{what}, {kind}" for kind in runs for what in ("RMSE", "MAE"))]
    return table(
        head,
        [
            [name, *(spread([f[what] for f in kinds[kind]]) for kind in runs
                     for what in ("rmse", "mae"))]
            for name, kinds in by_name.items()
        ],
    )  # fmt: skip


def times(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Say how long a run took, baselines and report included."""
    every = [one for metrics in runs.values() for one in metrics]
    cpu, wall = ([one[k] for one in every] for k in ("cpu", "wall"))
    splits = " and ".join(f"{len(metrics)} {kind}" for kind, metrics in runs.items())
    return (
        f"A whole run, with the ensemble of GINE, the other baselines and the report, took "
        f"{np.median(cpu):.0f} s of one core's time (at most {max(cpu):.0f} s; by the clock of "
        f"this busy machine {np.median(wall):.0f} s). Splits: {splits}."
    )


def uncertainty_table(found: dict[str, list[Row]]) -> str:
    """Return the means over the splits."""
    head = ["", "RMSE", "log loss", *(f"{100 * level:.0f} %" for level in LEVELS), "rank"]
    return table(
        head,
        [
            [
                name, spread([r.rmse for r in rows]), spread([r.loss for r in rows]),
                *(f"{100 * np.mean([r.shares[str(level)] for r in rows]):.1f}" for level in LEVELS),
                f"{np.mean([r.rank for r in rows]):.2f}",
            ]
            for name, rows in found.items()
        ],
    )  # fmt: skip


def spread(values: list[float]) -> str:
    """Return mean and deviation."""
    end = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{end}"


if __name__ == "__main__":
    main()
