"""One C file of a recurrent layer: C99, no heap, no library but libm."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch._decomp import get_decompositions
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from representer.errors import ArgumentError, KindError
from representer.export.programs import LEAST, interface, quantize, quiet
from representer.models import SequenceNetwork
from representer.nn import KAN, KernelActivation, KernelLinear
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.ops import OPS
from representer.ops.scans import of_step
from representer.storage import atomic

aten = torch.ops.aten
GROUP = 4  # rows of weights that are added at once, so that sums are read and written less
_IGNORED = aten._assert_tensor_metadata.default, aten.sym_constrain_range_for_size.default
# values of an element; {0}, {1} are the operands
_POINTWISE: dict[Any, str] = {
    aten.add.Tensor: "{0} + {1}", aten.sub.Tensor: "{0} - {1}", aten.mul.Tensor: "{0} * {1}",
    aten.div.Tensor: "{0} / {1}", aten.neg.default: "-{0}", aten.exp.default: "expf({0})",
    aten.expm1.default: "expm1f({0})", aten.log1p.default: "log1pf({0})",
    aten.tanh.default: "tanhf({0})", aten.sigmoid.default: "1.0f / (1.0f + expf(-{0}))",
    aten.relu.default: "fmaxf({0}, 0.0f)", aten.sqrt.default: "sqrtf({0})",
    aten.rsqrt.default: "1.0f / sqrtf({0})", aten.abs.default: "fabsf({0})",
    aten.cos.default: "cosf({0})", aten.sin.default: "sinf({0})", aten.asinh.default: "asinhf({0})",
    aten.minimum.default: "fminf({0}, {1})", aten.maximum.default: "fmaxf({0}, {1})",
    aten.pow.Tensor_Scalar: "powf({0}, {1})", aten.reciprocal.default: "1.0f / {0}",
    aten.add.Scalar: "{0} + {1}", aten.sub.Scalar: "{0} - {1}", aten.mul.Scalar: "{0} * {1}",
    aten.div.Scalar: "{0} / {1}", aten.rsub.Scalar: "{1} - {0}",
    aten.eq.Scalar: "(float)({0} == {1})", aten.gt.Scalar: "(float)({0} > {1})",
    aten.lt.Scalar: "(float)({0} < {1})", aten.ge.Scalar: "(float)({0} >= {1})",
    aten.where.self: "{0} != 0.0f ? {1} : {2}",
}  # fmt: skip
_MOVES = {
    aten.view.default, aten.permute.default, aten.select.int, aten.slice.Tensor,
    aten.unsqueeze.default, aten.squeeze.dims, aten.expand.default, aten.clone.default,
    aten.cat.default, aten.constant_pad_nd.default, aten.split_with_sizes.default,
    aten.split.Tensor, aten.flip.default, aten._unsafe_view.default, aten.stack.default,
    aten.reshape.default, aten.transpose.int, aten.alias.default, aten.squeeze.dim,
    aten._to_copy.default, aten.unbind.int, aten.t.default, aten.detach.default,
}  # fmt: skip
_PRODUCTS = aten.mm.default, aten.bmm.default, aten.addmm.default, aten.mv.default


class CFile(NamedTuple):
    """A layer as C.

    Attributes:
        path: The file; a header of the same name stands beside it.
        weights: Bytes of the weights, which may lie in read-only memory.
        work: Bytes of working memory, the state included.
        error: The largest error of a weight of 8 bits; 0 in float32.
    """

    path: Path
    weights: int
    work: int
    error: float


def to_c(model: nn.Module, path: str | Path, *, int8: bool = False) -> CFile:
    """Write a recurrent layer, or a network of texts, as one C file and a header.

    The file is C99 and needs libm alone. ``NAME_start`` sets the state before a sequence,
    ``NAME_step`` reads a step, and ``NAME_run`` a sequence; NAME is that of the file. A network of
    texts takes the number of a word as its input, and returns its scores after each word. With
    ``-DNAME_MAIN``, an example reads numbers from standard input.

    Args:
        model: In evaluation mode, of one direction.
        path: The file, ``.c``.
        int8: Write the matrices of weights in 8 bits with a scale for each row.

    Raises:
        ArgumentError: The model reads no sequence step by step.
        KindError: It is of a kind, or has an operation, that cannot be written.
    """
    path = Path(path)
    if path.suffix != ".c" or not path.stem.isidentifier():
        raise ArgumentError("path", str(path), "a file NAME.c, with a name that C takes")
    name, upper, code = path.stem, path.stem.upper(), _Code(int8)
    if isinstance(model, SequenceLayer) and model.bidirectional:
        interface(model)  # refuses training mode
        sizes, lines = _both_directions(model, code, name)
        pointers = {"run": _RUN}
    else:
        step = _step_of(model)
        sizes, lines = _step_function(step, code, name)
        stride = "0" if step.is_last else f"{upper}_OUTPUT"
        call = f"{name}_step(input + t * {upper}_INPUT, state, output + t * {stride});"
        lines += [f"void {name}_run({_POINTERS['run']})", "{"]
        lines += [f"    for (int t = 0; t < steps; ++t)\n        {call}", "}", ""]
        lines += [_MAIN.format(name=name, upper=upper)]
        pointers = _POINTERS
    header = [f"/* {type(model).__name__}: {sizes['INPUT']} inputs a step, weights of "
              f"{code.stored} bytes */", f"#ifndef {upper}_H", f"#define {upper}_H"]  # fmt: skip
    header += [f"#define {upper}_{key} {value}" for key, value in sizes.items()]
    header += [f"void {name}_{key}({types});" for key, types in pointers.items()] + ["#endif", ""]
    first = [f'#include "{name}.h"', "#include <math.h>", "#include <string.h>", ""]
    atomic.write_text(path, "\n".join([*first, *code.tables, *code.work, "", *lines]))
    atomic.write_text(path.with_suffix(".h"), "\n".join(header))
    work = 4 * (sum(code.sizes) + sum(sizes.values()))
    return CFile(path, code.stored, work, code.error)


_POINTERS = {
    "start": "float *state",
    "step": "const float *input, float *state, float *output",
    "run": "const float *input, int steps, float *state, float *output",
}
_RUN = "const float *input, int steps, float *work, float *output"


def _step_function(
    step: _Step, code: _Code, name: str, scope: str = ""
) -> tuple[dict[str, int], list[str]]:
    """Return sizes, and the functions that set the state and read a step."""
    with quiet():
        program = _in_core_operators(_step_program(step))
    code.body.clear()
    inputs, outputs = _translated(program, code)
    x, *state = step.example
    sizes = {
        "INPUT": x.numel(), "OUTPUT": math.prod(outputs[0].shape),
        "STATE": sum(tensor.numel() for tensor in state),
    }  # fmt: skip
    starts = code.constant(torch.cat([tensor.float().flatten() for tensor in state or [x[:0]]]))
    lines = [f"{scope}void {name}_start({_POINTERS['start']})", "{"]
    lines += [f"    memcpy(state, {starts.name}, sizeof(float) * {sizes['STATE']});", "}", ""]
    lines += [f"{scope}void {name}_step({_POINTERS['step']})", "{", "    int i, k;"]
    lines += _copies(inputs, "input", "state", is_into=True)
    lines += [*code.body, *_copies(outputs, "output", "state", is_into=False)]
    return sizes, [*lines, "    (void)i; (void)k; (void)state;", "}", ""]


def _both_directions(model: Any, code: _Code, name: str) -> tuple[dict[str, int], list[str]]:
    """Return sizes and functions of a layer of two directions, which reads whole sequences."""
    lines, run, sizes = list[str](), list[str](), dict[str, int]()
    width, source = 2 * model.hidden_size, "input"
    for k in range(model.num_layers):
        last = k == model.num_layers - 1
        target = "output" if last else f"work + {k % 2 * width} * steps"
        for reverse in (False, True):
            way = f"{name}_{k}{'b' if reverse else 'f'}"
            described = interface(model.part(k, reverse).eval(), state=True)
            x, *state = described.example({"time": 1, "batch": 1})
            module = (
                _Turned(described.module, x, model.batch_first) if reverse else described.module
            )
            step = _Step(module, (x, *map(torch.zeros_like, state)))
            inner, functions = _step_function(step, code, way, "static ")
            sizes = sizes or {"INPUT": inner["INPUT"], "OUTPUT": width}
            code.work.append(f"static float {way}_state[{inner['STATE'] + 1}];")
            code.sizes.append(inner["STATE"] + 1)
            lines += functions
            count = "t = steps - 1; t >= 0; --t" if reverse else "t = 0; t < steps; ++t"
            there = f"{target} + t * {width}{f' + {model.hidden_size}' * reverse}"
            run += [f"    {way}_start({way}_state);", f"    for ({count})"]
            run += [f"        {way}_step({source} + t * {inner['INPUT']}, {way}_state, {there});"]
        source = target
    sizes |= {"WORK": width * min(2, model.num_layers - 1)}
    lines += [f"void {name}_run({_RUN})", "{", "    int t;", *run, "    (void)work;", "}", ""]
    return sizes, lines


class _Turned(nn.Module):
    """A reverse direction, which reads the samples of a step from the last to the first."""

    def __init__(self, module: nn.Module, x: Tensor, batch_first: bool) -> None:
        super().__init__()
        self.module, self.axis = module, int(batch_first)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        return self.module(x.flip(self.axis), *state)


def _step_program(step: _Step) -> ExportedProgram:
    """Return a step as a program without operators of this library."""
    with torch.no_grad():
        program = torch.export.export(step.module, step.example)
        tables = {getattr(torch.ops.representer, k).default: of_step(o) for k, o in OPS.items()}
        return program.run_decompositions(tables)


def _in_core_operators(program: ExportedProgram) -> ExportedProgram:
    simpler = (aten.linalg_vector_norm, aten.var_mean, aten.softplus)
    table: Any = torch.export.default_decompositions()
    table.update(get_decompositions(simpler))
    with torch.no_grad():
        return program.run_decompositions(table)


def step_program(model: nn.Module) -> ExportedProgram:
    """Return a model as a program of one step and its state, of torch's operators alone.

    Runtimes that know neither this library nor loops, such as LiteRT, run it step by step. Its
    example inputs are ``program.example_inputs``: an input, and the state before the first step.

    Args:
        model: As of `to_c`, of one direction, in evaluation mode.

    Raises:
        ArgumentError: The model reads no sequence step by step.
        KindError: It is of a kind that has no steps.
    """
    with torch.no_grad():
        return _step_program(_step_of(model)).run_decompositions({aten.split.Tensor: _slices})


def _slices(x: Tensor, size: int, dim: int = 0) -> list[Tensor]:
    """Return the parts of a tensor; LiteRT knows no split into one."""
    return [
        aten.slice.Tensor(x, dim, k, min(k + size, x.shape[dim]))
        for k in range(0, x.shape[dim], size)
    ]


_MAIN = """#ifdef {upper}_MAIN
#include <stdio.h>
int main(void)
{{
    static float input[{upper}_INPUT], state[{upper}_STATE + 1], output[{upper}_OUTPUT];
    int n = 0;
    {name}_start(state);
    while (scanf("%f", &input[n]) == 1) {{
        if (++n < {upper}_INPUT) continue;
        n = 0;
        {name}_step(input, state, output);
        for (int i = 0; i < {upper}_OUTPUT; ++i)
            printf("%.9g%c", (double)output[i], i + 1 < {upper}_OUTPUT ? ' ' : '\\n');
    }}
    return 0;
}}
#endif
"""


class _Step(NamedTuple):
    """A model as a function of one step and its state, all in flat tuples."""

    module: nn.Module
    example: tuple[Tensor, ...]
    is_last: bool = False  # the output of the last step is that of the sequence


def _step_of(model: nn.Module) -> _Step:
    if isinstance(model, SequenceNetwork):
        interface(model)  # refuses baselines and training mode
        cell: Any = model.cell
        if model.lookahead or model.config.bidirectional:
            raise ArgumentError("model", "one that reads later words", "one of one direction")
        with torch.no_grad():
            zeros = torch.zeros(1, 1, cell.input_size)
            leaves, spec = tree_flatten(cell(zeros)[1])
        start = torch.full((1, 1), -1e30), torch.zeros(1, 1), torch.zeros(1, cell.hidden_size)
        example = torch.ones(1, 1, dtype=torch.int64), *start, *map(torch.zeros_like, leaves)
        return _without_empty(_Step(_Reading(model, spec), example, True))
    if isinstance(model, KernelActivation | KernelLinear | KAN):
        described = interface(model)
        return _Step(described.module, described.example({"time": 1, "batch": 1}))
    if not isinstance(model, SequenceLayer) or model.bidirectional:
        name = type(model).__name__
        what = f"{name} of two directions" if isinstance(model, SequenceLayer) else name
        expected = "a recurrent layer of one direction, a learned activation, or a network of texts"
        raise KindError("model", what, expected, hint="to_onnx writes others.")
    described = interface(model, state=True)
    inputs = described.example({"time": 1, "batch": 1})
    zeros = map(torch.zeros_like, inputs[1:])
    return _without_empty(_Step(described.module, (inputs[0], *zeros)))


def _without_empty(step: _Step) -> _Step:
    """Return a step without the empty tensors of its state, which LiteRT refuses."""
    filled = tuple(x for x in step.example if x.numel())
    if len(filled) == len(step.example):
        return step
    return _Step(_Filled(step.module, step.example), filled, step.is_last)


class _Filled(nn.Module):
    """A step that takes and returns a state without its empty tensors."""

    def __init__(self, module: nn.Module, example: Sequence[Tensor]) -> None:
        super().__init__()
        self.module = module
        self.empty = [None if x.numel() else x.shape for x in example[1:]]

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        values = iter(state)
        full = [next(values) if shape is None else torch.zeros(shape) for shape in self.empty]
        output, *after = self.module(x, *full)
        return output, *(state for state in after if state.numel())


class _Reading(nn.Module):
    """A network of texts that reads a word at a time, and pools as it goes."""

    def __init__(self, network: Any, spec: Any) -> None:
        super().__init__()
        self.network, self.spec = network, spec

    def forward(self, token: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        most, mass, total, *rest = state
        network = self.network
        outputs, after = network.cell(
            network.embedding(token), tree_unflatten(list(rest), self.spec)
        )
        h = outputs[:, 0]
        score = torch.zeros_like(mass) if network.attention is None else network.attention(h.tanh())
        largest = torch.maximum(most, score)
        kept, weight = (most - largest).exp(), (score - largest).exp()
        mass, total = mass * kept + weight, total * kept + weight * h
        fixed = None if network.attention is not None else network.config.max_length
        scores = network.head(total / (fixed or mass))
        return (scores, largest, mass, total, *tree_leaves(after))


def _copies(arrays: Sequence[_Array], first: str, rest: str, *, is_into: bool) -> list[str]:
    """Return loops between the arrays of a program and those of the caller."""
    lines, start = [], 0
    for number, array in enumerate(arrays):
        size = math.prod(array.shape)
        there = f"{rest}[{start} + i]" if number else f"{first}[i]"
        here = f"{array.name}[i]"
        lines.append(_loop(size, f"{here} = {there};" if is_into else f"{there} = {here};"))
        start += size if number else 0
    return lines


def _translated(program: ExportedProgram, code: _Code) -> tuple[list[_Array], list[_Array]]:
    """Write the operations of a program; return its inputs and outputs."""
    signature, env, inputs = program.graph_signature, dict[Any, Any](), list[_Array]()
    constants = {**program.state_dict, **program.constants}
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    held |= signature.inputs_to_lifted_tensor_constants
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name in held:
                env[node] = constants[held[node.name]].detach()
            else:
                env[node] = code.new(node.meta["val"].shape)
                inputs.append(env[node])
        elif node.op == "output":
            operands = [env[operand] for operand in node.args[0]]
            return inputs, [x if isinstance(x, _Array) else code.constant(x) for x in operands]
        elif node.target in _IGNORED:
            continue
        else:
            args, kwargs = tree_map(
                lambda own: env[own] if isinstance(own, torch.fx.Node) else own,
                (node.args, node.kwargs),
            )
            is_dynamic = any(isinstance(leaf, _Array) for leaf in tree_leaves(args))
            if not is_dynamic or node.target not in _EMITTERS:
                if is_dynamic and node.target is not operator.getitem:
                    hint = "to_onnx writes it."
                    expected = "one whose operations C knows"
                    raise KindError("the model", f"one with {node.target}", expected, hint=hint)
                env[node] = node.target(*args, **kwargs)
            else:
                env[node] = _EMITTERS[node.target](code, node, args, kwargs)
    raise AssertionError("a program without outputs")


def _array(code: _Code, value: Any) -> _Array:
    return value if isinstance(value, _Array) else code.constant(torch.as_tensor(value))


def _pointwise(code: _Code, node: Any, args: Any, kwargs: Any) -> _Array:
    shape, operands = node.meta["val"].shape, []
    for value in args:
        if isinstance(value, Tensor) and value.numel() == 1:
            value = value.item()
        if isinstance(value, int | float):
            operands.append(f"({_number(float(value))})")
            continue
        if isinstance(value, Tensor):
            value = code.constant(value.expand(shape))
        if value.shape != shape and math.prod(value.shape) != 1:
            value = _moved(code, lambda x: x.expand(shape), [value])
        operands.append(f"{value.name}[{'i' if math.prod(value.shape) > 1 else '0'}]")
    out, alpha = code.new(shape), kwargs.get("alpha", 1)
    if alpha != 1:
        operands[1] = f"({_number(float(alpha))}) * {operands[1]}"
    value = _POINTWISE[node.target].format(*operands)
    code.body.append(_loop(math.prod(shape), f"{out.name}[i] = {value};"))
    return out


def _clamped(code: _Code, node: Any, args: Any, kwargs: Any) -> _Array:
    x, out = args[0], code.new(node.meta["val"].shape)
    value = f"{x.name}[i]"
    for bound, function in zip((*args[1:], None, None), ("fmaxf", "fminf"), strict=False):
        value = value if bound is None else f"{function}({value}, {_number(float(bound))})"
    code.body.append(_loop(math.prod(out.shape), f"{out.name}[i] = {value};"))
    return out


def _move(code: _Code, node: Any, args: Any, kwargs: Any) -> Any:
    leaves, spec = tree_flatten(args)
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, _Array | Tensor)]
    operands = [_array(code, leaves[k]) for k in places]

    def call(*values: Tensor) -> Any:
        new = list(leaves)
        for k, value in zip(places, values, strict=True):
            new[k] = value
        return node.target(*tree_unflatten(new, spec))

    return _moved(code, call, operands)


def _moved(code: _Code, call: Callable[..., Any], operands: Sequence[_Array]) -> Any:
    """Write a movement of data: the function is called with the number of each element, from 1."""
    starts = np.cumsum([0] + [math.prod(operand.shape) for operand in operands]).tolist()
    numbers = [
        torch.arange(1 + first, 1 + last).view(operand.shape)
        for operand, first, last in zip(operands, *zip(*pairwise(starts), strict=True), strict=True)
    ]
    result = call(*numbers)
    if not isinstance(result, Tensor):
        return [_gather(code, item, operands, starts) for item in result]
    return _gather(code, result, operands, starts)


def _gather(
    code: _Code, found: Tensor, operands: Sequence[_Array], starts: Sequence[int]
) -> _Array:
    """Write copies of runs of consecutive elements; 0 is a padding of zeros."""
    sources = found.flatten().numpy()
    if len(operands) == 1 and np.array_equal(sources, np.arange(1, starts[1] + 1)):
        return _Array(operands[0].name, found.shape)  # only the shape differs
    out, of = code.new(found.shape), np.searchsorted(starts, sources, side="left") - 1
    steps = np.diff(sources, prepend=sources[:1] - 1)
    borders = (steps != 1) | (np.diff(of, prepend=of[:1]) != 0)
    borders |= (sources == 0) & np.append(False, sources[1:] != sources[:-1])
    borders &= ~((sources == 0) & np.append(False, sources[:-1] == 0))
    ends = [*np.flatnonzero(borders).tolist(), len(sources)]
    ends = ends if ends[0] == 0 else [0, *ends]
    if len(ends) > 66 and len(operands) == 1 and sources.min() > 0:
        table = f"m{len(code.tables)}"
        code.tables.append(_table("int", table, (sources - 1).tolist(), str))
        code.stored += 4 * len(sources)
        text = f"{out.name}[i] = {operands[0].name}[{table}[i]];"
        code.body.append(_loop(len(sources), text))
        return out
    for first, last in pairwise(ends):
        source = int(sources[first])
        start = max(0, int(of[first]))
        value = f"{operands[start].name}[{source - 1 - starts[start]} + i]" if source else "0.0f"
        code.body.append(_loop(last - first, f"{out.name}[{first} + i] = {value};"))
    return out


def _product(code: _Code, node: Any, args: Any, kwargs: Any) -> _Array:
    """Write a product of matrices; one of weights is read along its rows, which vectorizes."""
    bias, (left, right) = (args[0], args[1:3]) if len(args) == 3 else (None, args)
    out = code.new(node.meta["val"].shape)
    if bias is None:
        code.body.append(_loop(math.prod(out.shape), f"{out.name}[i] = 0.0f;"))
    else:
        addend = bias.expand(out.shape) if isinstance(bias, Tensor) else bias
        source = _array(code, addend).name
        code.body.append(_loop(math.prod(out.shape), f"{out.name}[i] = {source}[i];"))
    is_left = isinstance(left, Tensor)
    weight, x = (left.transpose(-1, -2), right) if is_left else (right, left)
    others = x.shape[-1] if is_left else x.shape[-2]
    if isinstance(weight, _Array) or others != 1:
        hint = "to_onnx writes it."
        raise KindError("the model", "one with a product of steps", "one of weights", hint=hint)
    size, rows = weight.shape[-2], weight.shape[-1]
    count = math.prod(weight.shape[:-2])
    table = code.weights(weight.reshape(-1, rows))
    for b in range(count):
        for first, last, step in ((0, size - size % GROUP, GROUP), (size - size % GROUP, size, 1)):
            if first == last:
                continue
            factors, terms = [], []
            for r in range(step):
                scale = (
                    f" * {table}_scale[k + {r + b * size}]"
                    if f"{table}_scale" in code.scaled
                    else ""
                )
                factors.append(f"a{r} = {x.name}[k + {r + b * size}]{scale}")
                terms.append(f"a{r} * (float){table}[(k + {r + b * size}) * {rows} + i]")
            code.body.append(
                f"    for (k = {first}; k < {last}; k += {step}) {{\n"
                f"        const float {', '.join(factors)};\n        for (i = 0; i < {rows}; ++i) "
                f"{out.name}[{b * rows} + i] += {' + '.join(terms)};\n    }}"
            )
    return out


def _made(code: _Code, node: Any, args: Any, kwargs: Any) -> Tensor:
    """Return new numbers, which depend on the shape of an array alone."""
    shape = node.meta["val"].shape
    return node.target(torch.zeros(args[0].shape), *args[1:], **kwargs).view(shape)


def _embedded(code: _Code, node: Any, args: Any, kwargs: Any) -> _Array:
    weight, token = args[:2]
    out, table = code.new(node.meta["val"].shape), code.weights(weight)
    width = weight.shape[1]
    scale = f" * {table}_scale[k]" if f"{table}_scale" in code.scaled else ""
    code.body.append(f"    k = (int){token.name}[0];")
    text = f"{out.name}[i] = (float){table}[k * {width} + i]{scale};"
    code.body.append(_loop(width, text))
    return out


def _convolved(code: _Code, node: Any, args: Any, kwargs: Any) -> _Array:
    """Write the convolution of the window of a step, which is a product for each group."""
    x, weight, bias, _, _, dilation, _, _, groups = args
    reach = dilation[0] * (weight.shape[-1] - 1) + 1
    if x.shape[-1] - reach >= args[3][0]:
        raise KindError("the model", "one with a convolution of steps", "one of a window")

    def window(value: Tensor) -> Tensor:
        return value[0, :, : reach : dilation[0]].reshape(groups, -1, 1)

    columns = _moved(code, window, [x])
    first = () if bias is None else (bias.view(1, -1, 1),)
    matrices = weight.reshape(groups, -1, columns.shape[1])
    return _product(code, node, (*first, matrices, columns), {})


def _indexed(code: _Code, node: Any, args: Any, kwargs: Any) -> _Array:
    """Write the rows of a table that the state chooses."""
    table, (*before, index) = _array(code, args[0]), args[1]
    outer, inner = (math.prod(axes) for axes in (table.shape[: len(before)],
                                                 table.shape[len(before) + 1 :]))  # fmt: skip
    out, rows, count = code.new(node.meta["val"].shape), table.shape[len(before)], index.shape[0]
    row = f"(k / {count} * {rows} + (int){index.name}[k % {count}]) * {inner} + i"
    code.body.append(
        f"    for (k = 0; k < {outer * count}; ++k)\n        for (i = 0; i < {inner}; ++i) "
        f"{out.name}[k * {inner} + i] = {table.name}[{row}];"
    )
    return out


def _normalized(code: _Code, node: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
    x, (size, *_), weight, bias, eps = args
    out, gain, shift = code.new(x.shape), _array(code, weight), _array(code, bias)
    x_i, each = f"{x.name}[k * {size} + i]", f"        for (i = 0; i < {size}; ++i)"
    scale = f"sqrtf(variance + {_number(eps)})"
    code.body.append(
        f"    for (k = 0; k < {math.prod(x.shape) // size}; ++k) {{\n"
        f"        float mean = 0.0f, variance = 0.0f;\n{each} mean += {x_i} / {size}.0f;\n"
        f"{each} {{ const float d = {x_i} - mean; variance += d * d / {size}.0f; }}\n{each} "
        f"{out.name}[k * {size} + i] = ({x_i} - mean) / {scale} * {gain.name}[i] + {shift.name}[i];"
        "\n    }"
    )
    return out, None, None


def _summed(code: _Code, node: Any, args: Any, kwargs: Any) -> _Array:
    x, dims = args[:2]
    order = [d for d in range(len(x.shape)) if d not in [k % len(x.shape) for k in dims]]
    inner = math.prod(x.shape[k] for k in dims)
    turned = _moved(code, lambda own: own.permute(*order, *dims), [x])
    out = code.new(node.meta["val"].shape)
    scale = f" / {inner}.0f" if node.target is aten.mean.dim else ""
    code.body.append(
        f"    for (k = 0; k < {math.prod(out.shape)}; ++k) {{\n        float sum = 0.0f;\n"
        f"        for (i = 0; i < {inner}; ++i) sum += {turned.name}[k * {inner} + i];\n"
        f"        {out.name}[k] = sum{scale};\n    }}"
    )
    return out


_EMITTERS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(_POINTWISE, _pointwise), **dict.fromkeys(_MOVES, _move),
    **dict.fromkeys(_PRODUCTS, _product), aten.clamp.default: _clamped,
    aten.embedding.default: _embedded, aten.convolution.default: _convolved,
    aten.index.Tensor: _indexed, aten.native_layer_norm.default: _normalized,
    **dict.fromkeys((aten.new_empty.default, aten.zeros_like.default, aten.ones_like.default,
                     aten.full_like.default, aten.new_zeros.default, aten.new_full.default), _made),
    aten.sum.dim_IntList: _summed, aten.mean.dim: _summed,
}  # fmt: skip


@dataclass
class _Array:
    """A float array of the program: its name in C, and its shape."""

    name: str
    shape: torch.Size


@dataclass
class _Code:
    """The parts of the file that a program needs."""

    int8: bool
    body: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    work: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    scaled: set[str] = field(default_factory=set)
    error: float = 0.0
    stored: int = 0

    def new(self, shape: Sequence[int]) -> _Array:
        """Return a new array of the program."""
        name, size = f"v{len(self.work)}", max(1, math.prod(shape))
        self.work.append(f"static float {name}[{size}];")
        self.sizes.append(size)
        return _Array(name, torch.Size(shape))

    def constant(self, value: Tensor) -> _Array:
        """Return numbers as an array."""
        return _Array(self._stored(value.detach().float().contiguous().numpy()), value.shape)

    def weights(self, value: Tensor) -> str:
        """Return the name of a matrix of weights: float32, or rows of 8 bits with a scale each."""
        x = value.detach().float().contiguous().numpy()
        if not self.int8 or x.size < LEAST:
            return self._stored(x)
        _, integers, scale = quantize(x, (0,))
        self.error = max(self.error, float(np.abs(integers * scale[:, None] - x).max()))
        name = self._stored(integers, "signed char")
        self.scaled.add(f"{name}_scale")
        self.tables.append(_table("float", f"{name}_scale", scale.tolist(), _number))
        self.stored += integers.size + 4 * len(scale) - 4 * integers.size
        return name

    def _stored(self, x: Any, kind: str = "float") -> str:
        name = f"w{len(self.tables)}"
        write: Callable[[Any], str] = _number if kind == "float" else str
        self.tables.append(_table(kind, name, x.ravel().tolist(), write))
        self.stored += 4 * x.size
        return name


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else f"{'-' if value < 0 else ''}INFINITY"
    return f"{value:.9g}{'' if any(c in f'{value:.9g}' for c in '.e') else '.0'}f"


def _table(kind: str, name: str, values: list[Any], write: Callable[[Any], str]) -> str:
    lines = [", ".join(map(write, values[i : i + 8])) for i in range(0, len(values), 8)]
    text = ",\n".join(lines) or "0"
    return f"static const {kind} {name}[{max(1, len(values))}] = {{\n{text}\n}};"


def _loop(count: int, statement: str) -> str:
    return f"    for (i = 0; i < {count}; ++i) {{ {statement} }}"
