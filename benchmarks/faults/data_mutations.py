"""Mutations of a data file, drawn from a seed: bytes, numbers of headers, and tokens of text."""

from __future__ import annotations

import random
import re

HUGE = (
    *(b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x40"),
    *(b"\x40\x00\x00\x00", b"\xff" * 8, b"\x00\x00\x00\x00\x00\x00\x00\x40", b"9" * 8),
    b"(99999999999,)",
)
MAGIC = (
    *(b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"MATLAB 5.0 MAT-f", b"PAR1", b"0       "),
    *(b"\x1f\x8b", b"\xef\xbb\xbf", b"\xff\xfe", b"BZh9", b"\xfd7zXZ\x00"),
)
TOKENS = (
    *(b'"', b'""', b",", b";", b"\t", b"\r", b"\n", b"\r\n", b"\n\n", b"\0", b"\xff", b"\xe2\x80"),
    *(b"nan", b"inf", b"-1", b"1e400", b"1_000", "١".encode(), b"9" * 400, b"=1+1", b"\x1b[2J"),
    *(b"[", b"]", b"{", b"}", b"null", b"true", b"NaN", b'"\\ud800"', b"[" * 5000, b"\\u0000"),
    *(b"[[1,2],[1,2]]", b'"text":', b"99999999999999999999", b"0", b" ", b"\xc2\xa0", b"\x85"),
    *(b"C1CC", b"[Xx]", b"*", b"(((((", b"%99", b"[999H+99]", b"C.C", b"\xe2\x80\xa8"),
)
_NUMBER = re.compile(rb"-?\d+")
_CELL = re.compile(rb"[^,\t\r\n]*")


def mutated(content: bytes, draw: random.Random, *, is_text: bool) -> bytes:
    """Return a file's content with one to three mutations."""
    data = bytearray(content)
    kinds = (_TEXT_KINDS if draw.random() < 0.8 else _KINDS) if is_text else _KINDS
    for _ in range(draw.randint(1, 3)):
        _mutate(data, draw.choice(kinds), draw)
    return bytes(data)


_KINDS = ("cut", "flip", "swap", "huge", "huge", "zero", "magic", "repeat", "footer")
_TEXT_KINDS = ("cut", "token", "token", "number", "cell", "line", "ends", "repeat")


def _mutate(data: bytearray, kind: str, draw: random.Random) -> None:
    at = draw.randrange(max(1, len(data)))
    length = draw.choice((1, 4, 16, 100))
    match kind:
        case "cut":
            del data[at:]
        case "flip":
            for _ in range(length if data else 0):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case "swap":
            other = draw.randrange(max(1, len(data)))
            first, second = data[at : at + length], data[other : other + length]
            data[at : at + length], data[other : other + length] = second, first
        case "huge":
            number = draw.choice(HUGE)
            at -= at % 4 * draw.randint(0, 1)
            data[at : at + len(number)] = number
        case "zero":
            data[at : at + length] = bytes(len(data[at : at + length]))
        case "magic":
            start = draw.choice(MAGIC)
            data[: len(start)] = start
        case "footer":  # where Parquet and zip declare sizes
            for _ in range(draw.choice((1, 3)) if data else 0):
                data[-1 - draw.randrange(min(len(data), 600))] = draw.randrange(256)
        case "token":
            data[at : at + draw.choice((0, 0, 1, 3))] = draw.choice(TOKENS)
        case "number":
            _replace(data, list(_NUMBER.finditer(data)), draw.choice(TOKENS), draw)
        case "cell":
            cells = [found for found in _CELL.finditer(data) if found[0]]
            _replace(data, cells, draw.choice((b"", *TOKENS)), draw)
        case "line":
            lines = data.split(b"\n")
            chosen = draw.randrange(len(lines))
            match draw.randrange(4):
                case 0:
                    del lines[chosen]
                case 1:
                    lines.insert(chosen, lines[draw.randrange(len(lines))])
                case 2:
                    lines[chosen] += b",further"
                case _:
                    lines[chosen] = lines[chosen].rpartition(b",")[0]
            data[:] = b"\n".join(lines)
        case "ends":
            data[:] = data.replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\n", b"\x85")))
        case _:
            data[at:at] = data[at : at + length]


def _replace(
    data: bytearray, places: list[re.Match[bytes]], value: bytes, draw: random.Random
) -> None:
    if places:
        start, end = draw.choice(places).span()
        data[start:end] = value
