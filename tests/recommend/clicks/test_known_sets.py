"""The published sets: as counted by their publishers, and small files of the same form."""

import csv
import random
from pathlib import Path

import pytest
import torch

from drgcn.errors import InputError, MissingDataError
from drgcn.recommend.clicks import ClickData, ClickSplit, load_clicks, read_text_folder
from drgcn.recommend.clicks.known_sets import _HEADERS

from .tables import clicks_of

SIZES = {  # users, items, clicks seen, clicks to find
    "gowalla": (29_858, 40_981, 810_128, 217_242),
    "amazon-book": (70_679, 24_915, 652_514, 193_920),
    "movielens-1m": (6_039, 3_628, 671_630, 164_848),
}


@pytest.mark.data
@pytest.mark.parametrize("name", SIZES)
def test_official_splits(real, real_root, name):
    data = real(name)
    split = ClickSplit.official(data)
    sizes = (data.graph.num_users, data.graph.num_items)
    assert (*sizes, split.train.num_clicks, split.targets.num_clicks) == SIZES[name]
    pairs = set(literal_lines(real_root / "recommend" / name / "test.txt"))
    assert set(clicks_of(split.targets)) == pairs


@pytest.mark.data
def test_movielens_100k(real, real_root):
    data = real("movielens-100k")
    folder = real_root / "recommend" / "movielens-100k"
    with (folder / "ml-100k.inter").open() as file:
        ratings = [
            (int(u), int(i), int(t)) for u, i, _, t in list(csv.reader(file, delimiter="\t"))[1:]
        ]
    zero = min(time for _, _, time in ratings) // 86_400
    users, items = data.user_ids.to_pylist(), data.item_ids.to_pylist()
    found = {
        (users[user], items[item]): day for (user, item), day in clicks_of(data.graph).items()
    }
    assert found == {(user, item): time // 86_400 - zero for user, item, time in ratings}
    with (folder / "ml-100k.user").open() as file:
        people = {int(row[0]): row for row in list(csv.reader(file, delimiter="\t"))[1:]}
    genders, occupations = (values.to_pylist() for values in data.users.category_values)
    for place in range(0, 943, 31):
        _, age, gender, occupation, _ = people[users[place]]
        assert data.users.numeric[place].tolist() == [float(age)]
        first, second = data.users.categories[place].tolist()
        assert (genders[first], occupations[second]) == (gender, occupation)
    toys = items.index(1)
    names = [
        name
        for name, value in zip(data.items.numeric_names, data.items.numeric[toys], strict=True)
        if value == 1
    ]
    assert data.items.numeric[toys, 0] == 1995
    assert names == ["genre: Animation", "genre: Children's", "genre: Comedy"]


@pytest.mark.data
def test_movielens_1m_attributes(real, real_root):
    data = real("movielens-1m")
    lines = (real_root / "recommend" / "movielens-1m" / "users.dat").read_text().splitlines()
    for place in (0, 3596, 3597, 6038):
        raw = place + 1 if place < 3597 else place + 2
        fields = lines[raw - 1].split("::")
        assert int(fields[0]) == raw
        codes = data.users.categories[place].tolist()
        values = [v[c].as_py() for v, c in zip(data.users.category_values, codes, strict=True)]
        assert values == fields[1:4]
    lost = data.items.numeric.isnan().all(1)
    assert int(lost.sum()) == 239
    assert not data.items.numeric[~lost].isnan().any()


def small_movielens_1m(folder):
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("0 0 1\n1 1\n")
    (folder / "valid.txt").write_text("0 2\n")
    (folder / "test.txt").write_text("1 3\n")
    (folder / "users.dat").write_text("1::F::1::10::48067\n2::M::56::16::70072\n")
    (folder / "movies.dat").write_text("7::Toys (1995)::War|Comedy\n9::Old (I) (1931)::Drama\n")
    (folder / "item_to_raw.csv").write_text("lightgcnpp_item,raw_movie_id\n0,9\n1,7\n3,8\n")
    return folder


def test_small_files_of_the_same_form(tmp_path):
    small_movielens_1m(tmp_path / "recommend" / "movielens-1m")
    data = load_clicks("movielens-1m", tmp_path)
    assert clicks_of(data.graph) == {(0, 0): 0, (0, 1): 0, (0, 2): 1, (1, 1): 0, (1, 3): 2}
    assert data.items.numeric_names == ("year", "genre: Comedy", "genre: Drama", "genre: War")
    numbers = "[[1931.0, 0.0, 1.0, 0.0], [1995.0, 1.0, 0.0, 1.0], "
    gaps = ", ".join(["[nan, nan, nan, nan]"] * 2)
    assert str(data.items.numeric.tolist()) == numbers + gaps + "]"
    assert data.items.categories.shape == (4, 0)
    data.save(tmp_path / "saved")
    again = load_clicks(tmp_path / "saved")
    assert again.content_hash == data.content_hash
    assert again.parts == ("train", "valid", "test")
    assert torch.equal(again.users.categories, data.users.categories)


def small_movielens_100k(
    folder, click="1\t1\t5\t86400", user="1\t24\tM\ta\t0", film="1\tA\t1995\tWar"
):
    folder.mkdir(parents=True, exist_ok=True)
    for (name, header), line in zip(_HEADERS.items(), (click, user, film), strict=True):
        (folder / name).write_text("\t".join(header) + f"\n{line}\n", encoding="utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        *({"click": f"{user}\t1\t5\t86400"} for user in ("1.0", "1_0", "\u0661", "nan", "-1")),
        *({"click": f"1\t1\t5\t{time}"} for time in ("nan", "inf", "1e300", "-5", "1_0", "")),
        *({"user": f"1\t{age}\tM\ta\t0"} for age in ("\u0662", "1_0", "nan", "inf", "1e400")),
        {"user": "\u0661\t24\tM\ta\t0"},
        *({"film": f"1\tA\t{year}\tWar"} for year in ("\u0661", "9" * 5000, "\u00b2")),
    ],
)
def test_numbers_are_in_plain_digits(tmp_path, changes):
    folder = tmp_path / "recommend" / "movielens-100k"
    small_movielens_100k(folder)
    assert load_clicks("movielens-100k", tmp_path).graph.num_clicks == 1
    small_movielens_100k(folder, **changes)
    with pytest.raises(InputError, match="is no whole number"):
        load_clicks("movielens-100k", tmp_path)


