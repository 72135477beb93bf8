"""Check the layout rules: file sizes, docstrings, a test file per module, safe calls."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from representer.options.registry import TASKS

ROOT = Path(__file__).parent.parent
SRC, TESTS = ROOT / "src", ROOT / "tests"
MODULES = sorted(SRC.rglob("*.py"))
SOURCES = sorted(path for path in SRC.rglob("*") if path.suffix in (".py", ".cpp", ".hpp"))

LARGEST = 400 * 1024
MODULES_THAT_UNPICKLE = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load", "os.system"}
CHECKED_OPTIONS = ("shell", "allow_pickle")
FORBIDDEN_WORDS = {  # in two parts each, so that this file may be searched too
    "/" + r"work/": "a path of one machine",
    "/" + r"home/\w": "a path of one machine",
    "/" + r"tmp/w/": "a path of one machine",
    r"\bTO" + r"DO\b(?!\()": "a TO" + "DO without the event that ends it, in parentheses",
    r"\bFIX" + r"ME\b": "an unfinished place",
}
# Modules that tests reach by commands, methods and recipes alone.
REACHED = {
    "src/representer/cli/use.py",
    "src/representer_papers/rkm2019/language.py", "src/representer_papers/rkm2019/published.py",
    "src/representer_papers/string_graph2017/language.py",
}  # fmt: skip


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


@cache
def walked(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a tree; each rule looks at all of them."""
    return list(ast.walk(tree))


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def public_names(module: Path) -> set[str]:
    """Return the names that a module defines for others."""
    defined = {
        node.name
        for node in parsed(module).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    return {name for name in defined if not name.startswith("_")}


def dotted(node: ast.expr) -> str:
    """Return the name of what is called, such as ``np.load``; writing out all code is slow."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def unsafe_places(tree: ast.AST) -> Iterator[str]:
    """Yield what a syntax tree does that could run foreign code, with the line."""
    for node in walked(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            from_module = node.module if isinstance(node, ast.ImportFrom) else None
            for name in [from_module] if from_module else [alias.name for alias in node.names]:
                if name.partition(".")[0] in MODULES_THAT_UNPICKLE:
                    yield f"line {node.lineno}: imports {name}"
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func)
        options = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg in CHECKED_OPTIONS}
        if called in FORBIDDEN_CALLS:
            yield f"line {node.lineno}: {called}(...)"
        if options.get("shell", "False") != "False":
            yield f"line {node.lineno}: shell={options['shell']}"
        if called in ("np.load", "numpy.load") and options.get("allow_pickle") != "False":
            yield f"line {node.lineno}: {called} without allow_pickle=False"


def test_a_source_file_has_at_most_700_lines():
    lengths = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 700} == {}


def test_a_module_says_in_the_first_line_what_it_is():
    first = {name_of(m): (ast.get_docstring(parsed(m)) or "").partition("\n")[0] for m in MODULES}
    assert {name: line for name, line in first.items() if not line.endswith(".")} == {}


def test_files_of_tests_outside_of_packages_have_different_names():
    """Python imports one module of a name, and pytest then refuses the second file."""
    files = [p for p in TESTS.rglob("*.py") if not (p.parent / "__init__.py").exists()]
    names = Counter(p.name for p in files if p.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []


def of_demos() -> set[str]:
    """Return the files of each task, whose demo `tests/tasks/test_registry.py` runs."""
    modules = {
        place.partition(":")[0]
        for name, task in TASKS.items()
        for place in (f"representer.options.{name}", task.functions["fit"], *task.estimators)
    }
    return {f"src/{module.replace('.', '/')}.py" for module in modules}


def test_every_module_has_tests():
    """A test uses a public name of each module."""
    words = {
        word
        for test in TESTS.rglob("*.py")
        for word in re.findall(r"\w+", test.read_text(encoding="utf-8"))
    }
    untested = [
        name_of(module)
        for module in MODULES
        if (public := public_names(module)) and not words & public
    ]
    assert set(untested) - of_demos() == REACHED


def test_nothing_is_called_that_could_run_foreign_code():
    found = {name_of(module): list(unsafe_places(parsed(module))) for module in MODULES}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize("line", [
    "torch.load(path)", "import pickle", "from pickle import loads", "eval(text)", "exec(text)",
    "yaml.load(file)", "subprocess.run(words, shell=True)", "np.load(path)",
    "np.load(path, allow_pickle=True)",
])  # fmt: skip
def test_the_search_for_unsafe_calls_finds(line: str):
    assert list(unsafe_places(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["model.eval()", "yaml.safe_load(file)", "safetensors.torch.load(body)"]
)
def test_the_search_for_unsafe_calls_passes_over(line: str):
    assert not list(unsafe_places(ast.parse(line)))


def public_values() -> Iterator[tuple[str, Any]]:
    """Yield every name of every ``__all__`` with what it names."""
    for init in (m for m in MODULES if m.stem == "__init__"):
        package = importlib.import_module(".".join(init.parent.relative_to(SRC).parts))
        for name in getattr(package, "__all__", ()):
            yield f"{package.__name__}.{name}", getattr(package, name)


def test_a_public_name_can_be_imported_and_says_what_it_is():
    silent = []
    for name, value in public_values():
        docstring = value.__doc__ or ""
        if inspect.isclass(value) and docstring.startswith(f"{value.__name__}("):
            docstring = ""  # written by dataclass or NamedTuple
        can_have_one = inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
        silent += [name] if can_have_one and not docstring else []
    assert silent == []


def test_a_layer_cites_its_paper_and_says_where_its_arguments_are_described():
    layers = {
        name: value
        for name, value in public_values()
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and name.startswith("representer.nn.")
    }
    assert "representer.nn.RKMLSTM" in layers
    for name, layer in layers.items():
        docstring = layer.__doc__ or ""
        assert "References:" in docstring, name
        assert "Args:" in docstring or ":class:`~representer.nn." in docstring, name
        assert ".. math::" in docstring, name


def test_no_tracked_file_is_large():
    assert [name_of(p) for p in tracked_files() if p.stat().st_size > LARGEST] == []


def test_no_tracked_file_holds_a_path_of_one_machine_or_an_unfinished_place():
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for pattern, what in FORBIDDEN_WORDS.items():
            found += [f"{name_of(path)}: {what}: {m[0]}" for m in re.finditer(pattern, text)]
    assert found == []


OF_EVERY_OP = {"Operands", "Results", "StepOperands", "Step"}  # each folder of `ops` has its own


@cache
def defined(tree: ast.AST) -> set[str]:
    """Return what a module defines: functions, classes, variables and attributes of ``self``."""
    names = {n.name for n in walked(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for node in walked(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if is_of_self(node) else set()
    return names


def is_of_self(node: ast.Attribute) -> bool:
    value = node.value
    value = value.func if isinstance(value, ast.Call) else value
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "super")


def foreign_privates(tree: ast.AST, privates: set[str]) -> Iterator[str]:
    """Yield each use of a private name of another module, out of those of the whole package."""
    foreign = privates - defined(tree)
    for node in walked(tree):
        if isinstance(node, ast.Attribute) and node.attr in foreign and not is_of_self(node):
            yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("representer"):
            yield from (
                f"line {node.lineno}: {alias.name}"
                for alias in node.names
                if alias.name.startswith("_") and not alias.name.startswith("__")
            )


def test_no_module_uses_a_private_name_of_another():
    of_libraries = {"_asdict", "_fields", "_make", "_replace", "_check", "_parameters", "_schema"}
    trees = {name_of(module): parsed(module) for module in MODULES}
    names = {name for tree in trees.values() for name in defined(tree)}
    privates = {n for n in names if n.startswith("_") and n[1:2] not in ("", "_")} - of_libraries
    uses = {name: list(foreign_privates(tree, privates)) for name, tree in trees.items()}
    assert {name: places for name, places in uses.items() if places} == {}


@pytest.mark.parametrize("line", ["estimator._moments(x)", "from representer.ops import _moments"])
def test_the_search_for_private_names_finds(line: str):
    assert list(foreign_privates(ast.parse(line), {"_moments"}))
    assert not list(foreign_privates(ast.parse("self._moments(x)"), {"_moments"}))


def test_a_public_class_stands_once():
    modules = [m for m in MODULES if m.is_relative_to(SRC / "representer")]
    classes = Counter(
        node.name
        for module in modules
        for node in parsed(module).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if not (node.name in OF_EVERY_OP and module.is_relative_to(SRC / "representer/ops"))
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_a_public_method_says_what_it_does_itself_or_by_what_it_overrides():
    classes = {
        node.name: node
        for module in MODULES
        for node in parsed(module).body
        if isinstance(node, ast.ClassDef)
    }

    def is_described(owner: str, method: str) -> bool:
        methods = [m for m in classes[owner].body if getattr(m, "name", "") == method]
        bases = [dotted(getattr(base, "value", base)) for base in classes[owner].bases]
        bases = [name for base in bases if (name := base.rpartition(".")[2]) in classes]
        return any(map(ast.get_docstring, methods)) or any(is_described(b, method) for b in bases)

    silent = [
        f"{owner}.{method.name}"
        for owner, node in classes.items()
        for method in node.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
        if not owner.startswith("_") and not is_described(owner, method.name)
    ]
    assert silent == []


# Names that say nothing of what they name, of local variables.

VAGUE = {"at", "found", "given", "kind", "known", "one", "own", "part", "place"}


def vague_names(tree: ast.AST) -> Iterator[str]:
    """Yield each assignment to a vague name; fields of a class are public."""
    fields = {
        id(field)
        for node in walked(tree)
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign | ast.Assign)
        for field in ([line.target] if isinstance(line, ast.AnnAssign) else line.targets)
    }
    for node in walked(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE:
            yield from [f"line {node.lineno}: {node.id}"] if id(node) not in fields else []


def test_a_local_variable_says_what_it_holds():
    modules = [m for m in MODULES if m.is_relative_to(SRC / "representer")]
    modules = [m for m in modules if "tl." not in m.read_text(encoding="utf-8")]  # of Triton
    names = {name_of(module): list(vague_names(parsed(module))) for module in modules}
    assert {name: places for name, places in names.items() if places} == {}
    assert list(vague_names(ast.parse("own = 1"))) == ["line 1: own"]


# The graph of imports: no circles, and no small module that one other alone uses.

BOTH_WAYS = {  # `kernel.network` and `layer.kernel`
    "representer.duality", "representer.kernel_network", "representer.kernels", "representer.nn",
}  # fmt: skip
CONCEPTS_OF_THEIR_OWN = {  # small, with one importer, and no part of it
    "representer.ops.string_gram",  # an operation on the core, for one kernel
}


def imports_of(name: str, tree: ast.AST, modules: set[str]) -> set[str]:
    """Return the modules of the package that one imports, in functions too, but not for types."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [each if each in modules else node.module for each in inner]
        found |= {*names} & modules
        found |= imports_of(name, node, modules)
    return found - {name}


@cache
def graph_of_imports() -> dict[str, set[str]]:
    names = {".".join(m.relative_to(SRC).with_suffix("").parts): m for m in MODULES}
    names = {name.removesuffix(".__init__"): module for name, module in names.items()}
    return {name: imports_of(name, parsed(m), {*names}) for name, m in names.items()}


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, left = set[str](), [start]
    while left:
        for name in graph[left.pop()] - seen:
            seen.add(name)
            left.append(name)
    return seen


def test_modules_do_not_import_in_circles():
    graph = graph_of_imports()
    circles = {name for name in graph if name in reached(graph, name)}
    packages = {name for name in circles if not any(name.startswith(own) for own in BOTH_WAYS)}
    assert packages == set()


def test_no_small_module_serves_one_other_alone():
    graph = graph_of_imports()
    small = {
        name
        for name in graph
        if (path := SRC / (name.replace(".", "/") + ".py")).exists()
        and name.startswith("representer.")
        and path.read_text(encoding="utf-8").count("\n") < 100
        and [*map(name.__eq__, (own for each in graph.values() for own in each))].count(True) == 1
        and not any(name in own and name.startswith(importer) for importer, own in graph.items())
    }
    assert small - CONCEPTS_OF_THEIR_OWN == set()
