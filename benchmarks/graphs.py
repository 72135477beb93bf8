"""How fast neighbor sums, graph networks and graph kernels are beside their peers, on one thread.

    python benchmarks/graphs.py --out docs/results/graphs.md

takes a few minutes; ``--quick`` takes one round of everything and is for development. The rows of
GraKeL are measured where it is installed (``pip install grakel``).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, global_add_pool

from machine import load
from report import machine_table, publish, spread, table
from representer.kernels import RandomWalkKernel, WeisfeilerLehmanKernel
from representer.nn import WLKernelNN
from representer.nn.graph.neighbor_sum import NeighborSum
from representer.ops import core, walk_aggregate
from timing import Candidate, Rounds, interleave

OURS, SCATTER = "ops.walk_aggregate", "PyG, scatter"
TOLERANCE = 1e-4  # of the largest entry, float32
ABOUT = """\
Written by the command below; no number here was typed. Random graphs and weights, one thread, the
process's CPU time. The candidates of a table ran interleaved in one process; a time is the median
of the rounds with the quartiles behind it, a ratio was taken within each round. Before anything was
timed, values (and of the operator gradients) were compared.

*PyG, scatter* is the same message, written as a `MessagePassing` layer: gathered for each edge,
computed in tensors of edges × units, scattered."""
PARTS = {
    "plain": "sum of the neighbors",
    "factor": "times a product with the bond, (W_b e)",
    "shift": "relu(x + W_b e), as in GINE",
    "factor gate edge": "gated by σ(p_u + q_v + W_g e), times W_b e",
}
MOLECULES = (1600, 3400, 6, 64)  # 64 of 25 atoms and 53 directed bonds
LARGE = (20_000, 100_000, 6, 64)
ATOMS, BONDS, WIDTH, LEVELS = 40, 6, 64, 4
COUNT, BATCH = 2_000, 64


class Scatter(NeighborSum):
    """The same sum by PyG's own gather and scatter."""

    def forward(self, nodes: Tensor, edge_index: Tensor, **options: Any) -> Tensor:
        """Sum the messages that reach each node."""
        given = dict.fromkeys(
            ("edge_attr", "shift", "factor", "source_gate", "target_gate", "edge_gate")
        )
        given |= {"scale": 1.0, "activation": "identity"} | options
        return self.propagate(edge_index, nodes=nodes, **given)


@dataclass(frozen=True)
class Section:
    """One table: what was timed, and over which its times are divided."""

    title: str
    candidates: list[Candidate]
    peer: str


def operands(sizes: tuple[int, int, int, int], parts: str) -> dict[str, Any]:
    torch.manual_seed(0)
    N, E, K, H = sizes
    given: dict[str, Any] = {"nodes": torch.randn(N, H), "edge_index": torch.randint(0, N, (2, E))}
    if parts != "plain":
        given["edge_attr"] = torch.randn(E, K)
    for name in {"shift", "factor"} & set(parts.split()):
        given[name] = torch.randn(H, K) / K**0.5
    if "gate" in parts:
        given |= {f"{end}_gate": torch.randn(N, H) for end in ("source", "target")}
        given["edge_gate"] = torch.randn(H, K)
    for name, tensor in given.items():
        if name not in ("edge_index", "edge_attr"):
            tensor.requires_grad_()
    return given | ({"activation": "relu"} if "shift" in parts else {})


