"""One kind of objects in the live view: how it is typed, drawn and changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from representer.data.molecules import invalid_reason, parse_smiles
from representer.data.text import tokenize
from representer.errors import DataError
from representer.estimators.explanation import KERNEL, NETWORK, Explanation
from representer.estimators.graph_inputs import PlainGraph
from representer.report.pictures import distinct_edges, draw_shares, positions, too_large
from representer.serving.served_model import ServedModel

if TYPE_CHECKING:
    from rdkit.Chem import RWMol


Json = dict[str, Any]


class Change(NamedTuple):
    """An object with one of its places changed."""

    name: str  # what stands at the place now
    input: str  # the changed object, as it is typed


class Sums(NamedTuple):
    """The contributions at one place."""

    raises: float  # the sum of the positive ones
    lowers: float  # the sum of the negative ones


def by_place(explanation: Explanation, count: int) -> list[Sums]:
    """Return the contributions at each place, those of several places in equal parts."""
    raises, lowers = [0.0] * count, [0.0] * count
    for feature in explanation.contributions:
        for position in feature.where:
            side = raises if feature.contribution > 0 else lowers
            side[position] += feature.contribution / len(feature.where)
    return [Sums(*both) for both in zip(raises, lowers, strict=True)]


class Kind:
    """One kind of objects; a subclass describes its places and draws it."""

    # label of the field in which an object is typed; empty if objects are only chosen
    prompt: str = ""
    place: str = ""  # what an object is made of: "word"
    sample: str = ""  # an object to begin with if there are no examples
    meaning: str = (
        "The score of a class is its logit minus the mean of all logits. The constant and the "
        "contributions sum to it."
    )

    def __init__(self, model: ServedModel) -> None:
        self.model = model

    @property
    def has_changes(self) -> bool:
        """True if something else can stand at a place."""
        return False

    def read(self, typed: Any) -> Any:
        """Return a typed object as the estimator takes it."""
        return self.model.read([typed])[0]

    def typed(self, one: Any) -> Any:
        """Return an object as it is typed; None if it cannot be."""
        return one

    def predict(self, one: Any) -> Json:
        """Return the prediction for an object, as `ServedModel.predict` does."""
        return self.model.predict([one])[0]

    def places(self, one: Any) -> Sequence[str]:
        """Return the names of the places of an object, such as its words."""
        return ()

    def picture(self, one: Any, explanation: Explanation) -> Json:
        """Return what is drawn besides the places."""
        return {}

    def notes(self, one: Any) -> list[str]:
        """Return what to say of an object, such as its unknown words."""
        return []

    def changes(self, one: Any, place: int) -> Iterable[Change]:
        """Return objects that differ in one place."""
        return ()


# Texts in the live view: their words, other words in their place, and next words.

TRIED = 2000  # words that are tried at a place, the most frequent ones of the training
READ = 200_000  # words of all texts that are tried
NEXT = 10  # next words that are shown


class Texts(Kind):
    """Texts to classify."""

    prompt = "Text"
    place = "word"

    @property
    def has_changes(self) -> bool:
        return True

    def places(self, one: str) -> Sequence[str]:
        return tokenize(one, self.model.estimator.inputs_.tokenizer)

    def notes(self, one: str) -> list[str]:
        """Return the words that the training texts lack."""
        vocabulary = self.model.estimator.inputs_.vocabulary
        words = [word for word in dict.fromkeys(self.places(one)) if word not in vocabulary]
        shown = ", ".join(words[:NEXT]) + (", …" if len(words) > NEXT else "")
        return [f"Not in the training texts, or too rare: {shown}"] if words else []

    def changes(self, one: str, place: int) -> Iterable[Change]:
        words, vocabulary = list(self.places(one)), self.model.estimator.inputs_.vocabulary
        first = len(vocabulary.MARKS)
        before, after = words[:place], words[place + 1 :]
        if before or after:
            yield Change("(no word)", " ".join([*before, *after]))
        tried = min(TRIED, READ // max(1, len(words)))
        for word in vocabulary.words[first : first + tried]:
            if word != words[place]:
                yield Change(word, " ".join([*before, word, *after]))


class Beginnings(Kind):
    """Beginnings of texts, of which a language model predicts the next word."""

    prompt = "Beginning of a text"
    place = "token"
    sample = "the"
    meaning = (
        "The score is the logit of the most probable next token minus the mean of all logits. The "
        "constant and the contributions sum to it."
    )

    def places(self, one: str) -> Sequence[str]:
        inputs = self.model.estimator.inputs_
        return [inputs.vocabulary.words[k] for k in inputs.encode_prompt(one)[1:]]

    def predict(self, one: str) -> Json:
        """Return the most probable next tokens, and the text after each."""
        estimator = self.model.estimator
        chances = estimator.predict_proba([one])[0]
        best = np.argsort(-chances, kind="stable")[:NEXT].tolist()
        joint = " " if estimator.inputs_.level == "word" and one[-1:].strip() else ""
        words = estimator.tokens_
        following = [
            {"token": words[k], "probability": float(chances[k]),
             "input": one + ("\n" if k == estimator.inputs_.vocabulary.END else joint + words[k])}
            for k in best
        ]  # fmt: skip
        return {"prediction": words[best[0]], "next": following}


# Graphs in the live view: a drawing with the contributions of nodes, and other labels.


class LiveGraphs(Kind):
    """Graphs as JSON."""

    prompt = "Graph as JSON"
    place = "node"

    def read(self, typed: Any) -> PlainGraph:
        """Return a graph; ``nodes`` is their number where they have no labels."""
        try:
            graph = json.loads(typed)
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"the graph is not JSON: {error}") from None
        count = graph.get("nodes") if isinstance(graph, dict) else None
        if type(count) is not int:
            return super().read(graph)
        most = self.model.limits.max_nodes
        if not 0 < count <= most:
            raise DataError(f"the graph has {count} nodes; expected 1 to {most:,}")
        return replace(super().read(graph | {"nodes": [0] * count}), nodes=None)

    def typed(self, one: PlainGraph) -> str:
        """Return a graph as in a JSON Lines file."""
        edges: dict[tuple[int, int], list[Any]] = {}  # each in one direction
        values = [[]] * one.edge_index.shape[1] if one.edges is None else _plain(one.edges)
        for (u, v), value in zip(one.edge_index.T.tolist(), values, strict=True):
            edges.setdefault((min(u, v), max(u, v)), [u, v, *([] if value == [] else [value])])
        nodes = one.count if one.nodes is None else _plain(one.nodes)
        return json.dumps({"nodes": nodes, "edges": [*edges.values()]}, default=int)

    @property
    def has_changes(self) -> bool:
        inputs = self.model.estimator.inputs_
        return bool(inputs.nodes.labels) and not inputs.has_degrees

    def places(self, one: PlainGraph) -> Sequence[str]:
        return self.model.estimator.node_names(one)

    def picture(self, one: PlainGraph, explanation: Explanation) -> Json:
        """Return the places of the nodes in a square of side 1, and the edges."""
        edges = distinct_edges(one.edge_index.T.tolist())
        if sentence := too_large(one.count, len(edges)):
            return {"notes": [sentence]}
        return {"points": positions(one.count, edges).tolist(), "edges": [*map(list, edges)]}

    def changes(self, one: PlainGraph, place: int) -> Iterable[Change]:
        if not isinstance(one.nodes, tuple):
            return
        graph = json.loads(self.typed(one))
        for label in self.model.estimator.inputs_.nodes.labels:
            if label != one.nodes[place]:
                graph["nodes"][place] = label
                yield Change(str(label), json.dumps(graph))


def _plain(values: Any) -> list[Any]:
    return np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)


# Molecules in the live view: a drawing with the contributions of atoms, and other atoms.

ELEMENTS = {"C": 6, "N": 7, "O": 8, "F": 9, "S": 16, "Cl": 17, "Br": 35}
_STYLE = re.compile(r"""\sstyle=(['"])(.*?)\1""", re.DOTALL)


class Molecules(Kind):
    """Molecules as SMILES."""

    prompt = "SMILES"
    place = "atom"
    sample = "CC(=O)Oc1ccccc1C(=O)O"

    @property
    def has_changes(self) -> bool:
        return True

    def places(self, one: str) -> Sequence[str]:
        return self.model.estimator.node_names(one)

    def picture(self, one: str, explanation: Explanation) -> Json:
        """Return a drawing as SVG without style attributes, which the page's policy forbids."""
        shares: Json = {"atoms": explanation.values_by_place(), "bonds": []}
        drawn = draw_shares(parse_smiles(one), shares)
        if not drawn.startswith("<svg"):
            return {"notes": [drawn]}
        return {"drawing": _STYLE.sub(_as_attributes, drawn)}

    def changes(self, one: str, place: int) -> Iterable[Change]:
        from rdkit import Chem, rdBase

        names: dict[str, str] = {}
        original = Chem.MolToSmiles(parse_smiles(one))
        with rdBase.BlockLogs():
            for name, edit in _edits(one, place):
                molecule = Chem.RWMol(parse_smiles(one))
                Chem.Kekulize(molecule, clearAromaticFlags=True)
                edit(molecule)
                try:
                    Chem.SanitizeMol(molecule)
                except (Chem.AtomValenceException, Chem.KekulizeException):
                    continue  # no such molecule
                smiles = Chem.MolToSmiles(molecule)
                if smiles != original and not invalid_reason(smiles):
                    names.setdefault(smiles, name)
        return [Change(name, smiles) for smiles, name in names.items()]


def _edits(smiles: str, place: int) -> Iterable[tuple[str, Callable[[RWMol], object]]]:
    """Yield the name of each change of an atom, and the function that makes it."""
    atom = parse_smiles(smiles).GetAtomWithIdx(place)
    symbol = atom.GetSymbol()
    for element, number in ELEMENTS.items():
        if element != symbol:
            yield f"{element} instead", lambda m, n=number: _replace(m, place, n)
        yield f"add {element}", lambda m, n=number: _attach(m, place, n)
    if atom.GetDegree() == 1 and atom.GetOwningMol().GetNumAtoms() > 1:
        yield f"without {symbol}", lambda m: m.RemoveAtom(place)


def _replace(molecule: Any, place: int, number: int) -> None:
    atom = molecule.GetAtomWithIdx(place)
    atom.SetAtomicNum(number)
    atom.SetFormalCharge(0)
    atom.SetNumExplicitHs(0)
    atom.SetNoImplicit(False)
    atom.SetIsotope(0)


def _attach(molecule: Any, place: int, number: int) -> None:
    from rdkit import Chem

    atom = molecule.GetAtomWithIdx(place)
    if atom.GetNumExplicitHs():  # as in [nH]: the new atom takes the place of a hydrogen
        atom.SetNumExplicitHs(atom.GetNumExplicitHs() - 1)
    molecule.AddBond(place, molecule.AddAtom(Chem.Atom(number)), Chem.BondType.SINGLE)


def _as_attributes(found: re.Match[str]) -> str:
    """Return the properties of a style attribute as attributes of their own."""
    pairs = (pair.split(":", 1) for pair in found[2].split(";") if ":" in pair)
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)


# Windows of signals in the live view: traces, filters over time, and bands by channel.

TRACES, POINTS = 16, 400  # channels that are drawn, and the points of each


class Signals(Kind):
    """Windows of recordings, which are chosen."""

    def typed(self, one: Any) -> None:
        """Return None: a window is an array."""

    def picture(self, one: Any, explanation: Explanation) -> Json:
        """Return traces, and all contributions by their filter or band.

        Those of ``filters`` are over time, those of ``bands`` over the channels. ``whole`` are
        those of filters in the whole window, and of the coupling of two channels in a band.
        """
        inputs, window = self.model.estimator.inputs_, np.asarray(one)
        names = [inputs.named([channel]) for channel in range(len(window))]
        filters: dict[str, dict[tuple[int, ...], float]] = {}
        bands: dict[str, list[float]] = {}
        whole: dict[str, float] = {}
        by_channel = np.zeros(len(window))
        for what, where, half, value in explanation.contributions:
            if half == NETWORK and not what.startswith("power of "):
                name, _, _ = what.rpartition(", ")
                by_span = filters.setdefault(name, {})
                by_span[where] = by_span.get(where, 0.0) + value
            elif half == KERNEL and len(where) == 1:
                name = what.removesuffix(f", {names[where[0]]}")
                bands.setdefault(name, [0.0] * len(window))[where[0]] += value
                by_channel[where[0]] += abs(value)
            else:
                name = what.rpartition(", ")[0] if half == NETWORK else what
                whole[name] = whole.get(name, 0.0) + value
        spans = sorted({span for by_span in filters.values() for span in by_span})
        drawn = sorted(np.argsort(-by_channel, kind="stable")[:TRACES].tolist())
        every = max(1, window.shape[1] // POINTS)
        return {
            "seconds": window.shape[1] / self.model.estimator.sampling_rate_,
            "samples": window.shape[1],
            "channels": names,
            "traces": [
                {"name": names[channel], "values": window[channel, ::every].tolist()}
                for channel in drawn
            ],
            "spans": [list(span) for span in spans],
            "filters": [
                {"name": name, "values": [by_span.get(span, 0.0) for span in spans]}
                for name, by_span in sorted(filters.items(), key=_number)
            ],
            "bands": [
                {"name": name, "values": sums}
                for name, sums in sorted(bands.items(), key=_lower_end)
            ],
            "whole": [{"name": name, "value": value} for name, value in whole.items()],
        }


def _lower_end(pair: tuple[str, Any]) -> tuple[bool, float]:
    """Sort bands such as ``8 to 13 Hz``, then times such as ``waveform, 0.031 to 0.062 s``."""
    _, comma, span = pair[0].rpartition("waveform, ")
    return bool(comma), float(span.split()[0])


def _number(pair: tuple[str, Any]) -> int:
    """Return the number of a filter, whose name is ``filter 3 (10.1 Hz)``."""
    return int(pair[0].split()[1])
