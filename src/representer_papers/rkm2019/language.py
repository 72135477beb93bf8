"""L19 Table 3: language models of four cells, Penn Treebank and WikiText-2."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from representer.options.language import PRESETS
from representer.tasks.recipe import Recipe, Reported, Request
from representer_papers.shared import language
from representer_papers.shared.language import Variant

SOURCE = "L19 Table 3"

# By cell: the paper's name and its test perplexities on the two texts.
_PRINTED: dict[str, tuple[str, float, float]] = {
    "lstm": ("LSTM", 58.9, 65.68),
    "rkm-lstm": ("RKM-LSTM", 58.2, 65.22),
    "rkm-cifg": ("RKM-CIFG", 59.5, 66.03),
    "linear-kernel-gated": ("Linear Kernel w/ o_t", 69.7, 80.21),
}
# The same for the validation perplexities.
_VALIDATION = {
    "lstm": (61.2, 68.74),
    "rkm-lstm": (60.3, 67.85),
    "rkm-cifg": (61.9, 69.12),
    "linear-kernel-gated": (72.3, 84.23),
}
# Defaults of the official code for each text, from the commands on its page.
_OPTIONS: dict[str, dict[str, Any]] = {
    "ptb": PRESETS["awd"],
    "wikitext-2": PRESETS["awd"]
    | {"input_dropout": 0.65, "layer_dropout": 0.2, "batch_size": 80, "epochs": 750},
}
# Best first, on both texts.
_ORDER = ("rkm-lstm", "lstm", "rkm-cifg", "linear-kernel-gated")
# The memory of the RKM-LSTM is unbounded: at full size it may diverge in the first steps without
# layer norm (`rkm-divergence`), which the paper names for documents alone. What the LSTM adds to
# its memory is bounded, and the RKM-CIFG's is a mean; they are trained as in the official code.
_NORMALIZED = ("rkm-lstm",)
# Adam, since the SGD schedule is made for hundreds of epochs.
_SMALL = {
    "hidden_size": 200,
    "embedding_size": 100,
    "layer_norm": True,
    "optimizer": "adam",
    "lr": 3e-3,
}
_ABOUT = (
    "",
    "Test perplexity per token at the best validation perplexity, before fine-tuning; ends of",
    "lines are predicted, too. The model is AWD-LSTM with its own settings for each text and one",
    "of four cells instead of its LSTM; the RKM-LSTM has layer norm on the cell, without which it",
    "may diverge in the first steps ([rkm-divergence](rkm-divergence.md)). A budget below 1 runs",
    "that fraction of the epochs; weights are averaged only if validation gets worse within them.",
    "The cells have one bias per gate, and RKM cells none on the candidate; with two on every",
    "gate, as in torch.nn.LSTM, the Penn Treebank models have 24,221,600 (LSTM, RKM-LSTM without",
    "its norm), 19,168,700 and 14,115,800 parameters. Small models have 200 units, 100 in the",
    "embedding and the last layer, layer norm on the cell, and Adam at 0.003 instead of SGD at 30.",
)


def _variants(options: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Return the rows of the table, four cells in two sizes, with the settings of a text."""
    full_size = [
        Variant(
            cell,
            f"{title}, layer norm" if cell in _NORMALIZED else title,
            {**options, "cell": cell, "layer_norm": cell in _NORMALIZED},
            {"ptb": ptb, "wikitext-2": wikitext},
        )
        for cell, (title, ptb, wikitext) in _PRINTED.items()
    ]
    small = [
        Variant(f"{cell}-small", f"{title}, small", {**options, "cell": cell, **_SMALL})
        for cell, (title, _, _) in _PRINTED.items()
    ]
    return (*full_size, *small)


VARIANTS = {name: _variants(options) for name, options in _OPTIONS.items()}
REPORTED = {
    (variant.name, name): Reported(value, "test perplexity", SOURCE)
    for variant in VARIANTS["ptb"]
    for name, value in variant.paper.items()
} | {
    (cell, f"{name}, validation"): Reported(value, "validation perplexity", SOURCE)
    for cell, values in _VALIDATION.items()
    for name, value in zip(VARIANTS, values, strict=True)
}


def reproduce_rkm_language(request: Request) -> Path:
    """Run the missing models and write the table: by default, four cells at the paper's size.

    Select smaller models with ``--cells lstm-small`` and so on.
    """
    page = "L19 Table 3: language models, perplexity", _ABOUT
    orders = (_ORDER, tuple(f"{name}-small" for name in _ORDER))
    return language.reproduce_texts(request, LANGUAGE.name, page, VARIANTS, _PRINTED, orders)


LANGUAGE = Recipe(
    name="rkm-language",
    title="Language models: AWD-LSTM with four cells, Penn Treebank and WikiText-2",
    source=SOURCE,
    reproduce=reproduce_rkm_language,
    cells=tuple(variant.name for variant in VARIANTS["ptb"]),
    datasets=tuple(VARIANTS),
    differences={"paper": ("layer norm in the RKM-LSTM, which diverges without it",)},
    reported=REPORTED,
)
