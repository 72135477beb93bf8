from __future__ import annotations

import io
import json
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from representer.data.text import Vocabulary, WordVectors, read_vectors
from representer.errors import DataError

GLOVE = "the 0.5 -1 2e-3\n. . . 1 2 3\ncat 4 5 6\n"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "vectors.txt"


def read(path: Path, content: str) -> WordVectors:
    path.write_bytes(content.encode())
    return read_vectors(path)


def test_glove_text_is_read_and_tokens_can_contain_spaces(path):
    vectors = read(path, GLOVE)
    assert vectors.words == ("the", ". . .", "cat")
    expected = np.array([[0.5, -1, 0.002], [1, 2, 3], [4, 5, 6]], np.float32)
    np.testing.assert_array_equal(vectors.matrix, expected)
    assert vectors.matrix.dtype == np.float32
    assert vectors.dimensions == 3


@pytest.mark.parametrize(("content", "words", "matrix"), [
    (". . 1 2\na 3 4\n", (". .", "a"), [[1, 2], [3, 4]]),
    ("7 1 2\na 3 4\n", ("7", "a"), [[1, 2], [3, 4]]),
    ("2 3\nthe 1 2 3 \ncat 4 5 6 \n", ("the", "cat"), [[1, 2, 3], [4, 5, 6]]),  # of word2vec
    ("a\u00a0b 1 2\nc\x85 3 4\n", ("a\u00a0b", "c\x85"), [[1, 2], [3, 4]]),
    ("a 1 2\nb 3 4\na 5 6\n", ("a", "b"), [[1, 2], [3, 4]]),
])  # fmt: skip
def test_words_and_vectors_of_a_text(tmp_path, content, words, matrix):
    (tmp_path / "v.txt.xz").write_bytes(lzma.compress(content.encode()))
    for vectors in (read(tmp_path / "v.txt", content), read_vectors(tmp_path / "v.txt.xz")):
        assert vectors.words == words
        assert vectors.matrix.tolist() == matrix


@pytest.mark.parametrize(("name", "content", "message"), [
    ("v.txt", "3 2\na 1 2\nb 3 4\n", "announces 3 words; the file has 2"),
    *(("v.txt", f"{first}\nb 3 4\n", "line 2: more than 1 values")
      for first in ("2 0", "2 " + "9" * 30)),
    ("v.txt", "", r"is empty \(0 bytes\)\. Write or download the file again"),
    ("v.txt", "0 50\n", r"holds no word vector\. Write or download the file again"),
    *(("v.txt", text, "line 1: no word vector") for text in ("\n\n", "just some words\n")),
    ("v.bin", "1 2\na", "Save the vectors as text"),
])  # fmt: skip
def test_files_without_vectors_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize(("line", "message"), [
    ("cat 1 2", "2 values instead of 3"), ("cat", "0 values instead of 3"),
    ("", "0 values instead of 3"), ("cat 1 2 3 4", "more than 3 values"),
    ("cat 1 x 3", "'x' is not a finite number"),
    ("cat 1 nan 3", "'nan' is not a finite number"),
    ("cat 1 1e39 3", "'1e39' is not a finite number"),
    ("cat 1 1_0 3", "'1_0' is not a finite number"), ("cat 1 ١ 3", "is not a finite number"),
    ("cat 1  3", "'' is not a finite number"), (" 1 2 3", "no word before the values"),
])  # fmt: skip
def test_invalid_lines_are_rejected_with_their_number(path, line, message):
    with pytest.raises(DataError, match=rf"line 2: .*{message}"):
        read(path, f"the 1 2 3\n{line}\ndog 1 2 3\n")
    with pytest.raises(DataError, match=rf"line 3: .*{message}"):
        read(path, f"3 3\nthe 1 2 3\n{line}\ndog 1 2 3\n")


def test_an_archive_is_read(tmp_path):
    path = tmp_path / "v.npz"
    np.savez(path, words=["a", "b", "a"], vectors=np.arange(6, dtype=np.float16).reshape(3, 2))
    vectors = read_vectors(path)
    assert vectors.words == ("a", "b")
    assert vectors.matrix.dtype == np.float32


@pytest.mark.parametrize(("arrays", "message"), [
    ({"words": ["a"]}, "holds words instead of words and vectors"),
    ({"words": ["a"], "vectors": np.ones((2, 3))}, r"words has shape \(1,\) and vectors"),
    ({"words": ["a"], "vectors": np.ones(3)}, r"vectors \(3,\)"),
    ({"words": [1], "vectors": np.ones((1, 3))}, "words has dtype int64"),
    ({"words": ["a"], "vectors": [["x"]]}, "vectors <U1"),
    ({"words": ["a", "b"], "vectors": [[1.0], [np.nan]]}, r"vector of 'b' \(row 2\)"),
    ({"words": np.array(["a"], object), "vectors": np.ones((1, 3))}, "no objects"),
])  # fmt: skip
def test_an_archive_of_other_content_is_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "v.npz")


def test_a_damaged_archive_is_rejected(tmp_path):
    path = tmp_path / "v.npz"
    np.savez(path, words=["a"] * 100, vectors=np.ones((100, 3)))
    content = path.read_bytes()
    for damaged in (
        content[:200],
        b"",
        b"not an archive",
        content[:300] + b"\xff" * 9 + content[309:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="cannot be read"):
            read_vectors(path)


PIECES = [
    "a", "b", "1", "2", "3", "-1e5", "nan", "é", "'", " ", "\n", "\t", "2 1\n", "1 0\n",
    "1 " + "9" * 30,
]  # fmt: skip
LINES = st.lists(st.sampled_from(PIECES))


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.one_of(st.binary(max_size=100), LINES.map(lambda x: " ".join(x).encode())))
def test_random_bytes_are_rejected_or_read(tmp_path, content):
    for name in ("v.txt", "v.npz"):
        (tmp_path / name).write_bytes(content)
        try:
            vectors = read_vectors(tmp_path / name)
        except DataError:
            continue
        assert np.isfinite(vectors.matrix).all()
        assert len(set(vectors.words)) == len(vectors.matrix)


