"""Search of the options of a network by optuna, on validation data alone.

The test part is divided from the other data as ``fit`` does it, and never predicted, so that its
results for the best options are still those of data that nothing was chosen on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.errors import ArgumentError, TrainingError
from representer.estimators.explanation import NETWORK
from representer.estimators.fitting import monitored
from representer.printable import say
from representer.storage.run_folder import UnsavedRun
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_objects import Objects
from representer.tasks.estimator_task import EstimatorTask
from representer.tasks.options import command_of
from representer.tasks.run_flow import WITHOUT_EFFECT_ON_TRAINING
from representer.tasks.sweep_space import Range
from representer.training.early_stopping import best_index
from representer.training.settings import plain, require_same

JOURNAL = "sweep.journal"


@dataclass(frozen=True)
class Sweep:
    """A search; see the module.

    Args:
        flow: The task.
        config: The options of ``fit``, whose values hold for what is not searched.
        space: The options to search.
        seeds: Networks per trial, whose mean counts.
    """

    flow: EstimatorTask
    config: Any
    space: Mapping[str, Range]
    seeds: int

    def run(self, out: Path, trials: int, sampler: str) -> Any:
        """Run trials until the folder has so many, and return the options of the best.

        Args:
            out: The folder with optuna's journal, in which finished trials are kept.
            trials: Number of trials, those that were run before included.
            sampler: ``"tpe"`` or ``"random"``.

        Raises:
            ArgumentError: The trials in the folder have other options or data.
            DataError: The data cannot be used.
            TrainingError: The training of every trial diverged.
        """
        import optuna  # pyright: ignore[reportMissingImports]
        from optuna.storages.journal import (  # pyright: ignore[reportMissingImports]
            JournalFileBackend,
        )

        sources = self.flow.sources(self.config)
        parts = [
            self._without_test(replace(self.config, seed=self.config.seed + k), sources)
            for k in range(self.seeds)
        ]
        name, direction = monitored(
            self.flow.kind(self.config, sources)(monitor=self.config.monitor),
            parts[0].target, len(parts[0].parts["valid"]),
        )  # fmt: skip
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        out.mkdir(parents=True, exist_ok=True)
        backend = JournalFileBackend(str(out / JOURNAL))
        study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend), study_name=self.flow.name,
            load_if_exists=True, direction="maximize" if direction == "max" else "minimize",
        )  # fmt: skip
        self._require_same_settings(study, sources, out)
        done = _finished(study)
        seed = self.config.seed + len(study.trials)  # else the trials before would be drawn again
        kinds = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
        study.sampler = kinds[sampler](seed=seed)
        for number in range(len(done) + 1, trials + 1):
            trial = study.ask()
            chosen = {option: own.suggest(trial, option) for option, own in self.space.items()}
            try:
                values = [self._train(one, chosen, k, name, direction)
                          for k, one in enumerate(parts)]  # fmt: skip
            except TrainingError as error:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                say(f"trial {number} of {trials} failed: {error}")
                continue
            study.tell(trial, float(np.mean(values)))
            listed = ", ".join(f"{key} {value:.4g}" for key, value in chosen.items())
            say(f"trial {number} of {trials}: {name} {np.mean(values):.4f} with {listed}")
        if not [one for one in study.trials if one.value is not None]:
            raise TrainingError(
                "Every trial diverged. Clip the gradients, or search other options."
            )
        best = study.best_trial
        say(f"best of {len(_finished(study))} trials: {name} {best.value:.4f}")
        return replace(self.config, **{key: _rounded(value) for key, value in best.params.items()})

    def _without_test(self, config: Any, sources: dict[str, Objects]) -> Data:
        """Return the data of a seed, with the validation part in place of the test part."""
        data = self.flow.divide(config, sources, is_silent=True)
        if not len(data.parts["valid"]):
            raise ArgumentError("valid_fraction", 0, "a validation part, which trials are rated on")
        changed = {name: getattr(data, name) for name in ("parts", "values", "encoded")}
        changed = {name: own | {"test": own["valid"]} for name, own in changed.items()}
        return replace(data, **changed, resources=data.resources | {"verbose": 0})

    def _train(
        self, data: Data, chosen: Mapping[str, Any], number: int, name: str, direction: Any
    ) -> float:
        """Return the best value of a metric of a network on the validation part."""
        rounded = {key: _rounded(value) for key, value in chosen.items()}
        seed = self.config.seed + number
        config = replace(self.config, **rounded, answer=NETWORK, seed=seed, resume=False)
        history = self.flow.train(UnsavedRun(), config, data, is_silent=True).estimator.history_
        values = [row.get(name) for row in history]
        best = best_index(values, direction)
        return float("-inf" if direction == "max" else "inf") if best is None else values[best]

    def _require_same_settings(self, study: Any, sources: dict[str, Objects], out: Path) -> None:
        free = {*WITHOUT_EFFECT_ON_TRAINING, *self.space}
        settings = {key: own for key, own in asdict(self.config).items() if key not in free}
        settings["sha256"] = {name: one.digest for name, one in sources.items()}
        settings |= {"seeds": self.seeds, "space": list(self.space)}
        before = study.user_attrs.get("settings")
        if before is not None:
            require_same(before, plain(settings), out)
        study.set_user_attr("settings", plain(settings))

    def command(self, best: Any, usual: Mapping[str, Any]) -> str:
        """Return the command of ``fit`` with the best options."""
        return command_of(self.flow.name, replace(best, out=usual.get("out")), usual)


def _finished(study: Any) -> list[Any]:
    return [trial for trial in study.trials if trial.state.is_finished()]


def _rounded(value: float) -> float:
    """Return a value as the command line shows it."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
