"""Predict graphs with an exported run: ``python predict.py graphs.jsonl``, as for ``fit graph``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from representer.export.examples.program import SETUP, lines_of, machine, network, program, run
from representer.export.examples.subtrees import subtree_features
from representer.kernels.graphs import Graph


def features(values, code):
    """Return the features of labels, one column each, or of lists of numbers (N, F)."""
    if code["labels"]:
        places = {label: k for k, label in enumerate(code["labels"])}
        columns = [places.get(label, len(places)) for label in values]
        return np.eye(len(places) + 1, dtype=np.float32)[columns]
    numbers = np.array(values, dtype=float).reshape(-1, len(code["means"]))
    table = (numbers - code["means"]) / code["scales"]
    return np.pad(table, ((0, 0), (0, 1)), constant_values=1.0).astype(np.float32)


def degree_label(count):
    """Return the degree of a node as a label: exact up to 16, then a power of two."""
    return count if count <= 16 else 2 ** (count - 1).bit_length()


def parts_of(graph):
    """Return nodes, ends (2, E) and edges; edges are undirected, also if they are listed twice."""
    nodes, edges = graph["nodes"], graph["edges"]
    edges = [*{tuple(sorted(edge[:2])): edge for edge in edges}.values()]
    edges += [[v, u, *rest] for u, v, *rest in edges if u != v]
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
    if ends.size and not 0 <= ends.min() <= ends.max() < len(nodes):
        raise ValueError(f"an edge has a node that is not one of {len(nodes)}")
    return nodes, ends, edges


def degrees(nodes, ends):
    """Return the degree of each node as a label."""
    return [degree_label(n) for n in np.bincount(ends[1], minlength=len(nodes)).tolist()]


def of_network(graphs):
    """Return the network's scores of each target."""
    parts = {"x": [], "edge_index": [], "edge_attr": [], "batch": []}
    count = 0
    for number, graph in enumerate(graphs):
        nodes, ends, edges = parts_of(graph)
        if SETUP["has_degrees"]:
            nodes = degrees(nodes, ends)
        parts["x"].append(features(nodes, SETUP["nodes"]))
        parts["edge_index"].append(ends + count)
        if SETUP["edges"]:
            parts["edge_attr"].append(features([edge[2] for edge in edges], SETUP["edges"]))
        parts["batch"].append(np.full(len(nodes), number))
        count += len(nodes)
    return network(
        {k: np.concatenate(rows, axis=int(k == "edge_index")) for k, rows in parts.items() if rows}
    )


def labels_of(values, code):
    """Return labels, or integers as labels; None if there are neither."""
    if code["labels"]:
        return values
    columns = list(code["integer_columns"])
    table = np.array(values, dtype=float).reshape(-1, len(code["means"]))
    return [tuple(row) for row in table[:, columns].astype(int).tolist()] if columns else None


def view_of(graph):
    """Return a graph with a label for each node, and for each edge if edges have any."""
    nodes, ends, edges = parts_of(graph)
    labels = degrees(nodes, ends) if SETUP["has_degrees"] else labels_of(nodes, SETUP["nodes"])
    kinds = labels_of([e[2] for e in edges], SETUP["edges"]) if SETUP["edges"] else None
    new: Any = Graph
    return (new(labels or degrees(nodes, ends), ends, kinds),)


def real_columns(code):
    """Return the columns of numbers that are no integers."""
    return [k for k in range(len(code["means"])) if k not in code["integer_columns"]]


def summary(graph):
    """Return the mean and the standard deviation of each number that is no integer (D,)."""
    nodes, _, edges = parts_of(graph)
    moments = []
    for values, code in ((nodes, SETUP["nodes"]), ([e[2] for e in edges], SETUP["edges"])):
        if code and (columns := real_columns(code)):
            table = np.array(values or [[np.nan] * len(code["means"])], dtype=float)
            table = table.reshape(-1, len(code["means"]))[:, columns]
            moments += [table.mean(0), table.std(0)]
    return np.concatenate(moments)


def of_kernel(k, graphs):
    """Return the kernel machine's scores: subtrees and numbers beside those of the landmarks."""
    has_numbers = any(real_columns(SETUP[of]) for of in ("nodes", "edges") if SETUP[of])
    return machine(k, subtree_features(k, graphs, view_of, (), summary if has_numbers else None))


predicted, predict = program(of_network, of_kernel)


def read(inputs):
    """Return the graphs of lines of JSON."""
    return [json.loads(line) for line in lines_of(inputs) if line.strip()]


if __name__ == "__main__":
    HELP = 'a file with a graph a line, {"nodes": [...], "edges": [...]}, or - for standard input'
    run((HELP, "FILE", "Predict graphs with an exported run."), read, predicted)
