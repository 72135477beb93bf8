"""The recurrence of any string-kernel cell on every backend."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.functional import StringChain
from representer.ops import core, gpu, structs
from representer.ops.common import FEW_ROWS, may_need_gradient
from representer.ops.core import padded
from representer.ops.op import Backend, Op
from representer.ops.rkm_scan import is_ready
from representer.ops.string_scan import reference
from representer.ops.string_scan.reference import Operands, Results, check, finish, sizes
from representer.ops.table import OperandTable

# string_scan on the compiled core: products and chain there, sums over steps in torch.


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    time, batch, units = new.output.shape
    core.run(
        "string_forward", structs.StringForwardStruct, new.output.dtype,
        chain=core.chain_struct(p.chain, p.decay), time=time, batch=batch, units=units,
        features=0 if p.input_weight is None else p.x.shape[2], reverse=p.reverse,
        biased=0 if p.bias is None else len(p.bias), x=p.x, input_weight=p.input_weight,
        bias=p.bias, decay=p.decay, weight=p.weight, h0=p.h0, c0=p.c0, carry=p.carried,
        mask=p.mask, lengths=p.lengths, out=new.output, h=new.h, c=new.c,
        **core.filled(products=new.products, states=new.states),
    )  # fmt: skip
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    time, batch, units = kept.output.shape
    upstream = grad.output if grad.output.stride(2) == 1 else grad.output.contiguous()
    new = kept.output.new_empty
    dz, to_h, to_c = new(kept.products.shape), new(p.h0.shape), new(p.c0.shape)
    d_carry = new(kept.output.shape) if p.chain.highway else None
    d_decay = None if p.decay is None else new(p.h0.shape)
    core.run(
        "string_backward", structs.StringBackwardStruct, dz.dtype,
        chain=core.chain_struct(p.chain, p.decay), time=time, batch=batch, units=units,
        reverse=p.reverse, grad_output=core.Strided(upstream), grad_time=upstream.stride(0),
        grad_batch=upstream.stride(1), grad_h=grad.h, grad_c=grad.c, products=kept.products,
        states=kept.states, decay=p.decay, weight=p.weight, c0=p.c0, carry=p.carried,
        mask=p.mask, lengths=p.lengths, grad_z=dz, grad_carry=d_carry, extra_h=to_h, grad_c0=to_c,
        grad_decay=d_decay,
    )  # fmt: skip
    if p.weight is not None:
        first, few = dz[-1 if p.reverse else 0, :, p.chain.order], time * batch <= FEW_ROWS
        of_first = core.product(first, p.weight) if few else first @ p.weight  # as string_few
        to_h += of_first if p.mask is None else p.mask * of_first
    return {"h0": to_h, "c0": to_c} | finish(
        p, kept, dz, d_carry, d_decay, "x" in requested, core.product, core.transpose
    )


def refuses(p: Operands) -> str:
    """Return why the core cannot run a call, or an empty string."""
    shape = p.x.shape if p.input_weight is None else p.input_weight.shape
    has_units = shape[-1] and shape[-2]
    return core.refuses(p) if has_units else "has nothing to do without units"


def string_scan(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    *,
    chain: StringChain,
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    decay: Tensor | None = None,
    weight: Tensor | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    carry: Tensor | None = None,
    backend: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run any string-kernel cell over a sequence, as ``functional.string_scan`` defines it.

    Arguments and results are those of ``functional.string_scan``. With ``input_weight`` W ``(P, H,
    I)``, the input x ``(T, B, I)`` is turned into z = W x + b inside the op, with ``bias`` b ``(b,
    H)`` of the last products, which are the gates; the highway then carries x by default. The mask
    is a constant. ``backend`` names a backend, which runs or raises; None is the fastest available
    one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or the chain needs an operand that is missing.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (3), (4), section 4 and 6.1, Tables 4 and 5.
    """
    tensors = (x, input_weight, bias, decay, weight, h0, c0, carry)
    keep = may_need_gradient(tensors)
    output, h, c, *_ = OP(Operands(*tensors, mask, lengths, chain, reverse, keep), backend)
    return output, h, c


def _definition(
    x: Tensor, h0: Tensor, c0: Tensor, *, chain: StringChain, input_weight: Tensor | None = None,
    bias: Tensor | None = None, carry: Tensor | None = None, **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Run ``functional.string_scan`` on the op's arguments."""
    z = x
    if input_weight is not None:
        z = torch.einsum("tbi,phi->tbph", x, input_weight)
        carry = x if carry is None and chain.highway else carry
        if bias is not None:
            rows = (len(input_weight) - len(bias), 0)
            z = z + torch.nn.functional.pad(bias, (0, 0, *rows))
    return functional.string_scan(z, h0, c0, chain=chain, carry=carry, **options)


OP = Op("string_scan", string_scan, _definition)
OP.register(OperandTable(Operands, Results, sizes, check))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("string_scan"))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, refuses))


# A call of ``string_scan`` with ``input_weight`` on the compiled core, with as little overhead as
# possible: no operator dispatch, and only the checks that memory needs.


class StepOperands(NamedTuple):
    """The weights of a step."""

    input_weight: Tensor  # (P·H, I)
    bias: Tensor | None  # (g·H,), of the last g products
    decay: Tensor | None  # () or (H,)
    weight: Tensor | None  # (H, H)


