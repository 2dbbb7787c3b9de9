from dataclasses import replace
from pathlib import Path

import pytest

from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.paper.page import paper_tables
from drgcn.studies.records import load_records
from drgcn.studies.reproduce.jobs import Job
from drgcn.studies.reproduce.plan import (
    CONTROLS,
    Request,
    plan,
    read_filters,
    recorded_table,
    selected,
)

from .small_plan import cell, experiment, small_table, table_of


def gates(jobs):
    return [(job.experiment.dataset, job.experiment.reweight) for job in jobs]


def test_every_cell_with_a_recipe_is_a_job():
    expected = [("wine", None), ("planted", None), ("wine", "dr"), ("planted", "dr")]
    assert gates(plan([small_table()])) == expected


def test_cells_that_tables_share_are_one_job_with_the_larger_number_of_seeds():
    shared = experiment()
    few = table_of([cell("GCN", "Wine", shared)], seeds=3)
    many = table_of([cell("gcn", "wine", shared), cell("gcn", "x", None, "why")], seeds=5)
    (job,) = plan([few, many])
    assert job.seeds == (0, 1, 2, 3, 4)
    assert plan([many, few]) == [job]
    (job,) = plan([few, many], seeds=2)
    assert job.seeds == (0, 1)


def test_the_key_of_a_job_knows_how_features_are_scaled():
    plain, scaled = (Job(experiment(), normalize, (0,)) for normalize in (None, "row"))
    assert plain.key != scaled.key
    assert plain.file_stem != scaled.file_stem


def test_another_scaling_or_setting_is_another_job():
    one, two = experiment(), experiment(epochs=31)
    assert len(plan([table_of([cell("a", "x", one), cell("b", "x", two)])])) == 2


def test_controls_stand_beside_dr_alone():
    found = gates(plan([small_table()], controls=True, only={"dataset": ["wine"]}))
    assert sorted(map(str, found)) == sorted(
        map(str, [("wine", gate) for gate in (None, "dr", "static", "constant")])
    )
    assert gates(plan([small_table()], controls=True, only={"row": ["GCN"]})) == [
        ("wine", None),
        ("planted", None),
    ]


def test_a_gain_takes_the_plain_row_too():
    table = table_of([cell("Dr", "gain", experiment(reweight="dr"), quantity="gain")])
    assert gates(plan([table])) == [("wine", "dr"), ("wine", None)]


def test_filters_of_one_key_add_up_and_keys_narrow_down():
    table = small_table()
    assert len(selected([table], {"dataset": ["wine", "planted"]})) == 4
    assert len(selected([table], {"dataset": ["Wine"], "row": ["dr-gcn"]})) == 1
    assert len(selected([table], {"model": ["gcn"]})) == 4


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ({"dataset": ["cora"]}, "wine, planted; found cora"),
        ({"row": ["GAT", "GCN"]}, "GCN, Dr-GCN; found GAT"),
        ({"model": ["gat"]}, "gcn; found gat"),
    ],
)
def test_a_filter_that_matches_nothing_names_what_there_is(only, words):
    with pytest.raises(InputError, match=words):
        plan([small_table()], only=only)


def test_filters_that_match_nothing_together_are_told_so():
    table = table_of(
        [cell("A", "x", experiment("wine")), cell("B", "x", experiment("planted", "mlp"))]
    )
    with pytest.raises(InputError, match="model is one of gcn, and not mlp"):
        plan([table], only={"dataset": ["wine"], "model": ["mlp"]})


def test_filters_are_read_from_words():
    found = read_filters(["dataset=cora", "row=Dr-GCN", "dataset = pubmed"])
    assert found == {"dataset": ["cora", "pubmed"], "row": ["Dr-GCN"]}
    for wrong in ("cora", "colour=red", "row="):
        with pytest.raises(InputError, match="dataset="):
            read_filters([wrong])


def test_no_seeds_are_refused():
    with pytest.raises(InputError, match="at least one seed"):
        plan([small_table()], seeds=0)


def test_the_tables_of_the_paper_can_be_planned():
    jobs = plan(paper_tables().values(), controls=True)
    keys = [job.key for job in jobs]
    assert len(set(keys)) == len(keys) > 20
    assert len({job.file_stem for job in jobs}) == len(keys)
    cells = [c for table in paper_tables().values() for c in table.cells if c.job is not None]
    wanted = {(str(c.job.experiment), c.job.normalize) for c in cells}
    assert wanted <= {(str(job.experiment), job.normalize) for job in jobs}


def test_all_tables_and_all_that_is_on_record_are_one_plan():
    """What reruns everything in one build."""
    records = load_records(Path(__file__).parents[3] / "results")
    whole = Request.of(["all"], None, [], True, records)
    planned = {(job.experiment.identity(""), job.normalize) for job in whole.jobs}
    assert len(planned) == len(whole.jobs)
    cells = [cell for table in paper_tables().values() for cell in table.cells if cell.job]
    wanted = [(cell.job.experiment, cell.job.normalize) for cell in cells]
    wanted += [(record.experiment, record.data["normalize"]) for record in records]
    assert {(ran.identity(""), scaled) for ran, scaled in wanted} <= planned
    gated = [ran for ran, _ in wanted if ran.reweight == "dr"]
    controls = {replace(ran, reweight=gate).identity("") for ran in gated for gate in CONTROLS}
    assert controls <= {identity for identity, _ in planned}


def test_records_of_data_with_options_are_not_planned(make_record):
    usual = make_record([0.5, 0.6])
    odd = replace(usual, data=usual.data | {"options": {"nodes": 9}, "content_hash": "other"})
    with pytest.warns(DrgcnWarning, match="1 record of data with options"):
        table = recorded_table([usual, odd])
    assert [cell.job.experiment for cell in table.cells] == [usual.experiment]
    assert table.seeds == 2
