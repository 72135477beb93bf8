"""L17 Table 3: the Weisfeiler-Lehman network and baselines on the Clean Energy Project.

As in the authors' code: balanced batches, squared errors of the PCE itself, Adam with a learning
rate of 0.001 that is multiplied by 0.9 after every 100,000 molecules, and a test of the last
weights. A budget shortens both the training and the interval between two decays. The sets of
molecules differ in the size of the training part, for a learning curve.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from representer import nn as layers
from representer.data.molecules import (
    BalancedDraws,
    molecule_graph,
    parse_smiles,
    read_molecules,
    split_molecules,
)
from representer.errors import DataError
from representer.models import draw_as_authors
from representer.ops import walk_aggregate
from representer.storage import atomic
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask
from representer.training.trainer import Trainer
from representer_papers.shared import tables
from representer_papers.shared.datasets import existing
from representer_papers.string_graph2017.graph_sets import (
    Check,
    GraphBatch,
    GraphStore,
    outputs_in_batches,
)
from representer_papers.string_graph2017.published import (
    BY_NAME,
    MEAN,
    MOLECULE_NETWORKS,
    MOLECULE_SETS,
    ORDER,
    WHOLE,
    WITHOUT_NETWORK,
)

# The networks of L17 Table 3 for molecules, as in the authors' code.
#
# The two classes below are the table's baselines. All networks end in a hidden layer and a number,
#
#     y = w relu(W h_G + b) + b'
#
# and all weights are initialized from N(0, min(1/sqrt(fan_in), 1/10)^2), biases to 0.


DEPTH = 4


class NeuralFingerprint(nn.Module):
    r"""The neural fingerprint: softmax of every atom's state, summed over atoms and layers.

    .. math::
        h_v^{(l)} &= \mathrm{relu}\Big(\mathrm{BN}\Big(
            \sum_{u \to v} (W_l h_u^{(l-1)} + V_l e_{uv}) + S_l h_v^{(l-1)} + b_l \Big)\Big) \\
        h_G &= \sum_l \sum_v \mathrm{softmax}(O_l h_v^{(l)} + o_l)

    where BN uses the statistics of the batch, in evaluation too, as in the authors' code.

    Args:
        atoms: Number of atom features.
        bonds: Number of bond features.
        units: Size of every layer and of the fingerprint.

    References:
        Duvenaud et al., Convolutional Networks on Graphs for Learning Molecular Fingerprints,
        NeurIPS 2015; Lei et al., ICML 2017, section 6.3.
    """

    def __init__(self, atoms: int, bonds: int, units: int) -> None:
        super().__init__()
        sizes = [atoms, *[units] * (DEPTH - 1)]
        self.neighbors = nn.ModuleList(nn.Linear(d, units, bias=False) for d in sizes)  # W
        self.bonds = nn.ModuleList(nn.Linear(bonds, units, bias=False) for _ in sizes)  # V
        self.own = nn.ModuleList(nn.Linear(d, units) for d in sizes)  # S and b
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(units, track_running_stats=False) for _ in range(DEPTH)
        )
        self.outputs = nn.ModuleList(nn.Linear(units, units) for _ in range(DEPTH))

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Return the fingerprint of each molecule ``(G, units)``."""
        h, of_bonds = graphs.x, _bonds_of_atoms(graphs)
        written = []
        for layer in range(DEPTH):
            reached = self.neighbors[layer](walk_aggregate(h, graphs.edge_index))
            reached = reached + self.bonds[layer](of_bonds) + self.own[layer](h)
            h = F.relu(self.norms[layer](reached))
            written.append(self.outputs[layer](h).softmax(dim=1))
        return _sum_of_atoms(torch.stack(written).sum(0), graphs)


