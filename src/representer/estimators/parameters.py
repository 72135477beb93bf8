"""Parameters of the estimators: each declared once, with its default and its help.

An estimator inherits its constructor from these dataclasses, and the command line offers the same
fields as options. Free of torch and numpy, since the command line reads its options here.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

from representer.checks import (
    LIMITS,
    is_integer,
    is_number,
    parse_number,
    require,
    require_choices,
    require_fractions,
    require_integers,
    require_numbers,
)
from representer.errors import ArgumentError, MissingExtraError
from representer.machine import EXPECTED, is_device_name

AUTO = "auto"
MONITORS = (AUTO, "accuracy", "loss")
ANSWERS = ("both", "kernel", "network")
PRECISIONS = ("no", "bf16", "fp16")
TRACKERS = {"tensorboard": "tensorboard", "mlflow": "mlflow-skinny"}  # module and package
DECAYS = ("learned", "input", "state")


def option(default: Any, help_text: str, **metadata: Any) -> Any:
    """Return a field with its help; ``metavar`` and ``choices`` may be named too."""
    return field(default=default, metadata={"help": help_text, **metadata})


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingParameters:
    """Parameters that every estimator has; ``check`` is called by ``fit``."""

    _is_validation_required = True  # else valid_fraction may be 0
    save_every_epochs = 1  # more where writing files takes as long as an epoch
    epochs: int | None = option(None, "passes over the training data (default: by their number)")
    max_steps: int = option(0, "maximum number of steps; 0: no limit")
    evaluate_every: int = option(0, "validate every this many steps; 0: once per epoch")
    batch_size: int | None = option(None, "examples per step (default: by their number)")
    lr: float = option(1e-3, "learning rate of Adam")
    lr_decay: float = option(1.0, "factor of the learning rate after every epoch")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(0.0, "clip the norm of the gradient; 0: no clipping")
    clip_value: float = option(0.0, "clip the entries of the gradient; 0: no clipping")
    average_weights: bool = option(False, "keep the average of the weights of the last steps")
    patience: int | None = option(
        None, "stop after this many epochs without improvement; 0: never (default: by the data)"
    )
    valid_fraction: float | None = option(0.1, "fraction of the training data used for validation")
    monitor: str = option(
        AUTO,
        "validation metric that selects the best epoch (auto: accuracy from 1000 examples on)",
        choices=MONITORS,
    )
    time_limit: float | None = option(None, "seconds after which training ends", metavar="SECONDS")
    warm_start: str | None = option(
        None, "saved run whose weights and inputs training starts from", metavar="RUN"
    )
    random_state: Any = option(None, "random seed of split, weights, order and dropout")
    n_jobs: int | None = option(None, "CPU threads (default: torch's)")
    device: str = option(
        AUTO,
        "device to train on: cpu, cuda, cuda:1, mps; auto: CUDA if there is one",
        metavar="DEVICE",
    )
    mixed_precision: str = option(
        "no",
        "precision of products while training; recurrences stay in float32",
        choices=PRECISIONS,
    )
    cuda_graph: bool = option(False, "replay training steps from CUDA graphs, on one CUDA device")
    log_with: str | None = option(
        None, "log the metrics of the network with tensorboard or mlflow, too", metavar="NAME"
    )
    verbose: int = option(1, "0: silent; 1: progress")
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] | None = option(
        None, "functions of the metrics of each evaluation; training ends when one returns True"
    )

    def check(self) -> None:
        """Check every value.

        Raises:
            ArgumentError: A value is out of its range.
        """
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.type == "float" or (entry.type == "float | None" and value is not None):
                require(self, entry.name, is_number(value), "a number")
        require_integers(self, 1, "epochs", "batch_size", "n_jobs", is_none_allowed=True)
        require_integers(self, 0, "max_steps", "evaluate_every")
        is_flag = type(self.verbose).__name__ in ("bool", "bool_")  # of Python or NumPy
        require(self, "verbose", is_flag or is_integer(self.verbose, 0), "0 or more")
        require_integers(self, 0, "patience", is_none_allowed=True)
        most = LIMITS["threads"]
        if (self.n_jobs or 1) > most:
            raise ArgumentError("n_jobs", self.n_jobs, f"at most {most}")
        require_numbers(self, "weight_decay", "clip_norm", "clip_value")
        require(self, "lr", 0 < self.lr < math.inf, "a positive number")
        require(self, "lr_decay", 0 < self.lr_decay < math.inf, "a positive number")
        share = 0.1 if self.valid_fraction is None else self.valid_fraction
        is_fraction, expected = 0 < share < 1, "a number between 0 and 1"
        if not self._is_validation_required:
            is_fraction, expected = 0 <= share < 1, "a number in [0, 1)"
        require(self, "valid_fraction", is_fraction, expected)
        is_time = self.time_limit is None or 0 < self.time_limit < math.inf
        require(self, "time_limit", is_time, "a positive number of seconds, or None")
        require(self, "device", is_device_name(self.device), EXPECTED)
        require_choices(self, mixed_precision=PRECISIONS, monitor=MONITORS)
        is_tracker = self.log_with is None or self.log_with in TRACKERS
        require(self, "log_with", is_tracker, f"{' or '.join(TRACKERS)}, or None")
        if self.log_with and importlib.util.find_spec(self.log_with) is None:
            raise MissingExtraError("log_with", TRACKERS[self.log_with], "track")


@dataclass(kw_only=True, eq=False, repr=False)
class TargetParameters(TrainingParameters):
    """Parameters of estimators of objects and their targets."""

    conformal: float | None = option(
        None,
        "add sets of classes or intervals of numbers that contain the truth with this probability, "
        "such as 0.9",
        metavar="LEVEL",
    )
    conformal_by: str | None = option(
        None, "let them do so for each class, not in the mean over all", choices=("class",)
    )
    calibration: str = option("split", "set rows aside for this, or use each row once by folds")
    class_weight: str | dict[Any, float] | None = option(
        None, "weight classes in inverse proportion to their number of examples", metavar="balanced"
    )
    answer: str = option(
        "both", "predict with the exact kernel, the network, or both", choices=ANSWERS
    )

    def check(self) -> None:
        super().check()
        require_choices(self, answer=ANSWERS)
        is_level = self.conformal is None or 0 < self.conformal < 1
        require(self, "conformal", is_level, "a number between 0 and 1, or None")
        require_choices(self, calibration=("split", "cross"), conformal_by=(None, "class", "group"))
        weights = self.class_weight
        is_fine = weights in (None, "balanced")
        if isinstance(weights, dict):
            is_fine = all(is_number(w) and 0 <= w < math.inf for w in weights.values())
        expected = "'balanced', non-negative numbers by class, or None"
        require(self, "class_weight", is_fine, expected)


def in_common(parameters: Any, configuration: type[Any]) -> dict[str, Any]:
    """Return the values of the parameters that a configuration has under the same names."""
    names = [entry.name for entry in fields(configuration)]
    return {name: getattr(parameters, name) for name in names if hasattr(parameters, name)}


def require_decay(parameters: Any) -> None:
    """Require a decay of a string kernel: a number in [0, 1], or one of `DECAYS`."""
    expected = f"a number in [0, 1], {', '.join(DECAYS[:-1])} or {DECAYS[-1]}"
    is_fine = parameters.decay in DECAYS or _is_fraction(parameters.decay)
    require(parameters, "decay", is_fine, expected)


def _is_fraction(value: float | str) -> bool:
    number = parse_number(value) if isinstance(value, str) else value
    return isinstance(number, Real) and 0 <= number <= 1


# Parameters of `TextClassifier` and `TextRegressor`. Free of torch, see `parameters`.

TOKENIZERS = ("words", "blanks", "leam")
POOLINGS = ("mean", "attention", "padded_mean")
STARTS = ("unit", "paper")
PADDINGS = ("causal", "same")
COMBINATIONS, READOUTS = ("multiply", "add", "add_exact"), ("last", "sum")
NORMALIZATIONS: dict[str, Any] = {"no": False, "paper": True, "exact": "exact"}
TRAINING, RANDOM = VECTORS = ("training", "random")


@dataclass(kw_only=True, eq=False, repr=False)
class TextParameters(TargetParameters):
    """Parameters of the network for texts and of its inputs."""

    valid_fraction: float | None = option(
        None,
        "fraction of the training data used for validation (default: 0.1; of fewer than 1000 "
        "texts more, up to 0.3)",
        metavar="X",
    )
    cell: str = option("rkm-cifg", "recurrent cell; `representer cells` lists them")
    hidden_size: int = option(128, "units of the cell")
    filter_length: int = option(1, "filter length in words: n of the n-gram")
    filter_lengths: Sequence[int] = option(
        (),
        "several filter lengths in place of one, which share the units, such as 1,2,3",
        metavar="LIST",
    )
    filter_padding: str = option(
        "causal",
        "window of a filter: causal, which ends with the current word, or same, which is centered "
        "there, as in the code of L19, against its equations",
        choices=PADDINGS,
    )
    order: int = option(2, "length of the n-grams of a string kernel, which may have gaps")
    decay: float | str | None = option(
        None,
        "decay of a string kernel: a number in [0, 1], learned, input or state (default: state)",
        metavar="NAME",
    )
    combine: str = option(
        "multiply", "words of an n-gram of a string kernel: their products or their sum",
        choices=COMBINATIONS,
    )  # fmt: skip
    normalized: str = option(
        "no", "n-grams of a string kernel: summed, with a factor 1 - decay for each new one "
        "(paper), or their mean (exact)", choices=tuple(NORMALIZATIONS),
    )  # fmt: skip
    readout: str = option(
        "last", "output of a string kernel: n-grams of the full order, or the sum of all orders",
        choices=READOUTS,
    )  # fmt: skip
    dilation: int = option(1, "steps between the words of a filter")
    num_layers: int = option(1, "number of layers")
    bidirectional: bool = option(False, "add a reverse direction")
    layer_norm: bool | None = option(None, "normalize the memory cell (default: if it can be)")
    embedding_size: int = option(128, "size of the word embeddings, unless --vectors sets it")
    vectors: Any = option(
        TRAINING,
        "start of the word vectors: training (which words stand together in the training texts), "
        "random, or pretrained ones, which the kernel compares, too: a file (GloVe, word2vec or "
        "fastText text, or .npz), a model2vec folder, or an installed package with vectors",
        metavar="FILE",
    )
    features: Sequence[str] = option(
        (), "columns of numbers or categories next to the text, such as price,brand: one more "
        "kernel in the sum, with a contribution of each", metavar="COLUMNS",
    )  # fmt: skip
    freeze_embeddings: bool = option(False, "do not train the word vectors")
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    dropout: float = option(0.5, "dropout in the classifier")
    pooling: str = option(
        "attention",
        "mean over time: over the true length, with learned weights, or over the padded length",
        choices=POOLINGS,
    )
    multilabel: bool = option(
        False, "each text has any number of labels: y are lists of labels, or indicators (N, K)"
    )
    tokenizer: str = option("words", "tokenization scheme", choices=TOKENIZERS)
    min_count: int = option(2, "words rarer than this in the training data are unknown")
    max_length: int = option(400, "truncate texts after this many words")
    forget_bias: float = option(0.0, "initial bias of the forget gate")
    candidate_bias: bool = option(
        False, "add a bias to the candidate, as in the code of L19, against its equations"
    )
    learn_static_gates: bool = option(False, "train the constant gates of a linear kernel")
    initialization: str = option(
        "unit", "start of the cell: states of unit variance, or as in the paper", choices=STARTS
    )

    def check(self) -> None:
        super().check()
        are_names = all(type(name) is str and name for name in self.features)
        is_fine = are_names and not isinstance(self.features, str) and self.answer != "network"
        expected = "a list of names of columns, which the network does not read"
        require(self, "features", is_fine or self.features == (), expected)
        if self.multilabel and self.conformal is not None:
            raise ArgumentError("conformal", self.conformal, "None with multilabel=True")
        require_integers(
            self, 1, "hidden_size", "filter_length", "dilation", "order", "num_layers",
            "embedding_size", "min_count", "max_length",
        )  # fmt: skip
        require(self, "dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        are_lengths = all(type(n) is int and n >= 1 for n in self.filter_lengths)
        expected = "different positive integers, no more than units"
        is_fine = are_lengths and len(set(self.filter_lengths)) == len(self.filter_lengths)
        is_fine = is_fine and len(self.filter_lengths) <= self.hidden_size
        require(self, "filter_lengths", is_fine, expected)
        require_choices(self, pooling=POOLINGS, tokenizer=TOKENIZERS, initialization=STARTS)
        require_choices(self, filter_padding=PADDINGS)
        require_choices(
            self, combine=COMBINATIONS, normalized=tuple(NORMALIZATIONS), readout=READOUTS
        )
        if self.decay is not None:
            require_decay(self)


# Parameters of `SequenceClassifier` and `SequenceRegressor`. Free of torch, see `parameters`.

OF_LETTERS = {
    "alphabet": ("auto", "dna", "rna", "protein", "any"),
    "base": ("one-hot", "mismatch", "blosum62", "pam250"),
    "strands": ("auto", "one", "both"),
    "pooling": ("sum", "max"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceParameters(TargetParameters):
    """Parameters of the kernel of letters or tokens, and of the network of sequences."""

    valid_fraction: float | None = option(
        None, "fraction of the training data used for validation (default: 0.1; of few data more)"
    )
    answer: str = option(
        "kernel", "predict with the exact kernel, the network, or both", choices=ANSWERS
    )
    alphabet: str = option(
        "auto", "letters: nucleotides or amino acids in either case with their ambiguous codes, or "
        "any tokens (default: by the training sequences)", choices=OF_LETTERS["alphabet"],
    )  # fmt: skip
    orders: Sequence[int] = option(
        (), "letters of the k-mers of the kernel (default: 6 of nucleotides, "
        "1,2,3 of others)", metavar="LIST",
    )  # fmt: skip
    span: int = option(12, "places over which the letters of a k-mer may spread")
    num_patterns: int = option(12, "patterns of gaps of each order, drawn from all")
    base: str = option(
        "one-hot", "similarity of two letters: equal ones alone, or also others by a constant or "
        "the odds of substitutions of amino acids", choices=OF_LETTERS["base"],
    )  # fmt: skip
    strands: str = option(
        "auto", "strands of DNA and RNA whose k-mers count (default: by left-out errors)",
        choices=OF_LETTERS["strands"],
    )  # fmt: skip
    pooling: str = option(
        "sum", "count k-mers, or take the maximum over positions", choices=OF_LETTERS["pooling"]
    )
    position: float | None = option(
        None, "letters by which equal k-mers may be apart (default: any number)", metavar="X"
    )
    hidden_size: int = option(64, "references of the network")
    lr: float = option(1e-2, "learning rate of Adam")
    average_weights: bool = option(True, "keep the average of the weights of the last steps")

    def check(self) -> None:
        super().check()
        require_integers(self, 1, "hidden_size", "span", "num_patterns")
        are_orders = all(type(order) is int and order >= 1 for order in self.orders)
        require(self, "orders", are_orders, "positive integers")
        is_width = self.position is None or 0 < self.position < math.inf
        require(self, "position", is_width, "a positive number of letters, or None")
        require_choices(self, **OF_LETTERS)
        is_exclusive = self.base == "one-hot" or (self.pooling == "sum" and not self.position)
        require(self, "base", is_exclusive, "one-hot with pooling max or a position")


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceKernelParameters(SequenceParameters):
    """Parameters of `SequenceClassifier` and `SequenceRegressor`; only Python has the kernel."""

    answer: str = option("both", "as of the command line", choices=ANSWERS)
    kernel: Any = option(None, "kernel of sequences of vectors, in place of the default halves")


# Parameters of `SeriesClassifier` and `SeriesRegressor`. Free of torch, see `parameters`.

OF_SERIES = ("training", "series", "none")
OF_FILTERS = ("random", "kernel")


@dataclass(kw_only=True, eq=False, repr=False)
class SeriesParameters(TargetParameters):
    """Parameters of the kernel and of the network for series, and of their inputs."""

    valid_fraction: float | None = option(
        None, "fraction of the training data used for validation (default: 0.1; of few data more)"
    )
    answer: str = option(
        "kernel", "predict with the exact kernel, the network, or both", choices=ANSWERS
    )
    num_features: int = option(10_000, "features of the kernel")
    standardize: str = option(
        "training",
        "standardize each channel over the training data, over the series, or not at all",
        choices=OF_SERIES,
    )
    cell: str = option("gated-cnn", "cell of the network; `representer cells` lists them")
    filter_length: int = option(9, "filter length of the network in steps")
    dilation: int | None = option(
        None, "steps between two slots of such a filter (default: 1, or those of the kernel's)"
    )
    initial: str | None = option(
        None,
        "filters of the network before training: random, or those of the kernel with the largest "
        "share of its scores (default: kernel, if filters have 9 steps or more)",
        choices=OF_FILTERS,
    )
    hidden_size: int = option(64, "units of the cell")
    num_layers: int = option(2, "number of layers")
    dropout: float = option(0.1, "dropout before the last layer")
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    lr: float = option(5e-3, "learning rate of Adam")
    clip_norm: float = option(1.0, "clip the norm of the gradient; 0: no clipping")

    def check(self) -> None:
        super().check()
        require_integers(self, 1, "num_features", "filter_length", "hidden_size", "num_layers")
        require_integers(self, 1, "dilation", is_none_allowed=True)
        is_long = self.initial != "kernel" or self.filter_length >= 9
        require(self, "filter_length", is_long, "9 or more with initial='kernel'")
        require(self, "dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        require_choices(self, standardize=OF_SERIES, initial=(None, *OF_FILTERS))


# Parameters of the estimators of graphs and of molecules. Free of torch, see `parameters`.

NETWORKS = ("wl", "random-walk", "gine")
GRAPH_READOUTS = ("levels", "sum", "last")
INITIALS = ("authors", "fan-in")
GRAPH_DECAYS = ("learned", "gated", "state")
MAX_MEMBERS = 100


@dataclass(kw_only=True, eq=False, repr=False)
class GraphParameters(TargetParameters):
    """Parameters of the networks for graphs."""

    lr: float = option(2e-3, "learning rate of Adam")
    network: str = option(
        "wl", "kind of network; tree for edges from child to parent", choices=(*NETWORKS, "tree")
    )
    hidden_size: int = option(64, "units of the network")
    depth: int = option(4, "levels of wl, or layers of gine")
    order: int = option(2, "number of nodes of a walk")
    decay: float | str = option(
        "gated", "decay of walks: a number, learned or gated, or state for tree", metavar="NAME"
    )
    readout: str = option(
        "levels", "readout of wl: its levels side by side, their sum, or the last",
        choices=GRAPH_READOUTS,
    )  # fmt: skip
    normalize: bool = option(True, "standardize the labels of each level of wl, and the readout")
    gate_scale: float = option(1.0, "scale of the gates")
    share_references: bool = option(
        True, "the same references at all levels of wl, as in the code of L17, not the paper"
    )
    initial: str = option("fan-in", "initialization of the weights", choices=INITIALS)
    dropout: float = option(0.0, "dropout before the last layer")
    members: int = option(1, "number of ensemble members")

    def check(self) -> None:
        super().check()
        require_integers(self, 1, "hidden_size", "depth", "order", "members")
        require(self, "members", self.members <= MAX_MEMBERS, f"at most {MAX_MEMBERS}")
        require(self, "dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        require(self, "gate_scale", 0 < self.gate_scale < math.inf, "a positive number")
        can_differ = self.share_references or (self.network == "wl" and self.readout != "last")
        expected = "true, except for network wl with readout sum or levels"
        require(self, "share_references", can_differ, expected)
        networks = {entry.name: entry for entry in fields(self)}["network"].metadata["choices"]
        require_choices(self, network=networks, readout=GRAPH_READOUTS, initial=INITIALS)
        is_named = self.decay in GRAPH_DECAYS and (self.decay != "state" or self.network == "tree")
        is_decay = is_named or _is_decay(self.decay)
        require(self, "decay", is_decay, "a non-negative number, learned or gated")


def _is_decay(value: Any) -> bool:
    number = parse_number(value) if isinstance(value, str) else value
    return isinstance(number, Real) and 0 <= float(number) < math.inf


@dataclass(kw_only=True, eq=False, repr=False)
class GraphKernelParameters(GraphParameters):
    """Parameters of `GraphClassifier` and `GraphRegressor`, of which only Python has the kernel."""

    kernel: Any = option(None, "kernel of graphs or trees, in place of the default halves")


FEATURES = (62, 82)


@dataclass(kw_only=True, eq=False, repr=False)
class MoleculeParameters(GraphParameters):
    """Parameters of the networks for molecules."""

    features: int = option(82, "number of atom features: 62 or 82")
    network: str = option("wl", "kind of network", choices=NETWORKS)
    initial: str = option("authors", "initialization of the weights", choices=INITIALS)
    readout: str = option(
        "last", "readout of wl: its levels side by side, their sum, or the last",
        choices=GRAPH_READOUTS,
    )  # fmt: skip
    normalize: bool = option(False, "standardize the labels of each level of wl, and the readout")
    gate_scale: float = option(10.0, "scale of the gates")
    members: int = option(5, "number of ensemble members")
    lr_decay: float = option(
        0.93, "factor of the learning rate after every lr-decay-every molecules"
    )
    lr_decay_every: int = option(0, "molecules between two such changes; 0: an epoch")

    def check(self) -> None:
        super().check()
        require(self, "features", self.features in FEATURES, "62 or 82")
        require_integers(self, 0, "lr_decay_every")


@dataclass(kw_only=True, eq=False, repr=False)
class MoleculeRegressorParameters(MoleculeParameters):
    """Parameters of `MoleculeRegressor`."""

    standardize: bool = option(True, "standardize the targets in training")
    balance: float = option(
        0.0, "draw training molecules evenly from bins of the target of this width; 0: no balancing"
    )

    def check(self) -> None:
        super().check()
        require_numbers(self, "balance")


# Parameters of `SignalClassifier`. Free of torch, see `parameters`.

FILTERS = ("wavelet", "dense")
SIGNAL_POOLINGS = ("power", "mean", "last", "max", "flatten", "attention")
STANDARDIZATIONS = ("training", "window", "none")


@dataclass(kw_only=True, eq=False, repr=False)
class SignalParameters(TargetParameters):
    """Parameters of the network for signals and of its inputs.

    With `valid_fraction` 0 there is no validation, and the last epoch is kept.
    """

    _is_validation_required = False
    save_every_epochs = 50

    sampling_rate: float | None = option(None, "sampling rate in Hz; arrays need it", metavar="HZ")
    cell: str = option("linear-kernel", "recurrent cell; `representer cells` lists them")
    filters: str = option("wavelet", "kind of filters", choices=FILTERS)
    filter_length: int | None = option(
        None, "filter length in samples (default: those of half a second)"
    )
    stride: int | None = option(
        None, "stride of the filters in samples (default: those of 1/32 second)"
    )
    hidden_size: int = option(60, "units of the cell")
    num_layers: int = option(1, "number of layers")
    layer_norm: bool = option(False, "normalize the cell state")
    free_phase: bool = option(False, "train the phase of the first channel of a wavelet, too")
    pooling: str = option(
        "power",
        "classify the mean and the power of the outputs, their mean, the last, the largest of each "
        "unit, the largest of each part of the window, or a mean with learned weights",
        choices=SIGNAL_POOLINGS,
    )
    pool_length: int | None = option(
        None, "samples of a part for --pooling flatten (default: those of a filter)"
    )
    channel_dropout: float = option(0.1, "dropout of whole channels in training")
    dropout: float = option(0.0, "dropout before the last layer")
    augment: bool = option(False, "augment training windows: sign, shift, gains, noise")
    standardize: str = option(
        "training",
        "standardize each channel over the training data, over the window, or not at all",
        choices=STANDARDIZATIONS,
    )
    recenter: str | None = option(
        None,
        "subject: the kernel moves and scales the features of each subject to common moments",
        choices=("subject",),
    )
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    lr: float = option(2e-3, "learning rate of Adam")
    clip_norm: float = option(1.0, "clip the norm of the gradient; 0: no clipping")

    def check(self) -> None:
        super().check()
        is_rate = self.sampling_rate is None or 0 < self.sampling_rate < math.inf
        require(self, "sampling_rate", is_rate, "a positive number of Hz")
        require_integers(self, 1, "filter_length", "pool_length", "stride", is_none_allowed=True)
        require_integers(self, 1, "hidden_size", "num_layers")
        for name in ("channel_dropout", "dropout"):
            require(self, name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        require_choices(
            self, filters=FILTERS, pooling=SIGNAL_POOLINGS, standardize=STANDARDIZATIONS,
            recenter=(None, "subject"),
        )  # fmt: skip


def in_samples(parameters: Any, sampling_rate: float) -> dict[str, int]:
    """Return the length and the stride of the filters; where left out, they follow the rate."""
    usual = {"filter_length": sampling_rate / 2, "stride": sampling_rate / 32}
    return {
        name: getattr(parameters, name) or max(1, round(count)) for name, count in usual.items()
    }


# Parameters of `LanguageModel`. Free of torch, see `parameters`.

LEVELS = ("word", "char")
COMBINES = ("multiply", "add")
OPTIMIZERS = ("adam", "sgd", "nt-asgd", "asgd")
EMBEDDING_INITIALS = ("string", "uniform")
DROPOUTS = (
    "input_dropout", "layer_dropout", "output_dropout", "embedding_dropout", "rnn_dropout",
    "weight_dropout",
)  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class LanguageParameters(TrainingParameters):
    """Parameters of the language model, of its tokens and of its training."""

    answer: str = option(
        "both", "predict with n-gram counts (kernel), the network, or both", choices=ANSWERS
    )
    cuda_graph: bool = option(True, "replay training steps from CUDA graphs, on one CUDA device")
    level: str = option("word", "unit of prediction: words or characters", choices=LEVELS)
    encoding: str = option("utf-8", "encoding of files")
    min_count: int = option(1, "tokens rarer than this in the training text are unknown")
    max_vocabulary: int = option(0, "maximum size of the vocabulary; 0: no limit")
    cell: str = option("string-kernel", "recurrent cell; `representer cells` lists them")
    order: int = option(1, "length of the n-grams of a string kernel, which may have gaps")
    combine: str = option(
        "multiply", "combination of the words of a string kernel", choices=COMBINES
    )
    decay: float | str = option(
        "state",
        "decay of a string kernel: a number in [0, 1], learned, input or state",
        metavar="NAME",
    )
    highway: bool = option(True, "highway connections in string-kernel layers")
    filter_length: int = option(1, "filter length of the other cells in words")
    layer_norm: bool = option(False, "normalize the memory cell of the other cells")
    hidden_size: int = option(256, "units of all layers but the last")
    embedding_size: int = option(
        0, "size of the embeddings and of the last layer; 0: as hidden-size"
    )
    num_layers: int = option(2, "number of layers")
    cutoffs: Sequence[int] = option(
        (), "adaptive softmax: first tokens of the clusters", metavar="LIST"
    )
    input_dropout: float = option(0.3, "dropout on the embeddings")
    layer_dropout: float = option(0.0, "dropout between layers")
    output_dropout: float = option(0.3, "dropout on the last layer's output")
    locked: bool = option(False, "use one mask for all steps of a segment in these three")
    embedding_dropout: float = option(0.0, "dropout of whole words in a segment")
    rnn_dropout: float = option(0.0, "dropout in string-kernel layers, one mask for all steps")
    weight_dropout: float = option(0.0, "dropout of entries of recurrent matrices (DropConnect)")
    initial: str = option("string", "initialization of the embeddings", choices=EMBEDDING_INITIALS)
    activation_penalty: float = option(0.0, "weight of the mean square of the output (AR)")
    slowness_penalty: float = option(0.0, "weight of the mean square of its change (TAR)")
    batch_size: int | None = option(None, "parallel streams (default: by the number of tokens)")
    unroll: int = option(35, "steps of a segment")
    variable_unroll: bool = option(False, "draw the length of each segment at random around unroll")
    optimizer: str = option(
        "adam",
        "optimizer; nt-asgd averages weights once validation stops improving, asgd from the start, "
        "and stops by the same criterion",
        choices=OPTIMIZERS,
    )
    lr: float = option(2e-3, "learning rate")
    lr_decay: float = option(1.0, "factor of the learning rate per epoch, from epoch lr-decay-from")
    lr_decay_from: int = option(1, "first epoch with such a change")
    clip_norm: float = option(0.25, "clip the norm of the gradient; 0: no clipping")
    evaluation_rows: int = option(10, "parallel streams in validation; the test has one")

    def check(self) -> None:
        super().check()
        require_integers(
            self, 1, "min_count", "order", "filter_length", "hidden_size", "num_layers", "unroll",
            "lr_decay_from", "evaluation_rows",
        )  # fmt: skip
        require_integers(self, 0, "max_vocabulary", "embedding_size")
        require(self, "encoding", isinstance(self.encoding, str), "the name of an encoding")
        are_integers = all(type(token) is int for token in self.cutoffs)
        require(self, "cutoffs", are_integers, "a sequence of integers")
        require(self, "max_vocabulary", self.max_vocabulary not in (1, 2), "3 or more, or 0")
        require_numbers(self, "activation_penalty", "slowness_penalty")
        require(self, "lr_decay", 0 < self.lr_decay < math.inf, "a positive number")
        require_fractions(self, *DROPOUTS)
        require_choices(
            self, answer=ANSWERS, level=LEVELS, combine=COMBINES, optimizer=OPTIMIZERS,
            initial=EMBEDDING_INITIALS, monitor=(AUTO, "loss"),
        )  # fmt: skip
        require_decay(self)
