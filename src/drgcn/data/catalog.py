"""What datasets there are, and everything about them that needs no file: names, splits, homes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import permutations
from types import MappingProxyType
from typing import Final, Literal

from drgcn.data.checksums import SHA256
from drgcn.errors import InputError

Family = Literal[
    "planetoid",
    "refined",
    "gnn-benchmark",
    "heterophilous",
    "twitch",
    "ppi",
    "reddit",
    "table",
    "planted",
    "reddit-like",
]

TWITCH_GRAPHS: Final = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "ZHTW")


@dataclass(frozen=True)
class PublishedFile:
    """A file of a dataset: its path under a data root, and its digest and link where known."""

    path: str
    sha256: str | None
    url: str | None = None


@dataclass(frozen=True)
class Description:
    """A catalogue entry: what can be said of a dataset without opening it.

    Attributes:
        name: The name :func:`drgcn.data.load` knows it by.
        title: One line for people.
        family: The published layout that its files follow.
        splits: Names of the splits, the default first.
        normalize: What is done to the features unless the caller says otherwise.
        licence: The licence, in the publisher's words where there are any.
        citation: The paper to cite.
        home: Where the publisher keeps the files.
        files: The files it is read from; none for sets that are made on the spot.
        other_files: The files of another published layout; all of them will do instead.
        other_home: Where that layout is kept.
        options: Keywords that ``load`` takes for this set alone.
        per_class: Training and validation nodes per class in the split ``random``.
    """

    name: str
    title: str
    family: Family
    splits: tuple[str, ...]
    normalize: Literal["row", "standard", "none"]
    licence: str
    citation: str
    home: str
    files: tuple[PublishedFile, ...] = ()
    other_files: tuple[PublishedFile, ...] = ()
    other_home: str = ""
    options: tuple[str, ...] = ()
    per_class: tuple[int, int] | None = None

    @property
    def default_split(self) -> str:
        """The split that is used when none is asked for."""
        return self.splits[0]


def _files(folder: str, names: list[str], base: str | None = None) -> tuple[PublishedFile, ...]:
    paths = {name: f"{folder}/{name}" for name in names}
    return tuple(
        PublishedFile(path, SHA256[path], f"{base}/{name}" if base else None)
        for name, path in paths.items()
    )


def _planetoid(name: str, title: str) -> Description:
    ends = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
    home = "https://github.com/kimiyoung/planetoid"
    return Description(
        name=name,
        title=title,
        family="planetoid",
        splits=("public", "full"),
        # NOTE[PAPER]: nothing is said of scaling these word counts; the code bases it builds on
        # divide each row by its sum.
        normalize="row",
        licence="not stated; research use",
        citation="Yang, Cohen and Salakhutdinov, Revisiting Semi-Supervised Learning with Graph "
        "Embeddings, ICML 2016",
        home=home,
        files=_files(
            "planetoid", [f"ind.{name}.{end}" for end in ends], f"{home}/raw/master/data"
        ),
    )


def _refined(name: str, stem: str, title: str) -> Description:
    home = "https://github.com/THUDM/Refined-cora-citeseer"
    return Description(
        name=name,
        title=title,
        family="refined",
        splits=("full",),
        # NOTE[PAPER]: whether these signed features were row-normalised is not stated; dividing
        # by a signed sum is ill-conditioned, so they are left as they are.
        normalize="none",
        licence="not stated",
        citation="Zou et al., Dimensional Reweighting Graph Convolutional Networks, "
        "arXiv:1907.02237, 2019",
        home=home,
        files=_files("refined", [f"{stem}_adj.pkl", f"{stem}_labels.pkl"], f"{home}/raw/master"),
        options=("features",),
    )


def _benchmark(name: str, title: str, citation: str) -> Description:
    return Description(
        name=name,
        title=title,
        family="gnn-benchmark",
        splits=("random", "random-60"),
        normalize="row",
        licence="MIT",
        citation=citation,
        home="https://github.com/EdisonLeeeee/GraphData",
        files=_files("graphs", [f"{name.replace('-', '_')}.npz"]),
        per_class=(20, 30),
    )


def _heterophilous(name: str, title: str) -> Description:
    home = "https://github.com/yandex-research/heterophilous-graphs"
    return Description(
        name=name,
        title=title,
        family="heterophilous",
        splits=tuple(str(number) for number in range(10)),
        normalize="none",
        licence="MIT",
        citation="Platonov et al., A Critical Look at the Evaluation of GNNs under Heterophily: "
        "Are We Really Making Progress?, ICLR 2023",
        home=home,
        files=_files("graphs", [f"{name.replace('-', '_')}.npz"], f"{home}/raw/main/data"),
    )


def _twitch() -> Description:
    parts = ("edges.csv", "features.json", "target.csv")
    rotations = [f"{val}-{test}" for val, test in permutations(TWITCH_GRAPHS, 2)]
    return Description(
        name="twitch",
        title="Twitch streamers of seven languages in one feature space",
        family="twitch",
        # Alphabetical order, the last two held out; every other pair may be named as well.
        splits=(*sorted(rotations, key="RU-ZHTW".__ne__), "random-60"),
        normalize="row",
        licence="GPL-3.0",
        citation="Rozemberczki, Allen and Sarkar, Multi-Scale Attributed Node Embedding, "
        "Journal of Complex Networks, 2021",
        home="https://github.com/benedekrozemberczki/MUSAE",
        files=_files("twitch", [f"{graph}_{part}" for graph in TWITCH_GRAPHS for part in parts]),
        options=("graph",),
    )


def _ppi() -> Description:
    own = ("G.json", "id_map.json", "class_map.json", "feats.npy")
    other = ("feats.npy", "graph_id.npy", "graph.json", "labels.npy")
    return Description(
        name="ppi",
        title="PPI, proteins of 24 tissues with 121 labels each",
        family="ppi",
        splits=("published",),
        # NOTE[PAPER]: nothing is said of scaling; GraphSAGE and GAT, whose task this is, give
        # the training nodes mean zero and variance one. Where files come scaled that way, doing
        # it again changes no more than rounding.
        normalize="standard",
        licence="not stated; research use",
        citation="Hamilton, Ying and Leskovec, Inductive Representation Learning on Large Graphs, "
        "NeurIPS 2017",
        home="https://snap.stanford.edu/graphsage/",
        # The digests are not known.
        files=tuple(PublishedFile(f"ppi/ppi-{end}", None) for end in own),
        other_files=tuple(
            PublishedFile(f"ppi/{part}_{end}", None)
            for part in ("train", "valid", "test")
            for end in other
        ),
        other_home="https://data.dgl.ai/dataset/ppi.zip",
    )


def _reddit() -> Description:
    saint = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
    return Description(
        name="reddit",
        title="Reddit, posts of 41 communities that share commenters (11.6 million edges)",
        family="reddit",
        splits=("full", "graphsage"),
        # NOTE[PAPER]: nothing is said of scaling; FastGCN and AS-GCN, whose scripts the paper's
        # rows come from, divide each row by its signed sum. GraphSAGE standardises.
        normalize="row",
        licence="not stated; research use",
        citation="Hamilton, Ying and Leskovec, Inductive Representation Learning on Large Graphs, "
        "NeurIPS 2017",
        home="https://github.com/GraphSAINT/GraphSAINT",
        # The digests are not known, and the publishers' links need a browser.
        files=tuple(PublishedFile(f"reddit/{name}", None) for name in saint),
        other_files=tuple(
            PublishedFile(f"reddit/{name}", None) for name in ("reddit.npz", "reddit_adj.npz")
        ),
        other_home="https://github.com/matenure/FastGCN/issues/8",
        options=("counts",),
    )


def _table(name: str, title: str, per_class: tuple[int, int]) -> Description:
    return Description(
        name=name,
        title=title,
        family="table",
        splits=("random", "random-60"),
        normalize="none",
        licence="CC BY 4.0 (UCI Machine Learning Repository), shipped with scikit-learn",
        citation="Pedregosa et al., Scikit-learn: Machine Learning in Python, JMLR 2011",
        home="https://scikit-learn.org/stable/datasets/toy_dataset.html",
        options=("k",),
        per_class=per_class,
    )


def _planted() -> Description:
    return Description(
        name="planted",
        title="Synthetic: a few informative features among loud ones that mean nothing",
        family="planted",
        splits=("random",),
        normalize="none",
        licence="none needed; made by this package",
        citation="",
        home="",
        options=(
            "nodes",
            "classes",
            "features",
            "informative",
            "signal",
            "nuisance_scale",
            "homophily",
            "mean_degree",
            "labels_per_class",
            "val_per_class",
            "seed",
        ),
    )


def _reddit_like() -> Description:
    return Description(
        name="reddit-like",
        title="Synthetic: a stand-in of Reddit's size; no number on it compares with Reddit's",
        family="reddit-like",
        splits=("full", "graphsage"),
        normalize="row",
        licence="none needed; made by this package",
        citation="",
        home="",
        options=("counts", "scale", "seed"),
    )


_SHCHUR = "Shchur et al., Pitfalls of Graph Neural Network Evaluation, arXiv:1811.05868, 2018"

_CATALOG: Final[Mapping[str, Description]] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            _planetoid("cora", "Cora, citations among machine-learning papers (Planetoid)"),
            _planetoid(
                "citeseer", "Citeseer, citations among computer-science papers (Planetoid)"
            ),
            _planetoid("pubmed", "Pubmed, citations among papers on diabetes (Planetoid)"),
            _refined("corar", "corax", "CoraR, the refined Cora with continuous features"),
            _refined("citeseerr", "citeseerx", "CiteseerR, the refined Citeseer"),
            _benchmark("amazon-photo", "Amazon Photo, goods bought together", _SHCHUR),
            _benchmark("coauthor-cs", "Coauthor CS, authors who wrote together", _SHCHUR),
            _benchmark(
                "blogcatalog",
                "BlogCatalog, bloggers and their contacts",
                "Huang, Li and Hu, Label Informed Attributed Network Embedding, WSDM 2017",
            ),
            _heterophilous("tolokers", "Tolokers, crowd workers who shared a task"),
            _heterophilous("chameleon-filtered", "Chameleon, Wikipedia pages without duplicates"),
            _heterophilous("squirrel-filtered", "Squirrel, Wikipedia pages without duplicates"),
            _twitch(),
            _ppi(),
            _reddit(),
            _table("digits", "Digits, 8x8 images joined to their nearest neighbours", (20, 30)),
            _table("breast-cancer", "Breast cancer, cell measurements joined likewise", (20, 30)),
            # The smallest of wine's classes holds 48 bottles: 20 + 30 would leave no test.
            _table("wine", "Wine, chemical analyses joined likewise", (10, 10)),
            _planted(),
            _reddit_like(),
        )
    }
)


def names() -> list[str]:
    """Names of all datasets in the catalogue."""
    return list(_CATALOG)


def describe(name: str) -> Description:
    """The catalogue entry of a dataset; case, ``-`` and ``_`` do not matter.

    Raises:
        InputError: If there is no such dataset.
    """
    entry = _CATALOG.get(name.lower().replace("_", "-"))
    if entry is not None:
        return entry
    close = get_close_matches(name.lower(), _CATALOG, n=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise InputError(
        f"there is no dataset {name!r}: {hint}known are {', '.join(_CATALOG)}; your own data is "
        "given as the path of a folder, an .npz or a .pt file"
    )
