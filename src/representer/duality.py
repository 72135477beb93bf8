"""The correspondence between kernels and networks.

The state of unit i of ``kernel.network(...)`` is the kernel between the input and reference i, and
``network.kernel`` returns that kernel; a layer with gates returns the kernel that it has learned.
Only this module and `kernel_network` import both ``kernels`` and ``nn``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from representer.errors import ArgumentError, NoKernelError
from representer.functional import NONLINEARITIES
from representer.kernel_network import KernelNetwork, layer_references, layer_values, read_objects
from representer.kernels import (
    Embedded,
    Kernel,
    LearnedKernel,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
    TreeKernel,
    WeisfeilerLehmanKernel,
)
from representer.kernels.composition import mercer_violation
from representer.kernels.kernel import References
from representer.nn import RKM, LinearKernelRNN, StringKernelRNN
from representer.nn.recurrent.machine import RecurrentKernelMachine
from representer.nn.recurrent.sequence_layer import SequenceLayer

if TYPE_CHECKING:
    from representer.nn import DeepGraphKernelNN, RandomWalkKernelNN, TreeKernelNN, WLKernelNN


def network_of(
    kernel: Kernel, input_size: int, hidden_size: int, *, reference: Any = None,
    references: References = "shared", fused: bool = True, **options: Any,
) -> nn.Module:  # fmt: skip
    """Return the network of a kernel; see ``Kernel.network``."""
    if reason := kernel.no_network():
        raise ArgumentError("kernel", kernel, "one that is differentiable", hint=reason)
    if references not in ("shared", "own"):
        raise ArgumentError("references", references, "'shared' or 'own'")
    has_order = isinstance(kernel, (StringKernel, RandomWalkKernel, TreeKernel))
    is_whole = reference is None or (has_order and reference == kernel.order)
    layer = _layer_of(kernel, input_size, hidden_size, options) if is_whole else None
    if layer is not None and fused:
        return layer
    if reference is None and isinstance(kernel, (RecurrentKernel, WeisfeilerLehmanKernel)):
        kernel = kernel.repeating()
    of_parts = kernel.inner_kernels() and references == "own"
    shape = {"reference": reference, "references": "own" if of_parts else "shared"}
    network = KernelNetwork(kernel, input_size, hidden_size, fused=fused, **shape, **options)
    if layer is not None:  # the oracle begins with the same references
        _begin(network, layer)
    return network


def evaluate(layer: nn.Module, X: Any, lengths: Any = None) -> Tensor:
    """Return the states of a layer after every object, before any activation; see ``HasKernel``."""
    of_layer: Any = layer
    is_sequence = hasattr(layer, "input_size")
    features = of_layer.input_size if is_sequence else of_layer.in_channels
    like = next(layer.parameters())
    kernel: Kernel = StringKernel() if is_sequence else RandomWalkKernel()  # of the same objects
    kernel = TreeKernel() if hasattr(layer, "edge_decays") else kernel
    has_edges = getattr(layer, "edge_dim", None) is not None
    x = read_objects(X, lengths, kernel, features, like, edges=has_edges)
    return layer_values(layer, x)


def reference_objects(layer: nn.Module) -> list[Any]:
    """Return the references of a layer as its kernel takes them; see ``HasKernel``."""
    references, edges = layer_references(layer)
    if hasattr(layer, "input_size"):
        return [*references.unbind(0)]
    from representer.nn import path_graph

    if not hasattr(layer, "edge_decays"):
        of_edges = [None] * len(references) if edges is None else [*edges]
        return [path_graph(r, e) for r, e in zip(references, of_edges, strict=True)]
    paths = [path_graph(reference) for reference in references]
    for path, weights in zip(paths, [] if edges is None else edges, strict=False):
        path.position = weights  # of children in trees
    return paths


def _layer_of(
    kernel: Kernel, input_size: int, hidden_size: int, options: dict[str, Any]
) -> nn.Module | None:
    """Return the layer of ``nn`` that evaluates a kernel, or None if there is none."""
    if kernel.has_gradient:  # of its decay or static gates, numbers in a layer
        return None
    if isinstance(kernel, RecurrentKernel):
        return _recurrent_layer(kernel, input_size, hidden_size, options)
    if isinstance(kernel, StringKernel):
        is_zero = kernel.normalized is True and float(kernel.decay) == 1
        if kernel.base != "linear" or not kernel.trailing or is_zero:
            return None
        arguments = {"combine": "add_exact" if kernel.combine == "add" else "multiply"}
        arguments |= {"normalized": kernel.normalized, "readout": "last"}
        settings = {"activation": None, **_settings(kernel, options, arguments)}
        return StringKernelRNN(input_size, hidden_size, **settings)
    if isinstance(kernel, RandomWalkKernel):
        if kernel.base != "linear" or isinstance(kernel.nonlinear, Kernel):
            return None
        from representer.nn import RandomWalkKernelNN

        _check_walks(kernel, options)
        arguments = {"combine": kernel.combine, "nonlinear": kernel.nonlinear}
        return RandomWalkKernelNN(input_size, hidden_size, **_settings(kernel, options, arguments))
    if isinstance(kernel, TreeKernel):
        from representer.nn import TreeKernelNN

        arguments = {"ordered": kernel.ordered}
        return TreeKernelNN(input_size, hidden_size, **_settings(kernel, options, arguments))
    if isinstance(kernel, WeisfeilerLehmanKernel):
        return _levels_network(kernel, input_size, hidden_size, options)
    return None


def _begin(network: KernelNetwork, layer: Any) -> None:
    references, edges = layer_references(layer)
    if network.reference is not None and network.reference.shape == references.shape:
        network.reference.data.copy_(references)
    if network.edge_reference is not None and edges is not None:
        network.edge_reference.data.copy_(edges)


def kernel_of(layer: nn.Module) -> Kernel:
    """Return the kernel of a layer's state, before an activation or output nonlinearity.

    It is the exact kernel of the input and each of ``references()``, if the layer evaluates one;
    with gates, learned decays or sums of states, the :class:`LearnedKernel`; of several layers,
    the kernel of the last one, of what the layers below embed.
    """
    kernel = _kernel_or_reason(layer)
    if isinstance(kernel, str):
        expected = "one whose units are linear in features of their references"
        raise NoKernelError("layer", repr(layer), expected, hint=kernel)
    return kernel


def _settings(kernel: Any, options: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the arguments of the kernel, which they must not contradict."""
    arguments = {"order": kernel.order, "decay": float(kernel.decay), **arguments}
    for name, value in arguments.items():
        if name in options and options[name] != value:
            raise ArgumentError(name, options[name], f"{value!r}, as in the kernel")
    return {**options, **arguments}


