"""What is searched if nobody says: four or five settings around a model's recipe."""

from __future__ import annotations

from drgcn.studies.experiment import Experiment
from drgcn.studies.tuning.setting_range import SettingRange

_WIDTHS = {
    "gat": (16, 32, 64, 128),  # all heads together: multiples of eight
    "graphsage": (32, 64, 128, 256),
}


def default_space(usual: Experiment) -> tuple[SettingRange, ...]:
    """Learning rate, L2, dropout and width.

    The learning rate reaches ten times below and above the recipe's, for the optimisers of the
    recipes differ: 0.005 with Adam is as usual as 1 with plain gradient descent. MixHop has a
    width for every power, which a search for numbers cannot draw: its second dropout rate takes
    the place of the width.

    Args:
        usual: A model's recipe, see :func:`drgcn.studies.recipes.recipe`.
    """
    found = [
        SettingRange("lr", usual.lr / 10, usual.lr * 10, log=True),
        SettingRange("weight_decay", 1e-6, max(1e-2, 10 * usual.weight_decay), log=True),
        SettingRange("dropout", 0.0, max(0.8, usual.dropout)),
    ]
    if usual.model == "mixhop":
        return (*found, SettingRange("hidden_dropout", 0.0, 0.9))
    widths = set(_WIDTHS.get(usual.model, (16, 32, 64, 128))) | {usual.hidden_channels}
    return (*found, SettingRange("hidden_channels", choices=tuple(sorted(widths))))
