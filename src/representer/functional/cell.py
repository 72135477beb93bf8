"""A recurrent cell as frozen data: one row of L19 Table 1.

Every cell of the family is an instance of

    c~_t = phi(a_t + W h_{t-1})                       candidate
    c_t  = i_t * c~_t + f_t * m_{t-1}                 memory cell, then layer norm if requested
    h_t  = o_t * psi(c_t)                             emission

and differs from the others only in the fields below. Liang et al. 2019, (8)-(11), (18)-(19).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, cast, get_args

from representer.errors import ArgumentError
from representer.functional.derived import compute_cached
from representer.functional.nonlinearities import NONLINEARITIES

InputGate = Literal["dynamic", "coupled", "static"]
ForgetGate = Literal["dynamic", "static", "none"]
Feedback = Literal["all", "gates", "none"]
Memory = Literal["cell", "output", "expm1"]
_KNOWN = {
    "input_gate": get_args(InputGate),
    "forget_gate": get_args(ForgetGate),
    "candidate": tuple(NONLINEARITIES),
    "output": tuple(NONLINEARITIES),
    "feedback": get_args(Feedback),
    "memory": get_args(Memory),
}


@dataclass(frozen=True)
class Cell:
    """The options that distinguish recurrent cells.

    Attributes:
        input_gate: i_t: ``"dynamic"`` sigma(.), ``"coupled"`` 1 - f_t, ``"static"`` a constant.
        forget_gate: f_t: ``"dynamic"`` sigma(.), ``"static"`` a constant, ``"none"`` 0.
        output_gate: If True, o_t = sigma(.); otherwise o_t = 1.
        candidate: phi, a name of ``nonlinearities``.
        output: psi, a name of ``nonlinearities``.
        feedback: Pre-activations that depend on h_{t-1}: all, all but the candidate, or none.
        memory: m_{t-1}: the cell c_{t-1}; the output h_{t-1} (L19 (6), where q(c_{t-1}) is both);
            or e^{c_{t-1}} - 1, the Gaussian kernel minus its initial value.
        candidate_bias: If True, the candidate has a bias (as in the LSTM, L19 section 4.3).

    Raises:
        ArgumentError: If an option is unknown.
    """

    input_gate: InputGate
    forget_gate: ForgetGate
    output_gate: bool
    candidate: str = "identity"
    output: str = "identity"
    feedback: Feedback = "all"
    memory: Memory = "cell"
    candidate_bias: bool = False

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                raise ArgumentError(name, getattr(self, name), f"one of {', '.join(known)}")
        compute_cached(self)

    @cached_property
    def gates(self) -> tuple[str, ...]:
        """The pre-activations of the cell, in their order in tensors."""
        return (
            "candidate",
            *("input",) * (self.input_gate == "dynamic"),
            *("forget",) * (self.forget_gate == "dynamic"),
            *("output",) * self.output_gate,
        )

    @cached_property
    def recurrent_gates(self) -> tuple[str, ...]:
        """The entries of ``gates`` that depend on h_{t-1}, always the last ones."""
        skipped = {"all": 0, "gates": 1, "none": len(self.gates)}[self.feedback]
        return self.gates[skipped:]

    @cached_property
    def biased_gates(self) -> tuple[str, ...]:
        """The entries of ``gates`` with a bias, always the last ones."""
        return self.gates if self.candidate_bias else self.gates[1:]

    @cached_property
    def has_memory(self) -> bool:
        """True if a step depends on previous ones."""
        return self.forget_gate != "none" or self.feedback != "none"

    @cached_property
    def code(self) -> str:
        """The cell as a string, since arguments of custom operators cannot be objects."""
        gated, biased = str(int(self.output_gate)), str(int(self.candidate_bias))
        fields = (self.input_gate, self.forget_gate, gated, self.candidate, self.output)
        return " ".join((*fields, self.feedback, self.memory, biased))

    @staticmethod
    @lru_cache
    def parse(code: str) -> Cell:
        """Return the cell from its ``code``."""
        i, f, gated, candidate, output, feedback, memory, biased = code.split(" ")
        return Cell(
            cast(InputGate, i),
            cast(ForgetGate, f),
            gated == "1",
            candidate,
            output,
            cast(Feedback, feedback),
            cast(Memory, memory),
            biased == "1",
        )


LSTM = Cell("dynamic", "dynamic", True, candidate="tanh", output="tanh", candidate_bias=True)
RKM_LSTM = Cell("dynamic", "dynamic", True)
RKM_CIFG = Cell("coupled", "dynamic", True)
LINEAR_KERNEL_GATED = Cell("static", "static", True)
LINEAR_KERNEL = Cell("static", "static", False, output="tanh")
GATED_CNN = Cell("static", "none", True, feedback="none")
CNN = Cell("static", "none", False, output="tanh", feedback="none")
RAN = Cell("dynamic", "dynamic", False, feedback="gates")
