"""A kernel of objects that a module has embedded, such as the layers below another one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels.composition import Composition
from representer.kernels.graphs import Graph, read_graphs
from representer.kernels.kernel import Kernel, OwnReference, Values, check_kernel
from representer.kernels.sequences import read_sequences, read_vectors
from representer.ops.common import evaluating


class Embedded(Composition):
    r"""A kernel of embedded objects, :math:`k(f(x), f(y))`, such as of the outputs of layers.

    Args:
        kernel: The kernel of the embedded objects.
        embed: f, a module, which is called in evaluation mode: with a sequence ``(T, d)``, of which
            it returns another one, or a tuple that begins with it, as a recurrent layer does; with
            vectors ``(N, d)``; or with a PyG ``Data``, of which it returns another one. A module
            with an argument ``edge_index``, such as :class:`representer.nn.Relabeling`, is called
            with the features of the nodes, the edges and, if it takes ``edge_attr``, the features
            of the edges; it returns new features of the nodes.
        repeat: Treat the objects of a given Y as references in the space of f, which are not
            embedded.

    Raises:
        KindError: If an argument has the wrong type.
        ShapeError: If f returns a tensor of the wrong shape.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 2.2, where a layer embeds the prefixes of a sequence.
    """

    def __init__(self, kernel: Kernel, embed: nn.Module, repeat: bool = False) -> None:
        self.kernel = kernel
        check_kernel(kernel)
        self.embed = embed
        self.repeat = repeat
        self._check_embedding()

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        """Return the Gram matrix of X with Y, or of X with itself."""
        self._check_embedding()
        x, is_tensor = self.embedded(X)
        y, is_behind = OwnReference.inner(Y)
        if y is not None:
            is_behind = is_behind or self.repeat
            y = self._as_tensors(y, x) if is_behind else self.embedded(y)[0]
        return self._returned(self.kernel(x, y), is_tensor)

    def diag(self, X: Iterable[Any]) -> Values:
        """Return k(x, x) of each object."""
        self._check_embedding()
        own, is_behind = OwnReference.inner(X)
        x, is_tensor = (own, True) if is_behind else self.embedded(X)
        return self._returned(self.kernel.diag(x), is_tensor)

    def embedded(self, X: Any) -> tuple[Any, bool]:
        """Return f of each object, and whether the objects are tensors or PyG ``Data``."""
        like = next(self.embed.parameters(), None)
        with evaluating(self.embed):
            if self.objects == "vectors":
                read = read_vectors(X)
                return self._of(_like(read.items[0], like, read.from_tensors)), read.from_tensors
            if self.objects == "sequences":
                read = read_sequences(X)
                items = [_like(item, like, read.from_tensors) for item in read.items]
                # an empty sequence has no step to embed
                return [self._of(x) if len(x) else x.new_zeros(0) for x in items], read.from_tensors
            graphs = read_graphs(X)
            return [self._of_graph(graph, like) for graph in graphs.items], graphs.from_tensors

    def _of(self, x: Tensor) -> Tensor:
        y = self.embed(x)
        y = y[0] if isinstance(y, tuple) else y
        if not isinstance(y, Tensor) or y.dim() != 2:
            shape = tuple(y.shape) if isinstance(y, Tensor) else ()
            raise ShapeError("the result of embed", shape, "two axes, as the embedded object")
        return y

    def _of_graph(self, graph: Graph, like: Tensor | None) -> Any:
        from torch_geometric.data import Data

        nodes, edges = graph.nodes, graph.edges
        if not isinstance(nodes, Tensor) or not (edges is None or isinstance(edges, Tensor)):
            raise KindError("X", "graphs with labels", "graphs with features, which f embeds")
        nodes, edges = (x if x is None or like is None else x.to(like) for x in (nodes, edges))
        taken = inspect.signature(self.embed.forward).parameters
        if "edge_index" not in taken:
            return self.embed(Data(x=nodes, edge_index=graph.edge_index, edge_attr=edges))
        arguments = [nodes, graph.edge_index]
        if edges is not None and "edge_attr" in taken:
            arguments.append(edges)
        return Data(x=self.embed(*arguments), edge_index=graph.edge_index, edge_attr=edges)

    def _as_tensors(self, Y: Any, x: Any) -> Any:
        """Return references as tensors like the embedded objects."""
        if isinstance(Y, list) and Y and isinstance(Y[0], OwnReference):
            return Y
        if self.objects == "vectors":
            return read_vectors(Y, "Y").items[0].to(x)
        if self.objects != "sequences":
            return Y
        like = next((item for item in x if item.dim() == 2), None)
        return [item if like is None else item.to(like) for item in read_sequences(Y, "Y").items]

    def _returned(self, K: Any, is_tensor: bool) -> Values:
        keeps = is_tensor or self.has_gradient or not isinstance(K, Tensor)
        return K if keeps else K.detach().double().cpu().numpy()

    def _check(self) -> None:
        super()._check()
        self._check_embedding()

    def _check_embedding(self) -> None:
        if not isinstance(self.embed, nn.Module):
            raise KindError("embed", repr(self.embed), "a module, such as a layer")
        if not isinstance(self.repeat, bool):
            raise ArgumentError("repeat", self.repeat, "True or False")


def _like(x: Tensor, parameter: Tensor | None, from_tensors: bool) -> Tensor:
    """Return numbers that were no tensors with the dtype and device of the module."""
    return x if from_tensors or parameter is None else x.to(parameter)
