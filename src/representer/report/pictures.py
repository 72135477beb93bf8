"""Pictures that explain: wavelets, motifs, windows, series, scalp maps, graphs and molecules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from representer.errors import MissingExtraError
from representer.report.figures import (
    BASELINE,
    INK,
    MODEL,
    VALID,
    Drawing,
    both_widths,
    canvas,
    canvases,
    glow,
    not_drawn,
    plain,
    svg,
)

if TYPE_CHECKING:
    from jinja2 import Template
    from rdkit.Chem import Mol


_DRAWN = 6  # strongest channels of a waveform
_MIN_POSITIONS = 4  # known positions required for a map
_CLASSES = (MODEL, VALID, "#4b9a6a", "#a05bb0", "#b0893b", "#5f6b76")
_AGAINST = "#d65c46"


@both_widths
def wavelet(width: float, card: Mapping[str, Any], channels: Sequence[str]) -> Drawing:
    """Plot a wavelet: the waveforms of its strongest channels below each other, and its spectrum.

    ``card`` is an entry of ``signal_filters.describe_filters``.
    """
    figure, (waves, spectrum) = canvases(width, 2.6, 2)
    wave, times = np.asarray(card["waveform"]), np.asarray(card["times"])
    strongest = np.argsort(-np.asarray(card["amplitudes"]))[:_DRAWN]
    _traces(waves, 1000 * times, {channels[int(k)]: wave[k] for k in strongest})
    waves.set_xlabel("ms from the middle of the window")
    power = (np.abs(np.fft.rfft(wave, 1024)) ** 2).sum(0)
    step = times[1] - times[0] if len(times) > 1 else 1.0
    spectrum.plot(np.fft.rfftfreq(1024, step), power / power.max(), color=MODEL)
    spectrum.axvline(card["frequency"], color=VALID, linewidth=1, linestyle=":",
                     label="center")  # fmt: skip
    spectrum.legend(frameon=False, labelcolor=INK, loc="best")
    spectrum.set_xlabel("frequency (Hz)")
    spectrum.set_ylabel("relative power")
    return Drawing(figure, f"Wavelet of the {card['gate']} gate, unit {card['unit']}")


def _traces(axes: Any, times: Any, traces: Mapping[str, Any], *, is_scaled: bool = False) -> None:
    """Plot channels below each other, each beside its name; scaled if their units may differ.

    The middle of each is subtracted: next to 70 beats a minute, a change by 5 is a flat line.
    """
    rows = [np.asarray(trace, dtype=float) for trace in traces.values()]
    rows = [row - (row.max() + row.min()) / 2 for row in rows]
    if is_scaled:
        rows = [row / (np.abs(row).max() or 1.0) for row in rows]
    step = 2.1 * max(float(np.abs(row).max()) for row in rows) or 1.0
    for k, row in enumerate(rows):
        axes.axhline(-k * step, color=BASELINE, linewidth=0.5)
        axes.plot(times, row - k * step, color=MODEL, linewidth=1.1)
    axes.set_yticks([-k * step for k in range(len(traces))], [plain(name) for name in traces])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.01)


@both_widths
def logos(width: float, shown: Mapping[str, Any]) -> Drawing:
    """Draw motifs: above each other the letters that raise the score, as high as they do.

    ``shown`` is an entry of ``SequenceClassifier.motifs``. All logos have one scale.
    """
    figure, axes = canvas(width, 1.0)
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    letters = sorted({letter for logo in shown["logos"] for c in logo["columns"] for letter in c})
    stacks = [
        [sorted((h, letter) for letter, h in column.items() if h > 0) for column in logo["columns"]]
        for logo in shown["logos"]
    ]
    tallest = max((sum(h for h, _ in c) for stack in stacks for c in stack), default=0.0) or 1.0
    across = 2 if width < 5 else 3
    longest = max(map(len, stacks), default=1) + 1
    for k, (stack, logo) in enumerate(zip(stacks, shown["logos"], strict=True)):
        left, base = k % across * longest, -1.5 * (k // across)
        axes.plot([left, left + len(stack)], [base, base], color=BASELINE, linewidth=0.7)
        axes.text(left, base - 0.06, plain(logo["name"]), va="top", color=INK)
        for column, position in zip(stack, range(left, left + len(stack)), strict=True):
            bottom = base
            for height, letter in column:
                path = TextPath((0, 0), plain(letter), size=1)
                box = path.get_extents()
                if box.width == 0 or box.height == 0:
                    continue  # a blank
                scale = 0.9 / box.width, height / tallest / box.height
                moved = Affine2D().translate(-box.x0, -box.y0).scale(*scale)
                moved = moved.translate(position + 0.05, bottom)
                color = _CLASSES[letters.index(letter) % len(_CLASSES)]
                axes.add_patch(PathPatch(moved.transform_path(path), color=color, linewidth=0))
                bottom += height / tallest
    rows = -(-len(stacks) // across)
    figure.set_figheight(0.9 * max(rows, 1) + 0.2)
    axes.set_xlim(-0.2, across * longest)
    axes.set_ylim(-1.5 * max(rows, 1) + 1.05, 1.05)
    axes.set_axis_off()
    return Drawing(figure, f"Motifs of {shown['title']}, {shown['part']}")


@both_widths
def importance(width: float, bands: Mapping[str, Any]) -> Drawing:
    """Plot the decrease of the margin without each frequency band."""
    figure, axes = canvas(width, 2.6)
    axes.bar(bands["frequencies"], bands["loss"], color=MODEL, width=0.8)
    axes.axhline(0, color=BASELINE, linewidth=0.7)
    axes.set_xlabel("center of the removed band (Hz)")
    axes.set_ylabel("decrease of the margin")
    return Drawing(figure, "Importance of each frequency band")


@both_widths
def phases(width: float, lags: Sequence[Mapping[str, Any]], channels: Sequence[str]) -> Drawing:
    """Plot the phase lag of each channel behind the first, for each class.

    Each class has ``lags`` in degrees and ``weights`` of the channels.
    """
    figure, axes = canvas(width, 0.8 + 0.24 * len(channels))
    rows = range(len(channels) - 1, -1, -1)
    for color, row in zip(_CLASSES * len(lags), lags, strict=False):
        largest = max(row["weights"], default=0.0) or 1.0
        sizes = [8 + 70 * weight / largest for weight in row["weights"]]
        axes.scatter(_wrapped(row["lags"]), list(rows), s=sizes, color=color, alpha=0.8,
                     linewidth=0, label=plain(row["class"]))  # fmt: skip
    axes.axvline(0, color=INK, linewidth=1, linestyle=":")
    axes.set_yticks(list(rows), [plain(name) for name in channels])
    axes.set_xlim(-190, 190)
    axes.set_xticks([-180, -90, 0, 90, 180], ["−180°", "−90°", "0°", "90°", "180°"])
    axes.set_xlabel(plain(f"phase lag behind {channels[0]}"))
    axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
    axes.legend(frameon=False, labelcolor=INK, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return Drawing(figure, f"Phase lag of each channel behind {channels[0]}, by class")


def _wrapped(degrees: Sequence[float]) -> list[float]:
    return [(angle + 180) % 360 - 180 for angle in degrees]


def window(entry: Mapping[str, Any]) -> Markup:
    """Plot an explained window: its strongest channels, and the evidence over time and scalp."""
    drawn = _window(entry) if entry["traces"] else Markup("")
    if any(entry["by_channel"]):
        drawn += scalp(entry["by_channel"], entry["channels"], "Evidence of the kernel by channel")
    return drawn


@both_widths
def _window(width: float, entry: Mapping[str, Any]) -> Drawing:
    traces, moments = entry["traces"], entry["moments"]
    times = np.linspace(0, entry["seconds"], len(next(iter(traces.values()))))
    figure, axes = canvases(min(width, 5.2), 2.2, 2 if moments else 1, is_stacked=True)
    _traces(axes[0], times, traces)
    axes[-1].set_xlabel("seconds")
    if moments:
        ends, values = zip(*moments, strict=True)
        step = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else entry["seconds"]
        colors = [MODEL if value >= 0 else _AGAINST for value in values]
        axes[1].bar([end - step / 2 for end in ends], values, 0.9 * step, color=colors)
        axes[1].axhline(0, color=BASELINE, linewidth=0.7)
        axes[1].set_ylabel("contribution")
        axes[1].set_xlim(axes[0].get_xlim())
    return Drawing(figure, "Channels of the window, and the evidence over time")


@both_widths
def series(width: float, entry: Mapping[str, Any]) -> Drawing:
    """Plot an explained series, its steps colored by their contributions, and these below it.

    The entry has ``series``, the values of some channels; ``shown``, the steps that they are of;
    and ``by_step``, the contributions.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    steps, by_step = np.asarray(entry["shown"]), np.asarray(entry["by_step"])
    figure, axes = canvases(min(width, 5.2), 2.6, 2, is_stacked=True)
    _traces(axes[0], steps, entry["series"], is_scaled=True)
    largest = float(np.abs(by_step).max()) or 1.0
    colors = [to_rgba(MODEL if v >= 0 else _AGAINST, abs(v) / largest) for v in by_step]
    for line in axes[0].lines[1::2]:  # after the axis of each channel
        points = np.column_stack([steps, line.get_ydata()])
        middles = (points[1:] + points[:-1]) / 2  # each step has the halves beside it
        ends = np.concatenate([points[:1], middles, points[-1:]])
        parts = np.stack([ends[:-1], points, ends[1:]], axis=1)
        line.set(color=BASELINE, linewidth=0.8)
        axes[0].add_collection(LineCollection(list(parts), colors=colors, linewidths=2.5))
    wide = np.diff(steps, append=2 * steps[-1] + 1).min()
    axes[1].bar(steps, by_step, wide, color=[
        MODEL if value >= 0 else _AGAINST for value in by_step])  # fmt: skip
    axes[1].axhline(0, color=BASELINE, linewidth=0.7)
    axes[1].set_ylabel("contribution")
    axes[1].set_xlabel("step")
    for ax in axes:
        ax.locator_params(axis="x", integer=True)
        ax.set_xlim(steps[0] - wide / 2, steps[-1] + wide / 2)
    return Drawing(figure, "The series, and the contribution of each step")


