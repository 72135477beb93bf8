"""Calls of a function of tensors, replayed from a CUDA graph for every shape that repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

WARM_UP = 2  # calls with a shape that run without a graph, which libraries use to set up
MOST = 32  # graphs, each of which has its own inputs
Report = Callable[[str], object]


class Graph(Protocol):
    """A recorded computation that can be repeated on new contents of the same tensors."""

    def capture(self, body: Callable[[], Any]) -> Any:
        """Record a computation, and return its tensors, which are not computed yet."""
        ...

    def replay(self) -> None:
        """Repeat it."""
        ...


class CudaGraph:
    """A graph of CUDA kernels; all graphs use one pool of memory, since they run in turn."""

    _pool: Any = None

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        CudaGraph._pool = CudaGraph._pool or torch.cuda.graph_pool_handle()

    def capture(self, body: Callable[[], Any]) -> Any:
        """Record a computation, and return its tensors, which are not computed yet."""
        with torch.cuda.graph(self._graph, pool=CudaGraph._pool):
            return body()

    def replay(self) -> None:
        """Repeat it."""
        self._graph.replay()


@dataclass(eq=False)
class Captured:
    """A graph, the tensors that it reads, and its results, which every replay overwrites."""

    graph: Graph
    inputs: list[Tensor]
    results: Any


class CapturedCalls:
    """Calls a function, with one launch for inputs whose shapes were met before.

    The inputs of a graph are the tensors of the arguments, which are copied to where the graph
    reads them; other arguments are constants of the graph. The next call overwrites the results.

    Args:
        function: Computes on a CUDA device, without reading a value of a tensor.
        report: Receives the reason if a call cannot be captured; all others run without a graph.
        make: Makes a graph; by default a `CudaGraph`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        report: Report = lambda reason: None,
        make: Callable[[], Graph] | None = None,
    ) -> None:
        self._function, self._report, self._make = function, report, make or CudaGraph
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, Captured] = {}
        self._is_off = False

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns for these arguments."""
        leaves, form = tree_flatten(arguments)
        key = (str(form), *map(_described, leaves))
        if key not in self._graphs:
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._is_off or self._seen[key] <= WARM_UP or len(self._graphs) >= MOST:
                return self._directly(*arguments)
            try:
                self._graphs[key] = self._captured(leaves, form)
            except RuntimeError as error:
                self._is_off = True
                self._report(f"no CUDA graph: {str(error).splitlines()[0]}")
                return self._directly(*arguments)
        captured = self._graphs[key]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for own, given in zip(captured.inputs, tensors, strict=True):
            own.copy_(given)
        return self._replayed(captured)

    def _directly(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def _captured(self, leaves: Sequence[Any], form: Any) -> Captured:
        """Record a graph for inputs like those of the call before."""
        copies = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        graph = self._make()
        results = graph.capture(lambda: self._recorded(*tree_unflatten(copies, form)))
        return Captured(graph, [x for x in copies if isinstance(x, Tensor)], results)

    def _recorded(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def _replayed(self, captured: Captured) -> Any:
        captured.graph.replay()
        return captured.results


def replayed(module: nn.Module) -> Callable[..., Any]:
    """Return what calls a module whose weights stay where they are: from graphs if on a GPU."""
    return CapturedCalls(module) if _is_on_gpu(module) else module


def _is_on_gpu(module: nn.Module) -> bool:
    return any(parameter.is_cuda for parameter in module.parameters())


def _described(leaf: Any) -> Any:
    """Return what must be equal for a graph to take a leaf: the shape of a tensor, else itself."""
    return (leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf
