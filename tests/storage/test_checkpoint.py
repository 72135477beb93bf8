"""Checkpoints: what goes in comes out, and what was damaged is never taken for sound."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer import __version__
from representer.errors import CheckpointError, CheckpointVersionError, KindError, StorageError
from representer.storage import atomic, checkpoint
from representer.storage.checkpoint import MAX_DEPTH, Checkpoint, decode, encode

DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64),
)


def example(step: int = 4) -> Checkpoint:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    return Checkpoint(step, state, {"lr": 0.1, "name": "λ"}, {"torch": "2"})


def as_bytes(value: Any) -> bytes:
    return b"".join(encode(value))


def is_same(one: Any, other: Any) -> bool:
    """Compare nested values with their types, tensors and floats to the bit."""
    if isinstance(one, torch.Tensor):
        is_alike = isinstance(other, torch.Tensor) and one.dtype == other.dtype
        return is_alike and one.shape == other.shape and raw(one) == raw(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        is_ordered = [(type(k), k) for k in one] == [(type(k), k) for k in other]
        return is_ordered and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other) or (one != one and other != other)
    return one == other


def raw(tensor: torch.Tensor) -> list[int]:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).tolist() if flat.numel() else []


def tensors() -> st.SearchStrategy[torch.Tensor]:
    shapes = st.lists(st.integers(0, 3), max_size=3)
    return st.builds(
        lambda shape, dtype: torch.randn(shape).mul(3).to(dtype), shapes, st.sampled_from(DTYPES)
    )


def nested() -> st.SearchStrategy[Any]:
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | tensors()
    keys = st.text() | st.integers()
    return st.recursive(
        plain,
        lambda inner: (
            st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner, max_size=4)
        ),
        max_leaves=12,
    )


@settings(deadline=None, max_examples=75)
@given(value=nested())
def test_any_nested_value_survives_a_round_trip(value: Any) -> None:
    assert is_same(decode(as_bytes(value)), value)


def test_an_optimizer_continues_from_a_checkpoint_to_the_bit(tmp_path: Path) -> None:
    saved = example()
    checkpoint.save(tmp_path / "a.ckpt", saved)
    loaded = checkpoint.load(tmp_path / "a.ckpt")
    assert is_same(loaded.state["optimizer"], saved.state["optimizer"])
    assert (loaded.step, loaded.settings, loaded.environment) == (4, saved.settings, {"torch": "2"})


def test_tensors_that_share_memory_are_stored_apart() -> None:
    whole = torch.arange(6.0)
    value = {"whole": whole, "part": whole[2:4], "column": whole.view(2, 3)[:, 1]}
    loaded = decode(as_bytes(value))
    loaded["whole"].zero_()
    assert loaded["part"].tolist() == [2.0, 3.0]
    assert loaded["column"].tolist() == [1.0, 4.0]


def test_equal_values_give_equal_bytes() -> None:
    state = example().state
    assert as_bytes(state) == as_bytes(decode(as_bytes(state)))


@pytest.mark.parametrize(("value", "place", "kind"), [
    ({"a": [1, object()]}, r"value\['a'\]\[1\]", "object"),
    ({"a": np.float64(2)}, r"value\['a'\]", "float64"), ({1.5: 2}, "value", "dict"),
    ({"a": {2, 3}}, r"value\['a'\]", "set"), ([b"bytes"], r"value\[0\]", "bytes"),
    ([1 << 9999], r"value\[0\]", "int"),
    ([torch.zeros(2, dtype=torch.complex128)], "value", "complex128"),
    ([torch.zeros(2, 2).to_sparse()], "value", "sparse"),
])  # fmt: skip
def test_the_error_for_an_unsupported_value_names_its_location(
    value: Any, place: str, kind: str
) -> None:
    with pytest.raises(KindError, match=f"^{place} is .*{kind}"):
        encode(value)


def test_a_file_cut_off_at_any_length_is_refused() -> None:
    data = as_bytes({"step": 1, "weights": torch.arange(5.0)})
    for length in range(len(data)):
        with pytest.raises(CheckpointError):
            decode(data[:length])


def test_a_flip_of_any_bit_is_seen() -> None:
    data = as_bytes({"step": 1, "weights": torch.arange(5.0)})
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CheckpointError):
                decode(bytes(damaged))


def fuzz(cases: int, seed: int) -> int:
    """Mutate, half of the time with the digest made right again; return how many were accepted."""
    draw = random.Random(seed)
    data = as_bytes(example().state)
    accepted = 0
    for _ in range(cases):
        damaged = mutate(bytearray(data), draw)
        is_signed = draw.random() < 0.5
        if is_signed:
            damaged = sign(damaged)
        try:
            decode(damaged)
        except CheckpointError:
            continue
        assert is_signed or damaged == data
        accepted += is_signed
    return accepted


def mutate(data: bytearray, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(max(1, len(data)))
        size = draw.choice((1, 1, 2, 8, 100))
        match draw.randrange(5):
            case 0:
                data[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = draw.randbytes(size)
            case 3:
                data[at : at + size] = bytes(len(data[at : at + size]))
            case _:
                other = draw.randrange(max(1, len(data)))
                data[at : at + size] = data[other : other + size]
    return bytes(data)


DIGEST = re.compile(rb"[0-9a-f]{64}")


def sign(content: bytes) -> bytes:
    """Make the digest right, as an attacker would."""
    zeros = DIGEST.sub(b"0" * 64, content, count=1)
    return DIGEST.sub(hashlib.sha256(zeros).hexdigest().encode(), zeros, count=1)


def test_no_damaged_file_is_accepted_and_no_signed_one_raises_another_error() -> None:
    assert fuzz(4_000, seed=0) > 0


@pytest.mark.slow
def test_100000_damaged_files_are_refused() -> None:
    assert fuzz(100_000, seed=1) > 0


def forged(header: bytes, body: dict[str, torch.Tensor] | None = None, version: int = 2) -> bytes:
    about = f'{{"version": {version}, "sha256": "{"0" * 64}", '
    text = header.decode("latin-1")
    text = about + text[1:] if text.startswith("{") and len(text) > 2 else text
    return sign(safetensors.torch.save(body or {}, {"representer_checkpoint": text}))


@pytest.mark.parametrize("header", [
    b"", b"[1]", b"5", b"null", b"{}", b'{"value": {}}', b'{"value": {"a": 1, "b": 2}}',
    b'{"value": {"tensor": 0}}', b'{"value": {"tensor": -1}}', b'{"value": {"tensor": true}}',
    b'{"value": {"tensor": "0"}}', b'{"value": {"float": "1"}}',
    b'{"value": {"float": ["inf"]}}', b'{"value": {"tuple": 5}}',
    b'{"value": {"dict": {"a": 1}}}', b'{"value": {"dict": [["a", 1], ["a", 2]]}}',
    b'{"value": {"dict": [[[1], 2]]}}', b'{"value": {"dict": [[true, 2]]}}',
    b'{"value": {"dict": [["a"]]}}', b'{"value": {"os.system": "true"}}',
    b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"value": ' + b'{"tuple": [' * 700 + b"]}" * 700 + b"}",
    b'{"value": ' + b"9" * 10_000 + b"}", b"\xff\xfe",
])  # fmt: skip
def test_a_forged_header_is_refused(header: bytes) -> None:
    with pytest.raises(CheckpointError):
        decode(forged(header))


@pytest.mark.parametrize("kind", ["list", "tuple", "dict"])
def test_a_nesting_of_100_levels_is_kept_and_a_deeper_one_refused_both_ways(kind: str) -> None:
    """The interpreter's recursion limit, which other code may have raised, does not matter."""
    wrap = {"list": lambda v: [v], "tuple": lambda v: (v,), "dict": lambda v: {"a": v}}[kind]
    opening, closing = {
        "list": (b"[", b"]"), "tuple": (b'{"tuple": [', b"]}"),
        "dict": (b'{"dict": [["a", ', b"]]}"),
    }[kind]  # fmt: skip
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert decode(as_bytes(value)) == value
    with pytest.raises(KindError, match="nested too deeply"):
        as_bytes(wrap(value))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        depth = MAX_DEPTH + 1
        with pytest.raises(CheckpointError, match=r"nested too deeply|is damaged"):
            decode(forged(b'{"value": ' + opening * depth + b"1" + closing * depth + b"}"))
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "body",
    [{"weights": torch.ones(2)}, {"1": torch.ones(2)}, {"0": torch.ones(2), "00": torch.ones(2)}],
)
def test_forged_tensors_are_refused(body: dict[str, torch.Tensor]) -> None:
    with pytest.raises(CheckpointError):
        decode(forged(b'{"value": {"tensor": 0}}', body))


