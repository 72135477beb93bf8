"""KernelLinear and KAN: the equation, grids, bounds, formulas, conversions."""

from __future__ import annotations

import copy
import math
import pickle
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils import prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from looped import looped
from representer import functional, nn
from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.activation.kernel_dag import b_splines

GREENS = ["abs", "relu", "cubic", "gaussian"]
OPTIONS = [{}, {"linear_term": False}, {"bias": False}, {"base": "silu"}, {"learn_centers": True}]


def made(green="abs", *, rows=200, **options):
    torch.manual_seed(0)
    layer = nn.KernelLinear(4, 3, green=green, dtype=torch.float64, **options)
    return layer, torch.randn(rows, 4).double() * 1.2


@looped("green", GREENS)
@looped("options", OPTIONS)
def test_the_output_is_the_sum_of_the_printed_functions(green, options):
    layer, x = made(green, **options)
    y = functional.edge_activation(
        x, layer.centers, layer.coefficients, green=green, bandwidth=layer.bandwidth
    )
    if layer.weight is not None:
        y = y + (F.silu(x) if layer.base == "silu" else x) @ layer.weight.T
    y = y if layer.bias is None else y + layer.bias
    torch.testing.assert_close(layer(x), y)
    total = layer.contributions(x).sum(-2)
    torch.testing.assert_close(total if layer.bias is None else total + layer.bias, y)


@looped("green", GREENS)
@looped("linear_term", [True, False])
def test_an_initial_function_stands_on_every_edge(green, linear_term):
    layer, x = made(green, init=torch.sin, num_centers=40, linear_term=linear_term)
    x = x.clamp(-2.9, 2.9)
    ends = layer.contributions(torch.tensor([[-1.0], [1.0]]).double().expand(2, 4))
    weights = (ends[1] - ends[0]) / (2 * math.sin(1.0))
    assert weights.abs().min() > 1e-3
    values, expected = layer.contributions(x), weights * x.sin()[..., None]
    shifts = (values - expected).mean(0)  # which the bias takes back
    torch.testing.assert_close(values, expected + shifts, rtol=0, atol=8e-3)


def test_zeros_are_a_linear_layer():
    layer, x = made(init="zeros")
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


@looped("green", GREENS)
@looped("options", OPTIONS)
def test_refining_changes_no_function_and_keeps_the_parameters(green, options):
    layer, x = made(green, **options)
    parameters, y = list(layer.parameters()), layer(x)
    optimizer = torch.optim.Adam(layer.parameters())
    y.square().mean().backward()
    optimizer.step()
    y = layer(x).detach()
    layer.refine(13)
    assert layer.centers.shape == (4, 13)
    assert layer.centers.sort(dim=1).values.diff(dim=1).max() < 0.9
    assert all(a is b for a, b in zip(parameters, layer.parameters(), strict=True))
    torch.testing.assert_close(layer(x), y)
    layer(x).square().mean().backward()
    optimizer.step()
    assert not torch.equal(layer(x), y)
    with pytest.raises(ArgumentError, match="13 or more"):
        layer.refine(12)


def test_a_state_of_another_number_of_centers_loads():
    layer, x = made()
    layer.refine(11)
    other, _ = made()
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(x), layer(x))


@looped("green", GREENS)
def test_a_grid_of_quantiles_keeps_smooth_functions(green):
    layer, _ = made(green, init=torch.tanh, num_centers=30, bandwidth=0.4)
    x = torch.randn(3000, 4).double() * 0.7
    y = layer(x)
    change = layer.fit_grid(x)
    assert change < (0.1 if green == "gaussian" else 0.03)
    assert (layer(x) - y).abs().max() <= 4 * change + 1e-12
    quarter = (layer.centers[:, 7] + layer.centers[:, 8]) / 2
    assert ((x < quarter).double().mean(0) - 0.25).abs().max() < 0.1
    assert layer.limits == (x.min().item(), x.max().item())


def test_repeated_data_keep_the_centers_apart():
    layer, x = made()
    layer.fit_grid(torch.zeros_like(x))
    assert layer.centers.diff(dim=1).min() > 0
    with pytest.raises(ArgumentError, match="finite"):
        layer.fit_grid(x * torch.nan)


@looped("green", GREENS)
@looped("options", OPTIONS)
def test_bounds_hold_where_they_are_searched_for_violations(green, options):
    layer, _ = made(green, **options)
    low, high = layer.limits
    x = torch.rand(20000, 4).double() * (high - low) + low
    x[:2] = torch.tensor([[low], [high]])
    values = layer.contributions(x)
    below, above = layer.ranges()
    assert (values.amin(0) - below).min() > -1e-9
    assert (above - values.amax(0)).min() > -1e-9
    exact = green != "gaussian" and layer.base == "identity"
    assert (values.amin(0) - below).max() < (2e-3 if exact else 0.2)  # and are not loose
    y = layer(x)
    bound = layer.prune(0.5)
    assert bound.max() > 0.05
    assert bound.max() <= 0.5
    assert ((layer(x) - y).abs().amax(0) <= bound).all()


