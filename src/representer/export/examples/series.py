"""Predict series with an exported run: ``python predict.py series.npz``, with X (N, C, T)."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np

from representer.estimators.series import standardized
from representer.export.examples.program import SETUP, arrays_of, machine, network, program, run
from representer.kernels.convolution_kernel import TAPS, TRIPLES, spans


def inputs_of(series):
    """Return each series (C, T) standardized as in training; steps of padding are left out."""
    tables = []
    for row, table in enumerate(series):
        values = np.asarray(table, dtype=np.float64)
        values = values[None] if values.ndim == 1 else values
        if len(values) != SETUP["num_channels"] or not values.size:
            raise ValueError(f"X[{row}] has {len(values)} channels, not {SETUP['num_channels']}")
        filled = np.flatnonzero(~np.isnan(values).all(axis=0))
        values = values[:, : filled[-1] + 1 if len(filled) else 1]
        tables.append(standardized(values, SETUP["means"], SETUP["scales"]))
    return tables


def of_network(series):
    """Return the network's scores of each target."""
    lengths = np.array([table.shape[1] for table in series])
    padded = np.zeros((len(series), lengths.max(), SETUP["num_channels"]), np.float32)
    for row, table in enumerate(series):
        padded[row, : lengths[row]] = table.T
    return network({"series": padded, "lengths": lengths})


def outputs(one, source, dilation, filters, channels):
    """Yield the outputs of each filter (T,) in its row."""
    steps, reach = one.shape[1], (TAPS - 1) // 2 * dilation
    for row, (filter_, channel) in enumerate(zip(filters, channels, strict=True)):
        values = one[channel]
        values = values if source == "values" else np.diff(values, prepend=values[:1])
        padded = np.pad(values, reach)
        taps = [padded[k * dilation :][:steps] for k in range(TAPS)]
        total = sum(taps[1:], taps[0])
        if filter_ == len(TRIPLES):
            yield row, total / np.float32(TAPS)
        else:
            a, b, c = (taps[tap] for tap in TRIPLES[filter_])
            yield row, (a + b + c) * np.float32(3) - total


def of_kernel(k, series):
    """Return the kernel machine's scores, of what filters exceed and of the values."""
    setup, arrays, table = SETUP["kernels"][k], arrays_of(k), []
    for values in series:
        parts = {view: [] for view in setup["views"]}
        for number, name in enumerate(setup["banks"]):
            source, _, dilation = name.partition(" ")
            filters, channels = arrays[f"filters{number}"], arrays[f"channels{number}"]
            thresholds = arrays[f"thresholds{number}"]
            for row, z in outputs(values, source, int(dilation), filters, channels):
                for b in thresholds[row]:
                    if "share" in parts:
                        parts["share"].append(np.count_nonzero(z > b))
                    if "excess" in parts:
                        parts["excess"].append(np.maximum(z - b, 0).sum(dtype=np.float64))
        parts = {view: np.array(counts) / values.shape[1] for view, counts in parts.items()}
        if "values" in parts:
            parts["values"] = spans(values, int(setup["times"][0])).ravel()
        features = np.concatenate([parts[view] for view in setup["views"]])
        table.append((features - arrays["means"]) / arrays["scales"])
    return machine(k, np.array(table))


predicted, predict = program(of_network, of_kernel, inputs_of)


def read(inputs):
    """Return the series of .npz files, or of lines of JSON."""
    tables = []
    for word in inputs:
        content = sys.stdin.buffer.read() if word == "-" else Path(word).read_bytes()
        if content[:2] == b"PK":  # a zip, as .npz files are
            tables += [*np.load(io.BytesIO(content), allow_pickle=False)["X"]]
            continue
        for line in content.decode("utf-8-sig").splitlines():
            if line.strip():
                tables.append(np.array(json.loads(line), dtype=float))  # null is NaN
    return tables


if __name__ == "__main__":
    HELP = (
        "an .npz file with X (N, T) or (N, C, T), or a file with a JSON list of the values, or of "
        "the channels, of a series on each line; - for standard input"
    )
    run((HELP, "FILE", "Predict series with an exported run."), read, predicted)
