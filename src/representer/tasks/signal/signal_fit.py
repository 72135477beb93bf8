"""``fit signal``: train a classifier, tested on left-out subjects by cross-validation."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from representer.printable import say
from representer.report.standing import parts_sentence
from representer.storage.run_folder import RunFolder
from representer.tasks.options import as_yaml
from representer.tasks.run_flow import named, opened, publish
from representer.tasks.signal.signal_baseline import spectral_baselines
from representer.tasks.signal.signal_data import SignalData, prepare, standardized
from representer.tasks.signal.signal_examples import explained_windows
from representer.tasks.signal.signal_filters import describe_filters
from representer.tasks.signal.signal_fold import FoldJob, TrainedFold, new_estimator, train_fold
from representer.tasks.signal.signal_folds import final_fold, plan
from representer.tasks.signal.signal_loso import run_loso
from representer.tasks.signal.signal_results import details_of, metrics_of, summary


def fit(config: Any) -> dict[str, Any]:
    """Cross-validate over subjects, train a final model, and write the run folder.

    The metrics are those of the folds, whose models are in ``RUN/folds``. The final model, which
    `predict` uses, is trained on all subjects, some of them for early stopping only.
    Nothing is written before the data have been read and checked.

    Args:
        config: The run, a `SignalConfig`.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: See ``errors``; the message names the location and the fix.
    """
    config = named(config, "signal-demo", "signal")
    data = prepare(config)
    recordings, folds = data.recordings, plan(data.recordings, config)
    estimator = new_estimator(config, recordings, 0)
    if estimator.has_network:
        estimator.new_network(0)  # raises now what would fail later
    with opened(config) as run:
        if not (run.path / "config.yaml").exists():
            run.write_text("config.yaml", as_yaml(config))
        run.write_json("splits.json", {"folds": [asdict(fold) for fold in folds]})
        say(f"{len(folds)} folds of {len(recordings)} windows, {recordings.seconds:g} s "
            f"each, of {len(data.report['subjects'])} subjects")  # fmt: skip
        result = run_loso(recordings, config, run.path)
        shared = replace(data, recordings=standardized(recordings, config))
        final = train_final(run, config, shared)
        metrics = metrics_of(data, result, final, spectral_baselines(recordings, folds, config))
        run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
        details = details_of(config, data, final)
        if estimator.has_network:
            details["filters"] = describe_filters(
                shared.recordings, run.path, result.folds, is_wavelet=config.filters == "wavelet"
            )
        details |= explained_windows(shared.recordings, run.path, result.folds)
        about = parts_sentence(metrics["parts"])
        return publish(run, metrics, details, [summary(metrics), about, metrics["verdict"]])


def train_final(run: RunFolder, config: Any, data: SignalData) -> TrainedFold:
    """Train the final model on all subjects, or continue its training."""
    fold = final_fold(data.recordings, config.valid_fraction, config.seed, file=config.data)
    end = (
        f"early stopping on subjects {', '.join(fold.valid)}" if fold.valid else "no early stopping"
    )
    say(f"final model: trained on {len(fold.train)} subjects, {end}")
    return train_fold(run, FoldJob(replace(config, resume=False), fold, run.path), data, verbose=1)
