"""The network of any kernel: a recurrence where the kernel has one, its exact value elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from representer.checks import SuggestsArguments, check_integer
from representer.errors import ArgumentError
from representer.functional import tree_depths, walks_end
from representer.kernel_network.objects import GraphBatch, SharedReferences, read_objects
from representer.kernel_network.values import (
    KernelPart,
    Run,
    embedded_features,
    exact,
    is_fused,
    objects_of,
    parts_of,
)
from representer.kernels import (
    Activated,
    Cosine,
    DeepStringKernel,
    Embedded,
    InversePolynomial,
    Kernel,
    RecurrentKernel,
    WeisfeilerLehmanKernel,
)
from representer.kernels.kernel import References
from representer.kernels.tree_kernels import tree_of
from representer.nn.layer import check_flag

# The network.


class KernelNetwork(SuggestsArguments, nn.Module):
    r"""The network of a kernel: unit i evaluates the kernel against learned reference i.

    Made by ``kernel.network(...)`` for kernels that no other layer evaluates, such as sums and
    products. Strings and walks are computed by recurrences, O(T n) for a unit; other kernels in a
    composition are exact, as is every one with ``fused=False``.

    Args:
        kernel: The kernel.
        input_size: d, features of a token, node or vector.
        hidden_size: H, units.
        reference: Shape of a reference: its number of tokens, or of nodes of a path, or a PyG
            ``Data`` with the edges of a graph; by default the shortest whose kernel is not
            identically 0.
        references: ``"shared"`` by all kernels of a composition, or ``"own"`` ones for each.
        fused: Compute parts that have a recurrence by it.
        edge_dim: K, features of an edge, for kernels that compare edges.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    References are initialized from N(0, 1/d). Tensors and modules in the kernel that require a
    gradient are parameters of the network.

    Attributes:
        reference: The references ``(H, L, d)``, or ``(H, d)`` of vectors; None if parts have their
            own.
        edge_reference: The edges of references that are graphs ``(H, E, K)``, or None.
        own: The networks of the parts, in their order, if they have their own references.

    Shape:
        - X: objects as the kernel takes them, or padded sequences ``(B, T, d)`` with their lengths
        - returns ``(B, H)``

    Raises:
        ArgumentError: If an argument is invalid, or contradicts the kernel.
        TypeError: If there is no such argument.

    Examples:
        >>> from representer.kernels import StringKernel
        >>> StringKernel(2).cosine().network(3, 4)
        KernelNetwork(
          3, 4, Cosine(kernel=StringKernel()), reference=2
          StringKernel(): fused
        )
    """

    def __init__(
        self,
        kernel: Kernel,
        input_size: int,
        hidden_size: int,
        *,
        reference: Any = None,
        references: References = "shared",
        fused: bool = True,
        edge_dim: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._kernel = kernel
        self.input_size = check_integer("input_size", input_size)
        self.hidden_size = check_integer("hidden_size", hidden_size)
        self.fused = check_flag("fused", fused)
        if references not in ("shared", "own"):
            raise ArgumentError("references", references, "'shared' or 'own'")
        self.edge_dim = None if edge_dim is None else check_integer("edge_dim", edge_dim)
        self._check_edges()
        _register(self, kernel)
        like = next((p for p in self.parameters() if p.dim()), torch.empty(0))
        made = {"device": like.device if device is None else device, "dtype": dtype or like.dtype}
        self.own: nn.ModuleList | None = None
        self.reference: nn.Parameter | None = None
        self.edge_reference: nn.Parameter | None = None
        self.topology: Tensor | None
        if references == "own":
            self.reference_size = reference
            self.own = nn.ModuleList(self._own_parts(kernel, self.input_size, made))
            return
        self.reference_size = self._size(reference)
        features = _reference_features(kernel, self.input_size)
        size: tuple[int, ...] = (self.hidden_size, features)
        edges = 0
        if kernel.objects != "vectors":
            is_path = isinstance(self.reference_size, int)
            nodes = self.reference_size if is_path else self.reference_size.num_nodes
            edges = nodes - 1 if is_path else self.reference_size.edge_index.shape[1]
            size = self.hidden_size, nodes, features
            ends = None if is_path else self.reference_size.edge_index.to(made["device"])
            self.register_buffer("topology", ends, persistent=False)
        else:
            self.topology = None
        self.reference = nn.Parameter(torch.empty(size, **made))
        if self.edge_dim is not None:
            shape = self.hidden_size, edges, self.edge_dim
            self.edge_reference = nn.Parameter(torch.empty(shape, **made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw references from N(0, 1/d), scaled down where the kernel bounds their norms."""
        for parameter in (self.reference, self.edge_reference):
            if parameter is not None:
                nn.init.normal_(parameter, std=max(1, parameter.shape[-1]) ** -0.5)
        for net in self.own or ():
            cast(Any, net).reset_parameters()
        if self.reference is None or self.reference.is_meta or not _is_bounded(self.kernel):
            return
        for _ in range(20):
            try:
                with torch.no_grad():
                    self.kernel.diag(self._shared().objects)
                return
            except ArgumentError:  # of a kernel of <x, y> < 2
                self.reference.data.mul_(0.5)

    @property
    def kernel(self) -> Kernel:
        """The kernel, with the numbers that the network has now.

        They are other tensors than those it was made with in `torch.func.functional_call`, in a
        program of `torch.export`, and after ``load_state_dict(assign=True)``.
        """
        return _with_parameters(self._kernel, self._parameters)

    def evaluate(self, X: Any, lengths: Any = None) -> Tensor:
        """Return the kernel of every object and reference ``(B, H)``.

        Args:
            X: The objects, as the kernel takes them, or a padded tensor ``(B, T, d)``.
            lengths: True lengths of a padded tensor ``(B,)``; a length of 0 is allowed.

        Raises:
            ArgumentError: If a length or a number is invalid.
            KindError: If a type, dtype or device is wrong, or graphs have labels.
            ShapeError: If objects have another number of features.
        """
        has_edges = self.edge_dim is not None
        like = self._like()
        x = read_objects(X, lengths, self.kernel, self.input_size, like, edges=has_edges)
        return self.values(x)

    forward = evaluate

    def values(self, x: Any) -> Tensor:
        """Return the kernel of objects that `read_objects` has read."""
        r, kernel = self._references(), self.kernel
        if isinstance(x, GraphBatch) and not len(x):
            return self._like().new_zeros(0, self.hidden_size)
        # a program computes what it can by recurrences, which take any length
        if self.fused or self.own is not None or torch.compiler.is_compiling():
            result = Run(kernel).value(kernel, x, r)
        else:
            result = exact(kernel, x, r)
        return result.to(self._like())

    def references(self) -> Any:
        """Return the references: ``(H, L, d)``, or ``(H, d)`` of vectors, a view of the weights.

        With own references, a tuple of these for the two kernels of each sum or product. Modifying
        them in place changes the network.
        """
        return _detached(self._references())

    def edge_references(self) -> Tensor | None:
        """Return the edges of references ``(H, E, K)``, or None without ``edge_dim``."""
        return None if self.edge_reference is None else self.edge_reference.detach()

    def reference_objects(self) -> list[Any]:
        """Return the H references as ``network.kernel`` takes them, with their gradients."""
        return [*objects_of(self.kernel, self._references())]

    @property
    def parts(self) -> list[KernelPart]:
        """The kernels in this one that are no compositions, and how they are computed."""
        if self.own is not None:
            of_own = (net.parts if isinstance(net, KernelNetwork) else None for net in self.own)
            kernels = (kernel for _, kernel in _leaves(self.kernel))
            pairs = zip(kernels, of_own, strict=True)
            return [p for k, of in pairs for p in of or [KernelPart(k, fused=True)]]
        is_path = self.topology is None
        return [
            KernelPart(k, self.fused and is_fused(k, is_path)) for _, k in parts_of(self.kernel)
        ]

    def extra_repr(self) -> str:
        """Return the kernel, and how each part is computed."""
        kernel = " ".join(repr(self.kernel).split())
        size = self.reference_size
        reference = "own references" if self.own is not None else f"reference={size}"
        lines = [f"{self.input_size}, {self.hidden_size}, {kernel}, {reference}"]
        for operand in self.parts:
            form = "fused" if operand.fused else "the exact kernel"
            lines.append(f"{' '.join(repr(operand.kernel).split())}: {form}")
        return "\n".join(lines)

    def _like(self) -> Tensor:
        """Return the references, or a parameter with their dtype and device."""
        if self.reference is not None:
            return self.reference
        first: Any = cast(nn.ModuleList, self.own)[0]
        return first._like() if isinstance(first, KernelNetwork) else next(first.parameters())

    def _shared(self) -> SharedReferences:
        assert self.reference is not None
        objects, edges = self.kernel.objects, self.edge_reference
        return SharedReferences(self.reference, objects, edges, self.topology)

    def _references(self) -> Any:
        if self.own is None:
            return self._shared()
        return _nested(self.kernel, iter(self.own))

    def _size(self, reference: Any) -> Any:
        """Return the shape of a reference, checked."""
        kernel, least = self.kernel, self.kernel.shortest_reference()
        if kernel.objects == "vectors":
            if reference is not None:
                raise ArgumentError("reference", reference, "None for a kernel of vectors")
            return None
        if kernel.objects == "trees":
            reference = _topology(reference)
        if hasattr(reference, "edge_index"):
            nodes = reference.num_nodes
            if kernel.objects == "sequences" or not nodes:
                expected = "a number of tokens" if nodes else "a graph with nodes"
                raise ArgumentError("reference", reference, expected)
            if not bool(walks_end(reference.edge_index, nodes, least)[:, -1].any()):
                expected = f"a graph with a walk of {least} nodes, since shorter ones give 0"
                raise ArgumentError("reference", reference, expected)
            return reference
        what = "tokens" if kernel.objects == "sequences" else "nodes"
        size = check_integer("reference", least if reference is None else reference)
        if size < least:
            expected = f"at least {least} {what}, since the kernel with a shorter one is 0"
            raise ArgumentError("reference", reference, expected)
        for _, operand in parts_of(kernel):
            repeats = isinstance(operand, RecurrentKernel) and operand.repeat
            if repeats and operand.shortest_reference() != size:
                window = f"{operand.shortest_reference()}, the window of {operand!r}"
                hint = "References of different lengths need references='own'."
                raise ArgumentError("reference", size, window, hint=hint)
        return size

    def _own_parts(self, kernel: Kernel, features: int, made: dict[str, Any]) -> Iterator[Any]:
        """Yield the network of each part with references of its own."""
        for size, leaf in _leaves(kernel, features):
            options = {"edge_dim": self.edge_dim} if _compares_edges(leaf) else {}
            shape = {"reference": self.reference_size, "fused": self.fused}
            yield leaf.network(size, self.hidden_size, **shape, **options, **made)
        _check_norms(kernel)

    def _check_edges(self) -> None:
        compares = _compares_edges(self.kernel)
        if compares and self.edge_dim is None:
            expected = "the number of edge features, since the kernel compares edges"
            raise ArgumentError("edge_dim", None, expected)
        if self.edge_dim is not None and not compares:
            hint = "Use a kernel with edges=True."
            raise ArgumentError("edge_dim", self.edge_dim, "None for this kernel", hint=hint)


