"""Predictions of an exported run from its parts, and the command line of predict.py."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.machine import write_utf8

HERE = Path(__file__).parent
SETUP = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
TABLES = HERE / "kernel.npz"
ARRAYS = dict(np.load(TABLES, allow_pickle=False)) if TABLES.exists() else {}


def session() -> Any:
    """Return the network in ONNX, or None where the tables alone predict."""
    if not SETUP["model"]:
        return None
    import onnxruntime

    return onnxruntime.InferenceSession(HERE / SETUP["model"])


SESSION = session()


def arrays_of(k: int) -> dict[str, Any]:
    """Return the arrays of the kernel machine of target k."""
    split = ((name.partition("/"), array) for name, array in ARRAYS.items())
    return {name: array for (target, _, name), array in split if target == str(k)}


def machine(k: int, features: Any) -> tuple[Any, Any]:
    """Return scores (N, W) of the kernel machine of target k, and their variances."""
    arrays = arrays_of(k)
    scores = features @ arrays["coefficients"].T + arrays["intercepts"]
    if "precision" not in arrays:
        return scores, np.zeros_like(scores)
    explained = ((features @ arrays["precision"]) * features).sum(1)
    return scores, np.maximum(SETUP["targets"][k]["ceiling"] - explained, 0.0)[:, None]


def network(inputs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return scores (N, W) and variances of the network, of each target."""
    return by_target(np.array(SESSION.run(None, inputs)[0], dtype=float))


def by_target(outputs: Any) -> list[tuple[Any, Any]]:
    """Return mean and variance over members of outputs (N, W) or (M, N, W), of each target."""
    members = outputs if outputs.ndim == 3 else outputs[None]
    ends = np.cumsum([len(target["classes"] or [0]) for target in SETUP["targets"]])[:-1]
    parts = (np.split(moment, ends, axis=1) for moment in (members.mean(0), members.var(0)))
    return list(zip(*parts, strict=True))


def predictions(
    objects: Any, of_network: Callable[[Any], Any], of_kernel: Callable[[int, Any], Any]
) -> list[Any]:
    """Return, of each target, probabilities (N, C), or numbers and deviations (N, 2)."""
    targets, result = SETUP["targets"], []
    beside = of_network(objects) if any(target["network"] for target in targets) else None
    for k, target in enumerate(targets):
        a, b = target["kernel"], target["network"]
        kernel = of_kernel(k, objects) if a else None
        weighted = [(w, m) for w, m in ((a, kernel), (b, beside and beside[k])) if w and m]
        scores = sum(weight * moments[0] for weight, moments in weighted)
        if target["thresholds"]:  # several labels an object
            result.append(1 / (1 + np.exp(-scores)))
            continue
        if target["classes"]:
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            result.append(chances / chances.sum(axis=1, keepdims=True))
            continue
        total = sum(weight for weight, _ in weighted)
        variance = sum(weight / total * moments[1] for weight, moments in weighted)
        if len(weighted) == 2:
            apart = weighted[0][1][0] - weighted[1][1][0]
            variance = variance + a * b / total**2 * apart**2
        scale, noise = target["calibration"]
        deviation = np.sqrt(scale * target["scale"] ** 2 * variance + noise)
        numbers = np.concatenate([target["mean"] + target["scale"] * scores, deviation], axis=1)
        result.append(numbers)
    return result


def program(
    of_network: Callable[[Any], Any], of_kernel: Callable[[int, Any], Any],
    read: Callable[[Any], Any] = lambda objects: objects,
) -> tuple[Callable[[Any], list[Any]], Callable[[Any], Any]]:  # fmt: skip
    """Return `predictions` as a function of objects, and ``predict``."""

    def predicted(objects: Any) -> list[Any]:
        return predictions(read(objects), of_network, of_kernel)

    def predict(objects: Any) -> Any:
        """Return probabilities (N, C) or numbers (N, 1); of several targets, a list of them."""
        pairs = zip(SETUP["targets"], predicted(objects), strict=True)
        columns = [table if target["classes"] else table[:, :1] for target, table in pairs]
        return columns[0] if len(columns) == 1 else columns

    return predicted, predict


