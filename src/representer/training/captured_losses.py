"""Losses and gradients of batches, replayed from a CUDA graph for every shape that repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from representer.errors import ArgumentError
from representer.training.training_task import Loss

if TYPE_CHECKING:
    from accelerate import Accelerator

WARM_UP = 2  # batches of a shape that run without a graph, which libraries use to set up
MOST = 32  # graphs, each of which has its own inputs


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


def require_capturable(accelerator: Accelerator, carried: Any) -> None:
    """Check that training steps can be captured.

    Raises:
        ArgumentError: They run on no CUDA device, in several processes or with scaled gradients, or
            the task carries a state that is not in an attribute ``value``.
    """
    is_single = accelerator.device.type == "cuda" and accelerator.num_processes == 1
    is_carried = carried is None or hasattr(carried, "value")
    if not (is_single and accelerator.scaler is None and is_carried):
        expected = "False except in one process on a CUDA device, in float32 or bf16"
        raise ArgumentError("cuda_graph", True, expected)


@dataclass
class _Captured:
    graph: Graph
    inputs: list[Tensor]
    gradients: list[tuple[nn.Parameter, Tensor]]
    loss: Loss
    state: Any


class CapturedLosses:
    """Computes losses and gradients, with one launch for a batch whose shapes were met before.

    The inputs of a graph are the tensors of the batch and of the state that the task carries, which
    are copied to where the graph reads them. Other parts of the batch are constants of the graph.
    The optimizer runs without a graph.

    Args:
        compute: Computes the loss of a batch on the device and adds its gradients.
        parameters: The trained parameters.
        carried: State between batches, in its attribute ``value``; None without one.
        report: Receives the reason if a batch cannot be captured; all others run without a graph.
        make: Makes a graph; by default a `CudaGraph`.
    """

    def __init__(
        self,
        compute: Callable[[Any], Loss],
        parameters: Sequence[nn.Parameter],
        carried: Any,
        report: Callable[[str], object],
        make: Callable[[], Graph] | None = None,
    ) -> None:
        self._compute, self._parameters, self._carried = compute, parameters, carried
        self._report, self._make = report, make or CudaGraph
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, _Captured] = {}
        self._buffers: dict[nn.Parameter, Tensor] = {}
        self._is_off = False

    def __call__(self, batch: Any) -> Loss:
        """Return the loss of a batch, after replacing the gradients."""
        leaves, form = tree_flatten((batch, getattr(self._carried, "value", None)))
        key = (str(form), *(_described(leaf) for leaf in leaves))
        if key not in self._graphs:
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._is_off or self._seen[key] <= WARM_UP or len(self._graphs) >= MOST:
                return self._directly(batch)
            try:
                self._graphs[key] = self._capture(leaves, form)
            except RuntimeError as error:
                self._is_off = True
                self._report(f"no CUDA graph: {str(error).splitlines()[0]}")
                _, state = tree_unflatten(leaves, form)
                self._carry(state)
                return self._directly(batch)
        captured = self._graphs[key]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for own, given in zip(captured.inputs, tensors, strict=True):
            own.copy_(given)
        self._clear()
        for parameter, gradient in captured.gradients:
            parameter.grad = gradient
        captured.graph.replay()
        self._carry(captured.state)
        return captured.loss

    def _directly(self, batch: Any) -> Loss:
        self._clear()
        return self._compute(batch)

    def _capture(self, leaves: Sequence[Any], form: Any) -> _Captured:
        """Record a graph for inputs like those of the batch before, which had gradients."""
        copies = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        graded = [parameter for parameter in self._parameters if parameter.grad is not None]
        for parameter in graded:
            self._buffers.setdefault(parameter, torch.zeros_like(parameter))
        gradients = [(parameter, self._buffers[parameter]) for parameter in graded]

        def body() -> tuple[Loss, Any]:
            batch, state = tree_unflatten(copies, form)
            self._carry(state)
            for parameter, gradient in gradients:
                parameter.grad = gradient.zero_()
            loss = self._compute(batch)
            shown = loss.shown if loss.shown is None else loss.shown.detach()
            found = Loss(loss.objective.detach(), loss.examples, shown)
            return found, getattr(self._carried, "value", None)

        graph = self._make()
        loss, state = graph.capture(body)
        inputs = [copy for copy in copies if isinstance(copy, Tensor)]
        return _Captured(graph, inputs, gradients, loss, state)

    def _carry(self, state: Any) -> None:
        if self._carried is not None:
            self._carried.value = state

    def _clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


def _described(leaf: Any) -> Any:
    """Return what must be equal for a graph to take a leaf: the shape of a tensor, else itself."""
    return (leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf
