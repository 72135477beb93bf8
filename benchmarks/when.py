"""The page "When to use it, and when not", from wins and losses on the pages of results.

python benchmarks/when.py --out docs/when.md
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import result_pages
from claim_figures import row_of, rows_of, welch
from report import options, publish, table

RESULTS = Path(__file__).parents[1] / "docs" / "results"
COMMAND = "python benchmarks/when.py --out docs/when.md"
AHEAD, LEVEL, BEHIND = "ahead", "level", "behind"
TIE = math.log(1.1)  # ratios of times within a tenth of 1 are a tie, as on the pages of speeds
_NUMBER = r"[+-]?[\d.]+"


@dataclass(frozen=True)
class Comparison:
    """A measured difference."""

    data: str
    ours: str
    other: str
    low: float  # ends of the interval, positive in favor of ours
    high: float
    figure: str  # the difference as the page has it
    page: str
    margin: float = 0.0  # how far from 0 is still level

    @property
    def verdict(self) -> str:
        """Return ahead or behind where the interval excludes 0 and the margin, else level."""
        return AHEAD if self.low > self.margin else BEHIND if self.high < -self.margin else LEVEL


def _link(name: str) -> str:
    return f"[{name}](results/{result_pages.link_of(RESULTS, name)})"


def page_of(name: str) -> str:
    return result_pages.text_of(RESULTS, name)


def own_data() -> Iterator[Comparison]:
    """Yield `fit` with its defaults beside the best simple baseline, set by set."""
    # texts beside the baseline that reads characters, too, which the older page lacks
    kinds = {("own-texts", "Without vectors"): ("fit text", "points", 1),
             ("own-texts", "With GloVe vectors of 50 dimensions"):
                 ("fit text --vectors", "points", 1),
             ("own-data", "Graphs"): ("fit graph", "points", 1),
             ("own-data", "Molecules"): ("fit molecule", "RMSE", -1),
             ("own-data", "Signals"): ("fit signal", "points", 1),
             ("own-data", "Language"): ("fit language", "perplexity", -1)}  # fmt: skip
    for (page, heading), (command, unit, sign) in kinds.items():
        for row in rows_of(page_of(page), heading):
            cell = row["both − baseline"]
            ends = [sign * float(end) for end in re.findall(_NUMBER, cell)[1:]]
            other = row["best simple baseline"].partition(":")[0]
            mean = cell.partition(",")[0].removesuffix(" points")
            figure = f"{mean} {unit} ({cell.partition(', ')[2]})"
            yield Comparison(next(iter(row.values())), f"`{command}`", other, min(ends), max(ends),
                             figure, page)  # fmt: skip


def replacements() -> Iterator[Comparison]:
    """Yield layers beside the layer that they replace, problem by problem."""
    for heading in ("Sequence layers", "Graph layers", "Activations"):
        baseline, *rows = rows_of(page_of("drop-in"), heading)
        first = next(iter(baseline))
        for row in rows:
            if row[first].startswith("`nn."):
                continue  # nn.GRU is no layer of this library
            for problem, cell in list(row.items())[1:-1]:
                results = re.search(rf"\(({_NUMBER}) ± ([\d.]+)\)", cell)
                assert results is not None, cell
                mean, half = float(results[1]), float(results[2])
                yield Comparison(problem, row[first], baseline[first], mean - half, mean + half,
                                 f"{results[1]} ± {results[2]} points", "drop-in")  # fmt: skip


def times(
    page: str, heading: str, column: int, names: dict[str, str], other: str, data: str
) -> Iterator[Comparison]:
    """Yield ratios of times in the n-th column called speedup of a table below a heading."""
    head, rows = next(result_pages.tables(page_of(page).partition(f"{heading}\n")[2]))
    columns = [k for k, title in enumerate(head) if title.startswith("speedup over")]
    for name, ours in names.items():
        cell = next(row for row in rows if row[0] == name)[columns[column]]
        ratio, low, high = (float(number) for number in re.findall(r"[\d.]+", cell))
        yield Comparison(data, ours, other, math.log(low), math.log(high),
                         f"{ratio:.3g} × as fast ({low:.3g} – {high:.3g})", page, TIE)  # fmt: skip


def speeds() -> Iterator[Comparison]:
    """Yield ratios of CPU times, training steps unless it says otherwise."""
    cells = {"RKM-LSTM": "`RKMLSTM`", "RKM-CIFG": "`RKMCIFG`",
             "Linear Kernel w/ o_t": "`LinearKernelRNN`"}  # fmt: skip
    for shape, data in (
        ("(35, 20, 650, 650)", "training, 650 units, 35 steps"),
        ("(400, 16, 300, 300)", "training, 300 units, 400 steps"),
        ("(1000, 32, 11, 30)", "training, 30 units, 1,000 steps"),
    ):
        heading = f"### (T, B, m, d) = {shape}"
        yield from times("cpu", heading, 1, cells, "`nn.LSTM`", data)
    step = {"RKM-LSTM": "`RKMLSTM.step`", "RKM-LSTM, stream()": "`RKMLSTM.stream`"}
    heading = "### one step, B = 1, m = d = 300"
    yield from times("cpu", heading, 1, step, "`nn.LSTMCell`", "one step of a stream")
    networks = {"WLKernelNN": "`WLKernelNN`", "WLKernelNN, gated": "`WLKernelNN`, gated"}
    heading = page_of("graphs").partition("|  | ms | speedup over GINEConv ×4 |")[0].splitlines()
    last = next(line for line in reversed(heading) if line.startswith("#"))
    yield from times("graphs", last, 0, networks, "GINEConv", "training, one epoch")


def kernels() -> Iterator[Comparison]:
    """Yield summed walks beside Weisfeiler-Lehman, twice the standard error as interval."""
    name = "walks of 1 … n nodes, summed, minus Weisfeiler-Lehman subtree"
    row = row_of(rows_of(page_of("graph-kernels"), "Composed and plain"), name)
    for data, cell in list(row.items())[1:-1]:
        mean, error = (float(number) for number in re.findall(_NUMBER, cell))
        figure = f"{mean:+.1f} ± {2 * error:.1f} points"
        yield Comparison(data, "`RandomWalkKernel`, summed", "Weisfeiler-Lehman subtrees",
                         mean - 2 * error, mean + 2 * error, figure, "graph-kernels")  # fmt: skip


def parts_alone() -> Iterator[Comparison]:
    """Yield a network beside counts of words, and a kernel beside that of fingerprints."""
    column = "3-gram, ours"
    results = welch(page_of("rkm-documents"), "AG News", ("RKM-CIFG", column), ("TF-IDF", column))
    low, high = results.difference - results.half, results.difference + results.half
    figure = f"{results.difference:+.2f} ± {results.half:.2f} points"
    other = "TF-IDF + logistic regression"
    yield Comparison("AG News, the network alone", "RKM-CIFG, 3-grams", other, low, high, figure,
                     "rkm-documents")  # fmt: skip
    row = row_of(rows_of(page_of("gp"), "", "minus that of the first"), "Tanimoto")
    mean, half = (float(number) for number in re.findall(_NUMBER, row["minus that of the first"]))
    yield Comparison("ESOL, Gaussian process", "`SubtreeKernel`", "Tanimoto on fingerprints",
                     mean - half, mean + half, f"{-mean:+.3f} ± {half:.3f} RMSE", "gp")  # fmt: skip


SOURCES: tuple[Callable[[], Iterator[Comparison]], ...] = (
    own_data, parts_alone, kernels, replacements, speeds,
)  # fmt: skip
HEADS = {
    AHEAD: "## Ahead: use it",
    LEVEL: "## Level: choose by what else you need",
    BEHIND: "## Behind: use the other",
}
ABOUT = """\
# When to use it, and when not

