"""Replacement of the activations of a model, and of the functions it calls, by learned ones."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import warnings
from collections.abc import Container, Sequence
from functools import partial
from itertools import count
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from representer.errors import ArgumentError
from representer.nn.activation.kernel_activation import KernelActivation
from representer.ops.common import evaluating

_Module = TypeVar("_Module", bound=nn.Module)

ELEMENTWISE: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardswish,
    nn.Hardsigmoid, nn.Tanhshrink, nn.Softshrink,
)  # fmt: skip
"""Modules of torch that apply one continuous function elementwise."""
OTHERS = (nn.PReLU, nn.RReLU, nn.Hardshrink, nn.Threshold)
"""Activations of torch that stay: with weights, with noise, or with a jump."""
_LIBRARIES = ("torch", "representer", "torch_geometric", "builtins")


def replace_activations(
    module: _Module,
    num_centers: int = 20,
    example_input: Any = None,
    *,
    green: str = "abs",
    limits: tuple[float, float] = (-4.0, 4.0),
    **options: Any,
) -> _Module:
    """Replace a model's activations by learned ones, initialized as the functions they replace.

    Modules, such as ``nn.ReLU``, and functions that a forward pass calls, such as ``F.relu`` and
    ``x.relu()``, where ``torch.fx`` can trace the pass and every pass is the traced one.

    Args:
        module: The model, which is modified in place.
        num_centers: d of each activation.
        example_input: A tensor or tuple of arguments, with which the model is called once to
            determine the number of neurons of each activation. Each neuron then has its own
            function, or each channel after a convolution. By default, all neurons of an activation
            share one function.
        green: g.
        limits: The range on which the functions are fitted; beyond it they start straight, and are
            0 for ``"gaussian"``.
        **options: Other arguments of `KernelActivation`.

    Returns:
        The module; but with ``"gaussian"`` every activation has a linear term.

    Warns:
        UserWarning: If an activation stays: one that a module calls as a function in a forward pass
            that cannot be traced, or one of ``nn.PReLU``, ``nn.RReLU``, ``nn.Hardshrink`` and
            ``nn.Threshold``.

    References:
        Marra et al., 2018, (1): a separate function for each neuron of any network.
    """
    if functions := _make_modules(module):
        warnings.warn(
            f"{', '.join(functions)} is not changed, since it is called as a function of a forward "
            "pass that cannot be traced. Use modules, such as nn.ReLU(), for activations to "
            "replace.",
            stacklevel=2,
        )
    if others := {type(m).__name__: m for m in module.modules() if isinstance(m, OTHERS)}:
        warnings.warn(
            f"{', '.join(others)} is not changed, since it has weights, noise or a jump. Put "
            "another activation in its place first, such as nn.LeakyReLU().",
            stacklevel=2,
        )
    replaceable = [
        (owner, name, child)
        for owner in module.modules()
        for name, child in owner._modules.items()  # every occurrence of shared modules
        if isinstance(child, (*ELEMENTWISE, CalledFunction))
    ]
    layouts = _layouts(module, {child for _, _, child in replaceable}, example_input)
    like = next(module.parameters(), torch.empty(0))
    made: dict[nn.Module, KernelActivation] = {}
    for owner, name, child in replaceable:
        if child not in made:
            seen = layouts.get(child, set())
            features, dim = seen.pop() if len(seen) == 1 else (1, -1)
            plain = _out_of_place(child)
            made[child] = KernelActivation(
                features, num_centers, green, limits, plain, dim=dim,
                device=like.device, dtype=like.dtype, **options,
            ).train(child.training)  # fmt: skip
        setattr(owner, name, made[child])
        if isinstance(owner, nn.TransformerEncoderLayer):
            owner.activation_relu_or_gelu = 0  # else torch computes it, in inference
    for owner in module.modules():
        if isinstance(owner, nn.TransformerEncoder):
            owner.use_nested_tensor &= not made  # only torch's own activations take them
    return module


def activation_penalty(module: nn.Module, norm: Literal["l1", "smoothness"] = "l1") -> Tensor:
    """Return the penalty ``()`` of all learned activations; see `KernelActivation.penalty`.

    Functions on edges have their own, `KernelLinear.penalty`.

    Args:
        module: The model.
        norm: Σ|χ|, or the integral of the squared derivative.
    """
    penalties = [m.penalty(norm) for m in module.modules() if isinstance(m, KernelActivation)]
    return torch.stack(penalties).sum() if penalties else torch.zeros(())


def activation_groups(
    module: nn.Module, lr: float | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Return parameter groups for an optimizer, with the learned activations in a separate group.

    Those of `KernelLinear` are among the other parameters.

    Args:
        module: The model.
        lr: Learning rate of centers, coefficients and lines; that of the optimizer by default.
        **options: Other options of their group, such as ``weight_decay=0.0``.
    """
    parameters = [
        parameter
        for activation in module.modules()
        if isinstance(activation, KernelActivation)
        for name, parameter in activation.named_parameters()  # as parametrized, too
        if not name.startswith("norm.")
    ]
    taken = {id(parameter) for parameter in parameters}
    rest = [parameter for parameter in module.parameters() if id(parameter) not in taken]
    group: dict[str, Any] = {"params": parameters, **options}
    return [{"params": rest}, group if lr is None else {**group, "lr": lr}]


