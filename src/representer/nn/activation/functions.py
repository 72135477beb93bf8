"""Activations that a module calls as functions, such as ``F.relu``, as modules of it."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Container, Sequence
from functools import partial
from itertools import count
from typing import Any, cast

from torch import Tensor, fx, nn

from representer.errors import ArgumentError

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
