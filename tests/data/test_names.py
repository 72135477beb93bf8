"""Names in files, of classes, columns and nodes, are equal however their accents were typed."""

from __future__ import annotations

import json

import numpy as np

from representer.data.graphs import read_graph_tables, read_jsonl_graphs
from representer.data.molecules import read_molecules
from representer.data.signals import read_recordings
from representer.data.text import read_table

ONE, TWO = "caf\u00e9", "cafe\u0301"  # composed and decomposed


def test_labels_and_columns_of_texts(tmp_path):
    (tmp_path / "t.csv").write_text(f"document,{TWO}\ngood,{ONE}\nbad, {TWO} \n")
    table = read_table(tmp_path / "t.csv", label=ONE)
    assert table.labels == [ONE, ONE]
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": "good", "label": TWO}) + "\n")
    assert read_table(tmp_path / "t.jsonl").labels == [ONE]


def test_labels_of_molecules(tmp_path):
    (tmp_path / "m.csv").write_text(f"smiles,kind\nCO,{ONE}\nCC,{TWO}\n")
    assert read_molecules(tmp_path / "m.csv", target="kind").targets == [(ONE,), (ONE,)]


def test_labels_and_nodes_of_graphs(tmp_path):
    (tmp_path / "graphs.csv").write_text(f"id,label\n{ONE},{TWO}\n")
    (tmp_path / "nodes.csv").write_text(f"graph,node,kind\n{TWO},a,{TWO}\n{ONE},b,{ONE}\n")
    (tmp_path / "edges.csv").write_text(f"graph,source,target\n{TWO},a,b\n")
    (graph,) = read_graph_tables(tmp_path).graphs
    assert (graph.label, list(graph.nodes), graph.count) == (ONE, [ONE, ONE], 2)
    line = json.dumps({"nodes": ["C"], "edges": [], "label": TWO})
    (tmp_path / "graphs.jsonl").write_text(line)
    assert read_jsonl_graphs(tmp_path / "graphs.jsonl").graphs[0].label == ONE


def test_labels_and_subjects_of_recordings_but_not_their_files(tmp_path):
    rows = (TWO, ONE, ONE), ("b", TWO, TWO), ("c", "rest", "B")
    for name, _, _ in rows:
        np.savetxt(tmp_path / f"{name}.csv", np.ones((9, 1)), header="a", comments="")
    listed = ["file,label,subject,fs", *(f"{file}.csv,{y},{s},3" for file, y, s in rows)]
    (tmp_path / "recordings.csv").write_text("\n".join(listed))
    read = read_recordings(tmp_path / "recordings.csv")
    assert (read.classes, set(read.subjects.tolist())) == ((ONE, "rest"), {ONE, "B"})
