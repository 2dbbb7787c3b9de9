import warnings

from drgcn.records import set_aside_damaged
from drgcn.studies.records import RunRecord, load_records


def test_half_a_record_is_set_aside_with_its_reason(make_record, tmp_path):
    whole = make_record([0.8, 0.9], reweight="dr")
    whole.save(tmp_path)
    path = make_record([0.8, 0.9]).save(tmp_path)
    half = path.read_bytes()[:300]
    path.write_bytes(half)
    (line,) = set_aside_damaged(RunRecord, tmp_path)
    aside = tmp_path / "damaged" / path.name
    assert path.name in line
    assert "no whole JSON" in line
    assert "\n" not in line
    assert aside.read_bytes() == half
    assert "no whole JSON" in aside.with_suffix(".reason.txt").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_records(tmp_path) == [whole]
    assert set_aside_damaged(RunRecord, tmp_path) == []


def test_the_same_file_may_be_damaged_twice(make_record, tmp_path):
    for text in ("", "{", "[]"):
        path = tmp_path / make_record([0.8]).file_name
        path.write_text(text)
        assert len(RunRecord.damaged(tmp_path)) == 1
        assert len(set_aside_damaged(RunRecord, tmp_path)) == 1
    kept = sorted((tmp_path / "damaged").glob("*.json"))
    assert sorted(p.read_text() for p in kept) == ["", "[]", "{"]


def test_whole_records_and_other_files_stay_where_they_are(make_record, tmp_path):
    make_record([0.8]).save(tmp_path)
    (tmp_path / "notes.json").write_text("{")
    before = sorted(tmp_path.iterdir())
    assert set_aside_damaged(RunRecord, tmp_path) == []
    assert set_aside_damaged(RunRecord, tmp_path / "nowhere") == []
    assert sorted(tmp_path.iterdir()) == before
