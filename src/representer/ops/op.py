"""One operation: its backends, and the inputs its tests and benchmarks run on.

Which backend computes an op is an argument of its torch operator. Backends are added by
``Op.add_backend`` and nowhere else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from representer.errors import BackendError
from representer.ops.common import is_forward_mode
from representer.ops.table import OperandTable
from representer.ops.torch_operator import Operators, checked

# Select the backend of a block of code, and record the choices of the ops.


@dataclass(frozen=True)
class Choice:
    """The backend of one call of an op.

    Attributes:
        op: Name of the op.
        backend: The backend that ran.
        unavailable: By backend, fastest first: why it cannot run, or "" if it can.
        kernel: Which of the backend's kernels ran and why, if it has several.
    """

    op: str
    backend: str
    unavailable: dict[str, str]
    kernel: str = ""

    def __str__(self) -> str:
        others = [
            f"{name}: {reason or 'ready'}"
            for name, reason in self.unavailable.items()
            if name != self.backend
        ]
        kernel = f", {self.kernel}" if self.kernel else ""
        return f"{self.op} runs on {self.backend}{kernel} ({'; '.join(others)})"


# A plain threading.local: of this and ContextVar, Dynamo traces and guards only this one.
_state = threading.local()


def chosen_backend() -> str | None:
    """Return the backend that ``use_backend`` sets in this thread, or None."""
    return getattr(_state, "backend", None)


def allows(backend: str) -> bool:
    """Return True if calls of this thread may use a backend without being recorded."""
    state = _state.__dict__
    return state.get("backend") in (None, backend) and not state.get("recorders")


@contextmanager
def use_backend(name: str | None) -> Iterator[None]:
    """Make every op of this thread use one backend inside the block, or raise if it cannot run.

    Args:
        name: For example ``"reference"``; None lets each op choose.
    """
    outer = chosen_backend()
    _state.backend = name
    try:
        yield
    finally:
        _state.backend = outer


def record(op: str, backend: str, unavailable: dict[str, str], kernel: str) -> None:
    """Add the choice of a call to every active ``explain_backend`` of this thread."""
    for choices in getattr(_state, "recorders", ()):
        choices.append(Choice(op, backend, unavailable, kernel))


def is_recording() -> bool:
    """Return True if ``explain_backend`` is active in this thread."""
    return bool(getattr(_state, "recorders", ()))


def explain_backend(layer: nn.Module, *arguments: Any) -> list[Choice]:
    """Run a layer and return the backend of each of its op calls, with the reasons.

    Args:
        layer: Any module that uses ops of this library.
        *arguments: Its inputs.

    Returns:
        One ``Choice`` per call, in order; empty if no op was called. Each prints as a sentence.

    Raises:
        BackendError: If a backend set by ``use_backend`` cannot run.
    """
    choices: list[Choice] = []
    outer = getattr(_state, "recorders", ())
    _state.recorders = (*outer, choices)
    try:
        with torch.no_grad():
            layer(*arguments)
    finally:
        _state.recorders = outer
    return choices


@dataclass(frozen=True)
class Backend:
    """One way to compute an op.

    Attributes:
        name: Its name, as passed to ``backend=``.
        devices: Device types it runs on; empty for any.
        forward: ``(p, new)`` computes the results of operands p, in the memory of ``new`` or
            elsewhere.
        backward: ``(p, kept, grad, requested)`` returns the gradients by name, given the results
            that were kept, the gradients of the results, and the names of the operands whose
            gradients are needed among those on request.
        missing: Why it cannot run on this machine, determined once at import, or "".
        refuses: Returns why it cannot run a call, given its operands, or "".
        describe: Returns which of several kernels runs a call and why, or "".
    """

    name: str
    devices: tuple[str, ...]
    forward: Callable[[Any, Any], Any]
    backward: Callable[..., dict[str, Tensor]]
    missing: str = ""
    refuses: Callable[[Any], str] = lambda p: ""
    describe: Callable[[Any], str] = lambda p: ""

    def unavailable_reason(self, device: str, p: Any) -> str:
        """Return why this backend cannot run a call on a device type, or "" if it can.

        ``p`` are the operands, or None for any.
        """
        if self.missing:
            return self.missing
        if self.devices and device not in self.devices:
            return f"runs on {' and '.join(self.devices)}, not on {device}"
        return self.refuses(p) if p is not None else ""


@dataclass
class Op:
    """An operation with one definition and several backends.

    Attributes:
        name: Its name in ``OPS`` and, prefixed with ``representer::``, in torch.
        function: The public function, with ``backend=`` as its last argument.
        definition: The equation in ``functional``, differentiable by autograd: the test oracle. It
            takes the operands by name, without ``keep``.
        backends: By name, fastest first; ``"reference"`` runs everywhere and comes last.
        table: Its operands and results, once it is registered.
    """

    name: str
    function: Callable[..., Any]
    definition: Callable[..., Any]
    backends: dict[str, Backend] = field(default_factory=dict)
    table: OperandTable | None = None
    of_onnx: ClassVar[Callable[[Op], Callable[..., Any]]]  # set where all operators are there

    def add_backend(self, backend: Backend) -> None:
        """Add a backend, before the existing ones."""
        self.backends = {backend.name: backend, **self.backends}

    def register(
        self, table: OperandTable, mixes_batch: Callable[[Any], bool] = lambda p: False
    ) -> None:
        """Register the operator and its gradient with torch.

        ``mixes_batch`` returns True if the sequences of a batch interact in a call, given its
        operands; ``torch.vmap`` must not make one batch of several then.
        """
        self.table, self._operators = table, Operators(self.name, table, self)
        self._operators.register(mixes_batch)

    def __call__(self, p: Any, backend: str | None) -> Any:
        """Check the operands of the public function, choose a backend, and run the operator.

        Inside forward-mode AD, the definition is run instead.

        Raises:
            ShapeError: If a shape does not fit.
            KindError: If a dtype or a device does not, an operand is missing, or one is given that
                the call does not take.
            ArgumentError: If an option, a length or an index is out of range.
            BackendError: If the requested backend does not exist or cannot run the call.
        """
        assert self.table is not None
        sizes = self.table.check(p, is_strict=False)
        if is_forward_mode():
            self._check_forward_mode(backend or chosen_backend())
            values = p._asdict()
            values.pop("keep", None)
            return self.definition(**values)
        name = self.choose(backend, p[0].device.type, p)
        operator, arguments = self._operators.operator, self.table.encode(p)
        if "torch.onnx" in sys.modules and torch.onnx.is_in_onnx_export():  # asking loads it
            return type(self).of_onnx(self)(*arguments, name)
        if torch.compiler.is_compiling():
            return operator(*arguments, name)
        # the operator skips the checks for these very arguments; a call within it has its own
        before, checked.call = checked.call, (arguments, p, sizes)
        try:
            return operator(*arguments, name)
        finally:
            checked.call = before

    def choose(self, backend: str | None, device: str, p: Any) -> str:
        """Return the backend of a call: the requested one, or the first that can run the call.

        Raises:
            BackendError: If the requested backend does not exist or cannot run the call.
        """
        name = backend or chosen_backend()
        if name is not None:
            self.runnable(name, device, p)
        else:
            usable = (n for n, b in self.backends.items() if not b.unavailable_reason(device, p))
            name = next(usable, None)
            if name is None:
                raise BackendError(f"{self.name}: no backend runs on {device}.")
        if is_recording():
            kernel = self.backends[name].describe(p)
            record(self.name, name, self.explain(device, p), kernel)
        return name

    def explain(self, device: str, p: Any) -> dict[str, str]:
        """Return, by backend in order, why it cannot run a call, or "" if it can."""
        return {
            name: backend.unavailable_reason(device, p) for name, backend in self.backends.items()
        }

    def runnable(self, name: str, device: str, p: Any) -> Backend:
        """Return a backend that can run a call, given its operands, or None for any.

        Raises:
            BackendError: If there is none of that name, or it cannot run the call.
        """
        if name not in self.backends:
            names = ", ".join(self.backends)
            raise BackendError(f"{self.name} has no backend {name!r}; it has {names}.")
        if reason := self.backends[name].unavailable_reason(device, p):
            raise BackendError(
                f"{self.name}: backend {name!r} cannot run this call: {reason}. "
                "Pass backend=None to let the library choose."
            )
        return self.backends[name]

    def _check_forward_mode(self, requested: str | None) -> None:
        """Refuse backends that propagate no tangents."""
        if requested in (None, "reference"):
            return
        if requested not in self.backends:
            self.runnable(requested, "", None)
        raise BackendError(
            f"{self.name}: backend {requested!r} has no forward-mode derivative; "
            'pass backend="reference" or None.'
        )
