"""Export of a trained run: the network, its preprocessing, and a program that uses both."""

from __future__ import annotations

import ast
import base64
import copy
import importlib.util
import io
import json
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import base
from representer.estimators.base import Estimator
from representer.estimators.explanation import KERNEL, NETWORK
from representer.estimators.text import TextNetwork
from representer.export import programs
from representer.export.c_code import CFile, to_c
from representer.export.content import content_of
from representer.export.programs import Interface, interface, to_int8
from representer.models.kernel_model import KernelModel
from representer.storage import atomic
from representer.storage.run import make_folder

# One HTML file that predicts and explains a typed text without a server.

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


PROGRAMS = "representer.export.examples"
KINDS = ("onnx", "torch", "c", "html")
PAGE = "index.html"
STEPS, REPEATS = 40, 30


class ExportedFile(NamedTuple):
    """A network in a file, or in torch.

    Attributes:
        name: Of the file; ``"torch"`` for the network of the run.
        bytes: Size of the file, or of the weights in torch.
        milliseconds: Median time of one sequence of `STEPS` steps.
        parity: The largest differences from the network in torch, at three sizes.
    """

    name: str
    bytes: int
    milliseconds: float
    parity: list[programs.Parity]


class ExportedRun(NamedTuple):
    """The files of an exported run.

    Attributes:
        folder: Where they are.
        files: The network in torch, and as it was exported.
        others: Names of the files beside it: preprocessing, and a program that predicts.
        left_out: What of the run's predictions is not exported, or "".
        c: The network as C, if it is written so.
    """

    folder: Path
    files: tuple[ExportedFile, ...]
    others: tuple[str, ...]
    left_out: str
    c: CFile | None = None


def export_run(
    run: str | Path | Estimator, folder: str | Path, to: str = "onnx", *, int8: bool = False
) -> ExportedRun:
    """Write all that a run predicts with: network, kernel machine, weights, calibration.

    For ONNX, ``predict.py`` beside them computes the predictions of the run with numpy and
    onnxruntime alone; the features of molecules need RDKit, too.

    Args:
        run: The run folder, or a fitted estimator.
        folder: The folder to write, which is made if it is missing.
        to: ``"onnx"``, ``"torch"`` or, for texts alone, ``"c"`` (the network) or ``"html"`` (a page
            that predicts and explains without a server; the network needs clang).
        int8: Write ONNX with weights of 8 bits too, or C or the page with them.

    Raises:
        ArgumentError: `to` is unknown, or weights of 8 bits are requested of a torch program.
        KindError: The run holds no network, or one that cannot be exported.
        MissingExtraError: ONNX or its runtime are not installed.
        DataError: The run is damaged.
        RunFolderError: The folder is a link or a file, or cannot be made.
        StorageError: A file cannot be written; it is as it was.
    """
    if to not in KINDS:
        raise ArgumentError("to", to, " or ".join(map(repr, KINDS)))
    if int8 and to == "torch":
        raise ArgumentError("int8", int8, "False for torch", hint="Export to ONNX.")
    estimator: Any = run if isinstance(run, Estimator) else base.load(run)
    network = estimator.network_
    if network is None and (to not in ("onnx", "html") or int8):
        hint = "Train with --answer network or both."
        raise KindError("the run", "of a kernel alone", "one with a network", hint=hint)
    task, values, arrays, left_out = content_of(estimator, is_page=to == "html")
    if estimator.reading_.get("is_standardized_by_subject") is True:
        values["standardize"] = "subject"
    if to in ("c", "html") and not isinstance(estimator, TextNetwork):
        hint = "Export to ONNX." if to == "html" else "Export to ONNX, or a layer to C."
        raise KindError(
            "the run", f"of the task {task}", f"one of the task text for {to}", hint=hint
        )
    if to == "c":
        return _written_c(estimator, Path(folder), values, int8)
    if to == "html":
        make_folder(Path(folder))
        c, absent = to_html(estimator, Path(folder, PAGE), values, arrays, int8)
        return ExportedRun(Path(folder), (), (PAGE,), " and ".join([*left_out, *absent]), c)
    is_program = network is None or isinstance(network, KernelModel)  # evaluated by predict.py
    if network is not None and is_program and (to == "torch" or int8):
        got, hint = "one whose network is a kernel's", "Export to ONNX: predict.py computes it."
        raise KindError("the run", got, f"one with a layer for {'int8' if int8 else to}", hint=hint)
    described = None if is_program else interface(estimator.on_cpu().network_.eval())
    folder = Path(folder)
    make_folder(folder)
    files = _written_networks(described, folder, to, int8) if described else []
    model = files[1].name if files else None
    others = ["preprocessing.json"]
    missing = " and ".join(left_out)
    text = json.dumps({"model": model, "left_out": missing} | values, ensure_ascii=False, indent=1)
    atomic.write_text(folder / others[0], text + "\n")
    if arrays:
        others.append("kernel.npz")
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        atomic.write_bytes(folder / others[-1], content.getvalue())
    if to == "onnx":
        others.append("predict.py")
        atomic.write_text(folder / others[-1], bundled(f"{PROGRAMS}.{task}"))
    return ExportedRun(folder, tuple(files), tuple(others), missing)


