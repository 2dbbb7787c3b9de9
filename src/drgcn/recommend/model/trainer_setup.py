"""All that a training needs, put together but not run."""

from __future__ import annotations

from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.click_trainer import ClickTrainer
from drgcn.recommend.model.encoded_attributes import ClickAttributes
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.lightgcn_objective import LightGCNObjective
from drgcn.recommend.model.positives import Positives
from drgcn.recommend.model.sage_objective import SAGEObjective
from drgcn.recommend.model.train_settings import TrainSettings


def set_up(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    graph: ClickGraph,
    settings: TrainSettings,
    *,
    targets: ClickGraph | None = None,
    exchange: Exchange | None = None,
) -> tuple[ClickTrainer, ClickAttributes | None]:
    """A trainer before its first step, and the attributes that SAGE reads.

    The model is moved to where the clicks are, and put into training mode.

    Args:
        model: The model.
        data: Attributes.
        graph: Whose clicks make neighbours.
        settings: How to train.
        targets: The clicks to learn, on the same device. (default: those of the graph)
        exchange: The other ranks. (default: none)
    """
    targets, exchange = graph if targets is None else targets, exchange or Exchange()
    model.to(graph.device).train()
    positives = Positives(targets, settings.batch_size, settings.seed, settings.draw, exchange)
    steps = settings.steps or positives.steps(settings.epochs)
    if isinstance(model, LightGCN):
        # Its L2 is part of the objective: on the rows of a batch alone, as its authors have it.
        objective = LightGCNObjective(model, graph, targets, settings, exchange)
        trainer = ClickTrainer(
            *(model, objective, positives, steps), lr=settings.lr, exchange=exchange
        )
        return trainer, None
    attributes = model.prepare(data, graph.device)
    trainer = ClickTrainer(
        model,
        SAGEObjective(model, attributes, graph, targets, settings, exchange),
        *(positives, steps),
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        exchange=exchange,
    )
    return trainer, attributes
