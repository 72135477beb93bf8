"""The recurrence of any cell of L19 Table 1 on every backend."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import _C, Tensor, nn
from torch._C._functorch import (  # pyright: ignore
    is_functorch_wrapped_tensor,
    maybe_current_level,
)

from representer import functional
from representer.functional.rkm import EPS, Cell
from representer.ops import core, gpu, structs
from representer.ops.common import FEW_ROWS, input_products, is_forward_mode, may_need_gradient
from representer.ops.core import padded
from representer.ops.op import Backend, Op, allows, chosen_backend
from representer.ops.rkm_scan import reference
from representer.ops.rkm_scan.reference import (
    ALL,
    CELLS,
    NOTHING,
    Operands,
    Results,
    finish,
    gates_of,
    sizes,
)
from representer.ops.table import OperandTable

# rkm_scan on the compiled core: the loop there, the products of whole sequences in torch.

# numbers of gates, and of those that depend on h
KNOWN = {(1, 0), (1, 1), (2, 0), (2, 2), (3, 2), (3, 3), (4, 4)}
FUSED = 2**22  # bytes of packed weights up to which the input product runs inside the loop


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    x, input_weight, bias = p.z, p.input_weight, p.bias
    time, batch, units = new.output.shape
    if input_weight is not None:
        weights = input_weight.numel() + len(input_weight) * units**2
        if weights * x.element_size() > FUSED:
            x, input_weight, bias = input_products(x, input_weight, bias), None, None
    inner = (1,) if input_weight is not None else (units, 1)
    x = x if x.stride()[2:] == inner else x.contiguous()
    core.run(
        "rkm_forward", structs.ForwardStruct, x.dtype, cell=core.cell_struct(p.cell), time=time,
        batch=batch, units=units, features=0 if input_weight is None else x.shape[2],
        reverse=p.reverse, biased=0 if bias is None else len(bias), x=core.Strided(x),
        x_time=x.stride(0), x_batch=x.stride(1), input_weight=input_weight, bias=bias,
        weight=p.weight, h0=p.h0, c0=p.c0, gate_values=p.static, norm=p.norm, hold=p.hold,
        lengths=p.lengths, out=new.output, h=new.h, c=new.c, epsilon=EPS,
        **core.filled(gates=new.gates, cells=new.cells, fresh=new.fresh),
    )  # fmt: skip
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str], needs_h0: bool = True
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name; that of h0 only if it is needed."""
    gates = gates_of(p, kept)
    time, batch, _, units = gates.shape
    upstream = grad.output if grad.output.stride(2) == 1 else grad.output.contiguous()
    new = gates.new_empty
    dz, to_h, to_c = new(gates.shape), new(p.h0.shape), new(p.c0.shape)
    g_fresh = new(kept.cells.shape) if "static" in requested else None
    g_normed = None if p.norm is None else new(kept.cells.shape)
    core.run(
        "rkm_backward", structs.BackwardStruct, gates.dtype, cell=core.cell_struct(p.cell),
        time=time, batch=batch, units=units, reverse=p.reverse,
        grad_output=core.Strided(upstream), grad_time=upstream.stride(0),
        grad_batch=upstream.stride(1), grad_h=grad.h, grad_c=grad.c, out=kept.output, gates=gates,
        cells=kept.cells, fresh=kept.fresh, weight=p.weight, h0=p.h0, c0=p.c0,
        gate_values=p.static, norm=p.norm, hold=p.hold, lengths=p.lengths, grad_z=dz,
        extra_h=to_h, grad_c0=to_c, grad_fresh=g_fresh, grad_normed=g_normed, epsilon=EPS,
    )  # fmt: skip
    if p.weight is not None and needs_h0:
        seen = dz[-1 if p.reverse else 0].flatten(1)[:, -len(p.weight) * units :]
        weight_XH = p.weight.flatten(0, 1)
        few = time * batch <= FEW_ROWS  # as rkm_few adds them up
        to_h = to_h.add_(core.product(seen, weight_XH)) if few else to_h.addmm_(seen, weight_XH)
    candidate = gates.new_empty(0) if g_fresh is None else gates[:, :, 0]
    del gates  # frees them if they were recomputed
    return {"h0": to_h, "c0": to_c} | finish(
        p, kept, dz, candidate, g_fresh, g_normed, "z" in requested, core.product, core.transpose
    )


def refuses(p: Operands) -> str:
    """Return why the core cannot run a call, or an empty string."""
    gates, seen = len(p.cell.gates), len(p.cell.recurrent_gates)
    if (gates, seen) not in KNOWN:
        return f"has no kernel for {gates} gates of which {seen} depend on h"
    return core.refuses(p)


MOST_NORMALIZED = 4096  # units, which one program of a GPU normalizes