def sums(sizes: tuple[int, int, int, int], parts: str, backward: bool) -> Section:
    given = operands(sizes, parts)
    marked = [x for x in given.values() if isinstance(x, Tensor) and x.requires_grad]
    slopes, peer = torch.randn(sizes[0], sizes[3]), Scatter()

    def forward(run: Callable[..., Tensor]) -> object:
        with torch.no_grad():
            return run(**given)

    def both(run: Callable[..., Tensor]) -> object:
        return torch.autograd.grad(run(**given), marked, slopes)

    for find in (forward, both):
        ours, theirs = (find(run) for run in (walk_aggregate, peer))
        pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (ours, theirs)), strict=True)
        for a, b in pairs:
            if not (a - b).abs().max() < TOLERANCE * b.abs().max():
                raise SystemExit(f"{parts}: the values differ; nothing is timed")
    step = both if backward else forward
    runs = [
        Candidate(OURS, lambda: step(walk_aggregate)),
        Candidate(SCATTER, lambda: step(peer)),
    ]
    passes = "forward + backward" if backward else "forward"
    return Section(f"{PARTS[parts]}; {passes}", runs, SCATTER)


def molecules() -> list[Data]:
    """Return random graphs of the size of molecules: a tree and a few rings, both ways."""
    rng, made = np.random.default_rng(0), []
    for _ in range(COUNT):
        size = int(rng.integers(17, 33))
        ends = [(int(rng.integers(max(0, v - 3), v)), v) for v in range(1, size)]
        ends += [(v, v - 5) for v in rng.choice(np.arange(5, size), 2, replace=False).tolist()]
        index = torch.tensor([*ends, *((v, u) for u, v in ends)]).T.contiguous()
        atoms, bonds = torch.zeros(size, ATOMS), torch.rand(len(ends), BONDS).round()
        atoms[torch.arange(size), torch.from_numpy(rng.integers(0, ATOMS, size))] = 1
        made.append(Data(x=atoms, edge_index=index, edge_attr=bonds.repeat(2, 1), y=torch.randn(1)))
    return made


