"""Training on several processes: on one host with torchrun, on a cluster with Ray Train."""

from drgcn.recommend.distributed.group import GroupExchange, joined_ranks, shared_clicks
from drgcn.recommend.distributed.launch import run_on_ray, run_with_torchrun

__all__ = ["GroupExchange", "joined_ranks", "run_on_ray", "run_with_torchrun", "shared_clicks"]
