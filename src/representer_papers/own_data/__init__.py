"""Public data sets as a user's own data: everything at its defaults."""

from representer.tasks.recipe import Recipe, imported

# Name on the command line: title in the table.
TEXTS = {
    "ag-news": "AG News, subset", "dbpedia": "DBpedia, subset", "yelp": "Yelp, five stars",
    "yahoo": "Yahoo! Answers, two topics", "sst-fine": "SST, five classes",
    "sst-binary": "SST, two classes",
}  # fmt: skip
GRAPHS = {
    name.lower(): name for name in ("MUTAG", "NCI1", "NCI109", "PROTEINS", "IMDB-BINARY")
}  # fmt: skip
MOLECULES = {"esol": "ESOL", "freesolv": "FreeSolv", "qm8": "QM8, E1-CC2"}
SIGNALS = {
    "arithmetic": "EEG, mental arithmetic", "alcoholism": "EEG, alcoholism",
    "condition": "EEG, stimulus condition",
}  # fmt: skip
LANGUAGE = {"ptb": "Penn Treebank, 1.5m parameters"}
KINDS = {
    "text": TEXTS, "graph": GRAPHS, "molecule": MOLECULES, "signal": SIGNALS, "language": LANGUAGE
}  # fmt: skip

RECIPES = {
    "own-data": Recipe(
        name="own-data",
        title="Kernel, network and both with their defaults beside the best simple baseline",
        source="this library",
        reproduce=imported("representer_papers.own_data.own_data:reproduce"),
        datasets=tuple(name for names in KINDS.values() for name in names),
        seeds=(0, 1, 2, 3, 4),
    )
}

__all__ = ["RECIPES"]
