"""Estimators of molecules: SMILES, the atom and bond features of L17, and graph networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer

from representer.data.molecules import (
    ATOM_FEATURES,
    BOND_FEATURES,
    BalancedDraws,
    ReadOnce,
    atom_pairs,
    canonical,
    descriptor_names,
    descriptors,
    invalid_reason,
    molecule_graph,
    molecule_views,
    parse_smiles,
    scaffold,
    torsions,
)
from representer.data.splits import digest_of
from representer.errors import ArgumentError, DataError, say
from representer.estimators.explanation import Explanation
from representer.estimators.fitting import Examples, batch_size_for
from representer.estimators.graph import GraphEnsembleEstimator
from representer.estimators.graph_inputs import GraphBatches
from representer.estimators.supervised import Classifier, Regressor
from representer.estimators.targets import Numbers
from representer.kernels.sequences import strings_of
from representer.kernels.subtree_kernel import SubtreeKernel
from representer.options.molecule import MoleculeParameters, MoleculeRegressorParameters
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask


def balanced(
    task: TrainingTask, values: NDArray[np.float64], width: float, batch_size: int, seed: int
) -> TrainingTask:
    """Return the task with batches drawn evenly from bins of the target, see `BalancedDraws`.

    A row without a target is never drawn.
    """
    measured = np.flatnonzero(~np.isnan(values))
    draws = BalancedDraws(values[measured].tolist(), width, generators.derive(seed, "order"))

    def batches(epoch: int) -> list[list[int]]:
        rows = measured[draws.epoch(epoch)].tolist()
        return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]

    return replace(task, batches=batches)


def with_rate_by_examples(task: TrainingTask, factor: float, every: int) -> TrainingTask:
    """Return the task with a learning rate that falls after every so many examples."""

    def batches(epoch: int) -> list[list[tuple[Any, int]]]:
        inner = task.batches(epoch)
        seen = epoch * sum(map(len, inner))
        described = []
        for batch in inner:
            described.append([(graph, seen + i) for i, graph in enumerate(batch)])
            seen += len(batch)
        return described

    def load(description: Sequence[tuple[Any, int]]) -> Any:
        return task.load([graph for graph, _ in description])

    def lr_scale(description: Sequence[tuple[Any, int]]) -> float:
        return factor ** (description[0][1] // every)

    return replace(task, batches=batches, load=load, lr_scale=lr_scale)


SCAFFOLD = "scaffold"
LEVELS = (3, 3, 3)  # relabelings of the kernel, by element, by neighborhood and by feature
SPEED = 50  # molecules a second of a kernel machine, on one slow core
LANDMARKS = 4000  # molecules that the kernel compares with; of more, the others are approximated
REMEMBERED = 20_000  # molecules whose views, pairs and descriptors are kept during a fit
NAMES = {
    "wl": "WL kernel network", "random-walk": "random-walk kernel network", "gine": "GINE"
}  # fmt: skip


@dataclass(frozen=True)
class MoleculeInputs(GraphBatches):
    """Molecules as graphs with features of atoms and bonds."""

    features: int

    def __post_init__(self) -> None:
        """Refuse a number without a list of features, since it may come from a file."""
        if self.features not in ATOM_FEATURES:
            raise ValueError(f"features is {self.features}; expected 62 or 82")

    def encode(self, X: Sequence[str]) -> list[Any]:
        """Return the graph of each molecule."""
        return [molecule_graph(smiles, self.features) for smiles in X]


class MoleculeNetwork(MoleculeParameters, GraphEnsembleEstimator):
    """The networks for molecules, see `MoleculeClassifier`."""

    noun: ClassVar[str] = "molecule"
    place: ClassVar[str] = "atom"
    feature: ClassVar[str] = "feature"
    _task: ClassVar[str] = "molecule"
    _input_tags: ClassVar[tuple[str, ...]] = ("string",)
    _inputs: ClassVar[type[MoleculeInputs]] = MoleculeInputs
    inputs_: MoleculeInputs

    @property
    def network_name(self) -> str:
        name = NAMES[self.network]
        return f"{name}, mean of {self.members}" if self.members > 1 else name

    def explanation_details(self, one: str, explanation: Explanation) -> dict[str, Any]:
        return {"smiles": one, "atoms": explanation.values_by_place()}

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        validation: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Train on molecules and targets, see `SupervisedEstimator.fit`.

        Args:
            X: SMILES ``(N,)``.
            y: The targets ``(N,)`` or ``(N, K)``, unknown values as NaN or None.
            groups: The group of each molecule ``(N,)``, or ``"scaffold"`` for its Bemis-Murcko
                scaffold; validation holds out whole groups, so that validation molecules differ
                from training molecules.
            validation: A pair ``(X, y)`` that selects the best epoch and calibrates uncertainties;
                by default a part of the training data.
            sample_weight: Weight of each molecule ``(N,)``.
        """
        if isinstance(groups, str):
            if groups != SCAFFOLD:
                raise ArgumentError("groups", groups, f"a group of each molecule, or {SCAFFOLD!r}")
            X = self.checked_objects(X)
            groups = [scaffold(smiles) for smiles in X]
        return super().fit(X, y, groups=groups, validation=validation, sample_weight=sample_weight)

    def training_plan(
        self, train: Examples, valid: Examples, network: nn.Module, seed: int
    ) -> tuple[TrainingTask, TrainerConfig, Optimizer | None]:
        task, config, optimizer = super().training_plan(train, valid, network, seed)
        task = self._resampled(task, train, seed)
        if self.time_limit and self.verbose:
            fitted = 2 + len(train.objects) / SPEED
            say(f"the networks train for up to {self.time_limit:g} s, the kernel machine for about "
                f"{fitted:.0f} s; see --time-limit and --answer")  # fmt: skip
        if not self.lr_decay_every:
            return task, config, optimizer
        task = with_rate_by_examples(task, self.lr_decay, self.lr_decay_every)
        return task, replace(config, lr_decay=None), optimizer

    def _resampled(self, task: TrainingTask, train: Examples, seed: int) -> TrainingTask:
        """Return the task with the examples of an epoch drawn as the parameters say."""
        return task

    @staticmethod
    def _digest(one: str) -> int:
        return digest_of(canonical(one))

    def _check_objects(self, X: Any) -> list[str]:
        molecules = strings_of(X, "SMILES", "a SMILES")
        for row, smiles in enumerate(molecules):
            if reason := invalid_reason(smiles):
                raise DataError(f"X[{row}]: {reason}", fix="Correct it or leave this row out.")
        return molecules

    def learn_inputs(self, objects: Sequence[str], seed: int) -> MoleculeInputs:
        return MoleculeInputs(self.features)

    def _new_kernel(self) -> SubtreeKernel:
        return SubtreeKernel(
            LEVELS, molecule_views, most=LANDMARKS, joint=True, patterns=(atom_pairs, torsions),
            numbers=descriptors, names=descriptor_names(),
        )  # fmt: skip

    def remembered(self, objects: Sequence[str]) -> list[str]:
        """Return the molecules with memory for what the kernel reads, but for those above a limit.

        Classes read them twice, and so does each of several targets.
        """
        return [ReadOnce(smiles) if row < REMEMBERED else smiles
                for row, smiles in enumerate(objects)]  # fmt: skip

    def _widths(self, inputs: MoleculeInputs) -> tuple[int, int]:
        return len(ATOM_FEATURES[inputs.features]), len(BOND_FEATURES)

    def node_names(self, one: str) -> list[str]:
        return [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in parse_smiles(one).GetAtoms()]