def scalp(values: Sequence[float], channels: Sequence[str], title: str) -> Markup:
    """Plot values of channels as a scalp map, for channel names of the 10-5 system.

    It is empty if fewer than four channels are known, or mne is not installed.
    """
    try:
        import mne
    except ImportError:
        return Markup("")
    built_in = mne.channels.get_builtin_montages()
    system = next(name for name in ("colin27_1005", "standard_1005") if name in built_in)
    places = mne.channels.make_standard_montage(system).get_positions()["ch_pos"]
    spelled = {name.lower(): name for name in places}
    rows = {spelled[name.lower()]: k for k, name in enumerate(channels) if name.lower() in spelled}
    # T3 is the old name of T7: each position is plotted once
    rows = sorted({tuple(places[name]): k for name, k in rows.items()}.values())
    if len(rows) < _MIN_POSITIONS:
        return Markup("")
    names = [spelled[channels[k].lower()] for k in rows]
    info = mne.create_info(names, 100.0, "eeg", verbose="error")
    info.set_montage(system, on_missing="ignore", verbose="error")
    figure, axes = canvas(3.2, 2.9)
    shown = np.asarray([values[k] for k in rows])
    largest = float(np.abs(shown).max())
    is_signed = shown.min() < 0
    low = -largest if is_signed else float(shown.min())
    mne.viz.plot_topomap(
        shown, info, axes=axes, show=False, contours=3, names=names,
        cmap="RdBu" if is_signed else "Blues",
        vlim=(1.5 * low if is_signed else low, low + 1.5 * (largest - low)),  # names stay readable
    )  # fmt: skip
    for outline in axes.lines:
        outline.set_color(INK)
    for name in axes.texts:  # 11 pixels on a phone, where the map is narrower
        name.set_fontsize(7.7)
    return svg(figure, title)


