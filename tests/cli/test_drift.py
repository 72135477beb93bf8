"""``drift``: two files of every task that has a kernel of single objects."""

from __future__ import annotations

import json

from tests.cli.conftest import write_table
from tests.cli.test_fit_graph import chains

from representer.data.signals import synthetic_recordings, write_npz

MORE = ["--permutations", "99"]


def test_texts_of_other_words_differ_and_the_same_do_not(run, tmp_path):
    first = write_table(tmp_path / "first.csv")
    lines = first.read_text().splitlines()
    second = tmp_path / "second.csv"
    second.write_text("\n".join([lines[0], *(line.replace("a", "other a") for line in lines[1:])]))
    outcome = run("drift", first, second, *MORE)
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["p_value"] == 0.01
    others = [one for one in found["differences"] if "other" in one["what"]]
    assert others
    assert all(one["first"] == 0 < one["second"] for one in others)
    assert "the texts of both files differ at level 0.05: p = 0.01" in outcome.err
    again = run("drift", first, first, *MORE, "--limit", "20")
    assert json.loads(again.out)["counts"] == [20, 20]
    assert "show no difference" in again.err
    assert run("drift", first, second, "--limit", "1").code == 2


def test_graphs_with_other_labels_of_nodes_differ(run, tmp_path):
    files = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for path, label in zip(files, ("few", "many"), strict=True):  # a's
        chosen = [json.dumps(one) for one in chains(40) if one["label"] == label]
        path.write_text("\n".join(chosen))
    found = json.loads(run("drift", *files, *MORE).out)
    assert found["p_value"] < 0.05
    assert "least_like_the_first_file" in " ".join(found)


def test_subjects_are_exchanged_as_a_whole_and_files_must_fit_together(run, tmp_path):
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    for k, path in enumerate(paths):
        drawn = synthetic_recordings(subjects=4 - k // 2, windows=6, seed=k)
        if k == 1:  # one subject is louder
            drawn.signals[drawn.subjects == drawn.subjects[0]] *= 100
        write_npz(path, drawn)
    outcome = run("drift", *paths[:2], *MORE)
    assert json.loads(outcome.out)["p_value"] > 0.1
    windows = run("drift", paths[1], paths[2], *MORE)
    assert json.loads(windows.out)["p_value"] < 0.1
    assert "subjects" not in outcome.err
    assert "the files have 4 and 3 subjects. With fewer than 4 in each" in windows.err
    write_npz(paths[1], synthetic_recordings(subjects=4, windows=4, seconds=2.0))
    assert "those of" in run("drift", *paths[:2]).error
    ignored = run("drift", *paths[:2], "--events", "T1")
    assert ignored.error.startswith("error: --events is 'T1'; expected nothing, since only ")


def test_texts_of_a_group_are_exchanged_together(run, tmp_path):
    paths = [tmp_path / name for name in ("first.csv", "second.csv")]
    for k, path in enumerate(paths):  # each author has words of their own
        rows = [f"{author}{k},{author}{k} word {n % 3}" for author in "abcde" for n in range(8)]
        path.write_text("author,text\n" + "\n".join(rows))
    options = [*MORE, "--text", "text"]
    alone, together = (
        run("drift", *paths, *options),
        run("drift", *paths, *options, "--groups", "author"),
    )
    assert json.loads(alone.out)["p_value"] == 0.01
    assert json.loads(together.out)["p_value"] > 0.02


def test_help_lists_the_tasks(run):
    assert "drift signal" in run("drift", "--help").out
