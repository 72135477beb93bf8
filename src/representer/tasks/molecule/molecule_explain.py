"""Explain the prediction for a molecule by exact contributions of walks over its atoms.

See `representer.estimators.graph_explanation` for the sum. A Gaussian process adds one number that
is not a sum over walks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.data.molecules import parse_smiles
from representer.errors import KindError
from representer.estimators.graph_explanation import head_weights, mean_walks
from representer.explain import WalkContribution, top_walks
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
    members = [member for member in trained.model.members if isinstance(member, GraphRegressor)]
    heads = [_weights(trained, member, graph, target, label) for member in members]
    constant = 0.0
    for _, own in heads:
        constant += own / len(members)
    every = mean_walks(trained.model, graph, [weights for weights, _ in heads])
    strongest = _strongest(members[0], graph, heads[0][0], top)
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


def _weights(
    trained: TrainedMolecule, member: GraphRegressor, graph: Any, target: int, label: int | None
) -> tuple[Tensor, float]:
    """Return the weight of each unit of h_G in the prediction, and the part of the biases."""
    targets = trained.targets
    start = sum(targets.widths[:target])
    own = slice(start, start + targets.widths[target])
    weights, constant = head_weights(member, graph, own, label)
    if label is None:
        scale, mean = targets.scales[target], targets.means[target]
        return weights * scale, constant * scale + mean
    return weights, constant


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
