"""The gapped n-grams that make up a state of a string-kernel network, the largest first."""

from __future__ import annotations

from torch import Tensor

from representer.errors import KindError
from representer.explain.best_ngrams import NgramContribution, best_ngrams
from representer.explain.chain_sums import tails
from representer.explain.checks import check_index
from representer.explain.string_parts import StringParts, check_order, string_parts
from representer.nn import StringKernelRNN


def top_ngrams(
    layer: StringKernelRNN, input: Tensor, unit: int, k: int, order: int | None = None
) -> list[NgramContribution]:
    r"""Return the k n-grams that contribute most to a state, with their exact shares.

    .. math::
        c_n[T] = \sum_{i_1 < \dots < i_n} \; \prod_j \langle x_{i_j}, w_j \rangle
                 \prod_{s > i_1, \, s \notin i} \lambda_s

    Each term is one n-gram with gaps: the matches of its tokens with the slots of the unit's
    reference, times the decay at every step after its first token that it skips. All terms sum to
    the state. With ``normalized=True`` each token also counts :math:`1 - \lambda`; with
    ``"exact"`` all are divided by the mass. A decay that is a gate has the values that it had on
    this input.

    The search is exact: no n-gram outside of the list is larger in size than one inside. It takes
    time in proportion to T n k.

    Args:
        layer: Of several layers, the first is explained; of two directions, the forward one.
        input: One sequence.
        unit: Which unit.
        k: How many n-grams.
        order: Length of the n-grams, that is, which of c_1 … c_n; the last by default.

    Shape:
        - input ``(T, I)``

    Returns:
        At most k pairs of positions, 0-based, and contribution, the largest in size first; none
        where the sequence is shorter than an n-gram. Zeros are listed too.

    Raises:
        KindError: If the layer is no string-kernel layer, or adds the tokens of an n-gram instead
            of multiplying them; or if the input is of another kind than the layer.
        ShapeError: If the input is not one sequence.
        ArgumentError: If unit, k or order is out of range, or a step of the input is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (3), (4), section 4.
    """
    parts = string_parts(layer, input)
    refuse_sums(layer)
    k = check_index("k", k, 1)
    unit = check_index("unit", unit, 0, layer.hidden_size - 1)
    parts = parts.of(check_order(layer, order), unit)
    return ngrams_of(parts, parts.read(parts.at_the_end()), k)


def ngrams_of(parts: StringParts, read: Tensor, k: int) -> list[NgramContribution]:
    """Return the k n-grams that contribute most to sum_t read_t c_n[t] of one unit."""
    weighed = (parts.weight[:, None] * parts.products)[..., 0]
    tail = tails(read, parts.decay)[:, 0]
    return best_ngrams(weighed.tolist(), parts.decay[:, 0].tolist(), tail.tolist(), k)


def refuse_sums(layer: StringKernelRNN) -> None:
    """Refuse a layer whose n-grams have no shares of their own.

    Raises:
        KindError: If its tokens are added.
    """
    if layer.chain.combine != "multiply":
        raise KindError(
            "layer",
            repr(layer),
            "one with combine='multiply'",
            hint="A sum over the tokens has shares of tokens, not of n-grams: use token_slots.",
        )
