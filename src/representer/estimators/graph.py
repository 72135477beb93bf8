"""Estimators of graphs: features of nodes and edges, a graph-kernel network and a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import nn

from representer.estimators.base import Estimator
from representer.estimators.classes import Classes, ClassTable
from representer.estimators.explanation import Contribution
from representer.estimators.fitting import Examples
from representer.estimators.graph_explanation import walk_sum
from representer.estimators.graph_inputs import GraphInputs
from representer.estimators.graph_parameters import (
    DECAYS,
    MAX_MEMBERS,
    GraphParameters,
    GraphRegressorParameters,
)
from representer.estimators.graph_reading import PlainGraph, read_graphs
from representer.estimators.graph_uncertainty import Uncertainty
from representer.estimators.kinds import Classifier, Regressor
from representer.models import GraphEnsemble, GraphRegressorConfig
from representer.storage.fields import from_values
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder
from representer.training.training_result import TrainingResult


@dataclass(frozen=True)
class EnsembleConfig(GraphRegressorConfig):
    """The configuration of an ensemble of `GraphRegressor` networks.

    Args:
        members: Number of networks.
    """

    members: int = 1

    def __post_init__(self) -> None:
        """Check the values, which may come from a file."""
        super().__post_init__()
        self._require("members", 1 <= self.members <= MAX_MEMBERS, f"1 to {MAX_MEMBERS}")


class GraphEnsembleEstimator(GraphParameters, Estimator):
    """The ensemble of networks for all kinds of graphs."""

    _config: ClassVar[type[EnsembleConfig]] = EnsembleConfig
    network_: GraphEnsemble

    # ---- what a subclass gives

    def _widths(self, inputs: Any) -> tuple[int, int | None]:
        """Return the numbers of features of a node, and of an edge or None."""
        raise NotImplementedError

    def _node_names(self, one: Any) -> Sequence[str]:
        """Return the names of the nodes of an object, for explanations."""
        raise NotImplementedError

    # ---- what is here

    def _configure(self, inputs: Any, width: int) -> EnsembleConfig:
        in_channels, edge_dim = self._widths(inputs)
        return EnsembleConfig(
            in_channels=in_channels,
            outputs=width,
            edge_dim=edge_dim,
            network=self.network,
            hidden_size=self.hidden_size,
            depth=self.depth,
            order=self.order,
            decay=self.decay if self.decay in DECAYS else float(self.decay),
            readout=self.readout,  # type: ignore[arg-type]
            gate_scale=self.gate_scale,
            initial=self.initial,
            dropout=self.dropout,
            members=self.members,
        )

    @staticmethod
    def _make(config: EnsembleConfig) -> GraphEnsemble:
        return GraphEnsemble(config, config.members)

    def _explain(self, one: Any) -> tuple[float, float, list[Contribution]]:
        (graph,) = self.inputs_.encode([one])
        target = self.target_.columns[0] if isinstance(self.target_, ClassTable) else self.target_
        is_class = isinstance(target, Classes)
        width = target.width if is_class else 1
        result = walk_sum(self.network_, graph, width, has_classes=is_class)
        names = self._node_names(one)
        parts = [
            Contribution("–".join(names[v] for v in walk), walk, "network", value)
            for walk, value in result.walks
        ]
        return result.score, result.constant, parts

    def _require_sizes(self, config: EnsembleConfig) -> None:
        in_channels, edge_dim = self._widths(self.inputs_)
        for what, got, expected in (
            ("features of a node", in_channels, config.in_channels),
            ("features of an edge", edge_dim or 0, config.edge_dim or 0),
            ("outputs", self.target_.width, config.outputs),
        ):
            if got != expected:
                raise ValueError(f"it has {got} {what}; the model has {expected}")


class GraphEnsembleRegressor(GraphRegressorParameters, GraphEnsembleEstimator, Regressor):
    """A regressor with calibrated uncertainties, see `graph_uncertainty`."""

    uncertainty_: Uncertainty

    def train_on(
        self,
        run: RunFolder,
        network: nn.Module,
        train: Examples,
        valid: Examples,
        seed: int,
        **about: Any,
    ) -> TrainingResult:
        """Train the network on examples and calibrate its uncertainties, see `Estimator`."""
        result = super().train_on(run, network, train, valid, seed, **about)
        has_gp = self.uncertainty == "gp"
        self.uncertainty_ = Uncertainty.fit(
            self.network_, self.target_, train, valid, has_gp=has_gp, seed=seed
        )
        if run.is_saved:
            self.uncertainty_.write(run)
        return result

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the numbers predicted for each object ``(N,)`` or ``(N, K)``.

        Args:
            X: The objects.
            return_std: Also return standard deviations of the same shape, calibrated on the
                validation data.
        """
        check_is_fitted(self)
        graphs = self.inputs_.encode(self._objects(X))
        mean, std = self.uncertainty_.predict(self.network_, self.target_, graphs)
        return (self._shaped(mean), self._shaped(std)) if return_std else self._shaped(mean)

    def _explain(self, one: Any) -> tuple[float, float, list[Contribution]]:
        score, constant, parts = super()._explain(one)
        if self.uncertainty_.gp is None:
            return score, constant, parts
        scale, mean = self.target_.unit
        mixed = (float(np.ravel(self.predict([one]))[0]) - mean) / scale
        parts.append(Contribution("Gaussian process", (), "kernel", mixed - score))
        return mixed, constant, parts

    def _save_fitted(self, run: RunFolder) -> None:
        super()._save_fitted(run)
        self.uncertainty_.write(run)

    def _load_fitted(self, files: RunFiles) -> None:
        super()._load_fitted(files)
        self.uncertainty_ = Uncertainty.read(files, self.network_, self.target_.width)