class LoopyBP(nn.Module):
    r"""Embedded loopy belief propagation: messages along bonds, without the reverse message.

    .. math::
        m_{ij} &= \mathrm{relu}(W_b [f_i, e_{ij}]), \quad \text{then three times} \\
        m_{ij} &\leftarrow \mathrm{relu}\Big(W_b [f_i, e_{ij}]
            + W \sum_{k \to i, k \ne j} m_{ki} \Big) \\
        h_G &= \sum_i \mathrm{relu}\Big(W_a f_i + W_o \sum_{k \to i} m_{ki}\Big)

    Args:
        atoms: Number of atom features.
        bonds: Number of bond features.
        units: Size of messages and atom states.

    References:
        Dai et al., Discriminative Embeddings of Latent Variable Models for Structured Data, ICML
        2016; Lei et al., ICML 2017, section 6.3.
    """

    def __init__(self, atoms: int, bonds: int, units: int) -> None:
        super().__init__()
        self.first = nn.Linear(atoms + bonds, units, bias=False)  # W_b
        self.message = nn.Linear(units, units, bias=False)  # W
        self.atom = nn.Linear(atoms, units, bias=False)  # W_a
        self.output = nn.Linear(units, units, bias=False)  # W_o

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Return the sum over the atoms of each molecule ``(G, units)``."""
        source, target = graphs.edge_index
        back = _reversed_edges(graphs.edge_index, len(graphs.x))
        assert graphs.edge_attr is not None
        fixed = self.first(torch.cat((graphs.x[source], graphs.edge_attr), dim=1))
        messages = F.relu(fixed)
        for _ in range(DEPTH - 1):
            reached = _sum_at(messages, target, len(graphs.x))
            messages = F.relu(fixed + self.message(reached[source] - messages[back]))
        reached = _sum_at(messages, target, len(graphs.x))
        return _sum_of_atoms(F.relu(self.atom(graphs.x) + self.output(reached)), graphs)


class _Layer(nn.Module):
    """Adapter that calls a PyG-style graph layer with a batch."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, graphs: GraphBatch) -> Tensor:
        return self.layer(
            graphs.x, graphs.edge_index, graphs.edge_attr, graphs.batch, batch_size=len(graphs.y)
        )


class MoleculeNetwork(nn.Module):
    """A network that predicts one number for each molecule.

    Args:
        row: A key of ``MOLECULE_NETWORKS``.
        atoms: Number of atom features.
        bonds: Number of bond features.
        units: Size of the network and of the hidden layer.
    """

    def __init__(self, row: str, atoms: int, bonds: int, units: int) -> None:
        super().__init__()
        self.body = _body(row, atoms, bonds, units)
        self.head = nn.Sequential(nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 1))
        if row != "gine":  # not in the paper, so it keeps PyG's initialization
            draw_as_authors(self)

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Return the predictions ``(G,)``."""
        return self.head(self.body(graphs)).squeeze(1)


def _body(row: str, atoms: int, bonds: int, units: int) -> nn.Module:
    if row == "neural-fingerprint":
        return NeuralFingerprint(atoms, bonds, units)
    if row == "loopy-bp":
        return LoopyBP(atoms, bonds, units)
    if row == "gine":
        from representer.models.graph_regressor import GINE

        return _Layer(GINE(atoms, units, DEPTH, bonds))
    options: dict[str, Any] = {"readout": "last"}
    if row != "wl":
        options |= {"decay": "gated", "gate_scale": 10.0}
    if row in BY_NAME:
        options |= {"readout": "sum", "share_references": row != "wl-gated-levels"}
    return _Layer(
        layers.WLKernelNN(
            atoms, units, DEPTH, edge_dim=bonds, label_channels=units, sigma="relu", **options
        )
    )


def _bonds_of_atoms(graphs: GraphBatch) -> Tensor:
    assert graphs.edge_attr is not None
    return _sum_at(graphs.edge_attr, graphs.edge_index[1], len(graphs.x))


def _sum_of_atoms(states: Tensor, graphs: GraphBatch) -> Tensor:
    return _sum_at(states, graphs.batch, len(graphs.y))


def _sum_at(rows: Tensor, index: Tensor, count: int) -> Tensor:
    return rows.new_zeros(count, rows.shape[1]).index_add(0, index, rows)


def _reversed_edges(edge_index: Tensor, nodes: int) -> Tensor:
    """Return the index of each edge's reverse edge."""
    source, target = edge_index
    back = torch.empty_like(source)
    # sorted by (target, source) and by (source, target), the k-th edges are reverses of each other
    back[torch.argsort(target * nodes + source)] = torch.argsort(source * nodes + target)
    return back


