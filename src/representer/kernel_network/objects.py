"""The objects and references of the network of a kernel, read once for all its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import Kernel, WeisfeilerLehmanKernel
from representer.kernels.graphs import Batch, batches, read_graphs
from representer.kernels.sequences import read_sequences, read_vectors
from representer.kernels.tree_kernels import read_trees
from representer.nn.recurrent.sequence_layer import check_lengths, zero_padding

# The objects that a network compares with its references, read once for all parts.


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Sequences, padded."""

    x: Tensor  # tokens (T, B, d), zeros after the end; at least one step
    lengths: Tensor  # (B,)
    space: tuple[Any, ...] = ()  # the embeddings that lead to it

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def items(self) -> list[Tensor]:
        """The sequences ``(T_i, d)``."""
        ends = self.lengths.tolist()
        return [x[:end] for x, end in zip(self.x.unbind(1), ends, strict=True)]

    @classmethod
    def of(cls, items: Sequence[Tensor], features: int, like: Tensor, space: Any = ()) -> Any:
        """Pad sequences, of which empty ones may have no features."""
        items = [item if len(item) else like.new_zeros(0, features) for item in items]
        x = nn.utils.rnn.pad_sequence(items) if items else like.new_zeros(1, 0, features)
        lengths = torch.tensor([len(item) for item in items], dtype=torch.int64, device=like.device)
        return cls(x if len(x) else F.pad(x, (0, 0, 0, 0, 0, 1)), lengths, space)