def _make_modules(module: nn.Module) -> list[str]:
    """Make activations that are called as functions modules, and return the names of others."""
    names = {layer.__name__.lower() for layer in ELEMENTWISE}
    calls: dict[str, None] = {}
    for owner in [*module.modules()]:
        for name, value in [*vars(owner).items()]:
            called = getattr(value, "__name__", "")
            if called.replace("_", "") in names and not called.endswith("_"):
                delattr(owner, name)
                setattr(owner, name, CalledFunction(called, "call_function", value))
        kinds = [k for k in type(owner).__mro__ if k.__module__.split(".")[0] not in _LIBRARIES]
        made = call_modules(owner, names) if kinds else []
        members = [x for layer in kinds for x in vars(layer).values()]
        used = [name for x in members if (code := getattr(x, "__code__", None))
                for name in code.co_names if name not in owner._modules]  # fmt: skip
        if kinds:  # also by another name, or in a function that forward calls
            with contextlib.suppress(Exception):  # of a forward that depends on values
                used += map(called_name, trace(owner).nodes)
        for name in used:
            if name.replace("_", "") in names and name not in made:
                calls[f"{type(owner).__name__}: {name}"] = None
    return list(calls)


def _layouts(
    module: nn.Module, children: set[nn.Module], example_input: Any
) -> dict[nn.Module, set[tuple[int, int]]]:
    """Return the numbers of features of the inputs of each activation, and their dimensions."""
    layouts: dict[nn.Module, set[tuple[int, int]]] = {}
    if example_input is None:
        return layouts
    last: list[tuple[int, int]] = []  # channels of the latest output that has any, and their axis

    def note(child: nn.Module, arguments: tuple[Any, ...]) -> None:
        if shape := arguments[0].shape:
            layouts.setdefault(child, set()).add(_layout(shape, last[-1] if last else None))

    hooks = [child.register_forward_pre_hook(note) for child in children]
    for submodule in module.modules():
        if channels := _channels(submodule):
            hook = partial(lambda channels, *_: last.append(channels), channels)
            hooks.append(submodule.register_forward_hook(hook))
    try:
        with torch.no_grad(), evaluating(module):
            arguments = example_input if isinstance(example_input, tuple) else (example_input,)
            module(*arguments)
    finally:
        for hook in hooks:
            hook.remove()
    return layouts


def _channels(module: nn.Module) -> tuple[int, int] | None:
    """Return the number of channels of a module's output and their axis, if torch defines them."""
    match module:
        case _ConvNd():
            return module.out_channels, -1 - len(module.kernel_size)
        case _NormBase():
            return module.num_features, 1
        case nn.GroupNorm():
            return module.num_channels, 1
        case nn.Linear():
            return module.out_features, -1
        case nn.LayerNorm():
            return module.normalized_shape[-1], -1
    return None


def _layout(shape: torch.Size, channels: tuple[int, int] | None) -> tuple[int, int]:
    """Return the number of features of an input and their dimension; 1 if it is unknown."""
    if channels is None:
        return (shape[1], 1) if len(shape) > 3 else (shape[-1], -1)
    count, expected = channels
    for axis in (expected, -1, 1):  # it may have been transposed since
        if -len(shape) <= axis < len(shape) and shape[axis] == count:
            return count, axis if axis == -1 else axis % len(shape)
    return (shape[-1], -1) if len(shape) == 2 else (1, -1)


def _out_of_place(child: nn.Module) -> nn.Module:
    """Return the activation without ``inplace``, for the fit."""
    if getattr(child, "inplace", False):
        child.inplace = False  # type: ignore[assignment]
    return child


# Activations that a module calls as functions, such as ``F.relu``, as modules of it.


# ``torch.fx`` traces the forward pass of a module with its children as single calls, in training
# and in evaluation, which dropout tells apart. In the traced pass, modules replace the functions.

PASSES = True, False  # training or not


