"""``fit text --demo``: find lines of Python code in which two tokens have been swapped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from representer.data.text.code_lines import SWAPPED
from representer.errors import KindError
from representer.printable import say
from representer.storage import atomic
from representer.storage.run_folder import RunFolder
from representer.tasks.text.text_config import TextConfig
from representer.tasks.text.text_contributions import as_table, contributions
from representer.tasks.text.text_data import TextData, prepare
from representer.tasks.text.text_explain import EXPLAINED, explain_words
from representer.tasks.text.text_fit import (
    evaluate_and_report,
    fit,
    train,
    with_default_output_dir,
)
from representer.tasks.text.text_run import load_run

BASELINE, TOP = "lstm", 8


def demo(config: TextConfig) -> dict[str, Any]:
    """Train the selected cell, and an LSTM of the same width in ``RUN/lstm``; explain one line.

    A finished demo prints its results again, and an interrupted one continues.

    Args:
        config: The run; every option of a demo has a default.

    Returns:
        The metrics of the selected cell, with the LSTM among the comparisons.
    """
    config = replace(with_default_output_dir(config), baselines=True)
    data = prepare(config)
    say(
        f"{len(data.train)} lines of code to train on; in half of them, two tokens are swapped. "
        "Which ones? Only the order of the tokens tells."
    )
    lstm = replace(config, cell=BASELINE, out=str(Path(config.out or "") / BASELINE))
    with _open(config) as run, _open(lstm) as beside:
        print(f"{config.cell}:")
        trained = train(run, config, data, None)
        print(f"{lstm.cell}:")
        other = train(beside, replace(lstm, baselines=False), data, None)
        explanation = _explain_one(run, data)
        return evaluate_and_report(run, data, trained, [other.predictions], explanation=explanation)


def fit_or_demo(config: TextConfig) -> dict[str, Any]:
    """Train on a table, or on the demo's lines of code beside a second cell."""
    return (demo if config.demo else fit)(config)


def _open(config: TextConfig) -> RunFolder:
    folder = Path(config.out or "")
    return RunFolder(folder, resume=folder.exists())


def _explain_one(run: RunFolder, data: TextData) -> str:
    """Return the explanation of the first swapped test line, and write it for the report."""
    if not run.is_writer:  # it alone has written the weights
        return ""
    position = data.test.labels.index(data.classes.encode(SWAPPED))
    words, line = data.test.tokens[position], data.test.lines[position]
    trained = load_run(run.path)
    try:
        result = contributions(trained, words)
    except KindError as error:
        return f"No explanation: {error}"
    entry = {"line": line, **explain_words(trained, words, TOP)}
    atomic.write_json(run.path / EXPLAINED, [entry])
    return "\n".join(
        [
            "\nThe first test line with two swapped tokens:\n",
            f"  {' '.join(words)}\n",
            f'The prediction is "{result.label}" ({100 * result.probability:.0f} %), by these '
            f"n-grams and their exact contributions:\n",
            as_table(result, TOP),
            "",
        ]
    )
