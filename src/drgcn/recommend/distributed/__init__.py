"""Training on several processes: on one host with torchrun, on a cluster with Ray Train."""

from drgcn.recommend.distributed.group_exchange import GroupExchange
from drgcn.recommend.distributed.rank_group import joined_ranks
from drgcn.recommend.distributed.ray_training import run_on_ray
from drgcn.recommend.distributed.shared_clicks import shared_clicks
from drgcn.recommend.distributed.torchrun import run_with_torchrun

__all__ = ["GroupExchange", "joined_ranks", "run_on_ray", "run_with_torchrun", "shared_clicks"]
