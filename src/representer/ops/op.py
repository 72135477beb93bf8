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
from representer.ops.operands import (
    Layout,
    call_verified,
    check_no_forward_mode,
    check_storage,
    checked,
    is_forward_mode,
    is_verified,
)
from representer.ops.selection import chosen_backend, is_recording, record

Results = Tensor | tuple[Tensor, ...]

LIBRARY = torch.library.Library("representer", "DEF")


@dataclass(frozen=True)
class Backend:
    """One way to compute an op.

    Attributes:
        name: Its name, as passed to ``backend=``.
        devices: Device types it runs on; empty for any.
        forward: Launcher with the operator's arguments, less the backend's name.
        backward: Launcher of the gradient operator.
        missing: Why it cannot run on this machine, determined once at import, or "".
        refuses: Returns why it cannot run a call, given shapes and dtypes, or "".
    """

    name: str
    devices: tuple[str, ...]
    forward: Callable[..., Results]
    backward: Callable[..., tuple[Tensor, ...]]
    missing: str = ""
    refuses: Callable[..., str] = lambda *arguments: ""

    def unavailable_reason(self, device: str, arguments: Sequence[Any] | None) -> str:
        """Return why this backend cannot run a call on ``device``, or "" if it can.

        Args:
            device: A device type.
            arguments: Those of the forward operator, or None for any.
        """
        if self.missing:
            return self.missing
        if self.devices and device not in self.devices:
            return f"runs on {' and '.join(self.devices)}, not on {device}"
        return self.refuses(*arguments) if arguments is not None else ""


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
    """An operation with one definition and several backends.

    Attributes:
        name: Its name in ``OPS`` and, prefixed with ``representer::``, in torch.
        function: The public function, with ``backend=`` as its last argument.
        definition: The equation in ``functional``, differentiable by autograd: the test oracle.
        samples: Yields the inputs of tests and benchmarks.
        backends: By name, fastest first; ``"reference"`` runs everywhere and comes last.
        layouts: By operator, the shapes and kinds of its operands, see ``ops.operands``.
    """

    name: str
    function: Callable[..., Any]
    definition: Callable[..., Any]
    samples: Callable[[], Iterator[Sample]]
    backends: dict[str, Backend] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)

    def add_backend(self, backend: Backend) -> None:
        """Add a backend, before the existing ones."""
        self.backends = {backend.name: backend, **self.backends}

    def register(
        self,
        schema: str,
        backward_schema: str,
        *,
        layout: Layout,
        backward_layout: Layout,
        fake: Callable[..., Results],
        backward_fake: Callable[..., tuple[Tensor, ...]],
        save: Callable[..., None],
        gradient: Callable[..., tuple[Tensor | None, ...]],
        batch_axes: Mapping[str, int],
        result_axes: Sequence[int],
        mixes_batch: Callable[[Sequence[Any]], bool] = lambda operands: False,
    ) -> None:
        """Register the operator and its gradient with torch.

        Args:
            schema: Arguments and results of the operator, ``str backend`` last.
            backward_schema: The same for its gradient operator.
            layout: Shapes and kinds of the operands, see ``ops.operands``.
            backward_layout: The same for the gradient operator.
            fake: Results without values, allocated as the launchers do.
            backward_fake: The same for the gradient operator.
            save: ``(ctx, inputs, output)`` saves tensors for the gradient.
            gradient: ``(ctx, *gradients)`` calls the gradient operator.
            batch_axes: Batch axis of each operand that has one, by name.
            result_axes: Batch axis of each result.
            mixes_batch: Returns True if the sequences of a batch interact in a call, given its
                operands; ``torch.vmap`` must not make one batch of several then.
        """
        for name, which, arguments, fake_of, layout_of in (
            (self.name, "forward", schema, fake, layout),
            (f"{self.name}_backward", "backward", backward_schema, backward_fake, backward_layout),
        ):
            LIBRARY.define(name + arguments)
            self.layouts[name] = layout_of
            LIBRARY.impl(name, self._dispatcher(name, which), "CompositeExplicitAutograd")
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

    def call(self, backend: str, operands: tuple[Any, ...]) -> Any:
        """Call the operator with operands checked by the public function."""
        return call_verified(getattr(torch.ops.representer, self.name), operands, backend)

    def choose(self, backend: str | None, device: str, arguments: tuple[Any, ...]) -> str:
        """Return the backend of a call: the requested one, or the first that can run the call.

        Raises:
            BackendError: If the requested backend does not exist or cannot run the call.
        """
        name = self._first_usable(backend or chosen_backend(), device, arguments)
        if is_recording():
            record(self.name, name, self.explain(device, arguments))
        return name

    def explain(self, device: str, arguments: tuple[Any, ...]) -> dict[str, str]:
        """Return, by backend in order, why it cannot run a call, or "" if it can."""
        return {
            name: backend.unavailable_reason(device, arguments)
            for name, backend in self.backends.items()
        }

    def is_forward_mode(self, backend: str | None) -> bool:
        """Return True if a call must use the definition, which propagates tangents.

        Args:
            backend: The requested backend.

        Raises:
            BackendError: If forward-mode AD is active and another backend is requested.
        """
        if not is_forward_mode():
            return False
        requested = backend or chosen_backend()
        if requested not in (None, "reference"):
            if requested not in self.backends:
                raise self._unknown(requested)
            raise BackendError(
                f"{self.name}: backend {requested!r} has no forward-mode derivative; "
                'pass backend="reference" or None.'
            )
        return True

    def _first_usable(self, requested: str | None, device: str, arguments: tuple[Any, ...]) -> str:
        if requested is not None:
            if requested not in self.backends:
                raise self._unknown(requested)
            reason = self.backends[requested].unavailable_reason(device, arguments)
            if reason:
                raise BackendError(
                    f"{self.name}: backend {requested!r} cannot run this call: {reason}. "
                    "Pass backend=None to let the library choose."
                )
            return requested
        for name, candidate in self.backends.items():
            if not candidate.unavailable_reason(device, arguments):
                return name
        raise BackendError(f"{self.name}: no backend runs on {device}.")

    def _unknown(self, backend: str) -> BackendError:
        known = ", ".join(self.backends)
        return BackendError(f"{self.name} has no backend {backend!r}; it has {known}.")

    def _refuse_second_derivative(self, ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        raise BackendError(
            f"{self.name} has no second derivative; functional.{self.name} has, by autograd."
        )

    def _dispatcher(self, name: str, which: str) -> Callable[..., Results]:
        schema = getattr(torch.ops.representer, name).default._schema
        names = [argument.name for argument in schema.arguments[:-1]]

        def dispatch(*arguments: Any) -> Results:
            *operands, backend = arguments
            check_no_forward_mode(name)
            if which == "forward" and is_verified(operands):
                check_storage(names, operands)
            else:
                operands = checked(names, operands, self.layouts[name])
            if backend not in self.backends:
                raise self._unknown(backend)
            chosen, device = self.backends[backend], operands[0].device.type
            reason = chosen.unavailable_reason(device, operands if which == "forward" else None)
            if reason:
                raise BackendError(f"{self.name}: backend {backend!r} cannot run this: {reason}.")
            return getattr(chosen, which)(*operands)

        return dispatch
