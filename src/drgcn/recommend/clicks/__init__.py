"""Clicks as a graph with two sides, their attributes, and where they come from."""

from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.clicks.ingest import append, ingest
from drgcn.recommend.clicks.ingest_sql import IngestSettings
from drgcn.recommend.clicks.known_sets import load_clicks, read_text_folder
from drgcn.recommend.clicks.splits import ClickSplit, SplitRule, split_clicks

__all__ = [
    "AttributeTable",
    "ClickData",
    "ClickGraph",
    "ClickSplit",
    "IngestSettings",
    "SplitRule",
    "append",
    "ingest",
    "load_clicks",
    "read_text_folder",
    "split_clicks",
]
