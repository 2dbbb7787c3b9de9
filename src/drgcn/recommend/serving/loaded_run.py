"""A run with the clicks it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.click_split import ClickSplit
from drgcn.recommend.clicks.known_sets import load_clicks
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.run_folder import load_run


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A trained model and its data.

    Attributes:
        model: The model, ready to embed.
        training: How it was trained, on what.
        data: The clicks it was trained on, and whatever came on later days.
    """

    model: ClickSAGE | LightGCN
    training: dict[str, Any]
    data: ClickData

    @classmethod
    def open(cls, run: str | PathLike[str], data: str | PathLike[str] | None = None) -> LoadedRun:
        """Loads what ``drgcn recommend train`` wrote.

        Args:
            run: Folder of the run.
            data: Folder of its clicks. (default: where they were, seen from the run)

        Raises:
            InputError: If the run is not finished, or the clicks are others than it knows.
        """
        model, facts = load_run(Path(run))
        training = dict(facts.get("training", {}))
        folder = data
        if folder is None:
            if not training.get("folder"):
                raise InputError(
                    f"Expected --data, the folder of clicks; the run in {run} does not say where "
                    f"it is."
                )
            folder = Path(run) / str(training["folder"])
            if not folder.is_dir():
                raise InputError(
                    f"Expected the clicks of the run in {folder}; there is no such folder. Say "
                    f"with --data where they are."
                )
        clicks = load_clicks(folder)
        known = training.get("content_hash")
        if known and known != clicks.content_hash:
            raise InputError(
                f"Expected the clicks that the run was trained on, content hash {known[:12]}; "
                f"{folder} has {clicks.content_hash[:12]}. Give the right --data, or train again."
            )
        return cls(model, training, clicks)

    def split(self, day: int | None = None) -> ClickSplit:
        """The clicks of a day that the run has not learnt from, and those before it.

        Args:
            day: The day to find. (default: the one that was held back)
        """
        held = self.training.get("day")
        if held is None:
            raise InputError(
                "Expected a run that held a day back; this one has learnt from all clicks, and "
                "would be asked what it knows. Train without --all-days on clicks with times."
            )
        day = int(held) if day is None else day
        if day < held:
            raise InputError(
                f"Expected a day from {held} on; found {day}, whose clicks the run has learnt "
                f"from."
            )
        return ClickSplit.by_time(self.data, day)

    def clicks(self, before: int | None = None) -> ClickGraph:
        """All clicks, or those before a day."""
        if before is None:
            return self.data.graph
        graph = self.data.graph.until(before)
        first, last = self.data.graph.day_range
        if before > last:
            raise InputError(
                f"Expected --day from {first + 1} to {last}, the days of the clicks; found "
                f"{before}. Leave it out to use all clicks."
            )
        if not graph.num_clicks:
            raise InputError(
                f"Expected clicks before day {before}; found none. Days go from {first} to {last}."
            )
        return graph

    def vectors(
        self, graph: ClickGraph, device: torch.device | str = "cpu"
    ) -> tuple[Tensor, Tensor]:
        """Vectors of all users and of all items, with a graph's clicks as neighbours."""
        model = self.model.to(device)
        return embed_all(model, self.data, graph.to(device))
