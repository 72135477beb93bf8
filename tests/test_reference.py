"""Every public class and function says what it takes, what it gives, and shows an example."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PACKAGES = ("nn", "kernels", "estimators", "models", "explain", "export", "functional")
# states, tools and lists of options: what they hold has an equation, they have none
NO_EQUATION = {
    "Stream", "activation_groups", "GPyTorchKernel", "GaussianProcessKernel", "GramTransformer",
    "Kernel", "LearnedUnit", "TwoSample", "gram", "two_sample_test",
}  # fmt: skip
CHECKS = re.compile(r"\b_?(check|require)_\w+\(|\braise ")
METHODS = ("__init__", "__post_init__", "forward", "__call__", "fit", "of_products")


def public(*packages: str) -> list[Any]:
    """Return a case for each public class and function, by its package and name."""
    modules = {package: importlib.import_module(f"representer.{package}") for package in packages}
    return [
        pytest.param(getattr(module, name), id=f"{package}.{name}")
        for package, module in modules.items()
        for name in module.__all__
        if callable(getattr(module, name))
    ]


def parameters_of(thing: Any) -> list[str]:
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return []
    signature = inspect.signature(thing)
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return [p.name for p in signature.parameters.values() if p.kind not in kinds]


def texts_of(thing: Any) -> str:
    """Return the docstring of a class or function, with those of the methods that are called."""
    methods = [getattr(thing, name, None) for name in METHODS] if inspect.isclass(thing) else []
    texts = [thing, *(method for method in methods if inspect.isfunction(method))]
    return "\n".join(inspect.getdoc(text) or "" for text in texts)


def bodies_of(thing: Any) -> str:
    """Return the code of a function, or of the methods of a class that are its own."""
    methods = [vars(thing).get(name) for name in METHODS] if inspect.isclass(thing) else [thing]
    code = []
    for method in methods:
        if inspect.isfunction(method) and method.__code__.co_filename.endswith(".py"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(method))).body[0]
            assert isinstance(tree, ast.FunctionDef)
            code += [ast.unparse(line) for line in tree.body[bool(ast.get_docstring(tree)) :]]
    return "\n".join(code)


@pytest.fixture(scope="module")
def hook():
    """Return what adds examples and links to the reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "hooks")
        patch.setitem(sys.modules, "griffe", types.SimpleNamespace(Extension=object))
        yield importlib.import_module("docstrings")
    sys.modules.pop("docstrings", None)


@pytest.mark.parametrize("thing", public(*PACKAGES))
def test_every_parameter_is_described(thing):
    text = inspect.getdoc(thing) or ""
    as_in = re.search(r"rguments as in ``(\w+)``", text)
    if as_in:  # an oracle, or another form
        text += inspect.getdoc(getattr(sys.modules[thing.__module__], as_in[1])) or ""
    named = re.findall(r"^ *([\w, ]+?)(?: \(.*\))?: \S", text, re.MULTILINE)
    described = {name.strip() for names in named for name in names.split(",")}
    assert [name for name in parameters_of(thing) if name not in described] == []


@pytest.mark.parametrize("thing", public(*PACKAGES))
def test_shapes_are_said_of_what_takes_or_gives_tensors(thing):
    annotated = bodies_annotations(thing)
    if "Tensor" in annotated or "NDArray" in annotated:
        assert re.search(r"``\(.*\)``|``\[", texts_of(thing))


def bodies_annotations(thing: Any) -> str:
    """Return the annotations of a function, or of what a class is called with, as text."""
    called = [vars(thing).get(name) for name in METHODS] if inspect.isclass(thing) else [thing]
    return " ".join(
        str(value)
        for one in called
        if inspect.isfunction(one)
        for value in one.__annotations__.values()
    )


@pytest.mark.parametrize("thing", public(*PACKAGES))
def test_errors_are_said_of_what_checks_its_arguments(thing):
    if CHECKS.search(bodies_of(thing)):
        assert "Raises:" in texts_of(thing)


@pytest.mark.parametrize("thing", public(*PACKAGES))
def test_there_is_an_example(thing, hook):
    assert thing.__name__ in hook.examples() or ">>> " in (inspect.getdoc(thing) or "")


@pytest.mark.parametrize("thing", public("nn", "kernels", "functional"))
def test_an_equation_is_linked_or_printed(thing, hook):
    text = inspect.getdoc(thing) or ""
    is_state = thing.__name__.endswith("State")
    if not is_state and thing.__name__ not in NO_EQUATION:
        assert hook.equations_of(thing.__name__) or "math:" in text or "References:" in text


@pytest.mark.parametrize("thing", public(*PACKAGES))
def test_the_example_of_a_docstring_runs(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = sys.modules[thing.__module__]
    for test in doctest.DocTestFinder().find(thing, module=module, globs=vars(module).copy()):
        assert doctest.DocTestRunner().run(test).failed == 0, test.name
