"""Every convolution and basic model of PyG with gates in it: what works, and why not."""

from __future__ import annotations

import csv
import functools
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn.conv import __all__ as CONVOLUTIONS

from drgcn import fit, insert_reweighting, reweighting_blocks
from drgcn.reporting.tables import Table

MODELS = ("GCN", "GraphSAGE", "GIN", "GAT", "PNA", "EdgeCNN")
# All but the base class.
LAYERS = (*(name for name in CONVOLUTIONS if name != "MessagePassing"), *MODELS)
NODES, FEATURES, WIDTH, CLASSES = 12, 6, 4, 3
RECORDS = Path(__file__).parents[2] / "benchmarks" / "results"
_EDGE_TYPE = ("node", "to", "node")
_NO_PARAMETERS = "has no parameters to learn with, and is left alone"

# What cannot be seen from a table of yes and no.
REASONS = {
    **dict.fromkeys(
        ("SimpleConv", "APPNP", "WLConv", "WLConvContinuous", "LGConv"), _NO_PARAMETERS
    ),
    "DNAConv": "takes the outputs of all earlier layers at once; call the block on each of them",
}

# Parts of torch's messages, and what they mean for a recording.
ERRORS = {
    "value out of a tracing tensor": "what it does depends on values, which the host must read",
    "error during capture": "waits for the device in the middle of a pass",
    "index_copy_": "writes into a tensor that all seeds share, which torch.vmap cannot follow",
    "all tensors to be on the same device": "makes tensors on the CPU, wherever its input is",
}


def _edge_features(x: Tensor, edge_index: Tensor) -> Tensor:
    return (x[edge_index[0], :2] - x[edge_index[1], :2]).sigmoid()


