"""The output of a text network as an exact sum over the n-grams of a text.

The classifier is y = W_2 relu(W_1 h + b_1) + b_2 of the mean h of the outputs of the cell, or
y = W h of the means of several layers. Given which relus are active, and the weight of each step in
the mean, an output is a weighted sum of the cell's outputs, which ``representer.explain``
decomposes through all layers down to the words. The explained score is the logit of the predicted
class minus the mean of all logits, since a constant added to all logits does not change the
prediction; with one output it is the output.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from representer.errors import KindError
from representer.estimators.ngram_contributions import (
    Layer,
    ngram_contributions,
    require_layers,
)
from representer.estimators.targets import centered
from representer.models import SequenceClassifier, StackedClassifier

TextModel = SequenceClassifier | StackedClassifier


class Evidence(NamedTuple):
    """A prediction, and its score as a weighted sum of the outputs of the cell.

    Attributes:
        label: The explained class; 0 with one output.
        probability: Probability of this class.
        weights: Weight of the output of every step, for each layer that is read ``(T, D·H)``.
        constant: Contribution of the biases.
    """

    label: int
    probability: float
    weights: list[Tensor]
    constant: float


class NgramSum(NamedTuple):
    """The score of a document, and the contributions that sum to it.

    Attributes:
        label: The explained class.
        probability: Of this class.
        ngrams: Positions of the words of each n-gram, and its contribution, in reading order.
        constant: Contribution of the biases.
        score: The score, from a forward pass of the network in float64.
    """

    label: int
    probability: float
    ngrams: list[tuple[tuple[int, ...], float]]
    constant: float
    score: float


def ngram_sum(
    model: TextModel, ids: Sequence[int], output: int | None = None, width: int | None = None
) -> NgramSum:
    """Return the score of a document as a sum over its n-grams; see `ngram_contributions`.

    Args:
        model: The network.
        ids: Numbers of the words; without any, the score is the constant.
        output: The class whose score is explained; the predicted one if left out.
        width: Number of outputs of the first target, which is explained; all if left out.

    Raises:
        KindError: If the output of the cell is not a sum over the words.
    """
    layers, tokens = layers_of(model), torch.tensor(ids)
    exact = copy.deepcopy(model).double()
    if not len(ids):
        with torch.no_grad():  # one step of padding, which is not read
            outputs = exact(torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0]))[0, :width]
        label = int(outputs.argmax()) if output is None else output
        score = centered(outputs)[label].item()
        return NgramSum(label, outputs.softmax(0)[label].item(), [], score, score)
    with torch.no_grad():
        evidence = evidence_of(exact, tokens, output, width)
        x = model.embedding(tokens)
        outputs = exact(tokens[None], torch.tensor([len(ids)]))[0, :width]
    ngrams, constant = ngram_contributions(layers, x, evidence.weights)
    return NgramSum(
        label=evidence.label,
        probability=evidence.probability,
        ngrams=ngrams,
        constant=evidence.constant + constant,
        score=centered(outputs)[evidence.label].item(),
    )


def layers_of(model: TextModel) -> list[Layer]:
    """Return the recurrent layers of a text network.

    Raises:
        KindError: If contributions are not defined for one of them.
    """
    if isinstance(model, SequenceClassifier) and model.lookahead:
        hint = "Its gates depend on later words, too."
        raise KindError("filter_padding", model.config.filter_padding, "'causal'", hint=hint)
    layers = [model.cell] if isinstance(model, SequenceClassifier) else list(model.layers)
    return require_layers(layers, getattr(model.config, "cell", type(model).__name__))


def evidence_of(
    model: TextModel, ids: Tensor, output: int | None = None, width: int | None = None
) -> Evidence:
    """Return the prediction for one document, and the weight of each output in its score.

    Args:
        model: The network.
        ids: Numbers of the words ``(T,)``.
        output: The class whose score is meant; the predicted one if left out.
        width: As of `ngram_sum`.
    """
    length = torch.tensor([len(ids)])
    if isinstance(model, SequenceClassifier):
        outputs, is_step = model.read(ids[None], length)
        shares = model.step_weights(outputs, is_step)[0].double()
        means = shares @ outputs[0].double()
        first, second = (
            layer for layer in model.head if isinstance(layer, torch.nn.Linear)
        )  # the others are dropout and relu
        w1, b1 = first.weight.double(), first.bias.double()
        w2, b2 = second.weight.double(), second.bias.double()
        on = (w1 @ means + b1 > 0).double()
        rows, constants, parts = (w2 * on) @ w1, (w2 * on) @ b1 + b2, 1
    else:
        means = model.encode(ids[None], length)[0].double()
        rows, parts = model.output.weight.double(), len(model.layers)
        constants = torch.zeros(len(rows))
        shares = torch.full((len(ids),), 1 / len(ids), dtype=torch.float64)
    rows, constants = rows[:width], constants[:width]
    chances = (rows @ means + constants).softmax(0)
    label = int(chances.argmax()) if output is None else output
    weights = shares[:, None] * centered(rows)[label]
    return Evidence(
        label,
        chances[label].item(),
        list(weights.chunk(parts, dim=1)),
        centered(constants)[label].item(),
    )