class Step:
    """A chain with a number of units, ready to take steps on operands that `fits` checked.

    With ``is_learned``, a decay that is not a gate has one value for each unit.
    """

    op, operation = OP, "string"
    kept = 4  # tensors of a call that its gradient reads
    few = "grad_input", "grad_bias", "grad_decay", "grad_weight"  # fields of gradients, by operand

    def __init__(self, chain: StringChain, units: int, is_learned: bool) -> None:
        self.chain, self.units, self.products = chain, units, len(chain.products)
        self.of_decay, self.carries = (units,) if is_learned else (), chain.highway
        decay = None if chain.is_gated else torch.empty(self.of_decay)
        struct = core.chain_struct(chain, decay)
        self.template = structs.StringForwardStruct(struct, 1, 0, units, 0, False, 1)
        self.tape = self.products + chain.states  # values of a unit that its gradient reads

    def fits(self, features: int, like: Tensor, operands: StepOperands) -> bool:
        """Return True if a kernel may read these operands; nothing else protects its memory."""
        input_weight, bias, decay, weight = operands
        chain, units = self.chain, self.units
        return (
            is_ready(input_weight, (self.products * units, features), like)
            and (bias is None or is_ready(bias, ((self.products - chain.order) * units,), like))
            and (decay is None) == chain.is_gated
            and (decay is None or is_ready(decay, self.of_decay, like))
            and (weight is not None) == chain.is_state_gated
            and (weight is None or is_ready(weight, (units, units), like))
            and not (chain.highway and features != units)
        )

    def packed_entries(self, operands: StepOperands) -> int:
        """Return an upper bound of the entries of the packed weights."""
        outputs, features = operands.input_weight.shape
        return padded(outputs) * features + padded(self.units) * self.units

    def struct(self, operands: Sequence[Any]) -> Any:
        """Return the arguments of a step without input, output and state."""
        input_weight, bias, decay, weight = operands
        s = structs.StringForwardStruct.from_buffer_copy(self.template)
        s.features, s.input_weight = input_weight.shape[1], input_weight.data_ptr()
        if bias is not None:
            s.bias, s.biased = bias.data_ptr(), len(bias) // self.units
        if decay is not None:
            s.decay = decay.data_ptr()
        if weight is not None:
            s.weight = weight.data_ptr()
        return s

    def takes(self, x: Tensor) -> bool:
        """Return True if the core reads this input as it is."""
        return x.is_contiguous()

    def read(self, struct: Any, x: Tensor) -> None:
        """Set the input ``(T, B, I)`` or ``(B, I)``."""
        struct.x = x.data_ptr()
        if self.carries:
            struct.carry = struct.x

    def is_fused(self, operands: StepOperands) -> bool:
        """Return True: the core always has the products with the input itself."""
        return True

    def keep(self, struct: Any, operands: StepOperands, x: Tensor) -> tuple[Tensor, ...]:
        """Make the core write what the gradient reads, and return it."""
        time, batch = (1, *x.shape)[-3:-1]
        products = x.new_empty(time, batch, self.products, self.units)
        states = x.new_empty(time, batch, self.chain.states, self.units)
        struct.products, struct.states = products.data_ptr(), states.data_ptr()
        return products, states

    def is_bare(self, operands: StepOperands) -> bool:
        """Return True: the core computes all gradients of a call of few rows itself."""
        return True

    def read_tape(self, struct: Any, tape: Tensor) -> None:
        """Set where a call of few rows writes what its gradient reads."""
        struct.products = tape.data_ptr()
        rows = struct.time * struct.batch
        struct.states = struct.products + rows * self.products * self.units * tape.element_size()

    def gradients(
        self, operands: StepOperands, x: Tensor, h0: Tensor, c0: Tensor, kept: tuple[Tensor, ...],
        grad: tuple[Tensor, Tensor, Tensor], needs: tuple[bool, ...], backend: str = "cpp",
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """Return the gradients of x, h0, c0 and the operands; see the twin in ``rkm_scan``."""
        output, products, states = kept
        results = Results(output, None, None, products, states)  # type: ignore[arg-type]
        upstream = Results(*grad, None, None)  # type: ignore[arg-type]
        requested = ["x"] if needs[0] else []
        backward = cpp_backward if backend == "cpp" else OP.backends[backend].backward
        by_name = backward(self._full(operands, x, h0, c0), results, upstream, requested)
        of, bias = by_name.get, by_name.get("bias")
        return (
            of("x"), of("h0"), of("c0"), by_name["input_weight"].flatten(0, 1),
            None if bias is None else bias.flatten(), of("decay"), of("weight"),
        )  # fmt: skip

    def scan(self, operands: StepOperands, x: Tensor, h0: Tensor, c0: Tensor) -> tuple[Tensor, ...]:
        """Run the operator on the operands of a call."""
        p = self._full(operands, x, h0, c0)
        return string_scan(
            x, h0, c0, chain=p.chain, input_weight=p.input_weight, bias=p.bias, decay=p.decay,
            weight=p.weight,
        )  # fmt: skip

    def run(
        self, operands: StepOperands, x: Tensor, states: Sequence[Tensor], keep: bool, backend: str
    ) -> Results:  # fmt: skip
        """Run a backend without the operator; see the twin in ``rkm_scan``."""
        h0, c0, h, c = states
        p, shape, units = self._full(operands, x, h0, c0), x.shape[:2], self.units
        kept = x.new_empty((*shape, self.chain.states, units) if keep else 0)
        new = Results(x.new_empty(*shape, units), h, c, x.new_empty(0), kept)
        return self.op.backends[backend].forward(p._replace(keep=keep), new)

    def _full(self, operands: StepOperands, x: Tensor, h0: Tensor, c0: Tensor) -> Operands:
        input_weight, bias, decay, weight = operands
        input_weight = input_weight.view(self.products, self.units, -1)
        bias = None if bias is None else bias.view(-1, self.units)
        tensors = x, input_weight, bias, decay, weight, h0, c0, None, None, None
        return Operands(*tensors, self.chain, False, True)