@pytest.mark.parametrize("data", [
    b"", b"\xff" * 8, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 2**60) + b"{}",
    safetensors.torch.save({"0": torch.ones(2)}),
    safetensors.torch.save({"0": torch.ones(2)}, {"representer_checkpoint": '{"sha256": 1}'}),
])  # fmt: skip
def test_other_safetensors_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="not a checkpoint of this library"):
        decode(data)


def test_a_checkpoint_is_one_safetensors_file(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "a.ckpt", example())
    with safetensors.safe_open(tmp_path / "a.ckpt", "pt") as file:
        about = json.loads(file.metadata()["representer_checkpoint"])
        assert len(file.keys()) > 4
    assert about["written_by"] == __version__


def test_a_checkpoint_of_version_02_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = checkpoint.path_of_step(tmp_path, 1)
    path.write_bytes(b"\x89RPRCKP\n" + bytes(40))
    with pytest.raises(CheckpointVersionError, match=r"Continue with that version, or delete"):
        checkpoint.latest(tmp_path, report=pytest.fail)


def test_a_file_of_a_newer_version_is_distinguished_from_a_damaged_one(tmp_path: Path) -> None:
    header = b'{"written_by": "9.9", "another": "layout"}'
    path = tmp_path / "step-000000001.ckpt"
    path.write_bytes(forged(header, version=7))
    expected = f"written by representer 9.9 .format 7.; this is {__version__} .format 2."
    with pytest.raises(CheckpointVersionError, match=expected):
        checkpoint.load(path)


