"""Replacement of the activations of a model by learned ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from representer.nn.activation.kernel_activation import KernelActivation
from representer.nn.evaluation_mode import evaluating

_Module = TypeVar("_Module", bound=nn.Module)

ELEMENTWISE: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardswish,
    nn.Hardsigmoid, nn.Tanhshrink,
)  # fmt: skip
"""Modules of torch that apply one continuous function elementwise."""


def replace_activations(
    module: _Module,
    num_centers: int = 20,
    example_input: Any = None,
    *,
    green: str = "abs",
    limits: tuple[float, float] = (-4.0, 4.0),
    **options: Any,
) -> _Module:
    """Replace a model's activations by learned ones, initialized as the functions they replace.

    Args:
        module: The model, which is modified in place.
        num_centers: d of each activation.
        example_input: A tensor or tuple of arguments, with which the model is called once to
            determine the number of neurons of each activation. Each neuron then has its own
            function, or each channel of images (the second of four or more dimensions). By default,
            all neurons of an activation share one function.
        green: g.
        limits: The range on which the functions are fitted; beyond it they are extrapolated by g,
            linearly for ``"abs"``.
        **options: Other arguments of `KernelActivation`.

    Returns:
        The module; with ``"abs"`` every activation has a linear term.

    References:
        Marra et al., 2018, (1): a separate function for each neuron of any network.
    """
    found = [
        (owner, name, child)
        for owner in module.modules()
        for name, child in owner._modules.items()  # every occurrence of shared modules
        if isinstance(child, ELEMENTWISE)
    ]
    kinds = _shapes(module, {child for _, _, child in found}, example_input)
    options.setdefault("linear_term", green == "abs")
    like = next(module.parameters(), torch.empty(0))
    made: dict[nn.Module, KernelActivation] = {}
    for owner, name, child in found:
        if child not in made:
            features, dim = _layout(kinds.get(child, set()))
            plain = _out_of_place(child)
            made[child] = KernelActivation(
                features, num_centers, green, limits, plain, dim=dim,
                device=like.device, dtype=like.dtype, **options,
            ).train(child.training)  # fmt: skip
        setattr(owner, name, made[child])
        if isinstance(owner, nn.TransformerEncoderLayer):
            owner.activation_relu_or_gelu = 0  # else torch computes it, in inference
    for owner in module.modules():
        if isinstance(owner, nn.TransformerEncoder):
            owner.use_nested_tensor &= not made  # only torch's own activations take them
    return module


def activation_penalty(module: nn.Module) -> Tensor:
    """Return the l1 norm of the coefficients of all learned activations (M18 section 3)."""
    penalties = [m.penalty() for m in module.modules() if isinstance(m, KernelActivation)]
    return torch.stack(penalties).sum() if penalties else torch.zeros(())


def activation_groups(
    module: nn.Module, lr: float | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Return parameter groups for an optimizer, with the learned activations in a separate group.

    Args:
        module: The model.
        lr: Learning rate of centers, coefficients and lines; that of the optimizer by default.
        **options: Other options of their group, such as ``weight_decay=0.0``.
    """
    own = [
        parameter
        for activation in module.modules()
        if isinstance(activation, KernelActivation)
        for parameter in _shape_parameters(activation)
    ]
    taken = {id(parameter) for parameter in own}
    rest = [parameter for parameter in module.parameters() if id(parameter) not in taken]
    group: dict[str, Any] = {"params": own, **options}
    return [{"params": rest}, group if lr is None else {**group, "lr": lr}]


def _shape_parameters(activation: KernelActivation) -> Iterable[nn.Parameter]:
    yield activation.centers
    yield activation.coefficients
    if activation.line is not None:
        yield activation.line


def _shapes(
    module: nn.Module, children: set[nn.Module], example_input: Any
) -> dict[nn.Module, set[torch.Size]]:
    """Return the shapes of the inputs of each activation."""
    visited: dict[nn.Module, set[torch.Size]] = {}
    if example_input is None:
        return visited

    def note(child: nn.Module, arguments: tuple[Any, ...]) -> None:
        visited.setdefault(child, set()).add(arguments[0].shape)

    hooks = [child.register_forward_pre_hook(note) for child in children]
    try:
        with torch.no_grad(), evaluating(module):
            arguments = example_input if isinstance(example_input, tuple) else (example_input,)
            module(*arguments)
    finally:
        for hook in hooks:
            hook.remove()
    return visited


def _layout(shapes: set[torch.Size]) -> tuple[int, int]:
    """Return the number of features of an activation and their dimension; 1 if shapes differ."""
    found = {(s[1], 1) if len(s) > 3 else (s[-1], -1) for s in shapes if len(s)}
    return found.pop() if len(found) == 1 else (1, -1)


def _out_of_place(child: nn.Module) -> nn.Module:
    """Return the activation without ``inplace``, for the fit."""
    if getattr(child, "inplace", False):
        child.inplace = False  # type: ignore[assignment]
    return child