@dataclass(frozen=True, eq=False)
class VectorBatch:
    """Vectors."""

    x: Tensor  # (B, d)
    space: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.x)

    @property
    def items(self) -> Tensor:
        """The vectors ``(B, d)``."""
        return self.x


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs with features."""

    batch: Batch
    space: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.batch.sizes)

    @cached_property
    def items(self) -> list[Any]:
        """The graphs as PyG ``Data``."""
        from torch_geometric.data import Data

        parts = self.batch.parts(0)
        return [Data(x=g.nodes, edge_index=g.edge_index, edge_attr=g.edges) for g in parts]

    def relabeled(self, kernel: WeisfeilerLehmanKernel) -> GraphBatch:
        """Return the graphs with the next labels."""
        nodes = _labels(kernel, self.batch.nodes, self.batch.edge_index, self.batch.edges)
        return GraphBatch(replace(self.batch, nodes=nodes), (*self.space, id(kernel.relabel)))


Objects = TokenBatch | VectorBatch | GraphBatch


@dataclass(frozen=True, eq=False)
class SharedReferences:
    """The references that all parts of a network compare objects with."""

    values: Tensor  # (H, L, d), or (H, d) of vectors
    kind: str  # of objects
    edges: Tensor | None = None  # features of the edges of graphs (H, E, K)
    edge_index: Tensor | None = None  # of a topology (2, E); None for a path

    @cached_property
    def objects(self) -> Any:
        """The references as the kernel takes them."""
        if self.kind == "vectors":
            return self.values
        if self.kind == "sequences":
            return list(self.values.unbind(0))
        from torch_geometric.data import Data

        edges = [None] * len(self.values) if self.edges is None else self.edges.unbind(0)
        return [
            Data(x=x, edge_index=self.ends, edge_attr=e)
            for x, e in zip(self.values.unbind(0), edges, strict=True)
        ]

    @property
    def ends(self) -> Tensor:
        """The edges of each graph ``(2, E)``."""
        if self.edge_index is not None:
            return self.edge_index
        steps = torch.arange(self.values.shape[1] - 1, device=self.values.device)
        return torch.stack((steps, steps + 1))

    def relabeled(self, kernel: WeisfeilerLehmanKernel) -> SharedReferences:
        """Return the references with the next labels."""
        units, nodes, _ = self.values.shape
        starts = nodes * torch.arange(units, device=self.ends.device)
        ends = (self.ends[:, None] + starts[:, None]).flatten(1)
        edges = None if self.edges is None else self.edges.flatten(0, 1)
        labels = _labels(kernel, self.values.flatten(0, 1), ends, edges)
        return replace(self, values=labels.unflatten(0, (units, nodes)))


def read_objects(
    X: Any, lengths: Any, kernel: Kernel, features: int, like: Tensor, *, edges: bool = False
) -> Objects:
    """Read objects as the kernel takes them, or padded sequences ``(B, T, d)`` with their lengths.

    Raises:
        ArgumentError: If a length or a number is invalid.
        KindError: If a type, dtype or device is wrong, or graphs have labels instead of features.
        ShapeError: If they do not have that many features.
    """
    is_padded = isinstance(X, Tensor) and kernel.objects == "sequences"
    if lengths is not None and not is_padded:
        raise ArgumentError("lengths", lengths, "None, except for a padded tensor (B, T, features)")
    if kernel.objects == "vectors":
        x = read_vectors(X)
        return VectorBatch(_checked(x.items[0], x.from_tensors, features, like))
    if is_padded:
        return _padded(X, lengths, features, like)
    if kernel.objects == "sequences":
        read = read_sequences(X)
        items = [_checked(x, read.from_tensors, features, like) for x in read.items]
        return TokenBatch.of(items, features, like)
    graphs = (read_trees if kernel.objects == "trees" else read_graphs)(X).items
    if not graphs:
        empty = like.new_zeros(0, features), torch.zeros(2, 0, dtype=torch.int64), None, ()
        return GraphBatch(Batch(*empty))
    batch, _ = batches(graphs, None, delta=False, edges=edges)
    if batch.nodes.dim() == 1:
        hint = "A label is not differentiable; use features, such as one-hot vectors."
        raise KindError("X", "graphs with labels", "graphs with features of nodes", hint=hint)
    if batch.nodes.shape[1] != features:
        expected = f"(nodes, {features}), the features of the references"
        raise ShapeError("X[0].x", tuple(batch.nodes.shape), expected)
    of_edges = None if batch.edges is None else batch.edges.to(like)
    return GraphBatch(replace(batch, nodes=batch.nodes.to(like), edges=of_edges))


def _padded(X: Tensor, lengths: Any, features: int, like: Tensor) -> TokenBatch:
    if X.dim() != 3:
        hint = "Put a single sequence into a list."
        raise ShapeError("X", tuple(X.shape), f"(batch, time, {features})", hint=hint)
    x = _checked(X, True, features, like).transpose(0, 1)
    if lengths is None:
        lengths = torch.full((X.shape[0],), X.shape[1], device=X.device)
    else:
        lengths = torch.as_tensor(lengths, device=X.device)
    check_lengths(x, lengths, 1)
    x = zero_padding(x, lengths)
    is_traced = torch.compiler.is_compiling()  # numbers are not known then
    if not is_traced and not bool(torch.isfinite(x.detach()).all()):
        raise ArgumentError("X", "a tensor with NaN or infinity", "finite numbers")
    return TokenBatch(x if x.shape[0] else F.pad(x, (0, 0, 0, 0, 0, 1)), lengths)


def _checked(x: Tensor, is_tensor: bool, features: int, like: Tensor) -> Tensor:
    """Return rows of numbers with the dtype of the references, which tensors must have."""
    if not is_tensor:
        x = x.to(like)
    if x.shape[-1] != features and x.shape[0]:  # not `len`, which tracing would make a constant
        raise ShapeError("X", tuple(x.shape), f"(…, {features}), the features of the references")
    if x.dtype != like.dtype or x.device != like.device:
        hint = f"Use X.to({like.dtype}), or network.to(X.dtype)."
        got = f"{x.dtype} on {x.device}"
        raise KindError("X", got, f"{like.dtype} on {like.device}, as the references", hint=hint)
    return x


def _labels(
    kernel: WeisfeilerLehmanKernel, x: Tensor, edge_index: Tensor, edges: Tensor | None
) -> Tensor:
    module = cast(nn.Module, kernel.relabel)
    parameter = next(module.parameters(), x)
    arguments = [x.to(parameter), edge_index]
    if kernel.edges and edges is not None:
        arguments.append(edges.to(parameter))
    return module(*arguments).to(x)
