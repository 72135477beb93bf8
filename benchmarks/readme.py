"""Write the README's picture and its measured figures.

    python benchmarks/readme.py

The figures come from docs/results, the picture from a layer, its explanation and its exact kernel.
A test runs `with_figures` on the README and fails where a figure is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import result_pages
from representer import kernels, nn
from representer.explain import top_ngrams

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PICTURE = ROOT / "docs" / "assets" / "kernel-and-network.svg"
SHAPES = {
    "35 × 20 × 650": "(T, B, m, d) = (35, 20, 650, 650)",
    "400 × 16 × 300": "(T, B, m, d) = (400, 16, 300, 300)",
    "1000 × 32 × 30": "(T, B, m, d) = (1000, 32, 11, 30)",
}
CELLS = ("RKM-LSTM", "RKM-CIFG", "Linear Kernel w/ o_t")


def speed_table() -> str:
    """Return nn.LSTM's time over each cell's, forward and backward, as a Markdown table."""
    page = result_pages.text_of(RESULTS, "cpu")
    processor = _match(page, r"^\| processor \| (.*?), ", "processor")
    used = _match(page, r"^\| instruction sets.*used: (\w+)", "instruction set").upper()
    used = used.replace("AVX512", "AVX-512")
    versions = _match(page, r"^\| versions \|.*torch ([\d.]+)", "version of torch")
    lines = [
        f"Time of `nn.LSTM` over the layer's, one thread of an {processor} with {used},",
        f"torch {versions}, float32, forward + backward:",
        "",
        f"| steps × batch × units | {' | '.join(f'`{_layer(cell)}`' for cell in CELLS)} |",
        f"| --- |{' ---: |' * len(CELLS)}",
    ]
    for label, shape in SHAPES.items():
        section = page.partition(f"### {shape}\n")[2].partition("\n### ")[0]
        ratios = [
            _match(section, rf"^\| {re.escape(cell)} \|(?:[^|]*\|){{4}} ([\d.]+) ", cell)
            for cell in CELLS
        ]
        lines.append(f"| {label} | {' | '.join(f'{ratio} ×' for ratio in ratios)} |")
    return "\n".join(lines)


def gain_sentences() -> str:
    """Return what the swap gains and does not, beside cells with a better start."""
    text = result_pages.text_of(RESULTS, "drop-in-starts")
    seeds = _match(text, r"^\| (\d+) seeds ", "seeds", "layer-swaps")
    rows = [
        _match(text, rf"^\| `{re.escape(name)}` \| (.*) \|$", name, "layer-swaps").split(" | ")
        for name in ("nn.LSTM", "nn.LSTM, chrono start", "nn.GRU", "RKMCIFG")
    ]
    (lstm, chrono, gru, cifg), code = (
        [row[column].strip("*").split(" ")[0] for row in rows] for column in (3, 5)
    )
    return (
        f"Of the sum of two among 50 numbers it explains {cifg} % of the variance after 900 steps, "
        f"where\n`nn.LSTM` has {lstm}, one that starts with a long memory {chrono}, and a GRU "
        f"{gru}. Of lines with\nor without swapped tokens, it tells {code[3]} % apart ({code[0]}, "
        f"{code[1]} and {code[2]};\n{seeds} seeds, "
        "[all six problems](docs/results/layer-swaps.md#drop-in-starts))."
    )


def _layer(cell: str) -> str:
    return {"RKM-LSTM": "RKMLSTM", "RKM-CIFG": "RKMCIFG"}.get(cell, "LinearKernelRNN")


def _match(text: str, pattern: str, what: str, page: str = "cpu-speed") -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"docs/results/{page}.md has no {what}; its command writes the page.")
    return match[1]


FIGURES: dict[str, Callable[[], str]] = {"gain": gain_sentences, "speed": speed_table}


def with_figures(text: str) -> str:
    """Return a page with each block between ``<!-- figure NAME -->`` markers written anew."""
    for name, write in FIGURES.items():
        start, end = f"<!-- figure {name} -->\n", "\n<!-- end of figure -->"
        before, match, rest = text.partition(start)
        if not match or end not in rest:
            raise SystemExit(f"README.md has no block {start!r} … {end!r}.")
        text = before + start + write() + rest[rest.index(end) :]
    return text


WORDS = ["never", "a", "great", "plot", ",", "but", "not", "a", "good", "film", "either"]
REFERENCE = ("not", "good")
_ALIKE = {"not": (1.0, 0.0, 0.0, 0.0), "never": (0.8, 0.6, 0.0, 0.0)}
_ALIKE |= {"good": (0.0, 0.0, 1.0, 0.0), "great": (0.0, 0.0, 0.8, 0.6)}


def vectors(words: Sequence[str]) -> torch.Tensor:
    """Return a unit vector a word, (T, 4); never is near not, great near good, others are 0."""
    return torch.tensor([_ALIKE.get(word, (0.0,) * 4) for word in words], dtype=torch.float64)


def draw(path: Path) -> None:
    """Draw the n-grams of a sentence that one unit matches, and the sums that agree."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure
    from matplotlib.patches import Arc

    kernel = kernels.StringKernel(order=2, decay=0.8)
    layer = kernel.network(4, 1, dtype=torch.float64)
    assert isinstance(layer, nn.StringKernelRNN)
    references = vectors(REFERENCE)
    with torch.no_grad():
        layer.get_parameter("weight_ih_l0").copy_(references)  # one unit: (n, I)
    sentence = vectors(WORDS)
    ngrams = [each for each in top_ngrams(layer, sentence, 0, k=10) if each.contribution]
    with torch.no_grad():
        unit = float(layer.cell_states(sentence[:, None])[-1, 0, -1, 0])
    exact = float(kernel([sentence], [references])[0, 0])
    total = sum(each.contribution for each in ngrams)
    assert abs(total - unit) < 1e-12
    assert abs(unit - exact) < 1e-12

    rcParams["svg.hashsalt"], rcParams["svg.fonttype"] = "representer", "none"
    figure = Figure(figsize=(10.0, 3.5))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, 10), ylim=(0, 3.7))
    axes.set_axis_off()
    axes.patch.set_alpha(0)
    places = [0.6 + 0.88 * t for t in range(len(WORDS))]
    for word, x in zip(WORDS, places, strict=True):
        used = word in _ALIKE
        axes.text(x, 0.75, word, ha="center", size=14, color="#3d7cc4" if used else "#888888")
    largest = ngrams[0].contribution
    for each in ngrams:
        first, last = (places[position] for position in each.positions)
        width, height = last - first, 0.6 + 0.25 * (last - first)
        part = each.contribution / largest
        axes.add_patch(
            Arc(
                ((first + last) / 2, 1.02), width, 2 * height, theta1=0, theta2=180,
                color="#3d7cc4", lw=0.8 + 4 * part, alpha=0.35 + 0.6 * part,
            )
        )  # fmt: skip
        axes.text(
            (first + last) / 2, 1.08 + height, f"{each.contribution:.3f}", ha="center", size=11,
            color="#3d7cc4",
        )  # fmt: skip
    axes.text(
        5.0, 0.2, f"sum of {len(ngrams)} n-grams  =  one unit of nn.StringKernelRNN  =  "
        f"StringKernel(sentence, “{' … '.join(REFERENCE)}”)  =  {total:.4f}",
        ha="center", size=12, color="#888888",
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None}, transparent=True)


def main() -> None:
    readme = ROOT / "README.md"
    draw(PICTURE)
    readme.write_text(with_figures(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
