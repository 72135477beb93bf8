"""Return values of the functions of a task, and functions for a task that adds nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from representer.storage.run_folder import RunFolder
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_results import Outcome


@dataclass(frozen=True)
class Facts:
    """Facts on the objects, for the report.

    Attributes:
        values: By what they are.
        notes: Those that stderr shows before training.
    """

    values: dict[str, str]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Model:
    """Description of a network, for the report.

    Attributes:
        name: Its name in tables.
        values: Its equations and sizes, by what they are.
        parts: Names of its submodules, where they differ.
        facts: On the objects, known with the network.
        notes: What stderr shows before training.
    """

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Trained:
    """A trained estimator with its best weights, and its test predictions."""

    config: Any
    data: Data
    estimator: Any
    model: Model
    outcome: Outcome


def no_reason(estimator: Any, config: Any, one: Any) -> str:
    """Return the reason against using an object: none."""
    return ""


def as_they_are(estimator: Any, form: Any, objects: Any) -> Any:
    """Return objects as an estimator takes them: unchanged."""
    return objects


def no_more_figures(form: Any, objects: Any, values: Any, predictions: Any) -> dict[str, Any]:
    """Return more metrics of an evaluation: none."""
    return {}


def no_resources(config: Any, inputs: Any) -> dict[str, Any]:
    """Return the parameters of the estimator that are read from files: none."""
    return {}


def by_class(config: Any, data: Data, estimator: Any, network: Any) -> Model:
    """Return a model with the name of the estimator's network."""
    return Model(estimator._network_name)


def alone(config: Any) -> dict[str, Any]:
    """Return one network, without a heading."""
    return {"": config}


def silent(task: Any, run: RunFolder, trained: Trained) -> str:
    """Return what the terminal shows below the results: nothing."""
    return ""