FRACTIONS = (0.88, 0.02, 0.10)  # the paper: 0.863, 0.037 and 0.1 of a hundred times as many
SMOKE = 60  # molecules in a smoke run
BITS, RADIUS = 2048, 2  # of the fingerprints
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)  # of ridge regression


@dataclass(frozen=True)
class MoleculeSet:
    """Molecules with a positive PCE, and their split."""

    smiles: list[str]  # as in the file
    store: GraphStore  # with the PCE as y
    train: np.ndarray  # numbers of the training molecules
    valid: np.ndarray
    test: np.ndarray
    digest: str  # SHA-256 of the file, and the share that is kept for training


def locate_molecules(root: Path) -> Path:
    """Find the file in a folder, or in its folder ``cep``."""
    path = existing(root, ("cep", ""), ("cep-processed.csv",))
    if path is None:
        fix = "Pass --data DIR, or set REPRESENTER_DATA."
        raise DataError("there is no cep/cep-processed.csv", file=root, fix=fix)
    return path


def read_molecule_set(path: Path, request: Request, share: int = 1) -> MoleculeSet:
    """Read the columns ``smiles`` and ``PCE``; the graphs are stored in the output folder."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    table = read_molecules(path, "smiles", "PCE", skip_invalid=True)
    values = table.numbers()[:, 0]
    kept = np.flatnonzero(values > 0)[: SMOKE if request.smoke else None]
    if not len(kept):
        raise DataError("no molecule has a PCE above 0", file=path, column="PCE")
    smiles = [table.smiles[i] for i in kept]
    file = request.out / f"molecules-{digest[:12]}-{len(kept)}.safetensors"
    if file.exists():
        tensors = safetensors.torch.load_file(file)
    else:
        tensors = _tensors(smiles, torch.from_numpy(values[kept]).float())
        request.out.mkdir(parents=True, exist_ok=True)
        atomic.write_tensors(file, tensors)
    part_of = tensors.pop("part").numpy()
    train, valid, test = (np.flatnonzero(part_of == k) for k in range(len(FRACTIONS)))
    if share > 1:
        order = np.random.default_rng(0).permutation(train)
        train, digest = np.sort(order[: len(train) // share]), f"{digest}/{share}"
    return MoleculeSet(smiles, GraphStore(tensors), train, valid, test, digest)


def _tensors(smiles: list[str], values: Tensor) -> dict[str, Tensor]:
    print(f"reading {len(smiles)} molecules", flush=True)
    store = GraphStore.of([molecule_graph(text) for text in smiles], values)
    part_of = torch.zeros(len(smiles), dtype=torch.uint8)
    for k, numbers in enumerate(split_molecules(smiles, FRACTIONS)):
        part_of[numbers] = k
    return {**store.tensors(), "part": part_of}


def write_molecule_baselines(path: Path, data: MoleculeSet) -> None:
    """Fit the mean and ridge regression on fingerprints, and write their RMSE on the test part."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    y = data.store.y.double().numpy()
    make = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    counts = [make.GetCountFingerprintAsNumPy(parse_smiles(text)) for text in data.smiles]
    mean = _rmse(y[data.train].mean(), y[data.test])
    rmse, penalty = ridge(np.stack(counts).astype(np.float32), y, data)
    name = f"ECFP of radius {RADIUS}, {BITS} counts, ridge"
    rows: list[dict[str, Any]] = [
        {"name": MEAN, "parameters": 1, "rmse": mean},
        {"name": name, "parameters": BITS + 1, "rmse": rmse, "penalty": penalty},
    ]
    atomic.write_json(path, rows)


def ridge(X: np.ndarray, y: np.ndarray, data: MoleculeSet) -> tuple[float, float]:
    """Return the test RMSE of ridge regression, and the penalty, which is best in validation."""
    results = []
    for penalty in PENALTIES:
        model = Ridge(penalty).fit(X[data.train], y[data.train])
        valid, test = (_rmse(model.predict(X[i]), y[i]) for i in (data.valid, data.test))
        results.append((valid, penalty, test))
    _, penalty, test = min(results)
    return test, penalty


def _rmse(predictions: np.ndarray | float, truth: np.ndarray) -> float:
    return math.sqrt(float(np.mean((predictions - truth) ** 2)))


