"""Read the YAML file of ``--config``; messages name the file and the key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from representer.cli.errors import did_you_mean
from representer.errors import DataError
from representer.numbers import parse_number
from representer.storage.files import parse_yaml, read_bytes

_MOST = 2**16  # bytes; what `fit` writes of it into its run may be longer


def read_config_files(
    words: Sequence[str], names: Collection[str], numeric: Collection[str]
) -> dict[str, Any]:
    """Return the options of all configuration files of a command line; the last one wins.

    Raises:
        DataError: If a file cannot be read, is not a mapping, has an unknown key, or a number that
            is not in the plain notation.
    """
    found: dict[str, Any] = {}
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option, equals, value = word.partition("=")
        if option == "--config" and (equals or following):
            found |= _read(Path(value if equals else following), names, numeric)
    return found


def _read(path: Path, names: Collection[str], numeric: Collection[str]) -> dict[str, Any]:
    try:
        text = read_bytes(path, _MOST, follow_links=True).decode("utf-8")
    except FileNotFoundError:
        raise DataError("there is no such file", file=path, fix="Check the path.") from None
    except UnicodeDecodeError:
        raise DataError("is not UTF-8", file=path, fix="Save it as UTF-8.") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    content, written = parse_yaml(text, file=path)
    if not isinstance(content, dict):
        fix = "Write each option as a line KEY: VALUE."
        raise DataError("holds no options", file=path, fix=fix)
    for key in content:
        if str(key) not in names:
            fix = f"{did_you_mean(str(key), sorted(names))}Known keys: {', '.join(sorted(names))}."
            raise DataError(f"{key!r} is not an option", file=path, fix=fix)
    for key in numeric & content.keys():  # to YAML 1_0 is 10 and 1:30 is 90
        if type(content[key]) in (int, float) and parse_number(written[key]) is None:
            fix = "Write it as 90, 0.5 or 1e-3."
            raise DataError(f"{key} is {written[key]!r}", file=path, fix=fix)
    return content
