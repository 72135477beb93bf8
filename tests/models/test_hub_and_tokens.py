"""Models in a repository of the Hub, and of tokens."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from local_hub import COMMIT, put_into_cache, record_uploads
from representer import models
from representer.errors import CheckpointError, DataError, MissingExtraError, ShapeError
from representer.models import SequenceClassifierConfig, SequenceNetwork
from representer.models.base import copy_vectors

# Models are saved to folders and repositories, and loaded from them.


SMALL = {"embedding_size": 3, "hidden_size": 4}
TEXT = SequenceClassifierConfig(7, 2, **SMALL, filter_length={1: 3, 2: 1}, head_size=3)
MODELS = {
    "text": lambda: SequenceNetwork(TEXT),
    "stacked": lambda: models.StackedClassifier(
        models.StackedClassifierConfig(7, 2, **SMALL, num_layers=2)
    ),
    "signal": lambda: models.SignalNetwork(
        models.SignalClassifierConfig(2, 2, sampling_rate=50, hidden_size=3)
    ),
    "language": lambda: models.LanguageNetwork(models.LanguageModelConfig(9, 4, 4)),
    "graph": lambda: models.GraphRegressionNetwork(
        models.GraphRegressorConfig(2, 2, hidden_size=3)
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_the_same_after_saving_and_loading(kind, tmp_path):
    model = MODELS[kind]()
    model.save_pretrained(tmp_path / "model")
    loaded = type(model).from_pretrained(tmp_path / "model")
    assert loaded.config == model.config
    assert not loaded.training
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "README.md", "config.json", "manifest.json", "model.safetensors",
    ]  # fmt: skip
    card = (tmp_path / "model/README.md").read_text()
    assert f'{type(model).__name__}.from_pretrained("model")' in card
    assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in card


def test_the_name_of_a_model_is_text_in_the_readme(tmp_path):
    MODELS["text"]().save_pretrained(tmp_path, name='a"b <i> `c`\n# d')
    lines = (tmp_path / "README.md").read_text().splitlines()
    assert '# a"b &lt;i> \\`c\\` \\# d' in lines
    assert 'model = SequenceNetwork.from_pretrained("a\\"b <i> `c` # d")' in lines


def test_saving_again_replaces_the_weights_and_keeps_the_readme(tmp_path):
    model = MODELS["text"]()
    model.save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("my own words")
    with torch.no_grad():
        model.embedding.weight[1] = 5
    model.save_pretrained(tmp_path)
    assert SequenceNetwork.from_pretrained(tmp_path).embedding.weight[1].tolist() == [5, 5, 5]
    assert (tmp_path / "README.md").read_text() == "my own words"


def test_a_model_is_uploaded(tmp_path, monkeypatch):
    api = record_uploads(tmp_path / "repository", monkeypatch)
    model = MODELS["text"]()
    address = model.push_to_hub("me/texts", private=True, token="t", commit_message="First")
    assert address == "me/texts: First"
    api.assert_called_once_with(token="t")
    assert api.return_value.create_repo.call_args.kwargs == {"private": True, "exist_ok": True}
    loaded = SequenceNetwork.from_pretrained(tmp_path / "repository")
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    card = (tmp_path / "repository/README.md").read_text()
    assert 'SequenceNetwork.from_pretrained("me/texts")' in card


def test_a_repository_is_read_through_the_links_of_the_cache(tmp_path):
    model = MODELS["text"]()
    model.save_pretrained(tmp_path / "model")
    put_into_cache(tmp_path / "model", tmp_path / "cache", "me/texts")
    for revision in (None, COMMIT):
        loaded = SequenceNetwork.from_pretrained(
            "me/texts", revision=revision, cache_dir=tmp_path / "cache", local_files_only=True
        )
        torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["me/none", "runs/of/none"])
def test_a_missing_folder_or_repository_is_named_with_the_fix(name, tmp_path):
    with pytest.raises(DataError, match=rf"{name}: there is no such folder.* as USER/NAME"):
        SequenceNetwork.from_pretrained(name, cache_dir=tmp_path, local_files_only=True)


def test_without_huggingface_hub_folders_work_and_repositories_name_the_extra(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    MODELS["text"]().save_pretrained(tmp_path)
    assert SequenceNetwork.from_pretrained(tmp_path).config == TEXT
    with pytest.raises(MissingExtraError, match=r'pip install "representer\[train\]"'):
        SequenceNetwork.from_pretrained("me/texts")


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    MODELS["text"]().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())

    def written(**changes):
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        return tmp_path

    with pytest.raises(DataError, match=r"config\.json: cannot be used: its SHA-256"):
        SequenceNetwork.from_pretrained(written(vocabulary_size=8))
    (tmp_path / "manifest.json").unlink()  # as in repositories that other programs wrote
    with pytest.raises(CheckpointError, match=r"embedding\.weight is \(7, 3\).*\(8, 3\)"):
        SequenceNetwork.from_pretrained(written(vocabulary_size=8))
    with pytest.raises(DataError, match=r"config\.json: .*hidden"):
        SequenceNetwork.from_pretrained(written(hidden_size="4"))
    with pytest.raises(DataError, match=r"config\.json: .*\bhidden\b"):
        SequenceNetwork.from_pretrained(written(hidden=4))
    with pytest.raises(DataError, match=r"there is no config\.json"):
        SequenceNetwork.from_pretrained(tmp_path.parent)


def test_a_former_name_of_a_network_still_names_it():
    assert models.__getattr__("SequenceClassifier") is SequenceNetwork
    with pytest.raises(AttributeError, match="'Nothing'"):
        models.__getattr__("Nothing")


# Word vectors of the models of token sequences; test_sequence_classifier.py checks inputs.


@pytest.mark.parametrize("freeze", [False, True])
def test_all_rows_are_copied_except_padding(freeze: bool) -> None:
    embedding, vectors = torch.nn.Embedding(4, 3, padding_idx=1), torch.ones(4, 3)
    copy_vectors(embedding, vectors, freeze=freeze)
    assert embedding.weight.sum(1).tolist() == [3, 0, 3, 3]
    assert embedding.weight.requires_grad is not freeze


def test_without_padding_every_row_is_copied() -> None:
    embedding = torch.nn.Embedding(4, 3)
    copy_vectors(embedding, torch.ones(4, 3), freeze=False)
    assert embedding.weight.sum().item() == 12


def test_vectors_of_another_shape_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"vectors has shape \(4, 2\); expected \(4, 3\)"):
        copy_vectors(torch.nn.Embedding(4, 3), torch.ones(4, 2), freeze=False)
