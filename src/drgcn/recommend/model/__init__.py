"""The model: encoders, relation-wise SAGE with Dr, LightGCN, losses and training."""

from drgcn.recommend.model.attribute_summary import AttributeSummary
from drgcn.recommend.model.building import build_lightgcn, build_sage
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.embedding import embed_all, freeze
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.run_folder import load_run, save_run
from drgcn.recommend.model.train import train
from drgcn.recommend.model.train_settings import TrainSettings

__all__ = [
    "AttributeSummary",
    "ClickSAGE",
    "Exchange",
    "LightGCN",
    "TrainSettings",
    "build_lightgcn",
    "build_sage",
    "embed_all",
    "freeze",
    "load_run",
    "save_run",
    "train",
]
