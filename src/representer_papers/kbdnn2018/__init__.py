"""Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks ("M18")."""

from representer.tasks.recipe import Recipe, imported

CHARGING_CELLS = ("kbrn", "kbrn-fitted", "rnn", "lstm", "lstm-sigmoid")
LONG_TERM_CELLS = (
    "kbrn", "kbrn-fitted", "kbrn-long", "kbrn-grown", "kbrn-long-grown", "tanh", "tanh-grown",
    "tanh-long-grown", "lstm", "lstm-grown", "lstm-sigmoid",
)  # fmt: skip
FUNCTIONS = ("or", "and", "xor", "iff")
PARITIES = ("2bit", "4bit")
_PRESETS = ("paper", "authors_code")
_SOLVED = "a criterion of success of ours, 99.5 % on new sequences; the paper prints none"
_DEVIATION = "normalization divides by the standard deviation; the paper prints the variance"

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="kbrn-xor",
            title="Parity of two and four bits by one unit with a learned activation",
            source="M18 Fig. 2",
            reproduce=imported("representer_papers.kbdnn2018.xor:reproduce_parity"),
            datasets=PARITIES,
            presets=_PRESETS,
            differences=dict.fromkeys(_PRESETS, ("updates, rate and ℓ1 factor are the code's",)),
        ),
        Recipe(
            name="kbrn-charging",
            title="The charging problem: one learned unit, a sigmoid unit and LSTMs",
            source="M18 Fig. 3",
            reproduce=imported("representer_papers.kbdnn2018.charging:reproduce_charging"),
            cells=CHARGING_CELLS,
            presets=_PRESETS,
            differences={"authors_code": ("charges from 1 to 10; the paper has 0 to 9",)},
        ),
        Recipe(
            name="kbrn-long-term",
            title="A function of the first two bits of sequences of 5 to 200: learned activations, "
            "LSTMs",
            source="M18 Figs. 4-6",
            reproduce=imported("representer_papers.kbdnn2018.long_term:reproduce_long_term"),
            cells=LONG_TERM_CELLS,
            datasets=FUNCTIONS,
            presets=_PRESETS,
            differences={
                "paper": (_SOLVED, _DEVIATION),
                "authors_code": (_SOLVED, _DEVIATION, "no sigmoid after the readout of the LSTMs"),
            },
            options=("lengths",),
            seeds=(0, 1, 2, 3, 4),  # "5 different runs, with different initialization seeds"
        ),
    )
}

__all__ = ["RECIPES"]
