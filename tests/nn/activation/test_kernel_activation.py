"""The learned activation: initialization, learning, compacting, export, errors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.utils import parametrize, prune

from looped import looped
from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn import KernelActivation, activation_groups

GRID = torch.linspace(-4, 4, 801, dtype=torch.float64)[:, None]


def make(features=1, *args, **options):
    torch.manual_seed(0)
    return KernelActivation(features, *args, dtype=torch.float64, **options)


def change(activation, function):
    return (activation(GRID) - function(GRID)).abs().max().item()


@pytest.mark.parametrize("green", ["abs", "relu"])
@pytest.mark.parametrize(
    ("init", "function"), [("relu", torch.relu), ("identity", lambda a: a)], ids=["relu", "line"]
)
def test_initial_functions_with_a_corner_at_0_are_exact(green, init, function):
    # the ridge of the fit is 1e-13 of the largest eigenvalue
    activation = make(2, 20, green, init=init)
    assert (activation.line is None) == (green == init)
    x = torch.cat((GRID, 25 * GRID)).expand(-1, 2)  # errors of all coefficients are slopes beyond
    torch.testing.assert_close(activation(x), function(x), rtol=0, atol=1e-8)


class _Scaled:
    __hash__ = None  # type: ignore[assignment]  # as of a dataclass

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def test_an_initial_function_needs_no_hash():
    assert change(make(1, 20, init=_Scaled()), lambda x: 2 * x) < 1e-6


@pytest.mark.parametrize("green", ["abs", "relu", "gaussian", "cubic"])
def test_the_error_of_a_smooth_initial_function_decreases_with_more_centers(green):
    gaps = [change(make(1, k, green, init="tanh", linear_term=True), torch.tanh) for k in (10, 40)]
    # a straight line over h = 8 / 39 is off by h^2 / 8 max|f''| = 0.004 at most
    assert gaps[1] < 0.004
    assert gaps[1] < gaps[0]


def test_a_callable_initial_function_is_fitted():
    activation = make(2, 60, init=torch.sin, limits=(0.0, 3.0), linear_term=True)
    x = torch.linspace(0, 3, 50, dtype=torch.float64)[:, None].expand(-1, 2)
    torch.testing.assert_close(activation(x), x.sin(), rtol=0, atol=5e-4)


INITIAL = {
    "tanh": torch.tanh, "relu": torch.relu, "identity": lambda a: a, "GELU": torch.nn.GELU(),
    "sigmoid": torch.sigmoid, "SiLU": torch.nn.SiLU(), "Softplus": torch.nn.Softplus(),
}  # fmt: skip


@pytest.mark.parametrize("green", ["abs", "relu", "cubic"])
@looped("name", INITIAL)
def test_an_initial_function_is_followed_inside_and_beyond_the_range(green, name):
    function = INITIAL[name]
    activation = make(2, 20, green, init=name if name in ("tanh", "relu", "identity") else function)
    x = GRID.expand(-1, 2)
    assert (activation(x) - function(x)).abs().max() < 0.05  # a corner of "cubic" is round
    far = torch.tensor([[-12.0], [12.0]], dtype=torch.float64).expand(-1, 2)
    assert (activation(far) - function(far)).abs().max() < 0.6  # the slope of SiLU at 4 is 1.05


@pytest.mark.parametrize("green", ["abs", "relu", "cubic"])
@looped("unit", [1e-6, 1e6])
def test_an_initial_function_does_not_depend_on_the_unit_of_its_input(green, unit):
    plain = make(1, 21, green, init=torch.relu)
    scaled = make(1, 21, green, (-4 * unit, 4 * unit), init=torch.relu)
    torch.testing.assert_close(scaled(GRID * unit) / unit, plain(GRID), rtol=0, atol=1e-6)


def test_a_line_that_is_refused_by_name_is_not_added():
    assert make(1, init="relu", linear_term=False).line is None


def doubled(activation):
    class Doubled(torch.nn.Module):
        def forward(self, x):
            return 2 * x

    parametrize.register_parametrization(activation, "coefficients", Doubled())


def pruned(activation):
    prune.l1_unstructured(activation, "coefficients", amount=0.5)


@looped("wrap", [doubled, pruned])
def test_coefficients_that_torch_computes_are_not_overwritten_but_trained(wrap):
    activation = make(3, init="tanh")
    wrap(activation)
    before = activation(GRID.expand(-1, 3))
    for change_it in (lambda: activation.compact(0.1), lambda: activation.fit(torch.tanh)):
        with pytest.raises(KindError, match="coefficients is computed by a parametrization or a"):
            change_it()
    torch.testing.assert_close(activation(GRID.expand(-1, 3)), before, rtol=0, atol=0)
    _, shapes = activation_groups(torch.nn.Sequential(torch.nn.Linear(3, 3), activation))
    assert all(isinstance(p, torch.nn.Parameter) for p in shapes["params"])
    assert {id(p) for p in shapes["params"]} == {id(p) for p in activation.parameters()}


def test_a_compact_state_is_loaded_into_a_layer_of_more_centers():
    compact, other = make(3, 40, init="tanh"), make(3, 40, init="tanh")
    compact.compact(0.01)
    optimizer = torch.optim.Adam(other.parameters())
    other(GRID.expand(-1, 3)).sum().backward()
    optimizer.step()
    other.load_state_dict(compact.state_dict())
    x = GRID.expand(-1, 3)
    torch.testing.assert_close(other(x), compact(x), rtol=0, atol=0)
    other(x).sum().backward()
    optimizer.step()
    before = make(2, 40, init="tanh")
    with pytest.raises(RuntimeError, match="size mismatch"):  # and nothing is lost
        before.load_state_dict(compact.state_dict())
    assert before.num_centers == 40
    assert before.coefficients.any()


def test_random_and_zeros_match_the_authors_code():
    activation = make(50, 40, init="zeros")
    assert (activation.coefficients == 0).all()
    assert activation.centers.abs().max() <= 2
    assert (
        0.8 < activation.centers.std() < 0.95
    )  # a normal truncated at 2 has standard deviation 0.88
    assert make(50, 40, init="random").coefficients.abs().max() > 1.5


def test_channels_of_images():
    activation = make(3, 8, dim=1)
    images = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    found = activation(images)
    assert found.shape == images.shape
    last = KernelActivation.forward(copy.deepcopy(activation), images)
    torch.testing.assert_close(found, last)
    moved = make(3, 8)
    torch.testing.assert_close(found.movedim(1, -1), moved(images.movedim(1, -1)))


def test_one_function_for_every_entry_of_any_shape():
    activation = make(1, 8)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(activation(x)[1, 2, 3], activation(x[1, 2, 3]))


@pytest.mark.parametrize("green", ["abs", "relu", "gaussian", "cubic"])
@pytest.mark.parametrize("tolerance", [0.0, 1e-3, 0.1])
def test_the_change_by_compacting_is_at_most_the_returned_value_and_the_tolerance(green, tolerance):
    activation = make(3, 25, green, init="tanh", linear_term=True)
    with torch.no_grad():  # nearly straight corners
        activation.coefficients.add_(1e-5 * torch.randn(3, 25, dtype=torch.float64))
    x = GRID.expand(-1, 3)
    before, count = activation(x), activation.num_centers
    told = activation.compact(tolerance)
    found = (activation(x) - before).abs().max().item()
    assert found <= told + 1e-12 <= tolerance + 2e-12
    assert activation.centers.shape == activation.coefficients.shape == (3, activation.num_centers)
    if green in ("abs", "relu") and tolerance == 0.1:
        assert activation.num_centers < count / 2


@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.2])
def test_the_total_change_of_dropped_corners_is_within_the_tolerance(tolerance):
    """Dropping neighbors one after another could accumulate errors."""
    activation = make(1, 80, init=torch.sin, linear_term=True)
    before = activation(GRID)
    activation.compact(tolerance)
    assert (activation(GRID) - before).abs().max() <= tolerance
    assert activation.num_centers < 40  # changes above the tolerance are undone


def test_small_terms_that_add_up_are_kept():
    activation = make(1, 41, "gaussian", init="zeros")
    with torch.no_grad():
        activation.centers.zero_()
        activation.centers[0] += 1e-9 * torch.arange(41)
        activation.coefficients.fill_(0.01)
    before = activation(GRID)
    assert activation.compact(0.05) <= 0.05
    assert activation.num_centers in (36, 37)  # four or five of 0.01 are 0.05
    assert (activation(GRID) - before).abs().max() > 0.03


@pytest.mark.parametrize("green", ["abs", "relu", "gaussian", "cubic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_centers_are_merged_at_tolerance_0(green, dtype):
    activation = KernelActivation(2, 30, green, init="random", dtype=dtype)
    with torch.no_grad():
        activation.centers.copy_(torch.tensor([-1.0, 0.3, 2.0]).repeat(2, 10))
    before = activation(GRID.to(dtype).expand(-1, 2))
    assert activation.compact(0.0) < 0.2 * torch.finfo(dtype).eps ** 0.5
    assert activation.num_centers == 3
    torch.testing.assert_close(activation(GRID.to(dtype).expand(-1, 2)), before)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("steps", [0, 2])
def test_an_optimizer_trains_the_parameters_after_compacting(kind, steps):
    activation = KernelActivation(3, 40, init="tanh")
    optimizer = kind(activation.parameters(), 0.1)

    def step() -> None:
        optimizer.zero_grad()
        activation(torch.randn(8, 3)).square().sum().backward()
        optimizer.step()

    for _ in range(steps):
        step()
    parameters = list(activation.parameters())
    activation.compact(0.05)
    assert activation.num_centers < 40
    assert [a is b for a, b in zip(activation.parameters(), parameters, strict=True)] == [True] * 2
    before = activation.coefficients.detach().clone()
    step()
    step()
    assert not torch.equal(before, activation.coefficients)


def test_compacted_relu_has_only_its_corner_and_the_ends():
    activation = make(1, 21, init="relu")
    activation.compact(1e-6)
    assert activation.num_centers == 3
    assert 0.0 in activation.centers


@pytest.mark.parametrize("green", ["abs", "relu"])
@pytest.mark.parametrize("line", [False, True])
def test_conversion_to_piecewise_linear_gives_the_same_function(green, line):
    activation = make(3, 12, green, init="random", linear_term=line)
    with torch.no_grad():
        activation.centers[1, :6] = activation.centers[1, 6:]  # fewer corners in one feature
        if line:
            activation.line.normal_()
    x = 5 * torch.randn(100, 3, dtype=torch.float64)
    exported = activation.to_piecewise_linear()
    torch.testing.assert_close(exported(x), activation(x))
    program = torch.export.export(exported, (x,))
    torch.testing.assert_close(program.module()(x), activation(x))
    with pytest.raises(KindError, match="'cubic'; expected one of abs, relu"):
        make(1, 4, "cubic").to_piecewise_linear()


@pytest.mark.parametrize(("options", "message"), [
    ({"num_centers": 0}, "num_centers is 0; expected a positive integer"),
    ({"num_features": 2.0}, "num_features is 2.0"),
    ({"limits": (1.0, -1.0)}, r"limits is \(1.0, -1.0\); expected two finite numbers, the lower"),
    ({"limits": (0.0, float("nan"))}, "limits is"),
    ({"init": "swish"}, "init is 'swish'; expected one of random, zeros, relu"),
    ({"green": "spline"}, "green is 'spline'"),
    ({"bandwidth": 0.0}, "bandwidth is 0.0"),
    ({"limits": 4}, "limits is 4; expected two finite numbers, the lower one first"),
    ({"init": lambda a: 1 / (a - a)}, "a function that is finite on"),
])  # fmt: skip
def test_options_out_of_range_are_rejected(options, message):
    with pytest.raises(ArgumentError, match=message):
        KernelActivation(**{"num_features": 2, **options})


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: KernelActivation(1, init=lambda a: a.sum()), ShapeError, r"init\(a\) has shape \(\)"),
    (lambda: make(1).compact(-1), ArgumentError, "tolerance is -1; expected 0 or more"),
    (lambda: make(2, normalize=True)(torch.zeros(1, 2).double()), ArgumentError,
     r"batch is 1; expected 2 or more .* Use eval\(\)"),
    *((lambda shape=shape: KernelActivation(4)(torch.zeros(shape)), ShapeError,
       "expected 4 features in dimension -1") for shape in ((5, 3), (2,), ())),
])  # fmt: skip
def test_invalid_arguments_and_inputs_are_rejected(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_plot_frames_functions_with_slopes_above_one():
    activation = make(7, 40, init=lambda a: 0.9 * a.sin())
    with torch.no_grad():
        activation.coefficients[3] *= 2
        activation.line[3] *= 2
    figure = activation.plot((-2.0, 2.0), columns=3)
    drawn = [axes for axes in figure.axes if axes.lines]
    assert len(figure.axes) == 9
    assert len(drawn) == 7
    dashed = [axes.spines["left"].get_linestyle() != "solid" for axes in drawn]
    assert dashed == [i == 3 for i in range(7)]
    x, y = drawn[3].lines[0].get_data()
    torch.testing.assert_close(torch.tensor(y), 1.8 * torch.tensor(x).sin(), rtol=0, atol=0.05)
    for wrong in ({"span": (1.0, 1.0)}, {"columns": 0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            activation.plot(**wrong)