def model2vec(folder: Path, vocabulary: object, **tensors: np.ndarray) -> Path:
    folder.mkdir()
    described = {"model": {"type": "WordPiece", "vocab": vocabulary}}
    (folder / "tokenizer.json").write_text(json.dumps(described), "utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


EMBEDDINGS = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize(("vocabulary", "words"), [
    ({"[PAD]": 0, "cat": 1, "##s": 2, "dog": 3}, ("[PAD]", "cat", "dog")),
    ([["<unk>", 0.0], ["▁cat", -1.0], ["s", -2.0], ["▁dog", -3.0]], ("cat", "dog")),
    ({"Ġcat": 1, "s": 2, "Ġdog": 3}, ("cat", "dog")),
])  # fmt: skip
def test_a_model2vec_folder_gives_its_tokens_that_are_words(tmp_path, vocabulary, words):
    folder = model2vec(tmp_path / "model", vocabulary, embeddings=EMBEDDINGS)
    vectors = read_vectors(folder)
    assert vectors.words == words
    np.testing.assert_array_equal(vectors.matrix[-2:], EMBEDDINGS[[1, 3]])


def test_quantized_model2vec_folders_map_tokens_to_rows_and_weight_them(tmp_path):
    tensors = {"mapping": np.array([0, 1, 1]), "weights": np.array([1.0, 0.5, 2.0])}
    folder = model2vec(
        tmp_path / "model", {"a": 0, "b": 1, "c": 2}, embeddings=EMBEDDINGS[:2], **tensors
    )
    expected = [[0, 1], [1, 1.5], [4, 6]]
    np.testing.assert_array_equal(read_vectors(folder).matrix, expected)


@pytest.mark.parametrize(("vocabulary", "tensors", "message"), [
    ({"a": 0, "b": 9}, {"embeddings": EMBEDDINGS}, "has 4 vectors for 10 tokens"),
    ({"a": 0}, {"bias": EMBEDDINGS[0]}, "holds bias instead of embeddings"),
    (7, {"embeddings": EMBEDDINGS}, "has no vocabulary"),
    ({"a": 0}, {"embeddings": EMBEDDINGS * np.nan}, "the vector of 'a' .row 1. is not finite"),
])  # fmt: skip
def test_a_damaged_model2vec_folder_names_its_file(tmp_path, vocabulary, tensors, message):
    with pytest.raises(DataError, match=message):
        read_vectors(model2vec(tmp_path / "model", vocabulary, **tensors))


def test_a_folder_without_a_tokenizer_is_rejected(tmp_path):
    with pytest.raises(DataError, match=r"has no tokenizer.json. A model2vec folder has"):
        read_vectors(tmp_path)


def installed(folder: Path, name: str, files: dict[str, bytes]) -> None:
    (folder / f"{name}-1.0.dist-info").mkdir()
    (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (folder / name).mkdir()
    for file, content in files.items():
        (folder / name / file).write_bytes(content)
    names = [f"{name}/{file},," for file in files]
    (folder / f"{name}-1.0.dist-info" / "RECORD").write_text("\n".join(names))


def as_bytes(save, *arrays, **named) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


def test_an_installed_package_gives_the_vectors_that_it_ships(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    words = pa.table({"index": ["the", "cat"]})
    parquet = as_bytes(lambda buffer: pq.write_table(words, buffer))
    matrix = as_bytes(np.save, EMBEDDINGS[:2])
    installed(tmp_path, "made_up_vectors", {"e.npy": matrix, "index.parquet": parquet})
    installed(tmp_path, "more_vectors", {"glove.txt": GLOVE.encode()})
    installed(tmp_path, "no_vectors", {"__init__.py": b""})
    vectors = read_vectors("made-up-vectors")
    assert vectors.words == ("the", "cat")
    np.testing.assert_array_equal(vectors.matrix, EMBEDDINGS[:2])
    assert read_vectors("more-vectors").words == ("the", ". . .", "cat")
    with pytest.raises(DataError, match="installed package no-vectors has no word vectors"):
        read_vectors("no-vectors")
    with pytest.raises(DataError, match="there is no such file"):
        read_vectors("not-installed-vectors")


def test_words_at_the_beginning_of_a_file_are_kept_beside_the_wanted_ones(path, tmp_path):
    path.write_text("a 1\nb 2\nc 3\nd 4\n")
    np.savez(tmp_path / "v.npz", words=["a", "b", "c", "d"], vectors=np.ones((4, 1)))
    vocabulary = Vocabulary.build([["d"]])
    for file in (path, tmp_path / "v.npz"):
        assert read_vectors(file, vocabulary, frequent=2).words == ("a", "b", "d")


def test_unknown_words_get_vectors_by_their_characters():
    words = ("happy", "happily", "kind", "kindly")
    vectors = WordVectors(words, np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]], np.float32))
    near, far, without = vectors.from_subwords(["happiness", "kindness", "zzz"])
    assert near[0] > near[1]
    assert far[1] > far[0]
    assert without.tolist() == [0, 0]
    vocabulary = Vocabulary.build([["happy", "happiness", "zzz"]])
    matrix, coverage = vectors.align(vocabulary, torch.Generator().manual_seed(0))
    (row,) = vocabulary.encode(["happiness"])
    np.testing.assert_array_equal(matrix[row], near)
    assert coverage.words == {"happy"}
    assert vectors.from_subwords([]).shape == (0, 2)
