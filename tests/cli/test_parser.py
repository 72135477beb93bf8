"""Options: names, values, presets and the configuration file, with messages that help."""

from __future__ import annotations

import os

import pytest

from representer.checks import LIMITS
from representer.cli.errors import LONGEST_LINE, UsageError
from representer.cli.main import load
from representer.cli.parser import parse


def options(*words: str):
    arguments = parse("fit text", load("fit text"), words)
    assert arguments is not None
    return arguments


@pytest.mark.parametrize(("words", "message"), [
    (["--hiden-size", "3"], "--hiden-size is not an option of `representer fit text`. "
     "Did you mean '--hidden-size'?"),
    (["--hidden-size", "3.5"], "--hidden-size is '3.5'; expected an integer."),
    (["--lr", "fast"], "--lr is 'fast'; expected a number."),
    (["--epochs", "1_0"], "--epochs is '1_0'; expected an integer."),
    (["--epochs=1:30"], "--epochs is '1:30'; expected an integer."),
    (["--epochs", "0x10"], "--epochs is '0x10'; expected an integer."),
    (["--epochs", "١٢"], "--epochs is '١٢'; expected an integer."),
    (["--lr", "0.000_1"], "--lr is '0.000_1'; expected a number."),
    (["--decay", "0.0_1"], "--decay is '0.0_1'; expected a number in [0, 1]"),
    (["--header", "maybe"], "--header is 'maybe'; expected true or false."),
    (["--filter-lengths="], "--filter-lengths is ''; expected a text."),
    (["--filter-lengths", ""], "--filter-lengths is ''; expected a text."),
    (["--hidden-size"], "--hidden-size has no value; expected an integer."),
    (["--pooling", "men"], "--pooling is 'men'; expected one of mean, attention, padded_mean. "
     "Did you mean 'mean'?"),
    (["b.csv"], "'b.csv' was not expected here."),
    (["--epochs", "0"], "--epochs is 0; expected a positive integer."),
    (["--lr", "0"], "--lr is 0.0; expected a positive number."),
    (["--batch-size", "-3"], "--batch-size is -3; expected a positive integer."),
    (["--valid-fraction", "1"], "--valid-fraction is 1.0; expected a number between 0 and 1"),
    (["--dropout", "1"], "--dropout is 1.0; expected a number in [0, 1)."),
    (["--threads", "100000000"], "--threads is 100000000; expected at most "),
    (["--threads", "-1"], "--threads is -1; expected at least 0."),
    (["--num-layers", "300"], "--num-layers is 300; expected at most 256."),
    (["--hidden-size", str(10**12)], f"--hidden-size is {10**12}; expected at most 1,048,576."),
    (["--seed", str(10**40)], f"--seed is {10**40}; expected at most "),
    (["--valid", ""], "--valid is ''; expected a text."),
    (["--lr", "x" * 10**6], "--lr is 'xxx"),
    (["--demo"], "DATA is 'a.csv'; expected nothing with --demo"),
])  # fmt: skip
def test_a_wrong_option_is_named_with_its_value_and_its_fix(run, words, message):
    outcome = run("fit", "text", "a.csv", *words)
    assert outcome.code == 2
    assert outcome.error.startswith(f"error: {message}")
    assert len(outcome.error) <= LONGEST_LINE + 3


def test_an_argument_that_is_empty_is_refused_by_its_name(run):
    assert run("fit", "text", "").error == "error: DATA is ''; expected a text."


def test_a_column_may_be_a_number_or_have_a_comma():
    arguments = options("a.csv", "--text", "2,3", "--label", "1")
    assert (arguments.text, arguments.label) == ("2,3", "1")


def test_a_preset_changes_the_defaults_and_what_is_given_wins_over_it():
    arguments = options("a.csv", "--preset", "paper", "--hidden-size", "128")
    assert arguments.embedding_size == 300
    assert arguments.hidden_size == 128  # the default without preset, but asked for here


