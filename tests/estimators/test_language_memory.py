"""A vocabulary that does not fit is refused before anything is made; a long text takes no more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from representer.errors import ArgumentError
from representer.estimators.language_training import available, check_memory
from representer.estimators.parameters import LanguageParameters


def test_too_many_tokens_are_refused_with_how_much_they_need():
    parameters = LanguageParameters(hidden_size=400)
    with pytest.raises(
        ArgumentError, match=r"5,000,000 tokens of 400 .* 63\.9 GiB .* 2\.0 GiB are"
    ):
        check_memory(parameters, 5_000_000, 2 * 2**30)


def test_what_fits_is_let_through_and_so_is_a_system_that_does_not_say():
    check_memory(LanguageParameters(), 10_000, 2**30)
    check_memory(LanguageParameters(), 10**12, None)


def test_this_system_says_more_than_nothing():
    free, pages = available(), os.sysconf("SC_PHYS_PAGES")
    machine = pages * os.sysconf("SC_PAGE_SIZE")
    assert free is None or machine / 500 < free <= machine


_READ = """
import resource, torch
from representer.estimators.language_training import NetworkPredictor, log_likelihoods
from representer.models import LanguageNetwork, LanguageModelConfig

sizes = LanguageModelConfig(vocabulary_size=10_000, embedding_size=100, hidden_size=100)
predictor = NetworkPredictor(LanguageNetwork(sizes).eval())

def most(tokens):
    log_likelihoods(predictor, torch.zeros(tokens, dtype=torch.long))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

print(most(1_000), most(4_000))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory have another unit")
def test_a_longer_text_takes_no_more_memory():
    """A part has 20 MB in float64; the little that was kept of each once held 70 MB of memory."""
    ran = subprocess.run([sys.executable, "-c", _READ], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    short, long = map(int, ran.stdout.split())
    assert long - short < 70 * 2**10  # KiB; it was 210 * 2**10
