"""Estimators of graphs: features of nodes and edges, a graph-kernel network and a head."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from representer.checks import require
from representer.data.splits import digest_of_graph
from representer.errors import KindError
from representer.estimators.explanation import (
    KERNEL,
    NETWORK,
    Contribution,
    Explained,
    Explanation,
    Places,
)
from representer.estimators.graph_inputs import GraphInputs, PlainGraph, read_graphs
from representer.estimators.kernel_halves import KernelHalves
from representer.estimators.kernel_machine import CANDIDATES
from representer.estimators.supervised import Classifier, Regressor, SupervisedEstimator
from representer.estimators.targets import Numbers, centered, columns_of
from representer.explain import WalkContribution, walk_readout
from representer.kernels.subtree_kernel import SubtreeKernel
from representer.models import GraphEnsemble, GraphRegressionNetwork, GraphRegressorConfig
from representer.models.kernel_model import KernelModel, KernelModelConfig
from representer.options.graph import (
    GRAPH_DECAYS,
    MAX_MEMBERS,
    GraphKernelParameters,
    GraphParameters,
)
from representer.options.task import in_common
from representer.storage.run import RunFolder

# The output of an ensemble of graph networks as an exact sum over the walks of a graph.
#
# A member is y = W_2 relu(W_1 h_G + b_1) + b_2, or with asinh(h_G). Given which relus are active,
# and the factor asinh(h) / h of each unit, an output is a weighted sum of the units of h_G, and
# each unit is a sum over the walks of the graph. All members use the same walks, so the
# contribution of a walk to the mean output is the mean of its contributions. For classes, the
# explained score is the logit of a class minus the mean of all logits, since a constant added to
# all logits does not change the prediction.


class WalkSum(NamedTuple):
    """A score, and the contributions that sum to it."""

    score: float  # from a forward pass of the network, not from the contributions
    constant: float  # contribution of the biases
    walks: list[WalkContribution]  # contributions of the walks, the largest in size first


@torch.no_grad()
def walk_sum(model: GraphEnsemble, graph: Any, width: int, output: int) -> WalkSum:
    """Return the mean score of the members for a graph, in float64, as a sum over its walks.

    ``width`` is the number of classes of the first target, 1 of a number; ``output`` the class
    whose score is explained, 0 of a number.
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
    members = [cast(GraphRegressionNetwork, member) for member in model.members]
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
    for member, of_member in zip(model.members, weights, strict=True):
        for walk, value in walk_readout(member.network, graph, of_member):  # type: ignore[arg-type]
            total[walk] = total.get(walk, 0.0) + value / count
    walks = [WalkContribution(walk, value) for walk, value in total.items()]
    return sorted(walks, key=lambda walk: -abs(walk.contribution))


def one_direction(walks: Sequence[WalkContribution]) -> list[WalkContribution]:
    """Add the contribution of each walk to that of its reverse, if both are there."""
    values = {walk.positions: walk.contribution for walk in walks}
    return [
        WalkContribution(walk, value + (values.get(walk[::-1], 0.0) if walk != walk[::-1] else 0.0))
        for walk, value in values.items()
        if walk <= walk[::-1] or walk[::-1] not in values
    ]


@torch.no_grad()
def head_weights(
    member: GraphRegressionNetwork, graph: Any, width: int, output: int
) -> tuple[Tensor, float]:
    """Return the weight of each unit of h_G in a score, and the contribution of the biases."""
    first, second = (layer for layer in member.head if isinstance(layer, torch.nn.Linear))
    h = member.encode(graph.x, graph.edge_index, graph.edge_attr)[0]
    scale = torch.ones_like(h)
    if member.config.compress:
        scale = torch.where(h == 0, scale, torch.asinh(h) / h)
    shift = torch.zeros_like(h)
    if (norm := member.norm) is not None:
        shift = norm(shift[None])[0]
        scale = scale * (norm(torch.ones_like(h)[None])[0] - shift)
    on = (first(scale * h + shift) > 0).to(h.dtype)
    joined = (second.weight * on) @ first.weight
    rows = (scale * joined)[:width]
    constants = (joined @ shift + (second.weight * on) @ first.bias + second.bias)[:width]
    return centered(rows)[output], centered(constants)[output].item()


def _numbered(what: str, nodes: Sequence[int]) -> str:
    shown = ", ".join(map(str, nodes[:SHOWN])) + (", …" if len(nodes) > SHOWN else "")
    return f"{what} at {shown}"


LEVELS = 4  # relabelings of the kernel
SHOWN = 5  # labels in a warning


