from __future__ import annotations

import pytest


def test_the_cost_of_a_block_and_of_a_pair_are_recovered(bench):
    cluster = bench("cluster")
    per_block, per_pair = cluster.fit_blocks(lambda size: 0.5 + 3e-4 * size**2, [10, 20, 50])
    assert per_block == pytest.approx(0.5)
    assert per_pair == pytest.approx(3e-4)
    assert cluster.fit_blocks(lambda size: 2e-4 * size**2, [10, 20])[0] == pytest.approx(
        0, abs=1e-9
    )


def test_the_work_of_a_case_grows_with_its_scale(bench):
    small, large = (bench("cluster").cases(scale) for scale in (1, 2))
    for one, other in zip(small, large, strict=True):
        assert len(other.objects) == 2 * len(one.objects)
        assert len(other.kernel(other.objects[:3])) == 3
