"""Words of class names, texts and features, against a literal reading of the rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages.leaks import CombinedWords

from drgcn.audit.leaks.words import RULES, FeatureWords, LabelWords, TextIndex, read_feature_names
from drgcn.audit.texts import stem, stemmed_words
from drgcn.errors import InputError


def test_forms_of_a_word_have_one_stem():
    for word, other in [
        ("networks", "network"),
        ("Learning", "learned"),
        ("theories", "theory"),
        ("agents", "agent"),
        ("databases", "Database"),
        ("retrieval", "retrieve"),
        ("algorithms", "algorithm"),
        ("intelligent", "intelligence"),
    ]:
        assert stemmed_words(word) == stemmed_words(other), word


def test_other_words_have_other_stems():
    for word, other in [
        ("theory", "theoretical"),
        ("probability", "probabilistic"),
        ("rule", "ruler"),
    ]:
        assert stem(word) != stem(other), word


def test_ligatures_and_wide_letters_are_letters():
    assert stemmed_words("ﬁnding ｎｅｔｗｏｒｋ") == ["find", "network"]


def test_names_become_words():
    for name, forms in [
        ("Reinforcement_Learning", (("reinforcement", "learning"),)),
        ("NeuralNetworks", (("neural", "networks"),)),
        ("Case-Based", (("case", "based"),)),
        ("IR", (("information", "retrieval"),)),
        ("Diabetes Mellitus Type 1", (("diabetes", "mellitus", "type", "1"),)),
        ("Künstliche Intelligenz", (("künstliche", "intelligenz"),)),
        ("", ()),
        ("7", ()),
        ("_ -- !", ()),
        ("of the", ()),
    ]:
        assert LabelWords.of(name).forms == forms, name


def test_a_name_may_be_written_in_several_ways():
    words = LabelWords.of("AI", {"AI": ("Artificial Intelligence", "AI")})
    assert words.forms == (("artificial", "intelligence"), ("ai",))
    texts = TextIndex(["an AI paper", "artificial life", "intelligence, artificial", ""], 4)
    assert words.found(texts, "all").tolist() == [True, False, True, False]
    assert words.found(texts, "any").tolist() == [True, True, True, False]
    assert words.found(texts, "phrase").tolist() == [True, False, False, False]


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(InputError, match="class names to be strings; found 3"):
        LabelWords.of(3)


def test_an_unknown_rule_is_refused():
    with pytest.raises(InputError, match="one of all, any, phrase; found 'some'"):
        LabelWords.of("Theory").found(TextIndex(["theory"], 1), "some")


def test_digits_count_but_not_alone():
    words = LabelWords.of("Type_1")
    texts = TextIndex(["type 1", "type 2", "1 of 2", "1 type"], 4)
    assert words.found(texts, "all").tolist() == [True, False, False, True]
    assert words.found(texts, "any").tolist() == [True, True, False, True]
    assert words.found(texts, "phrase").tolist() == [True, False, False, False]


def test_small_words_are_no_part_of_all():
    words = LabelWords.of("Theory_of_Computation")
    texts = TextIndex(["computational theories", "theory of computation", "theory of"], 3)
    assert words.found(texts, "all").tolist() == [True, True, False]
    assert words.found(texts, "phrase").tolist() == [False, True, False]


def test_a_name_written_as_one_word_is_found_by_every_rule():
    texts = TextIndex(["CaseBased reasoning", "case by case", "casebase"], 3)
    for rule in RULES:
        found = LabelWords.of("Case_Based").found(texts, rule)
        assert found.tolist()[:2] == [True, rule == "any"]


def test_a_phrase_keeps_to_whole_words_and_to_its_order():
    texts = TextIndex(["neural network", "network neural", "unneural networks", "x neural"], 4)
    found = LabelWords.of("Neural_Networks").found(texts, "phrase")
    assert found.tolist() == [True, False, False, False]


def test_a_very_long_name_is_looked_for():
    name = "_".join(f"word{chr(97 + i % 26)}{i}" for i in range(5000))
    texts = TextIndex([name.replace("_", " "), "worda0"], 2)
    words = LabelWords.of(name)
    assert words.found(texts, "all").tolist() == [True, False]
    assert words.found(texts, "phrase").tolist() == [True, False]
    assert words.found(texts, "any").tolist() == [True, True]


WORDS = ("neural", "networks", "network", "learning", "rule", "rules", "of", "casebased")


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=5),
    name=st.lists(st.sampled_from(WORDS[:7]), min_size=1, max_size=3),
)
def test_rules_are_those_read_literally(texts, name):
    words = LabelWords.of(" ".join(name))
    if not words.forms:
        return
    index = TextIndex([" ".join(text) for text in texts], len(texts))
    stems = [stem(word) for word in name]
    joined = stem("".join(name))
    for node, text in enumerate(texts):
        has = [stem(word) for word in text]
        whole = joined in has
        telling = [s for s, word in zip(stems, name, strict=True) if word != "of"]
        expected = {
            "all": whole or all(s in has for s in telling),
            "any": whole or any(s in has for s in telling),
            "phrase": whole
            or any(has[i : i + len(stems)] == stems for i in range(len(has) - len(stems) + 1)),
        }
        for rule in RULES:
            assert words.found(index, rule)[node] == expected[rule], (rule, text)


def test_features_know_words_by_the_names_of_columns():
    x = np.array([[1, 0, 0.5, 0], [0, -2, 0, 3], [0, 0, 0, 1]], dtype=np.float32)
    features = FeatureWords(x, ["neural", "Networks", "network", None])
    assert features.has_word("network").tolist() == [True, True, False]
    assert features.has_word("neural").tolist() == [True, False, False]
    assert features.has_word("missing").tolist() == [False, False, False]
    assert features.readable.tolist() == [True, True, False]
    assert features.columns("network") == [1, 2]
    words = LabelWords.of("Neural_Networks")
    assert words.found(features, "all").tolist() == [True, False, False]
    # Features have no order, but the name of one column has.
    assert words.found(features, "phrase").tolist() == [False, False, False]
    pairs = FeatureWords(x, ["neural network", "network neural", None, None])
    assert words.found(pairs, "phrase").tolist() == [True, False, False]


def test_words_of_text_and_features_add_up():
    texts = TextIndex(["neural", "network", ""], 3)
    features = FeatureWords(np.array([[1.0], [0.0], [1.0]]), ["networks"])
    both = CombinedWords(texts, features)
    found = LabelWords.of("Neural_Networks").found(both, "all")
    assert found.tolist() == [True, False, False]
    assert both.readable.tolist() == [True, True, True]
    assert both.has_phrase(["neural", "network"]).tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["one"], "one text for each of 2 nodes; found 1 texts"),
        ("ab", "found a single string"),
        (["a", b"b"], "text of node 1 to be a string; found bytes"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(texts, message):
    with pytest.raises(InputError, match=message):
        TextIndex(texts, 2)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["one"], "each of 2 feature columns; found 1 names"),
        ("ab", "found a single string"),
        (["a", 2], "name of feature column 1 to be a string; found int"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, message):
    with pytest.raises(InputError, match=message):
        FeatureWords(np.zeros((3, 2)), names)


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
        (f"dim,word\n{'9' * 5000},a\n", "line 2: expected dim"),
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
