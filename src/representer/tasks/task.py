"""A task of the command line: what is declared once, and every command reads.

Free of torch, since the command line reads the options here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from representer.tasks.packages import require

READ = ("evaluate", "predict", "explain")  # commands that read data of a run


def functions_in(module: str) -> dict[str, str]:
    """Return the functions of the usual commands in a module, by name, see `Task`."""
    return {name: f"{module}:{name}" for name in ("fit", "comparison", "drift", *READ)}


@dataclass(frozen=True)
class Task:
    """One task, such as the classification of texts.

    Functions are named as ``module:function`` and imported when a command first needs them.

    Args:
        name: As in ``representer fit NAME`` and in model.json.
        summary: One sentence for ``--help``.
        noun: What its models are of, for messages: "texts".
        config: Dataclass with the options of ``fit``; ``data`` is positional.
        defaults: From the given options to the defaults of a preset, the demo or a cell.
        options: Dataclasses with the options of ``evaluate``, ``predict``, ``explain`` and
            ``drift``; a task lacks the commands that it does not list.
        functions: ``fit(config)``, ``evaluate(run, data, *options, device)``,
            ``predict(run, data, output, *options, device)``,
            ``explain(run, data, *options, limit, top, device)``,
            ``as_text(entry, styled)`` of an explained row, ``opened(run, data, options, device,
            require_labels)`` where `export` compares predictions, and, where models can be
            compared, ``comparison(config, splits, variants)``, see `tasks.comparison`, and
            ``drift(first, second, *options, permutations, limit, seed)`` of two files.
        packages: Optional packages that they need.
        takes_strings: True if ``predict`` and ``explain`` take a list of strings as ``data``.
        is_shared: True if several processes can train one model; otherwise `fit` has its own.
    """

    name: str
    summary: str
    noun: str
    config: type[Any]
    defaults: Callable[[Any], dict[str, Any]]
    options: Mapping[str, tuple[type[Any], ...]]
    functions: Mapping[str, str]
    packages: tuple[str, ...] = ()
    takes_strings: bool = False
    is_shared: bool = True

    def function(self, name: str) -> Callable[..., Any]:
        """Return one of the functions, importing its module.

        Raises:
            MissingExtraError: A package that the task needs is not installed.
        """
        require(f"fit {self.name}" if name == "fit" else name, *self.packages)
        module, _, attribute = self.functions[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