def test_sets_that_are_not_there(tmp_path):
    with pytest.raises(MissingDataError, match=r"test\.txt not found.*DRGCN_DATA"):
        load_clicks("gowalla", tmp_path)
    with pytest.raises(InputError, match="Expected a folder of clicks or one of gowalla"):
        load_clicks("gowala", tmp_path)
    with pytest.raises(InputError, match="has no clicks"):
        load_clicks(tmp_path)
    folder = small_movielens_1m(tmp_path / "recommend" / "movielens-1m")
    (folder / "users.dat").write_text("1::F::1\n")
    with pytest.raises(InputError, match=r"Expected 5 fields in line 1 of .*users\.dat; found 3"):
        load_clicks("movielens-1m", tmp_path)
    (folder / "users.dat").write_text("x::F::1::10::48067\n")
    with pytest.raises(InputError, match="Expected the published files of movielens-1m"):
        load_clicks("movielens-1m", tmp_path)


def test_a_folder_with_a_manifest_is_read_as_such(tmp_path):
    small_movielens_1m(tmp_path / "recommend" / "movielens-1m")
    folder = load_clicks("movielens-1m", tmp_path).save(tmp_path / "saved")
    (folder / "train.txt").write_text("0 1\n")
    assert load_clicks(str(folder)).content_hash == ClickData.load(folder).content_hash


def literal_lines(path):
    rows = [[int(word) for word in line.split()] for line in Path(path).read_text().splitlines()]
    return [(row[0], item) for row in rows if row for item in row[1:]]


def write_folder(folder, **parts):
    folder.mkdir(exist_ok=True)
    for part, text in parts.items():
        (folder / f"{part}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("seed", range(2))
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


def test_files_that_cannot_be_used(tmp_path):
    for train, test, words in [
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
    ]:
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


def test_ids_are_no_sizes(tmp_path):
    largest = 10**18 - 1
    folder = write_folder(
        tmp_path / "set", train=f"0 1\n3000000000 1\n{largest}\n", test=f"0 {largest}\n"
    )
    data = read_text_folder(folder, keep_unseen=True)
    assert clicks_of(data.graph) == {(0, 0): 0, (0, 1): 2, (1, 0): 0}
    assert data.user_ids.to_pylist() == [0, 3_000_000_000, largest]
    assert data.item_ids.to_pylist() == [1, largest]
    again = ClickData.load(data.save(tmp_path / "saved"))
    assert again.item_ids.to_pylist() == [1, largest]
    write_folder(folder, test=f"3000000000 1 {largest}\n")
    with pytest.raises(InputError, match="first is of user 3000000000 on item 1"):
        read_text_folder(folder, keep_unseen=True)


def test_gaps_in_published_files_are_refused(tmp_path):
    folder = tmp_path / "recommend" / "movielens-1m"
    small_movielens_1m(folder)
    with (folder / "train.txt").open("a") as file:
        file.write("\n3000000000 1\n")
    with pytest.raises(InputError, match="without gaps"):
        load_clicks("movielens-1m", tmp_path)