def _recurrent_layer(
    kernel: RecurrentKernel, input_size: int, hidden_size: int, options: dict[str, Any]
) -> RKM | LinearKernelRNN:
    lengths = {"filter_length": kernel.filter_length, "dilation": kernel.dilation}
    settings: dict[str, Any] = {**lengths, "feedback": False, **options}
    if kernel.static_gates is not None:
        settings = {"output_gate": False, "output_nonlinearity": "identity", **settings}
        a, b = kernel.static_gates
        gates = float(a), float(b)
        return LinearKernelRNN(input_size, hidden_size, static_gates=gates, **settings)
    layer = RKM(input_size, hidden_size, q=kernel.q, unit_norm=kernel.unit_norm, **settings)
    layer.check_mercer = kernel.check_mercer
    return layer


def _check_walks(kernel: RandomWalkKernel, options: dict[str, Any]) -> None:
    if kernel.edges and options.get("edge_dim") is None:
        expected = "the number of edge features, since the kernel compares edges"
        raise ArgumentError("edge_dim", None, expected)
    if not kernel.edges and options.get("edge_dim") is not None:
        hint = "Use RandomWalkKernel(edges=True)."
        raise ArgumentError("edge_dim", options["edge_dim"], "None for this kernel", hint=hint)


def _levels_network(
    kernel: WeisfeilerLehmanKernel, features: int, references: int, options: dict[str, Any]
) -> WLKernelNN | None:
    from representer.nn import Relabeling, WLKernelNN

    base, relabel = kernel.base_kernel, kernel.relabel
    if not isinstance(relabel, Relabeling):
        return None
    if relabel.channels != features:
        raise ArgumentError("relabel", relabel, f"nn.Relabeling({features}) for a network")
    if (
        not isinstance(base, RandomWalkKernel)
        or (base.base, base.combine, base.edges) != ("linear", "multiply", kernel.edges)
        or base.nonlinear
    ):
        return None
    arguments = {
        "depth": kernel.depth + 1,
        "edge_dim": relabel.edge_dim if kernel.edges else None,
        "readout": "sum",
        "label_channels": 0,
        "sigma": relabel.activation,
        "relabel_combine": relabel.combine,
    }
    like = {"device": relabel.weight.device, "dtype": relabel.weight.dtype}
    layer = WLKernelNN(features, references, **{**like, **_settings(base, options, arguments)})
    layer.relabeling = relabel
    layer.has_default_base = kernel.base is None
    return layer