Measured wins and losses. *Ahead* and *behind* mean that the 95 % interval of the difference
excludes 0 (of times, that the quartiles are more than a tenth away from 1); everything else is
*level*. No option was set for a data set; the defaults were chosen on some of the same sets and
problems, which favors them there ([log](log.md)). Rows from {drop_in} compare
layers after few steps: how fast they learn, not what they reach. A command wrote the three tables
from the [pages of results](results/index.md)."""
FACTS = """\
## What no measurement changes

- **Use it where a prediction must be taken apart.** Contributions of words, atoms, steps or
  channels sum to the score, exactly and without sampling.
- **Use the kernel first for a few hundred to a few thousand measured molecules.** It needs no
  training of a network, gives an interval, names the atoms, pairs and descriptors behind each
  prediction, tells enantiomers apart, and suggests what to measure next.
- **Do not use it for what a pretrained model knows.** The networks are small and trained from
  scratch. With a GPU and a language that a large model has read, fine-tune that model.
- **On a GPU, compile a layer or train from a CUDA graph**, as `fit language` does and
  `--cuda-graph` asks for. On an H100, from graphs of both, a training step of `StringKernelRNN` as
  by default is 1 to 2.7 times as fast as that of cuDNN's LSTM, one of RKM cells 0.8 to 2.1 times
  (0.9 at 100 units, 2.1 at 300, 1.5 at 650). Launched from Python, Python is what takes the time:
  0.45 to 0.71 times as fast, and 0.46 to 2. A WL network takes 1.4 to 1.7 times as long as GINE
  ([figures](results/gpu.md)).
