"""Pictures of the gallery, each drawn from a run or from a page of results."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from rdkit import Chem
from rdkit.Chem import rdDepictor
from sklearn.calibration import calibration_curve
from sklearn.decomposition import KernelPCA

from readme import CELLS, speed_table
from representer import nn
from representer.data.molecules import read_smiles
from representer.data.molecules.table import assembled_molecules
from representer.data.signals.recordings import Coupling, synthetic_recordings
from representer.data.text.table import code_lines
from representer.estimators import (
    MoleculeRegressor,
    SequenceClassifier,
    SeriesClassifier,
    SignalClassifier,
    TextClassifier,
)
from representer.explain import (
    band_importance,
    combined_lags,
    memory_ledger,
    phase_lags,
    substitutions,
    wavelet_cards,
)
from representer.kernels import StringKernel, SubtreeKernel
from representer.kernels.weisfeiler_lehman_kernel import refined
from representer.models import SignalStream
from representer.tasks.molecule import cliff
from representer.tasks.sequence import reads
from representer.tasks.series import waves
from when import own_data

RAISES, LOWERS, INK = "#3b82c4", "#d65c46", "#808080"
LETTERS = "#4a9f72", "#3b82c4", "#d9822b", "#9b6dd6"


@cache
def text_model() -> tuple[Any, list[str], list[str]]:
    """Return a classifier of lines of code, and lines and labels that it has not read."""
    table = code_lines(count=10_000)
    model = TextClassifier(epochs=6, random_state=0, verbose=0)
    model.fit(table.texts[:8000], table.labels[:8000])
    return model, table.texts[8000:], table.labels[8000:]


@cache
def adding() -> tuple[Any, Any, torch.Tensor]:
    """Return a cell and a read-out that sum two marked numbers of 50, and one example."""
    torch.manual_seed(0)
    layer, readout = nn.RKMCIFG(2, 32, batch_first=True), torch.nn.Linear(32, 1)
    parameters = [*layer.parameters(), *readout.parameters()]
    optimizer = torch.optim.Adam(parameters, 5e-3)
    for _ in range(700):
        values, marks = torch.rand(32, 50), torch.zeros(32, 50)
        marks.scatter_(1, torch.rand(32, 50).argsort(1)[:, :2], 1.0)
        x = torch.stack((values, marks), dim=-1)
        loss = (readout(layer(x)[0][:, -1])[:, 0] - (values * marks).sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return layer, readout, x[0]


@cache
def molecule_model() -> tuple[Any, list[str], np.ndarray]:
    """Return a regressor of drug-likeness, and molecules and values that it has not read."""
    table = assembled_molecules(500)
    model = MoleculeRegressor(members=2, epochs=15, random_state=0, verbose=0)
    model.fit(table.smiles[:350], table.numbers()[:350, 0])
    return model, table.smiles[350:], table.numbers()[350:, 0]


@cache
def sines() -> Any:
    """Return the activations of a network that learned a sum of two sines."""
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 400)[:, None]
    y = torch.sin(4 * torch.pi * x) + 0.5 * torch.sin(11 * torch.pi * x)
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 12), nn.KernelActivation(12, num_centers=60, init="relu"),
        torch.nn.Linear(12, 1),
    )  # fmt: skip
    optimizer = torch.optim.Adam(nn.activation_groups(model, lr=1e-2))
    for _ in range(2000):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model[1]


def intervals() -> Figure:
    result = [item for item in own_data() if item.figure.split()[1] == "points"][::-1]
    figure, axes = plt.subplots(figsize=(7, 4))
    for row, item in enumerate(result):
        color = INK if item.verdict == "level" else RAISES if item.verdict == "ahead" else LOWERS
        axes.plot([item.low, item.high], [row, row], color=color, linewidth=3)
        axes.plot([float(item.figure.split()[0])], [row], "o", color=color)
    axes.axvline(0, color=INK, linewidth=0.8)
    tasks = [item.ours[5:-1].replace(" --", ", ") for item in result]
    axes.set_yticks(
        range(len(result)),
        [f"{item.data} ({task})" for item, task in zip(result, tasks, strict=True)],
    )
    axes.set(xlim=(-25, 55), xlabel="points minus the best simple baseline")
    return figure


def speeds() -> Figure:
    rows = [line.split("|")[1:-1] for line in speed_table().splitlines() if "×" in line][1:]
    figure, axes = plt.subplots(figsize=(7, 3))
    for k, cell in enumerate(CELLS):
        ratios = [float(row[k + 1].split()[0]) for row in rows]
        bars = axes.bar(np.arange(len(rows)) + 0.27 * (k - 1), ratios, 0.25, label=cell)
        axes.bar_label(bars, fmt="%.2f")
    axes.axhline(1, color=INK, linestyle=":")
    axes.set_xticks(range(len(rows)), [row[0].strip() for row in rows])
    axes.set(xlabel="steps × batch × units", ylabel="speed, nn.LSTM = 1", ylim=(0, 3.2))
    axes.legend(ncols=3, loc="upper left")
    return figure


def ngrams() -> Figure:
    model, texts, labels = text_model()
    chances = model.predict_proba(texts)[:, list(model.classes_).index("swapped")]
    chances = np.where(np.array(labels) == "swapped", chances, 0)
    chosen = [texts[k] for k in np.argsort(-chances) if len(texts[k].split()) < 14][:5]
    figure, axes = plt.subplots(figsize=(5, 2.4))
    for row, explanation in enumerate(model.explain(chosen)):
        words = chosen[row].split()
        shares = np.zeros(len(words))
        for term in explanation.contributions:
            inside = [position for position in term.where if position < len(words)]
            for position in inside:
                shares[position] += term.contribution / len(inside)
        x = 0.0
        for word, share in zip(words, shares / abs(shares).max(), strict=True):
            color = np.array(to_rgb(RAISES if share > 0 else LOWERS))
            pale = 1 - 0.6 * abs(share) * (1 - color)  # dark letters on it, on any page
            box = {"facecolor": pale, "edgecolor": "none", "pad": 2}
            axes.text(x, -row, word, family="monospace", color="#1c2027", bbox=box)
            x += len(word) + 1.4
    axes.set(xlim=(-0.4, 40), ylim=(-4.5, 0.6))
    axes.axis("off")
    return figure


def calibration() -> Figure:
    model, texts, labels = text_model()
    chances = model.predict_proba(texts)[:, 1]
    right, expected = calibration_curve(np.array(labels) == model.classes_[1], chances, n_bins=10)
    figure, axes = plt.subplots(figsize=(4, 3.6))
    axes.plot([0, 1], [0, 1], color=INK, linestyle=":")
    axes.plot(expected, right, "o-")
    axes.set(xlabel="predicted probability of “swapped”", ylabel="share of swapped lines")
    return figure


def memory() -> Figure:
    layer, readout, x = adding()
    weights = torch.zeros(50, 32)
    weights[-1] = readout.weight[0].detach()
    shares = memory_ledger(layer, x, weights).contribution.detach()
    shares = shares[:, shares.abs().sum(0).argsort(descending=True)[:16]]
    figure, axes = plt.subplots(figsize=(7, 3))
    most = shares.abs().max()
    picture = axes.imshow(shares.T, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    axes.set_xticks(torch.nonzero(x[:, 1])[:, 0].tolist())
    axes.set(xlabel="steps; the two marked ones are numbered", ylabel="units")
    figure.colorbar(picture, label="contribution")
    return figure


def memories() -> Figure:
    figure, panels = plt.subplots(1, 2, figsize=(7.5, 3), sharey=True)
    for axes, start in zip(panels, ("unit", "paper"), strict=True):
        torch.manual_seed(0)
        layer = nn.RKMCIFG(8, 16, initialization=start)
        x = torch.zeros(120, 2, 8)
        x[0, 1] = torch.randn(8)
        with torch.no_grad():
            output = layer(x)[0]
        axes.plot(range(0, 120, 3), (output[::3, 1] - output[::3, 0]).abs(), linewidth=0.8)
        axes.set(yscale="log", ylim=(1e-6, 1), xlabel="steps after the input", title=f"“{start}”")
        axes.minorticks_off()
    panels[0].set_ylabel("effect on each unit")
    return figure


def substitution() -> Figure:
    words = ["not", "never", "very", "good", "great", "bad", "film"]
    vectors = torch.eye(7, dtype=torch.float64)
    for item, other in ((0, 1), (3, 4)):  # words of similar meaning
        vectors[other] = 0.7 * vectors[item] + 0.3 * vectors[other]
    layer = nn.StringKernelRNN(7, 1, order=2, decay=0.6, activation=None, dtype=torch.float64)
    layer.references()[0] = torch.stack((vectors[0], vectors[3]))
    sentence = ["never", "a", "very", "good", "film"]
    unknown = torch.zeros_like(vectors[0])
    x = torch.stack([vectors[words.index(w)] if w in words else unknown for w in sentence])
    table = substitutions(layer, x, 0, vectors).detach()
    figure, axes = plt.subplots(figsize=(5.5, 3.2))
    picture = axes.imshow(table.T, cmap="Blues")
    axes.set_xticks(range(5), sentence)
    axes.set_yticks(range(7), words)
    axes.set(xlabel="the word at this place", ylabel="replaced by")
    figure.colorbar(picture, label="match with “not … good”")
    return figure


def gram() -> Figure:
    words = [
        *("import", "export", "report", "transport"),
        *("station", "nation", "ration", "relation"),
        *("walking", "talking", "looking", "booking"),
    ]
    values = StringKernel(order=3, decay=0.5, base="delta").cosine()(words)
    figure, axes = plt.subplots(figsize=(5.5, 4.4))
    picture = axes.imshow(values, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(words)), words, rotation=90)
    axes.set_yticks(range(len(words)), words)
    figure.colorbar(picture, label="cosine of the string kernel")
    return figure


def colors() -> Figure:
    graph = nx.random_labeled_tree(14, seed=5)
    edges = np.array([(u, v) for u, v in graph.edges]).T
    edge_index = np.concatenate((edges, edges[::-1]), axis=1)
    labels = np.zeros(14, dtype=np.int64)
    position = nx.kamada_kawai_layout(graph)
    figure, panels = plt.subplots(1, 4, figsize=(8, 2.4))
    for level, axes in enumerate(panels):
        names = np.unique(labels, return_inverse=True)[1]
        nx.draw(graph, position, ax=axes, node_color=names, cmap="tab20", vmin=0, vmax=13,
                node_size=90, edge_color=INK)  # fmt: skip
        axes.set_title(f"level {level}: {names.max() + 1} kinds")
        labels = refined(labels, edge_index, None)
    return figure


def map_of_molecules() -> Figure:
    _, smiles, target = molecule_model()
    molecules = [read_smiles(item) for item in smiles]
    similarity = SubtreeKernel().fit(molecules)(molecules)
    places = KernelPCA(2, kernel="precomputed").fit_transform(similarity)
    figure, axes = plt.subplots(figsize=(5.5, 4))
    points = axes.scatter(*places.T, c=target, cmap="viridis", s=22)
    axes.set(xlabel="first component", ylabel="second component", xticks=[], yticks=[])
    figure.colorbar(points, label="drug-likeness (QED)")
    return figure


def atoms() -> Figure:
    model, smiles, _ = molecule_model()
    predicted = model.predict(smiles)
    chosen = [smiles[k] for k in np.argsort(predicted)[[0, len(smiles) // 2, -1]]]
    figure, panels = plt.subplots(1, 3, figsize=(9, 2.4))
    for axes, text, explanation in zip(panels, chosen, model.explain(chosen), strict=True):
        molecule = Chem.MolFromSmiles(text)
        shares = np.zeros(molecule.GetNumAtoms())
        for term in explanation.contributions:
            shares[list(term.where)] += term.contribution / len(term.where)
        _draw_molecule(axes, molecule, shares)
        axes.set_title(f"QED {explanation.score:.2f}")
    return figure


def cliff_pair() -> Figure:
    model, smiles, target = molecule_model()
    pair = cliff(smiles, target, np.arange(len(smiles)), is_regression=True)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8))
    explained = model.explain([smiles[row] for row in pair])
    for axes, row, explanation in zip(panels, pair, explained, strict=True):
        shares = np.array(explanation.values_by_place())
        rest = explanation.score - explanation.baseline - shares.sum()
        _draw_molecule(axes, Chem.MolFromSmiles(smiles[row]), shares)
        axes.set_title(
            f"true {target[row]:.2f}, predicted {explanation.score:.2f}\n"
            f"= constant {explanation.baseline:.2f} + atoms {shares.sum():+.2f}"
            f" + whole molecule {rest:+.2f}",
        )  # fmt: skip
    return figure


def _draw_molecule(axes: Any, molecule: Any, shares: np.ndarray) -> None:
    rdDepictor.Compute2DCoords(molecule)
    position = molecule.GetConformer().GetPositions()[:, :2]
    for bond in molecule.GetBonds():
        ends = position[[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]]
        axes.plot(*ends.T, color=INK, linewidth=1 + bond.GetBondTypeAsDouble(), zorder=1)
    sizes = 700 * abs(shares) / abs(shares).max()
    colors = np.where(shares > 0, RAISES, LOWERS)
    axes.scatter(*position.T, s=sizes, c=colors, alpha=0.75, zorder=2, clip_on=False)
    for atom, (x, y) in zip(molecule.GetAtoms(), position, strict=True):
        if atom.GetSymbol() != "C":
            axes.text(x, y, atom.GetSymbol(), ha="center", va="center", zorder=3)
    axes.set_aspect("equal")
    axes.margins(0.15, 0.3)
    axes.axis("off")


def uncertainty() -> Figure:
    model, smiles, target = molecule_model()
    mean, deviation = model.predict(smiles, return_std=True)
    figure, axes = plt.subplots(figsize=(5, 3.6))
    axes.scatter(deviation, abs(mean - target), s=16)
    ends = np.array([0, deviation.max()])
    for factor, label in ((1, "68 %"), (2, "95 %")):
        axes.plot(ends, factor * ends, ":", color=INK)
        axes.annotate(label, (ends[1], factor * ends[1]), ha="right", va="bottom")
    axes.set(xlabel="predicted standard deviation", ylabel="error of the prediction (QED)")
    return figure


def activations() -> Figure:
    figure = sines().plot((-2, 2), columns=6)
    for axes in figure.axes:
        axes.set(xticks=[-2, 0, 2], yticks=[])
        axes.tick_params(labelsize=11)
    return figure


def bump() -> Figure:
    data = waves(160)
    model = SeriesClassifier(answer="kernel", random_state=0, verbose=0)
    model.fit(data.objects[:140], data.labels[:140])
    row = max(range(141, 160, 2), key=lambda row: data.objects[row].shape[1])
    (explanation,) = model.explain(data.objects[row : row + 1], k=200)
    values = data.objects[row][0]
    shares = np.array(explanation.values_by_place())
    figure, panels = plt.subplots(2, 1, figsize=(6, 3.2), sharex=True)
    panels[0].plot(values, color=INK)
    panels[0].set(ylabel="value")
    colors = np.where(shares > 0, RAISES, LOWERS)
    panels[1].bar(range(len(shares)), shares, color=colors, width=1.0)
    panels[1].set(xlabel="step", ylabel="contribution")
    return figure


def motif() -> Figure:
    data = reads(400)
    model = SequenceClassifier(answer="kernel", random_state=0, verbose=0)
    model.fit(data.objects, data.labels)
    shown = next(row for row in model.motifs(count=1) if row["title"] == "bound")
    (logo,) = shown["logos"]
    figure, axes = plt.subplots(figsize=(4, 2.2))
    for position, column in enumerate(logo["columns"]):
        bottom = 0.0
        for height, letter in sorted((h, a) for a, h in column.items() if h > 0):
            path = TextPath((0, 0), letter, size=1)
            box = path.get_extents()
            moved = Affine2D().translate(-box.x0, -box.y0)
            moved = moved.scale(0.9 / box.width, height / box.height)
            moved = moved.translate(position + 0.55, bottom)
            color = LETTERS["ACGT".index(letter)]
            axes.add_patch(PathPatch(moved.transform_path(path), color=color, linewidth=0))
            bottom += height
    axes.set(xlabel=f"place in {logo['name']}", ylabel="coefficient")
    axes.autoscale_view()
    return figure


def compaction() -> Figure:
    tolerances = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    left = []
    for tolerance in tolerances:
        activation = copy.deepcopy(sines())
        activation.compact(tolerance)
        left.append(activation.num_centers)
    figure, axes = plt.subplots(figsize=(5, 2.8))
    axes.plot(tolerances, left, "o-")
    axes.axhline(60, color=INK, linestyle=":")
    axes.set(xscale="log", xlabel="largest allowed change of a function", ylabel="centers left")
    return figure


ELECTRODES = ["Fz", "F3", "F4", "Cz", "C3", "C4", "Pz", "P3", "P4", "O1", "O2"]
RATE = 100.0


@cache
def signals() -> tuple[list[Any], Any, torch.Tensor, Any, np.ndarray]:
    """Return four networks, the electrodes, test windows, their classes and the planted lags."""
    import mne

    info = mne.create_info(ELECTRODES, RATE, "eeg", verbose="error").set_montage("colin27_1020")
    position = np.array([channel["loc"][1] for channel in info["chs"]])
    lags = 900 * (position.max() - position)
    waves = (Coupling("independent", 10.0, 0.0, (0.0,) * len(lags)),
             Coupling("traveling", 10.0, 0.6, tuple(lags)))  # fmt: skip
    drawn = synthetic_recordings(waves, subjects=6, windows=80)
    is_test = np.isin(drawn.subjects, ["subject 4", "subject 5"])
    models = []
    for seed in range(4):
        model = SignalClassifier(
            sampling_rate=RATE, cell="gated-cnn", pooling="mean", standardize="window", epochs=20,
            answer="network", random_state=seed, verbose=0,
        )  # fmt: skip
        models.append(model.fit(drawn.signals[~is_test], drawn.labels[~is_test],
                                groups=drawn.subjects[~is_test]).network_.eval())  # fmt: skip
    windows = torch.as_tensor(drawn.signals[is_test])
    windows = (windows - windows.mean(2, keepdim=True)) / windows.std(2, keepdim=True)
    return models, info, windows, torch.as_tensor(drawn.labels[is_test]), lags - lags[0]


def scalp() -> Figure:
    import mne

    models, info, windows, _, planted = signals()
    result = combined_lags([phase_lags(m, windows, 1, 10.0, RATE) for m in models]).lags.numpy()
    figure, panels = plt.subplots(1, 2, figsize=(6, 3))
    for axes, title, values in zip(panels, ("planted", "found"), (planted, result), strict=True):
        picture, _ = mne.viz.plot_topomap(
            values, info, axes=axes, show=False, cmap="Blues", contours=4, vlim=(0, planted.max()),
            res=48,
        )  # fmt: skip
        axes.set_title(title)
    figure.colorbar(picture, ax=panels, label="lag (degrees)", shrink=0.7)
    return figure


def bands() -> Figure:
    models, _, windows, labels, _ = signals()
    figure, axes = plt.subplots(figsize=(6, 2.6))
    for model in models:
        result = band_importance(model, windows, labels, RATE, highest=30.0)
        axes.plot(result.frequencies, result.loss, linewidth=1.5)
    axes.axvline(10, color=INK, linestyle=":")
    axes.set(xlabel="removed band (Hz)", ylabel="decrease of the margin")
    return figure


def wavelets() -> Figure:
    cards = wavelet_cards(signals()[0][0].cell)[:3]
    figure, panels = plt.subplots(1, 3, figsize=(8, 2.4), sharey=True)
    for axes, card in zip(panels, cards, strict=True):
        for channel in ("Fz", "Cz", "O1"):
            axes.plot(1000 * card.times, card.waveform[ELECTRODES.index(channel)], label=channel)
        axes.set(title=f"{card.frequency:.1f} Hz", xlabel="milliseconds")
    panels[0].legend()
    return figure


def stream() -> Figure:
    models, _, windows, labels, _ = signals()
    stride = models[0].config.stride
    figure, axes = plt.subplots(figsize=(6, 2.8))
    for window, label in list(zip(windows.float(), labels.tolist(), strict=True))[:24]:
        stream = SignalStream(models[0])
        starts = range(0, window.shape[1] - stride + 1, stride)
        chances = [stream.step(window[:, s : s + stride])[1].item() for s in starts]
        axes.plot([(s + stride) / RATE for s in starts], chances, linewidth=0.9,
                  color=LOWERS if label else RAISES)  # fmt: skip
    axes.set(xlabel="seconds of the window read so far", ylabel="probability of “traveling”")
    return figure
