"""Values of a kernel for all objects and references: recurrences, or the exact kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.functional import NONLINEARITIES, StringChain, child_positions, string_states
from representer.functional.strings import divide_by_mass, ngram_mass, slot_weights
from representer.kernel_network.objects import (
    GraphBatch,
    Objects,
    SharedReferences,
    TokenBatch,
    VectorBatch,
)
from representer.kernels import (
    Activated,
    Cosine,
    DeepStringKernel,
    Embedded,
    Kernel,
    Linear,
    PointKernel,
    Polynomial,
    Power,
    Product,
    RandomWalkKernel,
    RecurrentKernel,
    Scaled,
    StringKernel,
    Sum,
    TreeKernel,
    WeisfeilerLehmanKernel,
)
from representer.kernels.composition import inverse_root
from representer.kernels.graphs import batches, read_graphs
from representer.kernels.kernel import OwnReference
from representer.nn import StringKernelRNN
from representer.nn.layer import HasKernel
from representer.nn.recurrent.machine import RecurrentKernelMachine
from representer.nn.recurrent.sequence_layer import SequenceLayer, zero_padding
from representer.ops import gated_scan, string_scan, tree_scan, walk_aggregate
from representer.ops.common import evaluating

# Values of the parts of a kernel, in one run over a batch.


class KernelPart(NamedTuple):
    """A kernel in a composition, and how the network computes it."""

    kernel: Kernel
    fused: bool  # whether it is computed by a recurrence, or exactly, for all pairs


def is_fused(kernel: Kernel, is_path: bool = True) -> bool:
    """Return True if a recurrence computes a kernel without compositions in it."""
    if isinstance(kernel, WeisfeilerLehmanKernel):
        return all(is_fused(operand, is_path) for _, operand in parts_of(kernel.base_kernel))
    if isinstance(kernel, TreeKernel):
        return is_path
    if isinstance(kernel, RandomWalkKernel):
        return is_path and (kernel.nonlinear is False or isinstance(kernel.nonlinear, str))
    return isinstance(kernel, (StringKernel, PointKernel))


def key_of(value: Any) -> Any:
    """Return a value that is equal for equal kernels with the same tensors and modules."""
    if isinstance(value, Kernel):
        return type(value), tuple((name, key_of(v)) for name, v in vars(value).items())
    if isinstance(value, (list, tuple)):
        return tuple(map(key_of, value))
    return value if isinstance(value, (str, float, int, type(None))) else ("id", id(value))


def parts_of(kernel: Kernel, space: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Kernel]]:
    """Yield the kernels that are no compositions, and the embeddings that lead to them."""
    if isinstance(kernel, Embedded):
        space = (*space, id(kernel.embed), kernel.repeat)
    inner = kernel.inner_kernels()
    for k in inner:
        yield from parts_of(k, space)
    if not inner:
        yield space, kernel


@torch.compiler.assume_constant_result
def _chain_of(order: int) -> StringChain:
    """Return the chain of a string kernel, whose cached properties torch.compile does not trace."""
    return StringChain(order)


@dataclass(eq=False)
class Run:
    """The values of a kernel and of the kernels in it; equal ones are computed once."""

    kernel: Kernel
    cache: dict[Any, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)  # objects in the cache by their id

    def value(self, kernel: Kernel, x: Objects, r: Any) -> Tensor:
        """Return the kernel of all objects and references ``(B, H)``."""
        key = (key_of(kernel), id(x), id(r))
        if key not in self.cache:
            self.cache[key] = self._compute(kernel, x, r)
        return self.cache[key]

    def _compute(self, kernel: Kernel, x: Objects, r: Any) -> Tensor:
        match kernel:
            case Sum() | Product():
                r1, r2 = r if isinstance(r, tuple) else (r, r)
                first, second = self.value(kernel.k1, x, r1), self.value(kernel.k2, x, r2)
                return cast(Tensor, kernel.of_pair(first, second))
            case Scaled() | Power():
                return kernel.of_values(self.value(kernel.kernel, x, r))
            case Cosine():
                value = self.value(kernel.kernel, x, r)
                xx, rr = self._norms(kernel.kernel, x, r)
                return value * inverse_root(xx)[:, None] * inverse_root(rr)
            case Activated(point_kernel=Linear() | Polynomial()):
                value = self.value(kernel.kernel, x, r)
                return kernel.point_kernel.of_products(value, value, value)  # of <x, y> alone
            case Activated():
                xx, rr = self._norms(kernel.kernel, x, r)
                value = self.value(kernel.kernel, x, r)
                return kernel.point_kernel.of_products(value, xx[:, None], rr)
            case Embedded():
                is_behind = kernel.repeat or not isinstance(r, SharedReferences)
                r = r if is_behind else self._embedded(kernel, r)
                return self.value(kernel.kernel, self._embedded(kernel, x), r)
        if isinstance(r, nn.Module):
            return layer_values(r, x)
        if isinstance(kernel, WeisfeilerLehmanKernel):
            return self._levels(kernel, x, r)
        if not is_fused(kernel, r.edge_index is None):
            return self._padded(kernel, x, r) if is_traced(x) else exact(kernel, x, r)
        kernel.check()
        if isinstance(kernel, StringKernel):
            return self._string(kernel, cast(TokenBatch, x), r)
        if isinstance(kernel, RandomWalkKernel):
            return self._walks(kernel, cast(GraphBatch, x), r)
        if isinstance(kernel, TreeKernel) and kernel.order == r.values.shape[1]:
            return self._trees(kernel, cast(GraphBatch, x), r)
        return exact(kernel, x, r)

    def _norms(self, kernel: Kernel, x: Objects, r: Any) -> tuple[Tensor, Tensor]:
        """Return k(x, x) of the objects and of the references."""
        like = x.batch.nodes if isinstance(x, GraphBatch) else x.x
        if isinstance(x, TokenBatch) and is_traced(x):
            xx = self._squares(kernel, x)
            if isinstance(r, SharedReferences):
                return xx, self._squares(kernel, tokens_of(r))
        else:
            xx = torch.as_tensor(kernel.diag(x.items)).to(like)
        return xx, torch.as_tensor(kernel.diag(objects_of(kernel, r))).to(like)

    # Kernels of padded sequences, for programs of any length.

    def _padded(self, kernel: Kernel, x: Any, r: SharedReferences) -> Tensor:
        """Return a kernel without a recurrence over the steps."""
        if isinstance(kernel, RecurrentKernel) and not kernel.repeat:
            return kernel.of_padded(x.x.transpose(0, 1), x.lengths, r.values)
        if not isinstance(kernel, DeepStringKernel):
            return exact(kernel, x, r)
        xy = self._products(kernel.base, x.x, r).permute(1, 3, 0, 2)
        xx, yy = (pairs_of(kernel.base, z) for z in (x, tokens_of(r)))
        ends = torch.tensor(r.values.shape[1], device=x.lengths.device)
        return kernel.of_similarities(xy, xx[:, None], yy, (x.lengths[:, None], ends))

    def _squares(self, kernel: Kernel, x: TokenBatch) -> Tensor:
        """Return k(x, x) of sequences ``(B,)``."""
        match kernel:
            case Sum() | Product():
                inner = self._squares(kernel.k1, x), self._squares(kernel.k2, x)
                return cast(Tensor, kernel.of_pair(*inner))
            case Scaled() | Power():
                return kernel.of_values(self._squares(kernel.kernel, x))
            case Cosine():
                squares = self._squares(kernel.kernel, x)
                return (squares > 0).to(squares)
            case Activated():
                squares = self._squares(kernel.kernel, x)
                return kernel.point_kernel.of_products(squares, squares, squares)
            case Embedded():
                return self._squares(kernel.kernel, self._embedded(kernel, x))
            case RecurrentKernel(q="linear"):
                return kernel.squares_of_padded(x.x.transpose(0, 1), x.lengths)
            case StringKernel() | DeepStringKernel():
                pairs, ends = pairs_of(kernel.base, x), (x.lengths, x.lengths)
                if isinstance(kernel, StringKernel):
                    return kernel.of_similarities(pairs, ends)
                return kernel.of_similarities(pairs, pairs, pairs, ends)
        return torch.as_tensor(kernel.diag(x.items)).to(x.x)

    def _embedded(self, kernel: Embedded, z: Any) -> Any:
        key = "embedded", id(kernel.embed), id(z)
        if key not in self.cache:
            self.cache[key] = embedded(kernel, z)
        return self.cache[key]

    def _levels(self, kernel: WeisfeilerLehmanKernel, x: Any, r: Any) -> Tensor:
        values = []
        for level in range(kernel.depth + 1):
            if level:
                x, r = x.relabeled(kernel), r if kernel.repeat else r.relabeled(kernel)
                self.kept += [x, r]
            values.append(self.value(kernel.base_kernel, x, r))
        return torch.stack(values).sum(0)

    # A chain of order n over the tokens of a sequence.

    def _string(self, kernel: StringKernel, x: TokenBatch, r: SharedReferences) -> Tensor:
        n, length, lam = kernel.order, r.values.shape[1], _number(kernel.decay, x.x)
        if kernel.combine == "add" or n == 1:
            K = self._slots(kernel, x, r, lam)
        elif length == n and kernel.trailing:
            K = self._chain(kernel, x, r)
        else:
            K = self._grid(kernel, x, r, lam)
        if kernel.normalized is True:
            return (1 - lam) ** n * K
        if not kernel.normalized:
            return K
        mass = ngram_mass(n, max(x.x.shape[0], length), lam, kernel.trailing)
        return divide_by_mass(K, (mass[x.lengths] * mass[length])[:, None])

    def _products(self, base: Any, x: Tensor, r: SharedReferences) -> Tensor:
        """Return the base kernel of all tokens or nodes and those of references ``(…, L, H)``."""
        key = "products", key_of(base), id(x), id(r)
        if key not in self.cache:
            w = r.values.transpose(0, 1)
            rows = w.flatten(0, 1)
            if isinstance(base, PointKernel):  # of the products that linear bases have, too
                squares = x.square().sum(-1)[..., None, None], w.square().sum(-1)
                self.cache[key] = base.of_products(self._products("linear", x, r), *squares)
                return self.cache[key]
            if isinstance(base, Kernel):
                flat = x.flatten(0, -2)
                p = base(flat, rows) if flat.shape[0] else x.new_zeros(0, len(rows))
                p = cast(Tensor, p).unflatten(0, x.shape[:-1])
            else:
                p = F.linear(x, rows)
            self.cache[key] = p.unflatten(-1, w.shape[:2])
        return self.cache[key]

    def _slots(
        self, kernel: StringKernel, x: TokenBatch, r: SharedReferences, lam: Tensor
    ) -> Tensor:
        """Return sums over the slots of n-grams, each a weighted sum of tokens; any length."""
        n, time, length = kernel.order, x.x.shape[0], r.values.shape[1]
        ends = torch.tensor([length], device=x.lengths.device)
        of_x = slot_weights(n, time, lam, kernel.trailing, x.lengths)  # (n, B, T)
        of_r = slot_weights(n, length, lam, kernel.trailing, ends)[:, 0]  # (n, L)
        if kernel.base == "linear":
            left = torch.einsum("nbt,tbd->bnd", of_x, x.x).flatten(1)
            right = torch.einsum("nl,hld->hnd", of_r, r.values).flatten(1)
            return left @ right.mT
        slots = torch.einsum("nbt,nl->btl", of_x, of_r)
        return torch.einsum("btl,tblh->bh", slots, self._products(kernel.base, x.x, r))

    def _chain(self, kernel: StringKernel, x: TokenBatch, r: SharedReferences) -> Tensor:
        """Return the chain of references of n tokens, whose normalizations share it."""
        key = "chain", key_of(kernel.decay), key_of(kernel.base), id(x), id(r)
        if key not in self.cache:
            batch = x.x.shape[1]  # not `len`, which tracing would make a constant
            zeros = x.x.new_zeros(batch, kernel.order, len(r.values))
            options: dict[str, Any] = {"decay": _number(kernel.decay, x.x), "lengths": x.lengths}
            tokens, weight = x.x, None
            if kernel.base == "linear" and not self._shares_products(kernel, x):
                weight = r.values.transpose(0, 1).contiguous()
            else:
                tokens = self._products(kernel.base, tokens, r)
            chain = _chain_of(kernel.order)
            options |= {"chain": chain, "input_weight": weight}
            self.cache[key] = string_scan(tokens, zeros[:, 0], zeros, **options)[2][:, -1]
        return self.cache[key]

    def _shares_products(self, kernel: StringKernel, x: TokenBatch) -> bool:
        """Return True if another chain needs the products with all tokens, too."""
        settings = kernel.order, key_of(kernel.decay), kernel.trailing

        def needs_products(other: StringKernel) -> bool:
            if isinstance(other.base, PointKernel):  # a function of them
                return True
            is_chain = (other.base, other.combine) == ("linear", "multiply") and other.order > 1
            return is_chain and (other.order, key_of(other.decay), other.trailing) != settings

        return any(
            isinstance(other, StringKernel) and space == x.space and needs_products(other)
            for space, other in parts_of(self.kernel)
        )

    def _grid(
        self, kernel: StringKernel, x: TokenBatch, r: SharedReferences, lam: Tensor
    ) -> Tensor:
        """Return the kernel from those of all prefixes of the reference, c[j, s], of any length.

        c[j, s](t) = λ c[j, s](t−1) + g_s(t),   g_s(t) = λ g_{s−1}(t) + c[j−1, s−1](t−1) p_s(t)
        """
        n, p = kernel.order, self._products(kernel.base, x.x, r)
        length, ones = p.shape[2], torch.ones_like(lam)
        shorter: dict[int, Tensor] = {}
        g, keeps = p[:, :, 0], lam
        for j in range(1, n + 1):
            g, states = torch.zeros_like(p[:, :, 0]), {}
            keeps = lam if j < n or kernel.trailing else ones
            for s in range(j, length - n + j + 1):  # of the n - j tokens after s, each has one
                before = F.pad(shorter[s - 1], (0, 0, 0, 0, 1, -1)) if j > 1 else ones
                g = keeps * g + before * p[:, :, s - 1]
                if j < n:
                    states[s] = gated_scan(g, keeps)[0]
            shorter = states
        return gated_scan(g, keeps, lengths=x.lengths)[1]

    # A chain of order n over the nodes of a graph.

    def _walks(self, kernel: RandomWalkKernel, x: GraphBatch, r: SharedReferences) -> Tensor:
        """Return the sum over the paths of n nodes in each reference, as units of one chain."""
        graphs, n = x.batch, kernel.order
        p = self._products(kernel.base, graphs.nodes, r)
        paths = p.shape[1] - n + 1
        lam = _number(kernel.decay, graphs.nodes)
        sigma = NONLINEARITIES[str(kernel.nonlinear or "identity")].value
        is_masked = kernel.combine == "add" or kernel.nonlinear
        ends = graphs.ends(n) if is_masked else None
        c = p[:, :paths].flatten(1)
        for j in range(1, n):
            of_edges: dict[str, Any] = {}
            if kernel.edges and graphs.edges is not None and r.edges is not None:
                factor = r.edges[:, j - 1 : j - 1 + paths].transpose(0, 1).flatten(0, 1)
                of_edges = {"edge_attr": graphs.edges, "factor": factor}
            sums = lam * walk_aggregate(sigma(c), graphs.edge_index, **of_edges)
            nodes = p[:, j : j + paths].flatten(1)
            c = sums * nodes if kernel.combine == "multiply" else sums + nodes
            c = c if ends is None else torch.where(ends[:, j, None], c, 0.0)
        return graphs.summed(c).unflatten(1, (paths, -1)).sum(1)

    def _trees(self, kernel: TreeKernel, x: GraphBatch, r: SharedReferences) -> Tensor:
        graphs, factor = x.batch, None
        p = self._products("linear", graphs.nodes, r)
        if kernel.ordered:  # all children of a path are the first ones
            is_first = child_positions(graphs.edge_index, len(p)) == 0
            factor = is_first[:, None, None].to(p).expand(-1, *p[0, 1:].shape).contiguous()
        lam = _number(kernel.decay, p)
        c = tree_scan(p.contiguous(), graphs.edge_index, decay=lam, factor=factor)[:, -1]
        return graphs.summed(of_roots(c, graphs.edge_index))


def is_traced(x: Objects) -> bool:
    """Return True for sequences of a program, whose numbers are not known."""
    return isinstance(x, TokenBatch) and torch.compiler.is_compiling()


def tokens_of(r: SharedReferences) -> TokenBatch:
    """Return references as sequences of full length."""
    units, length, _ = r.values.shape
    lengths = torch.full((units,), length, device=r.values.device)
    return TokenBatch(r.values.transpose(0, 1), lengths)


def pairs_of(base: Any, x: TokenBatch) -> Tensor:
    """Return the base kernel of all pairs of tokens in each sequence ``(B, T, T)``."""
    tokens = x.x.transpose(0, 1)
    inner = tokens @ tokens.mT
    if base == "linear":
        return inner
    squares = tokens.square().sum(-1)
    return base.of_products(inner, squares[..., None], squares[..., None, :])


STEPWISE = (
    nn.Sequential, nn.Linear, nn.Identity, nn.Dropout, nn.LayerNorm, nn.Tanh, nn.Sigmoid, nn.ReLU,
    nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus,
)  # fmt: skip


def takes_padding(embed: nn.Module) -> bool:
    """Return True for a module that embeds each token alone, or a layer that takes lengths."""
    if isinstance(embed, SequenceLayer):
        return embed.stride == 1
    return all(type(module) in STEPWISE for module in embed.modules())


def no_program(kernel: Kernel, *, squares: bool = False) -> str:
    """Return why the network of a kernel of sequences has no program for any length, or "".

    Args:
        kernel: The kernel.
        squares: Whether the kernel of each object with itself is needed, too.
    """
    if isinstance(kernel, Embedded) and not takes_padding(kernel.embed):
        return "Its embedding may read other steps than the true ones of a padded sequence."
    if isinstance(kernel, (Cosine, Activated)):
        is_of_product = isinstance(getattr(kernel, "point_kernel", None), Linear | Polynomial)
        squares = squares or not is_of_product
    inner = kernel.inner_kernels()
    if inner:
        return next(filter(None, (no_program(k, squares=squares) for k in inner)), "")
    if isinstance(kernel, RecurrentKernel):
        if kernel.repeat:
            return "Its references are repeated at every step."
        return "The norm of its objects nests q over all steps." * (
            squares and kernel.q != "linear"
        )
    if not isinstance(kernel, (StringKernel, DeepStringKernel)):
        return f"{type(kernel).__name__} reads the length of each sequence."
    needs_pairs = squares or isinstance(kernel, DeepStringKernel)
    is_simple = kernel.base == "linear" or isinstance(kernel.base, PointKernel)
    return "" if is_simple or not needs_pairs else "Its base is a composition."


def of_roots(states: Tensor, edge_index: Tensor) -> Tensor:
    """Return the states of the roots of trees, and 0 for other nodes."""
    return states.index_fill(0, edge_index[0], 0.0)


def exact(kernel: Kernel, x: Objects, r: Any) -> Tensor:
    """Return the exact kernel of all objects and references ``(B, H)``."""
    objects = objects_of(kernel, r)
    if not isinstance(x, VectorBatch) and not len(x):  # the length of which tracing would fix
        return torch.zeros(0, len(objects))
    return torch.as_tensor(kernel(cast(Any, x.items), objects))


def embedded(kernel: Embedded, z: Any) -> Any:
    """Return embedded objects, or embedded references."""
    is_shared = isinstance(z, SharedReferences)
    if isinstance(z, TokenBatch) and is_traced(z) and takes_padding(kernel.embed):
        space = (*z.space, id(kernel.embed), kernel.repeat)
        steps = _steps(kernel.embed, z.x, z.lengths)
        return TokenBatch(zero_padding(steps, z.lengths), z.lengths, space)
    if is_shared and kernel.objects == "sequences" and takes_padding(kernel.embed):
        return replace(z, values=_steps(kernel.embed, z.values.transpose(0, 1)).transpose(0, 1))
    items, _ = kernel.embedded(z.objects if is_shared else z.items)
    if is_shared:
        if kernel.objects == "vectors":
            return replace(z, values=items)
        return replace(z, values=torch.stack([getattr(item, "x", item) for item in items]))
    space = (*z.space, id(kernel.embed), kernel.repeat)
    if isinstance(z, VectorBatch):
        return VectorBatch(items, space)
    if isinstance(z, TokenBatch):
        widths = (item.shape[1] for item in items if len(item))
        features = next(widths, 0) or embedded_features(kernel, z.x.shape[-1])
        return TokenBatch.of(items, features, z.x, space)
    graphs, has_edges = read_graphs(items).items, z.batch.edges is not None
    batch, _ = batches(graphs, None, delta=False, edges=has_edges)
    return GraphBatch(replace(batch, nodes=batch.nodes.to(z.batch.nodes)), space)


def _steps(embed: nn.Module, x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return the embedded tokens of padded sequences ``(T, B, d)``."""
    with evaluating(embed):
        if not isinstance(embed, SequenceLayer):
            return embed(x)
        is_first = embed.batch_first
        steps = embed(x.transpose(0, 1) if is_first else x, lengths=lengths)[0]
        return steps.transpose(0, 1) if is_first else steps


