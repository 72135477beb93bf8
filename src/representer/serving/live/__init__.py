"""The live view: a page that explains what is typed or chosen, on this machine alone."""

from __future__ import annotations

import json
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import torch
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from representer.data.molecules import invalid_reason, parse_smiles
from representer.data.text import tokenize
from representer.errors import ArgumentError, DataError, KindError, MissingExtraError
from representer.estimators import LanguageModel
from representer.estimators.explanation import KERNEL, NETWORK, Example, Explanation, Line
from representer.estimators.graph_inputs import PlainGraph
from representer.estimators.targets import centered
from representer.report.pictures import distinct_edges, draw_shares, positions, too_large
from representer.serving import Limits
from representer.serving.answers import Answers, Job, Reply, encoded, parsed
from representer.serving.app import answered, body_of, create_app, page_of
from representer.serving.served_model import ServedModel

if TYPE_CHECKING:
    from jinja2 import Template
    from rdkit.Chem import RWMol

__all__ = ["Example", "LiveView", "create_live_app"]

# One kind of objects in the live view: how it is typed, drawn and changed.

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


# The answers of the live view: a prediction, its contributions, and what would change it.

KINDS: dict[str, type[Kind]] = {
    "text": Texts, "language": Beginnings, "molecule": Molecules, "graph": LiveGraphs,
    "signal": Signals,
}  # fmt: skip
NUMBER = "The score is the predicted number. The constant and the contributions sum to it."
LISTED = 10  # contributions, or changes, of each sign


