"""Clicks as a graph with two sides, their attributes, and where they come from."""

from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.click_split import ClickSplit

__all__ = ["AttributeTable", "ClickData", "ClickGraph", "ClickSplit"]