def _topology(tree: Any) -> Any:
    """Return the edges of a tree as ``Data``, checked; a number as it is."""
    from torch_geometric.data import Data

    if isinstance(tree, (str, tuple, list)):
        graph = tree_of(tree, "reference")
        return Data(edge_index=graph.edge_index, num_nodes=len(graph))
    if hasattr(tree, "edge_index"):
        tree_depths(tree.edge_index, tree.num_nodes, "reference.edge_index")
    return tree


def _leaves(kernel: Kernel, features: int = 0) -> Iterator[tuple[int, Kernel]]:
    """Yield the kernels that are no compositions, with the features of their own references."""
    if isinstance(kernel, Embedded) and features:
        features = embedded_features(kernel, features)
    inner = kernel.inner_kernels()
    for k in inner:
        yield from _leaves(k, features)
    if not inner:
        yield features, kernel


def _nested(kernel: Kernel, references: Iterator[Any]) -> Any:
    """Return the networks of the parts, as a pair for each sum or product."""
    inner = kernel.inner_kernels()
    if len(inner) == 2:
        return _nested(inner[0], references), _nested(inner[1], references)
    return _nested(inner[0], references) if inner else next(references)


def _detached(r: Any) -> Any:
    if isinstance(r, tuple):
        return tuple(map(_detached, r))
    return r.values.detach() if isinstance(r, SharedReferences) else r.references()