def _written_c(estimator: Any, folder: Path, values: dict[str, Any], int8: bool) -> ExportedRun:
    """Write the network of texts as C, with its vocabulary and classes as JSON."""
    make_folder(folder)
    written = to_c(estimator.on_cpu().network_.eval(), folder / "model.c", int8=int8)
    half = estimator.parts_.get(KERNEL)
    share = half.share if half else 0.0
    missing = f"the kernel machine (its share of the predictions is {share:.0%})" if share else ""
    kept = {k: entry for k, entry in values.items() if k != "kernels"} | {"left_out": missing}
    text = json.dumps(kept, ensure_ascii=False, indent=1)
    atomic.write_text(folder / "preprocessing.json", text + "\n")
    return ExportedRun(folder, (), ("model.c", "model.h", "preprocessing.json"), missing, written)


def _written_networks(
    described: Interface, folder: Path, to: str, int8: bool
) -> list[ExportedFile]:
    """Write a network, and return it with the files."""
    network: Any = described.module.model
    weights = sum(x.nbytes for x in network.state_dict().values())
    files = [_measured("torch", weights, described, described, [])]
    if to == "torch":
        path, write, load = folder / "model.pt2", programs.to_torch, programs.torch_run
    else:
        path, write, load = folder / "model.onnx", programs.to_onnx, programs.onnx_run
    parity = write(network, path)
    files.append(_measured(path.name, path.stat().st_size, described, load(path), parity))
    if int8:
        small = folder / "model.int8.onnx"
        to_int8(path, small)
        loaded = load(small)
        parity = programs.parity(described, loaded)
        files.append(_measured(small.name, small.stat().st_size, described, loaded, parity))
    return files


def scores(run: str | Path | Estimator, exported: ExportedRun, X: Any, y: Any) -> dict[str, Any]:
    """Return how well a run and its exported files predict labeled objects.

    Args:
        run: The run folder, or the estimator.
        exported: What `export_run` wrote.
        X: The objects.
        y: Their labels or numbers.

    Returns:
        For each part that predicts, accuracy or R² by the name of the file.
    """
    estimator: Any = run if isinstance(run, Estimator) else base.load(run)
    table: dict[str, Any] = {}
    for answer in dict.fromkeys((estimator.answer, NETWORK) if exported.files else ()):
        half = estimator.part(answer)
        table[answer] = {"torch": half.score(X, y)}
        for file in exported.files[1:]:
            half = copy.copy(half)
            half.network_ = _FileNetwork(exported.folder / file.name, estimator.network_)
            table[answer][file.name] = half.score(X, y)
    return table


class _FileNetwork(nn.Module):
    """A network that an exported file computes, in place of that of an estimator."""

    def __init__(self, path: Path, network: nn.Module) -> None:
        super().__init__()
        self.config = network.config
        self.run = (programs.onnx_run if path.suffix == ".onnx" else programs.torch_run)(path)
        self.unused = nn.Parameter(torch.zeros(1))  # its device is that of the inputs

    def forward(self, *inputs: Tensor) -> Tensor:
        return torch.from_numpy(self.run(*inputs)[0])


def _measured(
    name: str, size: int, described: Interface, run: Callable[..., Any],
    parity: list[programs.Parity],
) -> ExportedFile:  # fmt: skip
    """Return a file with its size, the time of a call, and its parity."""
    inputs, seconds = described.example({"time": STEPS, "batch": 1}), []
    for _ in range(REPEATS):
        started = time.perf_counter()
        run(*inputs)
        seconds.append(time.perf_counter() - started)
    return ExportedFile(name, size, 1e3 * median(seconds), parity)


