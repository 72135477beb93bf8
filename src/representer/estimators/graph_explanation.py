"""The output of an ensemble of graph networks as an exact sum over the walks of a graph.

A member is y = W_2 relu(W_1 h_G + b_1) + b_2, or with asinh(h_G). Given which relus are active, and
the factor asinh(h) / h of each unit, an output is a weighted sum of the units of h_G, and each unit
is a sum over the walks of the graph. All members use the
same walks, so the contribution of a walk to the mean output is the mean of its contributions. For
classes, the explained score is the logit of a class minus the mean of all logits, since a constant
added to all logits does not change the prediction.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from representer.errors import KindError
from representer.estimators.targets import centered
from representer.explain import WalkContribution, walk_readout
from representer.models import GraphEnsemble, GraphRegressor


class WalkSum(NamedTuple):
    """A score, and the contributions that sum to it.

    Attributes:
        score: From a forward pass of the network, not from the contributions.
        constant: Contribution of the biases.
        walks: Contributions of the walks, the largest in size first.
    """

    score: float
    constant: float
    walks: list[WalkContribution]


@torch.no_grad()
def walk_sum(model: GraphEnsemble, graph: Any, width: int, output: int) -> WalkSum:
    """Return the mean score of the members for a graph, in float64, as a sum over its walks.

    Args:
        model: The ensemble.
        graph: A graph with x, edge_index and edge_attr.
        width: Number of classes of the first target; 1 for a number.
        output: The class whose score is explained; 0 for a number.

    Raises:
        KindError: The network's outputs are not sums over walks.
    """
    if model.config.network == "gine":
        hint = "Its output is not a sum of contributions."
        raise KindError("network", "gine", "wl or random-walk", hint=hint)
    model = copy.deepcopy(model).double()
    graph = graph.clone()
    graph.x = graph.x.double()
    if graph.edge_attr is not None:
        graph.edge_attr = graph.edge_attr.double()
    outputs = model(graph.x, graph.edge_index, graph.edge_attr)[:, 0, :width]
    scores = centered(outputs.T)[output]
    members = [cast(GraphRegressor, member) for member in model.members]
    heads = [head_weights(member, graph, width, output) for member in members]
    constant = sum(constant for _, constant in heads) / len(heads)
    walks = mean_walks(model, graph, [weights for weights, _ in heads])
    return WalkSum(scores.mean().item(), constant, walks)


def mean_walks(
    model: GraphEnsemble, graph: Any, weights: Sequence[Tensor]
) -> list[WalkContribution]:
    """Return the contributions of all walks to the mean of the members, the largest first."""
    total: dict[tuple[int, ...], float] = {}
    count = len(model.members)
    for member, own in zip(model.members, weights, strict=True):
        for walk, value in walk_readout(member.network, graph, own):  # type: ignore[arg-type]
            total[walk] = total.get(walk, 0.0) + value / count
    walks = [WalkContribution(walk, value) for walk, value in total.items()]
    return sorted(walks, key=lambda walk: -abs(walk.contribution))


def one_direction(walks: Sequence[WalkContribution]) -> list[WalkContribution]:
    """Add the contribution of each walk to that of its reverse, if both are there."""
    values = {walk.positions: walk.contribution for walk in walks}
    return [
        WalkContribution(at, value + (values.get(at[::-1], 0.0) if at != at[::-1] else 0.0))
        for at, value in values.items()
        if at <= at[::-1] or at[::-1] not in values
    ]


@torch.no_grad()
def head_weights(
    member: GraphRegressor, graph: Any, width: int, output: int
) -> tuple[Tensor, float]:
    """Return the weight of each unit of h_G in a score, and the contribution of the biases."""
    first, second = (layer for layer in member.head if isinstance(layer, torch.nn.Linear))
    h = member.encode(graph.x, graph.edge_index, graph.edge_attr)[0]
    scale = torch.ones_like(h)
    if member.config.compress:
        scale = torch.where(h == 0, scale, torch.asinh(h) / h)
    on = (first(scale * h) > 0).to(h.dtype)
    rows = (scale * ((second.weight * on) @ first.weight))[:width]
    constants = ((second.weight * on) @ first.bias + second.bias)[:width]
    return centered(rows)[output], centered(constants)[output].item()