# Drawings of graphs with the contribution of each node as a colored map.

WIDTH, HEIGHT, MARGIN, RADIUS = 460, 340, 30, 11
MOST_NODES, MOST_EDGES = 150, 2000  # of a graph that is drawn
_ROUNDS = 60


def draw_graph(
    nodes: Sequence[str], edges: Iterable[Sequence[int]], by_node: Sequence[float]
) -> Markup | str:
    """Draw a graph as SVG: blue nodes raise the score of the prediction, red nodes lower it.

    Nodes are numbered as in the names of walks. A large graph is a sentence instead.
    """
    pairs = distinct_edges(edges)
    if sentence := too_large(len(nodes), len(pairs)):
        return sentence
    inner = (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN)
    spots = (MARGIN + positions(len(nodes), pairs) * inner).tolist()
    marks = glow([(x, y, share) for (x, y), share in zip(spots, by_node, strict=True)], 3 * RADIUS)
    lines = [(*spots[u], *spots[v]) for u, v in pairs]
    dots = [(x, y, label, k) for k, ((x, y), label) in enumerate(zip(spots, nodes, strict=True))]
    shown = {"marks": marks, "lines": lines, "dots": dots, "radius": RADIUS}
    return Markup(_template().render(width=WIDTH, height=HEIGHT, **shown))


