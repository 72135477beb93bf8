"""The networks of version 0.1.0 as they were by default, when they were the whole model.

An option that the networks get later stands here with the value that turns it off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BEFORE = "network before"

_TRAINING = {
    "max_steps": 0, "evaluate_every": 0, "lr_decay": 1.0, "weight_decay": 0.0, "clip_norm": 0.0,
    "clip_value": 0.0, "average_weights": False, "mixed_precision": "no",
}  # fmt: skip
_CLASSES = _TRAINING | {"class_weight": None}

OPTIONS: Mapping[str, dict[str, Any]] = {
    "text": _CLASSES | {
        "epochs": 10, "batch_size": 32, "patience": 3, "monitor": "accuracy", "lr": 1e-3,
        "cell": "rkm-cifg", "hidden_size": 128,
        "filter_length": 1, "num_layers": 1, "bidirectional": False, "layer_norm": None,
        "embedding_size": 128, "dropout": 0.5, "pooling": "mean", "tokenizer": "words",
        "min_count": 2, "max_length": 400, "forget_bias": 0.0, "learn_static_gates": False,
        "order": 2, "decay": "0.5", "vectors": "random", "freeze_embeddings": False,
        "combine": "multiply", "normalized": "no", "readout": "last", "dilation": 1,
        "initialization": "paper", "filter_lengths": "", "filter_padding": "causal",
        "candidate_bias": False,
    },
    "graph": _CLASSES | {
        "epochs": None, "batch_size": None, "patience": None, "monitor": "auto", "lr": 2e-3,
        "network": "wl", "hidden_size": 64, "depth": 4,
        "order": 2, "decay": "gated", "readout": "sum", "gate_scale": 1.0, "initial": "fan-in",
        "share_references": True, "dropout": 0.0, "members": 1,
    },
    "molecule": _CLASSES | {
        "epochs": 40, "batch_size": 32, "patience": 0, "monitor": "loss", "lr": 2e-3,
        "lr_decay": 0.93, "network": "wl", "hidden_size": 64, "depth": 4,
        "order": 2, "decay": "gated", "readout": "last", "gate_scale": 10.0,
        "share_references": True, "initial": "authors", "dropout": 0.0, "members": 5,
        "features": 82,
        "lr_decay_every": 0, "standardize": True, "balance": 0.0,
    },
    "signal": _CLASSES | {
        "valid_fraction": 0.2, "epochs": 60, "batch_size": 32, "patience": 10, "monitor": "loss",
        "lr": 2e-3, "clip_norm": 1.0, "cell": "rkm-lstm",
        "filters": "wavelet", "filter_length": 40, "stride": 20, "hidden_size": 30,
        "num_layers": 1, "layer_norm": False, "free_phase": False, "pooling": "mean",
        "pool_length": None, "channel_dropout": 0.1, "dropout": 0.0, "augment": False,
    },
    "language": _TRAINING | {
        "epochs": 10, "batch_size": 32, "patience": 5, "lr": 2e-3,
        "clip_norm": 0.25, "cell": "string-kernel", "order": 1,
        "combine": "multiply", "decay": "state", "highway": True, "filter_length": 1,
        "layer_norm": False, "hidden_size": 128, "embedding_size": 0, "num_layers": 2,
        "input_dropout": 0.3, "layer_dropout": 0.0, "output_dropout": 0.3, "locked": False,
        "embedding_dropout": 0.0, "rnn_dropout": 0.0, "weight_dropout": 0.0, "initial": "string",
        "optimizer": "adam", "unroll": 35, "variable_unroll": False, "min_count": 1,
        "max_vocabulary": 0, "cutoffs": "", "activation_penalty": 0.0, "slowness_penalty": 0.0,
        "lr_decay_from": 1, "evaluation_rows": 10,
    },
}  # fmt: skip
