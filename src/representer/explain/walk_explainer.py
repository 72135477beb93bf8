"""Exact contributions of walks as an algorithm of PyG's ``Explainer`` (extra ``graph``)."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import MaskType, ModelTaskLevel

from representer.explain.walks import walk_readout


class WalkExplainer(ExplainerAlgorithm):
    """The contributions of nodes and edges to the output of a graph-kernel network, without masks.

    The output, before any activation, is a sum over walks (see `walk_readout`). Each walk divides
    its contribution equally among its nodes for ``node_mask`` ``(N, 1)``, and among its edges for
    ``edge_mask`` ``(E,)``, parallel edges included. So each mask sums to the output, except that
    walks of a single node have no edge.

    Raises:
        KindError: The model is not a network whose output is a sum over walks.
    """

    def __init__(self, weights: Tensor | None = None) -> None:
        super().__init__()
        self.weights = weights

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        model: Any,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Explanation:
        """Return the masks that the explainer asks for."""
        weights = x.new_ones(target.shape[-1]) if self.weights is None else self.weights
        graph = Data(x=x, edge_index=edge_index, edge_attr=edge_attr)
        nodes, edges = x.new_zeros(len(x), 1), x.new_zeros(edge_index.shape[1])
        places: dict[tuple[int, int], list[int]] = {}
        for edge, (source, end) in enumerate(edge_index.T.tolist()):
            places.setdefault((source, end), []).append(edge)
        with torch.no_grad():
            walks = walk_readout(model, graph, weights)
        for walk, value in walks:
            nodes[:, 0].index_add_(
                0, torch.tensor(walk), x.new_full((len(walk),), value / len(walk))
            )
            for step in itertools.pairwise(walk):
                same = places[step]
                edges[same] += value / (len(walk) - 1) / len(same)
        config = self.explainer_config
        return Explanation(
            node_mask=None if config.node_mask_type is None else nodes,
            edge_mask=None if config.edge_mask_type is None else edges,
        )

    def supports(self) -> bool:
        """Return True for whole graphs and masks of whole nodes and edges."""
        masks = (self.explainer_config.node_mask_type, self.explainer_config.edge_mask_type)
        is_graph = self.model_config.task_level == ModelTaskLevel.graph
        return is_graph and all(mask in (None, MaskType.object) for mask in masks)
