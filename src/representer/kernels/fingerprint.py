"""Fingerprints of kernels and objects: digests of all that a Gram matrix depends on.

Functions and classes of installed packages are identified by name and version. Any others, such as
lambdas, are identified by content: bytecode, constants, defaults, closure and the globals they use.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import logging
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from representer.errors import KindError

_SCALARS = (str, bytes, int, float, complex, bool, type(None), type(...), range, slice)
_BY_REPR = (*_SCALARS, torch.dtype, torch.device, np.dtype, types.UnionType, types.GenericAlias)
_C_FUNCTIONS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType,
)  # fmt: skip
_OPS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_OF_EVERY_MODULE = frozenset(vars(nn.Module())) - {"training"}


def fingerprint(kernel: Any, *contents: Any) -> str:
    """Return a digest of a kernel and its objects that changes whenever the values could.

    Raises:
        KindError: If something in them cannot be fingerprinted, such as an open file.
    """
    digest = _Digest()
    parts = [digest.of(kernel, "kernel")]
    parts += [digest.of(c, name) for c, name in zip(contents, ("X", "Y", "block"), strict=False)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


class _Digest:
    """Digests of values of any type, such that different values have different digests."""

    def __init__(self) -> None:
        self._open: list[Any] = []  # the values that contain the current one
        self._reached = 0  # the outermost of them in a reference cycle
        self._done: dict[int, tuple[Any, bytes]] = {}  # classes and functions

    def of(self, value: Any, place: str) -> bytes:
        """Return the digest of a value; ``place`` is its name in messages."""
        if isinstance(value, _BY_REPR) or type(value).__module__ == "typing":
            return _hash(type(value).__name__, repr(value).encode())
        if id(value) in self._done:
            return self._done[id(value)][1]
        level = len(self._open)
        for i, outer in enumerate(self._open):
            if outer is value:
                self._reached = min(self._reached, i)
                return _hash("cycle", str(level - i).encode())
        outermost, self._reached = self._reached, level
        self._open.append(value)
        digest = self._container(value, place)
        self._open.pop()
        if self._reached == level and isinstance(value, (type, types.FunctionType)):
            self._done[id(value)] = (value, digest)
        self._reached = min(outermost, self._reached)
        return digest

    def _container(self, value: Any, place: str) -> bytes:
        if isinstance(value, Tensor):
            return self._tensor(value, place)
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            kind = f"{type(value).__name__} {array.dtype} {array.shape}"
            if array.dtype.hasobject:
                return self._all(kind, array.ravel().tolist(), place)
            return _hash(kind, np.ascontiguousarray(array).tobytes())
        if isinstance(value, (list, tuple, torch.Size)):
            return self._all(type(value).__name__, value, place)
        if isinstance(value, (set, frozenset)):  # the order of strings differs between runs
            return _hash("set", *sorted(self.of(item, f"an item of {place}") for item in value))
        if isinstance(value, Mapping):
            pairs = [part for pair in value.items() for part in pair]
            return self._all("mapping", pairs, place)
        if hasattr(value, "nodes") and hasattr(value, "is_directed"):  # a networkx graph
            ends = [list(value.nodes(data=True)), list(value.edges(data=True))]
            return self._all("graph", [bool(value.is_directed()), *ends], place)
        function = self._callable(value, place)
        return self._instance(value, place) if function is None else function

    def _all(self, kind: str, values: Iterable[Any], place: str) -> bytes:
        return _hash(kind, *(self.of(value, f"{place}[{i}]") for i, value in enumerate(values)))

    def _tensor(self, value: Tensor, place: str) -> bytes:
        tensor = value.detach()
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise _unknown(place, value)
        raw = tensor.cpu().contiguous().resolve_conj().resolve_neg().view(-1).view(torch.uint8)
        return _hash(f"tensor {tensor.dtype} {tuple(tensor.shape)}", raw.numpy().tobytes())

    def _callable(self, value: Any, place: str) -> bytes | None:
        """Return the digest of a function, class or module; None for other values."""
        if isinstance(value, types.ModuleType):
            return _hash("module", *_version(value.__name__))
        if isinstance(value, _OPS):
            return _hash("torch op", str(value).encode())
        if isinstance(value, functools.partial):
            return self._all("partial", [value.func, value.args, value.keywords], place)
        if isinstance(value, types.MethodType):
            return self._all("method", [value.__func__, value.__self__], place)
        if isinstance(value, np.ufunc):
            if (
                getattr(np, value.__name__, None) is not value
            ):  # such as the result of np.frompyfunc
                raise _unknown(place, value)
            return _hash("ufunc", value.__name__.encode(), *_version("numpy"))
        if isinstance(value, _C_FUNCTIONS):
            owner = getattr(value, "__objclass__", getattr(value, "__self__", None))
            name = value.__qualname__.encode()
            return _hash("built-in", name, self.of(owner, f"{place}.__self__"))
        if isinstance(value, weakref.ref):
            return _hash("reference", self.of(value(), f"{place}()"))
        if isinstance(value, (property, functools.cached_property, staticmethod, classmethod)):
            functions = [getattr(value, part, None) for part in ("fget", "func", "__func__")]
            return self._all(type(value).__name__, functions, place)
        if isinstance(value, (types.FunctionType, type)) and _is_installed(value):
            return _hash("installed", value.__qualname__.encode(), *_version(value.__module__))
        if isinstance(value, types.FunctionType):
            return self._function(value, place)
        return self._class(value, place) if isinstance(value, type) else None

    def _function(self, value: types.FunctionType, place: str) -> bytes:
        cells = [_content(cell) for cell in value.__closure__ or ()]
        parts = [self._bytecode(value.__code__, place)]
        parts += [
            self.of(part, f"{place}.{name}")
            for name, part in (
                ("__defaults__", value.__defaults__),
                ("__kwdefaults__", value.__kwdefaults__),
                ("__dict__", vars(value)),
            )
        ]
        names = value.__code__.co_freevars
        parts += [self.of(c, f"{place}.{n}") for n, c in zip(names, cells, strict=True)]
        if not _is_in_package(value.__module__):
            used = _globals(value.__code__, value.__globals__)
            parts += [self.of(part, f"{place}.{name}") for name, part in used]
        return _hash("function", *parts)

    def _bytecode(self, code: types.CodeType, place: str) -> bytes:
        constants = [
            self._bytecode(c, place) if isinstance(c, types.CodeType) else self.of(c, place)
            for c in code.co_consts
        ]
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        sizes = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
        about = repr((*names, *sizes, sys.version_info[:2])).encode()
        return _hash("code", about, code.co_code, code.co_exceptiontable, *constants)

    def _class(self, value: type, place: str) -> bytes:
        own = {
            name: part
            for name, part in sorted(vars(value).items())
            if isinstance(part, types.FunctionType) or not (_is_dunder(name) or name == "_abc_impl")
        }
        return self._all("class", [value.__qualname__, value.__bases__, own], place)

    def _instance(self, value: Any, place: str) -> bytes:
        if isinstance(
            value, logging.Logger
        ):  # contains locks and files, and does not affect values
            return _hash("logger", value.name.encode())
        if isinstance(value, Iterator):  # reading it would exhaust it
            raise _unknown(place, value)
        kind = self.of(type(value), f"type({place})")
        if isinstance(value, nn.Module):
            own = {k: v for k, v in vars(value).items() if k not in _OF_EVERY_MODULE}
            state = [own, value._parameters, value._buffers, value._modules]
            state += [value._forward_pre_hooks, value._forward_hooks]
            return _hash("nn.Module", kind, self.of(state, place))
        attributes = [dict(vars(value))] if hasattr(value, "__dict__") else []
        slots = [s for c in type(value).__mro__ for s in _slots(c) if hasattr(value, s)]
        attributes += [{name: getattr(value, name) for name in slots}] if slots else []
        if isinstance(value, Iterable) and not attributes:
            return _hash("items", kind, self.of(list(value), place))
        if not attributes:
            raise _unknown(place, value)
        parts = [self.of(v, f"{place}.{k}") for d in attributes for k, v in sorted(d.items())]
        names = repr([sorted(d) for d in attributes]).encode()
        return _hash("instance", kind, names, *parts)


def _hash(kind: str, *parts: bytes) -> bytes:
    """Return the digest of a kind and its parts, each with its length."""
    digest = hashlib.sha256(f"{kind};{len(parts)};".encode())
    for part in parts:
        digest.update(f"{len(part)};".encode())
        digest.update(part)
    return digest.digest()


def _unknown(place: str, value: Any) -> KindError:
    hint = "A Gram matrix on disk is identified by all that it depends on."
    return KindError(place, repr(value), "something that gram() can fingerprint", hint=hint)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return ...


def _globals(code: types.CodeType, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the globals that code uses, and the attributes it uses of modules not installed."""
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        value: Any = None
        if isinstance(instruction.argval, types.CodeType):
            yield from _globals(instruction.argval, values)
        elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = values.get(name)
        elif instruction.opname == "IMPORT_NAME":
            value = sys.modules.get(name)
        if isinstance(value, types.ModuleType) and not _is_in_package(value.__name__):
            used = [part for part in code.co_names if hasattr(value, part)]
            yield from ((f"{name}.{part}", getattr(value, part)) for part in used)
        elif value is not None:
            yield name, value


def _is_installed(value: Any) -> bool:
    """Return True if the name of a function or class identifies it."""
    if isinstance(value, type) and not value.__flags__ & (1 << 9):  # defined in C
        return True
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value and _is_in_package(value.__module__)


def _is_in_package(module: str | None) -> bool:
    """Return True if a module belongs to Python, to this library or to an installed package."""
    top = str(module).partition(".")[0]
    if top in sys.stdlib_module_names or top == "representer":
        return True
    if top == "__main__":  # user code, even in a notebook or test runner
        return False
    package = sys.modules.get(top)
    places = [getattr(package, "__file__", None), *getattr(package, "__path__", ())]
    parts = {part for place in places if place for part in Path(place).parts}
    return not parts.isdisjoint({"site-packages", "dist-packages"})


def _version(module: str) -> tuple[bytes, bytes]:
    """Return the name of a module and the version of its package."""
    top = module.partition(".")[0]
    version = getattr(sys.modules.get(top), "__version__", None)
    return module.encode(), str(version or sys.version_info[:2]).encode()


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [s for s in ([slots] if isinstance(slots, str) else slots) if not _is_dunder(s)]