class LiveView:
    """Explains objects that are typed or chosen.

    Args:
        model: The model.
        examples: Objects to choose.

    Raises:
        KindError: There is no live view for the task of the model.
    """

    def __init__(self, model: ServedModel, examples: Sequence[Example] = ()) -> None:
        if model.task not in KINDS:
            expected = f"one of {', '.join(KINDS)}, which have a live view"
            raise KindError("the task of the run", model.task, expected)
        self.model, self.examples, self.kind = model, examples, KINDS[model.task](model)
        if isinstance(model.estimator, LanguageModel):
            model.estimator.set_params(verbose=0)  # unknown words are marked, not printed

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process loads the view."""
        return LiveView, (self.model, self.examples)

    def describe(self) -> Json:
        """Return what the page needs before something is chosen."""
        live = self.kind
        examples = [
            {"name": example.name, "group": example.group, "input": live.typed(example.value)}
            for example in self.examples
        ]
        meaning = live.meaning if self.model.classes or live.place == "token" else NUMBER
        about = {
            "prompt": live.prompt, "place": live.place, "sample": live.sample, "meaning": meaning,
            "has_changes": live.has_changes,
        }  # fmt: skip
        return self.model.describe() | about | {"examples": examples}

    def find(self, typed: Any, number: int | None) -> Any:
        """Return a typed object, or the one of an example, as the estimator takes it.

        Raises:
            DataError: It cannot be used.
            ArgumentError: There is no such example.
        """
        if number is None:
            if not self.kind.prompt:
                raise ArgumentError("example", None, "the number of an example")
            return self.kind.read(typed)
        if not 0 <= number < len(self.examples):
            expected = f"a number below {len(self.examples)}"
            raise ArgumentError("example", number, expected)
        return self.examples[number].value

    def explain(self, one: Any) -> Json:
        """Return the prediction for an object, and the contributions that sum to its score.

        ``score`` is ``constant`` plus the ``sum`` of what ``raises`` and of what ``lowers`` it;
        and it is ``constant`` plus ``elsewhere`` plus both sums at each of the ``places``.

        Raises:
            DataError: The object cannot be used.
            KindError: The model has no contributions.
        """
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", UserWarning)
            prediction = self.kind.predict(one)
            (explanation,) = self.model.estimator.explain([one])
        picture = self.kind.picture(one, explanation)
        notes = [*(str(each.message) for each in raised), *picture.pop("notes", ())]
        notes += self.kind.notes(one)
        names, lines = self.kind.places(one), explanation.lines
        return {
            "prediction": prediction,
            "notes": list(dict.fromkeys(notes)),
            "score": float(explanation.score),
            "constant": float(explanation.baseline),
            "parts": sorted({each.part for each in explanation.contributions}),
            "raises": _listed([line for line in lines if line.contribution > 0]),
            "lowers": _listed([line for line in lines if line.contribution <= 0]),
            "places": [
                {"name": name, **sums._asdict()}
                for name, sums in zip(names, by_place(explanation, len(names)), strict=True)
            ]
            if names
            else [],
            "nouns": explanation.nouns,
            "by_place": _by_size(explanation),
            "elsewhere": sum(c.contribution for c in explanation.contributions if not c.where),
            **picture,
        }

    def change(self, one: Any, place: int) -> Json:
        """Return what the score becomes if another thing stands at a place of an object.

        Every change is predicted by the whole model. The score is that of the class that is
        predicted without a change.

        Raises:
            ArgumentError: There is no such place.
        """
        names = self.kind.places(one)
        if not 0 <= place < len(names):
            raise ArgumentError("place", place, f"a number below {len(names)}")
        changes = list(self.kind.changes(one, place))
        scores, labels = self._scored([one, *(self.kind.read(change.input) for change in changes)])
        rows = [
            {"name": change.name, "input": change.input, "label": label, "score": score,
             "change": score - scores[0]}
            for change, score, label in zip(changes, scores[1:], labels[1:], strict=True)
        ]  # fmt: skip
        rows.sort(key=lambda row: row["change"])
        largest = {
            "raises": [row for row in rows[: -LISTED - 1 : -1] if row["change"] > 0],
            "lowers": [row for row in rows[:LISTED] if row["change"] < 0],
        }
        return {"name": names[place], "tried": len(rows), "of": labels[0], **largest}

    def _scored(self, objects: Sequence[Any]) -> tuple[list[float], list[str]]:
        """Return the scores that `explain` explains for the first object, and predicted labels."""
        estimator = self.model.estimator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `explain` has shown it
            scores, _ = estimator.checked_moments(objects)[0]
        scale, offset = estimator.target_.unit
        column = scale * centered(torch.from_numpy(scores.T))[scores[0].argmax()] + offset
        names = (self.model.classes or [[""]])[0]
        return column.tolist(), [names[k] for k in scores.argmax(axis=1).tolist()]


def _by_size(explanation: Explanation) -> list[Json]:
    """Return what each place contributes, the largest first."""
    rows = replace(explanation, listed=len(explanation.by_place)).rows()[:-2]
    return [{name: row[name] for name in ("what", "contribution")} for row in rows]


def _listed(lines: Sequence[Line]) -> Json:
    """Return the first lines, the number of all and their sum."""
    rows = [
        {"what": line.what, "places": line.places, "kernel": float(line.kernel),
         "network": float(line.network), "contribution": float(line.contribution)}
        for line in lines[:LISTED]
    ]  # fmt: skip
    return {"lines": rows, "count": len(lines), "sum": sum(line.contribution for line in lines)}


class Chosen(BaseModel):
    """An object: what is typed, or the number of an example."""

    input: Annotated[str | None, Field(max_length=100_000)] = None
    example: int | None = None


class Place(Chosen):
    """A place of an object."""

    place: int


class LiveAnswers(Answers):
    """Answers with the live view, too."""

    def __init__(self, view: LiveView | Callable[[], LiveView], limits: Limits) -> None:
        self._view = view() if callable(view) else view
        super().__init__(self._view.model, limits)
        self.kinds |= {"live": self._live, "changes": self._changes}

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"live": self._view.describe()}

    def _live(self, job: Job) -> Reply:
        body = parsed(Chosen, job.body)
        value = self._view.find(body.input, body.example)
        return Reply(200, encoded(self._view.explain(value)))

    def _changes(self, job: Job) -> Reply:
        body = parsed(Place, job.body)
        value = self._view.find(body.input, body.example)
        return Reply(200, encoded(self._view.change(value, body.place)))


def create_live_app(
    view: LiveView | Callable[[], LiveView], limits: Limits | None = None
) -> FastAPI:
    """Return the application of the live view, which answers this machine alone.

    ``GET /`` is the page. ``GET /live`` describes the model and the examples, ``POST /live`` with
    ``{"input": ...}`` or ``{"example": N}`` explains an object, and ``POST /live/changes`` with
    ``"place"`` besides tries other words, atoms or labels there. The requests of `create_app` are
    answered, too.
    """
    model: Any = view
    app = create_app(model, limits, token=None, answers=LiveAnswers, has_index=False)
    about = app.state.process.about

    @app.get("/")
    async def page() -> Response:
        nonce = secrets.token_urlsafe(16)
        return page_of(_template().render(nonce=nonce, task=about["model"]["task"]), nonce)

    @app.get("/live")
    async def describe() -> Response:
        return Response(encoded(about["live"]), media_type="application/json")

    @app.post("/live", openapi_extra=body_of(Chosen))
    async def explain(request: Request) -> Response:
        return await answered(request, "live")

    @app.post("/live/changes", openapi_extra=body_of(Place))
    async def change(request: Request) -> Response:
        return await answered(request, "changes")

    return app


@cache
def _template() -> Template:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("the live view", "jinja2", "train") from error
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html")