BATCH, WIDTH, BONDS = 20, 0.05, 6
LR, LR_DECAY = 1e-3, 0.9
_EVALUATION_BATCH = 100
MEASURE = tables.Measure(
    "graph-molecules", "test RMSE", lambda metrics: metrics["test"]["rmse"], "steps",
    planned=lambda settings: settings["epochs"] * settings["samples"] // BATCH,
)  # fmt: skip


def reproduce_molecules(request: Request) -> Path:
    """Run the missing networks in ``OUT/SET/NETWORK-seedK``, and write the table."""
    for name in request.datasets or (WHOLE,):
        home = request.out / name
        rows = [row for row in MOLECULE_NETWORKS if row not in BY_NAME]
        settings = partial(molecule_settings, budget=request.budget, smoke=request.smoke)
        runs = tables.runs_of(request, home, rows, settings)
        train = partial(run_network, request.threads or None)
        beside = {home / BASELINES: write_molecule_baselines}

        def load(part: int = MOLECULE_SETS[name]) -> MoleculeSet:
            return read_molecule_set(locate_molecules(request.data), request, part)

        tables.run_missing(request, MEASURE, runs, load, train, beside)
    return _write_table(request)


def molecule_settings(row: str, seed: int, budget: float, smoke: bool) -> dict[str, Any]:
    """Return the settings that determine a run, apart from the molecules."""
    between = max(BATCH, round(budget * SAMPLES / BATCH) * BATCH)
    return {
        "network": row,
        "seed": seed,
        "budget": budget,
        "units": 8 if smoke else MOLECULE_NETWORKS[row].units,
        "epochs": 2 if smoke else DECAYS,
        "samples": 2 * BATCH if smoke else between,  # per epoch
    }


def run_network(
    threads: int | None, folder: RunFolder, chosen: dict[str, Any], data: MoleculeSet
) -> dict[str, Any]:
    """Train a network, or resume its training, and return its figures.

    Raises:
        TrainingError: If the training diverges.
        Interrupted: If a signal arrives; the run can be resumed.
    """
    model = build_network(chosen, data.store.features)
    config = TrainerConfig(
        epochs=chosen["epochs"], lr=LR, lr_decay=LR_DECAY, monitor="valid_rmse", direction="min",
        seed=chosen["seed"], threads=threads,
    )  # fmt: skip
    watched = {**chosen, "data": data.digest}
    result = Trainer(model, training_task(chosen, data), config, folder, settings=watched).fit()
    model.eval()
    return {
        "test": {"rmse": rmse(model, data.store, data.test)},
        "valid": {"rmse": rmse(model, data.store, data.valid)},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "samples": result.step * BATCH,
        "seconds": result.seconds,
        "sizes": {name: len(getattr(data, name)) for name in ("train", "valid", "test")},
    }


def build_network(chosen: dict[str, Any], atoms: int) -> MoleculeNetwork:
    """Return the network with initial weights that depend on the seed alone."""
    with generators.initializing(chosen["seed"]):
        return MoleculeNetwork(chosen["network"], atoms, BONDS, chosen["units"])


def training_task(chosen: dict[str, Any], data: MoleculeSet) -> TrainingTask:
    """Return the batches, loss and validation of a network."""
    targets = data.store.y[torch.from_numpy(data.train)].tolist()
    drawn = BalancedDraws(targets, WIDTH, generators.derive(chosen["seed"], "draws") % 2**32)

    def batches(epoch: int) -> list[list[int]]:
        numbers = data.train[drawn.epoch(epoch, chosen["samples"])].tolist()
        return [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]

    def loss(model: nn.Module, graphs: GraphBatch) -> tuple[Tensor, int]:
        return F.mse_loss(model(graphs), graphs.y), len(graphs.y)

    def evaluate(model: nn.Module, check: Check) -> dict[str, float]:
        return {"valid_rmse": rmse(model, data.store, data.valid, check)}

    return TrainingTask(batches, data.store, loss, evaluate)


def rmse(
    model: nn.Module,
    store: GraphStore,
    numbers: Sequence[int] | np.ndarray,
    check: Check = lambda: None,
) -> float:
    """Return the root mean squared error over molecules."""
    total = 0.0
    for graphs, outputs in outputs_in_batches(model, store, numbers, _EVALUATION_BATCH, check):
        total += (outputs - graphs.y).double().square().sum().item()
    return math.sqrt(total / len(numbers))


