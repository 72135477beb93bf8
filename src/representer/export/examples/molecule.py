"""Predict molecules with an exported run, with RDKit: ``python predict.py CCO smiles.txt -``."""

from __future__ import annotations

import numpy as np

from representer.data.molecules.smiles import (
    atom_features,
    atom_pairs,
    bond_features,
    descriptors,
    molecule_views,
    parse_smiles,
    torsions,
)
from representer.export.examples.program import SETUP, lines_of, machine, network, program, run
from representer.export.examples.subtrees import subtree_features


def of_network(molecules):
    """Return the network's scores of each target."""
    x, ends, bonds, batch = [], [], [], []
    for number, smiles in enumerate(molecules):
        molecule, count = parse_smiles(smiles), len(x)
        x += [atom_features(atom, SETUP["atom_features"]) for atom in molecule.GetAtoms()]
        batch += [number] * (len(x) - count)
        for bond in molecule.GetBonds():
            u, v = bond.GetBeginAtomIdx() + count, bond.GetEndAtomIdx() + count
            ends += [(u, v), (v, u)]
            bonds += [bond_features(bond)] * 2
    return network(
        {
            "x": np.array(x, np.float32),
            "edge_index": np.array(ends, np.int64).reshape(-1, 2).T,
            "edge_attr": np.array(bonds, np.float32).reshape(-1, 6),
            "batch": np.array(batch),
        }
    )


def of_kernel(k, molecules):
    """Return the kernel machine's scores: a Gaussian process of subtrees, pairs and numbers."""
    patterns = atom_pairs, torsions
    return machine(k, subtree_features(k, molecules, molecule_views, patterns, descriptors))


predicted, predict = program(of_network, of_kernel)


def read(inputs):
    """Return the SMILES of lines, of which the first word counts."""
    return [line.split()[0] for line in lines_of(inputs) if line.strip()]


if __name__ == "__main__":
    HELP = "a SMILES, a file with one on each line, or - for standard input"
    run(
        (HELP, "SMILES", "Predict molecules with an exported run; needs RDKit."),
        read,
        predicted,
        lambda smiles: [smiles],
    )
