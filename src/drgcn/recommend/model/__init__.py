"""The model: encoders, relation-wise SAGE with Dr, LightGCN, losses and training."""

from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model.embedding import embed_all, freeze
from drgcn.recommend.model.encoder import AttributeSummary
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.run_folder import ModelOptions, build_model, load_run, save_run
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.training import train

__all__ = [
    "AttributeSummary",
    "ClickSAGE",
    "Exchange",
    "LightGCN",
    "ModelOptions",
    "TrainSettings",
    "build_model",
    "embed_all",
    "freeze",
    "load_run",
    "save_run",
    "train",
]