@dataclass(frozen=True)
class EnsembleConfig(GraphRegressorConfig):
    """The configuration of an ensemble of `GraphRegressionNetwork` networks."""

    members: int = 1

    def __post_init__(self) -> None:
        """Check the values, which may come from a file."""
        super().__post_init__()
        require(self, "members", 1 <= self.members <= MAX_MEMBERS, f"1 to {MAX_MEMBERS}")


class GraphEnsembleEstimator(GraphParameters, SupervisedEstimator):
    """The ensemble of networks for all kinds of graphs."""

    _config: ClassVar[type[EnsembleConfig]] = EnsembleConfig
    is_kernel_unsupervised: ClassVar[bool] = True  # but for the weights of a few levels
    penalties: ClassVar[Sequence[float]] = (*CANDIDATES, 300.0, 1000.0)
    network_: GraphEnsemble

    # ---- what a subclass gives

    @abstractmethod
    def _widths(self, inputs: Any) -> tuple[int, int | None]:
        """Return the numbers of features of a node, and of an edge or None."""

    @abstractmethod
    def node_names(self, one: Any) -> Sequence[str]:
        """Return the names of the nodes of an object, for explanations."""

    # ---- what is here

    place: ClassVar[str] = "node"
    feature: ClassVar[str] = "walk or subtree"

    def places_of(self, one: Any, contributions: Sequence[Contribution]) -> Places:
        (graph,) = self.checked_objects([one])
        nouns = self.place, self.feature
        whole = (KERNEL, NETWORK) if getattr(self, "kernel", None) else (KERNEL,)
        return Places.numbered(self.node_names(graph), f"whole {self.noun}", nouns, whole)

    def leaves_one_out(self, count: int) -> bool:
        is_process = isinstance(self._new_kernel(), SubtreeKernel)
        return is_process and all(isinstance(y, Numbers) for y in columns_of(self.target_))

    def _configure(self, inputs: Any, width: int) -> EnsembleConfig:
        in_channels, edge_dim = self._widths(inputs)
        rest: dict[str, Any] = {"in_channels": in_channels, "outputs": width, "edge_dim": edge_dim}
        rest["decay"] = self.decay if self.decay in GRAPH_DECAYS else float(self.decay)
        return EnsembleConfig(**in_common(self, EnsembleConfig) | rest)

    @staticmethod
    def _make(config: EnsembleConfig) -> GraphEnsemble:
        return GraphEnsemble(config, config.members)

    def _explain_network(self, one: Any, output: int) -> Explained:
        (graph,) = self.inputs_.encode([one])
        graph.x, graph.edge_index, graph.edge_attr, *_ = self.inputs_.collate([graph])
        result = walk_sum(self.network_, graph, columns_of(self.target_)[0].width, output)
        names = self.node_names(one)
        parts = [
            Contribution("–".join(names[v] for v in walk), walk, NETWORK, value)
            for walk, value in one_direction(result.walks)
        ]
        return result.score, result.constant, parts

    def explain_kernel(self, one: Any, output: int) -> Explained:
        machine = self.machine_
        assert machine is not None
        coefficients, constant = machine.centered(output)
        score = machine.centered_score([one], output)
        lines: dict[tuple[str, tuple[int, ...]], float] = {}  # levels and views may agree
        for what, where, value in machine.kernel.parts(one, coefficients):
            lines[what, where] = lines.get((what, where), 0.0) + value
        counts = Counter(what for what, _ in lines)  # one name, as of two features, is one line
        parts = [
            Contribution(what if counts[what] == 1 else _numbered(what, walk), walk, KERNEL, value)
            for (what, walk), value in lines.items()
        ]
        return score, constant, parts

    def _require_sizes(self, config: EnsembleConfig) -> None:
        in_channels, edge_dim = self._widths(self.inputs_)
        for what, got, expected in (
            ("features of a node", in_channels, config.in_channels),
            ("features of an edge", edge_dim or 0, config.edge_dim or 0),
            ("outputs", self.target_.width, config.outputs),
        ):
            if got != expected:
                raise ValueError(f"it has {got} {what}; the model has {expected}")


