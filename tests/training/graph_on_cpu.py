"""Graphs that run on the CPU and keep the rules of a CUDA graph.

What is captured is not computed before it is replayed, and replaying runs on the tensors of the
capture and draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class GraphOnCpu:
    """A graph that runs its Python code again."""

    made: list[GraphOnCpu] = []  # noqa: RUF012  (emptied by the fixtures)

    def __init__(self) -> None:
        self.replays = 0
        self.made.append(self)

    def capture(self, body: Callable[[], Any]) -> Any:
        """Run the body, take back what it changed, and make its results NaN."""
        before = torch.get_rng_state()
        with Calls() as self.calls:
            self.body, self.results = body, body()
        self.calls.take_back()
        torch.set_rng_state(before)
        for x in _tensors(self.results):
            x.fill_(float("nan"))
        return self.results

    def replay(self) -> None:
        """Run the body again, and write its results where those of the capture are."""
        self.replays += 1
        for own, new in zip(_tensors(self.results), _tensors(self.body()), strict=True):
            own.copy_(new)


class RecordedGraph(GraphOnCpu):
    """A graph of torch's operators, which runs no Python code of the body again.

    It refuses to read a tensor, and sees no call of the core of this library.
    """

    def capture(self, body: Callable[[], Any]) -> Any:
        """Record the operators of the body."""
        self.body = body
        results = super().capture(body)
        if self.calls.has_read:
            raise RuntimeError("operation not permitted when stream is capturing")
        return results

    @torch.no_grad()
    def replay(self) -> None:
        """Call the operators again, on the tensors of the capture."""
        self.replays += 1
        for function, positional, named, results in self.calls.made:
            again = function(*positional, **named)
            if not any(x.alias_info for x in function._schema.returns):
                for own, new in zip(results, _tensors(again), strict=True):
                    own.copy_(new)


class Calls(TorchDispatchMode):
    """The calls of operators within a block, and what the tensors that they write held before."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Any, Any, Any, list[Tensor]]] = []
        self._before: list[tuple[Tensor, Tensor]] = []
        self.has_read = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note a call and make it."""
        kwargs = kwargs or {}
        self.has_read |= function is torch.ops.aten._local_scalar_dense.default
        for i, argument in enumerate(function._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[i] if i < len(args) else kwargs.get(argument.name)
                self._before += [(x.detach(), x.detach().clone()) for x in _tensors(value)]
        results = function(*args, **kwargs)
        # autograd marks the tensors later, and what is replayed has no gradients
        self.made.append((function, *_detached((args, kwargs)), _tensors(_detached(results))))
        return results

    def take_back(self) -> None:
        """Write what the tensors held before."""
        for tensor, value in reversed(self._before):
            tensor.copy_(value)


def _detached(values: Any) -> Any:
    return tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, values)


def _tensors(results: Any) -> list[Tensor]:
    return [x for x in tree_leaves(results) if isinstance(x, Tensor)]