def test_pruning_keeps_what_it_must():
    layer, x = made()
    y = layer(x)
    assert torch.equal(layer.prune(0.0), torch.zeros(3).double())
    assert torch.equal(layer(x), y)
    with pytest.raises(ArgumentError, match="0 or more"):
        layer.prune(-1.0)
    with pytest.raises(KindError, match="slope"):
        nn.KernelLinear(2, 2, green=torch.relu).prune(0.1)


@looped("green", GREENS)
def test_penalties_are_those_of_the_functions(green):
    layer, _ = made(green)
    assert layer.penalty().item() == pytest.approx(layer.coefficients.abs().sum().item())
    total = 0.0
    for i in range(4):
        edges = nn.KernelActivation(
            3, layer.num_centers, green, layer.limits, "zeros", True, bandwidth=layer.bandwidth
        ).double()
        with torch.no_grad():
            edges.centers.copy_(layer.centers[i].expand(3, -1))
            edges.coefficients.copy_(layer.coefficients[i])
            edges.line[:, 0] = layer.weight[:, i]
            edges.line[:, 1] = 0.0
        total += edges.penalty("smoothness").item()
    assert layer.penalty("smoothness").item() == pytest.approx(total)
    with pytest.raises(ArgumentError, match="smoothness"):
        layer.penalty("l2")


@pytest.mark.parametrize(
    ("function", "text"),
    [(torch.sin, "sin"), (torch.square, "^2"), (torch.exp, "exp("), (lambda x: 2 * x - 1, "x"),
     (torch.zeros_like, "0")],
)  # fmt: skip
def test_formulas_come_with_their_error(function, text):
    layer = nn.KernelLinear(1, 1, 60, "cubic", (-2, 2), init=function, dtype=torch.float64)
    (formula,) = layer.formulas()
    assert text in formula.text
    x = torch.linspace(-2, 2, 401).double()
    f = layer.contributions(x[:, None])[:, 0, 0].detach()
    assert formula.error < 1e-3 * max(float(f.max() - f.min()), 1e-3)
    names = {"x": x, "exp": torch.exp, "sin": torch.sin, "tanh": torch.tanh, "log": torch.log}
    source = formula.text.replace("^", "**").replace(" x", "*x").replace(" (", "*(")
    for name in ("sin", "exp"):
        source = source.replace(f" {name}", f"*{name}")
    written = torch.as_tensor(eval(source, {"abs": torch.abs}, names))
    assert (written - f).abs().max() < formula.error + 5e-3  # four digits


def test_a_function_without_formula_says_so_by_its_error():
    layer = nn.KernelLinear(
        1, 1, 30, "abs", init=lambda x: torch.sin(7 * x) * x, dtype=torch.float64
    )
    (formula,) = layer.formulas()
    assert formula.relative > 0.1


def test_the_functions_of_all_edges_are_plotted():
    pytest.importorskip("matplotlib")
    layer = made()[0]
    figure = layer.plot()
    assert len(figure.axes) == 12
    x, y = (torch.tensor(values) for values in figure.axes[5].lines[0].get_data())
    f = layer.contributions(x[:, None].expand(-1, 4).double())[:, 1, 1]  # a row for each output
    torch.testing.assert_close(y.double(), f.detach())


def test_the_functions_of_all_layers_are_in_one_picture_and_have_formulas():
    pytest.importorskip("matplotlib")
    network = nn.KAN([2, 3, 1], dtype=torch.float64)
    assert len(network.plot().axes) == 2 * 3 + 3
    assert [len(of_layer) for of_layer in network.formulas(51)] == [6, 3]