def embedded_features(kernel: Embedded, features: int) -> int:
    """Return the features of an embedded object."""
    like = next(kernel.embed.parameters(), torch.empty(0))
    zeros = torch.zeros(1 if kernel.objects == "vectors" else 8, features).to(like)
    objects: Any = zeros
    if kernel.objects == "sequences":
        objects = [zeros]
    elif kernel.objects != "vectors":
        edge_dim = getattr(kernel.embed, "edge_dim", None)
        edges = None if edge_dim is None else zeros.new_zeros(1, 7, edge_dim)
        objects = SharedReferences(zeros[None], kernel.objects, edges).objects
    with torch.no_grad():
        item = kernel.embedded(objects)[0][0]
    return getattr(item, "x", item).shape[-1]


def _number(number: Any, like: Tensor) -> Tensor:
    return torch.as_tensor(number, dtype=like.dtype, device=like.device)


def objects_of(kernel: Kernel, r: Any) -> Any:
    """Return references as the kernel takes them."""
    if isinstance(r, SharedReferences):
        return r.objects
    inner = kernel.inner_kernels()
    if len(inner) == 1:
        objects = objects_of(inner[0], r)
        is_behind = isinstance(kernel, Embedded) and not kernel.repeat
        return [OwnReference((item,)) for item in objects] if is_behind else objects
    if inner:
        pairs = (objects_of(k, reference) for k, reference in zip(inner, r, strict=True))
        return [OwnReference(pair) for pair in zip(*pairs, strict=True)]
    objects = r.reference_objects()
    if r.kernel.repeats and not kernel.repeats:
        return [OwnReference((item,)) for item in objects]
    return objects