def test_the_authors_code_divides_by_the_padded_length_and_clips_by_value():
    arguments = options("a.csv", "--preset", "authors_code")
    assert (arguments.pooling, arguments.clip_value, arguments.batch_size) == ("padded_mean", 1, 16)


def test_a_configuration_file_gives_options_and_the_command_line_wins(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("hidden_size: 7\nlr: 1e-2\nheader: null\nlabel: '1'\n")
    arguments = options("a.csv", "--config", str(file), "--lr", "0.5")
    assert (arguments.hidden_size, arguments.lr, arguments.header) == (7, 0.5, None)
    assert arguments.label == "1"


@pytest.mark.parametrize(("content", "message"), [
    (b"hidden_sizes: 7\n", "'hidden_sizes' is not an option. Did you mean 'hidden_size'?"),
    (b"seed: 1\nlr: [1\n", "line 3: expected ',' or ']'"),
    (b"- 1\n", "holds no options. Write each option as a line KEY: VALUE."),
    (b"", "holds no options."),
    (b"\xff\xfe", "is not UTF-8."),
])  # fmt: skip
def test_a_wrong_configuration_file_is_named_with_the_place(run, tmp_path, content, message):
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    outcome = run("fit", "text", "a.csv", "--config", file)
    assert outcome.code == 2
    assert str(file) in outcome.error
    assert message in outcome.error


def test_a_wrong_value_in_a_configuration_file_is_not_blamed_on_the_command_line(run, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("hidden_size: x\n")
    outcome = run("fit", "text", "a.csv", "--config", file)
    assert "--hidden-size in the configuration file is 'x'; expected an integer" in outcome.error


@pytest.mark.parametrize("value", ["1_0", "1:30", "0x10"])
def test_a_number_that_only_yaml_reads_is_refused_in_a_configuration_file(run, tmp_path, value):
    file = tmp_path / "c.yaml"
    file.write_text(f"epochs: {value}\n")
    outcome = run("fit", "text", "a.csv", "--config", file)
    assert (outcome.code, f"epochs is {value!r}" in outcome.error) == (2, True)


@pytest.mark.parametrize(("content", "message"), [
    ("[" * 10_000, "it is nested more than 64 levels deep"),
    ("hidden_size: &a 3\norder: *a\n", "it has an alias"),
    ("hidden_size: 3\n" + "#" * 2**20, "at most 65,536 are read"),
])  # fmt: skip
def test_a_configuration_file_cannot_exhaust_the_process(run, tmp_path, content, message):
    (tmp_path / "c.yaml").write_text(content)
    outcome = run("fit", "text", "a.csv", "--config", tmp_path / "c.yaml")
    assert outcome.code == 2
    assert message in outcome.error


def test_a_configuration_file_may_be_a_link_and_not_a_pipe(run, tmp_path):
    (tmp_path / "c.yaml").write_text("hidden_size: -3\n")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "c.yaml")
    assert (
        "--hidden-size is -3"
        in run("fit", "text", "a.csv", "--config", tmp_path / "link.yaml").error
    )
    os.mkfifo(tmp_path / "pipe")
    outcome = run("fit", "text", "a.csv", "--config", tmp_path / "pipe")
    assert outcome.code == 2
    assert "not a regular file" in outcome.error


def test_a_limit_itself_is_accepted():
    most = LIMITS["num_layers"]
    assert options("a.csv", "--num-layers", str(most)).num_layers == most
    assert options("a.csv", "--threads", "0").threads == 0


@pytest.mark.parametrize("words", [["--cutoffs="], ["--cutoffs", "", "--epochs", "1"]])
def test_a_list_is_not_empty_but_a_prompt_may_be(words):
    with pytest.raises(UsageError, match="--cutoffs is ''; expected"):
        parse("fit language", load("fit language"), words)
    arguments = parse("generate", load("generate"), ["run", "--prompt", ""])
    assert arguments is not None
    assert arguments.prompt == ""