def rkm_scan(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    *,
    cell: Cell,
    static: Tensor | None = None,
    norm: Tensor | None = None,
    hold: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    recompute: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run any cell over a sequence, as ``functional.rkm_scan`` defines it.

    Arguments and results are those of ``functional.rkm_scan``. With ``input_weight`` W ``(G, H,
    I)``, the input x ``(T, B, I)`` is turned into z = W x + b inside the op, with ``bias`` b ``(G,
    H)``. ``hold`` is a constant. With ``recompute``, the gradient computes the gates again instead
    of keeping them. ``backend`` names a backend, which runs or raises; None is the fastest
    available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or the cell needs an operand that is missing.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (8)-(19).
    """
    keep = NOTHING
    if may_need_gradient((z, input_weight, bias, weight, h0, c0, static, norm)):
        keep = CELLS if recompute else ALL
    p = Operands(
        z, input_weight, bias, weight, h0, c0, static, norm, hold, lengths, cell, reverse, keep
    )
    output, h, c, *_ = OP(p, backend)
    return output, h, c


def _definition(
    z: Tensor, weight: Tensor | None, h0: Tensor, c0: Tensor, *, input_weight: Tensor | None = None,
    bias: Tensor | None = None, recompute: bool = False, **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Run ``functional.rkm_scan`` on the op's arguments; ``recompute`` changes no value."""
    if input_weight is not None:
        z = torch.einsum("tbi,ghi->tbgh", z, input_weight) + (0 if bias is None else bias)
    return functional.rkm_scan(z, weight, h0, c0, **options)


def _refuses(p: Operands) -> str:
    """Return why the GPU kernels cannot run a call, or "" if they can."""
    if p.norm is not None and p.h0.shape[1] > MOST_NORMALIZED:
        return f"normalizes up to {MOST_NORMALIZED} units, not {p.h0.shape[1]}"
    return gpu.refuses(p)


OP = Op("rkm_scan", rkm_scan, _definition)
OP.register(OperandTable(Operands, Results, sizes))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("rkm_scan", _refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, refuses))


# A call of ``rkm_scan`` with ``input_weight`` on the compiled core, with as little overhead as
# possible: no operator dispatch, no copies.

_PLAIN = (Tensor, nn.Parameter)
_DTYPES = {"cpp": (torch.float32, torch.float64), "triton": gpu.DTYPES}


def is_plain(x: Tensor, backend: str = "cpp") -> bool:
    """Return True if a backend may read an input, and nothing observes operators."""
    return (
        not torch.compiler.is_compiling()
        and type(x) is Tensor
        and x.layout is torch.strided
        and not x.is_nested
        and x.dtype in _DTYPES[backend]
        and not OP.backends[backend].unavailable_reason(x.device.type, None)
        and not x.is_neg()
        and not is_functorch_wrapped_tensor(x)  # which escaped from a transform
        and allows(backend)
        and not _C._is_any_autocast_enabled()
        # the short path calls no operator that these could see, differentiate, batch or trace
        and not _C._len_torch_dispatch_stack()
        and not _C._len_torch_function_stack()
        and not _C._is_tracing()
        and maybe_current_level() is None
        and not is_forward_mode()
    )


def short_backend(x: Tensor) -> str:
    """Return the backend of calls without operators on a tensor."""
    return "triton" if x.is_cuda or chosen_backend() == "triton" else "cpp"


def is_ready(tensor: Any, shape: tuple[int, ...], like: Tensor) -> bool:
    """Return True if bare memory may be read: plain, contiguous, of this shape, where x is."""
    return (
        type(tensor) in _PLAIN
        and tensor.shape == shape
        and tensor.dtype == like.dtype
        and (tensor.is_cpu if like.is_cpu else tensor.device == like.device)
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not is_functorch_wrapped_tensor(tensor)
    )


class StepOperands(NamedTuple):
    """The weights of a step."""

    input_weight: Tensor  # (G·H, I)
    bias: Tensor | None  # (b·H,), of the last b gates
    weight: Tensor | None  # (R·H, H)
    static: Tensor | None  # (2, H)
    norm: Tensor | None  # (2, H)
    hold: Tensor | None = None  # (2, T, B, H)
    lengths: Tensor | None = None  # (B,)


