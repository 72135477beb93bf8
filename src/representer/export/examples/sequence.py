"""Predict sequences with an exported run: ``python predict.py ACGT sequences.txt -``."""

from __future__ import annotations

import json
import math
from functools import reduce
from itertools import product

import numpy as np

from representer.export.examples.program import (
    ARRAYS,
    SETUP,
    arrays_of,
    by_target,
    lines_of,
    machine,
    program,
    run,
)
from representer.kernels.kmer_kernel import MOST_OPTIONS

PLACES = SETUP["codes"] or {token: [k] for k, token in enumerate(SETUP["alphabet"])}
LETTERS = np.array(SETUP.get("vectors") or np.eye(SETUP["width"]))


def options_of(sequence):
    """Return the letters that each token stands for; none for an unknown one."""
    if not SETUP["codes"]:
        return [PLACES.get(token, []) for token in sequence]
    if unknown := [token for token in sequence if token not in PLACES]:
        raise ValueError(f"{unknown[0]!r} is no letter of the training sequences")
    return [PLACES[token] for token in sequence]


def vectors(sequence):
    """Return the vectors of a string, of a list of tokens, or of an array (T, d)."""
    if not PLACES:
        return np.asarray(sequence, dtype=float).reshape(-1, SETUP["width"])
    none = np.zeros(SETUP["width"]) if "vectors" in SETUP else LETTERS[-1]
    rows = [LETTERS[some].mean(0) if some else none for some in options_of(sequence)]
    return np.array(rows).reshape(len(rows), SETUP["width"])


def kmers(kernel, places, sequence):
    """Yield the code and the weight of each k-mer of a pattern, on each strand."""
    strands, size, width = [options_of(sequence)], len(SETUP["alphabet"]), kernel["position"]
    if kernel["chosen"][1] == "both":
        strands.append([[3 - k for k in some] for some in reversed(strands[0])])
    for strand in strands:
        for start in range(len(strand) - places[-1]):
            some = [strand[start + offset] for offset in places]
            total = math.prod(map(len, some))
            for letters in product(*some) if 0 < total <= MOST_OPTIONS else ():
                code = reduce(lambda a, b: a * size + b, letters)
                if width is None:
                    yield code, 1 / total
                    continue
                knot, share = divmod(start / width, 1.0)
                step = size ** len(places)
                yield code + int(knot) * step, (1 - share) / total
                yield code + (int(knot) + 1) * step, share / total


def of_kmers(k, sequence):
    """Return the features of a sequence, each order of norm 1."""
    kernel, arrays = SETUP["kernels"][k], arrays_of(k)
    features, patterns = np.zeros(len(arrays["codes"])), []
    starts = [0, *arrays["ends"][:-1]]
    for text, start, end in zip(kernel["patterns"], starts, arrays["ends"], strict=True):
        places = [int(offset) for offset in text.split()]
        column = {code: start + j for j, code in enumerate(arrays["codes"][start:end].tolist())}
        for code, weight in kmers(kernel, places, sequence):
            if code in column and kernel["pooling"] == "max":
                features[column[code]] = max(features[column[code]], weight)
            elif code in column:
                features[column[code]] += weight
        patterns += [len(places)] * (end - start)
    orders = np.array(patterns)
    for order in {len(text.split()) for text in kernel["patterns"]}:
        norm = np.linalg.norm(features[orders == order])
        features[orders == order] /= norm or 1.0
    return features / len({len(text.split()) for text in kernel["patterns"]}) ** 0.5


def values(kernel, x, others):
    """Return the values (M,) of a kernel, written as plain values, of x (T, d) with M others."""
    kernel_class = kernel["kernel class"]
    if kernel_class == "StringKernel":
        return np.array([strings(kernel, x, other) for other in others])
    if kernel_class in ("Sum", "Product"):
        first, second = (values(kernel[name], x, others) for name in ("k1", "k2"))
        return first + second if kernel_class == "Sum" else first * second
    inner = values(kernel["kernel"], x, others)
    if kernel_class == "Scaled":
        return kernel["scale"] * inner
    if kernel_class == "Power":
        return inner ** kernel["degree"]
    squares = np.array([values(kernel["kernel"], other, [other])[0] for other in others])
    products = values(kernel["kernel"], x, [x])[0] * squares
    return np.where(products > 0, inner / np.sqrt(np.where(products > 0, products, 1)), 0)


def strings(kernel, x, y):
    """Return the string kernel of two sequences; those of fewer than n tokens have none."""
    products, lam = x @ y.T, kernel["decay"]
    left, right = (decays(len(sequence), lam) for sequence in (x, y))
    inner = products
    for _ in range(kernel["order"] - 1):
        before = np.zeros_like(products)
        before[1:, 1:] = (left @ inner @ right.T)[:-1, :-1]
        inner = products * before
    if kernel["trailing"] and inner.size:
        inner = left[-1] @ inner @ right[-1]
    scale = (1 - lam) ** kernel["order"] if kernel["normalized"] else 1.0
    return scale * inner.sum()


def decays(steps, lam):
    """Return the decay (T, T) from each step to each that is not before it."""
    apart = np.subtract.outer(np.arange(steps), np.arange(steps))
    return np.where(apart >= 0, float(lam) ** np.maximum(apart, 0), 0.0)


def of_network(sequences):
    """Return the network's scores: kernel values with its references."""
    arrays = {name: ARRAYS[f"network/{name}"] for name in ("references", "weight", "bias")}
    sequences = [vectors(sequence) for sequence in sequences]
    table = np.array([values(SETUP["expression"], x, arrays["references"]) for x in sequences])
    return by_target(table @ arrays["weight"].T + arrays["bias"])


def of_kernel(k, sequences):
    """Return the kernel machine's scores: kernel values with the landmarks."""
    arrays = arrays_of(k)
    if "codes" in arrays:
        return machine(k, np.array([of_kmers(k, sequence) for sequence in sequences]))
    sequences = [vectors(sequence) for sequence in sequences]
    others = np.split(arrays["tokens"], np.cumsum(arrays["lengths"])[:-1])
    table = np.array([values(SETUP["expression"], x, others) for x in sequences])
    return machine(k, table @ arrays["whitening"])


predicted, predict = program(of_network, of_kernel)


def read(inputs):
    """Return the sequences of lines; a line that begins with a bracket is a list in JSON.

    A line that begins with > starts a record of FASTA, whose lines are joined.
    """
    sequences, is_record = [], False
    for line in filter(None, lines_of(inputs)):
        if line.startswith(">"):
            sequences.append("")
            is_record = True
        elif is_record:
            sequences[-1] += line.strip().upper()
        else:
            sequences.append(json.loads(line) if line.startswith("[") else line)
    return sequences


if __name__ == "__main__":
    HELP = (
        "a string of tokens of one character, a JSON list of tokens or vectors, a file with one "
        "on each line or of FASTA, or - for standard input"
    )
    run((HELP, "SEQUENCE", "Predict sequences with an exported run."), read, predicted)
