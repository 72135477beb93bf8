"""Reading, splitting and encoding the data of a task that trains an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from representer.errors import ArgumentError, DataError
from representer.estimators.supervised import SupervisedEstimator
from representer.printable import say
from representer.tasks.estimator_data import Data, Split, are_fractions, divided, with_calibration
from representer.tasks.estimator_hooks import Facts, no_resources
from representer.tasks.estimator_objects import Objects
from representer.tasks.estimator_options import parameters_of, refuse_parameters_of_others
from representer.tasks.estimator_use import EstimatorUse


@dataclass(frozen=True, kw_only=True)
class EstimatorPreparation(EstimatorUse):
    """The preparation of the data of a task; the other arguments are those of `EstimatorUse`.

    Args:
        name: As in ``representer fit NAME``.
        nouns: Several objects: "graphs".
        parameters: Dataclass with the parameters of both estimators, a `TargetParameters`.
        classifier: The class of the classifier.
        regressor: The class of the regressor; None for a task of classes alone, whose options
            have the base `RunConfig`, see `config_of`.
        demo: Returns synthetic objects.
        describe: Returns facts on the objects, from the options of ``fit`` and the data.
        resources: Reads parameters of the estimator from files, from the options of ``fit`` and
            the inputs.
        split_by: From the options of ``fit``, objects and the fractions of all parts to the
            positions in each part; None for a random split.
    """

    name: str
    nouns: str
    parameters: type[Any]
    classifier: type[SupervisedEstimator]
    demo: Callable[[], Objects]
    describe: Callable[[Any, Data], Facts]
    regressor: type[SupervisedEstimator] | None = None
    resources: Callable[[Any, Any], dict[str, Any]] = no_resources
    split_by: Callable[[Any, Objects, Sequence[float]], Sequence[Sequence[int]]] | None = None

    def prepare(self, config: Any) -> Data:
        """Read, check, split and encode the data, without writing anything.

        Raises:
            DataError: The data cannot be used.
            ArgumentError: There are no data, or a parameter is out of its range.
        """
        return self.divide(config, self.sources(config))

    def sources(self, config: Any) -> dict[str, Objects]:
        """Read and check the data, see `prepare`.

        Returns:
            The main objects as ``"all"``, and those of ``"valid"`` and ``"test"``.
        """
        for kind in filter(None, (self.classifier, self.regressor)):
            kind(**parameters_of(config, kind)).check()
        read = self._sources(config)
        kind = self.kind(config, read)
        refuse_parameters_of_others(config, kind, self.parameters)
        estimator = kind(**parameters_of(config, kind))
        sources = {name: self._usable(estimator, one, config) for name, one in read.items()}
        for one in sources.values():
            one.say_notes()
        return sources

    def kind(self, config: Any, sources: dict[str, Objects]) -> type[SupervisedEstimator]:
        """Return the class of the estimator: a regressor if labels are numbers."""
        return self._regressor(config, sources["all"]) or self.classifier

    def _regressor(self, config: Any, main: Objects) -> type[SupervisedEstimator] | None:
        """Return the class of the regressor if labels are numbers."""
        if self.regressor is None or config.kind == "classification":
            return None
        is_regression = config.kind == "regression" or are_fractions(main.labels)
        return self.regressor if is_regression else None

    def divide(
        self,
        config: Any,
        sources: dict[str, Objects],
        split_by: Split | None = None,
        *,
        is_silent: bool = False,
    ) -> Data:
        """Split and encode the data, see `prepare`.

        Args:
            config: The run.
            sources: From `sources`.
            split_by: The split of the main objects, instead of that of the options.
            is_silent: Leave out the notes on the data.
        """
        kind: Any = self.kind(config, sources)
        is_regression = kind is self.regressor
        estimator = kind(**parameters_of(config, kind))
        fractions = {"valid": config.valid_fraction, "test": config.test_fraction}
        own = self.split_by and partial(self.split_by, config)
        data = divided(
            sources, fractions, config.seed, is_regression=is_regression, split_by=split_by or own
        )
        if config.conformal is not None:
            data = with_calibration(data, config.seed, own)
        if is_regression:
            data = replace(data, target=estimator._find_target(data.values["train"]))
        try:
            inputs = estimator._learn_inputs(data.parts["train"].objects, config.seed)
            encoded = {part: inputs.encode(own.objects) for part, own in data.parts.items()}
        except DataError as error:
            raise DataError(str(error), file=data.parts["train"].source) from None
        resources = self.resources(config, inputs)
        data = replace(data, inputs=inputs, encoded=encoded, resources=resources)
        facts = self.describe(config, data)
        for note in () if is_silent else facts.notes:
            say(note)
        return replace(data, facts=facts.values)

    def _sources(self, config: Any) -> dict[str, Objects]:
        reading = self._reading(config)
        is_regression = self.regressor is not None and config.kind == "regression"
        if config.demo:
            main = self.demo()
        elif config.data is None:
            hint = f"Without data of your own: representer fit {self.name} --demo"
            raise ArgumentError("data", None, f"the path of labeled {self.nouns}", hint=hint)
        else:
            main = self._read(config.data, reading, is_regression)
        is_regression = self._regressor(config, main) is not None
        others = {
            name: self._read(path, reading | main.reading, is_regression)
            for name in ("valid", "test")
            if (path := getattr(config, name))
        }
        return {"all": main, **others}

    def _read(self, path: Any, reading: dict[str, Any], is_regression: bool) -> Objects:
        return self.read(path, **reading, is_regression=is_regression, require_labels=True)

    def _reading(self, config: Any) -> dict[str, Any]:
        return {one.name: getattr(config, one.name) for one in fields(self.reading)}