def _register(network: nn.Module, value: Any, name: str = "kernel") -> None:
    """Make the tensors that require a gradient and the modules in a kernel parts of a network."""
    if isinstance(value, Kernel):
        for argument, inner in vars(value).items():
            _register(network, inner, f"{name}_{argument}")
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            _register(network, inner, f"{name}_{i}")
    elif isinstance(value, nn.Module):
        network.add_module(name, value)
    elif isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
        value._is_param = True  # type: ignore[attr-defined]  # an nn.Parameter to torch.export
        network.register_parameter(name, cast(nn.Parameter, value))


def _with_parameters(value: Any, parameters: Mapping[str, Any], name: str = "kernel") -> Any:
    """Return a kernel with the tensors of `_register`; itself if it has them already."""
    if isinstance(value, Kernel):
        pairs = {
            argument: (inner, _with_parameters(inner, parameters, f"{name}_{argument}"))
            for argument, inner in vars(value).items()
        }
        changed = {argument: new for argument, (old, new) in pairs.items() if new is not old}
        if not changed:
            return value
        made = copy.copy(value)
        vars(made).update(changed)
        return made
    if type(value) in (list, tuple):
        items = [_with_parameters(x, parameters, f"{name}_{i}") for i, x in enumerate(value)]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else type(value)(items)
    return parameters.get(name, value) if isinstance(value, Tensor) else value