def distinct_edges(edges: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Return each edge once, in one direction; without loops, which are not drawn."""
    return sorted({(min(u, v), max(u, v)) for u, v in edges if u != v})


def too_large(nodes: int, edges: int) -> str:
    """Return the sentence that a graph is not drawn; an empty text if it is."""
    return not_drawn(nodes, MOST_NODES, "nodes") or not_drawn(edges, MOST_EDGES, "edges")


def positions(count: int, edges: Iterable[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the places of the nodes of a graph in the unit square, ``(count, 2)``.

    Distances in the picture are made like those in the graph by stress majorization (Gansner, Koren
    and North 2004), from classical scaling on. There are at most `MOST_NODES` nodes, since the time
    grows with the cube of their number.
    """
    import networkx as nx

    if count < 2:
        return np.full((count, 2), 0.5)
    graph = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    steps = np.asarray(nx.floyd_warshall_numpy(graph, range(count)))
    steps[np.isinf(steps)] = 1 + np.max(steps, initial=0, where=np.isfinite(steps))
    squares = steps**2
    centered = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    values, vectors = np.linalg.eigh(-centered / 2)
    spots = (vectors * np.sqrt(np.maximum(values, 0)))[:, :-3:-1]  # the longest axis first
    spots = spots + np.random.default_rng(0).normal(scale=0.01, size=spots.shape)  # no two coincide
    weights = (steps > 0) / (steps + np.eye(count)) ** 2
    # the pseudoinverse of the Laplacian: the eigenvalue 0, of constants, is made 1, and back
    solve = np.linalg.inv(np.diag(weights.sum(1)) - weights + 1 / count) - 1 / count
    for _ in range(_ROUNDS):
        lengths = np.hypot(*(spots.T[:, :, None] - spots.T[:, None]))
        pulls = weights * steps / np.maximum(lengths, 1e-9)
        spots = solve @ (np.diag(pulls.sum(1)) - pulls) @ spots
    sizes = np.ptp(spots, axis=0)
    widths = np.maximum(sizes, max(sizes) / 20)  # a path remains a line
    return (spots - spots.min(0)) / widths + (1 - sizes / widths) / 2


@cache
def _template() -> Template:
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise MissingExtraError("the report", "jinja2", "train") from error
    text = Path(__file__).with_name("graph_drawing.svg").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True).from_string(text)


# Drawings of molecules with the contribution of each atom as a colored map, by RDKit.

SCALE = 30  # pixels per unit of length; a bond has 1.5
MOST_ATOMS = 300  # of a molecule that is drawn; RDKit takes 6 s for a chain of 1,000
REACH = 0.95  # of a glow, in bond lengths


def draw_shares(molecule: Mol, shares: Mapping[str, Any]) -> Markup | str:
    """Draw a molecule as SVG: blue atoms raise the prediction, red atoms lower it.

    The most saturated color is that of the largest contribution. Lines and letters have the text
    color of the page, and atoms have the numbers that the names of walks have. A large molecule is
    a sentence instead.
    """
    from rdkit.Chem.Draw import rdMolDraw2D

    if len(shares["atoms"]) != molecule.GetNumAtoms():
        raise ValueError("the contributions belong to another molecule")
    if sentence := not_drawn(molecule.GetNumAtoms(), MOST_ATOMS, "atoms"):
        return sentence
    drawing = rdMolDraw2D.MolDraw2DSVG(-1, -1)  # as large as the molecule needs
    options: Any = drawing.drawOptions()
    options.useBWAtomPalette()
    options.clearBackground = False
    options.addAtomIndices = True
    options.annotationFontScale = 0.6
    options.padding = 0.1
    options.scalingFactor = SCALE
    drawing.DrawMolecule(rdMolDraw2D.PrepareMolForDrawing(molecule))
    drawing.FinishDrawing()
    places = [drawing.GetDrawCoords(atom) for atom in range(molecule.GetNumAtoms())]
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    lengths = [(places[u] - places[v]).Length() for u, v in ends]
    reach = REACH * (sum(lengths) / len(lengths) if lengths else 1.5 * SCALE)
    spots = [
        (position.x, position.y, float(share))
        for position, share in zip(places, shares["atoms"], strict=True)
    ]
    text = drawing.GetDrawingText()
    text = text[text.index("<svg") :].replace("#000000", "currentColor")
    start, end = text.index("<svg"), text.index(">") + 1
    label = '<svg role="img" aria-label="molecule, its atoms colored by their contributions"'
    opening = text[start:end].replace("<svg", label, 1)
    return Markup(opening) + glow(spots, reach) + Markup(text[end:])
