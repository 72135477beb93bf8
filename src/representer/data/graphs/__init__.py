"""Reading of labeled graphs in TU format, in tables, in JSON Lines, and of bracketed trees."""

from representer.data.graphs.reading import (
    read_bracketed_trees,
    read_graph_file,
    read_tu,
    tree_record,
)
from representer.data.graphs.records import (
    FEATURES,
    GraphFile,
    GraphRecord,
    Values,
    parse_graph,
    read_graph_tables,
    read_jsonl_graphs,
)

__all__ = [
    "FEATURES", "GraphFile", "GraphRecord", "Values", "parse_graph", "read_bracketed_trees",
    "read_graph_file", "read_graph_tables", "read_jsonl_graphs", "read_tu", "tree_record",
]  # fmt: skip
