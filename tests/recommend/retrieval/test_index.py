import hashlib

import pytest
import torch
import torch.nn.functional as F

from drgcn.errors import InputError
from drgcn.recommend.retrieval import (
    FaissIndex,
    TopItems,
    exact_top,
    read_index,
    tune,
    write_index,
)
from drgcn.recommend.retrieval.index import cells
from drgcn.sampling import CSRGraph

pytest.importorskip("faiss")
pytestmark = pytest.mark.filterwarnings("ignore:.*swig.*:DeprecationWarning")


def clustered(number, dim=16):
    return F.normalize(
        torch.randn(50, dim)[torch.randint(50, (number,))] * 2 + torch.randn(number, dim)
    )


@pytest.mark.parametrize(
    ("kind", "metric"), [("flat", "ip"), ("ivf", "ip"), ("hnsw", "ip"), ("ivf", "l2")]
)
def test_finds_what_the_exact_search_finds(kind, metric):
    items, queries = clustered(3000), clustered(60)
    index = FaissIndex.build(items, kind, metric)
    if kind != "flat":
        index.effort = index.efforts(10)[-1]
    top, exact = index.search(queries, 10), exact_top(queries, items, 10, metric=metric)
    assert (top.items == exact.items).float().mean() > 0.999
    torch.testing.assert_close(top.scores, exact.scores, atol=1e-5, rtol=1e-4)
    assert (index.kind, index.num_items, index.dim) == (kind, 3000, 16)


def test_auto_takes_flat_for_few_items_and_cells_for_many():
    items = torch.randn(200_001, 2)
    assert FaissIndex.build(items[:200_000], "auto").kind == "flat"
    assert cells(10**6) == 2048 or cells(10**6) == 4096
    assert cells(100) * 39 <= 100
    assert cells(10) == 1


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_tuning_keeps_its_promise_on_fresh_queries(kind):
    items = clustered(5000)
    queries, fresh = clustered(400), clustered(400)
    index = FaissIndex.build(items, kind)
    result = tune(index, queries, exact_top(queries, items, 10), 0.95)
    assert result.reached
    assert result.effort == index.effort < index.efforts(10)[-1]
    exact, found = exact_top(fresh, items, 10).items, index.search(fresh, 10).items
    shares = [
        len(set(a) & set(b)) / 10 for a, b in zip(exact.tolist(), found.tolist(), strict=True)
    ]
    assert sum(shares) / 400 > 0.94
    assert "reached" in str(result)
    assert "NOT" not in str(result)


def test_tuning_says_when_the_target_is_out_of_reach(monkeypatch):
    monkeypatch.setattr("drgcn.recommend.retrieval.index._MOST_EFFORT", 16)
    items, queries = F.normalize(torch.randn(8000, 64)), F.normalize(torch.randn(200, 64))
    index = FaissIndex.build(items, "hnsw")
    result = tune(index, queries, exact_top(queries, items, 10), 0.99)
    assert not result.reached
    assert result.recall < 0.99
    assert result.effort == 16
    assert "NOT reached" in str(result)
    assert result.to_dict()["reached"] is False


def test_the_reported_recall_is_not_that_of_the_choosing_queries():
    class Index:
        """Right for the first half of what it is shown, wrong for the second."""

        kind, metric, num_items, dim, effort = "flat", "ip", 10, 2, None

        def efforts(self, n):
            return []

        def search(self, queries, n):
            items = queries[:, :1].long().expand(-1, n)
            return TopItems(items.float(), items)

    marks = torch.tensor([[1.0, 0], [2, 0]] * 4)  # even places find item 1, odd ones item 2
    exact = TopItems(torch.zeros(8, 1), torch.ones(8, 1, dtype=torch.int64))
    result = tune(Index(), marks, exact, 0.5)
    assert result.recall == 0
    assert not result.reached
    with pytest.raises(InputError, match="target"):
        tune(Index(), marks, exact, 0.0)


def test_excluded_items_do_not_come_out():
    items, queries = clustered(500), clustered(20)
    edges = torch.stack([torch.randint(500, (800,)), torch.randint(25, (800,))]).unique(dim=1)
    exclude = CSRGraph.from_edge_index(edges, (500, 25))
    rows = torch.randint(25, (20,))
    top = FaissIndex.build(items, "flat").search(queries, 10, exclude=exclude, exclude_rows=rows)
    exact = exact_top(queries, items, 10, exclude=exclude, exclude_rows=rows)
    assert torch.equal(top.items, exact.items)


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_files_are_known_again(kind, tmp_path):
    items, queries = clustered(1000), clustered(5)
    index = FaissIndex.build(items, kind)
    if kind != "flat":
        index.effort = 20
    facts = write_index(index, tmp_path / "index.faiss")
    again = read_index(tmp_path / "index.faiss", facts)
    assert again.effort == index.effort
    assert torch.equal(again.search(queries, 10).items, index.search(queries, 10).items)
    for wrong in ({"dim": 17}, {"num_items": 999}, {"kind": "pq"}, {"metric": "l2"}):
        with pytest.raises(InputError, match="another index"):
            read_index(tmp_path / "index.faiss", {**facts, **wrong})
    with pytest.raises(InputError, match="no effort in the manifest"):
        read_index(tmp_path / "index.faiss", {k: v for k, v in facts.items() if k != "effort"})
    with pytest.raises(InputError, match="no such file"):
        read_index(tmp_path / "other.faiss", facts)
    content = (tmp_path / "index.faiss").read_bytes()
    (tmp_path / "index.faiss").write_bytes(content[:-100])
    with pytest.raises(InputError, match="cut short"):
        read_index(tmp_path / "index.faiss", facts)


def test_bad_input(monkeypatch):
    items = clustered(100)
    index = FaissIndex.build(items)
    with pytest.raises(InputError, match="16 columns"):
        index.search(torch.randn(2, 3), 5)
    with pytest.raises(InputError, match="effort"):
        index.effort = 4
    with pytest.raises(InputError, match="kind"):
        FaissIndex.build(items, "annoy")
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(InputError, match=r"'\.\[recommend\]'"):
        FaissIndex.build(items)


def test_a_file_whose_items_have_other_numbers():
    faiss = pytest.importorskip("faiss")
    items = torch.rand(40, 4)
    other = faiss.index_factory(4, "IVF1,Flat", faiss.METRIC_INNER_PRODUCT)
    other.train(items.numpy())
    other.add_with_ids(items.numpy(), torch.arange(40).numpy() + 10**9)
    with pytest.raises(InputError, match="items 0 to 39; it knows 1000000"):
        FaissIndex(other, "ivf", "ip").search(items[:2], 3)


def test_files_that_faiss_cannot_read(tmp_path):
    index = FaissIndex.build(torch.randn(100, 4), "hnsw")
    path = tmp_path / "index"
    facts = write_index(index, path)
    for effort in ("many", 0, 2**40, None, True):
        with pytest.raises(InputError, match="Expected an effort of at least one"):
            read_index(path, facts | {"effort": effort})
    for content in (b"", b"what", path.read_bytes()[:-50]):
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        with pytest.raises(InputError, match="Expected an index of faiss") as caught:
            read_index(path, facts | {"sha256": digest})
        assert "\n" not in str(caught.value)
