"""Documents and labels: reading, tokens, vocabulary, word vectors and batches."""

from representer.data.text.buckets import length_buckets
from representer.data.text.code_lines import code_lines
from representer.data.text.cooccurrence import cooccurrence_vectors
from representer.data.text.equal_lengths import equal_lengths
from representer.data.text.labeled_lines import read_labeled_lines
from representer.data.text.padding import Truncation, collate, truncation
from representer.data.text.table import Table, assemble, read_table, read_tables
from representer.data.text.text_store import (
    document_lengths,
    stored_documents,
    stored_texts,
)
from representer.data.text.tokenize import tokenize
from representer.data.text.vector_files import read_vectors
from representer.data.text.vectors import Coverage, WordVectors
from representer.data.text.vocabulary import Vocabulary

__all__ = [
    "Coverage",
    "Table",
    "Truncation",
    "Vocabulary",
    "WordVectors",
    "assemble",
    "code_lines",
    "collate",
    "cooccurrence_vectors",
    "document_lengths",
    "equal_lengths",
    "length_buckets",
    "read_labeled_lines",
    "read_table",
    "read_tables",
    "read_vectors",
    "stored_documents",
    "stored_texts",
    "tokenize",
    "truncation",
]
