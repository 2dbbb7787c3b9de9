"""The paper's leak tables as data: all cells are there, and they add up where the paper's do."""

from dataclasses import fields

import pytest
from pages.leaks import LEAK_SETS, PublishedLeak, published_leaks, published_totals

from drgcn.data.planetoid import CLASS_NAMES


def test_every_cell_of_the_four_tables_is_there():
    cells = sum(len(rows) * len(fields(PublishedLeak)) for rows in map(published_leaks, LEAK_SETS))
    # Cora: 8 columns of 3 rows and 7 of 2; Citeseer: 7 of 3 and 6 of 2.
    assert (
        cells + sum(len(published_totals(name)) for name in LEAK_SETS)
        == 8 * 3 + 7 * 2 + 7 * 3 + 6 * 2
    )


@pytest.mark.parametrize("name", LEAK_SETS)
def test_classes_are_those_of_the_data(name):
    assert set(published_leaks(name)) == set(CLASS_NAMES[name])


@pytest.mark.parametrize("name", LEAK_SETS)
def test_columns_add_up_to_the_totals(name):
    rows, (papers, appeared, rate) = published_leaks(name).values(), published_totals(name)
    assert sum(row.total for row in rows) == papers
    assert sum(row.appeared for row in rows) == appeared
    assert 100 * appeared / papers == pytest.approx(rate, abs=0.05)
    for row in rows:
        assert 100 * row.appeared / row.total == pytest.approx(row.rate, abs=0.05)


def test_both_sets_divide_the_counts_elsewhere_by_the_papers_of_cora():
    for rows in map(published_leaks, LEAK_SETS):
        for row in rows.values():
            assert 100 * row.elsewhere / 2708 == pytest.approx(row.rate_elsewhere, abs=0.051)
