"""The task ``sequence``: its demo and its baselines."""

from __future__ import annotations

from representer.tasks.sequence import MOTIF, reads


def test_the_demo_has_the_motif_in_every_other_sequence():
    drawn = reads(20)
    assert drawn.labels.count("bound") == drawn.labels.count("free") == 10
    bound = zip(drawn.objects, drawn.labels, strict=True)
    assert all(MOTIF in "".join(one) for one, label in bound if label == "bound")
