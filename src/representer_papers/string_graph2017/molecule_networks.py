r"""The networks of L17 Table 3 for molecules, as in the authors' code.

The two classes below are the table's baselines. All networks end in a hidden layer and a number,

    y = w relu(W h_G + b) + b'

and all weights are initialized from N(0, min(1/sqrt(fan_in), 1/10)^2), biases to 0.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import nn as layers
from representer.models import draw_as_authors
from representer.ops import walk_aggregate
from representer_papers.shared.graph_store import GraphBatch
from representer_papers.string_graph2017.published import BY_NAME

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
        given = self.first(torch.cat((graphs.x[source], graphs.edge_attr), dim=1))
        messages = F.relu(given)
        for _ in range(DEPTH - 1):
            reached = _sum_at(messages, target, len(graphs.x))
            messages = F.relu(given + self.message(reached[source] - messages[back]))
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
        row: A key of ``table3.NETWORKS``.
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
            atoms,
            units,
            DEPTH,
            edge_dim=bonds,
            label_channels=units,
            sigma="relu",
            **options,
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
