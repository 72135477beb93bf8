"""Checks of the options of a string-kernel layer."""

from __future__ import annotations

from typing import Any, Literal, get_args

from representer.errors import ArgumentError
from representer.functional import StringChain
from representer.functional.string_chain import Combine, Normalized, Readout
from representer.nn.checks import check_flag
from representer.numbers import is_number
from representer.requirements import check_integer

DecayOption = float | Literal["learned", "input", "state"]
NormalizedOption = bool | Literal["exact"]
ActivationOption = Literal["tanh", "relu", "sigmoid"] | None


def check_decay(decay: Any) -> DecayOption:
    """Return the decay if it is valid.

    Raises:
        ArgumentError: If it is neither a number in [0, 1] nor a name.
    """
    if is_number(decay) and 0 <= decay <= 1:
        return float(decay)
    if isinstance(decay, str) and decay in ("learned", "input", "state"):
        return decay
    hint = (
        "Outside of [0, 1], weights of n-grams would grow or change sign."
        if is_number(decay)
        else ""
    )
    raise ArgumentError(
        "decay", decay, "a number in [0, 1], 'learned', 'input' or 'state'", hint=hint
    )


def string_chain(
    *,
    order: int,
    decay: DecayOption,
    combine: Combine,
    normalized: NormalizedOption,
    readout: Readout,
    activation: ActivationOption,
    highway: bool,
) -> StringChain:
    """Return the chain of a layer from its options.

    Raises:
        ArgumentError: If one of them is invalid.
    """
    highway = check_flag("highway", highway)
    _check_choice("combine", combine, get_args(Combine))
    _check_choice("normalized", normalized, (False, True, "exact"))
    _check_choice("readout", readout, get_args(Readout))
    _check_choice("activation", activation, ("tanh", "relu", "sigmoid", None))
    if normalized is True and decay == 1:
        hint = 'Each new term has the factor 1 − λ = 0. Use normalized="exact" for an average.'
        raise ArgumentError("decay", decay, "a number below 1 with normalized=True", hint=hint)
    norms: dict[NormalizedOption, Normalized] = {False: "no", True: "paper", "exact": "exact"}
    return StringChain(
        check_integer("order", order),
        combine,
        norms[normalized],
        readout,
        "gate" if decay == "input" else "state_gate" if decay == "state" else "given",
        highway,
        activation or "identity",
    )


def _check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        *first, last = map(repr, choices)
        raise ArgumentError(name, value, f"{', '.join(first)} or {last}")
