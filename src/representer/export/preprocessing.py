"""Preprocessing and postprocessing of an exported network, as plain values and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.text.tokenize import GRAPHEME_JOINER, WORDS, long_run
from representer.errors import KindError
from representer.estimators import LanguageModel, SignalClassifier
from representer.estimators.base import Estimator
from representer.estimators.explanation import KERNEL, NETWORK
from representer.estimators.graph import GraphEnsembleEstimator
from representer.estimators.molecule import MoleculeNetwork
from representer.estimators.targets import Numbers
from representer.estimators.text import TextNetwork
from representer.kernels.ngram_kernel import NgramKernel

Arrays = dict[str, NDArray[np.float32]]

_LEAM = (  # see `tokenize`; the last rule makes 0 of what Python reads as a number
    (r"[^A-Za-z0-9(),.!?]", " "),
    (r"e\.g\.,|a\.k\.a\.|i\.e\.,|i\.e\.", " "),
    ("br", ""),
    (r"([,!()?.])", r" \1 "),
    (r"(?i)(?<!\S)(?:\d+(?:e\d+)?|nan|inf(?:inity)?)(?!\S)", "0"),
)


def word_rules(scheme: str) -> dict[str, Any]:
    """Return how a text is split into words, as regular expressions of Python.

    Rules of replacement come first, then Unicode's composed form, then lower case, and the words
    are what the pattern finds.
    """
    if scheme == "words":
        joined = long_run().pattern, rf"\g<0>{GRAPHEME_JOINER}"
        replace, pattern = (("\u2019", "'"), joined), f"(?x){WORDS.pattern}"
        return {"replace": replace, "pattern": pattern, "is_composed": True, "is_lower": True}
    replace = _LEAM if scheme == "leam" else ()
    is_lower = scheme == "leam"
    return {"replace": replace, "pattern": r"\S+", "is_composed": False, "is_lower": is_lower}


def preprocessing(estimator: Estimator) -> tuple[str, dict[str, Any], Arrays]:
    """Return the task of an estimator, what preprocessing.json says, and the kernel's arrays.

    Raises:
        KindError: It cannot be exported; the message says what can.
    """
    if estimator.network_ is None:
        hint = "Train with --answer network or both."
        raise KindError("the run", "one without a network", "one with a network", hint=hint)
    if isinstance(estimator, TextNetwork):
        values, arrays = _text(estimator)
        return "text", values | _target(estimator), arrays
    if isinstance(estimator, SignalClassifier):
        own = estimator.part(NETWORK)
        return "signal", _signal(own) | _target(own), {}
    if isinstance(estimator, LanguageModel):
        inputs = estimator.inputs_
        return "language", {"vocabulary": inputs.vocabulary.words, "level": inputs.level}, {}
    if isinstance(estimator, GraphEnsembleEstimator):
        own = estimator.part(NETWORK)
        values = {"network": own.pool_.network} | _target(own)
        if isinstance(estimator, MoleculeNetwork):
            return "molecule", {"atom_features": estimator.inputs_.features} | values, {}
        return "graph", own.inputs_.to_dict() | values, {}
    expected = "one of texts, signals, language, graphs or molecules"
    raise KindError("the run", f"a {type(estimator).__name__}", expected)


def left_out(estimator: Estimator) -> str:
    """Return what of a run's predictions is not in its export, the kernel machine first, or ""."""
    missing, parts = [], estimator.parts_
    share = parts[KERNEL].share if KERNEL in parts else 0.0
    if share and not isinstance(estimator, TextNetwork):
        missing.append(f"the kernel machine (its share of the predictions is {share:.0%})")
    if isinstance(estimator, MoleculeNetwork):
        missing.append("the features of atoms and bonds, which data.molecules computes with RDKit")
    return " and ".join(missing)


def _target(estimator: Any) -> dict[str, Any]:
    if len(estimator.targets_) > 1:
        count = f"one with {len(estimator.targets_)} targets"
        raise KindError("the run", count, "one with a single target")
    target = estimator.target_
    if isinstance(target, Numbers):
        return {"classes": None, "mean": target.means[0], "scale": target.scales[0]}
    return {"classes": target.names}


def _text(estimator: TextNetwork) -> tuple[dict[str, Any], Arrays]:
    inputs, pool, machine = estimator.inputs_, estimator.pool_, estimator.machine_
    values: dict[str, Any] = word_rules(inputs.tokenizer) | {
        "vocabulary": inputs.vocabulary.words, "max_length": inputs.max_length,
        "network": pool.network, "kernel": pool.kernel if machine else 0.0,
    }  # fmt: skip
    if not values["kernel"]:
        return values, {}
    views = machine.kernel.views_
    ends = np.cumsum([len(view.weights_) for view in views])[:-1]
    parts = np.split(machine.coefficients.T, ends)
    arrays = {"intercepts": machine.intercepts.astype(np.float32)}
    for k, (view, own) in enumerate(zip(views, parts, strict=True)):
        arrays |= {f"weights{k}": view.weights_.astype(np.float32)}
        arrays |= {f"coefficients{k}": own.astype(np.float32)}
    ngrams = [ngrams_of(view, blank) for view, blank in zip(views, (" ", ""), strict=True)]
    return values | {"orders": [view.orders for view in views], "ngrams": ngrams}, arrays


def ngrams_of(kernel: NgramKernel, blank: str) -> list[str]:
    """Return the n-grams of a fitted kernel in the order of its features, tokens joined."""
    tokens, base, found = np.array(kernel.tokens_, dtype=object), len(kernel.tokens_) + 1, []
    for order, codes in zip(kernel.orders, kernel.codes_, strict=True):
        digits = [codes // base ** (order - 1 - k) % base for k in range(order)]
        found += [blank.join(own) for own in zip(*(tokens[d] for d in digits), strict=True)]
    return found


def _signal(estimator: SignalClassifier) -> dict[str, Any]:
    inputs: Any = estimator.inputs_
    scaling = inputs.standardization
    return {
        "standardize": scaling.kind, "mean": scaling.mean, "deviation": scaling.deviation,
        "channels": inputs.names or inputs.num_channels,
        "sampling_rate": estimator.sampling_rate_, "network": estimator.pool_.network,
    }  # fmt: skip
