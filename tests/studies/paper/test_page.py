"""Pages of a user's own: what can be wrong with them is said in one sentence."""

import pytest

from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.page import paper_table_of, read_page, table_or_page
from drgcn.studies.paper.status import check_table

PAGE = '''
number = 3
title = "mine"
unit = "percent"
seeds = 4

numbers = """
     | One        | Two
GCN  | 81.5 ± 0.3 | -
Dr   | 82.0       | 70.05
"""

[all]
dataset = "cora"
model = "gcn"

[columns]
One = { split = "public" }
Two = { split = "full", epochs = 30, normalize = "none" }

[rows]
GCN = {}
Dr = { reweight = "dr", lr = 1 }

[[notes]]
column = "Two"
words = "first."

[[notes]]
row = "Dr"
column = "Two"
words = "second."
'''


@pytest.fixture
def page(tmp_path):
    """A page with some text replaced, read."""

    def read(old="", new=""):
        assert old in PAGE
        path = tmp_path / "mine.toml"
        path.write_text(PAGE.replace(old, new) if old else PAGE, encoding="utf-8")
        return read_page(path)

    return read


def test_a_cell_is_what_all_its_column_and_its_row_say(page):
    table = page()
    assert (table.name, table.heading, table.seeds) == ("mine", "Table 3 (mine)", 4)
    one = table.cell("GCN", "One")
    assert (one.job.experiment, one.job.normalize) == (Experiment("cora", "public"), "row")
    assert one.runnable
    two = table.cell("Dr", "Two")
    assert two.job.experiment == Experiment("cora", "full", reweight="dr", lr=1, epochs=30)
    assert two.job.normalize == "none"
    assert (two.printed.mean, two.note, one.note) == (70.05, "first. second.", None)
    absent = table.cell("GCN", "Two")
    assert (absent.printed, absent.job, absent.note) == (None, None, "first.")
    assert absent.reason == "the paper prints no number here"
    assert (len(table.printed), len(table.runnable), check_table(table)) == (3, 3, 3)


def test_the_row_is_heard_before_the_column(page):
    assert page("lr = 1", "epochs = 2").cell("Dr", "Two").job.experiment.epochs == 2


def test_a_reason_leaves_nothing_to_run_and_needs_does(page):
    table = page("GCN = {}", 'GCN = { model = "magic", reason = "quoted" }')
    cell = table.cell("GCN", "One")
    assert (cell.job, cell.reason, cell.label) == (None, "quoted", "magic")
    cell = page("GCN = {}", 'GCN = { needs = "files" }').cell("GCN", "One")
    assert cell.job is not None
    assert (cell.reason, cell.runnable) == ("files", False)


def test_a_baseline_is_run_apart_and_may_differ_by_column(page):
    row = 'baseline = "walker", exact = true, baseline_settings = { walks = 3 }'
    table = page("GCN = {}", f'GCN = {{ model = "magic", {row} }}')
    cell = table.cell("GCN", "One")
    assert (cell.job, cell.baseline, cell.exact) == (None, "walker", True)
    assert cell.baseline_settings == {"walks": 3}
    assert "drgcn baselines" in cell.reason
    assert table.cell("GCN", "Two").baseline is None  # nothing is printed there
    table = page("Dr = {", 'Dr = { baseline = { Two = "walker" },')
    assert table.cell("Dr", "One").baseline is None
    assert table.cell("Dr", "Two").baseline == "walker"


def test_without_numbers_every_cell_is_run(page):
    grid = PAGE[PAGE.index("numbers") : PAGE.index("[all]")]
    table = page(grid, "")
    assert (len(table.printed), len(table.runnable)) == (0, 4)


def test_own_data_is_given_by_its_path(page, tmp_path):
    (tmp_path / "graph").mkdir()
    cell = page('"cora"', f'"{tmp_path}/graph"').cell("GCN", "One")
    assert (cell.job.experiment.dataset, cell.job.normalize) == (f"{tmp_path}/graph", "none")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "mine"', "", "Expected title on the page"),
        ('title = "mine"', "title = 3", "Expected title to be of type str; found 3"),
        ("seeds = 4", "seeds = 0", "Expected at least one seed"),
        ("seeds = 4", "sedes = 4", "found sedes"),
        ("title =", "title", "is no TOML"),
        ("| Two", "| Three", "columns One, Two, in this order; found One, Three"),
        (" | 70.05", "", "Expected 2 numbers in row 'Dr'; found 1"),
        ("70.05", "seven", "Expected a number such as 86.8 ± 0.5"),
        ("lr = 1", "Lr = 1", "row 'Dr', column 'One': Expected settings out of"),
        ("lr = 1", 'lr = "fast"', "Expected lr to be a number; found 'fast'"),
        ("lr = 1", 'rule = "luck"', "Expected rule to be best-validation or rising-loss or"),
        ("lr = 1", "options = 3", "Expected options to be a table of names with values"),
        ('"cora"', '"coar"', "did you mean cora"),
        ('"public"', '"half"', "Expected a split of cora; found 'half': choose one of public"),
        ('model = "gcn"', 'model = "gnc"', "Expected a model out of gcn"),
        ('model = "gcn"', "", "Expected a model, or a reason why nothing is run"),
        ("GCN = {}", "GCN = 3", "Expected rows with a table of settings each"),
        ('column = "Two"', 'column = "Six"', "Expected a note at a column of the table"),
        ('words = "first."', 'wrods = "first."', "Expected a note of words"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(page, old, new, words):
    with pytest.raises(InputError) as error:
        page(old, new)
    assert words in str(error.value)
    assert "mine.toml" in str(error.value)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ('reweight = "d"', "dr"),
        ("options = { heads = 3 }", "heads"),
        ('model = "gat", pre_activation = true', "pre-activation with gcn alone"),
        ("num_layers = -1", "GCN takes"),
    ],
)
def test_a_model_that_cannot_be_built_is_found_without_data(page, new, words):
    table = page('reweight = "dr", lr = 1', new)
    with pytest.raises(InputError, match="table mine, row 'Dr', column 'One'") as error:
        check_table(table)
    assert words in str(error.value)


def test_names_and_paths_are_told_apart(tmp_path):
    assert table_or_page("semi") is paper_table_of("semi")
    path = tmp_path / "semi.toml"
    path.write_text(PAGE, encoding="utf-8")
    assert table_or_page(str(path)).title == "mine"
    with pytest.raises(InputError, match=r"found 'sami'\. Did you mean semi"):
        table_or_page("sami")
    with pytest.raises(InputError, match="cannot be read"):
        table_or_page(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match="cannot be read"):
        table_or_page(str(tmp_path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        table_or_page(str(path))