# A program in one file: a module with the functions of this library that it imports.

LIBRARY = "representer"
PLAIN = f"{LIBRARY}.export.examples.plain"  # what stands for torch and classes that need it


def bundled(module: str) -> str:
    """Return the source of a module with all that it takes from this library, and no imports of it.

    Classes, functions and constants are copied from where they stand, with what they use in turn;
    annotations are not evaluated, so that their names are left out. Names of `PLAIN` replace
    those of the library and of torch.
    """
    main = _Module(module)
    bundle = _Bundle(main)
    for statement in main.body:
        bundle.add_names_of(main, statement)
    imports = sorted(bundle.imports, key=lambda line: (not line.startswith("import"), line))
    docstring = ast.get_docstring(main.tree) or ""
    parts = [f'"""{docstring}"""', "from __future__ import annotations", "\n".join(imports)]
    body = [main.source_of(statement) for statement in main.body]
    return "\n\n".join([*parts, *bundle.parts, *body]) + "\n"


class _Module:
    """A parsed module of this library."""

    def __init__(self, name: str) -> None:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        self.name = name
        self.source = Path(spec.origin).read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self.lines = self.source.splitlines()
        self.imported: dict[str, tuple[str, str]] = {}  # by local name
        self.defined: dict[str, ast.stmt] = {}
        self.body: list[ast.stmt] = []  # without docstring and imports
        for statement in self.tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                continue
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    source = statement.module or "", alias.name
                    self.imported[alias.asname or alias.name] = source
            elif isinstance(statement, ast.Import):
                for alias in statement.names:
                    self.imported[alias.asname or alias.name] = alias.name, ""
            elif not (isinstance(statement, ast.Expr) and statement is self.tree.body[0]):
                self.body.append(statement)
                for name in _defined(statement):
                    self.defined[name] = statement

    def source_of(self, statement: ast.stmt) -> str:
        """Return the lines of a statement, decorators included."""
        first = min(
            [statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))]
        )
        return "\n".join(self.lines[first - 1 : statement.end_lineno])


class _Bundle:
    """Definitions in the order in which they can run, before those of a module."""

    def __init__(self, root: _Module) -> None:
        self.imports: set[str] = set()
        self.parts: list[str] = []
        self._origins = dict.fromkeys(root.defined, root.name)  # of each name
        self._sources = {root.name: root}

    def add_names_of(self, module: _Module, statement: ast.stmt) -> None:
        """Add all that the names in a statement mean."""
        for name in _used(statement):
            if name in module.imported:
                self._add_import(name, *module.imported[name])
            elif name in module.defined:
                self._add(module, name)

    def _add_import(self, name: str, origin: str, what: str) -> None:
        if name in self._module(PLAIN).defined and origin.partition(".")[0] in (LIBRARY, "torch"):
            self._add(self._module(PLAIN), name)
        elif origin.startswith(f"{LIBRARY}."):
            assert name == what
            self._add(self._module(origin), name)
        else:
            renamed = "" if name == (what or origin) else f" as {name}"
            self.imports.add(
                (f"from {origin} import {what}" if what else f"import {origin}") + renamed
            )

    def _module(self, name: str) -> _Module:
        if name not in self._sources:
            self._sources[name] = _Module(name)
        return self._sources[name]

    def _add(self, module: _Module, name: str) -> None:
        if name in module.imported:  # a package that passes it on
            self._add_import(name, *module.imported[name])
        elif name not in self._origins:
            statement = module.defined[name]
            self._origins |= dict.fromkeys(_defined(statement), module.name)
            self.add_names_of(module, statement)
            self.parts.append(module.source_of(statement))
        elif self._origins[name] != module.name:
            raise ValueError(f"{name} is defined in {module.name} and {self._origins[name]}")


def _defined(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return [node.id for t in targets if t for node in ast.walk(t) if isinstance(node, ast.Name)]


def _used(statement: ast.AST) -> Iterator[str]:
    """Yield the names in a statement, without those of annotations."""
    for field, value in ast.iter_fields(statement):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Name):
                yield child.id
            if isinstance(child, ast.AST):
                yield from _used(child)
