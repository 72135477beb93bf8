"""Features of an exported `SubtreeKernel`: its values with the landmarks."""

from __future__ import annotations

import numpy as np

from representer.export.examples.program import SETUP, arrays_of
from representer.kernels.overlaps import NumberSpace, overlap
from representer.kernels.subtree_kernel import UNKNOWN, relabeled


def subtree_features(k, objects, views_of, patterns=(), numbers_of=None):
    """Return the kernel values of objects with the landmarks of target k (N, M)."""
    spec, arrays = SETUP["kernels"][k], arrays_of(k)
    colors = [{key: n for n, key in enumerate(names)} for names in spec["colors"]]
    *weights, _ = arrays["weights"]
    return np.array([
        weights @ np.array([*overlaps(spec, arrays, colors, graph, views_of, patterns, numbers_of)])
        for graph in objects
    ])  # fmt: skip


def overlaps(own, arrays, colors, one, views_of, patterns, numbers_of):
    """Yield the kernels of the sum, each of an object with all landmarks (M,)."""
    block, joint, sizes, rule = 0, [], (np.zeros(0),) * 2, own["overlap"]
    for graph, depth in zip(views_of(one), own["depths"], strict=True):
        total = 0.0
        levels = relabeled(graph, colors[block : block + depth + 1], has_edges=own["edges"])
        for numbers in levels:
            common, sizes = shared(numbers, arrays, block, len(colors[block]))
            total, block = total + common, block + 1
            yield overlap(common, *sizes, rule)
        joint.append((total, *((depth + 1) * size for size in sizes), rule))
    for find in patterns:
        numbers = np.array([colors[block].get(name, UNKNOWN) for name, _ in find(one)], np.int64)
        common, sizes = shared(numbers, arrays, block, len(colors[block]))
        yield overlap(common, *sizes, rule)
        block += 1
    if own["joint"]:
        for together in joint:
            yield overlap(*together)
    if numbers_of:
        means, scales, *others = arrays["numbers"]
        space = NumberSpace(means, scales, float(arrays["numbers.width"][0]))
        yield space.overlaps(space.encode(numbers_of(one)[None]), np.array(others))[0]


def shared(found, arrays, block, width):
    """Return the number of colors that nodes share with each landmark, and both sizes."""
    ends, colors, counts, sizes = (
        arrays[f"{block}.{name}"] for name in ("ends", "colors", "counts", "sizes")
    )
    mine = np.bincount(found[found >= 0], minlength=width)
    rows = np.repeat(np.arange(len(sizes)), np.diff(ends))
    common = np.bincount(rows, np.minimum(counts, mine[colors]), len(sizes))
    return common.astype(float), (np.int64(len(found)), sizes)
