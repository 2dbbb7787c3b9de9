import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from pages.record_tables import gate_table, markdown_table, search_table, variant_table
from pictures import comparison_figure

from drgcn.studies.comparison import GATES
from drgcn.studies.experiment import recipe
from drgcn.studies.paper.page import published
from drgcn.studies.report.comparisons import row_charts
from drgcn.studies.report.contents import contents, write_report
from drgcn.studies.report.gate_tests import decide_groups, gate_tests, uncompared
from drgcn.studies.report.tables import (
    data_name,
    gate_groups,
    merge,
)


def test_records_of_one_experiment_are_merged(make_record):
    parts = [make_record([0.8, 0.9]), make_record([0.7], first_seed=2)]
    ((_, seeds),) = merge(parts)
    assert sorted(seeds) == [0, 1, 2]


@pytest.fixture
def by(make_record):
    """A record of one build, which is told by its source."""

    def make(source, accuracies, **changes):
        record = make_record(accuracies, **changes)
        return replace(record, environment=record.environment | {"source": source})

    return make


def test_a_build_is_source_libraries_and_machine(make_record):
    record = make_record([0.8])
    for name in ("source", "torch", "torch_geometric", "device"):
        other = replace(record, environment=record.environment | {name: "another"})
        assert other.build != record.build
    same = replace(record, environment=record.environment | {"threads": 2, "python": "3"})
    assert same.build == record.build


def test_what_does_not_say_its_build_is_compared_with_nothing(make_record):
    plain, dr = make_record([0.7, 0.8]), make_record([0.8, 0.9], reweight="dr")
    unsaid = {"device": "a machine", "torch": "2", "torch_geometric": "2", "drgcn": "0"}
    old = [replace(record, environment=unsaid) for record in (plain, dr)]
    assert old[0].build != old[1].build
    assert gate_tests(old, None) == []
    assert len(gate_tests([plain, dr], None)) == 1


def test_a_row_has_seeds_of_one_build(by):
    parts = [by("a", [0.8, 0.9]), by("b", [0.7], first_seed=2), by("a", [0.6], first_seed=3)]
    ((record, seeds),) = merge(parts)
    assert record.environment["source"] == "a"
    assert sorted(seeds) == [0, 1, 3]


def test_rows_of_two_builds_are_shown_and_not_compared(by):
    """Plain and Dr are of one build, the controls of another."""
    some = [by("a", [0.7, 0.8]), by("a", [0.8, 0.95], reweight="dr")]
    some += [by("b", [0.7, 0.8], reweight=gate) for gate in ("static", "constant")]
    (group,) = gate_groups(some)
    (decided,) = decide_groups([group])
    assert decided.keys() == {("dr", None)}
    assert uncompared(some, None) == []
    assert uncompared(some, "static") == ["cora, full: gcn"]
    found = contents(some, [])
    assert any(
        "two builds" in line and "1 with the static gate" in line for line in found.findings
    )
    (apart,) = (table for table in found.tables if table.name == "two-builds")
    assert apart.rows == (("cora, full: gcn", "static gate, constant gate"),)
    (block,) = next(s for s in found.sections if s.name == "curves").blocks
    (said,) = block.verdict
    assert "not compared: Dr and static, constant." in said
    assert "sure" not in said
    table = gate_table(some)
    assert table.count("†") == 3  # two cells, and the note
    mixed = [by("a", [0.7, 0.8]), *(by("b", [0.8, 0.9], reweight=g) for g in GATES[1:])]
    assert "records of two builds, not compared" in gate_table(mixed)
    assert "records of two builds, not compared" in variant_table(mixed)
    assert gate_tests(mixed, None) == []


def test_of_several_builds_the_whole_comparison_is_taken(by):
    old = [by("old", [0.7, 0.8]), by("old", [0.8, 0.9], reweight="dr")]
    new = by("new", [0.1, 0.1, 0.1], reweight="dr")
    (group,) = gate_groups([new, *old])
    assert [row[0].environment["source"] for row in group.values()] == ["old", "old"]
    (test,) = gate_tests([new, *old], None)
    assert test.test.gain.mean == pytest.approx(10)
    whole = [by("new", [0.7, 0.8]), by("new", [0.8, 0.9], reweight="static"), new]
    (group,) = gate_groups([*old, *whole])
    assert {row[0].environment["source"] for row in group.values()} == {"new"}


def test_the_table_shows_measured_beside_published(make_record):
    table = markdown_table([make_record([0.8, 0.9], reweight="dr"), make_record([0.7, 0.8])])
    plain, dr = table.splitlines()[2:]
    assert "| gcn | 75.0 ± 7.1 | 86.4 ± 0.3 |" in plain
    assert "| gcn + dr | 85.0 ± 7.1 | 86.8 ± 0.2 | 0.50 1.00 | 2 |" in dr


def test_other_widths_are_named(make_record):
    assert "gcn (hidden channels 16)" in markdown_table(
        [make_record([0.8, 0.9], hidden_channels=16)]
    )


def test_other_trainings_have_no_published_number(make_record):
    assert published(make_record([0.8], epochs=100).experiment) is None


def test_rows_of_different_training_are_not_compared(make_record):
    records = [make_record([0.7, 0.8]), make_record([0.8, 0.9], reweight="dr", epochs=100)]
    assert [list(group) for group in gate_groups(records)] == [[None], ["dr"]]


