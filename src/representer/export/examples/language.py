"""Continue a text with an exported run: ``python predict.py "a prompt" 20``."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).parent
SETUP = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
WORDS, END, UNKNOWN = SETUP["vocabulary"], 0, 1
NUMBERS = {word: number for number, word in enumerate(WORDS) if number > 1}
SESSION = onnxruntime.InferenceSession(HERE / SETUP["model"])


def start():
    """Return the state before a text."""
    sizes = {each.name: each.shape for each in SESSION.get_inputs()[1:]}
    return {
        name: np.zeros([1 if size == "batch" else size for size in shape], np.float32)
        for name, shape in sizes.items()
    }


def read(numbers, state):
    """Return log p of every next token (V,) after some tokens, and the state after them."""
    logs, *new = SESSION.run(None, {"tokens": np.array(numbers)[:, None], **state})
    return np.array(logs)[-1, 0], dict(zip(state, new, strict=True))


def numbers_of(prompt):
    """Return the numbers of a prompt, after the end of a line."""
    found = []
    for line in prompt.split("\n"):
        tokens = line.split() if SETUP["level"] == "word" else line
        found += [END, *(NUMBERS.get(token, UNKNOWN) for token in tokens)]
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(print('usage: python predict.py "a prompt" 20', file=sys.stderr) or 2)
    logs, state = read(numbers_of(sys.argv[1]), start())
    found = []
    for _ in range(int(sys.argv[2])):
        found.append(int(logs.argmax()))
        logs, state = read(found[-1:], state)
    blank = " " if SETUP["level"] == "word" else ""
    print(sys.argv[1], *("\n" if n == END else WORDS[n] for n in found), sep=blank)
    if SETUP["left_out"]:
        print(f"incomplete: the run predicts with {SETUP['left_out']}, too", file=sys.stderr)
        raise SystemExit(3)
