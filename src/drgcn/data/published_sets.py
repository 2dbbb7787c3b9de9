"""Descriptions of the datasets that others published."""

from __future__ import annotations

from itertools import permutations

from drgcn.data.checksums import SHA256
from drgcn.data.description import TWITCH_GRAPHS, Description, PublishedFile


def _files(folder: str, names: list[str], base: str | None = None) -> tuple[PublishedFile, ...]:
    paths = {name: f"{folder}/{name}" for name in names}
    return tuple(
        PublishedFile(path, SHA256[path], f"{base}/{name}" if base else None)
        for name, path in paths.items()
    )


def planetoid_set(name: str, title: str) -> Description:
    """A citation graph in Planetoid's layout."""
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


def refined_set(name: str, stem: str, title: str) -> Description:
    """A refined citation graph of the paper's authors."""
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


def benchmark_set(name: str, title: str, citation: str) -> Description:
    """A graph in the layout of gnn-benchmark."""
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


def heterophilous_set(name: str, title: str) -> Description:
    """A graph of the heterophilous benchmark."""
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


def twitch_set() -> Description:
    """Twitch, seven graphs."""
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


def ppi_set() -> Description:
    """PPI, 24 graphs."""
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


def reddit_set() -> Description:
    """Reddit, in two layouts."""
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