def _mesh(x: Tensor) -> Tensor:
    """Four neighbours of every edge of a mesh."""
    places = torch.arange(4 * len(x), device=x.device)
    return torch.stack([places // 4, places % len(x)])


Call = Callable[[Any, Tensor, Tensor], Any]
_with_positions: Call = lambda conv, x, edges: conv(x, x[:, :3].detach(), edges)  # noqa: E731
_with_first_layer: Call = lambda conv, x, edges: conv(x, x.detach(), edges)  # noqa: E731
_with_edge_types: Call = lambda conv, x, edges: conv(x, edges, edges[0] % 2)  # noqa: E731
_without_edges: Call = lambda conv, x, _: conv(x)  # noqa: E731


def _with_edge_features(conv: Any, x: Tensor, edge_index: Tensor) -> Any:
    return conv(x, edge_index, edge_attr=_edge_features(x, edge_index))


def _by_type(conv: Any, x: Tensor, edge_index: Tensor) -> Any:
    return conv({"node": x}, {_EDGE_TYPE: edge_index})["node"]


def _with_normals(conv: Any, x: Tensor, edge_index: Tensor) -> Any:
    return conv(x, x[:, :3].detach(), F.normalize(x[:, 3:].detach()), edge_index)


def _with_all_types(conv: Any, x: Tensor, edge_index: Tensor) -> Any:
    node_types = torch.zeros_like(x[:, 0], dtype=torch.long)
    return conv(x, edge_index, node_types, edge_index[0] % 2, _edge_features(x, edge_index))


# Convolutions that are not made by two widths, in lines of one output width each.
_D = FEATURES
_TYPES = (["node"], [_EDGE_TYPE])
_MAKE: dict[str, Callable[[], Module]] = {
    "SimpleConv": pyg.SimpleConv,
    "APPNP": lambda: pyg.APPNP(2, 0.1),
    "LGConv": pyg.LGConv,
    "WLConv": pyg.WLConv,
    "WLConvContinuous": pyg.WLConvContinuous,
    "AGNNConv": pyg.AGNNConv,
    "ChebConv": lambda: pyg.ChebConv(_D, WIDTH, K=2),
    "GravNetConv": lambda: pyg.GravNetConv(_D, WIDTH, 2, 3, k=2),
    "GatedGraphConv": lambda: pyg.GatedGraphConv(8, num_layers=2),
    "FusedGATConv": lambda: pyg.FusedGATConv(_D, WIDTH, add_self_loops=False),
    "GINConv": lambda: pyg.GINConv(Linear(_D, WIDTH)),
    "GINEConv": lambda: pyg.GINEConv(Linear(_D, WIDTH), edge_dim=2),
    "SSGConv": lambda: pyg.SSGConv(_D, WIDTH, alpha=0.1),
    "RGCNConv": lambda: pyg.RGCNConv(_D, WIDTH, 2),
    "FastRGCNConv": lambda: pyg.FastRGCNConv(_D, WIDTH, 2),
    "CuGraphRGCNConv": lambda: pyg.CuGraphRGCNConv(_D, WIDTH, 2),
    "RGATConv": lambda: pyg.RGATConv(_D, WIDTH, 2),
    "SignedConv": lambda: pyg.SignedConv(_D, WIDTH, first_aggr=True),
    "DNAConv": lambda: pyg.DNAConv(_D),
    "PointNetConv": lambda: pyg.PointNetConv(Linear(_D + 3, WIDTH)),
    "GMMConv": lambda: pyg.GMMConv(_D, WIDTH, 2, 2),
    "SplineConv": lambda: pyg.SplineConv(_D, WIDTH, 2, 3),
    "NNConv": lambda: pyg.NNConv(_D, WIDTH, Linear(2, _D * WIDTH)),
    "CGConv": lambda: pyg.CGConv(_D, 2),
    "EdgeConv": lambda: pyg.EdgeConv(Linear(2 * _D, WIDTH)),
    "DynamicEdgeConv": lambda: pyg.DynamicEdgeConv(Linear(2 * _D, WIDTH), 2),
    "XConv": lambda: pyg.XConv(_D, WIDTH, 3, 2, 4),
    "PPFConv": lambda: pyg.PPFConv(Linear(_D + 4, WIDTH)),
    "PNAConv": lambda: pyg.PNAConv(_D, WIDTH, **_pna()),
    "GCN2Conv": lambda: pyg.GCN2Conv(_D, 0.1),
    "PANConv": lambda: pyg.PANConv(_D, WIDTH, 1),
    "FAConv": lambda: pyg.FAConv(_D),
    "EGConv": lambda: pyg.EGConv(_D, 8),
    "PDNConv": lambda: pyg.PDNConv(_D, WIDTH, 2, 4),
    "HGTConv": lambda: pyg.HGTConv(_D, WIDTH, _TYPES),
    "HANConv": lambda: pyg.HANConv(_D, WIDTH, _TYPES),
    "HeteroConv": lambda: pyg.HeteroConv({_EDGE_TYPE: pyg.SAGEConv(_D, WIDTH)}),
    "HEATConv": lambda: pyg.HEATConv(_D, WIDTH, 1, 2, 2, 2, 2),
    "PointGNNConv": lambda: pyg.PointGNNConv(
        Linear(_D, 3), Linear(_D + 3, WIDTH), Linear(WIDTH, _D)
    ),
    "GPSConv": lambda: pyg.GPSConv(_D, pyg.SAGEConv(_D, _D), heads=2),
    "AntiSymmetricConv": lambda: pyg.AntiSymmetricConv(_D),
    "DirGNNConv": lambda: pyg.DirGNNConv(pyg.SAGEConv(_D, WIDTH)),
}
_AS_WIDE_AS_ITS_INPUT = (
    *(
        "SimpleConv",
        "APPNP",
        "LGConv",
        "WLConvContinuous",
        "AGNNConv",
        "DNAConv",
    ),
    *("CGConv", "GCN2Conv", "FAConv", "PointGNNConv", "GPSConv", "AntiSymmetricConv"),
)
_WIDTHS = {
    **dict.fromkeys(_AS_WIDE_AS_ITS_INPUT, FEATURES),
    **{
        "GatedGraphConv": 8,
        "EGConv": 8,
        "SignedConv": 2 * WIDTH,
        "MixHopConv": 3 * WIDTH,
        "WLConv": 1,
    },
}
_CALLS: dict[str, Call] = {
    **dict.fromkeys(("GravNetConv", "DynamicEdgeConv"), _without_edges),
    **dict.fromkeys(
        ("GINEConv", "GMMConv", "SplineConv", "NNConv", "CGConv", "PDNConv"), _with_edge_features
    ),
    **dict.fromkeys(("RGCNConv", "FastRGCNConv", "CuGraphRGCNConv", "RGATConv"), _with_edge_types),
    **dict.fromkeys(("PointNetConv", "PointTransformerConv", "PointGNNConv"), _with_positions),
    **dict.fromkeys(("GCN2Conv", "FAConv"), _with_first_layer),
    **dict.fromkeys(("HGTConv", "HANConv", "HeteroConv"), _by_type),
    "SignedConv": lambda conv, x, edges: conv(x, edges, edges.flip(0)),
    "DNAConv": lambda conv, x, edges: conv(torch.stack([x, x], 1), edges),
    "XConv": lambda conv, x, _: conv(x, x[:, :3]),
    "PPFConv": _with_normals,
    "PANConv": lambda conv, x, edges: conv(x, edges)[0],
    "WLConv": lambda conv, x, edges: conv(x.argmax(1), edges)[:, None].float(),
    "HEATConv": _with_all_types,
    "MeshCNNConv": lambda conv, x, _: conv(x, _mesh(x)),
}


def _pna() -> dict[str, Any]:
    degrees = torch.tensor([0, 0, 0, NODES])
    return {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": degrees}


class Classifier(Module):
    """A convolution, called with whatever it takes, and a linear map to classes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        make = _MAKE.get(name, lambda: getattr(pyg, name)(FEATURES, WIDTH))
        self.conv = make()
        self.call = _CALLS.get(name, lambda conv, x, edge_index: conv(x, edge_index))
        self.head = Linear(_WIDTHS.get(name, WIDTH), CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the scores of every node."""
        return self.head(self.call(self.conv, x, edge_index))


def example(name: str) -> Module:
    """Return a small model with the convolution, or the model, of that name."""
    if name not in MODELS:
        return Classifier(name)
    options = _pna() if name == "PNA" else {}
    return getattr(pyg, name)(FEATURES, WIDTH, 2, CLASSES, **options)


def example_data() -> Data:
    """Return a graph in which every node has three neighbours, with classes and a split."""
    drawn = torch.Generator().manual_seed(0)
    nodes = torch.arange(NODES)
    ends = torch.cat([(nodes + step) % NODES for step in (1, 2, 5)])
    part = nodes % 4
    return Data(
        x=torch.randn(NODES, FEATURES, generator=drawn),
        edge_index=torch.stack([nodes.repeat(3), ends]),
        y=nodes % CLASSES,
        train_mask=part < 2,
        val_mask=part == 2,
        test_mask=part == 3,
    )


def missing_package(name: str) -> str:
    """Return what a layer needs and is not installed here, or nothing."""
    data = example_data()
    try:
        example(name)(data.x, data.edge_index)
    except ImportError as error:
        package = error.name or str(error).rpartition("requires")[2].strip(" '")
        return f"needs {package}, not tried"
    return ""


def check_insertion(name: str) -> None:
    """Fail unless gates can be inserted, and the model be called with them."""
    data = example_data()
    insert_reweighting(example(name))(data.x, data.edge_index)


def check_gradients(name: str) -> None:
    """Fail unless a gradient reaches every parameter of every gate."""
    model, data = insert_reweighting(example(name)), example_data()
    model(data.x, data.edge_index).square().sum().backward()
    for block in reweighting_blocks(model).values():
        for parameter in block.parameters():
            assert parameter.grad is not None
            assert parameter.grad.abs().sum() > 0


def check_state(name: str) -> None:
    """Fail unless the weights of one model make another one give the same scores."""
    one, other, data = (
        insert_reweighting(example(name)).eval(),
        insert_reweighting(example(name)).eval(),
        example_data(),
    )
    expected = one(data.x, data.edge_index)
    other.load_state_dict(one.state_dict())
    torch.testing.assert_close(other(data.x, data.edge_index), expected)


def check_fit(name: str) -> None:
    """Fail unless :func:`drgcn.fit` trains two seeds for two epochs."""
    fit(lambda: insert_reweighting(example(name)), example_data(), seeds=[0, 1], epochs=2)


CHECKS: dict[str, Callable[[str], None]] = {
    "inserted": check_insertion,
    "gradients": check_gradients,
    "state_dict": check_state,
    "fit": check_fit,
}


def works(check: Callable[[str], None], name: str) -> bool:
    """Return whether a check of a layer passes, from the same random numbers each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            check(name)
        except Exception:  # whatever fails is a "no" in the table
            return False
    return True


class _Messages(logging.Handler):
    """What :func:`drgcn.fit` says about the way in which it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage().partition("\n")[0])


def check_recording(make: Callable[[], Module], device: torch.device) -> None:
    """Fail unless :func:`drgcn.fit` trains two seeds by epochs recorded as a CUDA graph, and
    comes to the losses of the same training on CPU."""
    heard, log = _Messages(), logging.getLogger("drgcn")
    log.addHandler(heard)
    try:
        there, here = (
            fit(make, example_data(), range(2), epochs=24, device=place)
            for place in (device, torch.device("cpu"))
        )
    finally:
        log.removeHandler(heard)
    assert not any("CUDA graph" in message for message in heard.messages), heard.messages[0]
    looped = [message for message in heard.messages if "fastest" in message]
    assert len(looped) < 2, looped[0]  # on the device as on CPU
    for one, other in zip(there.curves["train_loss"], here.curves["train_loss"], strict=True):
        torch.testing.assert_close(one[:5], other[:5], rtol=1e-2, atol=1e-2)


def recordings(device: torch.device) -> list[dict[str, object]]:
    """Return for each layer whether its training is recorded as a CUDA graph, with gates and
    without."""
    rows = []
    for name in LAYERS:
        if missing_package(name) or not works(check_insertion, name):
            continue
        row: dict[str, object] = {"layer": name}
        for column, make in (("plain", example), ("with gates", _inserted)):
            try:
                check_recording(functools.partial(make, name), device)
                row |= {column: "yes", f"{column}: error": ""}
            except Exception as error:  # it is what is recorded
                torch.cuda.synchronize()
                first = str(error).strip().partition("\n")[0]
                row |= {column: "no", f"{column}: error": f"{type(error).__name__}: {first}"}
        rows.append(row)
    return rows


def _inserted(name: str) -> Module:
    return insert_reweighting(example(name))


def recorded_rows() -> dict[str, dict[str, str]]:
    """Return the rows of the newest record of :func:`recordings` by layer; nothing without one."""
    files = sorted(RECORDS.glob("cuda_graphs-*.csv"))
    if not files:
        return {}
    with files[-1].open(encoding="utf-8", newline="") as file:
        return {row["layer"]: row for row in csv.DictReader(file)}


def _in_words(error: str) -> str:
    """Return what an error of torch means here; one that is not known, as it is."""
    return next((words for part, words in ERRORS.items() if part in error), error)


def layer_table(names: Iterable[str] = LAYERS) -> Table:
    """Return the table of what works for each layer."""
    recorded = recorded_rows()
    rows = []
    for name in names:
        if missing := missing_package(name):
            rows.append([f"`{name}`", *["-"] * (len(CHECKS) + 1), missing])
            continue
        if not works(check_insertion, name):
            rows.append([f"`{name}`", "no", *["-"] * len(CHECKS), REASONS[name]])
            continue
        found = [works(check, name) for check in CHECKS.values()]
        reasons = [] if all(found) else [REASONS[name]]
        row = recorded.get(name, {"with gates": "not measured"})
        if row["with gates"] == "no":
            alone = " (without gates neither)" if row["plain"] == "no" else ""
            reasons.append(f"CUDA graph: {_in_words(row['with gates: error'])}{alone}")
        cells = ["yes" if one else "no" for one in found]
        rows.append([f"`{name}`", *cells, row["with gates"], "; ".join(reasons)])
    return Table(("layer", *CHECKS, "CUDA graph", "why not"), rows)
