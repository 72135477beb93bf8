"""What each token adds to a state of a string-kernel network in each slot of the reference."""

from __future__ import annotations

from torch import Tensor

from representer.explain.checks import check_index
from representer.explain.string_parts import check_order, string_parts
from representer.nn import StringKernelRNN


def token_slots(
    layer: StringKernelRNN, input: Tensor, unit: int | None = None, order: int | None = None
) -> Tensor:
    r"""Split a state into what each token adds in each slot of the reference.

    With ``combine="multiply"``, entry :math:`(t, j)` is the total of all n-grams whose j-th token
    is t,

    .. math::
        A[t, j] = \sum_{i_1 < \dots < i_n, \; i_j = t} \; \prod_l \langle x_{i_l}, w_l \rangle
                  \prod_{s > i_1, \, s \notin i} \lambda_s

    and for every j the sum over t is the whole state :math:`c_n[T]`, since every n-gram has one
    j-th token. Where tokens are added (``"add"``, ``"add_exact"``) the state is linear in each of
    them, and the sum over t *and* j is the state. Found by running the chain forwards and
    backwards, in time in proportion to T n. A decay that is a gate has the values that it had on
    this input: what a token did to the gates is not counted as its own.

    Args:
        layer: Of several layers, the first is explained; of two directions, the forward one.
        input: One sequence.
        unit: Which unit; all of them by default.
        order: Which of c_1 … c_n; the last by default.

    Shape:
        - input ``(T, I)``
        - returns ``(T, n)`` for one unit, else ``(T, n, H)``

    Raises:
        KindError: If the layer is no string-kernel layer, or the input of another kind than it.
        ShapeError: If the input is not one sequence.
        ArgumentError: If unit or order is out of range, or a step of the input is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), section 4, Table 4.
    """
    parts = string_parts(layer, input)
    order = check_order(layer, order)
    if unit is not None:
        check_index("unit", unit, 0, layer.hidden_size - 1)
    parts = parts.of(order, unit)
    shares = parts.contributions(parts.read(parts.at_the_end())).to(input.dtype)
    return shares if unit is None else shares[..., 0]
