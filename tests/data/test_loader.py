from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drgcn.data import load
from drgcn.errors import InputError


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("whine", {}, "there is no dataset 'whine': did you mean wine"),
        (
            "wine",
            {"split": "public"},
            "wine has no split 'public': choose one of random, random-60",
        ),
        ("wine", {"normalize": "l2"}, "normalize must be one of row, standard, none, not 'l2'"),
        ("wine", {"split_seed": -1}, "split_seed must be a whole number from 0 on, not -1"),
        ("wine", {"graph": "DE"}, "wine does not take the option 'graph': it takes k"),
        ("cora", {"k": 3}, "cora does not take the option 'k': it takes none"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    name: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load(name, offline=True, **arguments)


def test_paths_that_do_not_exist_are_no_names() -> None:
    for path in ("nowhere/at/all", "nowhere.npz", "./nowhere", "~/nowhere", Path("nowhere")):
        with pytest.raises(InputError, match=r"nowhere.* does not exist"):
            load(path)


def test_own_data_takes_no_other_options(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not take the option 'k': it takes require_labels"):
        load(tmp_path, k=3)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.csv").write_text("id\n")
    with pytest.raises(InputError, match=r"graph\.csv is no folder"):
        load(tmp_path / "graph.csv")


def test_a_folder_that_is_no_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no nodes\.csv or nodes\.parquet"):
        load(tmp_path)


def test_normalisation_can_be_chosen() -> None:
    data = load("wine", normalize="standard")
    train = data.x[data.train_mask]
    assert data.dataset.normalize == "standard"
    assert train.mean(0).abs().max() < 1e-5
    assert (train.std(0, correction=0) - 1).abs().max() < 1e-5
    rows = load("wine", normalize="row").x.sum(1)
    assert (rows - 1).abs().max() < 1e-5


def test_name_may_be_written_freely() -> None:
    assert load("Breast_Cancer").dataset.name == "breast-cancer"


# Values to predict


def _three_forms(folder: Path) -> dict[str, Path]:
    """One graph with a value a node, the last of them unknown, as tables and in both files."""
    generator = np.random.default_rng(0)
    x, price = generator.normal(size=(8, 2)), np.round(generator.normal(size=8), 3)
    price[7] = np.nan
    pairs = np.array([[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]])
    arrays = {"x": x.astype(np.float32), "edge_index": pairs, "price": price, "y": np.arange(8)}
    np.savez(folder / "g.npz", **arrays)
    torch.save({name: torch.from_numpy(value) for name, value in arrays.items()}, folder / "g.pt")
    tables = folder / "tables"
    tables.mkdir()
    rows = [
        f"{i},{a!r},{b!r},{'' if np.isnan(p) else p},c"
        for i, ((a, b), p) in enumerate(zip(x.astype(np.float32).tolist(), price, strict=True))
    ]
    (tables / "nodes.csv").write_text("\n".join(["id,a,b,price,label", *rows]))
    edges = [f"{a},{b}" for a, b in pairs.T]
    (tables / "edges.csv").write_text("\n".join(["source,target", *edges]))
    return {"npz": folder / "g.npz", "pt": folder / "g.pt", "csv": tables}


def test_values_to_predict_are_the_same_in_every_form(tmp_path: Path) -> None:
    loaded = {form: load(path, target="price") for form, path in _three_forms(tmp_path).items()}
    first = loaded["npz"]
    for data in loaded.values():
        assert data.y.dtype == torch.float32
        assert data.y.shape == (8, 1)
        torch.testing.assert_close(data.y, first.y, equal_nan=True)
        assert bool(data.y[7].isnan().all())
        assert not bool((data.train_mask | data.val_mask | data.test_mask)[7])
        info = data.dataset
        assert (info.features, info.classes, info.class_names) == (2, 1, ("price",))
        assert (info.unlabelled, info.multi_label) == (1, False)
        assert dict(info.options) == {"target": "price"}
        assert info.content_hash == first.dataset.content_hash


def test_the_hash_tells_values_apart(tmp_path: Path) -> None:
    arrays = dict(np.load(_three_forms(tmp_path)["npz"]))
    hashes = set()
    for change in (0.0, 0.25):
        np.savez(tmp_path / "g.npz", **arrays | {"price": arrays["price"] + change})
        hashes.add(load(tmp_path / "g.npz", target="price").dataset.content_hash)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("form", "target", "words"),
    [
        ("npz", "cost", "expected the values to predict as 'cost'; found x"),
        ("pt", "cost", "expected the values to predict as 'cost'"),
        ("csv", "cost", "needs a column 'cost'"),
        ("npz", "pair", "a number for each of the 8 nodes"),
        ("csv", "label", "'c' in the column 'label'"),
    ],
)
def test_what_holds_no_values_is_refused(
    tmp_path: Path, form: str, target: str, words: str
) -> None:
    path = _three_forms(tmp_path)[form]
    if form == "npz":
        arrays = dict(np.load(path))
        np.savez(path, x=arrays["x"], edge_index=arrays["edge_index"], pair=np.ones(2))
    if form == "csv":
        (path / "nodes.csv").write_text("id,a,label\n0,1,c\n1,2,c\n")
        (path / "edges.csv").write_text("source,target\n0,1\n")
    with pytest.raises(InputError, match=words):
        load(path, target=target)


def test_sets_of_the_catalogue_have_no_target() -> None:
    with pytest.raises(InputError, match="does not take the option 'target'"):
        load("digits", target="label")
