"""Programs in one file."""

from __future__ import annotations

import ast

import pytest

from representer.export.runs import PROGRAMS, bundled

TASKS = ["text", "graph", "molecule", "signal", "series", "sequence", "language"]


@pytest.mark.parametrize("task", TASKS)
def test_a_program_imports_neither_this_library_nor_torch(task: str):
    tree = ast.parse(bundled(f"{PROGRAMS}.{task}"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {
        a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names
    }
    roots = {str(name).partition(".")[0] for name in modules}
    assert not roots & {"representer", "torch", "scipy", "sklearn"}
    assert "numpy" in roots


@pytest.mark.parametrize("task", TASKS)
def test_every_name_of_a_program_is_defined_once_and_before_its_use(task: str):
    tree = ast.parse(bundled(f"{PROGRAMS}.{task}"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    pairs = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    names += [part.id for pair in pairs if isinstance(pair, ast.Tuple) for part in pair.elts]
    assert len(names) == len(set(names))
    assert "predict" in names or task == "language"
    assert "predictions" in names or task == "language"
