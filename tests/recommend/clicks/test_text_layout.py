"""Lines of a user and items, held against a reader that splits them one by one."""

import random
from pathlib import Path

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickSplit, load_clicks, read_text_folder

from .tables import clicks_of


def literal_lines(path):
    rows = [[int(word) for word in line.split()] for line in Path(path).read_text().splitlines()]
    return [(row[0], item) for row in rows if row for item in row[1:]]


def write_folder(folder, **parts):
    folder.mkdir(exist_ok=True)
    for part, text in parts.items():
        (folder / f"{part}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("seed", range(4))
def test_parts_are_those_of_the_lines(tmp_path, seed):
    draw = random.Random(seed)
    pairs = draw.sample([(user, item) for user in range(30) for item in range(20)], 300)
    pairs += [(0, item) for item in range(20) if (0, item) not in pairs]
    parts = {"train": pairs[:150] + pairs[300:], "valid": pairs[150:200], "test": pairs[200:300]}
    for part, of_part in parts.items():
        lines = []
        for user in range(31):
            items = [str(item) for other, item in of_part if other == user]
            gap = draw.choice([" ", "  ", "\t"])
            if items or draw.random() < 0.5:  # a user may stand alone
                lines.append(gap.join([str(user), *items]) + draw.choice(["", " "]))
        end = draw.choice(["\n", "\r\n"])
        write_folder(tmp_path / "set", **{part: end.join(lines) + draw.choice(["", end])})
    with_user = write_folder(
        tmp_path / "set", train=(tmp_path / "set/train.txt").read_text() + "\n30\n"
    )
    data = read_text_folder(with_user, keep_unseen=True)
    expected = {
        pair: day
        for day, part in enumerate(data.parts)
        for pair in literal_lines(with_user / f"{part}.txt")
    }
    assert clicks_of(data.graph) == dict(sorted(expected.items()))
    assert len(expected) == len(pairs)
    assert (data.graph.num_users, data.graph.num_items) == (31, 20)
    assert data.name == "set"
    split = ClickSplit.official(data)
    assert set(clicks_of(split.targets)) == set(parts["test"])
    assert set(clicks_of(split.train)) == set(parts["train"]) | set(parts["valid"])


def test_without_validation_and_by_folder(tmp_path):
    folder = write_folder(tmp_path / "set", train="0 1 2 2\n1 0\n", test="0 0\n")
    data = load_clicks(folder)
    assert clicks_of(data.graph) == {(0, 0): 2, (0, 1): 0, (0, 2): 0, (1, 0): 0}
    assert torch.equal(data.graph.by_user.degree, torch.tensor([3, 1]))
    with pytest.raises(InputError, match="Expected clicks on day 1; found none"):
        ClickSplit.official(data, "valid")


@pytest.mark.parametrize(
    ("train", "test", "words"),
    [
        ("0 1\n1 -2\n", "0 0\n", r"train\.txt; found a negative number in line 2"),
        ("0 1\n1 x\n", "0 0\n", r"train\.txt; found the sign 'x' in line 2"),
        ("0 1.5\n", "0 0\n", r"found the sign '\.' in line 1"),
        ("", "0 0\n", r"train\.txt; it is empty"),
        (" \n\n", "0 0\n", r"train\.txt; it is empty"),
        (
            "0 1\n",
            "0 2\n",
            r"every item of .*test\.txt .*found 1 that were never seen, the first is 2",
        ),
        ("0 1\n1 0\n", "0 1\n", "1 of test in a part before it, the first is of user 0 on item 1"),
        ("0\n", "1\n", "its files hold users alone"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, train, test, words):
    folder = write_folder(tmp_path / "set", train=train, test=test)
    with pytest.raises(InputError, match=words):
        read_text_folder(folder)


def test_numbers_too_large_are_refused(tmp_path):
    folder = write_folder(tmp_path / "set", train=f"0 {2**63}\n", test="0 1\n")
    with pytest.raises(InputError, match="at most 18 digits in line 1"):
        read_text_folder(folder)


def test_files_that_are_not_there(tmp_path):
    folder = write_folder(tmp_path / "set", train="0 1\n")
    with pytest.raises(InputError, match=r"Expected a file .*test\.txt; No such file"):
        read_text_folder(folder)
