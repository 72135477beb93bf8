"""One target of a joint estimator: its kernel machine, the weights of both parts, deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from numpy.typing import NDArray

from representer.errors import ArgumentError
from representer.estimators.explanation import BOTH, KERNEL, NETWORK
from representer.estimators.kernel_machine import DESCRIPTION
from representer.estimators.label_sets import LabelSets
from representer.estimators.pool import POOL_FILE, Calibration, Moments, Pool, calibrate
from representer.estimators.targets import Column, Numbers
from representer.storage.run import RunFiles, RunFolder


@dataclass(frozen=True)
class JointTarget:
    """The parts that predict one target."""

    pool: Pool  # the weights of both parts
    machine: Any = None  # the kernel machine, such as a `KernelMachine`; None if there is none
    # calibrations of the deviations of numbers: of both parts and of each alone
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    thresholds: tuple[float, ...] = ()  # of the probabilities of several labels an object

    @classmethod
    def of(
        cls, target: Column, pool: Pool, machine: Any,
        moments: tuple[Moments | None, Moments | None], values: NDArray[Any],
    ) -> Self:  # fmt: skip
        """Return what predicts a target, with the deviations of numbers calibrated."""
        found = cls(pool, machine)
        if isinstance(target, LabelSets):
            scores = pool.scores(*(None if one is None else one[0] for one in moments))
            return replace(found, thresholds=target.thresholds(scores, values))
        if not isinstance(target, Numbers):
            return found
        calibrations = {}
        for answer in found.answers:
            mean, variance = found.part(answer).pool.moments(*moments)
            unit = target.in_unit(mean), variance * target.scales[0] ** 2
            calibrations[answer] = calibrate(*unit, values)
        return replace(found, calibrations=calibrations)

    @property
    def answers(self) -> list[str]:
        """The names of what can predict: both parts, or one of them."""
        pool = self.pool
        known = {KERNEL: pool.kernel_loss is not None, NETWORK: pool.network_loss is not None}
        known[BOTH] = all(known.values())
        return [answer for answer, is_there in known.items() if is_there]

    def part(self, answer: str) -> Self:
        """Return one of the parts, or both."""
        if answer not in self.answers:
            raise ArgumentError("answer", answer, " or ".join(map(repr, self.answers)))
        alone = {KERNEL: self.pool.only_kernel, NETWORK: self.pool.only_network}
        if answer not in alone:
            return self
        own = {name: one for name, one in self.calibrations.items() if name == answer}
        return replace(self, pool=alone[answer](), calibrations=own)


NETWORK_ALONE = JointTarget(Pool(0.0, 1.0, 0.0, 1.0, None, 1.0))


@dataclass(frozen=True)
class _Saved:
    """One target in pool.json."""

    pool: Pool
    calibrations: dict[str, Calibration]
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.pool.check()


@dataclass(frozen=True)
class _SavedTargets:
    """pool.json."""

    targets: tuple[_Saved, ...]


def write_targets(run: RunFolder, targets: Sequence[JointTarget]) -> None:
    """Write what `read_targets` reads into a run folder."""
    described = [
        {"pool": asdict(one.pool), "calibrations": {
            answer: asdict(own) for answer, own in one.calibrations.items()
        }} | ({"thresholds": one.thresholds} if one.thresholds else {})
        for one in targets
    ]  # fmt: skip
    run.write_json(POOL_FILE, {"targets": described})


def read_targets(
    files: RunFiles, machines: Sequence[Any], are_numbers: Sequence[bool]
) -> tuple[JointTarget, ...]:
    """Return what `write_targets` wrote.

    Raises:
        DataError: The file is missing or damaged.
    """
    saved = files.read(POOL_FILE, _SavedTargets).targets

    def restored() -> tuple[JointTarget, ...]:
        if len(saved) != len(machines):
            raise ValueError(f"{len(saved)} weights for {len(machines)} targets")
        found = []
        for one, machine, is_number in zip(saved, machines, are_numbers, strict=True):
            if machine is None and one.pool.kernel:
                raise ValueError(f"a weight of a kernel machine without {DESCRIPTION}")
            own = JointTarget(one.pool, machine, one.calibrations, one.thresholds)
            if set(one.calibrations) != (set(own.answers) if is_number else set()):
                raise ValueError(f"calibrations of {', '.join(one.calibrations) or 'nothing'}")
            found.append(own)
        return tuple(found)

    return files.parsed(POOL_FILE, restored)
