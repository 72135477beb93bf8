"""Predict graphs with an exported run: ``python predict.py graphs.jsonl``, as for ``fit graph``."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).parent
SETUP = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
SESSION = onnxruntime.InferenceSession(HERE / SETUP["model"])


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


def network_scores(graphs):
    """Return the network's scores (N, W); edges are undirected, also if they are listed twice."""
    found = {"x": [], "edge_index": [], "edge_attr": [], "batch": []}
    count = 0
    for number, graph in enumerate(graphs):
        nodes, edges = graph["nodes"], graph["edges"]
        edges = [*{tuple(sorted(edge[:2])): edge for edge in edges}.values()]
        edges += [[v, u, *rest] for u, v, *rest in edges if u != v]
        ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
        if SETUP["has_degrees"]:
            nodes = map(degree_label, np.bincount(ends[1], minlength=len(nodes)).tolist())
        found["x"].append(features(nodes, SETUP["nodes"]))
        found["edge_index"].append(ends + count)
        if SETUP["edges"]:
            found["edge_attr"].append(features([edge[2] for edge in edges], SETUP["edges"]))
        found["batch"].append(np.full(len(graph["nodes"]), number))
        count += len(graph["nodes"])
    joined = {
        k: np.concatenate(own, axis=int(k == "edge_index")) for k, own in found.items() if own
    }
    return np.array(SESSION.run(None, joined)[0], dtype=float).mean(axis=0)


def predict(graphs):
    """Return the probability of each class (N, W), or numbers (N, 1)."""
    scores = SETUP["network"] * network_scores(graphs)
    if SETUP["classes"] is None:
        return SETUP["mean"] + SETUP["scale"] * scores
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(print("usage: python predict.py graphs.jsonl", file=sys.stderr) or 2)
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        graphs = [json.loads(line) for line in lines if line.strip()]
    for row in predict(graphs):
        best = row[0] if SETUP["classes"] is None else SETUP["classes"][row.argmax()]
        print(best, *np.round(row, 4), sep="\t")
    if SETUP["left_out"]:
        print(f"incomplete: the run predicts with {SETUP['left_out']}, too", file=sys.stderr)
        raise SystemExit(3)
