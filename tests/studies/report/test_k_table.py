from dataclasses import replace

import pytest

from drgcn.studies.paper.page import published_k
from drgcn.studies.report.contents import write_report
from drgcn.studies.report.measurements import HEADS, k_rows, k_table, mean_saturation, share_words


@pytest.fixture
def measured(make_record):
    """A Dr record whose seeds have K and stuck gates of their own."""
    record = make_record([0.8, 0.9, 0.7], reweight="dr")
    numbers = [([0.5, 1.0], [0.5, 0.0]), ([0.7, None], [0.25, 0.01]), ([0.9, 1.2], [0.0, 0.002])]
    seeds = {
        seed: replace(result, k=k, saturation=saturation)
        for (seed, result), (k, saturation) in zip(record.seeds.items(), numbers, strict=True)
    }
    return replace(record, seeds=seeds)


def test_every_dr_row_has_the_means_over_its_seeds(measured, make_record):
    static = make_record([0.8], reweight="static")
    (row,) = k_rows([measured, static, make_record([0.8])])
    assert row.k == pytest.approx((0.7, 1.1))  # where K is defined
    assert row.saturation == pytest.approx((0.25, 0.004))
    assert (row.dataset, row.split, row.model, row.seeds) == ("cora", "full", "gcn + dr", 3)
    assert row.published == (1.04, 1.00)


def test_the_table_says_where_nothing_was_measured(measured, make_record):
    other = make_record([0.8], reweight="dr", epochs=100)
    table = k_table([measured, other])
    assert table.heads == HEADS
    first, second = table.rows
    assert first[2:] == ("gcn + dr", "0.70 1.10", "25 % <1 %", "1.04 1.00", "3")
    assert second[4] == "not measured"
    assert k_table([make_record([0.8])]) is None


def test_seeds_recorded_before_are_left_out_of_the_mean(measured):
    seeds = {**measured.seeds, 9: replace(measured.seeds[0], saturation=[])}
    assert mean_saturation(seeds) == mean_saturation(measured.seeds)
    assert mean_saturation({9: seeds[9]}) == ()


def test_more_than_none_is_never_shown_as_none():
    assert share_words([0.0, 1e-6, 0.0099, 0.01, 0.856, 1.0]) == "0 % <1 % <1 % 1 % 86 % 100 %"


def test_the_paper_prints_k_for_some_sets_alone():
    assert published_k("pubmed", "full") == (0.98, 0.98)
    for place in (("pubmed", "public"), ("reddit-like", "full"), ("wine", "random")):
        assert published_k(*place) == ()


def test_k_of_rebuilt_features_is_beside_the_papers_in_brackets(measured):
    data = {**measured.data, "name": "corar", "feature_source": "rebuilt"}
    (row,) = k_rows([replace(measured, data=data)])
    assert row.cells[-2] == "(0.90 0.99)"


def test_the_page_has_both_tables(measured, make_record, tmp_path):
    page = write_report([measured, make_record([0.8, 0.9])], tmp_path / "r.html", title="t")
    text = page.read_text()
    assert text.count("<td>25 % &lt;1 %</td>") == 2  # in the section, and in the table of K
    assert "Learnt K and stuck gates" in text
    assert "<td>1.04 1.00</td>" in text
    assert 'name="viewport"' in text
    plain = write_report([make_record([0.8])], tmp_path / "p.html", title="t").read_text()
    assert "Learnt K" not in plain
