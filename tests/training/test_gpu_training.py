"""Training and evaluation on a CUDA device, beside the same on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from representer.estimators import LanguageModel, TextClassifier

pytestmark = pytest.mark.gpu
TEXT = "the cat sat on the mat and the dog sat on it\n" * 40
WITHOUT_DROPOUT = {"input_dropout": 0.0, "output_dropout": 0.0}


def losses(fitted: Any) -> list[float]:
    return [row["valid_loss"] for row in fitted.history_]


def language_model(**options: Any) -> LanguageModel:
    network = LanguageModel(
        answer="network", hidden_size=70, unroll=11, batch_size=4, epochs=4, random_state=0,
        verbose=0, min_count=1, **WITHOUT_DROPOUT, **options,
    )  # fmt: skip
    return network.fit(TEXT)


@pytest.mark.parametrize(
    "options",
    [
        {"decay": "state"}, {"decay": "input", "order": 2}, {"decay": "learned"},
        {"cell": "rkm-lstm", "lr": 3e-4}, {"cell": "rkm-cifg", "layer_norm": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_language_model_learns_the_same_on_the_cpu_and_from_graphs(options: dict[str, Any]):
    here = language_model(device="cpu", **options)
    assert losses(here)[-1] < losses(here)[0]
    tokens = torch.arange(40) % len(here.tokens_)
    for other in ({}, {"cuda_graph": False}):
        there = language_model(device="cuda", **other, **options)
        np.testing.assert_allclose(losses(there), losses(here), rtol=1e-3)
        found = there.log_likelihoods(tokens.repeat(40))  # long enough for graphs
        expected = there.on_cpu().log_likelihoods(tokens.repeat(40))
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_text_classifier_learns_the_same_on_the_cpu_and_from_graphs():
    draw = np.random.default_rng(0)
    words = np.array(["sea", "wave", "sky", "moon", "not", "good"])
    texts = [" ".join(draw.choice(words, 3 + i % 9)) for i in range(80)]
    labels = ["+" if "good" in text else "-" for text in texts]
    fitted = [
        TextClassifier(
            answer="network", epochs=4, random_state=0, verbose=0, dropout=0.0, hidden_size=70,
            device=device, cuda_graph=is_captured,
        ).fit(texts, labels)
        for device, is_captured in (("cpu", False), ("cuda", False), ("cuda", True))
    ]  # fmt: skip
    for there in fitted[1:]:
        np.testing.assert_allclose(losses(there), losses(fitted[0]), rtol=2e-3)
