"""A prediction of a text classifier as an exact sum over the n-grams of the text."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from representer.explain import MemoryLedger, stack_readout
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine
from representer.tasks.text.text_explain import evidence_of, layers_of
from representer.tasks.text.text_marks import printable
from representer.tasks.text.text_run import TrainedText


@dataclass(frozen=True)
class Contributions:
    """The score of a document, and the contributions that sum to it.

    Attributes:
        label: The predicted class.
        probability: Of the predicted class.
        ngrams: Each n-gram with its contribution, in the order of the text.
        constant: Contribution of the biases.
        score: Logit of the predicted class minus the mean of all logits, from a forward pass of
            the network in float64.
    """

    label: str
    probability: float
    ngrams: list[tuple[str, float]]
    constant: float
    score: float

    @property
    def total(self) -> float:
        """The sum of all contributions."""
        return sum(value for _, value in self.ngrams) + self.constant


def contributions(trained: TrainedText, words: Sequence[str]) -> Contributions:
    """Return the prediction for a document as a sum over its n-grams.

    The contributions are exact, given the values of the gates and of the divisors of layer norms.
    For one layer and one direction of a recurrent kernel machine, they are those of the windows of
    its filters; for any other network, those of the single words.

    Args:
        trained: The classifier.
        words: Words of the document, at least one.

    Raises:
        KindError: If the output of the cell is not a sum over the words.
    """
    layers = layers_of(trained)
    ids = torch.tensor(trained.vocabulary.encode(words))
    model = copy.deepcopy(trained.model).double()
    with torch.no_grad():
        evidence = evidence_of(trained, ids)
        x = trained.model.embedding(ids)
        logits = model(ids[None], torch.tensor([len(ids)]))[0]
    readout = stack_readout(layers, x, evidence.weights)
    values, length, dilation = readout.steps().sum(1), 1, 1
    layer, ledger = layers[0], readout.readouts[0]
    is_flat = len(layers) == layer.num_layers == layer.num_directions == 1
    if is_flat and isinstance(layer, RecurrentKernelMachine) and isinstance(ledger, MemoryLedger):
        values, dilation = ledger.by_ngram.sum(1), layer.dilation
        length = layer.filters()["candidate"].shape[-1]
    reach = (length - 1) * dilation
    texts = [
        " ".join(words[s] for s in range(t - reach, t + 1, dilation) if s >= 0)
        for t in range(len(words))
    ]
    return Contributions(
        label=trained.classes.decode(evidence.label),
        probability=evidence.probability,
        ngrams=list(zip(texts, values.tolist(), strict=True)),
        constant=evidence.constant + readout.constant,
        score=(logits[evidence.label] - logits.mean()).item(),
    )


def as_table(result: Contributions, top: int) -> str:
    """Return the contributions as lines, the largest in size first, with their sum.

    Args:
        result: The contributions.
        top: Number of n-grams to list; the others are summed up in one line.
    """
    ordered = sorted(result.ngrams, key=lambda ngram: -abs(ngram[1]))
    rows = [(printable(text), value) for text, value in ordered[:top]]
    if others := ordered[top:]:
        rows.append((f"{len(others)} other n-grams", sum(value for _, value in others)))
    rows += [("biases", result.constant), ("sum", result.total)]
    rows.append((f'score of the network for "{printable(result.label)}"', result.score))
    width = max(len(text) for text, _ in rows)
    return "\n".join(f"  {text:<{width}}  {value:+10.6f}" for text, value in rows)
