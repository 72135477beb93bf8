"""One operation: its contract, its backends, and the inputs its tests and benchmarks run on.

The contract (schema, fake, gradient rule, autocast) is registered with torch once; which backend
computes it is an argument of the operator. Backends are added by ``Op.add_backend`` and nowhere
else. Every op consists of two torch operators, ``representer::NAME`` and
``representer::NAME_backward``, so that the gradient is one operator too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from representer.errors import BackendError
from representer.ops.batching import vmap_rule
from representer.ops.selection import chosen_backend, is_recording, record

Results = Tensor | tuple[Tensor, ...]

LIBRARY = torch.library.Library("representer", "DEF")


@dataclass(frozen=True)
class Backend:
    """One way to compute an op.

    Attributes:
        name: What a caller asks for.
        devices: Device types it runs on; empty for any.
        forward: Launcher with the operator's arguments, less the backend's name.
        backward: Launcher of the gradient operator.
        missing: Why it cannot run on this machine, asked once at import; "" if it can.
        refuses: Why it cannot run a call, from its arguments' shapes and dtypes; "" if it can.
    """

    name: str
    devices: tuple[str, ...]
    forward: Callable[..., Results]
    backward: Callable[..., tuple[Tensor, ...]]
    missing: str = ""
    refuses: Callable[..., str] = lambda *arguments: ""

    def obstacle(self, device: str, arguments: tuple[Any, ...]) -> str:
        """Say why this backend cannot run a call on ``device``; "" if it can."""
        if self.missing:
            return self.missing
        if self.devices and device not in self.devices:
            return f"runs on {' and '.join(self.devices)}, not on {device}"
        return self.refuses(*arguments)


@dataclass(frozen=True)
class Sample:
    """One set of arguments of an op, for tests and benchmarks.

    ``make(dtype)`` returns the tensors by name; those that are floating point and not in
    ``constants`` take part in gradients. ``options`` are the other arguments.
    """

    name: str
    make: Callable[[torch.dtype], dict[str, Tensor]]
    options: dict[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()


@dataclass
class Op:
    """An operation with one meaning and several backends.

    Attributes:
        name: Its name in ``OPS`` and, behind ``representer::``, in torch.
        function: The public function, with ``backend=`` as its last argument.
        definition: The equation in ``functional``, differentiable by autograd: the oracle.
        samples: The inputs that tests and benchmarks are generated from.
        backends: By name, the fastest first; ``"reference"`` runs everywhere and is the last.
    """

    name: str
    function: Callable[..., Any]
    definition: Callable[..., Any]
    samples: Callable[[], Iterator[Sample]]
    backends: dict[str, Backend] = field(default_factory=dict)

    def add_backend(self, backend: Backend) -> None:
        """Add a way to compute this op, before those that were there."""
        self.backends = {backend.name: backend, **self.backends}

    def register(
        self,
        schema: str,
        backward_schema: str,
        *,
        fake: Callable[..., Results],
        backward_fake: Callable[..., tuple[Tensor, ...]],
        save: Callable[..., None],
        gradient: Callable[..., tuple[Tensor | None, ...]],
        batch_axes: Mapping[str, int],
        result_axes: Sequence[int],
        mixes_batch: Callable[[Sequence[Any]], bool] = lambda operands: False,
    ) -> None:
        """Tell torch the contract.

        Args:
            schema: Arguments and results of the operator, ``str backend`` last.
            backward_schema: The same of its gradient operator.
            fake: Results without values, allocated as the launchers do.
            backward_fake: The same for the gradient operator.
            save: ``(ctx, inputs, output)`` keeps what the gradient needs.
            gradient: ``(ctx, *gradients)`` calls the gradient operator.
            batch_axes: Where each operand that has a batch has it, by name.
            result_axes: Where each result has it.
            mixes_batch: Whether the sequences of a batch see each other in a call, from its
                operands; ``torch.vmap`` must not make one batch of several then.
        """
        for name, which, arguments, fake_of in (
            (self.name, "forward", schema, fake),
            (f"{self.name}_backward", "backward", backward_schema, backward_fake),
        ):
            LIBRARY.define(name + arguments)
            LIBRARY.impl(name, self._dispatcher(which), "CompositeExplicitAutograd")
            torch.library.register_fake(f"representer::{name}", fake_of, lib=LIBRARY)
        torch.library.register_autograd(
            f"representer::{self.name}", gradient, setup_context=save, lib=LIBRARY
        )
        torch.library.register_autograd(
            f"representer::{self.name}_backward", self._refuse_second_derivative, lib=LIBRARY
        )
        rule = vmap_rule(self.name, batch_axes, result_axes, mixes_batch)
        torch.library.register_vmap(f"representer::{self.name}", rule, lib=LIBRARY)
        for device in ("cpu", "cuda"):  # recurrences lose too much in half precision
            torch.library.register_autocast(
                f"representer::{self.name}", device, torch.float32, lib=LIBRARY
            )

    def choose(self, backend: str | None, device: str, arguments: tuple[Any, ...]) -> str:
        """Name the backend of a call: the one asked for, or the first that can run it.

        Raises:
            BackendError: If the backend asked for does not exist or cannot run the call.
        """
        name = self._first_usable(backend or chosen_backend(), device, arguments)
        if is_recording():
            record(self.name, name, self.explain(device, arguments))
        return name

    def explain(self, device: str, arguments: tuple[Any, ...]) -> dict[str, str]:
        """Say of each backend why it cannot run a call, in order; "" for those that can."""
        return {name: b.obstacle(device, arguments) for name, b in self.backends.items()}

    def _first_usable(self, asked: str | None, device: str, arguments: tuple[Any, ...]) -> str:
        if asked is not None:
            if asked not in self.backends:
                known = ", ".join(self.backends)
                raise BackendError(f"{self.name} has no backend {asked!r}; it has {known}.")
            obstacle = self.backends[asked].obstacle(device, arguments)
            if obstacle:
                raise BackendError(
                    f"{self.name}: backend {asked!r} cannot run this call: {obstacle}. "
                    "Pass backend=None to let the library choose."
                )
            return asked
        for name, candidate in self.backends.items():
            if not candidate.obstacle(device, arguments):
                return name
        raise BackendError(f"{self.name}: no backend runs on {device}.")

    def _refuse_second_derivative(self, ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        raise BackendError(
            f"{self.name} has no second derivative; functional.{self.name} has, by autograd."
        )

    def _dispatcher(self, which: str) -> Callable[..., Results]:
        def dispatch(*arguments: Any) -> Results:
            *operands, backend = arguments
            return getattr(self.backends[backend], which)(*operands)

        return dispatch
