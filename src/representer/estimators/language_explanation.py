"""The score of the next token as an exact sum over the tokens of a text.

The logits are E h + b with the last output h of the last layer, so the logit of a token minus the
mean of all logits is a weighted sum of h, which ``representer.explain`` decomposes through all
layers down to the tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch

from representer.errors import KindError
from representer.estimators.explanation import Contribution
from representer.estimators.ngram_contributions import (
    ngram_contributions,
    require_layers,
    with_gaps,
)
from representer.estimators.targets import centered
from representer.models import LanguageModel
from representer.models.tied_softmax import TiedSoftmax


@torch.no_grad()
def explain_next(
    model: LanguageModel, ids: Sequence[int], words: Sequence[str], token: int
) -> tuple[float, float, list[Contribution]]:
    """Return the score of a next token, its constant part, and its contributions.

    The first of the tokens is the ``<eos>`` before the text.

    Raises:
        KindError: If the score is not a sum over the tokens.
    """
    if not isinstance(model.output, TiedSoftmax):
        hint = "The probability of a rare token is a product over clusters."
        raise KindError(
            "the softmax", type(model.output).__name__, "one without cutoffs", hint=hint
        )
    layers = require_layers(model.layers, model.config.cell)
    exact = copy.deepcopy(model).double()
    tokens = torch.tensor(ids)
    logits = centered(exact.output(exact(tokens[:, None]).features[-1, 0]))
    sizes = [units for _, units in model.config.layer_sizes]
    weights = [exact.embedding.weight.new_zeros(len(ids), units) for units in sizes]
    weights[-1][-1] = centered(exact.embedding.weight)[token]
    ngrams, constant = ngram_contributions(layers, model.embedding(tokens), weights)
    bias = exact.output.bias
    constant += 0.0 if bias is None else centered(bias)[token].item()
    text = [words[number] for number in ids]
    parts = [
        Contribution(with_gaps(text, at), tuple(t - 1 for t in at if t), "network", value)
        for at, value in ngrams
    ]
    return logits[token].item(), constant, parts
