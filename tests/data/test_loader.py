from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
