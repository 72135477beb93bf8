"""Writing a model as a program of torch.export or as ONNX, and comparing it with the model."""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch._dynamo.exc import UserError
from torch.export import Dim, ExportedProgram

from representer.errors import KindError, MissingExtraError, RepresenterError
from representer.export.interface import Interface, interface
from representer.export.scans import decompositions
from representer.storage import atomic

OPSET = 20
TOLERANCE = 1e-5  # of float32, relative to the largest output if that is above 1
SIZES = ({"time": 2, "batch": 5}, {"time": 11, "batch": 2}, {"time": 40, "batch": 4})

Run = Callable[..., Sequence[Any]]


class Parity(NamedTuple):
    """The largest difference of an exported model from the original on random inputs.

    Attributes:
        time: Steps of the padded sequences.
        batch: Number of sequences.
        difference: The largest difference of an output, divided by the largest output if that is
            above 1.
    """

    time: int
    batch: int
    difference: float


class ExportError(RepresenterError, RuntimeError):
    """An exported model does not compute what the original does."""


def to_torch(model: nn.Module, path: str | Path, *, tolerance: float = TOLERANCE) -> list[Parity]:
    """Write a model as a program of ``torch.export``, and return its parity.

    ``torch.export.load(path).module()`` runs it; importing `representer` gives it the operators.

    Args:
        model: A layer or a network of this library, in evaluation mode.
        path: The file, ``.pt2``.
        tolerance: The largest difference that is no error, see `Parity`.

    Raises:
        KindError: The model is of a kind that cannot be exported.
        ExportError: The program does not compute what the model does.
    """
    described, content = interface(model), io.BytesIO()
    torch.export.save(exported(described), content)  # its writer of files aborts on a full disk
    return _written(described, torch_run, content.getvalue(), path, tolerance)


def to_onnx(model: nn.Module, path: str | Path, *, tolerance: float = TOLERANCE) -> list[Parity]:
    """Write a model as ONNX with dynamic batch and time, and return its parity.

    Each direction of each layer is one Scan node.

    Args:
        model: A layer or a network of this library, in evaluation mode.
        path: The file, ``.onnx``.
        tolerance: The largest difference that is no error, see `Parity`.

    Raises:
        KindError: The model is of a kind that cannot be exported.
        MissingExtraError: ONNX or its runtime are not installed.
        ExportError: The file does not compute what the model does.
    """
    require_onnx()
    described = interface(model)
    with torch.no_grad(), _quiet():
        program = exported(described).run_decompositions(decompositions())
        written = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(described.inputs),
            output_names=list(described.outputs),
            verbose=False,
        )
    assert written is not None
    _tidy(written.model, described)
    content = written.model_proto.SerializeToString()
    return _written(described, onnx_run, content, path, tolerance)


def _written(
    described: Interface,
    load: Callable[[bytes], Run],
    content: bytes,
    path: str | Path,
    tolerance: float,
) -> list[Parity]:
    """Write a program that computes what the model does, and return its parity."""
    parity = checked(described, load(content), path, tolerance)
    atomic.write_bytes(path, content)
    return parity


def exported(described: Interface) -> ExportedProgram:
    """Return the program of a model, with every named axis dynamic."""
    shapes = tuple(
        {i: Dim.DYNAMIC for i, axis in enumerate(axes) if isinstance(axis, str)}
        for axes in described.inputs.values()
    )
    try:
        with torch.no_grad(), _quiet():
            return torch.export.export(
                described.module, described.example(), dynamic_shapes={"inputs": shapes}
            )
    except UserError as error:
        hint = "A Python function as nonlinearity fixes them; use one by name."
        expected = f"one whose time and batch may differ ({str(error).splitlines()[0]})"
        raise KindError("model", "one with fixed sizes", expected, hint=hint) from None


def torch_run(program: str | Path | bytes) -> Run:
    """Return a program of ``torch.export`` as a function from tensors to arrays."""
    file = io.BytesIO(program) if isinstance(program, bytes) else program
    loaded = torch.export.load(file).module()

    def run(*inputs: Tensor) -> list[np.ndarray]:
        with torch.no_grad():
            return [x.numpy() for x in loaded(*inputs)]

    return run


def onnx_run(program: str | Path | bytes, threads: int = 0) -> Run:
    """Return an ONNX file as a function from tensors or arrays to arrays.

    Args:
        program: The file, or its content.
        threads: Number of threads; 0 is all.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda *x: session.run(None, dict(zip(names, map(np.asarray, x), strict=True)))


def parity(described: Interface, run: Run) -> list[Parity]:
    """Compare a function of arrays with a model, at the sizes of `SIZES`."""
    found = []
    for seed, sizes in enumerate(SIZES):
        inputs = described.example(sizes, seed)
        wanted, results = described(*inputs), run(*inputs)
        worst = max(map(_difference, results, wanted))
        found.append(Parity(described.steps(sizes), sizes["batch"], worst))
    return found


def checked(
    described: Interface, run: Run, path: str | Path, tolerance: float = TOLERANCE
) -> list[Parity]:
    """Return the parity of an exported model.

    Raises:
        ExportError: A difference is above the tolerance.
    """
    found = parity(described, run)
    for time, batch, difference in found:
        if not difference <= tolerance:  # NaN too
            raise ExportError(
                f"{path} differs from the model by {difference:.1e} at {time} steps and a batch "
                f"of {batch}; expected at most {tolerance:g}. Check that its weights are finite; "
                "a layer that amplifies rounding errors needs a larger tolerance."
            )
    return found


def require_onnx() -> None:
    """Check that ONNX can be written and run.

    Raises:
        MissingExtraError: A package is missing.
    """
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError("ONNX", name, "onnx")


def _difference(result: Any, wanted: Tensor) -> float:
    if not wanted.numel():
        return 0.0
    reference = wanted.double()
    apart = (torch.as_tensor(np.asarray(result)).double() - reference).abs().max()
    return float(apart / reference.abs().max().clamp(min=1.0))


def _tidy(model: Any, described: Interface) -> None:
    """Remove what nothing reads and where it came from; name dynamic axes as the interface does."""
    from onnx_ir import Shape
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass, RemoveUnusedNodesPass

    RemoveUnusedNodesPass()(model)
    ClearMetadataAndDocStringPass()(model)
    named = {}
    for value, axes in zip(model.graph.inputs, described.inputs.values(), strict=True):
        for size, axis in zip(value.shape, axes, strict=True):
            if isinstance(axis, str):
                named[size.value] = axis
    values = [*model.graph.inputs]
    for node in model.graph.all_nodes():
        values.extend(node.outputs)
        for attribute in node.attributes.values():
            if attribute.name == "body":
                values.extend(attribute.value.inputs)
    for value in values:
        if value.shape is not None:
            sizes = (size if isinstance(size, int) else size.value for size in value.shape)
            value.shape = Shape([named.get(size, size) for size in sizes])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter says of packages that no model here needs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