@looped("degree", [1, 2, 3])
@looped("even", [True, False])
@looped("package", ["efficient-kan", "pykan"])
def test_splines_of_other_packages_are_converted(degree, even, package):
    torch.manual_seed(degree)
    knots = torch.linspace(-2, 2, 6 + 2 * degree).double().repeat(3, 1)
    if not even:
        knots += torch.rand_like(knots).mul(0.2).cumsum(1)
    count = knots.shape[1] - degree - 1
    base, spline = torch.randn(2, 3).double(), torch.randn(2, 3, count).double()
    if package == "efficient-kan":
        scaler = torch.randn(2, 3).double()
        state = {
            "grid": knots, "base_weight": base, "spline_weight": spline, "spline_scaler": scaler,
        }  # fmt: skip
        network = nn.KAN.from_efficient_kan({f"layers.0.{k}": v for k, v in state.items()})
    else:
        scaler, mask = torch.randn(2, 3).double(), torch.tensor([[1.0, 0, 1], [1, 1, 1]]).double()
        state = {"grid": knots, "coef": spline.transpose(0, 1), "scale_base": base.T,
                 "scale_sp": scaler.T, "mask": mask.T}  # fmt: skip
        network = nn.KAN.from_pykan({f"act_fun.0.{k}": v for k, v in state.items()})
        base, scaler = base * mask, scaler * mask
    x = torch.rand(500, 3).double() * 2 - 1
    values = torch.einsum(
        "pis,jis,ji->pj", b_splines(x.T, knots, degree).transpose(0, 1), spline, scaler
    )
    (layer,) = network.layers
    error = (network(x) - values - F.silu(x) @ base.T).abs().max().item()
    assert error <= 3 * layer.conversion_error + 1e-9
    assert error < 1e-9
    ends, (low, high) = layer.limits, layer.ranges()
    f = layer.contributions(torch.rand(2000, 3).double() * (ends[1] - ends[0]) + ends[0])
    assert ((low <= f) & (f <= high)).all()
    single = network.float()(x.float()).double()
    torch.testing.assert_close(
        single, network.double()(x), rtol=0, atol=2e-5 if degree == 2 else 1e-5
    )


def test_a_function_for_g_is_summed_in_full_precision_under_autocast():
    layer, x = made(lambda u: u * u.abs(), num_centers=12)
    layer.requires_grad_(False).float().coefficients.mul_(100)
    y = functional.edge_activation(x.float(), layer.centers, layer.coefficients, green=layer.green)
    layer.weight.zero_(), layer.bias.zero_()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(layer(x.float()).float(), y)


def test_networks_without_splines_are_refused():
    with pytest.raises(KindError, match="grid, base_weight"):
        nn.KAN.from_efficient_kan({"weight": torch.zeros(2, 2)})
    with pytest.raises(KindError, match=r"symbolic_fun\.0\.mask"):
        nn.KAN.from_pykan({"symbolic_fun.0.mask": torch.ones(2, 2)})


def test_a_network_composes_layers():
    torch.manual_seed(0)
    network = nn.KAN([2, 5, 1], 6, green="cubic")
    x = torch.randn(300, 2)
    first, second = network.layers
    torch.testing.assert_close(network(x), second(first(x)))
    assert network.penalty().item() == pytest.approx(
        (first.penalty() + second.penalty()).item(), rel=1e-5
    )
    y = network(x)
    network.refine(12)
    torch.testing.assert_close(network(x), y, rtol=1e-4, atol=1e-4)
    assert network.fit_grid(x) < 0.1
    with pytest.raises(ArgumentError, match="two numbers"):
        nn.KAN([3])


@looped("green", ["abs", "cubic", "gaussian"])
def test_a_network_that_trains_values_keeps_its_functions_on_a_grid_of_quantiles(green):
    """And gives them to another network by its state."""
    torch.manual_seed(0)
    options = {"init": torch.tanh, "bandwidth": 0.4, "dtype": torch.float64}
    network = nn.KAN([2, 3, 1], 30, green, **options)
    x = torch.randn(2000, 2).double() * 0.7
    y = network(x).detach()
    network.fit_grid(x)
    assert (network(x) - y).abs().mean() < 0.01
    other = nn.KAN([2, 3, 1], 30, green, **options)
    other.load_state_dict(network.state_dict())
    torch.testing.assert_close(other(x), network(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"limits": (1, 0)}, "lower one first"), ({"init": "ones"}, "random, zeros"),
     ({"green": "cosine"}, "abs, relu"), ({"base": "relu"}, "identity, silu"),
     ({"num_centers": 0}, "num_centers"), ({"bandwidth": -1.0, "green": "gaussian"}, "above 0")],
)  # fmt: skip
def test_options_are_checked(options, message):
    with pytest.raises(ArgumentError, match=message):
        nn.KernelLinear(2, 2, **options)


def test_inputs_are_checked():
    layer = nn.KernelLinear(3, 2)
    with pytest.raises(ShapeError, match=r"\(\.\.\., 3\)"):
        layer(torch.zeros(5, 4))
    assert layer(torch.zeros(2, 5, 3)).shape == (2, 5, 2)


@looped("green", ["abs", "cubic"])
def test_values_at_the_centers_are_the_parameters_on_request(green):
    layer, x = made(green)
    y = layer(x).detach()
    layer.train_values()
    torch.testing.assert_close(layer(x), y)
    values = layer.values
    expansions = layer.contributions(layer.centers.T.contiguous())  # (K, I, J)
    linear = layer.centers.T[..., None] * layer.weight.T
    torch.testing.assert_close(values.permute(2, 0, 1), expansions - linear, rtol=0, atol=1e-9)
    layer.refine(11)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias", "values"]
    other = pickle.loads(pickle.dumps(layer))
    torch.testing.assert_close(other(x), layer(x))
    again = made(green)[0].train_values()
    again.bandwidth = layer.bandwidth
    again.load_state_dict(layer.state_dict())
    torch.testing.assert_close(again(x), layer(x))
    torch.testing.assert_close(layer(x), y, rtol=1e-7, atol=1e-7)
    layer.prune(0.1)
    before = layer(x).detach()
    layer.train_values(False)
    assert layer.coefficients.requires_grad
    assert "values" not in dict(layer.named_parameters())
    torch.testing.assert_close(layer(x), before)


