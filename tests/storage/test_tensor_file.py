"""Safetensors files: the header is checked before the body is read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch

from representer.storage.checkpoint import Form, forms_of, read_tensors, require_same_forms

DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.complex64),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)


def test_tensors_of_every_dtype_come_back_to_the_bit(tmp_path: Path) -> None:
    tensors = {str(dtype): torch.ones(2, 3, dtype=dtype) for dtype in DTYPES}
    tensors |= {"scalar": torch.tensor(1.5), "empty": torch.zeros(0, 3)}
    safetensors.torch.save_file(tensors, tmp_path / "w", metadata={"a": "λ"})
    forms = []
    loaded, metadata = read_tensors(tmp_path / "w", check=forms.append)
    assert metadata == {"a": "λ"}
    assert forms == [forms_of(tensors)]
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_that_are_not_finite_are_refused(
    tmp_path: Path, value: float, dtype: torch.dtype
) -> None:
    weights = torch.ones(100, dtype=dtype)
    weights[57] = value
    safetensors.torch.save_file({"w": weights}, tmp_path / "w")
    with pytest.raises(ValueError, match="w holds a number that is not finite"):
        read_tensors(tmp_path / "w")
    if value != value:
        assert read_tensors(tmp_path / "w", is_nan_allowed=True)[0]["w"].isnan().sum() == 1
    else:
        with pytest.raises(ValueError, match="not finite"):
            read_tensors(tmp_path / "w", is_nan_allowed=True)


def header(text: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + body


def entry(shape: object, dtype: object = "F32", end: int = 4) -> bytes:
    values = {"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}
    return json.dumps(values).encode()


@pytest.mark.parametrize("data", [
    b"", b"\x01", b"\xff" * 8, struct.pack("<Q", 2**40) + b"{}", header(b""), header(b"[]"),
    header(b'{"w": 5}'), header(b'{"__metadata__": {"a": 1}}'), header(b"[" * 100 + b"]" * 100),
    header(b"\xff\xfe"), header(entry([1]), bytes(3)), header(entry([1]), bytes(5)),
    header(entry([1], end=8), bytes(4)), header(entry([-1]), bytes(4)),
    header(entry([True]), bytes(4)), header(entry([2**60, 2**60]), bytes(4)),
    header(entry("x"), bytes(4)), header(entry([1], "F33"), bytes(4)),
    header(entry([1], ["F32"]), bytes(4)), b"\x80\x04\x95" + bytes(100),
])  # fmt: skip
def test_a_damaged_or_forged_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "w").write_bytes(data)
    with pytest.raises(ValueError, match=r"."):
        read_tensors(tmp_path / "w")


def test_the_check_comes_before_the_body_is_read(tmp_path: Path) -> None:
    """A sparse file of 64 GB that declares as much costs nothing."""
    text = entry([2**34], end=2**36)
    with (tmp_path / "w").open("wb") as file:
        file.write(header(text))
        file.truncate(8 + len(text) + 2**36)
    with pytest.raises((ValueError, OSError), match=r"in the model|are read"):
        read_tensors(
            tmp_path / "w",
            check=lambda forms: require_same_forms(forms, {"w": Form((1,), torch.float32)}),
        )


def test_the_first_difference_between_file_and_model_is_named() -> None:
    model = {"a": Form((2,), torch.float32), "b": Form((1,), torch.float32)}
    require_same_forms(dict(reversed(model.items())), model)
    for changed, message in (
        ({"a": Form((3,), torch.float32)}, r"a is \(3,\) torch.float32 in the file and \(2,\)"),
        ({"b": Form((1,), torch.int8)}, r"b is \(1,\) torch.int8 in the file"),
        ({"c": Form((1,), torch.int8)}, r"c is .* in the file and missing in the model"),
    ):
        with pytest.raises(ValueError, match=message):
            require_same_forms(model | changed, model)
    with pytest.raises(ValueError, match="b is missing in the file"):
        require_same_forms({"a": model["a"]}, model)