def _kernel_or_reason(layer: Any) -> Kernel | str:
    from representer.nn import DeepGraphKernelNN, RandomWalkKernelNN, TreeKernelNN, WLKernelNN

    if isinstance(layer, SequenceLayer):
        if layer.bidirectional or layer.num_layers == 1:
            is_machine = isinstance(layer, RecurrentKernelMachine)
            return _recurrent(layer) if is_machine else _string(layer)
        last = _kernel_or_reason(layer.part(layer.num_layers - 1))
        return last if isinstance(last, str) else Embedded(last, layer.below(), repeat=True)
    if isinstance(layer, RandomWalkKernelNN):
        return _walks(layer)
    if isinstance(layer, TreeKernelNN):
        return _trees(layer)
    if isinstance(layer, WLKernelNN):
        return _levels(layer)
    assert isinstance(layer, DeepGraphKernelNN)
    number = layer.num_layers - 1
    last = _walks(layer.part(number))
    if isinstance(last, str) or not number:
        return last
    return Embedded(last, NodeLabels(layer, number), repeat=True)


def _recurrent(layer: RecurrentKernelMachine) -> Kernel | str:
    cell = layer.cell
    n = layer.filter_length
    lengths = list(n) if isinstance(n, dict) else [n]
    options: dict[str, Any] = {"filter_length": max(lengths), "dilation": layer.dilation}
    is_plain = not (layer.bidirectional or layer.layer_norm or any(layer.zoneout))
    if isinstance(layer, RKM) and not layer.feedback and is_plain:
        q = layer.q
        if isinstance(q, tuple):
            return "Each unit has its own q; unit i evaluates RecurrentKernel(q_i, repeat=True)."
        if q == "gaussian" and len(lengths) > 1:
            return "Its filters compare windows of different lengths."
        if layer.check_mercer and (violation := mercer_violation(q)):
            return f"Its q is not a Mercer kernel: {violation}."
        if layer.stride == 1:
            options |= {"check_mercer": layer.check_mercer, "unit_norm": layer.unit_norm}
            return RecurrentKernel(q, repeat=True, **options)
        if q != "linear":
            return "It skips steps, unlike the kernel."
    if reason := layer.not_linear():
        return reason
    is_static = cell.input_gate == "static" and cell.forget_gate in ("static", "none")
    is_fixed = is_static and not (layer.learn_static or cell.output_gate or cell.candidate_bias)
    if cell.feedback != "none" or not is_fixed or layer.stride > 1:
        return LearnedKernel(layer)
    b = layer.static[1] if cell.forget_gate == "static" else 0.0
    return RecurrentKernel("linear", static_gates=(layer.static[0], b), repeat=True, **options)


def _string(layer: Any) -> Kernel | str:
    if reason := layer.not_linear():  # that of nn.KBRN, too
        return reason
    chain = layer.chains[0]
    is_last = chain.readout == "last" or (chain.order == 1 and chain.readout == "sum")
    is_kernel = is_last and (chain.combine != "add" or chain.order == 1) and not chain.highway
    if isinstance(layer.decay, str) or not is_kernel:
        return LearnedKernel(layer)
    combine = "multiply" if chain.combine == "multiply" else "add"
    return StringKernel(chain.order, layer.decay, combine=combine, normalized=layer.normalized)


def _walks(layer: RandomWalkKernelNN) -> Kernel | str:
    if reason := layer.not_linear():
        return reason
    if isinstance(layer.decay, str):
        return LearnedKernel(layer)
    sigma = layer.options.sigma
    # a σ without a kernel has no effect on walks of one node
    is_idle = sigma == "identity" or not NONLINEARITIES[sigma].mercer
    edges = layer.edge_dim is not None
    nonlinear = False if is_idle else sigma
    return RandomWalkKernel(layer.order, layer.decay, layer.combine, nonlinear, edges=edges)


def _trees(layer: TreeKernelNN) -> Kernel:
    if isinstance(layer.decay, str):
        return LearnedKernel(layer)
    return TreeKernel(layer.order, layer.decay, layer.ordered)


def _levels(layer: WLKernelNN) -> Kernel:
    is_shared = layer.share_references or len(layer.read_levels) == 1
    if isinstance(layer.decay, str) or layer.normalize or not is_shared:
        return LearnedKernel(layer)
    edges = layer.edge_dim is not None
    base = RandomWalkKernel(layer.order, layer.decay, edges=edges)
    last = layer.depth - 1
    if layer.readout == "last" and last:
        return Embedded(base, NodeLabels(layer, last), repeat=True)
    chosen = None if layer.has_default_base else base
    kernel = WeisfeilerLehmanKernel(chosen, last, layer.relabeling, edges, repeat=True)
    return Embedded(kernel, NodeLabels(layer, 0), repeat=True) if layer.label_channels else kernel


class NodeLabels(nn.Module):
    """The labels that a network of walks gives to nodes, before one of its levels or layers."""

    def __init__(self, network: WLKernelNN | DeepGraphKernelNN, level: int) -> None:
        super().__init__()
        self.network = network
        self.level = level
        self.edge_dim = network.edge_dim

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Return the labels of the nodes ``(N, d)``."""
        return self.network.labels(x, edge_index, edge_attr, self.level)
