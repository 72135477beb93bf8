"""Documents and labels: reading, tokens, vocabulary, word vectors and batches."""

from representer.data.text.table import (
    Table,
    assemble,
    code_lines,
    read_labeled_lines,
    read_table,
    read_tables,
)
from representer.data.text.vectors import (
    FREQUENT,
    Coverage,
    WordVectors,
    cooccurrence_vectors,
    read_vectors,
)
from representer.data.text.words import (
    Truncation,
    Vocabulary,
    collate,
    document_lengths,
    equal_lengths,
    length_buckets,
    stored_documents,
    stored_texts,
    tokenize,
    tokenize_pieces,
    truncation,
)

__all__ = [
    "FREQUENT", "Coverage", "Table", "Truncation", "Vocabulary", "WordVectors", "assemble",
    "code_lines", "collate", "cooccurrence_vectors", "document_lengths", "equal_lengths",
    "length_buckets", "read_labeled_lines", "read_table", "read_tables", "read_vectors",
    "stored_documents", "stored_texts", "tokenize", "tokenize_pieces", "truncation",
]  # fmt: skip
