"""Explain the prediction for a molecule by exact contributions of walks over its atoms.

A member is y = W_2 relu(W_1 h_G + b_1) + b_2. Given which relus are active, a prediction is a
weighted sum of the units of h_G, and each unit is a sum over the walks of the molecule. All members
use the same walks, so the contribution of a walk to the mean prediction is the mean of its
contributions. A Gaussian process adds one number that is not a sum over walks. For a
classification, the explained score is the logit of the predicted class minus the mean of all
logits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.errors import KindError
from representer.explain import WalkContribution, top_walks, walk_readout
from representer.kernels.smiles import parse_smiles
from representer.models import GraphRegressor
from representer.report.molecule_drawing import spread_walks
from representer.tasks.molecule.molecule_run import NAMES, TrainedMolecule


def can_explain(trained: TrainedMolecule) -> bool:
    """Return True if predictions are sums over walks."""
    return trained.model.config.network != "gine"


def explain_molecule(
    trained: TrainedMolecule, smiles: str, graph: Any, top: int, target: int = 0
) -> dict[str, Any]:
    """Explain the prediction for a molecule.

    Args:
        trained: The model.
        smiles: The molecule.
        graph: Its graph.
        top: Number of walks to list.
        target: Index of the target.

    Returns:
        ``prediction``, ``uncertainty``, ``constant`` and the largest ``walks``: contributions of
        all walks and the constant sum to ``evidence``; with the part of a Gaussian process,
        ``gp``, to the prediction; ``atoms`` and ``bonds``, the contributions by
        atom and bond; and ``unit``, the strongest unit of the first member, with its largest walks.

    Raises:
        KindError: If the prediction is not a sum over walks.
    """
    if not can_explain(trained):
        hint = "Its output is not a sum of contributions."
        network = trained.model.config.network
        raise KindError("the network of the run", NAMES[network], "wl or random-walk", hint=hint)
    predictions = trained.predict([graph])
    label = None
    if predictions.numbers is None:
        chances = predictions.probabilities[target][0]
        label = int(chances.argmax())
        shown = trained.targets.classes[target][label]
        uncertainty, gp = float(1 - chances[label]), 0.0
    else:
        assert predictions.deviations is not None
        shown = float(predictions.numbers[0, target])
        uncertainty = float(predictions.deviations[0, target])
        gp = shown - float(trained.mean([graph])[0, target])
    shares: dict[tuple[int, ...], float] = {}
    constant, strongest = 0.0, None
    for member in trained.model.members:
        assert isinstance(member, GraphRegressor)
        weights, own = _weights(trained, member, graph, target, label)
        constant += own / len(trained.model.members)
        for walk, share in walk_readout(member.network, graph, weights):  # type: ignore[arg-type]
            shares[walk] = shares.get(walk, 0.0) + share / len(trained.model.members)
        if strongest is None:
            strongest = _strongest(member, graph, weights, top)
    every = [WalkContribution(walk, share) for walk, share in shares.items()]
    every.sort(key=lambda walk: -abs(walk.contribution))
    assert strongest is not None
    molecule = parse_smiles(smiles)
    symbols = [f"{a.GetSymbol()}{a.GetIdx() + 1}" for a in molecule.GetAtoms()]
    unit, effect, best = strongest
    return {
        "smiles": smiles,
        "target": trained.targets.names[target],
        "prediction": shown,
        "uncertainty": uncertainty,
        "constant": constant,
        "gp": gp,
        "evidence": constant + sum(share for _, share in every),
        "walks": [_named(walk, symbols) for walk in every[:top]],
        **spread_walks(molecule, every),
        "unit": {
            "number": unit,
            "effect": effect,
            "walks": [_named(walk, symbols) for walk in best],
            **spread_walks(molecule, best),
        },
    }


@torch.no_grad()
def _weights(
    trained: TrainedMolecule, member: GraphRegressor, graph: Any, target: int, label: int | None
) -> tuple[Tensor, float]:
    """Return the weight of each unit of h_G in the prediction, and the part of the biases."""
    first, second = (layer for layer in member.head if isinstance(layer, torch.nn.Linear))
    h = member.encode(graph.x, graph.edge_index, graph.edge_attr)[0]
    on = (first(h) > 0).to(h.dtype)
    rows = (second.weight * on) @ first.weight
    constants = (second.weight * on) @ first.bias + second.bias
    targets = trained.targets
    if label is None:
        scale, mean = targets.scales[target], targets.means[target]
        return rows[target] * scale, constants[target].item() * scale + mean
    start = sum(targets.widths[:target])
    own = slice(start, start + targets.widths[target])
    rows, constants = rows[own], constants[own]
    return rows[label] - rows.mean(0), (constants[label] - constants.mean()).item()


@torch.no_grad()
def _strongest(
    member: GraphRegressor, graph: Any, weights: Tensor, top: int
) -> tuple[int, float, list[WalkContribution]]:
    """Return the strongest unit, its contribution, and its largest walks at the last level."""
    effects = weights * member.encode(graph.x, graph.edge_index, graph.edge_attr)[0]
    unit = int(effects.abs().argmax())
    weight = weights[unit].item()
    walks = top_walks(member.network, graph, unit, top)  # type: ignore[arg-type]
    return unit, effects[unit].item(), [WalkContribution(w, share * weight) for w, share in walks]


def _named(walk: WalkContribution, symbols: list[str]) -> dict[str, Any]:
    return {
        "atoms": list(walk.positions),
        "text": "–".join(symbols[v] for v in walk.positions),
        "contribution": walk.contribution,
    }