# Layers of ``nn`` as networks of kernels.


def layer_values(layer: Any, x: Any) -> Tensor:
    """Return the states of a layer ``(B, H)`` after each object, before any activation.

    Layers of sequences run in evaluation mode.
    """
    if not isinstance(layer, HasKernel):  # a KernelNetwork
        return cast(Any, layer).values(x)
    if isinstance(x, GraphBatch):
        g = x.batch
        if not len(x):  # edges without features, if it has some
            return g.nodes.new_zeros(0, len(layer.reference_objects()))
        edges = g.edges if layer.edge_dim is not None else None
        if hasattr(layer, "edge_decays"):  # of trees
            states = layer.node_states(g.nodes, g.edge_index)[:, -1]
            return g.summed(of_roots(states, g.edge_index))
        return g.summed(layer.node_states(g.nodes, g.edge_index, edges)[:, -1])
    is_string = isinstance(layer, StringKernelRNN)
    if layer.bidirectional or not (is_string or hasattr(layer, "cell")):
        return layer.kernel  # which raises the reason
    tokens = x.x.transpose(0, 1) if layer.batch_first else x.x
    with evaluating(layer):
        output, state = layer(tokens, lengths=x.lengths)
    output = output.transpose(0, 1) if layer.batch_first else output
    if is_string:
        chain, alpha = layer.chains[-1], layer.plain_direction(len(layer.chains) - 1).alpha
        fields = state[1:]  # c and, if the cell has them, the masses, (layers, n, B, H)
        states = string_states(chain, torch.cat([levels[-1] for levels in fields]).transpose(0, 1))
        if chain.readout == "last":
            return states[:, -1]
        return (states if alpha is None else alpha * states).sum(1)
    is_plain = layer.psi is None and layer.cell.output == "identity"
    if layer.cell.has_memory:
        return state.h[-1] if is_plain or layer.cell.memory != "cell" else state.c[-1]
    if not is_plain:  # no cell is stored
        number = layer.num_layers - 1
        below = layer.below()(tokens, lengths=x.lengths)[0] if number else tokens
        below = below.transpose(0, 1) if layer.batch_first else below
        top, lengths = layer.part(number), x.lengths // (layer.stride if number else 1)
        return top.held_chain(below, lengths).states(*top.unit_references())
    steps, lengths = torch.arange(len(x), device=x.lengths.device), x.lengths // layer.stride
    last = output[(lengths - 1).clamp(min=0), steps]
    return torch.where((lengths > 0)[:, None], last, 0.0)


def layer_references(layer: Any) -> tuple[Tensor, Tensor | None]:
    """Return the references of the last layer ``(H, n, d)``, and what they have for edges.

    They are differentiable.
    """
    number = getattr(layer, "num_layers", 1) - 1
    top = layer.part(number) if hasattr(layer, "num_layers") else layer
    nodes, *edges = (each.transpose(-3, -2) for each in top.unit_references())
    if isinstance(layer, RecurrentKernelMachine):  # of one slot, the newest steps first
        _, n, size = top.references().shape
        nodes = nodes.flatten(1)[:, : n * size].unflatten(1, (n, size)).flip(1)
    return nodes, edges[0] if edges else None
