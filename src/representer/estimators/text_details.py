"""Details of the explanation of a text: its words, and the units of the network one level deeper.

See `text_explanation` for the score that the contributions sum to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.data.text import tokenize
from representer.estimators.explanation import Explanation
from representer.estimators.ngram_contributions import with_gaps
from representer.estimators.text_explanation import evidence_of, layers_of
from representer.explain import StackReadout, reference_card, stack_readout
from representer.nn import StringKernelRNN

if TYPE_CHECKING:
    from representer.estimators.text import TextNetwork

UNITS, NEAR = 5, 3  # units to list, and their n-grams


def details_of(estimator: TextNetwork, text: str, explanation: Explanation) -> dict[str, Any]:
    """Return the contribution of each word of a text, and units or steps of the network.

    The contribution of an n-gram is divided equally among its words.

    Args:
        estimator: The trained estimator.
        text: A text of at least one word.
        explanation: Its explanation; it has the number of lines and steps to list.
    """
    scheme: Any = estimator.inputs_.tokenizer
    top = explanation.listed
    inside = _inside(estimator, text, top) if estimator.pool_.network else {}
    return explanation.marks(tokenize(text, scheme)) | inside


def _inside(estimator: TextNetwork, text: str, top: int) -> dict[str, Any]:
    """Return the units with the largest contributions, or the steps and their gates."""
    words = estimator.inputs_.words(text)
    ids = torch.tensor(estimator.inputs_.vocabulary.encode(words))
    network = estimator.network_
    with torch.no_grad():
        x = network.embedding(ids)
        ((scores, _), *_) = estimator._moments([text])  # of both parts: as in the explanation
        output, width = int(scores[0].argmax()), scores.shape[1]
        evidence = evidence_of(network, ids, output, width)
    layers = layers_of(network)
    scale = estimator.target_.unit[0] * estimator.pool_.network
    readout = stack_readout(layers, x, [scale * each for each in evidence.weights])
    found: dict[str, Any] = {"layers": sum(layer.num_layers for layer in layers)}
    if isinstance(layers[0], StringKernelRNN):
        return found | {"units": _units(estimator, readout, words, x)}
    rows = [{**row._asdict(), "word": words[row.step]} for row in readout.rows(top)]
    return found | {"steps": rows}


def _units(
    estimator: TextNetwork, readout: StackReadout, words: Sequence[str], x: Tensor
) -> list[dict[str, Any]]:
    """Return the strongest units of the first layer, with the n-grams that they take it from."""
    effects = readout.steps().sum(0)
    strongest = effects.abs().topk(min(UNITS, len(effects))).indices.tolist()
    return [
        {
            "unit": unit,
            "contribution": effects[unit].item(),
            "half_life": _half_life(estimator, readout, unit, x),
            "ngrams": [
                {
                    "text": with_gaps(words, sorted(one.positions)),
                    "contribution": one.contribution,
                }
                for one in readout.ngrams(unit, NEAR)
            ],
        }
        for unit in strongest
    ]


def _half_life(estimator: TextNetwork, readout: StackReadout, unit: int, x: Tensor) -> float | None:
    """Return the half-life of a unit of the first layer in words; None if it never forgets."""
    marks = len(estimator.inputs_.vocabulary.MARKS)  # marks are not words
    known = estimator.inputs_.vocabulary.words[marks:]
    vectors = estimator.network_.embedding.weight.detach()[marks:]
    direction, own = divmod(unit, readout.parts[0].hidden_size)
    part = readout.parts[direction]
    assert isinstance(part, StringKernelRNN)
    read = x.double().flip(0) if direction else x.double()
    card = reference_card(part, own, known, vectors, k=1, data=[read])
    return card.half_life if card.half_life != float("inf") else None