class GraphNetwork(GraphEnsembleEstimator):
    """The networks for graphs, see `GraphClassifier`."""

    _noun: ClassVar[str] = "graph"
    _task: ClassVar[str] = "graph"
    inputs_: GraphInputs

    def _check_objects(self, X: Any) -> list[PlainGraph]:
        return read_graphs(X)

    def _learn_inputs(self, objects: Sequence[PlainGraph], seed: int) -> GraphInputs:
        return GraphInputs.find(objects)

    def _widths(self, inputs: GraphInputs) -> tuple[int, int | None]:
        return inputs.nodes.width, None if inputs.edges is None else inputs.edges.width

    def _node_names(self, one: PlainGraph) -> list[str]:
        labels = one.nodes if isinstance(one.nodes, tuple) else ["node"] * one.count
        return [f"{label} {v}" for v, label in enumerate(labels)]

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        return self.inputs_.to_dict()

    def _load_inputs(self, files: RunFiles, values: Any) -> GraphInputs:
        return from_values(GraphInputs, values)


class GraphClassifier(GraphNetwork, Classifier):
    """A classifier of graphs: a Weisfeiler-Lehman or random-walk kernel network (L17).

    X is a sequence of PyG ``Data`` objects or networkx graphs. Read are:

    - of ``Data``: ``edge_index``; ``x`` and ``edge_attr``, where integers of one column are labels
      and other numbers are features. An undirected edge is in ``edge_index`` in both directions.
    - of networkx graphs: the node attribute ``x`` or else ``label``, and the edge attribute
      ``edge_attr`` or else ``label``. Texts and everything in ``label`` are labels, numbers in
      ``x`` and ``edge_attr`` are features. An undirected edge is read in both directions.

    Each label of the training graphs becomes an input of its own, and all unknown labels share
    one. Features are standardized. Nodes without either are labeled by their degree.

    Examples:
        >>> import networkx as nx
        >>> from representer.estimators import GraphClassifier
        >>> X = [nx.cycle_graph(n) for n in range(4, 12)] + [nx.path_graph(n) for n in range(4, 12)]
        >>> y = ["ring"] * 8 + ["chain"] * 8
        >>> model = GraphClassifier(epochs=1, random_state=0, verbose=0).fit(X, y)
        >>> model.predict(X[:2]).shape
        (2,)

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017.
    """


class GraphRegressor(GraphEnsembleRegressor, GraphNetwork):
    """A regressor of graphs; X and the network are those of `GraphClassifier`.

    With several targets ``(N, K)``, NaN where unknown, `explain` explains the first one.
    """