SAMPLES, DECAYS = 100_000, 51  # molecules between two decays of the rate; until it is 5e-6
Runs = Mapping[str, Mapping[int, dict[str, Any]]]  # figures of finished runs, by network and seed
BASELINES = "baselines.json"
_ABOUT = (
    "",
    "Root mean squared error of the power conversion efficiency (PCE, in %) on the test part. As",
    "in the authors' code: four rounds, n = 2, readout of the last round, gate scaled by 10,",
    "squared error of the PCE itself, batches of 20 drawn evenly from bins of width 0.05, Adam at",
    "0.001 multiplied by 0.9 for 51 times, and a test of the last weights. Molecules with a PCE of",
    "0 or below are left out. GINE is not in the paper. A budget below 1 shows the networks that",
    "fraction of the molecules, with earlier decays of the rate; with a small budget no network",
    "converges.",
)


def _write_table(request: Request) -> Path:
    """Write ``table.md`` from all runs of the folder, and return its path."""
    done, *parts = (tables.metrics_by_seed(request.out / name, "network") for name in MOLECULE_SETS)
    begun = tables.by_seed(request.out / WHOLE, "network")
    seeds = tables.seeds_of(begun)
    rows = [
        _row(name, begun.get(name, {}), seeds)
        for name in MOLECULE_NETWORKS
        if name in begun or name not in BY_NAME
    ]
    rows += _without(tables.read_json(request.out / WHOLE / BASELINES) or [], len(seeds))
    heads = ["parameters", "L17", *(f"seed {seed}" for seed in seeds), "mean", "molecules seen"]
    # networks whose runs are all finished
    ours = {n: _errors(done[n]) for n in ORDER if n in done and len(done[n]) == len(begun[n])}
    paper = {name: -float(MOLECULE_NETWORKS[name].rmse or 0) for name in ours}
    negative = {name: {s: -error for s, error in errors.items()} for name, errors in ours.items()}
    about = [*_ABOUT, *_sizes(done)]
    lines = [
        *tables.rows_of(["", *heads], rows),
        *tables.order_lines("Smallest error first", paper, negative),
        *_comparison(done),
        *curve_lines([errors_of(errors) for errors in (*reversed(parts), done)]),
    ]
    return tables.write_page(request, "L17 Table 3: molecules, error of the PCE", about, lines)


def errors_of(runs: Runs) -> Errors:
    """Return the errors of the finished runs of each network, and the molecules they saw."""
    return {
        name: [(f["sizes"]["train"], f["test"]["rmse"]) for f in of_seeds.values()]
        for name, of_seeds in runs.items()
    }


def _errors(of_seeds: Mapping[int, dict[str, Any]]) -> dict[int, float]:
    return {seed: figures["test"]["rmse"] for seed, figures in of_seeds.items()}


def _sizes(runs: Runs) -> list[str]:
    for of_seeds in runs.values():
        sizes = next(iter(of_seeds.values()))["sizes"]
        return [
            "",
            f"Trained on {sizes['train']:,} molecules, tested on {sizes['test']:,}: a random "
            f"sample. The paper's networks were trained on {TRAINING:,}, so only the order of the "
            "networks is comparable, not their errors.",
        ]
    return []


def _row(name: str, runs: Mapping[int, tables.Stored], seeds: Sequence[int]) -> tuple[object, ...]:
    network, of_seeds = MOLECULE_NETWORKS[name], {s: run.metrics for s, run in runs.items()}
    done = [figures for figures in of_seeds.values() if figures]
    seen = sorted({figures["samples"] for figures in done})
    return (
        network.title,
        f"{done[0]['parameters']:,}" if done else "–",
        "–" if network.rmse is None else f"{network.rmse:.4f}",
        *tables.seed_cells(of_seeds, seeds, lambda figures: f"{figures['test']['rmse']:.4f}"),
        tables.mean([figures["test"]["rmse"] for figures in done], 4),
        ", ".join(f"{n:,} of {SAMPLES * DECAYS:,}" for n in seen) or "–",
    )


