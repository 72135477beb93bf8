"""Calls of a function of tensors, replayed from a CUDA graph for every shape that repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from representer.training.config import Loss
from representer.training.lazy_adam import LazyAdam

if TYPE_CHECKING:
    from accelerate import Accelerator


WARM_UP = 2  # calls with a shape that run without a graph, which libraries use to set up
MOST = 32  # graphs, each of which has its own inputs
FAILURES = 3  # captures that may fail, of any shapes, before all calls run without a graph
Report = Callable[[str], object]


class CapturedGraph(Protocol):
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
        # calls of other threads, such as one that pins batches, do not end the capture
        with torch.cuda.graph(self._graph, pool=CudaGraph._pool, capture_error_mode="thread_local"):
            return body()

    def replay(self) -> None:
        """Repeat it."""
        self._graph.replay()


@dataclass(eq=False)
class Captured:
    """A graph, the tensors that it reads, and its results, which every replay overwrites."""

    graph: CapturedGraph
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
        self, function: Callable[..., Any], report: Report = lambda reason: None,
        make: Callable[[], CapturedGraph] | None = None,
    ) -> None:  # fmt: skip
        self._function, self._report, self._make = function, report, make or CudaGraph
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, Captured] = {}
        self._failures = 0

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns for these arguments."""
        leaves, form = tree_flatten(arguments)
        modes = torch.is_grad_enabled(), _is_training(self._function), _autocast_dtype()
        key = (str(form), modes, *map(_described, leaves))
        if key not in self._graphs:
            self._seen[key] = self._seen.get(key, 0) + 1
            is_off = self._failures >= FAILURES
            if is_off or self._seen[key] <= WARM_UP or len(self._graphs) >= MOST:
                return self._directly(key, *arguments)
            try:
                self._graphs[key] = self._captured(key, leaves, form)
            except RuntimeError as error:
                self._failures += 1
                self._seen[key] = 0  # and again after as many calls
                if self._failures == 1:
                    self._report(f"no CUDA graph: {str(error).splitlines()[0]}")
                return self._directly(key, *arguments)
        captured = self._graphs[key]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for captured_input, tensor in zip(captured.inputs, tensors, strict=True):
            captured_input.copy_(tensor)
        return self._replayed(key, captured)

    def _directly(self, key: Any, *arguments: Any) -> Any:
        return self._function(*arguments)

    def _captured(self, key: Any, leaves: Sequence[Any], form: Any) -> Captured:
        """Record a graph for inputs like those of direct calls with the same key."""
        copies = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        graph = self._make()
        results = graph.capture(lambda: self._recorded(*tree_unflatten(copies, form)))
        return Captured(graph, [x for x in copies if isinstance(x, Tensor)], results)

    def _recorded(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def _replayed(self, key: Any, captured: Captured) -> Any:
        captured.graph.replay()
        return captured.results


def replayed(module: nn.Module) -> Callable[..., Any]:
    """Return what calls a module whose weights stay where they are: from graphs if on a GPU."""
    return CapturedCalls(module) if _is_on_gpu(module) else module


def _is_on_gpu(module: nn.Module) -> bool:
    return any(parameter.is_cuda for parameter in module.parameters())


def _is_training(function: Callable[..., Any]) -> bool:
    return isinstance(function, nn.Module) and function.training


def _autocast_dtype() -> torch.dtype | None:
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None


def _described(leaf: Any) -> Any:
    """Return what must be equal for a graph to take a leaf: the shape of a tensor, else itself."""
    return (leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf


# Training steps on batches, replayed from a CUDA graph for every shape that repeats.


def can_capture(accelerator: Accelerator, carried: Any) -> bool:
    """Return True if training steps can be captured.

    They run on one CUDA device, in one process and without scaled gradients, and the state that the
    task carries, if any, is in an attribute ``value``.
    """
    is_single = accelerator.device.type == "cuda" and accelerator.num_processes == 1
    is_carried = carried is None or hasattr(carried, "value")
    return is_single and accelerator.scaler is None and is_carried


def can_capture_update(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if steps of an optimizer, too, can be captured.

    The fused kernels of Adam and AdamW read the number of steps, the rate and whether to leave the
    step out from the device, and write only to tensors that stay where they are.
    """
    is_adam = type(optimizer) in (torch.optim.Adam, torch.optim.AdamW, LazyAdam)
    return is_adam and all(
        group["fused"] and not isinstance(group["lr"], Tensor) for group in optimizer.param_groups
    )


class CapturedSteps(CapturedCalls):
    """Computes losses and gradients, with one launch for a batch whose shapes were met before.

    The inputs of a graph are the tensors of the batch and of the state that the task carries, and
    the learning rates. With an update, clipping and optimizer are in the same graph.

    Args:
        compute: Computes the loss of a batch on the device and adds its gradients.
        update: Updates the weights by the gradients, as far as `optimizer` allows it
            (`can_capture_update`), and returns a tensor; None if the caller does so after the call.
        optimizer: Has the learning rates.
        parameters: The trained parameters.
        carried: State between batches, in its attribute ``value``; None without one.
        report: Receives the reason if a batch cannot be captured; all others run without a graph.
        make: Makes a graph; by default a `CudaGraph`.
    """

    def __init__(
        self, compute: Callable[[Any], Loss], update: Callable[[Loss], Tensor] | None,
        optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], carried: Any,
        report: Report, make: Callable[[], CapturedGraph] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(self._step, report, make)
        self._compute, self._update = compute, update
        self._parameters, self._carried = parameters, carried
        self._optimizer, self._rates = optimizer, list[Tensor]()
        self._written: list[float] = []  # the values of the rates
        self._buffers: dict[nn.Parameter, Tensor] = {}
        self._addresses: list[int] = []  # of the parameters
        # by shapes, since a batch may reach parameters that others do not; None if one is sparse
        self._graded: dict[Any, list[nn.Parameter] | None] = {}
        # loading replaces the tensors of the moments, which the graphs write to
        optimizer.register_load_state_dict_post_hook(lambda loaded: self._forget())

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, batch: Any
    ) -> tuple[Loss, Tensor | None]:
        """Return the loss of a batch, after replacing the gradients, and the result of the update.

        That is None if the weights were not updated.
        """
        addresses = [parameter.data_ptr() for parameter in self._parameters]
        if addresses != self._addresses:  # other data, such as those of a compacted activation
            self._forget()
            self._buffers.clear()
            self._addresses = addresses
        loss, updated, state = super().__call__(batch, getattr(self._carried, "value", None))
        self._carry(state)
        return loss, updated

    def _step(self, batch: Any, state: Any) -> tuple[Loss, Tensor | None, Any]:
        """Return the loss of a batch, the result of the update, and the state after the batch.

        Gradients are added to those that are there.
        """
        self._carry(state)
        loss = self._compute(batch)
        shown = loss.shown if loss.shown is None else loss.shown.detach()
        result = Loss(loss.objective.detach(), loss.examples, shown)
        updated = None if self._update is None else self._update(result)
        return result, updated, getattr(self._carried, "value", None)

    def _directly(self, key: Any, *arguments: Any) -> Any:
        self._clear()
        result = self._step(*arguments)
        graded = [(p, p.grad.is_sparse) for p in self._parameters if p.grad is not None]
        is_dense = not any(is_sparse for _, is_sparse in graded)
        self._graded[key] = [parameter for parameter, _ in graded] if is_dense else None
        return result

    def _captured(self, key: Any, leaves: Sequence[Any], form: Any) -> Captured:
        """Record a graph that fills the gradients of the parameters that have one otherwise."""
        graded = self._graded[key]
        if graded is None:
            raise RuntimeError("a gradient is sparse, so its shape depends on the batch")
        for parameter in graded:
            self._buffers.setdefault(parameter, torch.zeros_like(parameter))
        self._clear()
        self._use_buffers(graded)
        if self._update is not None and not self._rates:
            self._written = [group["lr"] for group in self._optimizer.param_groups]
            device = self._parameters[0].device
            # in the precision that the fused kernels read
            self._rates = [
                torch.tensor(r, dtype=torch.float32, device=device) for r in self._written
            ]
        return super()._captured(key, leaves, form)

    def _recorded(self, *arguments: Any) -> Any:
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()
        with self._rates_on_device():
            return self._step(*arguments)

    def _replayed(self, key: Any, captured: Captured) -> Any:
        self._clear()
        self._use_buffers(self._graded[key] or ())
        for i, group in enumerate(self._optimizer.param_groups if self._rates else ()):
            if self._written[i] != group["lr"]:
                self._written[i] = group["lr"]
                self._rates[i].fill_(group["lr"])
        return super()._replayed(key, captured)

    @contextmanager
    def _rates_on_device(self) -> Iterator[None]:
        """Let the optimizer read its rates from tensors within the block.

        Outside of it they are numbers, so that checkpoints and steps without a graph are those of
        a training that has none. The flag is what torch asks for before it captures a step.
        """
        if self._update is None:
            yield
            return
        groups = self._optimizer.param_groups
        kept = [(group["lr"], group["capturable"]) for group in groups]
        try:
            for group, rate in zip(groups, self._rates, strict=True):
                group["lr"], group["capturable"] = rate, True
            yield
        finally:
            for group, (rate, flag) in zip(groups, kept, strict=True):
                group["lr"], group["capturable"] = rate, flag

    def _forget(self) -> None:
        self._graphs.clear()
        self._seen.clear()  # a capture must not make moments, which every replay would set to 0

    def _use_buffers(self, parameters: Sequence[nn.Parameter]) -> None:
        for parameter in parameters:
            parameter.grad = self._buffers[parameter]

    def _carry(self, state: Any) -> None:
        if self._carried is not None:
            self._carried.value = state

    def _clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None