def test_unpublished_rows_have_no_published_number(make_record):
    assert published(make_record([0.8], reweight="static").experiment) is None


def test_the_page_is_self_contained_and_says_what_it_shows(make_record, tmp_path):
    gates = (None, "dr", "static", "constant")
    records = [make_record([0.8, 0.81, 0.8], reweight=gate) for gate in gates]
    records.append(make_record([0.7, 0.8], norm="batch"))
    page = write_report(records, tmp_path / "deep" / "report.html", title="A <title>").read_text()
    assert "A &lt;title&gt;" in page
    assert "<svg" in page
    assert "no sure difference" in page
    assert "gcn + batch norm" in page
    assert "src=" not in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "{{" not in page


@pytest.mark.parametrize("panels", [1, 3])
def test_long_titles_stay_within_the_picture(make_record, panels):
    rows = [(record := make_record([0.8, 0.81]), record.seeds)]
    title = "planted (synthetic), split random: gcn (hidden channels 32, epochs 150, lr 0.01)"
    figure = comparison_figure({f"{place} {title}": rows for place in range(panels)})
    figure.draw_without_rendering()
    boxes = [axes.title.get_window_extent() for axes in figure.axes[:: 1 if panels > 1 else 2]]
    boxes = boxes[:panels]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, "cora"),
        ({"feature_source": "published; columns 0 and 1 as logarithms"}, "cora"),
        ({"feature_source": "generated"}, "cora (synthetic)"),
        (
            {"feature_source": "generated: by whom", "normalize": "none"},
            "cora (synthetic, scaled: none)",
        ),
        ({"feature_source": "rebuilt", "normalize": "row"}, "cora (rebuilt features)"),
        (
            {"name": "ppi-rebuilt", "normalize": "standard"},
            "ppi-rebuilt (rebuilt labels, not comparable)",
        ),
    ],
)
def test_data_that_was_made_here_says_so(make_record, facts, name):
    record = make_record([0.8])
    assert data_name(replace(record, data={**record.data, **facts})) == name


def test_variants_stand_against_plain(make_record):
    rows = [
        make_record([0.8, 0.9]),
        make_record([0.81, 0.91], norm="batch"),
        make_record([0.79, 0.9], reweight="dr"),
    ]
    plain, dr, batch = variant_table(rows).splitlines()[2:]
    assert plain == "| cora | gcn | 85.00 ± 7.07 |  |  | 2 |"
    assert "| gcn + dr | 84.50 ± 7.78 | -0.50 [" in dr
    assert "| gcn + batch norm | 86.00 ± 7.07 | +1.00 [+1.00, +1.00] |" in batch


def test_variants_of_other_models_stand_against_their_own_plain(make_record):
    rows = [
        *(make_record([0.8, 0.9]), make_record([0.81, 0.91], reweight="dr")),
        *(make_record([0.5, 0.6], epochs=9), make_record([0.52, 0.62], epochs=9, reweight="dr")),
        make_record([0.3, 0.4], epochs=7, reweight="dr"),
    ]
    lines = [line.split(" | ") for line in variant_table(rows).splitlines()[2:]]
    over = {cells[1]: cells[3] for cells in lines}
    assert over["gcn + dr"].startswith("+1.00")
    assert over["gcn + dr (epochs 9)"].startswith("+2.00")
    assert over["gcn + dr (epochs 7)"] == ""


def test_what_was_tried_is_ordered_by_model_and_validation(make_record):
    def tried(model, val, **changes):
        record = make_record([0.8, 0.9])
        seeds = {s: replace(result, val_accuracy=val) for s, result in record.seeds.items()}
        return replace(record, experiment=recipe("cora", "full", model, **changes), seeds=seeds)

    records = [
        *(tried("fastgcn", 0.9), tried("gcn", 0.5), tried("fastgcn", 0.95, lr=0.1)),
        tried("gcn", 0.6, lr=0.1),
    ]
    rows = [line.split(" | ")[2:4] for line in search_table(records).splitlines()[2:]]
    assert rows == [
        *(["gcn (lr 0.1)", "60.00"], ["gcn", "50.00"]),
        *(["fastgcn (lr 0.1)", "95.00"], ["fastgcn", "90.00"]),
    ]
    assert "build" not in search_table(records)
    records[0] = replace(records[0], environment=records[0].environment | {"source": "another"})
    assert "| fastgcn | 90.00 † |" in search_table(records)
    assert search_table(records).endswith("† Another build than that of the first row of the set.")


def test_a_comparison_has_seeds_and_two_curves(make_record):
    records = [make_record([0.8, 0.82, 0.9], reweight=gate) for gate in (None, "dr", "static")]
    (rows,) = gate_groups(records)
    seeds, accuracy, loss = (ElementTree.fromstring(svg) for svg in row_charts(rows))
    assert len(list(seeds.iter("circle"))) == 9
    for curves in (accuracy, loss):
        kinds = [path.get("class") for path in curves.iter("path")]
        assert [kind for kind in kinds if "line" in kind] == [
            "line plain",
            "line dr",
            "line static",
        ]
        assert sum("band" in kind for kind in kinds) == 3
    heights = [float(y) for y in re.findall(r" ([\d.]+)", _path(loss, "line plain"))]
    assert heights[0] < heights[-1]  # the loss falls, and SVG counts from the top


def _path(root, kind):
    return next(path.get("d") for path in root.iter("path") if path.get("class") == kind)
