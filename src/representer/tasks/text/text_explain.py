"""What a trained text classifier took an answer from: ``explain``.

The classifier is y = W_2 relu(W_1 h + b_1) + b_2 of the mean h of the cell's outputs. With the
relus that are on held, a logit is a weighted sum of these outputs, which ``representer.explain``
takes apart. What is explained is the logit of the predicted class above the mean of all of them:
adding a number to all logits changes no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.data.text import assemble, read_grid, tokenize
from representer.errors import KindError
from representer.explain import memory_ledger, reference_card, string_readout
from representer.nn import StringKernelRNN
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine
from representer.tasks.report import write_report
from representer.tasks.report.page import EXPLAINED
from representer.tasks.storage import atomic
from representer.tasks.text.text_config import ReadOptions
from representer.tasks.text.text_run import TrainedText, load_run
from representer.tasks.training.progress import say

UNITS, NEAR = 5, 3  # units that are named, and words near each of their slots


class Evidence(NamedTuple):
    """The answer of a classifier, and its logit as a weighted sum of the cell's outputs.

    Attributes:
        label: The predicted class.
        probability: Of it.
        weights: What the output of every step counts ``(T, H)``.
        constant: What comes from the biases.
    """

    label: int
    probability: float
    weights: Tensor
    constant: float


def explain(
    run: str | Path, data: str | Path, options: ReadOptions, *, limit: int, top: int
) -> list[dict[str, Any]]:
    """Explain what a trained classifier answers on the first rows of a table.

    Writes explanations.json into the run folder, and its report again, which shows them.

    Args:
        run: The run folder.
        data: The table.
        options: How to read it; the columns are those of the training data where not named.
        limit: How many documents to explain.
        top: How many n-grams, or steps, to name for each.

    Returns:
        One entry a document, as in explanations.json.

    Raises:
        DataError: If the table cannot be used.
        KindError: If the cell's answers are no sums over the words, with the reason.
    """
    trained = load_run(run)
    _refuse_other_cells(trained)
    reading = asdict(replace(options, text=options.text or trained.reading.text, label=None))
    text = reading.pop("text")
    reading.pop("label")
    table = assemble(
        read_grid(data, text.split(","), **reading), str(data), text, None, require_label=False
    )
    entries = []
    for line, document in zip(table.lines, table.texts, strict=True):
        if len(entries) == limit:
            break
        words = tokenize(document, trained.tokenizer)[: trained.max_length]  # type: ignore[arg-type]
        if words:
            entries.append({"line": line, **explain_words(trained, words, top)})
        else:
            say(f"{table.source}: line {line} has no words")
    folder = Path(run)
    atomic.write_json(folder / EXPLAINED, entries)
    if (folder / "metrics.json").is_file():
        say(f"report: {write_report(folder)}")
    return entries


def explain_words(trained: TrainedText, words: Sequence[str], top: int) -> dict[str, Any]:
    """Explain the answer on one document.

    Args:
        trained: The classifier.
        words: Of the document, at least one.
        top: How many n-grams, or steps, to name.

    Raises:
        KindError: If the answer is no sum over the words, with the reason.
    """
    ids = torch.tensor(trained.vocabulary.encode(words))
    with torch.no_grad():
        x = trained.model.embedding(ids)
        evidence = _evidence(trained, ids)
    cell = trained.model.cell
    if isinstance(cell, StringKernelRNN):
        found = _explain_ngrams(trained, cell, words, x, evidence, top)
    else:
        assert isinstance(cell, RecurrentKernelMachine)
        found = _explain_steps(cell, words, x, evidence, top)
    largest = max(map(abs, found["shares"])) or 1.0
    return {
        "prediction": trained.classes.decode(evidence.label),
        "probability": evidence.probability,
        "evidence": sum(found["shares"]) + found["constant"],
        "words": list(words),
        "strengths": [share / largest for share in found["shares"]],
        **found,
    }


def _explain_ngrams(
    trained: TrainedText,
    cell: StringKernelRNN,
    words: Sequence[str],
    x: Tensor,
    evidence: Evidence,
    top: int,
) -> dict[str, Any]:
    readout = string_readout(cell, x, evidence.weights)
    steps = readout.steps()
    every = [
        (share, unit) for unit in range(cell.hidden_size) for share in readout.ngrams(unit, top)
    ]
    best = sorted(every, key=lambda entry: -abs(entry[0].contribution))[:top]
    effects = steps.sum(0)
    strongest = effects.topk(min(UNITS, cell.hidden_size)).indices.tolist()
    marks = len(trained.vocabulary.MARKS)  # no words, and so nothing to be near to
    known = trained.vocabulary.words[marks:]
    vectors = trained.model.embedding.weight.detach()[marks:]
    cards = {
        unit: reference_card(cell, unit, known, vectors, k=NEAR, data=[x])
        for unit in {unit for _, unit in best} | set(strongest)
    }
    matched = {t for share, _ in best for t in share.positions}
    return {
        "shares": steps.sum(1).tolist(),
        "constant": evidence.constant,
        "marked": [t in matched for t in range(len(words))],
        "ngrams": [
            {
                "positions": list(share.positions),
                "text": with_gaps(words, share.positions),
                "share": share.contribution,
                "unit": unit,
            }
            for share, unit in best
        ],
        "units": {
            str(unit): {
                "text": " · ".join("/".join(near.word for near in slot) for slot in card.slots),
                "half_life": card.half_life if card.half_life != float("inf") else None,
            }
            for unit, card in cards.items()
        },
        "strongest": [{"unit": unit, "effect": effects[unit].item()} for unit in strongest],
        "steps": [],
    }


def _explain_steps(
    cell: RecurrentKernelMachine,
    words: Sequence[str],
    x: Tensor,
    evidence: Evidence,
    top: int,
) -> dict[str, Any]:
    ledger = memory_ledger(cell, x, evidence.weights)
    rows = ledger.rows(top)
    matched = {row.step for row in rows}
    return {
        "shares": ledger.contribution.sum(1).tolist(),
        "constant": evidence.constant + ledger.constant,
        "marked": [t in matched for t in range(len(words))],
        "ngrams": [],
        "units": {},
        "strongest": [],
        "steps": [{**row._asdict(), "word": words[row.step]} for row in rows],
    }


def with_gaps(words: Sequence[str], positions: Sequence[int]) -> str:
    """Return the words of an n-gram, with dots where it skips some."""
    text = words[positions[0]]
    for before, t in pairwise(positions):
        text += f"{' ' if t == before + 1 else ' … '}{words[t]}"
    return text


def _evidence(trained: TrainedText, ids: Tensor) -> Evidence:
    """Return the answer on one document, and what each output counts in its logit."""
    model = trained.model
    mean = model.encode(ids[None], torch.tensor([len(ids)]))[0].double()
    first, second = (
        layer for layer in model.head if isinstance(layer, torch.nn.Linear)
    )  # the rest is dropout and relu
    w1, b1 = first.weight.double(), first.bias.double()
    w2, b2 = second.weight.double(), second.bias.double()
    on = (w1 @ mean + b1 > 0).double()
    rows, constants = (w2 * on) @ w1, (w2 * on) @ b1 + b2
    chances = (rows @ mean + constants).softmax(0)
    label = int(chances.argmax())
    divisor = model.config.max_length or len(ids)
    weights = (rows[label] - rows.mean(0)) / divisor
    constant = constants[label] - constants.mean()
    return Evidence(label, chances[label].item(), weights.expand(len(ids), -1), constant.item())


def _refuse_other_cells(trained: TrainedText) -> None:
    if not isinstance(trained.model.cell, StringKernelRNN | RecurrentKernelMachine):
        raise KindError(
            "the cell of the run",
            trained.model.config.cell,
            "string-kernel, or one of the recurrent kernel machines",
            hint="Nothing is known of what its output is made of.",
        )
