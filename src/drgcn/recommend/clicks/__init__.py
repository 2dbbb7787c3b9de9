"""Clicks as a graph with two sides, their attributes, and where they come from."""

from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.click_split import ClickSplit
from drgcn.recommend.clicks.ingesting.ingest import ingest
from drgcn.recommend.clicks.ingesting.settings import IngestSettings
from drgcn.recommend.clicks.known_sets import load_clicks
from drgcn.recommend.clicks.text_layout import read_text_folder

__all__ = [
    "AttributeTable",
    "ClickData",
    "ClickGraph",
    "ClickSplit",
    "IngestSettings",
    "ingest",
    "load_clicks",
    "read_text_folder",
]