def test_a_newer_checkpoint_is_not_passed_over(tmp_path: Path) -> None:
    checkpoint.save(checkpoint.path_of_step(tmp_path, 1), example(1))
    newer = forged(b'{"written_by": "9.9"}', version=7)
    checkpoint.path_of_step(tmp_path, 2).write_bytes(newer)
    with pytest.raises(CheckpointVersionError):
        checkpoint.latest(tmp_path, report=pytest.fail)


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match=r"a\.ckpt cannot be used: it is not a checkpoint"):
        checkpoint.load(tmp_path / "a.ckpt")


def test_paths_that_are_not_files_are_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in (".", "pipe", "loop", "none", "nul\0", "x" * 300):
        with pytest.raises(CheckpointError, match="cannot be used"):
            checkpoint.load(tmp_path / name)


def test_sound_content_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    for value in (5, {"step": 1}, {"step": "1", "state": {}, "settings": {}, "environment": {}}):
        (tmp_path / "a").write_bytes(as_bytes(value))
        with pytest.raises(CheckpointError):
            checkpoint.load(tmp_path / "a")


# The checkpoints of a run: pruned after they are replaced, found in spite of damage.


def saved(folder: Path, *steps: int, keep: int = 2) -> list[str]:
    """Save some steps and return what was reported."""
    lines: list[str] = []
    for step in steps:
        state = {"weights": torch.full((3,), float(step))}
        found = Checkpoint(step, state, {}, {})
        checkpoint.save_step(folder, found, report=lines.append, keep=keep)
    return lines