def records(tables: list[Any], group: str | None = None) -> Iterator[list[dict[str, Any]]]:
    """Yield what is predicted for each object, of each target; a group has its own quantiles."""
    for rows in zip(*tables, strict=True):
        entries = []
        for k, (target, row) in enumerate(zip(SETUP["targets"], rows, strict=True)):
            names, bounds = target["classes"], quantiles(k, group)
            if names:
                entry: dict[str, Any] = {"prediction": names[row.argmax()]}
                if target["thresholds"]:
                    there = zip(names, row, target["thresholds"], strict=True)
                    entry["prediction"] = [name for name, p, least in there if p > least]
                entry["probabilities"] = dict(zip(map(str, names), row.tolist(), strict=True))
                if bounds is not None:
                    # the network in ONNX rounds otherwise than in torch
                    inside = 1 - row <= bounds + 1e-9
                    order = np.argsort(-row, kind="stable")
                    entry["set"] = [names[c] for c in order if inside[c]]
            else:
                value, deviation = row.tolist()
                entry = {"prediction": value, "deviation": deviation}
                if bounds is not None:
                    half = float(bounds[0]) * deviation
                    entry["interval"] = [value - half, value + half]
            entries.append(entry)
        yield entries


def quantiles(k: int, group: str | None) -> Any:
    """Return the quantile of each class of target k, or of its number; None without any."""
    conformal, names = SETUP["conformal"], SETUP["targets"][k]["classes"] or [""]
    if not conformal:
        return None
    if conformal["by"] == "class":
        return np.array([conformal["strata"][k].get(str(name), 1.0) for name in names])
    if conformal["by"] == "group":
        strata = conformal["strata"][k]
        if group not in strata:
            raise ValueError(f"--group is {group}; expected one of {', '.join(strata)}")
        return np.full(len(names), strata[group])
    return np.full(len(names), conformal["quantiles"][k])


def as_line(found: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the values of a line: prediction, then probabilities or deviation, then the set."""
    line: list[Any] = []
    for entry in found:
        first = entry["prediction"]
        line.append(", ".join(map(str, first)) if isinstance(first, list) else first)
        line += [round(p, 4) for p in entry.get("probabilities", {}).values()]
        line += [entry["deviation"], *entry.get("interval", ())] if "deviation" in entry else []
        line += ["{" + ", ".join(map(str, entry["set"])) + "}"] if "set" in entry else []
    return line


def lines_of(inputs: Sequence[str]) -> list[str]:
    """Return the lines of files, or of standard input for ``-``; other arguments are lines."""
    lines: list[str] = []
    for word in inputs:
        is_file = len(word) < 256 and "\n" not in word and Path(word).is_file()
        if word != "-" and not is_file:
            lines.append(word)
            continue
        content = sys.stdin.buffer.read() if word == "-" else Path(word).read_bytes()
        lines += content.decode("utf-8-sig").splitlines()
    return lines


def parser_of(what: str, metavar: str, purpose: str) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python predict.py", description=purpose)
    parser.add_argument("input", nargs="+", metavar=metavar, help=what)
    parser.add_argument("--json", action="store_true", help="write a JSON object a line")
    if (SETUP.get("conformal") or {}).get("by") == "group":
        parser.add_argument("--group", help="the group of all objects, for sets and intervals")
    return parser


def run(
    words: tuple[str, str, str], read: Callable[[Sequence[str]], Any],
    predicted: Callable[[Any], list[Any]], shown: Callable[[Any], list[str]] = lambda one: [],
) -> None:  # fmt: skip
    """Read the input, and write a line of tab-separated values for each object."""
    write_utf8()
    chosen = parser_of(*words).parse_args()
    with one_line_errors():
        objects = read(chosen.input)
        tables = predicted(objects) if len(objects) else []
        rows = [*records(tables, getattr(chosen, "group", None))]
    for item, entries in zip(objects, rows, strict=True):
        if chosen.json:
            print(json.dumps(entries if len(entries) > 1 else entries[0], ensure_ascii=False))
        else:
            print(*as_line(entries), *shown(item), sep="\t")
    finish()


class one_line_errors:
    """End with exit code 2 and one line where the input cannot be read."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> None:
        """Write the error, if there is one."""
        if isinstance(error, OSError | ValueError | LookupError | TypeError | ImportError):
            text = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"error: {text}", file=sys.stderr)
            raise SystemExit(2) from None


def finish() -> None:
    """End with exit code 3 if the predictions are not those of the whole run."""
    if SETUP["left_out"]:
        print(f"incomplete: the run predicts with {SETUP['left_out']}, too", file=sys.stderr)
        raise SystemExit(3)
