"""What can be said about Dr before, or after, training on some features: numbers and words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn.errors import InputError, UndefinedStability
from drgcn.nn.adjacency import normalized_adjacency
from drgcn.reweighting import DimensionalReweighting
from drgcn.stability import (
    FeatureMoments,
    QuadraticForm,
    class_share,
    gate_saturation,
    minimal_k_in_range,
)
from drgcn.studies.advice_words import paragraph, warnings_for
from drgcn.training.stability_tracker import StabilityTracker

# Beyond that a covariance takes more memory and time than advice is worth.
_WIDEST = 8192
_DRAWS = 8


@dataclass(frozen=True)
class Advice:
    """Numbers about features, what they mean in plain words, and what to look at first.

    Attributes:
        rows: Rows that were read.
        features: Feature dimensions.
        constant: Dimensions that are constant; all other numbers leave them out.
        spread: Coefficient of variation of the variances.
        loudest: Largest variance over the median one.
        k_std: K of giving every dimension the same variance.
        k_range_2: Least K of gates that differ by a factor of at most 2.
        k_range_4: The same for 4.
        k_disc: K of weighting dimensions by what they say of the training classes; ``None``
            without labels.
        saturation_risk: Share of gate entries at either end in a Dr block that is not trained
            yet, on the mean of these features.
        layer_k: K of each Dr block of a model; empty without one.
        layer_saturation: The same for the share of gate entries at either end.
        paragraph: What the numbers say, and what they do not.
        warnings: What is odd about the features.
        variance: The variances, in the order of the dimensions.
    """

    rows: int
    features: int
    constant: int
    spread: float
    loudest: float
    k_std: float
    k_range_2: float | None
    k_range_4: float | None
    k_disc: float | None
    saturation_risk: float
    layer_k: tuple[float | None, ...]
    layer_saturation: tuple[float, ...]
    paragraph: str
    warnings: tuple[str, ...]
    variance: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([self.paragraph, *(f"warning: {words}" for words in self.warnings)])


def advise(source: Any, data: Data | None = None) -> Advice:
    """Numbers and words about features, for or against Dr.

    Args:
        source: A PyG ``Data`` or a feature matrix; a loader of such; or a model with Dr blocks,
            which then needs ``data``, is called with its ``x`` and ``edge_index`` (or with what
            its ``prepare`` makes of it), and adds K of its blocks.
        data: The data of a model.

    Raises:
        UndefinedStability: If there is nothing to reweight, see
            :func:`drgcn.stability_k`.

    Example:
        >>> x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
        >>> advice = advise(Data(x=x * torch.tensor([1.0, 1.0, 1.0, 1.0, 40.0])))
        >>> advice.k_range_4 < advice.k_range_2 < 1
        True
    """
    blocks = []
    if isinstance(source, torch.nn.Module):
        if data is None:
            raise InputError("Expected data beside a model: advise(model, data).")
        blocks = StabilityTracker(source).record(*_inputs(source, data))
        source = data
    if isinstance(source, Tensor):
        source = Data(x=source)
    single = isinstance(source, Data)
    if single and source.x is None:
        raise InputError("Expected data with node features `x`; found none.")
    if not single and not isinstance(source, Iterable):
        raise InputError(
            f"Expected data, a loader of data or a model; found {type(source).__name__}."
        )
    wide = single and source.x.size(1) > _WIDEST
    if wide:
        raise InputError(
            f"Expected at most {_WIDEST} feature dimensions; found {source.x.size(1)}."
        )
    chunks = [source.x] if single else source
    moments = FeatureMoments.from_chunks(chunks)
    variance = moments.variance()
    varies = variance > 0
    if not bool(varies.any()):
        raise UndefinedStability("Nothing to reweight: every feature is constant.")
    c = moments.covariance()[varies][:, varies]
    form = QuadraticForm.of(c, covariance=True)
    kept = variance[varies]
    share = _class_share(source) if single else None
    numbers: dict[str, Any] = {
        "rows": moments.rows_seen,
        "features": moments.num_features,
        "constant": int((~varies).sum()),
        "spread": float(kept.std(correction=0) / kept.mean()),
        "loudest": float(kept.max() / kept.median()),
        "k_std": form.value(kept.rsqrt().cpu().numpy()),
        "k_range_2": minimal_k_in_range(form, 2).value,
        "k_range_4": minimal_k_in_range(form, 4).value,
        "k_disc": None if share is None else _k_of_share(form, share[varies]),
        "saturation_risk": _saturation_risk(moments.mean),
        "layer_k": tuple(block.k for block in blocks),
        "layer_saturation": tuple(block.saturation for block in blocks),
    }
    normalize = getattr(source.get("dataset"), "normalize", None) if single else None
    signed = single and bool((_values(source.x) < 0).any())
    return Advice(
        **numbers,
        paragraph=paragraph(numbers, normalize),
        warnings=warnings_for(numbers, normalize, signed),
        variance=tuple(variance.tolist()),
    )


def _inputs(model: torch.nn.Module, data: Data) -> tuple[Any, ...]:
    prepare = getattr(model, "prepare", None)
    return prepare(data) if callable(prepare) else (data.x, data.edge_index)


def _class_share(data: Data) -> Tensor | None:
    """Shares on training nodes, after one step over the graph where there is one."""
    y = data.get("y")
    if y is None or y.dim() != 1 or y.is_floating_point():
        return None
    x = data.x
    if data.edge_index is not None:
        adj = normalized_adjacency(data.edge_index, data.num_nodes, dtype=torch.float32)
        dense = x if x.layout == torch.strided else x.to_dense()
        x = adj @ dense.float()
    try:
        return class_share(x, y, data.get("train_mask"))
    except UndefinedStability:
        return None  # one class alone says nothing


def _k_of_share(form: QuadraticForm, share: Tensor) -> float | None:
    s = share.sqrt().cpu().numpy()
    return form.value(s) if s.any() else None


def _saturation_risk(mean: Tensor) -> float:
    """Mean over some initialisations of a Dr block of the share of its gate at either end."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        blocks = [DimensionalReweighting(len(mean)) for _ in range(_DRAWS)]
    with torch.no_grad():
        shares = [gate_saturation(block.from_mean(mean.cpu())) for block in blocks]
    return sum(shares) / len(shares)


def _values(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values()
