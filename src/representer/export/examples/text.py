"""Predict texts with an exported run: ``python predict.py "a text" "another text"``."""

import json
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).parent
SETUP = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
NUMBERS = {word: number for number, word in enumerate(SETUP["vocabulary"]) if number > 1}
SESSION = onnxruntime.InferenceSession(HERE / SETUP["model"])


def words(text):
    """Return the words of a text."""
    for pattern, replacement in SETUP["replace"]:
        text = re.sub(pattern, replacement, text)
    text = unicodedata.normalize("NFC", text) if SETUP["is_composed"] else text
    return re.findall(SETUP["pattern"], text.lower() if SETUP["is_lower"] else text)


def network_scores(texts):
    """Return the network's score of each class (N, W); 1 is an unknown word, 0 is padding."""
    rows = [[NUMBERS.get(w, 1) for w in words(text)[: SETUP["max_length"]]] for text in texts]
    lengths = np.array([len(row) for row in rows])
    tokens = np.array([row + [0] * (max(1, *lengths) - len(row)) for row in rows])
    return np.array(SESSION.run(None, {"tokens": tokens, "lengths": lengths})[0], dtype=float)


def kernel_scores(texts):
    """Return the kernel machine's score of each class (N, W): n-grams of words and characters."""
    arrays, scores = np.load(HERE / "kernel.npz", allow_pickle=False), []
    columns = [dict(zip(own, range(len(own)), strict=True)) for own in SETUP["ngrams"]]
    for text in texts:
        own, score = words(text), arrays["intercepts"].copy()
        views = (own, " "), (f" {' '.join(own)} ", "")
        for k, (sequence, blank) in enumerate(views):
            counts = Counter(
                blank.join(sequence[i : i + n])
                for n in SETUP["orders"][k]
                for i in range(len(sequence) - n + 1)
            )
            known = [(columns[k][gram], n) for gram, n in counts.items() if gram in columns[k]]
            at, n = np.array(known, dtype=int).reshape(-1, 2).T
            values = arrays[f"weights{k}"][at] * np.log1p(n)
            length = np.sqrt(len(views) * (values @ values)) or 1.0
            score += values / length @ arrays[f"coefficients{k}"][at]
        scores.append(score)
    return np.array(scores)


def predict(texts):
    """Return the probability of each class (N, W), or numbers (N, 1)."""
    scores = SETUP["network"] * network_scores(texts)
    if SETUP["kernel"]:
        scores += SETUP["kernel"] * kernel_scores(texts)
    if SETUP["classes"] is None:
        return SETUP["mean"] + SETUP["scale"] * scores
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(
            print('usage: python predict.py "a text" "another text"', file=sys.stderr) or 2
        )
    for line, row in zip(sys.argv[1:], predict(sys.argv[1:]), strict=True):
        best = row[0] if SETUP["classes"] is None else SETUP["classes"][row.argmax()]
        print(best, *np.round(row, 4), line, sep="\t")
    if SETUP["left_out"]:
        print(f"incomplete: the run predicts with {SETUP['left_out']}, too", file=sys.stderr)
        raise SystemExit(3)