class Gine(nn.Module):
    """Four layers of GINEConv of the same width, read out by a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(ATOMS, WIDTH)
        self.layers = nn.ModuleList(
            GINEConv(
                nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)),
                edge_dim=BONDS,
            )
            for _ in range(LEVELS)
        )

    def forward(self, x: Tensor, edges: Tensor, bonds: Tensor, batch: Tensor, size: int) -> Tensor:
        """Return the sum over the atoms of each molecule."""
        h = self.first(x)
        for layer in self.layers:
            h = layer(h, edges, bonds).relu()
        return global_add_pool(h, batch, size)


def epochs() -> Section:
    data = molecules()
    batches = [Batch.from_data_list(data[i : i + BATCH]) for i in range(0, COUNT, BATCH)]
    same = {"depth": LEVELS, "edge_dim": BONDS, "label_channels": WIDTH}
    nets = {
        "GINEConv ×4": Gine(),
        "WLKernelNN": WLKernelNN(ATOMS, WIDTH, **same),
        "WLKernelNN, gated": WLKernelNN(ATOMS, WIDTH, decay="gated", **same),
    }

    def epoch(net: nn.Module) -> Callable[[], object]:
        model = nn.ModuleList((net, nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                                                  nn.Linear(WIDTH, 1))))  # fmt: skip
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

        def run() -> None:
            for b in batches:
                h = net(b.x, b.edge_index, b.edge_attr, b.batch, b.num_graphs)
                optimizer.zero_grad()
                nn.functional.mse_loss(model[1](h)[:, 0], b.y).backward()
                optimizer.step()

        return run

    runs = [Candidate(name, epoch(net)) for name, net in nets.items()]
    title = f"An epoch over {COUNT:,} molecules, width {WIDTH}, {LEVELS} rounds, batches of {BATCH}"
    return Section(title, runs, "GINEConv ×4")


def grams(quick: bool) -> list[Section]:
    rng = np.random.default_rng(0)
    named, words, real = [], [], []
    for i in range(200):
        graph = nx.gnp_random_graph(25, 0.15, seed=i)
        labels = rng.integers(0, 6, 25).tolist()
        nx.set_node_attributes(graph, {v: str(labels[v]) for v in graph}, "x")
        named.append(graph)
        ends = torch.tensor(list(nx.DiGraph(graph).edges)).T
        x = torch.from_numpy(rng.normal(size=(25, 6)))
        real.append(Data(x=x, edge_index=ends))
        words.append(Data(x=torch.tensor(labels), edge_index=ends))  # read before, as GraKeL's
    subtree, walks = WeisfeilerLehmanKernel(depth=4), RandomWalkKernel(3, base="delta")
    features = RandomWalkKernel(3)
    runs = [
        Candidate("kernels.WeisfeilerLehmanKernel(depth=4)", lambda: subtree(words)),
        Candidate("kernels.RandomWalkKernel(3), labels", lambda: walks(words)),
        Candidate("kernels.RandomWalkKernel(3), 6 real features", lambda: features(real)),
    ]
    peer = runs[0].name
    if importlib.util.find_spec("grakel"):
        import grakel

        theirs = list(grakel.graph_from_networkx(named, node_labels_tag="x"))

        def grakel_wl() -> np.ndarray:
            base = grakel.VertexHistogram
            return grakel.WeisfeilerLehman(n_iter=4, base_graph_kernel=base).fit_transform(theirs)

        if not np.array_equal(grakel_wl(), subtree(words)):
            raise SystemExit("GraKeL's Weisfeiler-Lehman kernel differs; nothing is timed")
        peer = "GraKeL WeisfeilerLehman(n_iter=4)"
        runs.append(Candidate(peer, grakel_wl))
        few = theirs[: 4 if quick else 12]

        def grakel_walks() -> np.ndarray:
            return grakel.RandomWalkLabeled(p=2, kernel_type="geometric").fit_transform(few)

        runs.append(
            Candidate(f"GraKeL RandomWalkLabeled(p=2), the first {len(few)}", grakel_walks, True)
        )
        ours = Candidate(f"kernels.RandomWalkKernel(3), the first {len(few)}",
                         lambda: walks(words[: len(few)]))  # fmt: skip
        labeled = Section("Labeled walks of three nodes, few graphs", [ours, runs.pop()], "")
        labeled = Section(labeled.title, labeled.candidates, labeled.candidates[1].name)
        return [Section("Gram of 200 graphs, 25 nodes, 6 labels", runs, peer), labeled]
    return [Section("Gram of 200 graphs, 25 nodes, 6 labels", runs, peer)]


def text_of(section: Section, rounds: Rounds) -> str:
    head = ["", "ms", f"time of {section.peer} over its own"]
    rows = [
        [name, spread(rounds.spread(name), 1e3), spread(rounds.ratio(section.peer, name))]
        for name in rounds.seconds
    ]
    return f"### {section.title}\n\n{table(head, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure graphs on this machine's CPU.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--quick", action="store_true", help="one round, not to be quoted")
    parser.add_argument("--repeats", type=int, default=9, help="rounds; slow ones take part in 3")
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    torch.set_num_threads(1)
    before = load()
    repeats, slow = (1, 1) if chosen.quick else (chosen.repeats, 3)
    parts = []

    def measure(section: Section) -> None:
        print(section.title, file=sys.stderr, flush=True)
        rounds = interleave(section.candidates, time.process_time, repeats, slow)
        parts.append(text_of(section, rounds))

    for name, sizes in (("a batch of molecules", MOLECULES), ("one large random graph", LARGE)):
        N, E, K, H = sizes
        parts.append(f"## Neighbor sums: {name}, {N:,} nodes, {E:,} edges, K = {K}, H = {H}")
        for kind in PARTS:
            for backward in (False, True):
                measure(sums(sizes, kind, backward))
    parts.append("## Networks")
    measure(epochs())
    parts.append("## Kernels")
    for section in grams(chosen.quick):
        measure(section)
    machine = machine_table(" ".join(["python", *sys.argv]), (before, load()))
    remark = ["A quick run for development: not to be quoted."] if chosen.quick else []
    publish(
        "\n\n".join(["# Graphs: measured speeds", ABOUT, *remark, machine, *parts]) + "\n",
        chosen.out,
    )


if __name__ == "__main__":
    main()
