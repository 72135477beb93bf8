"""The gapped n-grams that contribute most to a state of a string-kernel network."""

from __future__ import annotations

from torch import Tensor

from representer.errors import KindError
from representer.explain.best_ngrams import NgramContribution, best_ngrams
from representer.explain.chain_sums import tails
from representer.explain.string_parts import StringParts, check_order, string_parts
from representer.nn import StringKernelRNN
from representer.requirements import check_integer


def top_ngrams(
    layer: StringKernelRNN, input: Tensor, unit: int, k: int, order: int | None = None
) -> list[NgramContribution]:
    r"""Return the k n-grams of largest absolute contribution to a state.

    .. math::
        c_n[T] = \sum_{i_1 < \dots < i_n} \; \prod_j \langle x_{i_j}, w_j \rangle
                 \prod_{s > i_1, \, s \notin i} \lambda_s

    Each term is one gapped n-gram: the products of its tokens with the slots of the unit's
    reference, times the decay at every skipped step after its first token. The sum of all terms is
    the state. With ``normalized=True``, each token has a factor :math:`1 - \lambda`; with
    ``"exact"``, all terms are divided by the mass. A gated decay is treated as a constant.

    The search is exact and takes O(T n k) steps.

    Args:
        layer: Of several layers, the first is explained; of two directions, the forward one.
        input: One sequence.
        unit: The unit.
        k: Number of n-grams.
        order: Length of the n-grams, the index of the state among c_1 … c_n; the last by default.

    Shape:
        - input ``(T, I)``

    Returns:
        At most k pairs of positions (0-based) and contribution, in descending order of absolute
        contribution, zeros included; none if the sequence is shorter than an n-gram.

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or adds the tokens of an n-gram instead
            of multiplying them; or if the dtype or device of the input differs from the layer's.
        ShapeError: If the input is not one sequence.
        ArgumentError: If unit, k or order is out of range, or a value of the input is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (3), (4), section 4.
    """
    parts = string_parts(layer, input)
    check_multiplicative(layer)
    k = check_integer("k", k, 1)
    unit = check_integer("unit", unit, 0, layer.hidden_size - 1)
    parts = parts.select(check_order(layer, order), unit)
    return best_layer_ngrams(parts, parts.divide_by_mass(parts.last_state_weights()), k)


def best_layer_ngrams(parts: StringParts, read: Tensor, k: int) -> list[NgramContribution]:
    """Return the k n-grams that contribute most to sum_t read_t c_n[t] of one unit."""
    weighted = (parts.weight[:, None] * parts.products)[..., 0]
    tail = tails(read, parts.decay)[:, 0]
    return best_ngrams(weighted.tolist(), parts.decay[:, 0].tolist(), tail.tolist(), k)


def check_multiplicative(layer: StringKernelRNN) -> None:
    """Check that a layer multiplies the tokens of an n-gram.

    Raises:
        KindError: If it adds them.
    """
    if layer.chain.combine != "multiply":
        raise KindError(
            "layer",
            repr(layer),
            "one with combine='multiply'",
            hint="Where tokens are added, n-grams have no contributions: use token_slots.",
        )
