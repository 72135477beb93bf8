"""Predict texts with an exported run: ``python predict.py "a text" texts.txt -``."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import numpy as np

from representer.export.examples.program import SETUP, arrays_of, lines_of, network, program, run

NUMBERS = {word: number for number, word in enumerate(SETUP.get("vocabulary", ())) if number > 1}


def words(text):
    """Return the words of a text."""
    for pattern, replacement in SETUP["replace"]:
        text = re.sub(pattern, replacement, text)
    text = unicodedata.normalize("NFC", text) if SETUP["is_composed"] else text
    return re.findall(SETUP["pattern"], text.lower() if SETUP["is_lower"] else text)


def of_network(texts):
    """Return the network's scores; 1 is an unknown word, 0 is padding."""
    rows = [[NUMBERS.get(w, 1) for w in words(text)[: SETUP["max_length"]]] for text in texts]
    lengths = np.array([len(row) for row in rows])
    tokens = np.array([row + [0] * (max(1, *lengths) - len(row)) for row in rows])
    return network({"tokens": tokens, "lengths": lengths})


def products(arrays, columns, values):
    """Return the products of some features with the coefficients (W,), or with centroids first."""
    if "coefficients" in arrays:
        return arrays["coefficients"][:, columns] @ values
    near, ends = np.zeros(arrays["combinations"].shape[1]), arrays["centroids.ends"]
    for column, value in zip(columns, values, strict=True):
        rows = slice(ends[column], ends[column + 1])
        near[arrays["centroids.indices"][rows]] += value * arrays["centroids.data"][rows]
    return arrays["combinations"] @ near


def of_kernel(k, texts):
    """Return the kernel machine's scores (N, W): n-grams of words and characters."""
    arrays, setup, scores = arrays_of(k), SETUP["kernels"][k], []
    columns = [dict(zip(ngrams, range(len(ngrams)), strict=True)) for ngrams in setup["ngrams"]]
    for text in texts:
        split, score = words(text), arrays["intercepts"].copy()
        for view, (tokens, blank) in enumerate(((split, " "), (f" {' '.join(split)} ", ""))):
            counts = Counter(
                blank.join(tokens[i : i + n])
                for n in setup["orders"][view]
                for i in range(len(tokens) - n + 1)
            )
            counted = [(columns[view][g], n) for g, n in counts.items() if g in columns[view]]
            columns_of, n = np.array(counted, dtype=int).reshape(-1, 2).T
            values = arrays[f"weights{view}"][columns_of] * np.log1p(n)
            length = np.sqrt(2 * (values @ values)) or 1.0
            score += products(arrays, columns_of + view * len(arrays["weights0"]), values / length)
        scores.append(score)
    return np.array(scores), np.zeros((len(scores), 1))


predicted, predict = program(of_network, of_kernel)


if __name__ == "__main__":
    HELP = "a text, a file with a text on each line, or - for standard input"
    run(
        (HELP, "TEXT", "Predict texts with an exported run."),
        lines_of,
        predicted,
        lambda text: [text],
    )