class GraphNetworkEstimator(GraphKernelParameters, KernelHalves, GraphEnsembleEstimator):
    """The networks for graphs, see `GraphClassifier`."""

    compares: ClassVar[tuple[str, ...]] = "graphs", "trees"

    noun: ClassVar[str] = "graph"
    _task: ClassVar[str] = "graph"
    _inputs: ClassVar[type[GraphInputs]] = GraphInputs
    inputs_: GraphInputs

    @staticmethod
    def _digest(one: PlainGraph) -> int:
        return digest_of_graph(one.count, one.edge_index, one.nodes, one.edges)

    def _check_objects(self, X: Any) -> list[PlainGraph]:
        compared = "trees" if self.network == "tree" else "graphs"
        trees = getattr(self.kernel, "objects", compared) == "trees"
        return read_graphs(X, trees=trees)

    def learn_inputs(self, objects: Sequence[PlainGraph], seed: int) -> GraphInputs:
        return GraphInputs.find(objects)

    def _configure(self, inputs: GraphInputs, width: int) -> Any:
        config = super()._configure(inputs, width)
        is_ensemble = isinstance(config, EnsembleConfig)
        return replace(config, compress=True) if is_ensemble else config  # of any degree

    @staticmethod
    def _make(config: Any) -> Any:
        is_of_kernel = isinstance(config, KernelModelConfig)
        return KernelModel(config) if is_of_kernel else GraphEnsembleEstimator._make(config)

    def _new_kernel(self) -> Any:
        if self.kernel is not None:
            return super()._new_kernel()
        names, inputs = self.inputs_.summary_names(), self.inputs_
        return SubtreeKernel(
            (LEVELS,), inputs.labeled, numbers=inputs.summary if names else None, names=names
        )

    def width(self, inputs: GraphInputs) -> int:
        return inputs.nodes.width

    def exact(self, objects: Sequence[PlainGraph]) -> list[Any]:
        return [graph.apply(lambda own: own.double() if own.is_floating_point() else own)
                for graph in self.inputs_.encode(objects)]  # fmt: skip

    def names_of(self, one: PlainGraph) -> list[str]:
        return [*map(str, one.nodes)] if isinstance(one.nodes, tuple) else ["node"] * one.count

    def _warn(self, objects: Sequence[PlainGraph]) -> None:
        if unknown := self.inputs_.unknown(objects):
            nodes = sum(graph.count for graph in objects)
            names = [repr(name) for name in dict.fromkeys(unknown)]
            shown = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
            what = "degrees" if self.inputs_.has_degrees else "labels"
            text = f"{len(unknown):,} of {nodes:,} nodes have {what} that training lacked: {shown}"
            warnings.warn(text, stacklevel=2)

    def _widths(self, inputs: GraphInputs) -> tuple[int, int | None]:
        return inputs.nodes.width, None if inputs.edges is None else inputs.edges.width

    def explanation_details(self, one: Any, explanation: Explanation) -> dict[str, Any]:
        (graph,) = self.checked_objects([one])
        labels = graph.nodes if isinstance(graph.nodes, tuple) else [""] * graph.count
        return {
            "nodes": [str(label) for label in labels],
            "edges": graph.edge_index.T.tolist(),
            "by_node": explanation.values_by_place(),
        }

    def node_names(self, one: PlainGraph) -> list[str]:
        return [f"{label} {v}" for v, label in enumerate(self.names_of(one))]

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        return self.inputs_.to_dict()


class GraphClassifier(GraphNetworkEstimator, Classifier):
    """A classifier of graphs: a Weisfeiler-Lehman or random-walk kernel network (L17).

    X is a sequence of PyG ``Data`` objects or networkx graphs. Read are:

    - of ``Data``: ``edge_index``; ``x`` and ``edge_attr``, where integers of one column are labels
      and other numbers are features. An undirected edge is in ``edge_index`` in both directions.
    - of networkx graphs: the node attribute ``x`` or else ``label``, and the edge attribute
      ``edge_attr`` or else ``label``. Texts and everything in ``label`` are labels, numbers in
      ``x`` and ``edge_attr`` are features. An undirected edge is read in both directions.

    With ``network="tree"`` or a kernel of trees, graphs are trees with edges from child to parent
    (or several trees); then also bracketed strings ``"(S (NP dogs) (VP bark))"`` or nested tuples
    ``("S", ("NP", "dogs"), ("VP", "bark"))``, each label of which is one of a node.

    Each label of the training graphs becomes an input of its own, and all unknown labels share
    one. Features are standardized. Nodes without either are labeled by their degree. Of features,
    the kernel takes the integers of a node or an edge together as its label, and compares mean and
    standard deviation of each other number over the graph; so a label and measurements stand in
    one ``x``, the label as an integer or, for the network, as a column of zeros and ones for each.

    With `kernel`, a kernel of `representer.kernels` for graphs or trees, both halves are of this
    kernel: it takes each label as a one-hot vector, and `explain` divides it into the parts of a
    sum.

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


class GraphRegressor(GraphNetworkEstimator, Regressor):
    """A regressor of graphs; X and the network are those of `GraphClassifier`.

    With several targets ``(N, K)``, NaN where unknown, `explain` explains the first one.
    """