- **Do not use a cell with feedback for long sequences on parallel hardware.** It is sequential in
  time; take `GatedCNN`, `CNN`, `StringKernelRNN` or a transformer.
- **The kernel of a layer with gates is one that it has learned**, `layer.kernel`: it changes with
  every training step. No kernel of the input and a reference exists there; a layer norm or tanh on
  the candidate leaves none at all, and `layer.kernel` says so.
- **Windows**: the commands need nothing that Windows lacks, by a test, but have not been run there.
  Everything was run on Linux."""


def single() -> list[list[str]]:
    """Return rows of figures without an interval: what, ours, the other's, page."""
    serving = page_of("serving")
    ours, *others = (row["requests a second"] for row in rows_of(serving, "As many requests"))
    results = [["requests a second of 16 clients: `representer serve`, the same network of "
              "`torch.nn` behind FastAPI in one process or two", ours, max(others, key=float),
              "serving"]]  # fmt: skip
    column = "speedup over torch.nn.LSTM on unfolded windows"
    for row in rows_of(page_of("signals-speed"), "", column):
        if row[""] == "n-gram LSTM":
            what = f"training step on signals, stride {row['stride']}: `NgramLSTM` with wavelets, "
            results.append([f"{what}`nn.LSTM` on windows; times as fast", row[column], "1",
                          "signals-speed"])  # fmt: skip
    return [[*row[:-1], _link(row[-1])] for row in results]


def comparisons() -> list[Comparison]:
    return [comparison for source in SOURCES for comparison in source()]


def rows(results: list[Comparison], verdict: str) -> list[list[str]]:
    """Return the rows of a verdict; what differs by data alone makes one row."""
    groups: dict[tuple[str, str, str], list[Comparison]] = defaultdict(list)
    for comparison in results:
        if comparison.verdict == verdict:
            groups[comparison.ours, comparison.other, comparison.page].append(comparison)
    return [
        [ours, other, "<br>".join(f"{each.data}: {each.figure}" for each in members),
         _link(page)]
        for (ours, other, page), members in groups.items()
    ]  # fmt: skip


def text() -> str:
    results = comparisons()
    counts = {
        verdict: sum(comparison.verdict == verdict for comparison in results) for verdict in HEADS
    }
    total = ", ".join(f"**{count} {verdict}**" for verdict, count in counts.items())
    parts = [
        ABOUT.format(drop_in=_link("drop-in")), f"Of {len(results)} comparisons: {total}.", FACTS,
    ]  # fmt: skip
    for verdict, head in HEADS.items():
        columns = ["use" if verdict == AHEAD else "ours", "instead of", "measured", "page"]
        body = table(columns, rows(results, verdict)).replace("---:", "---")
        parts += [f"{head}\n\n{body}"]
    alone = table(["figures of one run, without an interval", "ours", "the other's", "page"],
                  single())  # fmt: skip
    parts.append(f"## Measured without an interval\n\n{alone}")
    parts.append(f"Written by `{COMMAND}`. Your own data decide: `representer compare DATA` trains "
                 "kernel, network, both and the baselines on five splits, and says which to use "
                 "([how](howto/compare.md)).")  # fmt: skip
    return "\n\n".join(parts) + "\n"


def main() -> None:
    publish(text(), options("Write when to use the library, and when not.").out)


if __name__ == "__main__":
    main()
