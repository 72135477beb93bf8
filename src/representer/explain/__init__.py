"""Exact decompositions of the outputs of layers."""

from representer.explain.best_ngrams import NgramContribution
from representer.explain.exact_attribution import ExactAttribution
from representer.explain.influence import influence
from representer.explain.memory_ledger import LedgerRow, MemoryLedger, memory_ledger
from representer.explain.oscillations import (
    BandImportance,
    PhaseLags,
    band_importance,
    combined_lags,
    phase_lags,
)
from representer.explain.reference_card import NearWord, ReferenceCard, reference_card
from representer.explain.seeded_references import (
    Seeds,
    SlotDrift,
    frequent_ngrams,
    seed_references,
)
from representer.explain.stack_readout import StackReadout, stack_readout
from representer.explain.string_readout import StringReadout, string_readout
from representer.explain.substitutions import substitutions
from representer.explain.token_slots import token_slots
from representer.explain.top_ngrams import top_ngrams
from representer.explain.top_walks import WalkContribution, top_walks
from representer.explain.walk_readout import walk_readout
from representer.explain.wavelet_cards import (
    RecurringOscillation,
    WaveletCard,
    recurring_oscillations,
    wavelet_cards,
    wavelet_frequencies,
)

__all__ = [
    "BandImportance",
    "ExactAttribution",
    "LedgerRow",
    "MemoryLedger",
    "NearWord",
    "NgramContribution",
    "PhaseLags",
    "RecurringOscillation",
    "ReferenceCard",
    "Seeds",
    "SlotDrift",
    "StackReadout",
    "StringReadout",
    "WalkContribution",
    "WaveletCard",
    "band_importance",
    "combined_lags",
    "frequent_ngrams",
    "influence",
    "memory_ledger",
    "phase_lags",
    "recurring_oscillations",
    "reference_card",
    "seed_references",
    "stack_readout",
    "string_readout",
    "substitutions",
    "token_slots",
    "top_ngrams",
    "top_walks",
    "walk_readout",
    "wavelet_cards",
    "wavelet_frequencies",
]
