"""What one rank of the equality tests does: small runs, and what came out of them."""

import os
from pathlib import Path

import torch
import torch.distributed as dist

from drgcn.errors import InputError
from drgcn.recommend.distributed.group import Exchange, GroupExchange, shared_clicks
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.training import train
from tests.recommend.model.clicks import data, new_model

CASES = {
    "none": {"gate": "none"},
    "constant": {"gate": "constant"},
    "static": {"gate": "static"},
    "dr": {"gate": "dr"},
    "dr, one layer, id tables": {
        "gate": "dr",
        "fan_outs": (4,),
        "user_ids": 3,
        "item_ids": 3,
    },
    "dr, bpr": {"gate": "dr", "loss": "bpr"},
    "dr, refined, no negatives": {"gate": "dr", "logq": "refined", "negatives": 0},
    "dr, decay": {"gate": "dr", "weight_decay": 1e-2},
    "hybrid": {"model": "hybrid", "layers": 2, "weight_decay": 1e-2},
    "hybrid, dr": {"model": "hybrid", "layers": 2, "gate": "dr", "cold_share": 0.3},
    "lightgcn": {"model": "lightgcn", "weight_decay": 1e-2},
    "lightgcn, bpr": {"model": "lightgcn", "loss": "bpr", "draw": "users", "weight_decay": 1e-2},
}
_SETTINGS = ("loss", "logq", "negatives", "weight_decay", "draw")


class Watched:
    """Keeps the gradients of the first step, as the optimiser gets them."""

    gradients = None

    def average_gradients(self, parameters):
        parameters = list(parameters)
        super().average_gradients(parameters)
        if self.gradients is None:
            grads = [p.grad for p in parameters if p.grad is not None]
            self.gradients = torch.cat([g.flatten() for g in grads]).clone()


class Alone(Watched, Exchange):
    pass


class Together(Watched, GroupExchange):
    pass


class OwnMeans(Together):
    """Wrong on purpose: every rank pools its own nodes."""

    def sum(self, x):
        return x


class NoWayBack(Together):
    """Wrong on purpose: gathered embeddings pass no gradient to other ranks."""

    def gather(self, x):
        found = super().gather(x.detach())
        own = slice(self.rank * x.size(0), (self.rank + 1) * x.size(0))
        return torch.cat([found[: own.start], x, found[own.stop :]])


def run(case, exchange, steps=4):
    options = dict(CASES[case])
    chosen = {"negatives": 8, **{k: options.pop(k) for k in _SETTINGS if k in options}}
    settings = TrainSettings(steps=steps, batch_size=32, seed=1, lr=1e-2, **chosen)
    clicks = data()
    model = new_model(clicks, **{"channels": 8, "fan_outs": (3, 2), **options})
    result = train(model, clicks, settings=settings, exchange=exchange)
    return {
        "losses": result.losses,
        "gradients": exchange.gradients,
        "weights": torch.cat([p.detach().flatten() for p in model.parameters()]),
    }


def mapped_clicks(folder, rank):
    """The sums of shared clicks, and whether their memory is that of the files."""
    exchange = GroupExchange()

    def make():
        assert rank == 0
        clicks = data(days=3).graph
        return clicks.until(2), clicks.on(2)

    graph, targets = shared_clicks(make, folder / "clicks", exchange)
    address = graph.by_item.col.data_ptr()
    backed = False
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            backed = line.endswith("/clicks/graph/by_item/col.npy")
    again = shared_clicks(lambda: 1 / 0, folder / "clicks", exchange)[0]  # it is there
    return [graph.num_clicks, targets.num_clicks, again.num_clicks, backed]


def refused_weights(rank):
    """What is said if rank 1 has read another checkpoint than rank 0."""
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    if rank:
        weight.data[1] += 1e-15
    try:
        GroupExchange().average_gradients([weight])
    except InputError as error:
        return str(error)


def refused_clicks(folder):
    """What every rank says if rank 0 cannot make the clicks."""

    def make():
        raise InputError("Expected clicks before day 0.")

    try:
        shared_clicks(make, folder / "nothing", GroupExchange())
    except InputError as error:
        return str(error)


def rank_main(rank, size, port, folder, jobs):
    """Runs all jobs ``{name: (case, class name)}`` and writes what came out."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
    found = {name: run(case, globals()[kind]()) for name, (case, kind) in jobs.items()}
    found["mapped"] = mapped_clicks(folder, rank)
    found["refusals"] = [refused_weights(rank), refused_clicks(folder)]
    torch.save(found, folder / f"rank-{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