def _without(ours: Sequence[Mapping[str, Any]], seeds: int) -> list[tuple[object, ...]]:
    """Return the rows without seeds: the baselines, and the paper's kernels."""
    papers, blank, rows = dict(WITHOUT_NETWORK), ["–"] * seeds, []
    for row in ours:
        _, paper = papers.pop(row["name"], ("", None))
        shown = "–" if paper is None else f"{paper:.4f}"
        figures = f"{row['parameters']:,}", shown, *blank, f"{row['rmse']:.4f}", "–"
        rows.append((row["name"], *figures))
    for name, (parameters, rmse) in papers.items():
        rows.append((f"*{name}*", parameters, f"{rmse:.4f}", *blank, "–", "–"))
    return rows


def _comparison(runs: Runs) -> list[str]:
    """Compare the gated network with the neural fingerprint, seed by seed."""
    gated, other = (_errors(runs.get(name, {})) for name in ("wl-gated", "neural-fingerprint"))
    gaps = [other[seed] - gated[seed] for seed in sorted(gated.keys() & other.keys())]
    if not gaps:
        return []
    smaller = sum(gap > 0 for gap in gaps)
    return [
        "",
        f"The gated network has the smaller error in {smaller} of {len(gaps)} seeds, compared with "
        f"the neural fingerprint; the fingerprint's error minus its own is "
        f"{statistics.mean(gaps):+.4f} on average (in the paper, +0.0366).",
    ]


TRAINING = 1_900_000  # molecules in the paper's training part
Errors = Mapping[str, Sequence[tuple[int, float]]]  # molecules and RMSE of each run, by network
_ABOUT_CURVE = (
    "",
    "## Fewer molecules for training",
    "",
    "The same networks with a part of the training molecules, the same number of steps and the",
    "same test molecules. The last columns are of a straight line, by least squares over all runs,",
    "through the logarithm of the error against that of the number of molecules, with 95 %",
    "intervals (Student's t). They suppose that the line goes on, which no figure here shows.",
)


class Line(NamedTuple):
    """A power law of the error, with 95 % intervals.

    Attributes:
        doubled: Factor of the error with twice as many molecules: low, best, high.
        at: Error with the number of molecules that was asked for: low, best, high.
    """

    doubled: tuple[float, float, float]
    at: tuple[float, float, float]


def curve_lines(parts: Sequence[Errors]) -> list[str]:
    """Return the section, or nothing if no network has runs with three numbers of molecules."""
    names = [name for name in MOLECULE_NETWORKS if all(errors.get(name) for errors in parts)]
    if len(parts) < 3 or not names:
        return []
    sizes = [errors[names[0]][0][0] for errors in parts]
    heads = [*(f"{size:,}" for size in sizes), "twice as many", f"{TRAINING:,}", "L17"]
    return [*_ABOUT_CURVE, *tables.rows_of(["", *heads], [_curve_row(n, parts) for n in names])]


def fitted(points: Sequence[tuple[int, float]], at: int) -> Line:
    """Return the line through the logarithms of at least three points."""
    from scipy.stats import t

    x, y = np.log2(np.array(points, float)).T
    x -= np.log2(at)  # so that the constant is the value there
    best, covariance = np.polyfit(x, y, 1, cov="unscaled")
    freedom = len(points) - 2
    variance = ((y - np.polyval(best, x)) ** 2).sum() / freedom
    half = t.ppf(0.975, freedom) * np.sqrt(variance * np.diag(covariance))
    doubled, there = (tuple(column) for column in 2 ** np.stack((best - half, best, best + half)).T)
    return Line(doubled, there)


def _curve_row(name: str, parts: Sequence[Errors]) -> tuple[str, ...]:
    line = fitted([point for errors in parts for point in errors[name]], TRAINING)
    paper = MOLECULE_NETWORKS[name].rmse
    low, best, high = (100 * (factor - 1) for factor in line.doubled)
    return (
        MOLECULE_NETWORKS[name].title,
        *(
            f"{tables.mean([rmse for _, rmse in errors[name]], 4)} ({len(errors[name])})"
            for errors in parts
        ),
        f"{best:+.1f} % ({low:+.1f} to {high:+.1f})",
        f"{line.at[1]:.3f} ({line.at[0]:.3f} to {line.at[2]:.3f})",
        "–" if paper is None else f"{paper:.4f}",
    )
