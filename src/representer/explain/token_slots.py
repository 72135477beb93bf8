"""The contribution of each token to a state of a string-kernel network, per reference slot."""

from __future__ import annotations

from torch import Tensor

from representer.explain.string_parts import check_order, string_parts
from representer.nn import StringKernelRNN
from representer.requirements import check_integer


def token_slots(
    layer: StringKernelRNN, input: Tensor, unit: int | None = None, order: int | None = None
) -> Tensor:
    r"""Split a state into the contributions of each token at each slot of the reference.

    With ``combine="multiply"``, entry :math:`(t, j)` is the total of all n-grams whose j-th token
    is t,

    .. math::
        A[t, j] = \sum_{i_1 < \dots < i_n, \; i_j = t} \; \prod_l \langle x_{i_l}, w_l \rangle
                  \prod_{s > i_1, \, s \notin i} \lambda_s

    and for every j the sum over t is the state :math:`c_n[T]`. Where tokens are added (``"add"``,
    ``"add_exact"``), the state is linear in each of them, and the sum over t *and* j is the state.
    One forward and one backward pass compute the contributions in O(T n). A gated decay is treated
    as a constant: the effect of a token on the gates is not attributed to it.

    Args:
        layer: Of several layers, the first is explained; of two directions, the forward one.
        input: One sequence.
        unit: The unit; all by default.
        order: Index of the state among c_1 … c_n; the last by default.

    Shape:
        - input ``(T, I)``
        - returns ``(T, n)`` for one unit, else ``(T, n, H)``

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or the dtype or device of the input
            differs from the layer's.
        ShapeError: If the input is not one sequence.
        ArgumentError: If unit or order is out of range, or a value of the input is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), section 4, Table 4.
    """
    parts = string_parts(layer, input)
    order = check_order(layer, order)
    if unit is not None:
        check_integer("unit", unit, 0, layer.hidden_size - 1)
    parts = parts.select(order, unit)
    result = parts.contributions(parts.divide_by_mass(parts.last_state_weights())).to(input.dtype)
    return result if unit is None else result[..., 0]