class Step:
    """A cell with a number of units, ready to take steps on operands that `fits` checked."""

    op, operation, carries = OP, "rkm", False
    kept = 5  # tensors of a call that its gradient reads
    few = "grad_input", "grad_bias", "grad_weight"  # fields of gradients of the first operands

    def __init__(self, cell: Cell, units: int) -> None:
        self.cell = cell
        self.gates, self.seen, self.units = len(cell.gates), len(cell.recurrent_gates), units
        self.needs_static = "static" in (cell.input_gate, cell.forget_gate)
        self.is_known = (self.gates, self.seen) in KNOWN
        self.tape = self.gates + 1  # values of a unit that the gradient of few rows reads
        self.template = structs.ForwardStruct(
            core.cell_struct(cell), 1, 0, units, 0, False, 1, epsilon=EPS
        )

    def fits(self, features: int, like: Tensor, operands: StepOperands) -> bool:
        """Return True if a kernel may read these operands; nothing else protects its memory."""
        input_weight, bias, weight, static, norm, *_ = operands
        units = self.units
        return (
            is_ready(input_weight, (self.gates * units, features), like)
            and (bias is None or is_ready(bias, (self._biased(bias) * units,), like))
            and (weight is not None) == (self.seen > 0)
            and (weight is None or is_ready(weight, (self.seen * units, units), like))
            and (static is not None) == self.needs_static
            and (static is None or is_ready(static, (2, units), like))
            and (norm is None or is_ready(norm, (2, units), like))
            and (norm is None or units <= MOST_NORMALIZED)
        )

    def packed_entries(self, operands: StepOperands) -> int:
        """Return an upper bound of the entries of the packed weights."""
        return self.gates * padded(self.units) * (1 + operands.input_weight.shape[1] + self.units)

    def struct(self, operands: Sequence[Any]) -> Any:
        """Return the arguments of a step without input, output and state."""
        input_weight, bias, weight, static, norm, *_ = operands
        s = structs.ForwardStruct.from_buffer_copy(self.template)
        s.features = s.x_batch = input_weight.shape[1]
        s.input_weight = input_weight.data_ptr()
        if bias is not None:
            s.bias, s.biased = bias.data_ptr(), self._biased(bias)
        if weight is not None:
            s.weight = weight.data_ptr()
        if static is not None:
            s.gate_values = static.data_ptr()
        if norm is not None:
            s.norm = norm.data_ptr()
        return s

    def takes(self, x: Tensor) -> bool:
        """Return True if the core reads this input as it is."""
        return x.stride(-1) == 1

    def read(self, struct: Any, x: Tensor) -> None:
        """Set the input ``(T, B, I)`` or ``(B, I)``."""
        struct.x, struct.x_batch = x.data_ptr(), x.stride(-2)
        struct.x_time = x.stride(0) if x.dim() == 3 else 0

    def is_fused(self, operands: StepOperands) -> bool:
        """Return True if a sequence has its products with the input inside the loop."""
        weights = operands.input_weight.numel() + self.gates * self.units**2
        return weights * operands.input_weight.element_size() <= FUSED

    def keep(self, struct: Any, operands: StepOperands, x: Tensor) -> tuple[Tensor, ...]:
        """Make the core write what the gradient reads, and return it."""
        shape = (*((1, *x.shape) if x.dim() == 2 else x.shape)[:2], self.units)
        gates, cells = x.new_empty(*shape[:2], self.gates, shape[2]), x.new_empty(shape)
        fresh = x.new_empty(0 if operands.norm is None else shape)
        struct.gates, struct.cells = gates.data_ptr(), cells.data_ptr()
        if operands.norm is not None:
            struct.fresh = fresh.data_ptr()
        return gates, cells, fresh

    def is_bare(self, operands: StepOperands) -> bool:
        """Return True if the core computes all gradients of a call of few rows itself."""
        return operands.norm is None and (
            operands.static is None or not operands.static.requires_grad
        )

    def read_tape(self, struct: Any, tape: Tensor) -> None:
        """Set where a call of few rows writes what its gradient reads."""
        struct.gates = tape.data_ptr()
        rows = struct.time * struct.batch
        struct.cells = struct.gates + rows * self.gates * self.units * tape.element_size()

    def gradients(
        self, operands: StepOperands, x: Tensor, h0: Tensor, c0: Tensor, kept: tuple[Tensor, ...],
        grad: tuple[Tensor, Tensor, Tensor], needs: tuple[bool, ...], backend: str = "cpp",
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """Return the gradients of x, h0, c0 and the operands.

        ``kept`` are the output and what `keep` returned; ``grad`` are the gradients of the results,
        of both directions as of ``finish``; ``needs`` tells which gradients are needed, of x, the
        state and each operand.
        """
        output, gates, cells, fresh = kept
        p, none = self._full(operands, x, h0, c0, operands.bias), (None,) * 3
        requested = [name for name, of in (("z", needs[0]), ("static", needs[5])) if of]
        results = Results(output, *none[:2], gates, cells, fresh)  # type: ignore[arg-type]
        upstream = Results(*grad, *none)  # type: ignore[arg-type]
        if backend == "cpp":
            by_name = cpp_backward(p, results, upstream, requested, needs[1])
        else:
            by_name = OP.backends[backend].backward(p, results, upstream, requested)
        of_input, of_weight = (
            None if x is None else by_name[name].reshape(x.shape)
            for name, x in (("input_weight", operands.input_weight), ("weight", operands.weight))
        )
        bias = None if operands.bias is None else by_name["bias"].flatten()[-len(operands.bias) :]
        rest = by_name.get("static"), by_name.get("norm"), None, None
        return by_name.get("z"), by_name["h0"], by_name["c0"], of_input, bias, of_weight, *rest

    def scan(
        self, operands: StepOperands, x: Tensor, h0: Tensor, c0: Tensor, reverse: bool = False
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Run the operator on the operands of a call."""
        p = self._full(operands, x, h0, c0, self._all_biases(operands.bias))
        return rkm_scan(
            p.z, p.weight, h0, c0, cell=p.cell, static=p.static, norm=p.norm, hold=p.hold,
            lengths=p.lengths, input_weight=p.input_weight, bias=p.bias, reverse=reverse,
        )  # fmt: skip

    def run(
        self, operands: StepOperands, x: Tensor, states: Sequence[Tensor], keep: bool, backend: str
    ) -> Results:  # fmt: skip
        """Run a backend without the operator on ``(T, B, I)``; states are h0, c0, and the last."""
        h0, c0, h, c = states
        p = self._full(operands, x, h0, c0, self._all_biases(operands.bias))
        p = p if keep else p._replace(keep=NOTHING)
        shape = (*x.shape[:2], *h0.shape[:-2], self.units)
        cells, nothing = x.new_empty(shape if keep else 0), x.new_empty(0)
        has_fresh = keep and not (p.norm is None and p.hold is None)
        fresh = x.new_empty(shape) if has_fresh else nothing
        new = Results(x.new_empty(shape), h, c, nothing, cells, fresh)
        return self.op.backends[backend].forward(p, new)

    def both(self, forth: StepOperands, back: StepOperands) -> StepOperands:
        """Return the operands of both directions of a layer, for one kernel of Triton."""
        pairs: list[Any] = [*zip(forth, back, strict=True)]
        if forth.bias is not None and (missing := self.gates * self.units - len(forth.bias)):
            zero = forth.bias.new_zeros(missing)
            pairs[1] = zero, forth.bias, zero, back.bias
        joined: list[Any] = [None if x[0] is None else torch.cat(x) for x in pairs[:5]]
        static, norm = (None if x is None else x.view(2, 2, -1) for x in joined[3:])
        hold = None if forth.hold is None else torch.stack(pairs[5], dim=3)
        of_input, of_bias, of_h = joined[:3]
        return StepOperands(of_input, of_bias, of_h, static, norm, hold, forth.lengths)

    def apart(self, operands: StepOperands, grads: tuple[Tensor | None, ...]) -> Iterator[Any]:
        """Yield the gradients of the operands of each direction from those of `both`."""
        for d in range(2):
            each = [None if g is None else g.chunk(2)[d] for g in grads]
            if each[1] is not None:
                each[1] = each[1][-len(operands.bias) :]  # type: ignore[arg-type]
            yield from (*each[:3], *(x if x is None else x[0] for x in each[3:]))

    def runs_both(self, operands: StepOperands, x: Tensor, h0: Tensor) -> bool:
        """Return True if one kernel of Triton runs both directions, with states ``(2, B, H)``."""
        from representer.ops.rkm_scan import stationary  # which imports Triton

        p = self._full(operands, x, h0[0], h0[0], None)
        return self.runs_alone(operands, x, h0[0]) or not stationary.refuses(p._replace(h0=h0))

    def runs_alone(self, operands: StepOperands, x: Tensor, h0: Tensor) -> bool:
        """Return True if one kernel of Triton runs a layer, whose programs do not wait."""
        from representer.ops.rkm_scan import whole  # which imports Triton

        return not whole.refuses(self._full(operands, x, h0, h0, None))

    def _all_biases(self, bias: Tensor | None) -> Tensor | None:
        if bias is None:
            return None
        missing = -len(bias) % (self.gates * self.units)
        bias = nn.functional.pad(bias, (missing, 0)) if missing else bias
        return bias.view(-1, self.units)

    def _full(
        self, operands: StepOperands, x: Tensor, h0: Tensor, c0: Tensor, bias: Tensor | None
    ) -> Operands:
        input_weight, _, weight, static, norm, hold, lengths = operands
        units = self.units
        input_weight = input_weight.view(len(input_weight) // units, units, -1)
        shape = (*h0.shape[:-2], self.seen, units, units)
        weight = None if weight is None else weight.view(shape)
        return Operands(
            x, input_weight, bias, weight, h0, c0, static, norm, hold, lengths, self.cell, False,
            ALL,
        )  # fmt: skip

    def _biased(self, bias: Tensor) -> int:
        return min(len(bias) // self.units, self.gates)
