"""The papers' figures in the code and on the results pages agree with a second copy of them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from papers import printed
from representer.models import CELLS as MODEL_CELLS
from representer_papers.rkm2019 import RECIPES, language, published
from representer_papers.rkm2019.documents import DATASETS as DOCUMENT_SETS
from representer_papers.string_graph2017 import RECIPES as STRING_RECIPES
from representer_papers.string_graph2017 import language as string_language
from representer_papers.string_graph2017 import published as string_published
from representer_papers.string_graph2017.sentiment import DATASETS as TREEBANK_SETS

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "results"
text_of = runpy.run_path(str(ROOT / "benchmarks/result_pages.py"))["text_of"]
COLUMNS = [f"{name} {n}-gram" for name in ("ag_news", "dbpedia", "yahoo", "yelp") for n in (1, 3)]


def test_table_2_of_l19_matches_the_paper():
    expected = {
        (row, column): accuracy
        for row, (_, _, *accuracies) in printed.rows(printed.L19_TABLE_2).items()
        for column, accuracy in zip(COLUMNS, accuracies, strict=True)
    }
    assert {key: figure.value for key, figure in published.DOCUMENTS.items()} == expected
    assert published.DOCUMENTS is RECIPES["rkm-documents"].reported
    assert {figure.unit for figure in published.DOCUMENTS.values()} == {"% accuracy"}


@pytest.mark.parametrize("row", printed.rows(printed.L19_TABLE_1))
def test_the_cells_have_the_parameters_of_tables_1_and_2_of_l19(row: str):
    of_state, of_input = printed.rows(printed.L19_TABLE_1)[row]
    for n, thousands in zip((1, 3), printed.rows(printed.L19_TABLE_2)[row], strict=False):
        layer = MODEL_CELLS[published.ROWS[row]](300, 300, filter_length=n)
        weights = sum(p.numel() for name, p in layer.named_parameters() if "bias" not in name)
        assert weights == 300 * 300 * (n * of_input + of_state)
        assert weights == 1000 * thousands


def test_table_3_of_l19_matches_the_paper():
    expected = {
        (published.ROWS[row], f"{dataset}{part}"): perplexity
        for row, (*ptb, valid, test) in printed.rows(printed.L19_TABLE_3).items()
        for dataset, figures in (("ptb", ptb), ("wikitext-2", (valid, test)))
        for part, perplexity in zip((", validation", ""), figures, strict=True)
    }
    assert {key: figure.value for key, figure in language.REPORTED.items()} == expected
    best_first = sorted(published.ROWS.values(), key=lambda cell: expected.get((cell, "ptb"), 1e9))
    assert tuple(best_first[:4]) == language._ORDER


def test_table_4_of_l19_matches_the_paper():
    expected = {row: accuracy for row, (accuracy,) in printed.rows(printed.L19_TABLE_4).items()}
    titles = {
        title.removesuffix(" (SyncNet)"): accuracy for title, accuracy in published.CELLS.values()
    }
    assert titles == expected
    assert {cell: figure.value for (cell, _), figure in published.LFP.items()} == {
        cell: accuracy for cell, (_, accuracy) in published.CELLS.items()
    }
    assert list(titles.values()) == sorted(expected.values(), reverse=True)
    for cell, row in zip(published.CELLS, titles, strict=True):
        own = published.ROWS[row.removeprefix("n-gram ")]
        assert cell == ("syncnet" if row == "CNN" else own)


def test_table_1_of_l17_matches_the_paper():
    expected = {row: ppl for row, (_, ppl) in printed.rows(printed.L17_TABLE_1).items()}
    assert {row: f.value for (row, _), f in string_language.REPORTED.items()} == expected
    assert {dataset for _, dataset in string_language.REPORTED} == {"ptb"}


def test_table_2_of_l17_matches_the_paper():
    expected = {
        (row, f"{task}, best of 5"): accuracy
        for row, figures in printed.rows(printed.L17_TABLE_2).items()
        for task, accuracy in zip(("fine", "binary"), figures, strict=True)
    }
    found = {
        key: f.value
        for key, f in string_published.SENTIMENT.items()
        if f.source == string_published.TABLE_2
    }
    assert found == expected
    others = {key: f.value for key, f in string_published.SENTIMENT.items() if key not in expected}
    assert others == {  # from the page of the authors' code
        ("gated", "fine, mean"): 52.4, ("gated", "binary, mean"): 89.6,
        ("gated", "fine, validation"): 53.7, ("gated", "binary, validation"): 90.1,
    }  # fmt: skip


def test_the_networks_of_others_in_l17_match_the_paper_and_are_named_below_the_tables():
    assert tuple(string_published.OTHERS_1.values()) == printed.L17_TABLE_1_OTHERS
    assert tuple(string_published.OTHERS_2.values()) == printed.L17_TABLE_2_OTHERS
    tables = {
        name: STRING_RECIPES[name].reported for name in ("string-language", "string-sentiment")
    }
    assert tables["string-language"]["Neural Net Search, Zoph & Le, 2016", "ptb"].value == 64.0
    others = tables["string-sentiment"]
    assert others["RNN, Socher et al., 2011", "binary, best of 5"].value == 82.4
    assert len(others) == len(string_published.SENTIMENT) + 2 * len(printed.L17_TABLE_2_OTHERS)
    (_, shown) = string_published.others_in("fine,")
    assert shown.endswith("DAN, Iyyer et al., 2015 48.2; DMN, Kumar et al., 2016 52.1.")
    assert string_published.others_in("fine-roots,") == []
    assert "Zoph & Le, 2016 64" in "".join(string_language._ABOUT)


def test_table_3_of_l17_matches_the_paper():
    expected = {row: rmse for row, (rmse,) in printed.rows(printed.L17_TABLE_3).items()}
    assert {row: f.value for (row, _), f in string_published.MOLECULES.items()} == expected


def test_the_data_sets_have_their_official_sizes():
    documents_sizes = {d.name: [d.train_rows, d.test_rows] for d in DOCUMENT_SETS.values()}
    assert documents_sizes == printed.rows(printed.DOCUMENTS)
    sentences = {d.name: [*d.sizes] for d in TREEBANK_SETS.values()}
    assert sentences == printed.rows(printed.TREEBANK)
    assert sum(sentences["fine-roots"]) == 11_855  # L17 section 6.2


def cells_of(page: str, start: str) -> list[str]:
    """Return the cells of the first row of a page that starts so."""
    lines = text_of(PAGES, page).splitlines()
    line = next(line for line in lines if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_results_pages_quote_the_printed_figures():
    for row, (_, _, one, three, *_) in printed.rows(printed.L19_TABLE_2).items():
        assert cells_of("rkm-documents", row)[1::2] == [f"{one:.2f}", f"{three:.2f}"]
        assert cells_of("rkm-documents-code", row)[1] == f"{three:.2f}"
    for row, (accuracy,) in printed.rows(printed.L19_TABLE_4).items():
        title = "CNN (SyncNet)" if row == "CNN" else row
        assert cells_of("rkm-lfp", title)[1] == f"{accuracy:.2f}"
    for name, network in string_published.MOLECULE_NETWORKS.items():
        if network.rmse is not None:
            (rmse,) = printed.rows(printed.L17_TABLE_3)[name]
            assert cells_of("graph-molecules", network.title)[2] == f"{rmse:.4f}"
    text = text_of(PAGES, "language-5m")
    quoted = re.findall(r"\| L17 Table 1, .*, 5m \| – \| ([\d.]+) \|", text)
    assert quoted == ["73.6", "76.8", "84.3"]
