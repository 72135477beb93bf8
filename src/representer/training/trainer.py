"""The training loop: bit-exact resumption, clean stops on signals, and no lost results."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from representer.errors import QUIET, ArgumentError, Interrupted, TrainingError, print_line, say
from representer.ops.common import evaluating, full_width_products
from representer.storage import checkpoint
from representer.storage.run import RunFolder
from representer.training import generators
from representer.training import state as training_files
from representer.training.averages import EvaluationWeights
from representer.training.config import (
    Loss,
    Row,
    TrainerConfig,
    TrainingState,
    TrainingTask,
    best_index,
    copy_weights,
    load_weights,
    plain,
    require_same,
    stopping_reason,
)
from representer.training.cuda_graphs import CapturedSteps, can_capture, can_capture_update
from representer.training.generators import differences, fingerprint
from representer.training.interruption import Interruption
from representer.training.lazy_adam import LazyAdam
from representer.training.state import (
    Reason,
    TrainingResult,
    accelerator_for,
    report_device,
    require_agreement,
    share,
    totals,
)

if TYPE_CHECKING:
    from accelerate import Accelerator

# The metrics of a run in TensorBoard or MLflow, by the trackers of Accelerate.


class Tracker:
    """A run of an experiment tracker; of several processes, only the first writes.

    Args:
        name: ``"tensorboard"``, which writes to the folder `name` of the run folder, or
            ``"mlflow"``, which writes to the store that ``MLFLOW_TRACKING_URI`` names, as a run of
            the experiment ``representer``, within a run that is active already.
        folder: The run folder, after which MLflow's run is named.
    """

    def __init__(self, name: str, folder: Path) -> None:
        from accelerate.tracking import MLflowTracker, TensorBoardTracker

        title = folder.resolve().name
        self._tracker: Any = (
            TensorBoardTracker(name, str(folder))
            if name == "tensorboard"
            else MLflowTracker("representer", run_name=title, nested_run=True)
        )
        try:
            self._tracker.start()
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ArgumentError("log_with", name, "a tracker that starts", hint=reason) from error

    def log(self, row: dict[str, Any]) -> None:
        """Add the finite metrics of an evaluation at its step."""
        numbers = {key: value for key, value in row.items() if value is not None and key != "step"}
        self._tracker.log(numbers, step=row["step"])

    def close(self) -> None:
        """End the run."""
        self._tracker.finish()


# Progress of a run: a bar on a terminal, one line per evaluation, and an experiment tracker.


LONG = 10  # seconds of training that are announced


class Progress:
    """Shows the progress of a run.

    The bar is written to stderr if that is a terminal. The lines are written to stdout, so that
    pipes and files receive them; after a broken pipe (``| head``) the run continues without them.

    Args:
        log_with: Name of an experiment tracker, see `Tracker`; None for none.
        folder: The run folder.
        is_shown: False shows nothing.
    """

    def __init__(
        self, log_with: str | None = None, folder: Path = Path(), is_shown: bool = True
    ) -> None:
        self._log_with, self._folder = log_with, folder
        self._tracker: Tracker | None = None
        self._is_shown = is_shown
        self._bar: Any = None
        self._has_terminal = False
        self._started: tuple[int, float] | None = None  # the first whole epoch, and the time
        with contextlib.suppress(AttributeError, ValueError):  # stderr is closed or missing
            self._has_terminal = is_shown and sys.stderr.isatty() and not QUIET.get()

    def start_epoch(self, epoch: int, epochs: int, done: int, total: int) -> None:
        """Start the bar of an epoch."""
        self._close_bar()
        self._estimate(epoch, epochs, done)
        if self._has_terminal:
            from tqdm import tqdm

            label = f"epoch {epoch}/{epochs}"
            self._bar = tqdm(total=total, initial=done, desc=label, leave=False, file=sys.stderr)

    def _estimate(self, epoch: int, epochs: int, done: int) -> None:
        """Say after the first epoch how long all others take at most, if it is long."""
        now = time.monotonic()
        if self._started is None:
            self._started = (epoch if done == 0 else epoch + 1), now
        elif epoch == self._started[0] + 1 and self._is_shown:
            seconds = now - self._started[1]
            if (rest := seconds * (epochs - epoch + 1)) > LONG:
                shown = f"{rest / 60:.0f} min" if rest > 90 else f"{rest:.0f} s"
                say(f"an epoch takes {seconds:.0f} s: at most {shown} for the other "
                    f"{epochs - epoch + 1}, fewer if validation stops improving")  # fmt: skip

    def step(self, loss: float) -> None:
        """Advance the bar by one step."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
            self._bar.update()

    def line(self, row: dict[str, Any]) -> None:
        """Print a row of metrics as one line, and log it."""
        if self._log_with and self._tracker is None:
            self._tracker = Tracker(self._log_with, self._folder)
        if self._tracker is not None:
            self._tracker.log(row)
        if not self._is_shown:
            return
        text = "  ".join(f"{name} {_short(value)}" for name, value in row.items())
        if self._bar is None:
            print_line(text, sys.stdout)
        else:
            with self._bar.external_write_mode(file=sys.stdout):
                print_line(text, sys.stdout)

    def close(self) -> None:
        """Remove the bar, and end the logging."""
        self._close_bar()
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _short(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


# One optimization step: loss, gradient, clipping, update; a NaN never updates the weights.


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step."""

    loss_sum: float  # loss summed over the examples
    count: int  # number of examples
    # a clause that states what is not finite, in which case nothing is updated
    fault: str | None = None


class TrainingStep:
    """Performs optimization steps.

    The loss is the mean over the examples of all processes. Each process weights its mean by its
    fraction of the global count, so that an uneven last batch gives the same gradient as in a
    single process.

    Args:
        accelerator: Device, precision and processes.
        model: The model, prepared by the accelerator.
        optimizer: The optimizer, prepared by the accelerator.
        task: Provides batches and losses.
        config: Settings of gradient clipping and of CUDA graphs.
        report: Receives the reason if steps run without the requested graph.
    """

    def __init__(
        self, accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer,
        task: TrainingTask, config: TrainerConfig, report: Callable[[str], object],
    ) -> None:  # fmt: skip
        self._accelerator, self._model, self._optimizer = accelerator, model, optimizer
        self._task, self._config = task, config
        self._captured = None
        self.reads_later = can_read_later(accelerator, optimizer)
        # 1 after a step that was not finite; graphs read and write it where it is
        self._is_faulty = torch.zeros((), dtype=torch.float32, device=accelerator.device)
        if config.cuda_graph and can_capture(accelerator, task.carried):
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            is_whole = self.reads_later and can_capture_update(optimizer)
            self._captured = CapturedSteps(
                self._compute, self._update if is_whole else None, optimizer, trained, task.carried,
                report,
            )  # fmt: skip

    def __call__(self, description: Sequence[Any]) -> Callable[[], StepOutcome]:
        """Perform the step of one batch, and return what waits for its outcome."""
        from accelerate.utils import recursively_apply, send_to_device

        accelerator = self._accelerator
        data, is_stand_in = share(accelerator, description)
        batch = self._task.load(data)
        is_pinned = accelerator.device.type == "cuda"  # the copy then runs beside the computation
        if is_pinned:
            batch = recursively_apply(Tensor.pin_memory, batch)
        batch = send_to_device(batch, accelerator.device, non_blocking=is_pinned)
        numbers = None
        if self._captured is not None:
            loss, numbers = self._captured(batch)
        elif self.reads_later:
            self._optimizer.zero_grad()
            loss = self._compute(batch)
        else:
            loss = self._loss(batch)
        weight = 0 if is_stand_in else loss.examples
        if self.reads_later:
            return _read_later(self._update(loss) if numbers is None else numbers, weight)
        outcome = self._step(loss.objective, loss.shown, weight)
        return lambda: outcome

    def _step(self, loss: Tensor, shown: Tensor | None, weight: int) -> StepOutcome:
        """Update the weights unless loss or gradient are not finite, as read from the device."""
        accelerator = self._accelerator
        mean = loss.item() if shown is None else shown.item()
        loss_sum, total = totals(accelerator, mean * weight, weight)
        if not math.isfinite(loss_sum):
            return StepOutcome(loss_sum, int(total), f"the loss is {loss_sum}")
        if accelerator.num_processes > 1:
            loss = loss * (weight * accelerator.num_processes / total)
        if self._captured is None:
            self._optimizer.zero_grad()
            accelerator.backward(loss)
        norm = self._clip().item()
        # in float16, scaled gradients overflow occasionally; the scaler skips such a step
        if accelerator.scaler is None and not math.isfinite(norm):
            return StepOutcome(loss_sum, int(total), f"the norm of the gradient is {norm}")
        self._optimizer.step()
        return StepOutcome(loss_sum, int(total))

    def _update(self, loss: Loss) -> Tensor:
        """Update the weights unless loss or gradient are not finite, without reading them.

        Nothing is updated after a step that was not finite until its outcome is read.

        Returns:
            The mean to log and the norm of the gradient.
        """
        shown = loss.objective if loss.shown is None else loss.shown
        numbers = torch.stack((shown.detach().double(), self._clip().double()))
        fault = (~numbers.isfinite()).any().float()
        torch.maximum(self._is_faulty, fault, out=self._is_faulty)
        self._optimizer.found_inf = self._is_faulty  # type: ignore[attr-defined]
        self._optimizer.step()
        return numbers

    def _loss(self, batch: Any) -> Loss:
        result = self._task.loss(self._model, batch)
        return result if isinstance(result, Loss) else Loss(*result)

    def _compute(self, batch: Any) -> Loss:
        """Return the loss of a batch after adding its gradients."""
        loss = self._loss(batch)
        self._accelerator.backward(loss.objective)
        return loss

    def _clip(self) -> Tensor:
        """Clip the gradients and return their norm before clipping."""
        parameters = [_dense(p) for p in self._model.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if self._config.clip_value is not None:
            self._accelerator.clip_grad_value_(parameters, self._config.clip_value)
        if self._config.clip_norm is not None:
            if self._config.clip_value is None and self._accelerator.scaler is None:
                torch.nn.utils.clip_grads_with_norm_(parameters, self._config.clip_norm, norm)
            else:  # of gradients that differ from those of the norm
                self._accelerator.clip_grad_norm_(parameters, self._config.clip_norm)
        return norm


def _read_later(numbers: Tensor, weight: int) -> Callable[[], StepOutcome]:
    """Return what waits for the mean loss and the norm of a step, of so many examples."""
    host = torch.empty(2, dtype=torch.float64, pin_memory=numbers.is_cuda)
    host.copy_(numbers, non_blocking=True)
    event = torch.cuda.Event() if numbers.is_cuda else None
    if event is not None:
        event.record()

    def read() -> StepOutcome:
        if event is not None:
            event.synchronize()
        mean, norm = host.tolist()
        if not math.isfinite(mean):
            return StepOutcome(mean * weight, weight, f"the loss is {mean * weight}")
        is_fault = not math.isfinite(norm)
        fault = f"the norm of the gradient is {norm}" if is_fault else None
        return StepOutcome(mean * weight, weight, fault)

    return read


def can_read_later(accelerator: Accelerator, optimizer: Any) -> bool:
    """Return True if a step need not wait for its loss, since the device can leave it out."""
    is_single = accelerator.num_processes == 1 and accelerator.scaler is None
    has_guard = getattr(optimizer, "_step_supports_amp_scaling", False)  # of fused optimizers
    return accelerator.device.type == "cuda" and is_single and has_guard


def _dense(parameter: Tensor) -> Tensor:
    """Return a parameter, or a tensor whose gradient is the values of its sparse gradient."""
    assert parameter.grad is not None
    if not parameter.grad.is_sparse:
        return parameter
    parameter.grad = parameter.grad.coalesce()
    values = parameter.grad.values()  # of the same memory
    stand_in = values.detach()
    stand_in.grad = values
    return stand_in


def require_trainable(model: nn.Module) -> None:
    """Raise an `ArgumentError` for a model whose parameters are all frozen, or that has none."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        name, expected = type(model).__name__, "a model with parameters to train"
        raise ArgumentError("model", name, expected, hint="Call requires_grad_() on some.")


def set_learning_rate(
    optimizer: torch.optim.Optimizer, config: TrainerConfig, epoch: int, scale: float
) -> None:
    """Set the learning rate of a batch.

    It is computed from the initial rate, not from the previous one, so that resumed runs agree. The
    initial one is the ``initial_lr`` of each group; ``scale`` is an additional factor of this
    batch.
    """
    decay = 1.0 if config.lr_decay is None else config.lr_decay
    factor = scale * decay ** max(0, epoch + 1 - config.lr_decay_from)
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor


class Trainer:
    """Trains a model and writes the results to a run folder.

    The trainer writes ``checkpoints/``, ``metrics.jsonl``, ``metrics.csv``, ``timings.jsonl``,
    ``model.safetensors`` (the best weights, with their metrics in the file's header) and
    ``final.safetensors``. On the same machine, a run that is killed at any moment and resumed
    writes the same bytes as an uninterrupted run, except for the timings.

    Args:
        model: The model; it is moved to the device. If it is in training mode, parts of it that are
            not, such as frozen ones, stay in evaluation mode.
        task: Batches, loss and evaluation.
        config: Settings of the training loop.
        run: The run folder; if opened with ``resume=True``, training continues from its checkpoint.
        optimizer: Default: `LazyAdam` with ``lr`` and ``weight_decay`` of the configuration. One
            that averages weights (`NonMonotonicASGD`) receives the monitored metric; its averages
            are evaluated and saved as the best and final weights.
        settings: Further settings that determine the run (model, data, ...), as plain values.
            Resuming with different settings is refused.
        callbacks: Called with the metrics of each evaluation; training ends when one returns True.
        keeps_diverged: A loss or gradient that is not finite ends the training with a line; the
            weights are those before.
    """

    def __init__(
        self,
        model: nn.Module,
        task: TrainingTask,
        config: TrainerConfig,
        run: RunFolder,
        *,
        optimizer: torch.optim.Optimizer | None = None,
        settings: Mapping[str, Any] | None = None,
        callbacks: Sequence[Callable[[Row], Any]] = (),
        keeps_diverged: bool = False,
    ) -> None:
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        require_trainable(model)
        optimizer = optimizer or LazyAdam(model.parameters(), config.lr, config.weight_decay)
        self._task, self._config, self._run = task, config, run
        self._settings = plain({**(settings or {}), "trainer": config.settings()})
        accelerator = self._accelerator = accelerator_for(config)
        # Accelerate wraps a model in autocast or DDP, and else imports torch's compiler and
        # distributed tensors to look for their models, which takes longer than a small training
        self._is_plain = accelerator.num_processes == 1 and accelerator.mixed_precision == "no"
        if self._is_plain:
            wrapped, scaled = model.to(accelerator.device), optimizer
        else:
            wrapped, scaled = accelerator.prepare(model, optimizer)
        # its wrapper scales in float16, and searches the path for a package at every step
        self._optimizer = optimizer if accelerator.scaler is None else scaled
        self._averages = EvaluationWeights(model, optimizer, config)
        self._step = TrainingStep(accelerator, wrapped, self._optimizer, task, config, run.report)
        self._wrapped, self._model, self._state = wrapped, model, TrainingState()
        self._parts = (accelerator, model, self._optimizer, self._averages)
        self._environment = fingerprint(accelerator.device, accelerator.num_processes)
        is_main = accelerator.is_main_process
        if run.is_saved:
            require_agreement(is_main, is_writer=run.is_writer)
        self._report = run.report if is_main else lambda line: None
        report_device(accelerator.device, self._report)
        self._progress = Progress(config.log_with, run.path, config.show_progress and is_main)
        self._callbacks, self._keeps_diverged = callbacks, keeps_diverged
        self._unread: tuple[Callable[[], StepOutcome], tuple[int, ...]] | None = None
        self._saved_position: tuple[int, ...] | None = None
        self._saved_at = self._ticked_at = time.monotonic()

    def fit(self) -> TrainingResult:
        """Train until the end of the run.

        Returns:
            The result. The model has its final weights; see `restore_best`.

        Raises:
            Interrupted: The process received a signal; everything is saved.
            TrainingError: The loss or its gradient is not finite.
            ArgumentError: The run was started with different settings.
            CheckpointError: The run cannot be continued.
            StorageError: A file cannot be written; the previous files are intact.
        """
        self._interruption = Interruption()
        # without a folder there is nothing to save, so signals keep their default action
        with (
            self._interruption if self._run.is_saved else contextlib.nullcontext(),
            self._averages.training(self._model, self._accelerator),
            full_width_products(),
        ):
            try:
                self._begin()
                reason = self._train()
                self._save()
                with self._averages():
                    final = copy_weights(self._model)
                training_files.write_end(self._run, self._state, final)
                load_weights(self._model.to(self._accelerator.device), final)
                self._accelerator.wait_for_everyone()  # for the files of the first process
            finally:
                self._progress.close()
                if not self._is_plain:
                    self._accelerator.unwrap_model(self._wrapped, keep_fp32_wrapper=False)
        self._interruption.repeat()
        state = self._state
        return TrainingResult(
            state.step, state.epoch, state.log.rows, state.best_row, reason, state.seconds
        )

    def restore_best(self) -> None:
        """Load the weights of the best evaluation; keep the final weights if there is none."""
        if self._state.best_weights is not None:
            load_weights(self._model, self._state.best_weights)

    def _begin(self) -> None:
        """Start from the newest valid checkpoint, or from the seed."""
        self._saved_at = self._ticked_at = time.monotonic()
        rank = self._accelerator.process_index
        generators.seed_all(generators.derive(self._config.seed, "dropout", rank))
        if not self._model.training:  # else parts that were set to evaluation mode keep it
            self._wrapped.train()
        saved = None
        if self._run.resume:
            saved = checkpoint.latest(self._run.checkpoints, report=self._report)
            if saved is None:
                self._report(f"{self._run.path} has no checkpoint; starting from the beginning")
        if saved is not None:
            require_same(saved.settings, self._settings, self._run.path)
            if changes := differences(saved.environment, self._environment):
                self._report(f"not bit-identical from here on: {', '.join(changes)}")
            self._state = training_files.put_back(saved.state, *self._parts, self._task.carried)
            self._saved_position = self._state.position
        self._save()  # at the start, too: fail early if something cannot be saved
        # the files may be ahead of the checkpoint if the process was killed between the two writes
        training_files.write_state(self._run, self._state)

    def _batches(self) -> Sequence[Sequence[Any]]:
        batches = self._task.batches(self._state.epoch)
        if not batches:
            raise ArgumentError("batches(epoch)", batches, "at least one batch in every epoch")
        return batches

    def _train(self) -> Reason:
        """Train until the end of the run, and return why it ended."""
        try:
            while (reason := self._reason()) is None:
                self._train_epoch(self._batches())
        except TrainingError as error:
            if not self._keeps_diverged:
                raise
            self._report(f"the training of the network ended, with the weights before: {error}")
            for buffer in self._model.buffers():  # the last batch may have spoiled its statistics
                if buffer.is_floating_point():
                    buffer.nan_to_num_()
            return "diverged"
        return reason

    def _train_epoch(self, batches: Sequence[Sequence[Any]]) -> None:
        """Train until the end of the epoch or of the run."""
        state = self._state
        epochs = self._config.epochs
        self._progress.start_epoch(state.epoch + 1, epochs, state.batch, len(batches))
        while True:
            is_end = state.batch >= len(batches)
            if state.step > state.evaluated_at and (is_end or self._is_evaluation_step()):
                self._evaluate()
            if is_end:
                state.epoch, state.batch = state.epoch + 1, 0
            self._save_if_due(is_end)
            if is_end or self._reason() is not None:
                return
            self._train_batch(batches[state.batch])

    def _train_batch(self, description: Sequence[Any]) -> None:
        state = self._state
        scale = 1.0 if self._task.lr_scale is None else self._task.lr_scale(description)
        set_learning_rate(self._optimizer, self._config, state.epoch, scale)
        read = self._step(description)
        self._read()  # while the device computes this step
        self._unread = read, state.position
        state.step, state.batch = state.step + 1, state.batch + 1
        if not self._step.reads_later:
            self._read()
        self._averages.count_step(state.step)

    def _read(self) -> None:
        """Wait for the outcome of the last step, if it is not known.

        Raises:
            TrainingError: It was not finite.
        """
        if self._unread is None:
            return
        (read, (step, epoch, batch, _)), self._unread = self._unread, None
        state, outcome = self._state, read()
        if outcome.fault is not None:
            state.step, state.batch = step, batch  # whose weights these are
            remedy = getattr(self._model, "remedy", "")
            raise TrainingError(
                f"{outcome.fault} at step {step + 1} (epoch {epoch + 1}, batch "
                f"{batch + 1}). {self._last_checkpoint()} Lower --lr, clip the gradients, or "
                f"check the data for values that are not finite{remedy}."
            )
        state.count_loss(outcome.loss_sum, outcome.count)
        self._progress.step(outcome.loss_sum / outcome.count)

    def _evaluate(self) -> None:
        """Add a row of metrics, and keep the weights if they are the best so far."""
        self._read()
        state = self._state
        try:
            with self._averages():
                row = self._add_row()
        except _StopAskedError:  # the weights and random states of the step are restored by now
            self._stop()
        if self._averages.observe(row[self._config.monitor]):
            self._report(f"averaging the weights from step {state.step}")
        if self._config.save_every_epochs == 1:
            state.log.write(self._run)
        self._progress.line(row)
        state.is_stopped = bool([c for c in self._callbacks if c(dict(row))])

    def _add_row(self) -> Row:
        state, monitor = self._state, self._config.monitor
        with evaluating(self._model), torch.no_grad(), generators.preserved():
            metrics = self._task.evaluate(self._model, self._check)
        if monitor not in metrics:
            names = ", ".join(metrics) or "(none)"
            raise ArgumentError("monitor", monitor, f"one of the metrics {names}")
        self._tick()
        row = state.count_evaluation({**metrics, **self._averages.columns()})
        values = state.log.values(monitor)
        if best_index(values, self._config.direction) == len(values) - 1:
            state.best_weights, state.best_row = copy_weights(self._model), row
            if self._config.save_every_epochs == 1:
                training_files.write_best(self._run, state)
        return row

    def _is_evaluation_step(self) -> bool:
        step, every = self._state.step, self._config.evaluate_every
        is_due = step == self._config.max_steps or (every is not None and step % every == 0)
        return is_due or self._is_over_time()

    def _reason(self) -> Reason | None:
        """Return why training ends now, or None."""
        state, config = self._state, self._config
        if reason := stopping_reason(state.log.values(config.monitor), config):
            return reason
        if state.epoch >= config.epochs:
            return "epochs"
        if state.is_stopped:
            return "callback"
        if state.step != state.evaluated_at:
            return None
        if state.step == config.max_steps:
            return "max_steps"
        return "time_limit" if state.step and self._is_over_time() else None

    def _is_over_time(self) -> bool:
        limit = self._config.time_limit
        spent = self._state.seconds + time.monotonic() - self._ticked_at
        return limit is not None and any(totals(self._accelerator, spent >= limit))

    def _check(self) -> None:
        if any(totals(self._accelerator, bool(self._interruption))):
            raise _StopAskedError

    def _save_if_due(self, is_end: bool) -> None:
        """Save at the end of an epoch, if a step or time interval has passed, or on a signal."""
        config = self._config
        by_step, by_time = config.checkpoint_every_steps, config.checkpoint_every_seconds
        is_late = by_time is not None and time.monotonic() - self._saved_at >= by_time
        stops, saves = totals(self._accelerator, bool(self._interruption), is_late)
        if stops:
            self._stop()
        is_end = is_end and self._state.epoch % self._config.save_every_epochs == 0
        if is_end or saves or (by_step is not None and self._state.step % by_step == 0):
            self._save()

    def _save(self) -> None:
        """Write a checkpoint, unless the newest one is at the same position."""
        self._read()
        state = self._state
        if self._saved_position == state.position:
            return
        self._tick()
        if self._config.save_every_epochs > 1:  # otherwise already written by the evaluation
            training_files.write_state(self._run, state)
        contents = training_files.take(*self._parts, state, self._task.carried)
        if self._run.is_writer:
            saved = checkpoint.Checkpoint(state.step, contents, self._settings, self._environment)
            keep = self._config.keep_checkpoints
            checkpoint.save_step(self._run.checkpoints, saved, report=self._report, keep=keep)
        self._saved_position, self._saved_at = state.position, time.monotonic()

    def _stop(self) -> NoReturn:
        self._save()
        raise Interrupted(
            f"stopped by {self._interruption.name or 'a signal'} after step {self._state.step}; "
            f"everything up to this step is saved in {self._run.path}. {self._run.how_to_continue}",
            self._interruption.exit_code or 143,
        )

    def _tick(self) -> None:
        before, self._ticked_at = self._ticked_at, time.monotonic()
        self._state.seconds += self._ticked_at - before

    def _last_checkpoint(self) -> str:
        if not self._run.is_saved:
            return "Nothing was saved."
        step = checkpoint.steps(folder := self._run.checkpoints)[-1]
        return f"The last good checkpoint is {checkpoint.path_of_step(folder, step)}."


class _StopAskedError(Exception):
    """Raised to leave an evaluation on a signal."""
