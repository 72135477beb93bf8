"""Contributions of words, units, references and steps that an explanation of a text shows.

See ``representer.estimators.text_explanation`` for the score that the contributions sum to.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from representer.estimators.text import TextNetwork
from representer.estimators.text_explanation import evidence_of, layers_of
from representer.explain import StackReadout, reference_card, stack_readout
from representer.nn import StringKernelRNN

UNITS, NEAR = 5, 3  # units to list, and nearest words of each of their slots


def explained(estimator: TextNetwork, text: str, top: int) -> dict[str, Any]:
    """Return the contribution of each word of a text, and its largest n-grams or steps by unit.

    Args:
        estimator: The trained estimator.
        text: A text of at least one word.
        top: Number of n-grams, or steps, to list.

    Raises:
        KindError: If the output of the cell is not a sum over the words, with the reason.
    """
    if estimator.machine_ is not None:
        return {}  # the n-grams of kernel and network are contributions of the same score
    words = estimator.inputs_.words(text)
    ids = torch.tensor(estimator.inputs_.vocabulary.encode(words))
    network = copy.deepcopy(estimator.network_).cpu()  # after training it may be on a GPU
    with torch.no_grad():
        x = network.embedding(ids)
        evidence = evidence_of(network, ids)
    layers = layers_of(network)
    scale, _ = estimator.target_.unit
    readout = stack_readout(layers, x, [scale * each for each in evidence.weights])
    values = readout.steps().sum(1).tolist()
    of_cell = _ngrams if isinstance(layers[0], StringKernelRNN) else _steps
    largest = max(map(abs, values)) or 1.0
    return {
        "words": words,
        "by_word": values,
        "strengths": [value / largest for value in values],
        "layers": sum(layer.num_layers for layer in layers),
        **of_cell(estimator, readout, words, x, top),
    }


def _ngrams(
    estimator: TextNetwork, readout: StackReadout, words: Sequence[str], x: Tensor, top: int
) -> dict[str, Any]:
    """Return the largest n-grams of the first layer, and the references of their units."""
    effects = readout.steps().sum(0)
    every = [(share, u) for u in range(len(effects)) for share in readout.ngrams(u, top)]
    best = sorted(every, key=lambda entry: -abs(entry[0].contribution))[:top]
    strongest = effects.topk(min(UNITS, len(effects))).indices.tolist()
    matched = {t for share, _ in best for t in share.positions}
    return {
        "marked": [t in matched for t in range(len(words))],
        "ngrams": [
            {
                "positions": sorted(share.positions),
                "text": with_gaps(words, sorted(share.positions)),
                "contribution": share.contribution,
                "unit": unit,
            }
            for share, unit in best
        ],
        "units": {
            str(unit): _card(estimator, readout, unit, x)
            for unit in {unit for _, unit in best} | set(strongest)
        },
        "strongest": [{"unit": unit, "effect": effects[unit].item()} for unit in strongest],
        "steps": [],
    }


def _card(estimator: TextNetwork, readout: StackReadout, unit: int, x: Tensor) -> dict[str, Any]:
    """Return the reference of a unit of the first layer as words, in reading order."""
    marks = len(estimator.inputs_.vocabulary.MARKS)  # marks are not words
    known = estimator.inputs_.vocabulary.words[marks:]
    vectors = estimator.network_.embedding.weight.detach()[marks:]
    direction, own = divmod(unit, readout.parts[0].hidden_size)
    part = readout.parts[direction]
    assert isinstance(part, StringKernelRNN)
    read = x.double().flip(0) if direction else x.double()
    card = reference_card(part, own, known, vectors, k=NEAR, data=[read])
    slots = ["/".join(near.word for near in slot) for slot in card.slots]
    text = " · ".join(reversed(slots) if direction else slots)
    return {
        "text": f"{text} (from the end)" if direction else text,
        "half_life": card.half_life if card.half_life != float("inf") else None,
    }


def _steps(
    estimator: TextNetwork, readout: StackReadout, words: Sequence[str], x: Tensor, top: int
) -> dict[str, Any]:
    """Return the steps with the largest contributions, and the values of their gates."""
    rows = readout.rows(top)
    matched = {row.step for row in rows}
    return {
        "marked": [t in matched for t in range(len(words))],
        "ngrams": [],
        "units": {},
        "strongest": [],
        "steps": [{**row._asdict(), "word": words[row.step]} for row in rows],
    }


def with_gaps(words: Sequence[str], positions: Sequence[int]) -> str:
    """Return the words of an n-gram, with dots for skipped words."""
    text = words[positions[0]]
    for before, t in pairwise(positions):
        text += f"{' ' if t == before + 1 else ' … '}{words[t]}"
    return text
