"""One HTML file that predicts and explains a typed text without a server."""

from __future__ import annotations

import base64
import json
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.errors import DataError, KindError
from representer.estimators.text import TextNetwork
from representer.export.c_code import CFile, to_c
from representer.storage import atomic

TOOLS = "clang", "wasm-ld"
_FUNCTIONS = "expf expm1f log1pf tanhf cosf sinf asinhf sqrtf fabsf"  # from JavaScript's Math
MEANING = (
    "The score of a class is its logit minus the mean of all logits. The constant and the "
    "contributions sum to it. That of a word to the network is how much the network's score "
    "changes as the word is read."
)
_HEADERS = {  # of the C library, which clang lacks for WebAssembly
    "math.h": "".join(f"float {name}(float);\n" for name in _FUNCTIONS.split())
    + "".join(f"float {name}(float, float);\n" for name in ("powf", "fminf", "fmaxf"))
    + "#define INFINITY __builtin_inff()\n#define NAN __builtin_nanf(\"\")\n",
    "string.h": "#define memcpy __builtin_memcpy\n",
}  # fmt: skip
_ENTRY = """#include "model.c"
static float input[MODEL_INPUT], state[MODEL_STATE + 1], output[MODEL_OUTPUT];
float *start(void) { model_start(state); return output; }
void step(float token) { input[0] = token; model_step(input, state, output); }
"""
_EXPORTED = ("start", "step", "memory")
_WORDS = r"[\p{L}\p{N}_]"  # what Python's \w is
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # \s
_OF_PYTHON = (  # parts of patterns that JavaScript writes otherwise
    (r"\\U0*([0-9a-f]+)", r"\\u{\1}"),
    (r"\[\^\\W\\d_([^]]*)\]", r"(?![\1])[\\p{L}\\p{Nl}\\p{No}]"),
    (r"(?<!\\)([+*])\+", r"\1"),  # what follows a possessive repetition never matches its end
    (r"\\d", r"\\p{Nd}"), (r"\\b", rf"(?!{_WORDS})".replace("\\", r"\\")),
    (r"\\S", f"[^{_SPACES}]".replace("\\", r"\\")),
)  # fmt: skip


def to_wasm(folder: Path) -> bytes:
    """Compile ``model.c`` of a folder as WebAssembly; functions of libm come from JavaScript."""
    with tempfile.TemporaryDirectory() as name:
        for file, text in (_HEADERS | {"page.c": _ENTRY}).items():
            Path(name, file).write_text(text, encoding="utf-8")
        words = ["clang", "--target=wasm32", "-nostdlib", "-nostdinc", "-std=c99", "-O3"]
        words += ["-msimd128", "-mbulk-memory", f"-I{name}", f"-I{folder}", "-Wl,--no-entry"]
        words += ["-Wl,--allow-undefined", *(f"-Wl,--export={symbol}" for symbol in _EXPORTED)]
        target = Path(name, "page.wasm")
        done = subprocess.run(
            [*words, "-o", str(target), str(Path(name, "page.c"))], capture_output=True, text=True
        )
        if done.returncode:
            problem = f"clang does not compile it: {done.stderr.strip()[:300]}"
            raise DataError(problem, file=folder / "model.c", fix="Check clang's wasm32 target.")
        return target.read_bytes()


def javascript(rules: dict[str, Any]) -> dict[str, Any]:
    """Return the rules of `word_rules` as regular expressions of JavaScript."""

    def written(pattern: str) -> tuple[str, str]:
        flags = "gui" if pattern.startswith("(?i)") else "gu"
        if pattern.startswith("(?x)"):
            pattern = re.sub(r"\s+(#.*)?", "", pattern)
        pattern = re.sub(r"^\(\?[ix]\)", "", pattern)
        for old, new in _OF_PYTHON:
            pattern = re.sub(old, new, pattern)
        return pattern, flags

    def replacement(text: str) -> str:
        return re.sub(r"\\g<0>", "$&", re.sub(r"\\(\d)", r"$\1", text))

    replace = [(*written(pattern), replacement(text)) for pattern, text in rules["replace"]]
    return rules | {"replace": replace, "pattern": written(rules["pattern"])[0]}


def to_html(
    estimator: TextNetwork, path: Path, values: dict[str, Any], arrays: Any, int8: bool
) -> tuple[CFile | None, list[str]]:
    """Write the page; return the network as C, and what of the predictions is left out."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    network, written, left_out = None, None, []
    targets = [dict(target) for target in values["targets"]]
    if any(target["network"] for target in targets):
        try:
            network, written = _network(estimator, int8)
        except KindError as error:
            if not any(target["kernel"] for target in targets):
                raise
            share = 1 - estimator.pool_.share
            left_out.append(f"the network (its share of the predictions is {share:.0%}): {error}")
            targets = [target | {"network": 0.0} for target in targets]
    if (values["conformal"] or {}).get("by") == "group":
        left_out.append("the prediction sets, which are those of a group")
    shown = javascript(
        {key: values[key] for key in ("replace", "pattern", "is_composed", "is_lower")}
    )
    kept = {key: values[key] for key in ("vocabulary", "max_length", "conformal")}
    shares = {name: half.share for name, half in estimator.parts_.items()}
    content = shown | kept | {
        "estimator": type(estimator).__name__, "shares": shares, "targets": targets,
        "network": network, "meaning": MEANING, "kernels": [
            setup and setup | _tables(arrays, k) for k, setup in enumerate(values["kernels"])
        ],
    }  # fmt: skip
    # no "<": a word of the texts must not end the script
    text = json.dumps(content, ensure_ascii=False).replace("<", r"\u003c")
    folders = [Path(__file__).parents[1] / "serving" / "live", Path(__file__).parent]
    loader = FileSystemLoader(folders)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("page.html")
    nonce = secrets.token_urlsafe(16)
    atomic.write_text(path, page.render(nonce=nonce, task="text", offline=text))
    return written and written._replace(path=path), left_out


def _network(estimator: TextNetwork, int8: bool) -> tuple[dict[str, Any], CFile]:
    """Return the network as WebAssembly, and its scores of an empty text."""
    model = estimator.on_cpu().network_.eval()
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        hint = "Install clang and lld."
        raise KindError(
            "this machine", f"one without {' and '.join(missing)}", "one with both", hint=hint
        )
    with tempfile.TemporaryDirectory() as name:
        written = to_c(model, Path(name, "model.c"), int8=int8)
        code = to_wasm(Path(name))
    with torch.no_grad():
        start = model(torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0]))[0].tolist()
    return {"start": start, "code": base64.b64encode(code).decode()}, written


def _tables(arrays: Any, k: int) -> dict[str, Any]:
    """Return the numbers of the kernel machine of target k: base64 of float32."""
    names = "coefficients", "intercepts", "weights0", "weights1"
    return {
        name: base64.b64encode(np.asarray(arrays[f"{k}/{name}"], "<f4").tobytes()).decode()
        for name in names
    }
