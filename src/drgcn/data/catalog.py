"""Catalogue of the published datasets: descriptions, files and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import permutations
from types import MappingProxyType
from typing import Final, Literal

from drgcn.errors import InputError

Family = Literal[
    "planetoid",
    "refined",
    "gnn-benchmark",
    "heterophilous",
    "twitch",
    "ppi",
    "ppi-rebuilt",
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
    """Catalogue entry of a dataset: facts that need no file to be opened.

    Attributes:
        name: The name :func:`drgcn.data.load` knows it by.
        title: One line that describes it.
        family: The published layout that its files follow.
        splits: Names of the splits, the default first.
        normalize: Normalisation of the features unless the caller names another.
        licence: The licence, in the publisher's words where there are any.
        citation: The paper to cite.
        home: The publisher's page of the files; empty where nobody publishes them.
        files: The files it is read from; none for sets that are generated.
        other_files: The files of another published layout, which can be used instead.
        other_home: The page of that layout.
        options: Keywords that ``load`` takes for this set alone.
        per_class: Training and validation nodes per class in the split ``random``.
        identity: Meaning of ``data.identity``, which is equal for nodes that are the same thing.
        stands_for: The published set whose task it has, where its results are not comparable.
        remark: Words that stand beside its name in every table of results.
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
    identity: str = ""
    stands_for: str = ""
    remark: str = ""

    @property
    def default_split(self) -> str:
        """The split that is used when none is asked for."""
        return self.splits[0]


def names() -> list[str]:
    """Return the names of all datasets in the catalogue."""
    return list(_CATALOG)


def describe(name: str) -> Description:
    """Return the catalogue entry of a dataset; case, ``-`` and ``_`` do not matter.

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


def remark_of(name: str) -> str:
    """Return the words that stand beside a dataset's name in tables; mostly none."""
    return _CATALOG[name].remark if name in _CATALOG else ""


def _files(folder: str, names: list[str], base: str | None = None) -> tuple[PublishedFile, ...]:
    paths = {name: f"{folder}/{name}" for name in names}
    return tuple(
        PublishedFile(path, _SHA256[path], f"{base}/{name}" if base else None)
        for name, path in paths.items()
    )


def _planetoid_set(name: str, title: str) -> Description:
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


def _refined_set(name: str, stem: str, title: str) -> Description:
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


def _benchmark_set(name: str, title: str, citation: str) -> Description:
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


def _heterophilous_set(name: str, title: str) -> Description:
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


def _twitch_set() -> Description:
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


def _ppi_set() -> Description:
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


def _rebuilt_ppi_set() -> Description:
    """PPI with labels that are not the published ones."""
    published = _ppi_set()
    return Description(
        name="ppi-rebuilt",
        title="PPI with rebuilt labels; no number on it compares with PPI's",
        family="ppi-rebuilt",
        splits=("published", "disjoint"),
        normalize=published.normalize,
        licence="not stated for most of its sources (docs/data.md)",
        citation=published.citation,
        home="",
        files=_files("ppi-rebuilt", ["ppi_rebuilt.npz"]),
        identity="entrez",
        stands_for=published.name,
        remark="rebuilt labels, not comparable",
    )


def _reddit_set() -> Description:
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


def _table_set(name: str, title: str, per_class: tuple[int, int]) -> Description:
    """A table of scikit-learn as a graph."""
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


def _planted_set() -> Description:
    """The planted graph, in which Dr can help."""
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


def _reddit_like_set() -> Description:
    """The synthetic graph of Reddit's size."""
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


