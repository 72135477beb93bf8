"""Continue a text with an exported run: ``python predict.py "a prompt" 20``."""

from __future__ import annotations

import json

import numpy as np

from representer.export.examples.program import (
    ARRAYS,
    SESSION,
    SETUP,
    finish,
    lines_of,
    one_line_errors,
    parser_of,
)
from representer.kernels.token_counts import KneserNey, NgramTable
from representer.machine import write_utf8

WORDS, END, UNKNOWN = SETUP["vocabulary"], 0, 1
NUMBERS = {word: number for number, word in enumerate(WORDS) if number > 1}
KERNEL = SETUP["kernel"]
if KERNEL["weight"]:
    TABLES = [
        NgramTable(*(ARRAYS[f"{name}.{n}"] for name in NgramTable._fields))
        for n in range(1, KERNEL["orders"] + 1)
    ]
    COUNTS = KneserNey(max(1, KERNEL["order"])).restore(TABLES, len(WORDS))


def start():
    """Return the state before a text."""
    sizes = {each.name: each.shape for each in SESSION.get_inputs()[1:]} if SESSION else {}
    state = {
        name: np.zeros([1 if size == "batch" else size for size in shape], np.float32)
        for name, shape in sizes.items()
    }
    return state, np.zeros(0, np.int64), np.zeros(len(WORDS))


def read(numbers, state):
    """Return log p of every next token (V,) after some tokens, and the state after them."""
    states, last, recent = state
    numbers, scores = np.asarray(numbers, np.int64), np.zeros(len(WORDS))
    if KERNEL["weight"]:
        decay, text = KERNEL["decay"], np.concatenate([last, numbers])
        powers = decay ** np.arange(len(numbers))[::-1]
        counts = np.bincount(numbers, weights=powers, minlength=len(WORDS))
        recent = decay ** len(numbers) * recent + (1 - decay) * counts
        p = COUNTS.distributions(COUNTS.numbers(text)[:, -1:])[0]
        mixed = (1 - KERNEL["cache"] * recent.sum()) * p + KERNEL["cache"] * recent
        scores = scores + KERNEL["weight"] * np.log(mixed)
        last = text[-KERNEL["order"] :]
    if SETUP["network"]:
        logs, *new = SESSION.run(None, {"tokens": numbers[:, None], **states})
        scores = scores + SETUP["network"] * np.array(logs, float)[-1, 0]
        states = dict(zip(states, new, strict=True))
    scores = scores - scores.max()
    return scores - np.log(np.exp(scores).sum()), (states, last, recent)


def numbers_of(prompt):
    """Return the numbers of a prompt, after the end of a line."""
    numbers = []
    for line in prompt.split("\n"):
        tokens = line.split() if SETUP["level"] == "word" else line
        numbers += [END, *(NUMBERS.get(token, UNKNOWN) for token in tokens)]
    return numbers


def continued(prompt, count):
    """Return the most probable tokens behind a prompt, and the text with them."""
    logs, state = read(numbers_of(prompt), start())
    numbers = []
    for _ in range(count):
        numbers.append(int(logs.argmax()))
        logs, state = read(numbers[-1:], state)
    tokens = ["\n" if n == END else WORDS[n] for n in numbers]
    return tokens, (" " if SETUP["level"] == "word" else "").join([prompt, *tokens])


if __name__ == "__main__":
    HELP = "a prompt, a file with one, or - for standard input; then the number of tokens (20)"
    parser = parser_of(HELP, "PROMPT", "Continue a text with an exported run.")
    write_utf8()
    chosen = parser.parse_args()
    *prompts, last = chosen.input
    with one_line_errors():
        if prompts and not last.isdecimal():
            raise ValueError(f"the number of tokens is {last!r}; expected a number such as 20")
        prompt = "\n".join(lines_of(prompts or [last]))
        tokens, text = continued(prompt, int(last) if prompts else 20)
        line = {"prompt": prompt, "tokens": tokens, "text": text}
        print(json.dumps(line, ensure_ascii=False) if chosen.json else text)
    finish()
