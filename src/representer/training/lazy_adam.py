"""Adam whose cost for an embedding depends on the rows of a batch, not on the vocabulary."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, BackendError, KindError, ShapeError
from representer.ops import core
from representer.ops.structs import AdamStruct

# Adam in some rows of a weight: the steps that they missed, and one with a gradient.

BETAS, EPS = (0.9, 0.999), 1e-8
_RATIO = BETAS[0] / BETAS[1] ** 0.5  # of the moves of two successive missed steps


class RowMoments(NamedTuple):
    """A weight and what Adam keeps of it."""

    weight: Tensor  # ``(V, E)``
    first: Tensor  # mean of the gradients
    second: Tensor  # mean of their squares
    last: Tensor  # the last step of each row, -1 for none ``(V,)``, int64


def step_numbers(step: int, rate: float) -> tuple[float, float]:
    r"""Return :math:`a_j` and :math:`b_j` of step j, see `adam_rows`."""
    b = (1 - BETAS[1] ** step) ** 0.5
    return rate * b / (1 - BETAS[0] ** step), b


@torch.no_grad()
def adam_rows(
    moments: RowMoments, rows: Tensor, numbers: Tensor, step: int, gradient: Tensor | None = None,
    *, backend: str | None = None,
) -> None:  # fmt: skip
    r"""Perform the missed steps of some rows up to `step`, and then one with a gradient, in place.

    After step s with moments m and v, a row without a gradient moves in step j = s + k by

    .. math::
        -\frac{\gamma_j}{1-\beta_1^j}
        \frac{\beta_1^k m}{\sqrt{\beta_2^k v / (1-\beta_2^j)} + \epsilon}
        = -\frac{m\, a_j\, r^k}{\sqrt v + \epsilon\, b_j\, \beta_2^{-k/2}}, \qquad
        b_j = \sqrt{1-\beta_2^j}, \; a_j = \frac{\gamma_j b_j}{1-\beta_1^j}, \;
        r = \frac{\beta_1}{\sqrt{\beta_2}}

    Moves of less than the rounding error of the first one are left out: those with
    :math:`r^k < 10^{-7}` in float32. The moments are those of all steps.

    Args:
        moments: The weight; its tensors are contiguous.
        rows: Distinct rows ``(R,)``, int64.
        numbers: a and b of all steps ``(2, S)``, float64.
        step: Number of steps before that of the gradient.
        gradient: Of these rows ``(R, E)``; None for none.
        backend: ``"cpp"`` or ``"reference"``; None for the faster one that is available.

    Raises:
        ShapeError: A tensor has another shape, or there are too few numbers.
        KindError: A tensor has another dtype or device.
        ArgumentError: The number of steps is negative.
        IndexError: A row does not exist.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015, algorithm 1.
    """
    dtype, device = moments.weight.dtype, moments.weight.device
    _check(moments, rows, numbers, step, gradient)
    window = math.ceil(math.log(torch.finfo(dtype).eps) / math.log(_RATIO))
    is_plain = device.type == "cpu" and all(tensor.is_contiguous() for tensor in moments)
    has_core = not core.MISSING and not core.refuses_dtype(dtype)
    if backend == "reference" or (backend is None and not (is_plain and has_core)):
        _reference(moments, rows, numbers.to(device), step, window, gradient)
        return
    if not (is_plain and has_core):
        raise BackendError(core.MISSING or "adam_rows: the core takes contiguous tensors on cpu.")
    a, b = numbers
    core.run(
        "adam_rows", AdamStruct, dtype, rows=len(rows), features=moments.weight.shape[1],
        step=step, window=window, index=rows, a=a, b=b, gradient=gradient,
        beta1=BETAS[0], beta2=BETAS[1], epsilon=EPS, **moments._asdict(),
    )  # fmt: skip


def _check(
    moments: RowMoments, rows: Tensor, numbers: Tensor, step: int, gradient: Tensor | None
) -> None:
    """Refuse what would make the core read outside its tensors."""
    weight, least = moments.weight, step + (gradient is not None)
    if step < 0:
        raise ArgumentError("step", step, "0 or more")
    if rows.dim() != 1:
        raise ShapeError("rows", rows.shape, "(R,)")
    if numbers.dim() != 2 or len(numbers) != 2 or numbers.shape[1] < least:
        raise ShapeError("numbers", numbers.shape, f"(2, {least} or more)")
    shape = tuple(weight.shape)
    if len(shape) != 2:
        raise ShapeError("weight", shape, "(V, E)")
    kinds = (
        ("first", moments.first, shape, weight.dtype),
        ("second", moments.second, shape, weight.dtype),
        ("last", moments.last, shape[:1], torch.int64),
        ("gradient", gradient, (len(rows), *shape[1:]), weight.dtype),
        ("rows", rows, tuple(rows.shape), torch.int64),
        ("numbers", numbers, tuple(numbers.shape), torch.float64),
    )
    for name, tensor, expected, dtype in kinds:
        if tensor is None:
            continue
        if tuple(tensor.shape) != expected:
            raise ShapeError(name, tensor.shape, str(expected))
        if tensor.dtype != dtype:
            raise KindError(name, str(tensor.dtype), str(dtype))
        if name != "numbers" and tensor.device != weight.device:
            raise KindError(name, f"on {tensor.device}", str(weight.device))
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < shape[0]:
        raise IndexError(
            f"rows are {int(rows.min())} to {int(rows.max())}; expected 0 to {shape[0] - 1}"
        )


def _reference(
    moments: RowMoments, rows: Tensor, numbers: Tensor, step: int, window: int,
    gradient: Tensor | None,
) -> None:  # fmt: skip
    *tensors, last = moments
    p, m, v = (tensor[rows] for tensor in tensors)
    done = last[rows]
    is_behind = (done >= 0) & (done < step)
    missed = torch.where(is_behind, step - done, 0)[:, None]
    root, total = v.sqrt(), torch.zeros_like(p)
    for k in range(1, min(window, int(missed.max()) if len(rows) else 0) + 1):
        i = (done + k - 1).clamp(0, step - 1)  # those with fewer missed steps are left out below
        a, b = numbers[:, i, None].to(p.dtype)
        move = a * _RATIO**k / (root + EPS * BETAS[1] ** (-k / 2) * b)
        total += torch.where(k <= missed, move, 0)
    p -= m * total
    for tensor, beta in zip((m, v), BETAS, strict=True):
        tensor *= (beta ** missed.double()).to(p.dtype)
    done = torch.where(is_behind, step, done)
    if gradient is not None:
        a, b = numbers[:, step].tolist()
        m.lerp_(gradient, 1 - BETAS[0])
        v.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        p -= a * m / (v.sqrt() + EPS * b)
        done = torch.full_like(done, step + 1)
    for tensor, values in zip(moments, (p, m, v, done), strict=True):
        tensor[rows] = values


_LARGE = 2**20  # entries from which updating the rows of a batch takes less time
_PLAIN = {"betas": BETAS, "eps": EPS, "weight_decay": 0, "amsgrad": False, "maximize": False}


# Methods of torch without their wrappers, which keep torch's compiler from tracing them: the first
# call of one imports the compiler, which takes longer than a small training (1.3 CPU seconds).
_BASE = torch.optim.Optimizer
_state_dict, _load_state_dict, _adam_step = (
    inspect.unwrap(method)
    for method in (_BASE.state_dict, _BASE.load_state_dict, torch.optim.Adam.step)
)


class LazyAdam(torch.optim.Adam):
    """Adam that updates a weight with sparse gradients in the rows of the gradient only.

    In Adam, a row without a gradient moves as well, by its decaying moments. Here these steps are
    performed when the row is next read or updated, or by `catch_up`. The weights that are read are
    those of `torch.optim.Adam`, up to rounding; the cost of a step does not depend on the number of
    rows. A step with a dense gradient is the step of `torch.optim.Adam`.

    Args:
        params: Parameters, or groups of them.
        lr: Learning rate.
        weight_decay: L2 penalty; it gives every row a gradient, so all rows are updated.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015.
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.0) -> None:
        self._rows: dict[Tensor, _RowSteps] = {}
        super().__init__(params, lr, BETAS, EPS, weight_decay, fused=True)

    add_param_group = inspect.unwrap(_BASE.add_param_group)
    zero_grad = inspect.unwrap(_BASE.zero_grad)

    @contextmanager
    def lookups(self, embeddings: Sequence[nn.Embedding]) -> Iterator[None]:
        """Give embeddings sparse gradients, and the rows that they read their weights, in a block.

        They are read nowhere else; those of groups with options that need dense gradients are not
        changed.
        """
        allowed = {
            p for group in self.param_groups if not _needs_all(group) for p in group["params"]
        }
        chosen = [embedding for embedding in embeddings if embedding.weight in allowed]
        hooks = [e.register_forward_pre_hook(self._before_lookup, with_kwargs=True) for e in chosen]
        try:
            for embedding in chosen:
                embedding.sparse = True
            yield
        finally:
            self.catch_up()
            for embedding, hook in zip(chosen, hooks, strict=True):
                embedding.sparse = False
                hook.remove()

    def catch_up(self) -> None:
        """Perform the missed steps of all rows."""
        for weight, steps in self._rows.items():
            steps.perform(self._moments(weight))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Perform a step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        sparse = []
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and weight.grad.is_sparse:
                    if name := _needs_all(group):
                        expected = f"{_PLAIN[name]!r} with sparse gradients"
                        raise ArgumentError(name, group[name], expected)
                    sparse.append((weight, weight.grad, group["lr"]))
                    weight.grad = None
                elif weight.grad is not None and weight in self._rows:
                    self._rows.pop(weight).perform(self._moments(weight))
        _adam_step(self)
        for weight, gradient, rate in sparse:
            self._step_rows(weight, gradient.coalesce(), rate)
            weight.grad = gradient
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer, including the steps that rows have missed."""
        rows = [self._rows[p].state_dict() if p in self._rows else None for p in self._weights()]
        return {**_state_dict(self), "rows": rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict`, or that of `torch.optim.Adam`."""
        _load_state_dict(self, {k: v for k, v in state_dict.items() if k != "rows"})
        weights = self._weights()
        saved = zip(weights, state_dict.get("rows", [None] * len(weights)), strict=True)
        self._rows = {
            weight: _RowSteps(steps["last"].to(weight.device), steps["numbers"].cpu())
            for weight, steps in saved
            if steps is not None
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_rows": self._rows}  # torch copies its attributes only

    def _step_rows(self, weight: Tensor, gradient: Tensor, rate: float) -> None:
        """Perform a step in the rows of a gradient."""
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros((), device=weight.device)
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        if weight not in self._rows:
            self._rows[weight] = _RowSteps.after(int(state["step"]), weight)
        state["step"] += 1
        moments, (rows,) = self._moments(weight), gradient.indices()
        self._rows[weight].perform(moments, rows, gradient.values(), rate)

    def _moments(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        state = self.state[weight]
        return weight, state["exp_avg"], state["exp_avg_sq"]

    def _before_lookup(
        self, embedding: nn.Embedding, positional: tuple[Tensor, ...], named: dict[str, Tensor]
    ) -> None:
        weight = embedding.weight
        if embedding.training and weight in self._rows:
            (tokens,) = (*positional, *named.values())
            self._rows[weight].perform(self._moments(weight), tokens.unique())

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.param_groups for weight in group["params"]]


class _RowSteps:
    """The steps of the rows of a weight.

    Args:
        last: The last step of each row, -1 for none ``(V,)``.
        numbers: a and b of all steps, see `adam_rows`, ``(2, S)``.
    """

    def __init__(self, last: Tensor, numbers: Tensor) -> None:
        self._last, self._numbers, self._count = last, numbers, numbers.shape[1]

    @classmethod
    def after(cls, count: int, weight: Tensor) -> Self:
        """Return the steps of a weight all of whose rows have a number of steps."""
        last = torch.full((len(weight),), count or -1, device=weight.device)
        return cls(last, torch.zeros(2, count, dtype=torch.float64))

    def perform(
        self, moments: tuple[Tensor, Tensor, Tensor], rows: Tensor | None = None,
        gradient: Tensor | None = None, rate: float = 0.0,
    ) -> None:  # fmt: skip
        """Perform missed steps, and one more with a gradient.

        Rows ``(R,)`` are distinct, all if left out; the others miss the step of the gradient.
        """
        rows = torch.arange(len(self._last), device=self._last.device) if rows is None else rows
        step = self._count
        if gradient is not None:
            self._count += 1
            if self._numbers.shape[1] < self._count:
                room = torch.zeros(2, max(self._count, 1024), dtype=torch.float64)
                self._numbers = torch.cat([self._numbers, room], dim=1)
            self._numbers[0, step], self._numbers[1, step] = step_numbers(self._count, rate)
        adam_rows(RowMoments(*moments, self._last), rows, self._numbers, step, gradient)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the arguments of the constructor."""
        return {"last": self._last.clone(), "numbers": self._numbers[:, : self._count].clone()}


def _needs_all(group: dict[str, Any]) -> str | None:
    """Return the option of a group by which rows without a gradient move differently, or None."""
    return next((name for name, plain in _PLAIN.items() if group[name] != plain), None)


def large_embeddings(model: nn.Module) -> list[nn.Embedding]:
    """Return the embeddings of a model for which `LazyAdam.lookups` takes less time."""
    uses: Counter[Tensor] = Counter(p for _, p in model.named_parameters(remove_duplicate=False))
    return [
        module
        for module in model.modules()
        if type(module) is nn.Embedding
        and module.weight.requires_grad
        and module.weight.numel() >= _LARGE
        and uses[module.weight] == 1
        and not module.sparse
        and module.max_norm is None
        and not module.scale_grad_by_freq
    ]
