"""The options that a sweep can search."""

from __future__ import annotations

import pytest

from representer.errors import ArgumentError
from representer.tasks.graph.graph_task import GRAPH
from representer.tasks.sweep_space import SPACE, searched
from representer.tasks.text.text_task import TextConfig


def test_by_default_the_usual_options_that_the_task_has_are_searched():
    assert [*searched(TextConfig(), None)] == ["lr", "hidden_size", "dropout", "num_layers"]
    assert [*searched(GRAPH.config(), None)] == ["lr", "hidden_size", "dropout", "depth"]


def test_only_string_kernels_have_an_order_and_a_decay():
    kernel = TextConfig(cell="string-kernel")
    assert searched(kernel, "order, decay") == {name: SPACE[name] for name in ("order", "decay")}
    for names in ("order", "lr,no-such-option", ","):
        with pytest.raises(ArgumentError, match="expected some of lr, hidden-size, dropout"):
            searched(TextConfig(), names)


def test_integers_stay_integers():
    class Trial:
        suggest_int = staticmethod(lambda name, low, high, log: (name, low, high, log))
        suggest_float = staticmethod(lambda name, low, high, log: "float")

    assert SPACE["hidden_size"].suggest(Trial, "units") == ("units", 16, 256, True)
    assert SPACE["lr"].suggest(Trial, "lr") == "float"
