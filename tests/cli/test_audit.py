"""``drgcn audit`` as a user meets it."""

import json
from pathlib import Path

import pytest

from .test_cli import call, own_data  # noqa: F401 - fixtures


def test_findings_are_printed_worst_first(call, own_data):  # noqa: F811
    code, out, _ = call("audit", str(own_data))
    assert code == 0
    words = [line.split()[0] for line in out.split("\n\n")[0].splitlines()]
    order = ["serious", "warning", "note", "fine"]
    assert words == sorted(words, key=order.index)
    assert out.splitlines()[-1].startswith("mine: 0 serious")


def test_files_are_written(call, own_data):  # noqa: F811
    code, out, _ = call("audit", str(own_data), "--html", "a.html", "--json", "--markdown", "a.md")
    assert code == 0
    assert json.loads(out)["dataset"] == "mine"
    assert "<h1>Audit of mine</h1>" in Path("a.html").read_text()
    assert Path("a.md").read_text().startswith("# Audit of mine")


def test_something_serious_is_exit_code_1(call, own_data):  # noqa: F811
    nodes = own_data / "nodes.csv"
    text = nodes.read_text()
    assert call("audit", str(own_data))[0] == 0
    # A third class, in the test alone.
    lines = text.splitlines()
    lines[3] = lines[3].replace(",a,test", ",c,test").replace(",b,test", ",c,test")
    nodes.write_text("\n".join(lines) + "\n")
    before = nodes.read_bytes()
    with pytest.warns(UserWarning, match="no training node has"):
        code, out, _ = call("audit", str(own_data))
    with pytest.warns(UserWarning, match="no training node has"):
        code_of_json, values, _ = call("audit", str(own_data), "--json")
    assert (code, code_of_json) == (1, 1)
    serious = [
        one["name"] for one in json.loads(values)["findings"] if one["severity"] == "serious"
    ]
    assert serious == ["classes missing from training"]
    assert out.startswith("serious  classes missing from training")
    assert nodes.read_bytes() == before


def test_own_data_without_labels_is_audited(call, own_data):  # noqa: F811
    nodes = own_data / "nodes.csv"
    rows = [line.split(",")[:3] for line in nodes.read_text().splitlines()]
    nodes.write_text("\n".join(map(",".join, rows)) + "\n")
    code, out, _ = call("audit", str(own_data))
    assert code == 0
    assert "There is no split" in out


def test_labels_with_odd_names_are_no_trouble(call, own_data):  # noqa: F811
    nodes = own_data / "nodes.csv"
    text = nodes.read_text().replace(",a,", ',"<i>α</i>, ""$x_1""",').replace(",b,", ",|,")
    nodes.write_text(text)
    code, _, _ = call("audit", str(own_data), "--html", "a.html", "--markdown", "a.md")
    assert code == 0
    assert "<i>α" not in Path("a.html").read_text()


def texts(count, path="texts.jsonl"):
    lines = [json.dumps({"index": i, "text": f"text {i}"}) for i in range(count)]
    Path(path).write_text("\n".join(lines))
    return path


def test_texts_and_words_are_used(call, own_data):  # noqa: F811
    Path("words.csv").write_text("dim,word\n0,height\n1,weight\n")
    words = ("audit", str(own_data), "--text", texts(60), "--words", "words.csv")
    code, out, _ = call(*words)
    assert code == 0
    assert json.loads(call(*words, "--json")[1])["facts"]["texts"] == 60
    assert "label words in texts" in out
    assert "label words among features" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no dataset"),
        (["header-only"], "no rows"),
        (["mine", "--split", "tenfold"], "no split 'tenfold'"),
        (["mine", "--text", "short.jsonl"], "each of 60 nodes; found 7"),
        (["mine", "--text", "latin.jsonl"], "UTF-8"),
        (["mine", "--words", "latin.txt"], "cannot be read"),
        (["mine", "--words", "words.csv"], "2 "),
        (["mine", "--html", "."], "--html"),
        (["mine", "--markdown", "nowhere/a.md"], "--markdown"),
    ],
)
def test_bad_input_ends_in_one_line_and_exit_code_2(call, own_data, words, message):  # noqa: F811
    Path("header-only").mkdir()
    Path("header-only/nodes.csv").write_text("id,a,label\n")
    Path("header-only/edges.csv").write_text("source,target\n")
    texts(7, "short.jsonl")
    Path("latin.jsonl").write_bytes('{"index": 0, "text": "é"}'.encode("latin-1"))
    Path("latin.txt").write_bytes("é".encode("latin-1"))
    Path("words.csv").write_text("dim,word\n0,one\n1,two\n2,three\n")
    code, out, error = call("audit", *words)
    assert (code, out) == (2, "")
    assert message in error
    assert "\n" not in error.strip()


def same_thing(values):
    findings = {one["name"]: one for one in json.loads(values)["findings"]}
    return findings["the same thing in training"]


def test_identity_is_a_column_or_a_file(call, own_data):  # noqa: F811
    nodes = own_data / "nodes.csv"
    head, *rows = nodes.read_text().splitlines()
    # Node i and node i + 30 are the same thing, but for the last, which nobody knows.
    things = [f"thing {i % 30}" for i in range(59)] + [""]
    lines = [f"{row},{thing}" for row, thing in zip(rows, things, strict=True)]
    nodes.write_text("\n".join([f"{head},gene", *lines]) + "\n")
    Path("genes.txt").write_text("\n".join(things) + "\n")
    _, out, _ = call("audit", str(own_data), "--identity", "gene", "--html", "a.html", "--json")
    finding = same_thing(out)
    assert finding["numbers"]["things"] == 31
    assert finding["columns"] == ["predictor", "accuracy"]
    assert "look-up table of training labels" in Path("a.html").read_text()
    nodes.write_text("\n".join([head, *rows]) + "\n")
    _, listed, _ = call("audit", str(own_data), "--identity", "genes.txt", "--json")
    assert same_thing(listed) == finding
    assert "the same thing in training" not in call("audit", str(own_data))[1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gene", "needs a column 'gene'"),
        ("id", "has another meaning"),
        ("short.txt", "for each of the 60 nodes"),
        ("words.txt", "found 'NaN'"),
    ],
)
def test_an_identity_that_is_none_is_refused(call, own_data, name, message):  # noqa: F811
    Path("short.txt").write_text("1\n2\n")
    Path("words.txt").write_text("NaN\n" * 60)
    code, _, err = call("audit", str(own_data), "--identity", name)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("verb", ["audit", "stability", "data info"])
def test_values_to_predict_are_no_features(call, own_data, verb):  # noqa: F811
    nodes = own_data / "nodes.csv"
    head, *rows = nodes.read_text().splitlines()
    lines = [f"{head},price", *(f"{row},{i / 7}" for i, row in enumerate(rows))]
    nodes.write_text("\n".join(lines))

    def facts(*more):
        code, out, error = call(*verb.split(), "mine", *more, "--json")
        assert code in (0, 1), error
        found = json.loads(out)
        return found.get("facts", found.get("dataset", found))

    assert facts()["features"] == facts("--target", "price")["features"] + 1
