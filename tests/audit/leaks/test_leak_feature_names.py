"""Names of feature columns from a table."""

import pytest

from drgcn.audit.leaks.words import read_feature_names
from drgcn.errors import InputError


def test_words_that_are_sure_are_kept(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text(
        "dim,stem,top_surface_word,confident\n2,c,theory,1\n0,a,neural,1\n1,b,x,0\n3,d,,1\n"
    )
    assert read_feature_names(path) == ("neural", None, "theory", None)


def test_two_columns_are_enough(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("﻿dim,word\n0,Größe\n1,théorie\n", encoding="utf-8")
    assert read_feature_names(path) == ("Größe", "théorie")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found no rows"),
        ("a,b\n1,2\n", "columns dim and word; found a, b"),
        ("dim,word\n0,a\n0,b\n", "line 3: expected dim"),
        ("dim,word\n-1,a\n", "line 2: expected dim"),
        ("dim,word\nx,a\n", "found 'x'"),
        ("dim,word\n1,a\n2,b\n", "columns 0 to 1, each once"),
        ("dim,word\n0,\xff\n", "cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "names.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        read_feature_names(path)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_feature_names(tmp_path / "none.csv")
