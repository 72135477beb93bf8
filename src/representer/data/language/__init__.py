"""Running text: tokens, vocabulary, training, validation and test parts, streams, segments."""

from representer.data.language.corpus import (
    PARTS,
    cut,
    file_lines,
    find_parts,
)
from representer.data.language.lines import (
    LEVELS,
    Level,
    count_tokens,
    encode_lines,
    text_lines,
    tokens_of_line,
)
from representer.data.language.streams import fixed_segments, fold, variable_segments
from representer.data.language.topics import topics
from representer.data.language.vocabulary import LanguageVocabulary

__all__ = [
    "LEVELS",
    "PARTS",
    "LanguageVocabulary",
    "Level",
    "count_tokens",
    "cut",
    "encode_lines",
    "file_lines",
    "find_parts",
    "fixed_segments",
    "fold",
    "text_lines",
    "tokens_of_line",
    "topics",
    "variable_segments",
]
