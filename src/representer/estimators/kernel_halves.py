"""Both halves of a kernel that the user writes: the kernel itself, and its network."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.estimators.explanation import KERNEL, NETWORK, Contribution
from representer.estimators.kernel_features import KernelFeatures
from representer.estimators.pool import Explained
from representer.estimators.supervised import SupervisedEstimator
from representer.estimators.targets import centered, columns_of
from representer.explain.sections import Section, sections
from representer.kernels.kernel import Kernel
from representer.models.kernel_model import KernelModel, KernelModelConfig


class KernelHalves(SupervisedEstimator):
    """An estimator whose two halves are of one kernel, if the parameter `kernel` is one.

    The kernel half compares an object with training objects, the network half with learned
    references. Both are functions of the kernel's space, and are explained by the same sum.
    """

    compares: ClassVar[tuple[str, ...]]  # Kernel.objects of its kernels
    kernel: Any
    hidden_size: int

    # ---- what a subclass gives

    def expression(self) -> Kernel | None:
        """Return the kernel of both halves; None if the subclass has other halves."""
        return self.kernel

    @abstractmethod
    def width(self, inputs: Any) -> int:
        """Return the number of features of a token or node."""

    @abstractmethod
    def exact(self, objects: Sequence[Any]) -> list[Any]:
        """Return objects as the kernel takes them, in float64."""

    @abstractmethod
    def names_of(self, one: Any) -> Sequence[str]:
        """Return the names of the tokens or nodes of an object."""

    # ---- what is here

    def check(self) -> None:
        """Check every value, see `TrainingParameters.check`."""
        super().check()
        if self.kernel is None:
            return
        expected = f"a kernel of {' or '.join(self.compares)}"
        if not isinstance(self.kernel, Kernel):
            hint = "Compose one of representer.kernels."
            raise KindError("kernel", repr(self.kernel), expected, hint=hint)
        if self.kernel.objects not in self.compares:
            raise ArgumentError("kernel", repr(self.kernel), expected)
        if reason := self.kernel.no_network():
            hint = f"{reason} Labels are one-hot vectors, so that base='linear' compares them."
            raise ArgumentError("kernel", repr(self.kernel), "one that has a network", hint=hint)

    @property
    def network_name(self) -> str:
        """Name of the network in reports."""
        return "kernel network" if self.expression() is not None else super().network_name

    def _configure(self, inputs: Any, width: int) -> Any:
        kernel = self.expression()
        if kernel is None:
            return super()._configure(inputs, width)  # type: ignore[safe-super]
        return KernelModelConfig(kernel, self.width(inputs), width, self.hidden_size)

    def _read_config(self, values: dict[str, Any]) -> Any:
        is_of_kernel = "kernel" in values
        return KernelModelConfig(**values) if is_of_kernel else super()._read_config(values)

    def _require_sizes(self, config: Any) -> None:
        if not isinstance(config, KernelModelConfig):
            super()._require_sizes(config)
            return
        got, expected = (config.input_size, config.outputs), self.target_.width
        if got != (self.width(self.inputs_), expected):
            raise ValueError(f"the network has {got} features and outputs; expected {expected}")

    def _new_kernel(self) -> Any:
        kernel = self.expression()
        return super()._new_kernel() if kernel is None else KernelFeatures(kernel)

    def kernel_objects(self, objects: Any) -> Any:
        """Return objects as the kernel takes them."""
        is_own = self.expression() is None
        return super().kernel_objects(objects) if is_own else self.exact(objects)

    def _explain_network(self, one: Any, output: int) -> Explained:
        network, width = self.network_, columns_of(self.target_)[0].width
        if not isinstance(network, KernelModel):
            return super()._explain_network(one, output)  # type: ignore[safe-super]
        exact = copy.deepcopy(network).double()
        weights, constants = network.coefficients()
        own, constant = centered(weights[:width])[output], centered(constants[:width])[output]
        (x,) = self.exact([one])
        with torch.no_grad():
            outputs = exact(*map(_doubled, self.inputs_.collate(self.inputs_.encode([one]))))
        score = centered(outputs[0, :width])[output].item()
        references = exact.network.reference_objects()
        found = sections(exact.network.kernel, x, references, own)
        return score, float(constant), self._contributions(one, found, NETWORK)

    def explain_kernel(self, one: Any, output: int) -> Explained:
        """Return an output of the kernel machine, its constant part and its contributions."""
        machine = self.machine_
        if machine is None or not isinstance(machine.kernel, KernelFeatures):
            return super().explain_kernel(one, output)
        of_features, constant = machine.centered(output)
        own = torch.from_numpy(machine.kernel.coefficients(of_features))
        (x,) = self.exact([one])
        found = sections(machine.kernel.kernel, x, machine.kernel.landmarks_, own)
        score = machine.centered_score([x], output)
        return score, constant, self._contributions(one, found, KERNEL)

    def _contributions(self, one: Any, found: Sequence[Section], half: str) -> list[Contribution]:
        """Return the contribution of each token to each part of the kernel."""
        names, parts = self.names_of(one), []
        for section in found:
            if section.by_token is None:
                where = tuple(range(len(names)))
                parts.append(Contribution(section.name, where, half, section.value))
                continue
            for t, value in enumerate(section.by_token.tolist()):
                parts.append(Contribution(f"{names[t]} in {section.name}", (t,), half, value))
        return parts


def _doubled(value: Any) -> Any:
    is_real = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if is_real else value
