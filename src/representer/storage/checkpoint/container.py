"""The file format of a checkpoint: a nested value in bytes, guarded by a digest.

    magic          8 bytes   89 "RPRCKP" 0A
    version        uint32    of the format, little-endian as are the sizes
    header size    uint64
    tensors size   uint64
    header         JSON: {"written_by": library version, "value": see tree.py}
    tensors        safetensors, named "0", "1", ...
    digest         32 bytes  SHA-256 of everything before

The frame (all but the meaning of the header's value) is the same in every later version, so that
a file that a newer library wrote can be told from a damaged one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import torch
from torch import Tensor

from representer import __version__
from representer.errors import CheckpointError, KindError, NewerCheckpointError
from representer.storage.checkpoint.tree import MAX_DEPTH, flatten, unflatten
from representer.storage.files import parse_json

MAGIC = b"\x89RPRCKP\n"
VERSION = 1
_FRAME = struct.Struct("<8sIQQ")
_DIGEST_SIZE = hashlib.sha256().digest_size
_MAX_HEADER = 16 * 2**20  # a header of millions of entries is an attack, not a checkpoint


def encode(value: Any) -> list[bytes]:
    """Return the pieces of the file that holds a value.

    Args:
        value: Nested dicts, lists and tuples of tensors, numbers, texts, bools and None.

    Raises:
        KindError: Something in it is of another kind.
    """
    import safetensors.torch

    tree, tensors = flatten(value)
    header = json.dumps({"written_by": __version__, "value": tree}).encode("ascii")
    if len(header) > _MAX_HEADER:
        raise KindError(
            "value", f"{len(header):,} bytes without its tensors", f"at most {_MAX_HEADER:,}"
        )
    slots = {str(i): _storable(tensor) for i, tensor in enumerate(tensors)}
    body = safetensors.torch.save(slots)
    frame = _FRAME.pack(MAGIC, VERSION, len(header), len(body))
    digest = hashlib.sha256(frame)
    digest.update(header)
    digest.update(body)
    return [frame, header, body, digest.digest()]


def decode(data: bytes) -> Any:
    """Return the value that a file holds.

    Args:
        data: The whole file.

    Raises:
        NewerCheckpointError: A newer version of the library wrote it.
        CheckpointError: It is damaged, or something else.
    """
    view = memoryview(data)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise CheckpointError("it is not a checkpoint of this library, or its start is damaged")
    if len(view) < _FRAME.size + _DIGEST_SIZE:
        raise CheckpointError(f"it is cut off after {len(view)} bytes")
    _, version, header_size, body_size = _FRAME.unpack_from(view)
    expected = _FRAME.size + header_size + body_size + _DIGEST_SIZE
    if len(view) != expected:
        raise CheckpointError(f"it has {len(view):,} bytes; {expected:,} were written")
    if hashlib.sha256(view[:-_DIGEST_SIZE]).digest() != bytes(view[-_DIGEST_SIZE:]):
        raise CheckpointError("its content does not match its checksum")
    start = _FRAME.size + header_size
    header = _read_header(bytes(view[_FRAME.size : start]))
    if version > VERSION:
        raise NewerCheckpointError(
            f"it was written by representer {header.get('written_by', '(unknown)')} (format "
            f"{version}); this is {__version__} (format {VERSION}). Install the newer version."
        )
    if version != VERSION or "value" not in header:
        raise CheckpointError(f"its format {version} is unknown")
    return unflatten(header["value"], _read_tensors(bytes(view[start:-_DIGEST_SIZE])))


def _storable(tensor: Tensor) -> Tensor:
    if tensor.layout != torch.strided or tensor.dtype == torch.complex128:
        kind = f"a {tensor.layout} tensor of {tensor.dtype}"
        raise KindError("value", kind, "a dense tensor of a dtype that safetensors has")
    return tensor.detach().cpu().contiguous().clone()  # the clone parts those that share memory


def _read_header(text: bytes) -> dict[str, Any]:
    if len(text) > _MAX_HEADER:
        raise CheckpointError(f"its header has {len(text):,} bytes; at most {_MAX_HEADER:,}")
    try:
        text.decode("ascii")
        header = parse_json(text, max_depth=3 * MAX_DEPTH + 3)  # a dict takes three levels of JSON
    except ValueError:
        raise CheckpointError("its header is not readable") from None
    if not isinstance(header, dict):
        raise CheckpointError("its header is not readable")
    return header


def _read_tensors(body: bytes) -> list[Tensor]:
    import safetensors
    import safetensors.torch

    try:
        slots = safetensors.torch.load(body)
    except (safetensors.SafetensorError, AssertionError, KeyError, RuntimeError, ValueError):
        raise CheckpointError("its tensors are not readable") from None
    try:
        return [slots[str(i)] for i in range(len(slots))]
    except KeyError:
        raise CheckpointError("its tensors are not numbered") from None