def test_values_must_determine_the_coefficients():
    for options in (
        {"green": "relu"},
        {"green": "gaussian"},
        {"learn_centers": True},
        {"num_centers": 1},
    ):
        with pytest.raises(KindError, match="fixed centers"):
            made(**options)[0].train_values()


def test_a_network_learns_a_formula():
    """exp(sin(pi x) + y^2), the first one of Liu et al., 2024, figure 2."""
    torch.manual_seed(0)
    x = torch.rand(300, 2).double() * 2 - 1
    y = torch.exp(torch.sin(torch.pi * x[:, :1]) + x[:, 1:].square())
    network = nn.KAN([2, 3, 1], 9, "cubic", (-1, 1), dtype=torch.float64)

    def trained(network):
        optimizer = torch.optim.LBFGS(
            network.parameters(), max_iter=60, line_search_fn="strong_wolfe", history_size=30
        )

        def loss():
            optimizer.zero_grad()
            value = (network(x) - y).square().mean()
            value.backward()
            return value

        optimizer.step(loss)
        return loss().detach().sqrt().item() / y.std().item()

    on_coefficients = trained(copy.deepcopy(network).train_values(False))
    on_values = trained(network)
    assert on_values < 0.02
    assert on_values < on_coefficients / 2


@pytest.mark.parametrize(
    "cell", ["RKMLSTM", "RKMCIFG", "CNN", "NgramLSTM", "RKM", "LinearKernelRNN"]
)
def test_a_kernel_machine_takes_an_edge_layer_in_place_of_its_filters_and_streams(cell):
    options = {"num_layers": 2, "bidirectional": True, "filter_length": 3, "dilation": 2}
    make, matrix = getattr(nn, cell), partial(torch.nn.Linear, bias=False)
    torch.manual_seed(0)
    plain = make(3, 4, batch_first=True, **options).double()
    layer = make(3, 4, batch_first=True, input_layer=matrix, **options).double()
    state = plain.state_dict()
    for name in [name for name in state if name.startswith("weight_ih_l")]:
        state[name.replace("weight_ih", "input_layer") + ".weight"] = state.pop(name)
    layer.load_state_dict(state)
    x, lengths = torch.randn(5, 9, 3).double(), torch.tensor([9, 7, 3, 2, 1])
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    for call in (x, packed):
        output, of_plain = (run(call)[0] for run in (layer, plain))
        if isinstance(output, PackedSequence):
            output, of_plain = output.data, of_plain.data
        torch.testing.assert_close(output, of_plain)
    edges = make(3, 4, input_layer=nn.KernelLinear, filter_length=3, batch_first=True).double()
    whole, _ = edges(x)
    first, carried = edges(x[:, :4])
    torch.testing.assert_close(torch.cat((first, edges(x[:, 4:], carried)[0]), dim=1), whole)
    whole.square().sum().backward()
    assert edges.input_layer_l0.coefficients.grad.abs().sum() > 0
    with pytest.raises(KindError, match="input_layer"):
        edges.filters()
    assert not hasattr(edges, "kernel")


@pytest.mark.parametrize(
    "options",
    [
        {"filters": "wavelet", "filter_length": 5}, {"filter_length": {1: 2, 3: 2}},
        {"input_layer": torch.nn.Linear(3, 16)}, {"input_layer": "edges"}, {"q": "gaussian"},
    ],
    ids=str,
)  # fmt: skip
def test_an_edge_layer_replaces_dense_filters_of_one_length_alone(options):
    make = nn.RKM if "q" in options else nn.CNN
    with pytest.raises(ArgumentError, match="input_layer"):
        make(3, 4, **{"input_layer": nn.KernelLinear} | options)


@looped("learned", [False, True])
def test_coefficients_that_are_pruned_by_torch_are_not_overwritten(learned):
    layer, x = made(learn_centers=learned)
    prune.l1_unstructured(layer, "values" if layer.trains_values else "coefficients", amount=0.5)
    before = layer(x)
    for change in (lambda: layer.refine(30), lambda: layer.fit_grid(x), lambda: layer.prune(0.5)):
        with pytest.raises(KindError, match="is computed by a parametrization or a pruning mask"):
            change()
    torch.testing.assert_close(layer(x), before, rtol=0, atol=0)
