"""The table of docs/layers.md says what is so."""

import pytest
import torch
from make_layers import PAGE, PLACE
from pages import layers
from pages.layers import CHECKS, LAYERS, MODELS, REASONS, layer_table, missing_package, works
from torch_geometric.nn.models.basic_gnn import BasicGNN

HEADS = ("layer", *CHECKS, "CUDA graph", "why not")
LINES = PLACE.search(PAGE.read_text())[0].splitlines()[3:-1]
CELLS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LINES]
ROWS = {cells[0].strip("`"): dict(zip(HEADS, cells, strict=True)) for cells in CELLS}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_every_layer_of_pyg_has_a_row():
    assert list(ROWS) == list(LAYERS)
    assert {kind.__name__ for kind in BasicGNN.__subclasses__()} <= set(MODELS)


@pytest.mark.parametrize("name", LAYERS)
def test_a_row_says_what_is_so(name):
    row = ROWS[name]
    if row["inserted"] == "-":
        if not missing_package(name):
            pytest.skip("its package is installed here")
        return
    for column in ("inserted", "gradients", "state_dict"):
        if row[column] != "-":
            assert works(CHECKS[column], name) == (row[column] == "yes"), column


@pytest.mark.parametrize("name", ["GATConv", "HGTConv", "PNAConv", "GIN", "HypergraphConv"])
def test_fit_trains_what_it_is_said_to_train(name):
    assert works(CHECKS["fit"], name) == (ROWS[name]["fit"] == "yes")


@pytest.mark.slow
def test_the_table_is_the_one_that_is_computed():
    assert layer_table().markdown().splitlines()[2:] == LINES


def test_whatever_does_not_work_has_a_reason():
    for name, row in ROWS.items():
        if "no" in row.values() or "-" in row.values():
            assert row["why not"], name
    assert set(REASONS) <= set(ROWS)


def test_the_column_of_the_gpu_comes_from_its_record(tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "RECORDS", tmp_path)
    names = ("GCNConv", "SAGEConv", "GATConv", "TAGConv")
    assert {row[-2] for row in layer_table(names).rows} == {"not measured"}
    head = "layer,plain,plain: error,with gates,with gates: error"
    lines = [
        "GCNConv,yes,,yes,",
        "SAGEConv,no,bad,no,bad",
        "GATConv,yes,,no,RuntimeError: index_copy_",
    ]
    (tmp_path / "cuda_graphs-a-GPU.csv").write_text("\n".join([head, *lines]))
    found = {row[0].strip("`"): tuple(row[-2:]) for row in layer_table(names).rows}
    assert found == {
        "GCNConv": ("yes", ""),
        "SAGEConv": ("no", "CUDA graph: bad (without gates neither)"),
        "GATConv": ("no", f"CUDA graph: {layers.ERRORS['index_copy_']}"),
        "TAGConv": ("not measured", ""),
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gates_can_be_recorded_as_a_cuda_graph():
    device = torch.device("cuda")
    layers.check_recording(lambda: layers.insert_reweighting(layers.example("GraphSAGE")), device)
