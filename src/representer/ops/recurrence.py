"""The tensors that autograd saves for a recurrence, and the call of its gradient operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def gradient_rule(
    name: str,
    operands: Any,
    gradients: Any,
    needs_input: Callable[[Any], bool],
    optional: Sequence[str],
) -> tuple[Callable[..., None], Callable[..., tuple[Tensor | None, ...]]]:
    """Return ``save`` and ``gradient`` of an operator, for ``Op.register``.

    The operator returns h of every step, the last h, the last c and the tensors saved for the
    gradient. Its gradient operator takes the gradients of the first three, h of every step, the
    saved tensors, the forward tensors, ``code``, ``reverse`` and flags for optional gradients.

    Args:
        name: Name of the operator.
        operands: Named tuple type of its operands: the tensors, ``code``, ``reverse`` and others.
        gradients: Named tuple type of the results of its gradient operator.
        needs_input: Returns True if the gradient needs the first operand, given the operands.
        optional: Operands whose gradients the gradient operator computes only if told to.
    """
    tensors = operands._fields[: operands._fields.index("code")]

    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        p = operands(*inputs[:-1])
        ctx.code, ctx.reverse, ctx.backend = p.code, p.reverse, inputs[-1]
        states, _, _, *kept = output
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)  # zeros for the saved tensors would be as large as they
        x = p[0] if needs_input(p) else p[0].new_empty(0)
        ctx.save_for_backward(states, *kept, x, *p[1 : len(tensors)])

    def gradient(ctx: Any, *of_results: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        of = dict(zip(tensors, saved[-len(tensors) :], strict=True))
        results = saved[0], of["h0"], of["c0"]
        needs = dict(zip(operands._fields, ctx.needs_input_grad, strict=False))
        found = getattr(torch.ops.representer, f"{name}_backward")(
            *(
                torch.zeros_like(result) if given is None else given
                for result, given in zip(results, of_results, strict=False)
            ),
            *saved,
            ctx.code,
            ctx.reverse,
            *(needs[each] for each in optional),
            ctx.backend,
        )
        by_name = dict(zip(gradients._fields, found, strict=True))
        return (*(by_name.get(n) if needs[n] else None for n in operands._fields), None)

    return save, gradient
