"""Parameters of `TextClassifier` and `TextRegressor`. Free of torch, see `parameters`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from representer.estimators.parameters import TargetParameters, option, require_decay
from representer.requirements import require, require_choices, require_integers

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
        "random, or a file of pretrained ones (GloVe or word2vec text, or .npz)",
        metavar="FILE",
    )
    freeze_embeddings: bool = option(False, "do not train the word vectors")
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    dropout: float = option(0.5, "dropout in the classifier")
    pooling: str = option(
        "attention",
        "mean over time: over the true length, with learned weights, or over the padded length",
        choices=POOLINGS,
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
        """Check every value, see `TrainingParameters.check`."""
        super().check()
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
