"""Calls of a recurrent layer that run on the compiled core, with one node of autograd each.

They compute the same as the general path, bit for bit, without operators of torch: for a short
sequence, dispatching these takes longer than the recurrence. On CUDA, the kernels in Triton are
called in the same way. Uncommon calls and errors are left to
the general path. All arguments are checked, since the core accesses raw memory.

On CUDA, both directions of a layer are one launch if its weights fit on the chip: sequences and
their gradients are ``(T, B, 2, H)``, which is the output of both, and states ``(2, B, H)``.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch._C._functorch import (  # pyright: ignore
    is_functorch_wrapped_tensor,
    is_legacy_batchedtensor,
)

from representer.nn.recurrent.states import RecurrentState, StringMassState, StringState
from representer.ops import core, structs
from representer.ops.common import FEW_ROWS
from representer.ops.rkm_scan import is_plain, is_ready, short_backend

if TYPE_CHECKING:
    from representer.nn.recurrent.sequence_layer import SequenceLayer

CoreSteps = tuple[tuple[Any, Any], ...]  # a Step and its operands for each direction
ALL, FEW = 1, 2  # what a call keeps for its gradient: tensors of the ops, or of a few rows
SUPPORTED = (RecurrentState, StringState, StringMassState)  # states of layers with such steps


def core_call(layer: SequenceLayer, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
    """Run a layer over a sequence ``(T, B, I)``, or over a step ``(B, I)``.

    Returned are the output ``(T, B, D·H)`` or ``(B, H)`` and the new state, or None if the general
    path is needed.
    """
    layout = layer.layout
    cls = layout.type
    backend = short_backend(x)
    if cls not in SUPPORTED or x.dim() < 2 or not is_plain(x, backend):
        return None
    directions = layer.num_directions
    if directions == 2 and (backend == "cpp" or cls is not RecurrentState):
        return None
    steps = layer.core_steps(x)
    if steps is None:
        return None
    shape = len(layout.features), x.shape[-2], layer.hidden_size
    if state is None:
        inner = [axes[0] for axes in layout.inner.values() if axes]
        h0 = x.new_zeros(shape)
        c0 = x.new_zeros(*shape[:2], sum(inner), shape[2]) if inner else h0
        fields: tuple[Tensor, ...] = ()
    elif type(state) is cls:
        for field, inner in zip(state, layout.inner.values(), strict=True):
            if not is_ready(field, (shape[0], *(inner or ()), *shape[1:]), x):
                return None
        h0, c0 = state[0], state[1] if cls is RecurrentState else _joined(state[1:])
        fields = tuple(state)
    else:
        return None
    if directions == 2 and not steps[0][0].runs_both(steps[0][1], x, h0[:2]):
        return None
    weights = _weights(steps)
    is_graded = torch.is_grad_enabled() and torch._C._any_requires_grad(x, *fields, *weights)
    keep = ALL
    if backend == "cpp" and (is_graded or x.dim() == 3):
        keep = FEW if 0 < x.numel() <= FEW_ROWS * x.shape[-1] else ALL
        for step, operands in steps:
            if not step.is_fused(operands):
                return None
            keep = keep if step.is_bare(operands) else ALL
    if is_graded:
        plan = steps, h0, c0, cls, len(fields), backend, directions, keep
        output, *new = _apply(plan, x, *fields, *weights)
    else:
        output, h, c, _ = _run(backend, steps, x, h0, c0, directions)
        new = (h, c) if cls is RecurrentState else (h, *_parted(c, len(cls._fields) - 1))
    return output, cls._make(new)


def is_joint(steps: CoreSteps, x: Tensor, h0: Tensor, c0: Tensor) -> bool:
    """Return True if one kernel of Triton runs both directions of a layer."""
    step, operands = steps[0]
    shape = 2, x.shape[1], h0.shape[2]
    return (
        is_plain(x, "triton")
        and all(is_ready(state, shape, x) for state in (h0, c0))
        and all(step.fits(x.shape[2], x, operands) for step, operands in steps)
        and step.runs_both(operands, x, h0)
    )


def layer_call(
    steps: CoreSteps, x: Tensor, h0: Tensor, c0: Tensor, backend: str = "triton"
) -> tuple[Tensor, Tensor, Tensor]:
    """Run all directions of a layer, two if `is_joint` is True: states are ``(D, B, H)``."""
    weights, directions = _weights(steps), len(steps)
    if torch.is_grad_enabled() and torch._C._any_requires_grad(x, h0, c0, *weights):
        plan = steps, h0, c0, RecurrentState, 2, backend, directions, ALL
        return _apply(plan, x, h0, c0, *weights)
    return _run(backend, steps, x, h0, c0, directions)[:3]


def _weights(steps: CoreSteps) -> tuple[Tensor | None, ...]:
    if len(steps) == 1:  # half a microsecond, as in what follows
        return steps[0][1]
    return tuple(tensor for _, operands in steps for tensor in operands)


def _run(
    backend: str, steps: CoreSteps, x: Tensor, h0: Tensor, c0: Tensor, directions: int,
    keep: int = 0,
) -> tuple[Tensor, Tensor, Tensor, list[Tensor | None]]:  # fmt: skip
    """Run all layers, and return the output, h, c, and what each layer keeps for its gradient.

    ``h0`` is ``(L·D, B, H)`` and ``c0`` the same or ``(L, B, S, H)``.
    """
    layers, batch, units = h0.shape
    h, c = torch.empty_like(h0), torch.empty_like(c0)
    kept: list[Tensor | None] = []
    if backend != "cpp":
        output = x[None] if x.dim() == 2 else x
        for k in range(0, layers, directions):
            step, operands = _joint(steps[k : k + directions])
            states = [_of_layer(state, k, directions) for state in (h0, c0, h, c)]
            inputs, results = output, step.run(operands, output, states, bool(keep), backend)
            output, *last = results[:3]
            for state, result in zip(states[2:], last, strict=True):
                if result is not state:  # a kernel made it elsewhere
                    state.copy_(result)
            kept += [inputs, output, *results[3:]] if keep else []
            output = output.flatten(2)
        return output[0] if x.dim() == 2 else output, h, c, kept
    of_h = batch * units * h.element_size()  # bytes of a layer
    of_c = of_h * (c.numel() // h.numel()) if layers * of_h else 0
    address = [tensor.data_ptr() for tensor in (h0, c0, h, c)]
    first = x
    for step, operands in steps:
        x = x if step.takes(x) else x.contiguous()
        output = x.new_empty(*x.shape[:-1], units)
        s = step.struct(operands)
        s.time, s.batch = 1 if x.dim() == 2 else x.shape[0], batch
        step.read(s, x)
        s.threads = core.threads() if batch > 1 else 1
        s.h0, s.c0, s.h, s.c = address
        s.out = output.data_ptr()
        if keep == FEW:
            tape = x.new_empty(s.time * batch * step.tape * units)
            step.read_tape(s, tape)
            kept += [None if x is first else x, output if s.time > 1 else None, tape]
        elif keep:
            kept += [x, output, *step.keep(s, operands, x)]
        operation = step.operation + "_forward"
        if status := core.function(operation, x.dtype)(ctypes.byref(s)):
            raise core.failure(operation, status)
        x = output
        if layers > 1:
            address = [a + b for a, b in zip(address, (of_h, of_c) * 2, strict=True)]
    return x, h, c, kept


def _of_layer(state: Tensor, k: int, directions: int) -> Tensor:
    return state[k] if directions == 1 else state[k : k + directions]


def _joint(steps: CoreSteps) -> tuple[Any, Any]:
    """Return the step of a layer, and the operands of all its directions."""
    step, operands = steps[0]
    return step, operands if len(steps) == 1 else step.both(operands, steps[1][1])


class _Call(torch.autograd.Function):
    """A call of all layers. Its first gradient is the core's; further ones are those of the ops."""

    @staticmethod
    def forward(ctx: Any, plan: Any, x: Tensor, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        steps, h0, c0, cls, ctx.fields, ctx.backend, ctx.directions, ctx.keep = plan
        output, h, c, kept = _run(ctx.backend, steps, x, h0, c0, ctx.directions, ctx.keep)
        ctx.steps, ctx.inputs = steps, 1 + len(tensors)
        ctx.set_materialize_grads(False)
        ctx.is_whole = cls is RecurrentState and ctx.fields  # h0 and c0 are inputs
        ctx.save_for_backward(x, *tensors, *(() if ctx.is_whole else (h0, c0)), *kept)
        return (output, h, *((c,) if cls is RecurrentState else _parted(c, len(cls._fields) - 1)))

    @staticmethod
    def backward(ctx: Any, *grad: Tensor | None) -> tuple[Any, ...]:
        needs, saved, end = ctx.needs_input_grad[1:], ctx.saved_tensors, ctx.inputs
        inputs, rest = saved[:end], saved[end:]
        (h0, c0), kept = (saved[1:3], rest) if ctx.is_whole else (rest[:2], rest[2:])
        plan = ctx.steps, ctx.directions, ctx.fields
        are_readable = [_is_readable(g, ctx.backend) for g in grad if g is not None]
        if not are_readable:  # a function after the layer has no gradient
            return (None,) * (1 + end)
        if torch.is_grad_enabled() or False in are_readable:
            return (None, *_by_operators(*plan, inputs, h0, c0, needs, grad))
        if ctx.keep == FEW:
            return (None, *_few_gradients(*plan, inputs, h0, c0, kept, needs, grad))
        to_output, to_h, *to_parts = grad
        if to_output is not None and to_output.dim() == 2:
            to_output = to_output[None]
        # without a state, h0 and c0 are zeros
        zeros = torch.zeros_like if ctx.fields else lambda x: x
        to_h = zeros(h0) if to_h is None else to_h.contiguous()
        to_c = _to_c(to_parts, c0)
        to_c = zeros(c0) if to_c is None else to_c
        of_states, of_weights, directions = [], [], ctx.directions
        needs_state = any(needs[1 : 1 + ctx.fields])
        for k in reversed(range(0, len(ctx.steps), directions)):
            step, operands = ctx.steps[k]
            count, start = len(operands), k // directions * step.kept
            first = end - directions * count
            needed, of_inputs = needs[first : first + count], inputs[first:end]
            joint = type(operands)._make(of_inputs[:count])
            if directions == 2:
                joint = step.both(joint, type(operands)._make(of_inputs[count:]))
                needed = map(any, zip(needed, needs[first + count : end], strict=True))
            x, output, *rest = kept[start : start + step.kept]
            x, output = (x[None], output[None]) if x.dim() == 2 else (x, output)
            states = (_of_layer(state, k, directions) for state in (h0, c0, to_h, to_c))
            h, c, *upstream = states
            to_output = torch.zeros_like(output) if to_output is None else to_output
            results = step.gradients(
                joint, x, h, c, (output, *rest), (to_output.view(output.shape), *upstream),
                (k > 0 or needs[0], needs_state, *needed), ctx.backend,
            )  # fmt: skip
            to_output, end = results[0], first
            if directions == 1:
                of_states.insert(0, results[1:3])
                of_weights[:0] = results[3:]
            else:
                of_states[:0] = zip(*results[1:3], strict=True)
                of_weights[:0] = step.apart(operands, results[3:])
        of_state = [None] * ctx.fields
        if needs_state:
            ways: Any = zip(*of_states, strict=True)
            h, c = (torch.stack(x) if len(x) > 1 else x[0][None] for x in ways)
            of_state = [h, *((c,) if c.dim() == 3 else _parted(c, ctx.fields - 1))]
        of_x = None if to_output is None else to_output.view(inputs[0].shape)
        return (None, of_x if needs[0] else None, *of_state, *of_weights)


# without the lookups of Function.apply: the arguments are bare tensors
_apply = cast(Any, super(torch.autograd.Function, _Call)).apply


def _few_gradients(
    steps: CoreSteps, directions: int, fields: int, inputs: Any, h0: Tensor, c0: Tensor, kept: Any,
    needs: tuple[bool, ...], grad: tuple[Tensor | None, ...],
) -> list[Tensor | None]:  # fmt: skip
    """Return the gradients of a call of few rows, of which calls of torch would take the time."""
    to_output, to_h, *to_parts = grad
    to_h, to_c = None if to_h is None else to_h.contiguous(), _to_c(to_parts, c0)
    of_h, of_c = map(torch.empty_like, (h0, c0)) if any(needs[1 : 1 + fields]) else (None, None)
    of_weights: list[Tensor | None] = []
    of_x, end, (batch, units) = None, len(inputs), h0.shape[1:]
    for k in reversed(range(len(steps))):
        step, operands = steps[k]
        first, (x, output, tape) = end - len(operands), kept[3 * k : 3 * k + 3]
        x = inputs[0] if x is None else x
        s = step.struct(inputs[first:end])
        s.time, s.batch = 1 if x.dim() == 2 else x.shape[0], batch
        step.read(s, x)
        step.read_tape(s, tape)
        s.h0, s.c0 = _address(h0, k), _address(c0, k)
        s.h, s.c, s.out = s.h0, s.c0, s.h0 if output is None else output.data_ptr()  # h, c: unread
        if to_output is None:
            to_output = x.new_zeros(*x.shape[:-1], units)
        elif to_output.stride(-1) != 1:
            to_output = to_output.contiguous()
        of_x = x.new_empty(x.shape) if k or needs[0] else None
        few = structs.FewStruct(
            core.threads() if batch > 1 else 1, ctypes.addressof(s), to_output.data_ptr(),
            to_output.stride(0), to_output.stride(-2), _address(to_h, k), _address(to_c, k),
            _address(of_x, 0), _address(of_h, k), _address(of_c, k),
        )  # fmt: skip
        of_step: list[Tensor | None] = [None] * len(operands)
        for i, name in enumerate(step.few):
            if needs[first + i]:
                of_step[i] = tensor = torch.empty_like(inputs[first + i])
                setattr(few, name, tensor.data_ptr())
        core.call(step.operation + "_few", x.dtype, few)
        to_output, end = of_x, first
        of_weights[:0] = of_step
    of_state: list[Tensor | None] = [None] * fields
    if of_h is not None and of_c is not None:
        of_state = [of_h, *((of_c,) if of_c.dim() == 3 else _parted(of_c, fields - 1))]
    return [of_x, *of_state, *of_weights]


def _address(states: Tensor | None, k: int) -> int | None:
    """Return the address of the state of a layer."""
    if states is None:
        return None
    return states.data_ptr() + (k * states.stride(0) * states.element_size() if k else 0)


def _to_c(parts: list[Tensor | None], c0: Tensor) -> Tensor | None:
    """Return the gradient of c and the masses as the core reads it; None for zeros."""
    if all(grad is None for grad in parts):
        return None
    if c0.dim() == 3:
        return parts[0].contiguous()  # type: ignore[union-attr]
    shape = len(c0), c0.shape[2] // len(parts), c0.shape[1], c0.shape[3]
    return _joined([c0.new_zeros(shape) if g is None else g for g in parts])


def _is_readable(grad: Tensor, backend: str) -> bool:
    """Return True if a backend may read a gradient, which may be a batch of several."""
    is_batch = is_functorch_wrapped_tensor(grad) or is_legacy_batchedtensor(grad)
    return is_plain(grad, backend) and not is_batch


def _by_operators(
    steps: CoreSteps, directions: int, fields: int, inputs: Any, h0: Tensor, c0: Tensor,
    needs: tuple[bool, ...], grad: tuple[Tensor | None, ...],
) -> list[Tensor | None]:  # fmt: skip
    """Return the gradients by the operators of the ops, which have gradients of any order."""
    is_wanted = torch.is_grad_enabled()
    with torch.enable_grad():
        # views, so that no gradient passes through what an input was computed from
        inputs = tuple(None if x is None else x.view_as(x) for x in inputs)
        x, state_fields, weights = inputs[0], inputs[1 : 1 + fields], list(inputs[1 + fields :])
        if state_fields:
            h0 = state_fields[0]
            c0 = state_fields[1] if c0.dim() == 3 else _joined(state_fields[1:])
        is_step, states = x.dim() == 2, []
        x, outputs = x[None] if is_step else x, []
        for k, (step, operands) in enumerate(steps):
            operands = type(operands)._make(weights[: len(operands)])
            weights = weights[len(operands) :]
            way = (True,) * len(outputs)  # the second direction is the reverse one
            output, *new = step.scan(operands, x, h0[k], c0[k], *way)
            states.append(new)
            outputs.append(output)
            if len(outputs) == directions:
                x, outputs = output if directions == 1 else torch.cat(outputs, dim=2), []
        h, c = (torch.stack(parts) for parts in zip(*states, strict=True))
        parts = (c,) if c.dim() == 3 else _parted(c, len(grad) - 2)
        pairs = zip((x[0] if is_step else x, h, *parts), grad, strict=True)
        outputs, cotangents = zip(*((y, g) for y, g in pairs if g is not None), strict=True)
        wanted = [x for x, is_needed in zip(inputs, needs, strict=True) if is_needed]
        results = iter(torch.autograd.grad(
            outputs, wanted, cotangents, create_graph=is_wanted, allow_unused=True,
        ))  # fmt: skip
        return [next(results) if is_needed else None for is_needed in needs]


def weight(layer: SequenceLayer, name: str) -> Any:
    """Return a parameter, which may be None; attribute access of modules is slow."""
    parameters = layer._parameters
    return parameters[name] if name in parameters else getattr(layer, name)  # parametrized


def _joined(parts: Any) -> Tensor:
    """Return c and the masses, if any, as the core reads them ``(L, B, S, H)``."""
    c = parts[0] if len(parts) == 1 else torch.cat(tuple(parts), dim=1)
    return c.transpose(1, 2).contiguous()


def _parted(c: Tensor, count: int) -> list[Tensor]:
    """Return c and the masses, if any, as a state has them ``(L, n, B, H)``."""
    parts = c.transpose(1, 2).chunk(count, dim=1)
    return [chunk.contiguous() for chunk in parts]