class CalledFunction(nn.Module):
    """A function that a module called, of one tensor."""

    def __init__(
        self, name: str, op: str, target: Any, options: tuple[Any, Any] = ((), {})
    ) -> None:
        super().__init__()
        self.name, self.op, self.target, self.options = name, op, target, options

    def forward(self, x: Tensor) -> Tensor:
        """Return the value of the function."""
        args, kwargs = self.options
        call = getattr(x, self.target) if self.op == "call_method" else partial(self.target, x)
        return call(*args, **kwargs)

    def extra_repr(self) -> str:
        """Return the name of the function."""
        return self.name


class _Children(fx.Tracer):
    """Traces a module alone, with its children as single calls."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def trace(module: nn.Module) -> fx.Graph:
    """Return the forward pass of a module, its children as single calls; raise if it cannot be."""
    return _Children().trace(copy.copy(module))  # in which forward may store proxies


def called_name(node: fx.Node) -> str:
    """Return the name of the function or method that a node calls, or "" for others."""
    is_call = node.op in ("call_function", "call_method")
    return str(getattr(node.target, "__name__", node.target)) if is_call else ""


def call_modules(module: nn.Module, names: Container[str]) -> list[str]:
    """Make the functions that a module calls modules of it, once, and return their names.

    The module becomes one of a subclass, whose forward pass is the traced one. Nothing changes if
    it cannot be traced, or if a traced pass could differ from another one: if it has optional
    arguments, stores a value, makes a tensor, or overwrites one that it uses again.
    """
    if isinstance(done := getattr(module, "called_functions", None), tuple):
        return [*done]
    try:
        calls = [_functions(graph, names) for graph in _graphs(module)]
    except Exception:  # tracing runs the code of any module
        return []
    first, second = ([(f.name, f.options) for f in traced] for traced in calls)
    if first != second:
        return []
    made = []
    for function in calls[0]:
        name = f"called_{function.name.strip('_')}"
        name = next(n for i in count() if not hasattr(module, n := f"{name}_{i}"))
        module.add_module(name, function)
        made.append(name)
    if made:
        module.__class__ = _subclass(module, names, made)
    return [function.name for function in calls[0]]


def _graphs(module: nn.Module) -> list[fx.Graph]:
    """Return the traced passes in training and in evaluation."""
    parameters = inspect.signature(type(module).forward).parameters.values()
    fixed = all(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    graphs = []
    for training in PASSES:
        m = copy.copy(module)
        m.training = training
        before = dict(vars(m))
        graphs.append(_Children().trace(m))
        if not fixed or vars(m) != before:  # a stored value, or a tensor that became a constant
            raise ArgumentError("module", type(module).__name__, "a forward pass that is always so")
    return graphs


def _nodes(graph: fx.Graph, names: Container[str]) -> list[fx.Node]:
    return [node for node in graph.nodes if called_name(node).replace("_", "") in names]


def _functions(graph: fx.Graph, names: Container[str]) -> list[CalledFunction]:
    """Return the functions of one tensor that a pass calls."""
    result = []
    for node in _nodes(graph, names):
        options = dict(node.kwargs)
        is_in_place = options.pop("inplace", False) is True or called_name(node).endswith("_")
        x, *rest = node.args or (options.pop("input", None),)
        if node.all_input_nodes != [x] or (is_in_place and len(cast(fx.Node, x).users) > 1):
            raise ArgumentError("function", called_name(node), "one of one tensor")
        result.append(CalledFunction(called_name(node), node.op, node.target, (rest, options)))
    return result


def _subclass(module: nn.Module, names: Container[str], made: Sequence[str]) -> type[nn.Module]:
    """Return a subclass of the class of a module, which calls the modules `made`."""
    base = type(module)
    passes, called = {}, ()
    for training, graph in zip(PASSES, _graphs(module), strict=True):
        nodes = _nodes(graph, names)
        called = tuple(map(called_name, nodes))
        for node, name in zip(nodes, made, strict=True):
            x = node.args[0] if node.args else node.kwargs["input"]
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.call_module(name, (x,)))
            graph.erase_node(node)
        passes[training] = type(fx.GraphModule(module, graph)).forward

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return passes[self.training](self, *args, **kwargs)

    def reduce(self: nn.Module, protocol: Any) -> Any:
        return _restored, (base, names, made, dict(vars(self)))

    functools.update_wrapper(forward, base.forward)
    members = {"forward": forward, "__reduce_ex__": reduce, "__module__": base.__module__}
    return type(base.__name__, (base,), {**members, "called_functions": called})


def _restored(base: Any, names: Container[str], made: Sequence[str], state: Any) -> nn.Module:
    """Return the copy of a module that calls modules."""
    module = base.__new__(base)
    module.__dict__.update(state)
    module.__class__ = _subclass(module, names, made)
    return module
