"""A program in one file: a module with the functions of this library that it imports."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

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