def _reference_features(kernel: Kernel, features: int) -> int:
    """Return the features of shared references, which may lie in the space of an embedding."""
    if isinstance(kernel, Embedded):
        if not kernel.repeat:
            return features
        return _reference_features(kernel.kernel, embedded_features(kernel, features))
    sizes = {_reference_features(k, features) for k in kernel.inner_kernels()}
    if len(sizes) > 1:
        expected = "'own', since references in the space of an embedding have other features"
        raise ArgumentError("references", "shared", expected)
    return sizes.pop() if sizes else features


def _compares_edges(kernel: Any) -> bool:
    embed = getattr(kernel, "embed", None)
    if getattr(kernel, "edges", False) is True or getattr(embed, "edge_dim", None) is not None:
        return True
    inner = [*kernel.inner_kernels(), getattr(kernel, "base", None)]
    return any(_compares_edges(k) for k in inner if isinstance(k, Kernel))


def _is_bounded(kernel: Kernel) -> bool:
    """Return True if a kernel in it is defined for <x, y> < 2 only."""
    every = [kernel, *kernel.get_params().values()]
    return any(isinstance(k, (InversePolynomial, DeepStringKernel)) for k in every)


def _check_norms(kernel: Kernel, needs: bool = False) -> None:
    """Check that no part whose layer repeats its references must have a norm for them."""
    needs = needs or isinstance(kernel, (Cosine, Activated))
    if needs and isinstance(kernel, (RecurrentKernel, WeisfeilerLehmanKernel)):
        expected = "'shared' for a kernel that needs the norm of each reference"
        hint = f"The network of {kernel!r} alone repeats its references, so they have none."
        raise ArgumentError("references", "own", expected, hint=hint)
    for inner in kernel.inner_kernels():
        _check_norms(inner, needs)