# Digests of published files, in the form that `sha256sum --check` reads.
_DIGESTS: Final = """\
2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668  planetoid/ind.citeseer.allx
f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95  planetoid/ind.citeseer.ally
d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7  planetoid/ind.citeseer.graph
2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4  planetoid/ind.citeseer.test.index
539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21  planetoid/ind.citeseer.tx
55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce  planetoid/ind.citeseer.ty
d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6  planetoid/ind.citeseer.x
8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924  planetoid/ind.citeseer.y
9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543  planetoid/ind.cora.allx
2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71  planetoid/ind.cora.ally
58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d  planetoid/ind.cora.graph
297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875  planetoid/ind.cora.test.index
b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a  planetoid/ind.cora.tx
41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad  planetoid/ind.cora.ty
23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab  planetoid/ind.cora.x
94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1  planetoid/ind.cora.y
508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e  planetoid/ind.pubmed.allx
0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e  planetoid/ind.pubmed.ally
5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9  planetoid/ind.pubmed.graph
b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5  planetoid/ind.pubmed.test.index
4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d  planetoid/ind.pubmed.tx
ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd  planetoid/ind.pubmed.ty
fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33  planetoid/ind.pubmed.x
e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3  planetoid/ind.pubmed.y
3046237c8cf8d8e720432327f5fa3f8fcee43a9de3d2d2e1fd02909ee19ed70d  refined/citeseerx_adj.pkl
0de533c0383ce6e6e7a60422caa75bb2655baa1e0dbc65296ebef3be18a95777  refined/citeseerx_labels.pkl
4c6b2cf2b20e630f3ddd95b5e747ac39ceffc0b0b5c2f9d74233d02d8a57d3d5  refined/corax_adj.pkl
f960d90106c20de86fb046b951ed67843a30b135151d599c0aba539bff0d9771  refined/corax_labels.pkl
0d580c2d8cf4d3929afcac6e25433a973f947d510c4d5360550f0b7ba71b8606  graphs/amazon_photo.npz
19b86ef23ef41f81af40fb7676b10589466c181b96c8a0d6bcccfdc21c2a89bd  graphs/blogcatalog.npz
bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5  graphs/chameleon_filtered.npz
a6c9ae8ae86730096fa76ea560970a72d041dee2d7cc2f1cb11fd8757c2764db  graphs/coauthor_cs.npz
f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7  graphs/squirrel_filtered.npz
dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667  graphs/tolokers.npz
959268fe53027396a0900216a9e15bfd3cd0282684f67db35e1e468a33e1b688  ppi-rebuilt/ppi_rebuilt.npz
54feaf3e3e70a485fe07f8611e4d2677841b97f77b8358204bcf4a48cc884d86  twitch/DE_edges.csv
7b39c42570f05cd46017c765df8d8a1bc03f19787c3eb0f9684f50a52476ae3a  twitch/DE_features.json
2188f58a093bb9db363d3eaf7c3a52c2adc8ff6b23cbcb4f53875f87061c0321  twitch/DE_target.csv
5ea4d7f7267454e9523577eb2a9b4dcb7a22dd660a548240f01b815d08e0e3cc  twitch/ENGB_edges.csv
d55948bd911ab28e0a89c4946562d5a8b363b9a7e4216e1a4986f37c74caa777  twitch/ENGB_features.json
e9d51399878216d2dd662b0a152b602cccde7b5cbb8452cb91d9379f64114443  twitch/ENGB_target.csv
17801d2cc45fc4909a431ce7a190c0565d4af87b0548ca7705cf2bef7da4c884  twitch/ES_edges.csv
dec4b672183f9cb04524ee605b763cc14244ed88eb766147a3f954e9abe30d59  twitch/ES_features.json
f843427bae58289100e78c6c211fa4a1ae0d5fbf2c665841df9e390b00dcffb5  twitch/ES_target.csv
9924263f7e8edaa7278dcbc37bd90c8712cb0ea1726d85e054a5588b7959f887  twitch/FR_edges.csv
490ff6a0afb0838fea1696980b14b3fcb9e8932d18e1f5172f066e45d97daa46  twitch/FR_features.json
dd0a9e7ba565cbb95ae66003892709742bd08c26387656e3e235fc25205663b4  twitch/FR_target.csv
b72d93a3c8a82883771a2f3822fce229885fa0d40367fb105c0535fb36c773b9  twitch/PTBR_edges.csv
5012dee29ca3ae57cbdb4f46279506e3b87ff79d8c43affcafd7576acb21f960  twitch/PTBR_features.json
ecba7d1287e72ae7c3f42c922be475283288c0c67346245c72109690460444bd  twitch/PTBR_target.csv
fd307587a550289f746056ea12a7336171ab2053c9e08c42dba77499126ca5b2  twitch/RU_edges.csv
7767f5d6fdb405cc5cd4267bd3dd0371cbd585ef3f3bec6b5d156880fe42e30a  twitch/RU_features.json
db7617528355be994352e491e7b25d060fed466d0d81c09cadd90fa10f15c071  twitch/RU_target.csv
47c986023f1f434f76026ddfb3ab544be24849011400c99402083d06d3dfa017  twitch/ZHTW_edges.csv
9508cc55f4b891018f278df4cec40d622aba2b04c1bca9451fd9e8ce11321c7b  twitch/ZHTW_features.json
65b75f23be40140d2e326813c3f81419f1a94aa1091acfc0279f0403be8165f7  twitch/ZHTW_target.csv
"""

_SHA256: Final[Mapping[str, str]] = MappingProxyType(
    {path: digest for digest, path in (line.split() for line in _DIGESTS.splitlines())}
)

_SHCHUR = "Shchur et al., Pitfalls of Graph Neural Network Evaluation, arXiv:1811.05868, 2018"

_CATALOG: Final[Mapping[str, Description]] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            _planetoid_set("cora", "Cora, citations among machine-learning papers (Planetoid)"),
            _planetoid_set(
                "citeseer", "Citeseer, citations among computer-science papers (Planetoid)"
            ),
            _planetoid_set("pubmed", "Pubmed, citations among papers on diabetes (Planetoid)"),
            _refined_set("corar", "corax", "CoraR, the refined Cora with continuous features"),
            _refined_set("citeseerr", "citeseerx", "CiteseerR, the refined Citeseer"),
            _benchmark_set("amazon-photo", "Amazon Photo, goods bought together", _SHCHUR),
            _benchmark_set("coauthor-cs", "Coauthor CS, authors who wrote together", _SHCHUR),
            _benchmark_set(
                "blogcatalog",
                "BlogCatalog, bloggers and their contacts",
                "Huang, Li and Hu, Label Informed Attributed Network Embedding, WSDM 2017",
            ),
            _heterophilous_set("tolokers", "Tolokers, crowd workers who shared a task"),
            _heterophilous_set(
                "chameleon-filtered", "Chameleon, Wikipedia pages without duplicates"
            ),
            _heterophilous_set(
                "squirrel-filtered", "Squirrel, Wikipedia pages without duplicates"
            ),
            _twitch_set(),
            _ppi_set(),
            _rebuilt_ppi_set(),
            _reddit_set(),
            _table_set(
                "digits", "Digits, 8x8 images joined to their nearest neighbours", (20, 30)
            ),
            _table_set(
                "breast-cancer", "Breast cancer, cell measurements joined likewise", (20, 30)
            ),
            # The smallest of wine's classes holds 48 bottles: 20 + 30 would leave no test.
            _table_set("wine", "Wine, chemical analyses joined likewise", (10, 10)),
            _planted_set(),
            _reddit_like_set(),
        )
    }
)
