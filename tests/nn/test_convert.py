"""State dicts of version 0.1.0, constructed here, load into the current layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from representer import nn
from representer.functional import cell as cells
from representer.functional import ngram_product, rkm_scan
from representer.storage.run_files import RunFiles

T, B, I, H = 6, 2, 3, 4  # noqa: E741


def old_direction(gates: int, seen: int, biased: int, features: int, n: int) -> dict[str, Tensor]:
    """Return the weights of one direction of a machine in the layout of version 0.1.0."""
    return {
        "filters.weights.0": torch.randn(gates, H, features, n, dtype=torch.float64),
        "recurrent": torch.randn(seen, H, H, dtype=torch.float64) / 2,
        "bias": torch.randn(biased, H, dtype=torch.float64),
    }


def old_run(w: dict[str, Tensor], x: Tensor, n: int) -> Tensor:
    """Run an RKM-LSTM on such weights, by the equations."""
    gates = len(w["filters.weights.0"])
    extended = torch.cat((x.new_zeros(n - 1, B, x.shape[2]), x))
    z = ngram_product(extended, w["filters.weights.0"].flatten(0, 1), 1)
    z = z.unflatten(-1, (gates, H))
    z[:, :, gates - len(w["bias"]) :] += w["bias"]
    zeros = x.new_zeros(B, H)
    return rkm_scan(z, w["recurrent"], zeros, zeros, cell=cells.RKM_LSTM)[0]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("prefix", ["", "encoder.0."])
def test_an_old_state_dict_of_two_layers_and_directions_gives_the_old_outputs(n: int, prefix: str):
    old = [old_direction(4, 4, 3, I if k < 2 else 2 * H, n) for k in range(4)]
    layer = nn.RKMLSTM(I, H, 2, bidirectional=True, filter_length=n, dtype=torch.float64)
    module = layer if not prefix else torch.nn.ModuleDict({"encoder": torch.nn.ModuleList([layer])})
    state = {f"{prefix}directions.{k}.{name}": w for k in range(4) for name, w in old[k].items()}
    module.load_state_dict(nn.convert_state_dict(state, module))
    x = torch.randn(T, B, I, dtype=torch.float64)
    h = x
    for forward, backward in (old[:2], old[2:]):
        h = torch.cat((old_run(forward, h, n), old_run(backward, h.flip(0), n).flip(0)), dim=-1)
    torch.testing.assert_close(layer(x)[0], h)


def test_parameters_of_all_other_layers_are_converted():
    cases = {
        nn.LinearKernelRNN(I, H, learn_static_gates=True, layer_norm=True): {
            "filters.weights.0": (2, H, I, 1), "recurrent": (2, H, H), "bias": (1, H),
            "norm.weight": (H,), "norm.bias": (H,),
            "static.input_logit": (1,), "static.forget_logit": (H,),
        },
        nn.RKMCIFG(I, H, filter_length={2: 1, 1: 3}): {
            "filters.weights.0": (3, 1, I, 2), "filters.weights.1": (3, 3, I, 1),
            "recurrent": (3, H, H), "bias": (2, H),
        },
        nn.CNN(I, H, filters="wavelet", filter_length=5): {
            "filters.amplitude": (1, H, I), "filters.frequency": (1, H),
            "filters.phase": (1, H, I - 1), "filters.raw_decay": (1, H),
        },
        nn.StringKernelRNN(I, H, decay="state"): {
            "input_weight": (3, H, I), "bias": (1, H), "recurrent": (H, H),
        },
        nn.StringKernelRNN(I, H, decay="learned"): {"input_weight": (2, H, I), "decay_logit": (H,)},
        nn.KBRN(I, H): {
            "input_weight": (H, I), "recurrent": (H, H), "bias": (H,),
            "activation.centers": (H, 20), "activation.coefficients": (H, 20),
            "norm.scale": (2, H), "norm.running": (2, 512, H), "norm.batches": (512,),
        },
        nn.drop_connect(nn.RKM(I, H)): {
            "filters.weights.0": (1, H, I, 1), "parametrizations.recurrent.original": (1, H, H),
        },
    }  # fmt: skip
    for layer, shapes in cases.items():
        old = {f"directions.0.{name}": torch.rand(shape) for name, shape in shapes.items()}
        new = nn.convert_state_dict(old, layer)
        layer.load_state_dict(new)
        values = [torch.cat([t.flatten() for t in d.values()]).sort().values for d in (old, new)]
        assert torch.equal(*values)


def test_references_of_an_old_string_layer_are_converted():
    layer = nn.StringKernelRNN(I, H, order=2, decay="input")
    old = torch.randn(3, H, I)
    state = {"directions.0.input_weight": old, "directions.0.bias": torch.randn(1, H)}
    layer.load_state_dict(nn.convert_state_dict(state, layer))
    assert torch.equal(layer.references(), old[:2].transpose(0, 1))
    assert torch.equal(layer.decay_gate()["input"], old[2])


def test_the_stacked_weights_of_old_graph_layers_become_matrices():
    pytest.importorskip("torch_geometric")
    options = {"order": 3, "decay": "gated", "edge_dim": 2}
    walks = {
        "weight": (3, H, I), "edge_weight": (2, H, 2), "gate_weight": (2, H, I),
        "gate_edge": (H, 2), "gate_bias": (H,),
    }  # fmt: skip
    later = {**walks, "weight": (3, H, H), "gate_weight": (2, H, H)}
    relabeling = {"weight": (2, I, I), "neighbors": (I, I), "edge_weight": (I, 2), "bias": (2, I)}
    cases = {
        nn.RandomWalkKernelNN(I, H, **options): {f"walks.{n}": s for n, s in walks.items()},
        nn.DeepGraphKernelNN(I, H, **options): {
            "mixing": (2, H, H),
            **{f"walks.0.{n}": s for n, s in walks.items()},
            **{f"walks.1.{n}": s for n, s in later.items()},
        },
        nn.WLKernelNN(I, H, label_channels=0, **options): {
            **{f"walks.0.{n}": s for n, s in walks.items()},
            **{f"relabeling.{n}": s for n, s in relabeling.items()},
        },
    }
    for layer, shapes in cases.items():
        old = {name: torch.rand(shape) for name, shape in shapes.items()}
        layer.load_state_dict(nn.convert_state_dict(old, layer))
        references = old.get("walks.weight", old.get("walks.0.weight"))
        assert torch.equal(layer.references(), references.transpose(0, 1))
        if "mixing" in old:
            assert all(map(torch.equal, layer.mixing, old["mixing"]))


def test_a_current_state_dict_is_not_changed():
    model = torch.nn.Sequential(nn.RKMLSTM(I, H, filter_length=2), torch.nn.Linear(2, 3))
    state = model.state_dict()
    converted = nn.convert_state_dict(state, model)
    assert list(converted) == list(state)
    assert all(torch.equal(converted[name], state[name]) for name in state)


def test_mismatches_are_left_to_the_error_of_torch():
    layer = nn.RKMLSTM(I, H)
    for name in ("directions.7.bias", "directions.0.unknown", "directions.0.filters.weights.3"):
        with pytest.raises(RuntimeError, match="Unexpected key"):
            layer.load_state_dict(nn.convert_state_dict({name: torch.zeros(2, 2)}, layer))


def test_a_run_folder_of_version_0_1_0_loads(tmp_path):
    from safetensors.torch import save_file

    def build() -> torch.nn.Module:
        return torch.nn.ModuleDict({"layer": nn.RKMLSTM(I, H)}).double()

    old = old_direction(4, 4, 3, I, 1)
    state = {f"layer.directions.0.{name}": w for name, w in old.items()}
    save_file(state, tmp_path / "model.safetensors")
    model = RunFiles(tmp_path).load_model(build)
    x = torch.randn(T, B, I, dtype=torch.float64)
    torch.testing.assert_close(model["layer"](x)[0], old_run(old, x, 1))
