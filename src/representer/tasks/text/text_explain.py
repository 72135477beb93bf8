"""``explain`` for text classifiers: exact contributions of the words to a prediction.

See ``representer.estimators.text_explanation`` for the score that they sum to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from representer.data.tables import read_grid
from representer.data.text import assemble
from representer.estimators.text_explanation import evidence_of, layers_of
from representer.explain import StackReadout, reference_card, stack_readout
from representer.nn import StringKernelRNN
from representer.printable import say
from representer.report import write_report
from representer.report.page import EXPLAINED
from representer.storage import atomic
from representer.storage.run_files import require_finite
from representer.tasks.text.text_config import ReadOptions
from representer.tasks.text.text_run import TrainedText, load_run
from representer.tasks.text.text_use import like_training

UNITS, NEAR = 5, 3  # units to list, and nearest words of each of their slots


def explain(
    run: str | Path, data: str | Path, options: ReadOptions, *, limit: int, top: int
) -> list[dict[str, Any]]:
    """Explain the predictions of a trained classifier for the first rows of a table.

    Writes explanations.json into the run folder and updates its report.

    Args:
        run: The run folder.
        data: The table.
        options: How to read it; columns that are not named are those of the training data.
        limit: Number of documents.
        top: Number of n-grams, or steps, to list for each.

    Returns:
        One entry per document, as in explanations.json.

    Raises:
        DataError: If the table cannot be used.
        KindError: If the output of the cell is not a sum over the words, with the reason.
    """
    trained = load_run(run)
    layers_of(trained.model)  # raise before anything is read
    reading = asdict(like_training(trained, options))
    text = reading.pop("text")
    reading.pop("label")
    table = assemble(
        read_grid(data, text.split(","), **reading), str(data), text, None, require_label=False
    )
    entries = []
    for line, document in zip(table.lines, table.texts, strict=True):
        if len(entries) == limit:
            break
        words = trained.words(document)
        if words:
            entry = explain_words(trained, words, top)
            require_finite(run, [entry["probability"], entry["evidence"], *entry["contributions"]])
            entries.append({"line": line, **entry})
        else:
            say(f"{table.source}: line {line} has no words")
    folder = Path(run)
    atomic.write_json(folder / EXPLAINED, entries)
    if all((folder / name).is_file() for name in ("metrics.json", "details.json")):
        say(f"report: {write_report(folder)}")
    return entries


def explain_words(trained: TrainedText, words: Sequence[str], top: int) -> dict[str, Any]:
    """Explain the prediction for one document.

    Args:
        trained: The classifier.
        words: Words of the document, at least one.
        top: Number of n-grams, or steps, to list.

    Raises:
        KindError: If the output of the cell is not a sum over the words, with the reason.
    """
    ids = torch.tensor(trained.vocabulary.encode(words))
    with torch.no_grad():
        x = trained.model.embedding(ids)
        evidence = evidence_of(trained.model, ids)
    layers = layers_of(trained.model)
    readout = stack_readout(layers, x, evidence.weights)
    by_unit = readout.steps()
    of_cell = _ngrams if isinstance(layers[0], StringKernelRNN) else _steps
    result = {
        "contributions": by_unit.sum(1).tolist(),
        "constant": evidence.constant + readout.constant,
        "layers": sum(layer.num_layers for layer in layers),
        **of_cell(trained, readout, words, x, top),
    }
    largest = max(map(abs, result["contributions"])) or 1.0
    return {
        "prediction": trained.classes.decode(evidence.label),
        "probability": evidence.probability,
        "evidence": sum(result["contributions"]) + result["constant"],
        "words": list(words),
        "strengths": [value / largest for value in result["contributions"]],
        **result,
    }


def _ngrams(
    trained: TrainedText, readout: StackReadout, words: Sequence[str], x: Tensor, top: int
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
            str(unit): _card(trained, readout, unit, x)
            for unit in {unit for _, unit in best} | set(strongest)
        },
        "strongest": [{"unit": unit, "effect": effects[unit].item()} for unit in strongest],
        "steps": [],
    }


def _card(trained: TrainedText, readout: StackReadout, unit: int, x: Tensor) -> dict[str, Any]:
    """Return the reference of a unit of the first layer as words, in reading order."""
    marks = len(trained.vocabulary.MARKS)  # marks are not words
    known = trained.vocabulary.words[marks:]
    vectors = trained.model.embedding.weight.detach()[marks:]
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
    trained: TrainedText, readout: StackReadout, words: Sequence[str], x: Tensor, top: int
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
