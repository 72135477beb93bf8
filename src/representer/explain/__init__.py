"""Exact decompositions of the outputs of layers."""

from representer.explain.ngrams import NgramContribution, substitutions, token_slots, top_ngrams
from representer.explain.recurrent import LedgerRow, MemoryLedger, influence, memory_ledger
from representer.explain.references import (
    NearWord,
    ReferenceCard,
    Seeds,
    SlotDrift,
    frequent_ngrams,
    reference_card,
    seed_references,
)
from representer.explain.signals import (
    BandImportance,
    PhaseLags,
    RecurringOscillation,
    WaveletCard,
    band_importance,
    combined_lags,
    phase_lags,
    recurring_oscillations,
    wavelet_cards,
    wavelet_frequencies,
)
from representer.explain.stacks import ExactAttribution, StackReadout, stack_readout
from representer.explain.string_readout import StringReadout, string_readout
from representer.explain.walks import WalkContribution, top_walks, walk_readout

__all__ = [
    "BandImportance", "ExactAttribution", "LedgerRow", "MemoryLedger", "NearWord",
    "NgramContribution", "PhaseLags", "RecurringOscillation", "ReferenceCard", "Seeds", "SlotDrift",
    "StackReadout", "StringReadout", "WalkContribution", "WaveletCard", "band_importance",
    "combined_lags", "frequent_ngrams", "influence", "memory_ledger", "phase_lags",
    "recurring_oscillations", "reference_card", "seed_references", "stack_readout",
    "string_readout", "substitutions", "token_slots", "top_ngrams", "top_walks", "walk_readout",
    "wavelet_cards", "wavelet_frequencies",
]  # fmt: skip

__dir__ = __all__.copy  # what tab completion shows