def latest_step(folder: Path, lines: list[str]) -> int | None:
    found = checkpoint.latest(folder, report=lines.append)
    return None if found is None else found.step


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch):
    atomic.reset()
    return lambda text: monkeypatch.setenv(atomic.VARIABLE, text)


def test_the_newest_two_are_kept_or_as_many_as_requested(tmp_path: Path) -> None:
    assert saved(tmp_path, 4, 8, 400) == []
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step-000000008.ckpt", "step-000000400.ckpt"]
    saved(tmp_path, *range(1000, 1010), keep=4)
    assert checkpoint.steps(tmp_path) == [1006, 1007, 1008, 1009]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "step-1.ckpt", "step-000000001.ckpt.bak"):
        (tmp_path / name).write_text("mine")
    saved(tmp_path, 1, 2, 3)
    assert {"notes.txt", "step-1.ckpt", "step-000000001.ckpt.bak"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert latest_step(tmp_path, []) == 3


def test_a_damaged_newest_is_reported_and_passed_over(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    path = checkpoint.path_of_step(tmp_path, 2)
    path.write_bytes(path.read_bytes()[:-5])
    lines: list[str] = []
    assert latest_step(tmp_path, lines) == 1
    assert len(lines) == 1
    assert f"{path} cannot be used" in lines[0]


def test_a_good_one_survives_saves_after_a_damaged_later_one(tmp_path: Path) -> None:
    saved(tmp_path, 4, 8)
    checkpoint.path_of_step(tmp_path, 8).write_bytes(b"damaged")
    saved(tmp_path, 5)
    assert checkpoint.steps(tmp_path) == [4, 5]


def test_without_files_there_is_none(tmp_path: Path) -> None:
    assert latest_step(tmp_path, []) is None
    assert latest_step(tmp_path / "missing", []) is None


def test_if_all_are_damaged_it_is_an_error_and_no_fresh_start(tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoint.path_of_step(tmp_path, step).write_bytes(b"")
    lines: list[str] = []
    with pytest.raises(CheckpointError, match=f"all 2 checkpoints in {tmp_path} are damaged"):
        latest_step(tmp_path, lines)
    assert len(lines) == 2


@pytest.mark.parametrize("action", ["enospc", "eio"])
@pytest.mark.parametrize("stage", ["opened", "begun", "begun:3", "written", "synced"])
def test_a_disk_that_fails_before_the_rename_leaves_the_old_files_and_no_other(
    tmp_path: Path, arm, stage: str, action: str
) -> None:
    saved(tmp_path, 1, 2)
    arm(f"ckpt.{stage}:{action}")
    with pytest.raises(StorageError, match=r"step-000000003\.ckpt cannot be written: ") as caught:
        saved(tmp_path, 3)
    assert caught.value.errno == getattr(errno, action.upper())
    assert caught.value.exit_code == 2
    assert checkpoint.steps(tmp_path) == [1, 2]
    assert len(list(tmp_path.iterdir())) == 2
    assert latest_step(tmp_path, []) == 2


@pytest.mark.parametrize("stage", ["opened", "begun:2", "written", "synced"])
def test_any_other_fault_leaves_no_temporary_file_either(tmp_path: Path, arm, stage: str) -> None:
    saved(tmp_path, 1)
    arm(f"ckpt.{stage}:raise")
    with pytest.raises(RuntimeError, match="failpoint"):
        saved(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.ckpt"]


def test_one_that_cannot_be_deleted_is_reported_and_stops_nothing(tmp_path: Path, arm) -> None:
    saved(tmp_path, 1, 2)
    arm("ckpt.pruned:eio")
    lines = saved(tmp_path, 3)
    assert lines == [
        f"{checkpoint.path_of_step(tmp_path, 1)} is no longer needed and cannot be deleted: "
        "Input/output error"
    ]
    assert latest_step(tmp_path, []) == 3


def test_a_full_disk_tells_what_to_do(tmp_path: Path, arm) -> None:
    arm("ckpt.written:enospc")
    with pytest.raises(StorageError, match=r"no space left on device\. Free some space and start"):
        saved(tmp_path, 1)
