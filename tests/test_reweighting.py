import copy
import math
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from drgcn import DimensionalReweighting, fold
from drgcn.errors import InputError

from .reference import dr_block, layouts

NODES, D = 9, 6
BATCH = torch.tensor([0, 0, 0, 2, 2, 2, 2, 3, 3])  # graph 1 has no nodes
WEIGHT = torch.tensor([1.0, 0.5, 2.0, 0.0, 3.0, 1.0, 0.25, 1.0, 4.0], dtype=torch.float64)
EVERY_LAYOUT = pytest.mark.parametrize("layout", layouts.ALL)
SPARSE_LAYOUTS = pytest.mark.parametrize("layout", layouts.SPARSE)


@pytest.fixture
def x():
    return features(NODES, D)


@pytest.fixture
def block():
    return random_block(D)


def features(nodes, d, seed=0, dtype=torch.float64):
    """Random features, a third of them zero."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, d, generator=generator, dtype=torch.float64)
    return (x * (torch.rand(nodes, d, generator=generator) < 2 / 3)).to(dtype)


def random_block(d, seed=0, dtype=torch.float64, **options):
    """A block with biases that are not zero, so that every parameter matters."""
    generator = torch.Generator().manual_seed(seed)
    block = DimensionalReweighting(d, dtype=dtype, **options)
    for parameter in block.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).to(dtype)
    return block


def reference_vector(block, x, weight=None):
    names = ("squeeze_weight", "squeeze_bias", "excite_weight", "excite_bias")
    parameters = [getattr(block, name).detach().numpy() for name in names]
    w = None if weight is None else weight.numpy()
    return torch.from_numpy(dr_block.vector(x.numpy(), *parameters, w))


def gradients(out, *tensors):
    """Gradients of a loss in which every entry of ``out`` has a coefficient of its own."""
    factors = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)
    return torch.autograd.grad((out * factors).sum(), tensors)


# The formula


def test_reweighting_with_unit_gate_is_identity(x):
    assert torch.equal(DimensionalReweighting(D, gate=torch.ones_like)(x), x)


def test_vector_equals_the_paper(x, block):
    torch.testing.assert_close(block.vector(x), reference_vector(block, x), rtol=1e-12, atol=1e-12)


def test_output_equals_the_paper(x, block):
    expected = dr_block.reweighted(x.numpy(), reference_vector(block, x).numpy())
    torch.testing.assert_close(block(x), torch.from_numpy(expected), rtol=1e-12, atol=1e-12)


def test_vector_with_node_weights_equals_the_paper(x, block):
    expected = reference_vector(block, x, WEIGHT)
    torch.testing.assert_close(block.vector(x, WEIGHT), expected, rtol=1e-12, atol=1e-12)


def test_vector_of_a_given_mean_is_that_of_the_features(x, block):
    torch.testing.assert_close(block.from_mean(x.mean(0)), block.vector(x))


def test_vector_does_not_depend_on_the_order_of_nodes(x, block):
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(block.vector(x[order]), block.vector(x))


def test_output_follows_the_order_of_nodes(x, block):
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(block(x[order]), block(x)[order])


def test_custom_activation_and_gate_take_the_place_of_elu_and_sigmoid(x):
    block = random_block(D, act=torch.tanh, gate="softplus")
    hidden = torch.tanh(block.squeeze_weight @ x.mean(0) + block.squeeze_bias)
    expected = torch.nn.functional.softplus(block.excite_weight @ hidden + block.excite_bias)
    torch.testing.assert_close(block.vector(x), expected)


def test_without_bias_equals_zero_biases(x):
    plain = random_block(D, bias=False)
    biased = DimensionalReweighting(D, dtype=torch.float64)
    biased.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(plain(x), biased(x))


def test_without_bias_there_are_two_parameters():
    names = [name for name, _ in DimensionalReweighting(D, bias=False).named_parameters()]
    assert names == ["squeeze_weight", "excite_weight"]


# Widths and initial values


@pytest.mark.parametrize(
    ("d", "hidden", "count"),
    [
        (302, 17, 10_587),
        (768, 28, 43_804),
        (500, 22, 22_522),
        (602, 25, 30_727),
        (1433, 38, 110_379),
        (3703, 61, 455_530),
        (50, 7, 757),
        (16, 4, 148),
        (64, 8, 1_096),
        (128, 11, 2_955),
        (1024, 32, 66_592),
    ],
)
def test_widths_and_parameter_counts_are_those_of_the_paper(d, hidden, count):
    block = DimensionalReweighting(d)
    assert block.hidden_channels == hidden
    assert sum(p.numel() for p in block.parameters()) == 2 * d * hidden + d + hidden == count


@pytest.mark.parametrize("d", [1, 2, 3, 6, 7, 12, 13])
def test_default_width_is_the_integer_nearest_to_the_root(d):
    assert DimensionalReweighting(d).hidden_channels == dr_block.width(d)


def test_given_width_is_taken():
    assert DimensionalReweighting(16, 3).squeeze_weight.shape == (3, 16)


def test_same_seed_resets_to_the_same_parameters():
    torch.manual_seed(3)
    block = DimensionalReweighting(D)
    before = {name: value.clone() for name, value in block.state_dict().items()}
    for parameter in block.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    torch.manual_seed(3)
    block.reset_parameters()
    assert all(torch.equal(before[name], value) for name, value in block.state_dict().items())


@pytest.mark.parametrize("name", ["squeeze_weight", "excite_weight"])
def test_weights_start_uniform_within_the_glorot_bound(name):
    torch.manual_seed(0)
    weight = getattr(DimensionalReweighting(100), name)
    bound = math.sqrt(6 / (100 + 10))
    assert weight.abs().max() <= bound
    torch.testing.assert_close(weight.std().item(), bound / math.sqrt(3), rtol=0.05, atol=0)


def test_biases_start_at_zero():
    block = DimensionalReweighting(D)
    assert not block.squeeze_bias.any()
    assert not block.excite_bias.any()


def test_vector_starts_near_one_half_on_standardised_features():
    torch.manual_seed(0)
    x = torch.randn(1000, 50, generator=torch.Generator().manual_seed(0))
    s = DimensionalReweighting(50).vector(x)
    assert (s - 0.5).abs().max() < 0.05


def test_repr_shows_the_widths():
    assert repr(DimensionalReweighting(602)) == "DimensionalReweighting(602, hidden_channels=25)"


# Few nodes, many graphs


def test_one_node_is_its_own_mean(x, block):
    torch.testing.assert_close(block.vector(x[:1]), block.from_mean(x[0]))


def test_no_nodes_give_a_finite_vector(block):
    assert block.vector(torch.empty(0, D, dtype=torch.float64)).isfinite().all()


def test_no_nodes_give_no_rows(block):
    assert block(torch.empty(0, D, dtype=torch.float64)).shape == (0, D)


@pytest.mark.parametrize("batch", [None, torch.empty(0, dtype=torch.long)])
def test_no_nodes_give_finite_gradients(block, batch):
    out = block(torch.empty(0, D, dtype=torch.float64), batch=batch, batch_size=2)
    for gradient in gradients(out, *block.parameters()):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_batch_of_graphs_equals_a_loop_over_graphs(x, block, weight):
    out = block(x, weight, BATCH)
    for graph in (0, 2, 3):
        part = graph == BATCH
        alone = block(x[part], None if weight is None else weight[part])
        torch.testing.assert_close(out[part], alone)


def test_empty_graph_in_the_middle_has_the_vector_of_the_zero_mean(x, block):
    zero = block.from_mean(torch.zeros(D, dtype=torch.float64))
    torch.testing.assert_close(block.vector(x, batch=BATCH)[1], zero)


def test_batch_size_adds_vectors_for_graphs_that_never_appear(x, block):
    vectors = block.vector(x, batch=BATCH, batch_size=6)
    assert vectors.shape == (6, D)
    torch.testing.assert_close(vectors[:4], block.vector(x, batch=BATCH))


def test_one_graph_in_a_batch_equals_no_batch(x, block):
    torch.testing.assert_close(block(x, batch=torch.zeros(NODES, dtype=torch.long)), block(x))


# Layouts and data types


@pytest.mark.parametrize("batch", [None, BATCH])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_sparse_features_equal_dense_features(x, block, batch, weight):
    for layout in layouts.SPARSE:
        out = block(layout(x), weight, batch)
        torch.testing.assert_close(out.to_dense(), block(x, weight, batch))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_layout_and_dtype_are_kept(x, dtype):
    for layout in layouts.ALL:
        given = layout(x.to(dtype))
        out = DimensionalReweighting(D)(given)
        assert (out.layout, out.dtype, out.shape) == (given.layout, dtype, given.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_block_of_any_dtype_keeps_that_of_the_features(x, dtype):
    block = random_block(D, dtype=dtype)
    assert block(x.float()).dtype == torch.float32


def test_bfloat16_agrees_with_float64_to_its_precision(x, block):
    short = random_block(D, dtype=torch.bfloat16)(x.bfloat16())
    torch.testing.assert_close(short.double(), block(x), rtol=0.05, atol=0.05)


def test_autocast_keeps_the_dtype_of_the_features(x):
    block = random_block(D, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = block(x.float())
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, block(x.float()), rtol=0.02, atol=0.02)


def test_features_of_integers_are_not_wiped_out(block):
    counts = torch.tensor([[1, 0, 2, 0, 0, 3]] * 4)
    torch.testing.assert_close(block(counts).double(), block(counts.double()))


# Gradients


def test_gradients_of_parameters_are_finite_and_not_zero(x, block):
    for layout in layouts.ALL:
        out = block(layout(x)).to_dense()
        for gradient in gradients(out, *block.parameters()):
            assert gradient.isfinite().all()
            assert gradient.any()


@pytest.mark.parametrize("batch", [None, BATCH])
def test_gradients_of_parameters_are_the_same_in_every_layout(x, block, batch):
    for layout in layouts.SPARSE:
        expected = gradients(block(x, WEIGHT, batch), *block.parameters())
        found = gradients(block(layout(x), WEIGHT, batch).to_dense(), *block.parameters())
        torch.testing.assert_close(found, expected)


def sparse_from_values(layout, position, values):
    if layout is layouts.csr:
        counts = torch.bincount(position[0], minlength=NODES).cumsum(0)
        crow = torch.cat([torch.zeros(1, dtype=torch.long), counts])
        return torch.sparse_csr_tensor(crow, position[1], values, (NODES, D))
    sparse = torch.sparse_coo_tensor(position, values, (NODES, D))
    return sparse.coalesce() if layout is layouts.coo else sparse


@pytest.mark.parametrize(
    "layout",
    [
        layouts.csr,
        layouts.coo,
        layouts.uncoalesced_coo,
    ],
)
def test_gradients_of_sparse_values_are_those_of_dense_entries(x, block, layout):
    position = x.nonzero().t()
    entries = x[tuple(position)].requires_grad_()
    by_dense = torch.zeros_like(x).index_put(tuple(position), entries)
    expected = gradients(block(by_dense), entries)
    by_sparse = sparse_from_values(layout, position, entries)
    out = block(by_sparse).to_dense()
    torch.testing.assert_close(gradients(out, entries), expected)


@pytest.mark.parametrize("batch", [None, BATCH])
def test_gradients_equal_finite_differences(x, block, batch):
    parameters = dict(block.named_parameters())

    def output(x, weight, *values):
        state = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(block, state, (x, weight, batch))

    weight = WEIGHT + 0.5
    inputs = (x.requires_grad_(), weight.requires_grad_(), *parameters.values())
    assert torch.autograd.gradcheck(output, inputs)


# Transformations of the program


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_block_equals_the_block_in_one_graph(x, block, backend):
    if backend == "inductor" and not any(map(shutil.which, ("gcc", "cc", "g++", "clang"))):
        pytest.skip("torch.compile needs a C compiler")
    compiled = torch.compile(block, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x), block(x))


def test_exported_block_takes_any_number_of_nodes(x, block):
    program = torch.export.export(block, (x,), dynamic_shapes=({0: torch.export.Dim("nodes")},))
    for nodes in (2, NODES, 23):
        other = features(nodes, D, seed=5)
        torch.testing.assert_close(program.module()(other), block(other))


def test_vmap_over_inputs_equals_a_loop(block):
    stack = torch.stack([features(NODES, D, seed) for seed in range(3)])
    expected = torch.stack([block(x, WEIGHT) for x in stack])
    torch.testing.assert_close(torch.vmap(lambda x: block(x, WEIGHT))(stack), expected)


def test_vmap_over_inputs_with_a_batch_equals_a_loop(block):
    stack = torch.stack([features(NODES, D, seed) for seed in range(3)])
    expected = torch.stack([block(x, batch=BATCH) for x in stack])
    found = torch.vmap(lambda x: block(x, batch=BATCH, batch_size=4))(stack)
    torch.testing.assert_close(found, expected)


@EVERY_LAYOUT
def test_vmap_over_parameters_equals_a_loop(x, layout):
    blocks = [random_block(D, seed) for seed in range(3)]
    parameters, _ = torch.func.stack_module_state(blocks)

    class Vector(torch.nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return self.block.vector(x)

    def vector(parameters):
        state = {f"block.{name}": value for name, value in parameters.items()}
        return torch.func.functional_call(Vector(blocks[0]), state, (layout(x),))

    expected = torch.stack([block.vector(x) for block in blocks])
    torch.testing.assert_close(torch.vmap(vector)(parameters), expected)


def test_vmap_over_parameters_has_the_gradients_of_a_loop(x):
    blocks = [random_block(D, seed) for seed in range(3)]
    parameters, _ = torch.func.stack_module_state(blocks)
    out = torch.vmap(lambda p: torch.func.functional_call(blocks[0], p, (x,)))(parameters)
    found = torch.autograd.grad(out.square().sum(), parameters["squeeze_weight"])[0]
    loop = [torch.autograd.grad(b(x).square().sum(), b.squeeze_weight)[0] for b in blocks]
    torch.testing.assert_close(found, torch.stack(loop))


# Storage and lazy widths


def test_parameters_survive_safetensors(x, block, tmp_path):
    save_file(block.state_dict(), tmp_path / "block.safetensors")
    other = random_block(D, seed=1)
    other.load_state_dict(load_file(tmp_path / "block.safetensors"))
    assert torch.equal(other(x), block(x))


def test_lazy_block_takes_its_width_from_the_first_input(x):
    lazy = DimensionalReweighting(-1)
    lazy(x)
    assert repr(lazy) == repr(DimensionalReweighting(D))


def test_lazy_block_starts_as_an_eager_one_does(x):
    torch.manual_seed(4)
    eager = DimensionalReweighting(D)
    lazy = DimensionalReweighting(-1)
    torch.manual_seed(4)
    assert torch.equal(lazy(x), eager(x))


def test_lazy_parameters_stay_the_same_objects(x):
    lazy = DimensionalReweighting(-1)
    before = list(lazy.parameters())
    lazy(x)
    assert all(a is b for a, b in zip(before, lazy.parameters(), strict=True))


def test_lazy_block_keeps_its_width_after_the_first_input(x):
    lazy = DimensionalReweighting(-1)
    lazy(x)
    with pytest.raises(ValueError, match=f"built for {D} feature dimensions; found 3"):
        lazy(x[:, :3])


def test_lazy_block_loads_a_state_dict(x, block):
    lazy = DimensionalReweighting(-1, dtype=torch.float64)
    lazy.load_state_dict(block.state_dict())
    assert torch.equal(lazy(x), block(x))


def test_lazy_block_takes_the_hidden_width_of_a_state_dict(x):
    wide = random_block(D, hidden_channels=5)
    lazy = DimensionalReweighting(-1, dtype=torch.float64)
    lazy.load_state_dict(wide.state_dict())
    assert torch.equal(lazy(x), wide(x))


def test_lazy_block_inside_a_model_loads_a_state_dict(x, block):
    lazy = torch.nn.Sequential(DimensionalReweighting(-1, dtype=torch.float64))
    lazy.load_state_dict(torch.nn.Sequential(block).state_dict())
    assert torch.equal(lazy(x), block(x))


def test_copy_of_a_lazy_block_loads_for_itself(x, block):
    lazy = DimensionalReweighting(-1, dtype=torch.float64)
    twin = copy.deepcopy(lazy)
    twin.load_state_dict(block.state_dict())
    assert torch.equal(twin(x), block(x))
    assert lazy.in_channels == -1


def test_copy_of_a_lazy_block_materialises_for_itself(x):
    lazy = DimensionalReweighting(-1)
    copy.deepcopy(lazy)(x)
    assert lazy.in_channels == -1


def test_reset_of_a_lazy_block_waits_for_the_width(x):
    lazy = DimensionalReweighting(-1)
    lazy.reset_parameters()
    assert lazy(x).shape == x.shape


def test_lazy_block_has_a_state_dict():
    assert DimensionalReweighting(-1).state_dict().keys() == random_block(D).state_dict().keys()


# Errors


@pytest.mark.parametrize("in_channels", [0, -2])
def test_width_below_one_is_refused(in_channels):
    with pytest.raises(ValueError, match=f"in_channels >= 1.*found {in_channels}"):
        DimensionalReweighting(in_channels)


def test_hidden_width_below_one_is_refused():
    with pytest.raises(ValueError, match="hidden_channels >= 1; found 0"):
        DimensionalReweighting(4, 0)


def test_other_widths_are_refused(x):
    for layout in layouts.ALL:
        with pytest.raises(ValueError, match=f"built for 7 feature dimensions; found {D}"):
            DimensionalReweighting(7)(layout(x))


@pytest.mark.parametrize("batch", [BATCH[:5], BATCH[:, None], BATCH.double(), BATCH > 1])
def test_a_batch_of_another_form_is_refused(block, x, batch):
    with pytest.raises(InputError, match="the graph of each of 9 nodes"):
        block(x, batch=batch)


def test_a_batch_of_any_whole_numbers_is_one():
    x, batch = features(100, 16, dtype=torch.float32), torch.arange(100) // 25
    block = random_block(16, dtype=torch.float32)
    assert torch.equal(block(x, batch=batch.int()), block(x, batch=batch))


@pytest.mark.parametrize("batch", [None, BATCH])
@pytest.mark.parametrize("weight", [WEIGHT[:1], WEIGHT[:, None]])
def test_weights_of_another_form_are_refused(block, x, weight, batch):
    with pytest.raises(InputError, match="one number for each of 9 nodes"):
        block(x, weight, batch)


def test_three_dimensional_input_is_refused(block):
    with pytest.raises(ValueError, match=r"\[nodes, d\]; found \(2, 3, 6\)"):
        block(torch.zeros(2, 3, D))


def test_unsupported_layouts_are_refused(x, block):
    with pytest.raises(ValueError, match=r"dense, COO or CSR.*sparse_csc"):
        block(x.to_sparse_csc())


# Folding


@pytest.mark.parametrize("dim", [0, -1, 1])
def test_folding_equals_scaling_the_features(x, block, dim):
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(D, 4, generator=generator, dtype=torch.float64)
    s = block.vector(x)
    folded = fold(weight, s, 0) if dim == 0 else fold(weight.t(), s, dim).t()
    torch.testing.assert_close(x @ folded, (x * s) @ weight, rtol=1e-12, atol=1e-12)


def test_folding_has_every_gradient_of_scaling_the_features(x, block):
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(D, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    x.requires_grad_()
    inputs = (x, weight, *block.parameters())
    folded = gradients(x @ fold(weight, block.vector(x), dim=0), *inputs)
    scaled = gradients(block(x) @ weight, *inputs)
    torch.testing.assert_close(folded, scaled, rtol=1e-12, atol=1e-12)


def test_folding_into_a_linear_layer_is_the_default(x, block):
    linear = torch.nn.Linear(D, 4, bias=False, dtype=torch.float64)
    folded = torch.nn.functional.linear(x, fold(linear.weight, block.vector(x)))
    torch.testing.assert_close(folded, linear(block(x)))


def test_folding_one_vector_per_graph_is_refused(x, block):
    with pytest.raises(ValueError, match="Scale the features instead of the weights"):
        fold(torch.zeros(4, D), block.vector(x, batch=BATCH))


def test_folding_another_width_is_refused():
    with pytest.raises(ValueError, match=r"width 6.*found shape \(5,\)"):
        fold(torch.zeros(4, 6), torch.zeros(5))


# Any shape


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(
    nodes=st.integers(0, 12),
    d=st.integers(1, 10),
    graphs=st.integers(1, 4),
    layout=st.sampled_from(layouts.ALL),
    seed=st.integers(0, 99),
)
def test_output_is_input_times_a_vector_between_zero_and_one(nodes, d, graphs, layout, seed):
    x = features(nodes, d, seed)
    block = random_block(d, seed)
    batch = torch.randint(graphs, (nodes,), generator=torch.Generator().manual_seed(seed))
    s = block.vector(layout(x), batch=batch, batch_size=graphs)
    assert s.shape == (graphs, d)
    assert ((s > 0) & (s < 1)).all()
    out = block(layout(x), batch=batch, batch_size=graphs)
    torch.testing.assert_close(out.to_dense(), x * s[batch])


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(nodes=st.integers(0, 8), d=st.integers(1, 8), seed=st.integers(0, 99))
def test_vector_equals_the_paper_for_any_shape(nodes, d, seed):
    x, block = features(nodes, d, seed), random_block(d, seed)
    np.testing.assert_allclose(
        block.vector(x).detach(), reference_vector(block, x), rtol=1e-12, atol=1e-12
    )
