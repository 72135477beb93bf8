"""Checkpoints: complete or absent, checked by a digest, free of code."""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer import __version__
from representer.errors import CheckpointError, CheckpointVersionError, KindError
from representer.storage import atomic
from representer.storage.atomic import (
    failpoint,
    opened,
    parse_json,
    physical_memory,
    read_bytes,
    read_exactly,
)

# Read safetensors files, checking names, shapes, dtypes and sizes before reading the body.

_LARGEST_HEADER = 16 * 2**20
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
    "BOOL": torch.bool, "C64": torch.complex64,
}  # fmt: skip


class Form(NamedTuple):
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        """Return shape and dtype in torch's notation."""
        return f"{self.shape} {self.dtype}"


Forms = Mapping[str, Form]


def forms_of(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    """Return the shape and dtype of each tensor."""
    return {name: Form(tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}


def require_same_forms(given: Forms, expected: Forms) -> None:
    """Check that tensors match those of a model in name, shape and dtype."""
    for name in [*expected, *(name for name in given if name not in expected)]:
        if given.get(name) != expected.get(name):
            there, here = given.get(name, "missing"), expected.get(name, "missing")
            raise ValueError(f"{name[:80]} is {there} in the file and {here} in the model")


def read_tensors(
    path: str | Path, *, check: Callable[[Forms], None] = lambda forms: None,
    verify: Callable[[bytes], None] = lambda data: None, is_nan_allowed: bool = False,
) -> tuple[dict[str, Tensor], dict[str, str]]:  # fmt: skip
    """Return the tensors of a file and the metadata of its header.

    ``check`` is called with names, shapes and dtypes before memory is allocated, ``verify`` with
    the whole file before it is parsed; they raise to refuse it. Infinite numbers are always
    refused.

    Raises:
        OSError: The file cannot be read.
    """
    import safetensors
    import safetensors.torch

    with opened(path, physical_memory()) as (descriptor, size):
        start = read_exactly(descriptor, min(size, 8), path)
        length = _header_size(start, size)
        header = read_exactly(descriptor, length, path)
        forms, metadata = _read_forms(header)
        check(forms)
        needed = 8 + length + sum(math.prod(f.shape) * f.dtype.itemsize for f in forms.values())
        if needed != size:
            raise ValueError(f"it has {size:,} bytes; its header declares {needed:,}")
        body = read_exactly(descriptor, size - 8 - length, path)
    data = b"".join((start, header, body))
    verify(data)
    try:
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, AssertionError, KeyError, RuntimeError) as error:
        raise ValueError(str(error)) from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            is_bad = tensor.isinf() if is_nan_allowed else ~tensor.isfinite()
            if is_bad.any():
                raise ValueError(f"{name[:80]} holds a number that is not finite")
    return tensors, metadata


def _header_size(start: bytes, size: int) -> int:
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if not 0 < length <= min(_LARGEST_HEADER, size - 8):
        raise ValueError("it is not a safetensors file, or its start is damaged")
    return length


def _read_forms(header: bytes) -> tuple[dict[str, Form], dict[str, str]]:
    values = parse_json(header, max_depth=8)
    if not isinstance(values, dict):
        raise ValueError("its header is not an object")
    metadata = values.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its metadata are not strings")
    return {name: _form(value) for name, value in values.items()}, metadata


def _form(value: Any) -> Form:
    if not isinstance(value, dict):
        raise ValueError("its header does not describe tensors")
    shape, dtype = value.get("shape"), value.get("dtype")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"it has a tensor of unsupported dtype {str(dtype)[:20]!r}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError("it has a tensor without a shape")
    return Form(tuple(shape), _DTYPES[dtype])


# Nested Python values as JSON plus a list of tensors, exactly.
#
#     None, bool, int, str, finite float    themselves
#     list                                  a JSON array
#     tuple                                 {"tuple": [...]}
#     dict with str or int keys             {"dict": [[key, value], ...]}, in its order
#     infinite float or NaN                 {"float": "inf" | "-inf" | "nan"}
#     tensor                                {"tensor": its place in the list}
#
# What `unflatten` gives back is equal to what `flatten` took, in value and in type. Neither ever
# looks up a class or a function by a name found in the data.

_PLAIN = (type(None), bool, int, str)
_KINDS = "a tensor, int, float, str, bool, None, list, tuple, or dict with str or int keys"
_MAX_INT_BITS = 4096  # decimal text of more is refused by Python's own reader
MAX_DEPTH = 100  # a limit of its own: the interpreter's recursion limit may have been raised


def flatten(value: Any) -> tuple[Any, list[Tensor]]:
    """Take a nested value apart.

    Returned are a value for ``json.dumps``, and the tensors it refers to.

    Raises:
        KindError: Something in it is of a kind that cannot be stored; the message says where.
    """
    tensors: list[Tensor] = []
    return _flatten(value, tensors, "value", 0), tensors


def unflatten(node: Any, tensors: Sequence[Tensor], depth: int = 0) -> Any:
    """Reconstruct the value of `flatten`.

    Raises:
        CheckpointError: The value is not one that `flatten` makes.
    """
    _require(depth <= MAX_DEPTH, "it is nested too deeply")
    if isinstance(node, _PLAIN):
        return node
    if isinstance(node, float):
        return node
    if isinstance(node, list):
        return [unflatten(item, tensors, depth + 1) for item in node]
    _require(isinstance(node, dict) and len(node) == 1, "a node is not a tagged value")
    ((tag, content),) = node.items()
    if tag == "tensor":
        _require(type(content) is int and 0 <= content < len(tensors), "a tensor is missing")
        return tensors[content]
    if tag == "float":
        _require(content in ("inf", "-inf", "nan"), "a number is not one")
        return float(content)
    _require(tag in ("tuple", "dict") and isinstance(content, list), f"unknown tag {tag!r}")
    if tag == "tuple":
        return tuple(unflatten(item, tensors, depth + 1) for item in content)
    return _unflatten_dict(content, tensors, depth)


def _unflatten_dict(pairs: list[Any], tensors: Sequence[Tensor], depth: int) -> dict[Any, Any]:
    result = {}
    for pair in pairs:
        _require(isinstance(pair, list) and len(pair) == 2, "an entry is not a pair")
        _require(type(pair[0]) in (str, int), "a key is neither text nor integer")
        _require(pair[0] not in result, "a key occurs twice")
        result[pair[0]] = unflatten(pair[1], tensors, depth + 1)
    return result


def _flatten(value: Any, tensors: list[Tensor], where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise KindError(where, "nested too deeply", f"at most {MAX_DEPTH} levels")
    if isinstance(value, Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    value_type = type(value)
    if value_type is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if value_type in _PLAIN and not (value_type is int and value.bit_length() > _MAX_INT_BITS):
        return value
    if value_type is list or value_type is tuple:
        items = [_flatten(v, tensors, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
        return items if value_type is list else {"tuple": items}
    if isinstance(value, dict) and all(type(key) in (str, int) for key in value):
        pairs = [[k, _flatten(v, tensors, f"{where}[{k!r}]", depth + 1)] for k, v in value.items()]
        return {"dict": pairs}
    raise KindError(where, value_type.__name__, _KINDS, hint="Convert it before it is stored.")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise CheckpointError(f"the header is not a checkpoint's: {problem}")


# The file of a checkpoint: safetensors. Its tensors are named "0", "1", ...; the metadata hold the
# JSON text {"version", "written_by", "sha256", "value": see `flatten`}. The digest is that of the
# whole file with zeros in its place, since safetensors itself notices few kinds of damage.

VERSION = 2
_ENTRY = "representer_checkpoint"
_NO_DIGEST = b"0" * 64
_FORMAT_1 = b"\x89RPRCKP\n"  # how checkpoints of version 0.2 begin


def encode(value: Any) -> list[bytes]:
    """Return the pieces of the file that holds a value.

    It is made of dicts, lists and tuples of tensors, numbers, texts, bools and None.
    """
    import safetensors.torch

    tree, tensors = flatten(value)
    about = {"version": VERSION, "written_by": __version__, "sha256": _NO_DIGEST.decode()}
    text = json.dumps(about | {"value": tree})
    if (size := len(json.dumps(text))) > _LARGEST_HEADER // 2:  # the rest is for the tensors
        expected = f"at most {_LARGEST_HEADER // 2:,}"
        raise KindError("value", f"{size:,} bytes without its tensors", expected)
    slots = {str(i): _storable(tensor) for i, tensor in enumerate(tensors)}
    data = safetensors.torch.save(slots, {_ENTRY: text})
    start = data.index(_NO_DIGEST)
    digest = hashlib.sha256(data).hexdigest().encode()
    return [data[:start], digest, data[start + len(digest) :]]


def decode(data: bytes) -> Any:
    """Return the value that a file holds."""
    import safetensors
    import safetensors.torch

    if data.startswith(_FORMAT_1):
        raise CheckpointVersionError(
            "it was written by representer 0.2 or before. Continue with that version, or delete "
            "the folder of the run and start it anew."
        )
    try:
        end = 8 + _header_size(data[:8], len(data))
        text = _read_forms(data[8:end])[1][_ENTRY]
        about = parse_json(text, max_depth=3 * MAX_DEPTH + 3)  # a dict takes three levels of JSON
        digest, version = about["sha256"].encode(), about["version"]
        start = data.index(digest, 8, end)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError("it is not a checkpoint of this library, or is damaged") from None
    hashed = hashlib.sha256(data[:start] + _NO_DIGEST)
    hashed.update(memoryview(data)[start + len(digest) :])
    if hashed.hexdigest().encode() != digest:
        raise CheckpointError("its content does not match its checksum")
    if type(version) is int and version > VERSION:
        raise CheckpointVersionError(
            f"it was written by representer {about.get('written_by', '(unknown)')} (format "
            f"{version}); this is {__version__} (format {VERSION}). Install the newer version."
        )
    if version != VERSION or "value" not in about:
        raise CheckpointError("its format is unknown")
    try:
        slots = safetensors.torch.load(data)
    except (safetensors.SafetensorError, AssertionError, KeyError, RuntimeError, ValueError):
        raise CheckpointError("its tensors are not readable") from None
    _require(slots.keys() == {str(i) for i in range(len(slots))}, "its tensors are not numbered")
    return unflatten(about["value"], [slots[str(i)] for i in range(len(slots))])


def _storable(tensor: Tensor) -> Tensor:
    if tensor.layout != torch.strided or tensor.dtype not in _DTYPES.values():
        got = f"a {tensor.layout} tensor of {tensor.dtype}"
        raise KindError("value", got, "a dense tensor of a dtype that safetensors has")
    return tensor.detach().cpu().contiguous().clone()  # the clone parts those that share memory


# A checkpoint: everything that an interrupted run needs to continue exactly.


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after a step.

    Args:
        step: Optimization steps done.
        state: Weights, optimizer, random states and position, see ``training_state``.
        settings: Settings that determine the run; a resumed run must have the same.
        environment: What else the results may depend on, see ``generators``.
    """

    step: int
    state: dict[str, Any]
    settings: dict[str, Any]
    environment: dict[str, str]


def save(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically.

    Raises:
        KindError: A value of the state cannot be stored.
        StorageError: It cannot be written; the previous file is unchanged.
    """
    values = {field.name: getattr(checkpoint, field.name) for field in fields(Checkpoint)}
    atomic.write_bytes(path, *encode(values))


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: The file.

    Raises:
        CheckpointVersionError: Another version of the library wrote it.
        CheckpointError: It is missing, damaged, or not a checkpoint.
    """
    try:
        values = decode(_read(Path(path)))
        return _from_values(values)
    except CheckpointError as error:
        raise type(error)(f"{path} cannot be used: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, physical_memory())
    except OSError as error:
        raise CheckpointError(f"{(error.strerror or str(error)).lower()}") from None
    except ValueError:  # a NUL in the name
        raise CheckpointError("that is not a path") from None


def _from_values(values: Any) -> Checkpoint:
    kinds = {"step": int, "state": dict, "settings": dict, "environment": dict}
    if not isinstance(values, dict) or set(values) != set(kinds):
        raise CheckpointError("it does not hold the state of a run")
    for name, expected in kinds.items():
        if type(values[name]) is not expected:
            raise CheckpointError(f"its {name} is not of the right kind")
    return Checkpoint(**values)


# The checkpoints of a run: write one, keep the newest few, and find the newest valid one.

_NAME = re.compile(r"step-([0-9]{9,})\.ckpt")


def path_of_step(folder: str | Path, step: int) -> Path:
    """Return the path of the checkpoint of a step, for example ``step-000000400.ckpt``."""
    return Path(folder) / f"step-{step:09d}.ckpt"


def steps(folder: str | Path) -> list[int]:
    """Return the steps with a checkpoint in a folder, valid or damaged, in ascending order."""
    folder = Path(folder)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def save_step(
    folder: str | Path, checkpoint: Checkpoint, *, report: Callable[[str], None], keep: int = 2
) -> Path:
    """Write the checkpoint of a step, and then delete those that are no longer needed.

    Checkpoints of later steps are deleted, too: `latest` found them damaged, and the run continued
    from an earlier one. ``keep`` counts the new one. A file that cannot be deleted is reported;
    training continues.

    Raises:
        StorageError: It cannot be written; all earlier checkpoints are kept.
    """
    path = path_of_step(folder, checkpoint.step)
    save(path, checkpoint)
    earlier = [step for step in steps(folder) if step <= checkpoint.step]
    for step in sorted(set(steps(folder)) - set(earlier[-keep:])):
        obsolete = path_of_step(folder, step)
        try:
            failpoint("ckpt.pruned")
            obsolete.unlink(missing_ok=True)
        except OSError as error:
            report(f"{obsolete} is no longer needed and cannot be deleted: {error.strerror}")
    return path


def latest(folder: str | Path, *, report: Callable[[str], None]) -> Checkpoint | None:
    """Read the newest valid checkpoint.

    It is None if the folder has none.

    Raises:
        CheckpointVersionError: Another version of the library wrote the newest one; an earlier one
            would discard its training.
    """
    saved_steps = steps(folder)
    for step in reversed(saved_steps):
        try:
            return load(path_of_step(folder, step))
        except CheckpointVersionError:
            raise
        except CheckpointError as error:
            report(f"{error}; trying the one before")
    if saved_steps:
        raise CheckpointError(
            f"all {len(saved_steps)} checkpoints in {folder} are damaged. "
            "Delete the folder of the run and start it anew."
        )
    return None


__all__ = ["Checkpoint", "latest", "load", "path_of_step", "save", "save_step", "steps"]
