"""Classify windows with an exported run: ``python predict.py windows.npz``, with X (N, C, T)."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).parent
SETUP = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
SESSION = onnxruntime.InferenceSession(HERE / SETUP["model"])


def standardized(windows):
    """Return windows (N, C, T) as in training."""
    if SETUP["standardize"] == "none":
        return windows.astype(np.float32)
    if SETUP["standardize"] == "training":
        mean, deviation = (np.array(SETUP[name])[:, None] for name in ("mean", "deviation"))
    else:  # over each window, or over all of them, which are those of one subject
        axes = (0, 2) if SETUP["standardize"] == "subject" else 2
        over = {"axis": axes, "keepdims": True, "dtype": np.float64}
        mean, deviation = windows.mean(**over), windows.std(**over)
    is_constant = deviation <= 1e-6 * np.abs(mean)
    scale = np.where(is_constant, 0.0, 1.0 / np.where(is_constant, 1.0, deviation))
    return ((windows - mean) * scale).astype(np.float32)


def predict(windows):
    """Return the probability of each class (N, W)."""
    signal = standardized(np.asarray(windows, dtype=np.float32))
    scores = SETUP["network"] * np.array(SESSION.run(None, {"signal": signal})[0], dtype=float)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(print("usage: python predict.py windows.npz", file=sys.stderr) or 2)
    for row in predict(np.load(sys.argv[1], allow_pickle=False)["X"]):
        print(SETUP["classes"][row.argmax()], *np.round(row, 4), sep="\t")
    if SETUP["left_out"]:
        print(f"incomplete: the run predicts with {SETUP['left_out']}, too", file=sys.stderr)
        raise SystemExit(3)
