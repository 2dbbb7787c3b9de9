from dataclasses import replace

import numpy as np
import pytest

from drgcn.studies.report.measurements import MISSING, spectrum_table


@pytest.fixture
def kept(make_record):
    record = make_record([0.8, 0.9], reweight="dr")
    layers = [
        [np.linspace(0.1, 0.9, 11), np.full(11, 0.5)],
        [np.linspace(0.3, 0.5, 11), np.full(11, 0.7)],
    ]
    seeds = {
        seed: replace(result, s_deciles=[layer.tolist() for layer in of_seed])
        for (seed, result), of_seed in zip(record.seeds.items(), layers, strict=True)
    }
    return replace(record, seeds=seeds)


def test_every_layer_has_means_over_seeds_and_a_picture(kept):
    table = spectrum_table([kept])
    first, second = table.rows
    assert first[2:] == (
        "gcn + dr",
        "1",
        "0.200",
        "0.250",
        "0.450",
        "0.650",
        "0.700",
        "0.640",
        "2",
    )
    assert second[3:] == ("2", "0.600", "0.600", "0.600", "0.600", "0.600", "0.000", "2")
    assert all(picture.startswith("<svg") for picture in table.pictures)


def test_records_from_before_are_counted_and_others_left_out(kept, make_record):
    older = make_record([0.8], reweight="dr", epochs=100)
    static = make_record([0.8], reweight="static")
    table = spectrum_table([kept, older, static])
    assert len(table.rows) == 2
    assert table.notes[-1].startswith("Left out: 1 rows.")
    assert spectrum_table([older, static]) is None
    assert "drgcn stability" in MISSING