class MoleculeClassifier(MoleculeNetwork, Classifier):
    """A classifier of molecules: a kernel machine of subtrees, and graph-kernel networks (L17).

    X is a sequence of SMILES. y has one label per molecule ``(N,)``, or labels of several targets
    ``(N, K)``, None or NaN where unknown; `explain` then explains the first target.

    Examples:
        >>> from representer.estimators import MoleculeClassifier
        >>> X = ["CCO", "CCCO", "CO", "CCCCO", "CC", "CCC", "CCCC", "CCCCC"]
        >>> y = ["alcohol"] * 4 + ["alkane"] * 4
        >>> model = MoleculeClassifier(epochs=1, members=1, random_state=0, verbose=0).fit(X, y)
        >>> model.predict(["CCCCCO"]).shape
        (1,)

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.3.
    """


class MoleculeRegressor(MoleculeRegressorParameters, MoleculeNetwork, Regressor):
    """A regressor of molecules: a Gaussian process of subtrees, and graph-kernel networks (L17).

    X is a sequence of SMILES, y has numbers ``(N,)`` or ``(N, K)``, NaN where unknown. With several
    targets, `explain` explains the first one.

    Examples:
        >>> from representer.estimators import MoleculeRegressor
        >>> X = ["C" * n for n in range(1, 13)]
        >>> model = MoleculeRegressor(epochs=1, members=2, random_state=0, verbose=0)
        >>> mean, std = model.fit(X, range(1, 13)).predict(["CCO"], return_std=True)
        >>> mean.shape, std.shape
        ((1,), (1,))
    """

    def find_target(self, y: Any) -> Numbers:
        target = super().find_target(y)
        if self.balance and target.width > 1:
            raise ArgumentError("balance", self.balance, "0 where there are several targets")
        if self.standardize:
            return target
        return replace(target, means=(0.0,) * target.width, scales=(1.0,) * target.width)

    def _resampled(self, task: TrainingTask, train: Examples, seed: int) -> TrainingTask:
        if not self.balance:
            return task
        size = batch_size_for(self, len(train.objects))
        return balanced(task, train.values[:, 0], self.balance, size, seed)
