"""Small data for each estimator, and estimators fitted to it, which tests only read."""

from __future__ import annotations

from functools import cache
from typing import Any

import networkx as nx
import numpy as np

from language_samples import made_up_text
from representer.estimators import (
    GraphClassifier,
    GraphRegressor,
    LanguageModel,
    MoleculeClassifier,
    MoleculeRegressor,
    SequenceClassifier,
    SequenceRegressor,
    SignalClassifier,
    TextClassifier,
    TextRegressor,
)
from representer.kernels import StringKernel

QUIET = {"random_state": 0, "verbose": 0}

TEXTS = [f"{a} {b} today" for a in ("good", "bad") for b in ("film", "play", "song", "book")] * 5
LABELS = ["+" if text.startswith("good") else "-" for text in TEXTS]
NUMBERS = np.array([2.0 if label == "+" else -1.0 for label in LABELS])
TEXT = {"hidden_size": 8, "embedding_size": 8, **QUIET}


def labeled(count: int, letter: str) -> nx.Graph:
    """A path of nodes labeled a, with one label changed and labels at the edges."""
    graph = nx.path_graph(count)
    nx.set_node_attributes(graph, "a", "label")
    graph.nodes[count // 2]["label"] = letter
    nx.set_edge_attributes(graph, {edge: "xy"[edge[0] % 2] for edge in graph.edges}, "label")
    return graph


GRAPHS = [labeled(count, letter) for count in range(3, 13) for letter in "bc"]
LETTERS = ["b", "c"] * 10
NODES = np.array([float(len(graph)) for graph in GRAPHS])
GRAPH = {"hidden_size": 8, "depth": 2, **QUIET}

MOLECULES = [f"{'C' * count}{end}" for count in range(1, 11) for end in ("O", "N")]
LENGTHS = np.array([float(len(smiles)) for smiles in MOLECULES])
GROUPS = ["alcohol", "amine"] * 10
SIZES = [None if i % 5 == 0 else len(s) > 5 for i, s in enumerate(MOLECULES)]
TABLE = [[group, size] for group, size in zip(GROUPS, SIZES, strict=True)]
TABLE[3][0] = float("nan")
MOLECULE = {"hidden_size": 8, "depth": 2, "members": 2, **QUIET}

RATE, SAMPLES = 100, 85  # 85 is no multiple of the stride
SIGNAL = {
    "sampling_rate": RATE, "hidden_size": 4, "stride": 10, "filter_length": 20, **QUIET,
    "answer": "network",
}  # fmt: skip


def windows(count: int = 40, seed: int = 0) -> tuple[Any, Any]:
    """Return noisy oscillations of 3 channels, and their classes."""
    rng, time = np.random.default_rng(seed), np.arange(SAMPLES) / RATE
    labels = np.array(["alpha", "beta"] * (count // 2))
    hertz = np.where(labels == "alpha", 6.0, 25.0)
    phases = rng.uniform(0, 2 * np.pi, size=count)
    waves = np.sin(2 * np.pi * hertz[:, None] * time + phases[:, None])
    gains = np.array([50.0, 20.0, 10.0])
    noise = 0.3 * rng.normal(size=(count, 3, SAMPLES))
    return (waves[:, None] + noise) * gains[:, None] + 100, labels


WINDOWS, WAVES = windows()

KERNEL = StringKernel(1, trailing=False) + 0.5 * StringKernel(2, 0.8, trailing=False).cosine()
SEQUENCE = {"kernel": KERNEL, "hidden_size": 8, "epochs": 15, **QUIET}


def words(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return words over abcd; those of class "ab" have an a two letters before a b."""
    rng, found, labels = np.random.default_rng(seed), [], []
    for k in range(count):
        letters = rng.choice(list("abcd" if k % 2 else "bcd"), size=rng.integers(4, 9))
        if k % 2:
            start = rng.integers(0, len(letters) - 2)
            letters[[start, start + 2]] = "a", "b"
        found.append("".join(letters))
        labels.append("ab" if k % 2 else "none")
    return found, labels


WORDS, PATTERNS = words(60)
VECTORS = [np.eye(4)[["abcd".index(c) for c in word]] for word in WORDS]
COUNTS = np.array([word.count("a") - 0.5 * word.count("d") for word in WORDS])
LINES = made_up_text(120).splitlines()
LANGUAGE = {"hidden_size": 8, "unroll": 7, "input_dropout": 0.0, "output_dropout": 0.0, **QUIET}

FITTED: dict[str, tuple[Any, Any, Any]] = {  # by the name of a class: estimator, objects, targets
    "TextClassifier": (TextClassifier(**TEXT, epochs=25, lr=1e-2, filter_length=2), TEXTS, LABELS),
    "TextRegressor": (TextRegressor(**TEXT, epochs=25, lr=1e-2, dropout=0.0), TEXTS, NUMBERS),
    "GraphClassifier": (GraphClassifier(**GRAPH, epochs=20, lr=2e-2, members=2), GRAPHS, LETTERS),
    "GraphRegressor": (GraphRegressor(**GRAPH, epochs=20, lr=2e-2, members=2), GRAPHS, NODES),
    "MoleculeClassifier": (
        MoleculeClassifier(**MOLECULE, epochs=20, lr=2e-2, initial="fan-in"), MOLECULES, TABLE,
    ),
    "MoleculeRegressor": (MoleculeRegressor(**MOLECULE, epochs=15, lr=1e-2), MOLECULES, LENGTHS),
    "SequenceClassifier": (SequenceClassifier(**SEQUENCE), WORDS, PATTERNS),
    "SequenceRegressor": (SequenceRegressor(**SEQUENCE), VECTORS, COUNTS),
    "SignalClassifier": (SignalClassifier(**SIGNAL, epochs=40, lr=2e-2), WINDOWS, WAVES),
    "LanguageModel": (LanguageModel(**LANGUAGE, epochs=12, lr=0.03), LINES, None),
}  # fmt: skip


@cache
def fitted(name: str) -> Any:
    """Fit one of `FITTED` once for all tests."""
    estimator, X, y = FITTED[name]
    validation = (X, y) if name == "MoleculeClassifier" else None  # of rows with missing labels
    return estimator.fit(X, y, validation=validation)
