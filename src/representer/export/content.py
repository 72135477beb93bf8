"""All that a run predicts with, as plain values and arrays for programs without this library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from representer.data.text.words import GRAPHEME_JOINER, WORDS, long_run
from representer.errors import KindError
from representer.estimators import LanguageModel, SignalClassifier
from representer.estimators.calibration import UNCALIBRATED
from representer.estimators.explanation import KERNEL, NETWORK
from representer.estimators.graph import GraphEnsembleEstimator
from representer.estimators.kernel_halves import KernelFeatures, KernelHalves
from representer.estimators.label_sets import LabelSets
from representer.estimators.linear_models import CentroidCoefficients
from representer.estimators.molecule import MoleculeNetwork
from representer.estimators.sequence import SequenceHalves
from representer.estimators.series import SeriesHalves
from representer.estimators.targets import Numbers, columns_of
from representer.estimators.text import TextNetwork
from representer.kernels import StringKernel
from representer.kernels.alphabets import ALPHABETS, codes_of
from representer.kernels.composition import Cosine, Power, Product, Scaled, Sum, to_plain
from representer.kernels.convolution_kernel import ConvolutionKernel
from representer.kernels.cross_spectral_kernel import CrossSpectralKernel
from representer.kernels.kmer_kernel import KmerKernel
from representer.kernels.subtree_kernel import SubtreeKernel
from representer.kernels.text_kernel import NgramKernel, TextKernel
from representer.models.kernel_model import KernelModel

Arrays = dict[str, NDArray[Any]]

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


class Content(NamedTuple):
    """The parts of a run that predict, for a program without this library."""

    task: str  # the name of the program
    values: dict[str, Any]  # what preprocessing.json says
    arrays: Arrays  # the tables of the kernel machines
    left_out: tuple[str, ...]  # the parts that the program lacks


def content_of(estimator: Any, *, is_page: bool = False) -> Content:
    """Return all that an estimator predicts with, but for the network in ONNX.

    A page lacks kernel machines whose classes have no coefficients of their own.
    """
    if isinstance(estimator, LanguageModel):
        return _language(estimator)
    matching = [task for owner, task in _TASKS.items() if isinstance(estimator, owner)]
    if not matching:
        expected = "one of texts, signals, series, sequences, language, graphs or molecules"
        raise KindError("the run", f"a {type(estimator).__name__}", expected)
    task, describe = matching[0]
    expression = estimator.expression() if isinstance(estimator, KernelHalves) else None
    network = estimator.network_
    is_needed = network is None or isinstance(network, KernelModel)
    if expression is not None and is_needed and not is_plain_string(expression):
        expected = "one of StringKernel of vectors, its sums, products, powers and cosine()"
        raise KindError("kernel", repr(expression), expected, hint="Programs compute no other.")
    kernels, arrays, missing, answer = [], Arrays(), list[str](), estimator.answer
    joint = estimator.targets_
    if any(target.pool.kernel and not _is_computed(target.machine, is_page) for target in joint):
        if network is None:
            kernel = next(target.machine.kernel for target in joint if target.pool.kernel)
            hint = "`representer serve` predicts with it."
            raise KindError("the kernel", repr(kernel), "one that programs compute", hint=hint)
        share = estimator.parts_[KERNEL].share
        missing.append(f"the kernel machine (its share of the predictions is {share:.0%})")
        joint, answer = tuple(target.part(NETWORK) for target in joint), NETWORK
    targets = []
    for k, (target, column) in enumerate(zip(joint, columns_of(estimator.target_), strict=True)):
        machine = target.machine if target.pool.kernel else None
        described = _kernel(machine.kernel) if machine else None
        kernels.append(described and described[0])
        if machine and described:
            setup = described[1] | _coefficients(machine.coefficients)
            setup |= {"intercepts": machine.intercepts}
            setup |= {} if machine.precision is None else {"precision": machine.precision}
            arrays |= {f"{k}/{name}": array for name, array in setup.items()}
        left = next(iter(target.calibrations.values()), UNCALIBRATED)
        calibration = target.calibrations.get(answer, left)
        is_number = isinstance(column, Numbers)
        targets.append({
            "classes": None if is_number else column.names,
            "mean": column.means[0] if is_number else 0.0,
            "scale": column.scales[0] if is_number else 1.0,
            "thresholds": target.thresholds if isinstance(column, LabelSets) else None,
            "kernel": target.pool.kernel, "network": target.pool.network,
            "ceiling": machine.ceiling if machine else 0.0,
            "calibration": (calibration.scales[0], calibration.noises[0]),
        })  # fmt: skip
    fitted = None if missing else estimator.conformal_
    conformal = fitted and asdict(fitted)
    values = {"task": task, "targets": targets, "kernels": kernels, "conformal": conformal}
    setup, more = describe(estimator)
    return Content(task, values | setup, arrays | more, tuple(missing))


def _is_computed(machine: Any, is_page: bool) -> bool:
    """Return True for a machine that programs, or the page, compute."""
    is_dense = isinstance(machine.coefficients, np.ndarray)
    is_known = is_dense or (isinstance(machine.kernel, TextKernel) and not is_page)
    return is_known and _kernel(machine.kernel) is not None


def _coefficients(coefficients: Any) -> Arrays:
    """Return coefficients, or combinations of centroids and these feature by feature."""
    if not isinstance(coefficients, CentroidCoefficients):
        return {"coefficients": coefficients}
    rows = sparse.csr_array(coefficients.centroids.T)
    parts = {"data": rows.data, "indices": rows.indices, "ends": rows.indptr}
    named = {f"centroids.{name}": array for name, array in parts.items()}
    return {"combinations": coefficients.combinations} | named


def _kernel(kernel: Any) -> tuple[dict[str, Any], Arrays] | None:
    """Return plain values and arrays of a fitted kernel; None of one that programs lack."""
    if isinstance(kernel, TextKernel):
        if kernel.vectors_ is not None or kernel.table_ is not None:
            return None
        arrays = {f"weights{k}": view.weights_ for k, view in enumerate(kernel.views_)}
        ngrams = [ngrams_of(*view) for view in zip(kernel.views_, (" ", ""), strict=True)]
        return {"orders": [view.orders for view in kernel.views_], "ngrams": ngrams}, arrays
    if isinstance(kernel, KernelFeatures):
        is_known = "tokens" in kernel.fitted()[1] and is_plain_string(kernel.kernel)
        return ({}, kernel.fitted()[1]) if is_known else None
    tokens, arrays = kernel.fitted()
    if isinstance(kernel, SubtreeKernel):
        setup = {"depths": kernel.depths, "edges": kernel.edges, "joint": kernel.joint}
        setup |= {"overlap": kernel.overlap}
        return setup | {"colors": [*tokens.values()]}, arrays
    if isinstance(kernel, CrossSpectralKernel):
        return tokens | {"shrinkage": kernel.shrinkage}, arrays
    if isinstance(kernel, KmerKernel) and kernel.base == "one-hot":
        return tokens | {"pooling": kernel.pooling, "position": kernel.position}, arrays
    return (tokens, arrays) if isinstance(kernel, ConvolutionKernel) else None


def is_plain_string(kernel: Any) -> bool:
    """Return True if programs compute a kernel: string kernels of vectors, and sums of these."""
    if isinstance(kernel, StringKernel):
        usual = kernel.combine == "multiply", kernel.base == "linear"
        return all(usual) and isinstance(kernel.normalized, bool) and not kernel.binary
    if isinstance(kernel, Sum | Product):
        return is_plain_string(kernel.k1) and is_plain_string(kernel.k2)
    return isinstance(kernel, Scaled | Power | Cosine) and is_plain_string(kernel.kernel)


Described = tuple[dict[str, Any], Arrays]


def _text(estimator: Any) -> Described:
    inputs = estimator.inputs_
    return word_rules(inputs.tokenizer) | {
        "vocabulary": inputs.vocabulary.words, "max_length": inputs.max_length,
    }, {}  # fmt: skip


def _signal(estimator: Any) -> Described:
    inputs: Any = estimator.inputs_
    scaling = inputs.standardization
    return {
        "standardize": scaling.kind, "mean": scaling.mean, "deviation": scaling.deviation,
        "channels": inputs.names or inputs.num_channels,
        "sampling_rate": estimator.sampling_rate_, "recenter": bool(estimator.recenter),
    }, {}  # fmt: skip


def _sequence(estimator: Any) -> Described:
    inputs, network, arrays = estimator.inputs_, estimator.network_, Arrays()
    values = {"alphabet": inputs.alphabet, "width": inputs.width, "codes": {}}
    values |= {"expression": to_plain(estimator.expression())}
    if inputs.name in ALPHABETS:
        codes = codes_of(inputs.name)
        values["codes"] = {c: some for char, some in codes.items() for c in (char, char.lower())}
    if inputs.alphabet and (inputs.name, inputs.base) != ("any", "one-hot"):
        values["vectors"] = inputs.letters.vectors(inputs.base)[: len(inputs.alphabet)].tolist()
    if network is not None:
        weight, bias = network.coefficients()
        references = torch.stack([x.detach() for x in network.network.reference_objects()])
        layers = {"references": references, "weight": weight, "bias": bias}
        arrays = {f"network/{name}": array.numpy() for name, array in layers.items()}
    return values, arrays


_TASKS: dict[type[Any], tuple[str, Callable[[Any], Described]]] = {
    TextNetwork: ("text", _text),
    SignalClassifier: ("signal", _signal),
    SeriesHalves: ("series", lambda own: (asdict(own.inputs_), {})),
    SequenceHalves: ("sequence", _sequence),
    MoleculeNetwork: ("molecule", lambda own: ({"atom_features": own.inputs_.features}, {})),
    GraphEnsembleEstimator: ("graph", lambda own: (own.inputs_.to_dict(), {})),
}


def _language(estimator: LanguageModel) -> Content:
    inputs, pool, machine = estimator.inputs_, estimator.pool_, estimator.machine_
    kernel, arrays = {"weight": pool.kernel if machine else 0.0}, Arrays()
    if machine and pool.kernel:
        tables = machine.kernel.tables_
        kernel |= {"orders": len(tables), "order": machine.kernel.order}
        kernel |= {"decay": machine.recent.decay, "cache": machine.cache}
        arrays = {f"{name}.{n}": array for n, table in enumerate(tables, 1)
                  for name, array in table._asdict().items()}  # fmt: skip
    values = {"vocabulary": inputs.vocabulary.words, "level": inputs.level}
    return Content("language", values | {"network": pool.network, "kernel": kernel}, arrays, ())


def ngrams_of(kernel: NgramKernel, blank: str) -> list[str]:
    """Return the n-grams of a fitted kernel in the order of its features, tokens joined."""
    tokens, base, ngrams = np.array(kernel.tokens_, dtype=object), len(kernel.tokens_) + 1, []
    for order, codes in zip(kernel.orders, kernel.codes_, strict=True):
        digits = [codes // base ** (order - 1 - k) % base for k in range(order)]
        ngrams += [blank.join(words) for words in zip(*(tokens[d] for d in digits), strict=True)]
    return ngrams
