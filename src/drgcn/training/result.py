"""Results of ``fit``: numbers and models per seed, summed up, used, saved and loaded."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, get_args

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from torch_geometric.data import Data

from drgcn._io import plain_file, whole_folder
from drgcn.errors import InputError, warn
from drgcn.reporting.tables import Table
from drgcn.stats import Summary
from drgcn.training.calling import (
    Prepare,
    call_model,
    default_prepare,
    expect_types,
    link_maker,
    new_model,
)
from drgcn.training.grid import LANE_SETTINGS
from drgcn.training.inputs import Kind, check_features, checked_seeds, reason_of

# Fields of a result that have one entry a seed, curves aside.
_PER_SEED: Final = (
    "best_epoch",
    "epochs_run",
    "val_accuracy",
    "test_accuracy",
    "settings",
    "models",
)
_NUMBERS: Final = ("seeds", "seconds", "metric", *_PER_SEED[:-1])
_KINDS: Final = {"accuracy": "classes", "micro-F1": "labels"}
_FACTS, _TENSORS = "result.json", "tensors.safetensors"
# Version of the layout of saved results.
_LAYOUT: Final = 1


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of the models of all seeds for every node.

    Attributes:
        mean: Mean over seeds ``[nodes, outputs]``: of probabilities, or of values in a regression.
        spread: Standard deviation over seeds ``[nodes, outputs]``; zero for one seed.
        votes: Number of seeds for each class or label ``[nodes, outputs]``; ``None`` in a
            regression.
        kind: Meaning of the outputs, see :class:`FitResult`.
    """

    mean: Tensor
    spread: Tensor
    votes: Tensor | None
    kind: Kind = "classes"

    @property
    def classes(self) -> Tensor:
        """The class of the highest mean probability ``[nodes]``."""
        if self.kind != "classes":
            use = "mean, the values" if self.kind == "values" else "mean > 0.5"
            raise InputError(
                f"Expected predictions of classes; found those of {self.kind}. Use {use}."
            )
        return self.mean.argmax(-1)


@dataclass(frozen=True, eq=False)
class FitResult:
    """Results of :func:`drgcn.fit` per seed, in the order of ``seeds``.

    Attributes:
        seeds: The seeds.
        best_epoch: The epoch whose weights were kept, from 1.
        epochs_run: Epochs trained before the rule stopped the seed.
        val_accuracy: Validation accuracy at the kept epoch.
        test_accuracy: Test accuracy of the kept weights, computed once.
        curves: ``train_loss``, ``val_loss`` and ``val_accuracy`` after each epoch until the rule
            stopped the seed, and ``test_accuracy`` if it was asked for.
        models: Ordinary modules with the kept weights, in evaluation mode.
        seconds: Wall time of the training.
        metric: Meaning of "accuracy": share of right predictions; micro-F1 for several labels
            per node; R2 in a regression; or the metric that was asked for.
        higher_is_better: False if the metric is an error.
        kind: Meaning of the models' outputs: ``"classes"``, ``"labels"``, ``"values"`` or
            ``"links"``.
        prepare: Makes the arguments of the models from a graph.
        settings: What a grid says of each entry; empty dictionaries without a grid.
    """

    seeds: tuple[int, ...]
    best_epoch: list[int]
    epochs_run: list[int]
    val_accuracy: list[float]
    test_accuracy: list[float]
    curves: dict[str, list[Tensor]] = field(repr=False)
    models: list[torch.nn.Module] = field(repr=False)
    seconds: float
    metric: str = "accuracy"
    higher_is_better: bool = True
    kind: Kind = "classes"
    prepare: Prepare | None = field(default=None, repr=False)
    settings: list[dict[str, Any]] = field(default_factory=list)

    def select(self, seeds: Sequence[int]) -> FitResult:
        """Return the results of some of the seeds, in that order, with all of their settings."""
        wanted = checked_seeds(seeds)
        unknown = [seed for seed in wanted if seed not in self.seeds]
        if unknown:
            raise InputError(
                f"Expected seeds of this result, {sorted(set(self.seeds))}; found {unknown[0]}."
            )
        return self.take([i for seed in wanted for i, own in enumerate(self.seeds) if own == seed])

    def where(self, **settings: Any) -> FitResult:
        """Return the results of a grid with these settings."""
        places = [i for i, own in enumerate(self.settings) if settings.items() <= own.items()]
        if not places:
            raise InputError(f"Expected settings of the grid; found {settings}, which it has not.")
        return self.take(places)

    def take(self, places: Sequence[int]) -> FitResult:
        """Return the results at some places."""
        if len(places) == 0:
            raise InputError("Expected at least one place of a result; found none.")
        chosen = {name: [getattr(self, name)[i] for i in places] for name in _PER_SEED}
        curves = {name: [curve[i] for i in places] for name, curve in self.curves.items()}
        seeds = tuple(self.seeds[i] for i in places)
        return replace(self, seeds=seeds, curves=curves, **chosen)  # type: ignore[arg-type]

    def best(self) -> FitResult:
        """Return the result of the one network with the best validation accuracy, the first of
        equals. Test nodes have no say."""
        return self.take([max(range(len(self.seeds)), key=lambda i: self._worth([i]))])

    def best_setting(self) -> FitResult:
        """Return the results of all seeds with the setting of a grid that has the best mean
        validation accuracy, the first of equals. Test nodes have no say."""
        return self.take(max(self._groups(None).values(), key=self._worth))

    def _worth(self, places: Sequence[int]) -> float:
        """Mean validation accuracy, so that more is better; networks that diverged are worst."""
        mean = sum(self.val_accuracy[i] for i in places) / len(places)
        return -math.inf if math.isnan(mean) else mean if self.higher_is_better else -mean

    def _groups(self, by: Sequence[str] | None) -> dict[str, list[int]]:
        """Return the places of each setting, or of each combination of some of its names."""
        groups: dict[str, list[int]] = {}
        for place, own in enumerate(self.settings):
            shown = own if by is None else {name: own[name] for name in by}
            words = ", ".join(f"{name}={value}" for name, value in shown.items())
            groups.setdefault(words, []).append(place)
        return groups

    def summary(self, by: str | Sequence[str] | None = None) -> str:
        """Return a table in Markdown: means, standard deviations and extremes over seeds.

        Args:
            by: Of a grid, the names of settings to group by. (default: all)
        """
        percent = self.metric in ("accuracy", "micro-F1", "macro-F1")
        unit, scale, digits = ("%", 100, 2) if percent else ("", 1, 4)
        by = [by] if isinstance(by, str) else by
        unknown = [name for name in by or () if any(name not in s for s in self.settings)]
        if unknown:
            raise InputError(f"Expected names of the grid; found {unknown[0]!r}.")
        if any(self.settings):
            lines = []
            groups = self._groups(by)
            for name in sorted(groups, key=lambda name: -self._worth(groups[name])):
                scores = [
                    Summary.of([scale * values[i] for i in groups[name]]).words(digits)
                    for values in (self.val_accuracy, self.test_accuracy)
                ]
                lines.append((name, *scores, str(len(groups[name]))))
            heads = ("setting", f"validation {self.metric} {unit}", f"test {unit}", "networks")
            return Table([head.strip() for head in heads], lines, left=1).markdown()
        rows: list[tuple[str, Sequence[float], int]] = [
            (f"test {self.metric} {unit}", [scale * v for v in self.test_accuracy], digits),
            (f"validation {self.metric} {unit}", [scale * v for v in self.val_accuracy], digits),
            ("kept epoch", self.best_epoch, 0),
            ("epochs", self.epochs_run, 0),
        ]
        cells = []
        for name, values, places in rows:
            found = Summary.of(values)
            numbers = (found.mean, found.std, min(values), max(values))
            words = ["-" if math.isnan(n) else f"{n:.{places}f}" for n in numbers]
            cells.append((name.strip(), *words))
        head = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}, {self.seconds:.1f} s"
        return Table((head, "mean", "std", "min", "max"), cells, left=1).markdown()

    @torch.no_grad()
    def predict(self, data: Data) -> Prediction:
        """Return what the models say of the nodes of a graph, which needs no labels or masks; of
        the pairs in its ``edge_label_index``, or of the graphs of a PyG ``Batch``. Models answer
        in evaluation mode and of this graph alone, whatever they were used for since."""
        if not isinstance(data, Data):
            raise InputError(
                f"Expected a graph, a PyG Data or Batch; found {type(data).__name__}. Join a list "
                f"of graphs with Batch.from_data_list."
            )
        check_features(data)
        prepare = self.prepare or default_prepare(self.models[0])
        device = next(self.models[0].parameters()).device
        try:
            inputs = prepare(copy.copy(data).to(device))  # PyG moves in place
        except InputError:
            raise
        except Exception as error:  # a function of anyone's may raise anything
            raise InputError(
                f"Expected a graph like those of the training; found {data}, of which prepare "
                f"raised {reason_of(error)}"
            ) from error
        expect_types(self.models[0], inputs)
        scores = torch.stack([call_model(_evaluated(model), inputs) for model in self.models])
        match self.kind:
            case "classes":
                values, chosen = scores.softmax(-1), F.one_hot(scores.argmax(-1), scores.size(-1))
            case "labels" | "links":
                values, chosen = scores.sigmoid(), scores > 0
            case "values":
                return Prediction(scores.mean(0), scores.std(0, correction=0), None, self.kind)
        return Prediction(values.mean(0), values.std(0, correction=0), chosen.sum(0), self.kind)

    def save(self, folder: Path | str) -> Path:
        """Write numbers as JSON and weights as safetensors into a new folder.

        :func:`load_fit` reads them. The folder appears whole or not at all.
        """
        tensors = {}
        for place, model in enumerate(self.models):
            for name, value in model.state_dict().items():
                tensors[f"weights/{place}/{name}"] = value.cpu().clone().contiguous()
            for name, curves in self.curves.items():
                tensors[f"curves/{place}/{name}"] = curves[place].cpu().clone().contiguous()
        facts = {name: getattr(self, name) for name in (*_NUMBERS, "higher_is_better", "kind")}
        facts |= {"layout": _LAYOUT, "model": repr(self.models[0])}
        try:
            text = json.dumps(facts, indent=1)
        except TypeError as error:
            raise InputError(
                f"Expected settings of plain numbers and words to save; found others: {error}"
            ) from None
        content = save(tensors)
        facts["sha256"] = _digest(json.loads(text), content)
        with whole_folder(folder) as partial:
            (partial / _TENSORS).write_bytes(content)
            (partial / _FACTS).write_text(json.dumps(facts, indent=1) + "\n")
        return Path(folder)

    @classmethod
    def concatenate(cls, parts: Sequence[FitResult]) -> FitResult:
        """Join the results of several passes."""
        joined = {name: [v for part in parts for v in getattr(part, name)] for name in _PER_SEED}
        curves = {
            name: [curve for part in parts for curve in part.curves[name]]
            for name in parts[0].curves
        }
        return cls(
            seeds=tuple(seed for part in parts for seed in part.seeds),
            curves=curves,
            seconds=sum(part.seconds for part in parts),
            metric=parts[0].metric,
            higher_is_better=parts[0].higher_is_better,
            kind=parts[0].kind,
            prepare=parts[0].prepare,
            **joined,
        )


def _evaluated(model: torch.nn.Module) -> torch.nn.Module:
    """Return a model in evaluation mode whose layers keep nothing of another graph
    (``cached=True``): itself, or a copy, so that the model stays as its owner left it."""
    modules = list(model.modules())
    if not any(module.training or getattr(module, "cached", False) is True for module in modules):
        return model
    model = copy.deepcopy(model).eval()
    for module in model.modules():
        if getattr(module, "cached", False) is True:
            for name in [name for name in vars(module) if name.startswith("_cached")]:
                setattr(module, name, None)
    return model


def load_fit(
    folder: Path | str,
    make_model: Callable[..., torch.nn.Module],
    *,
    prepare: Prepare | None = None,
) -> FitResult:
    """Read a result that :meth:`FitResult.save` wrote.

    Args:
        folder: The folder.
        make_model: Builds the model that was trained, for links the encoder; its weights are then
            read from the folder.
        prepare: The function given to :func:`drgcn.fit`, if there was one.
    """
    folder = Path(folder)
    facts, tensors = _saved(folder)
    if facts.get("kind") == "links":
        make_model, prepare = link_maker(make_model, prepare), None
    models = []
    for place, settings in enumerate(facts["settings"]):
        named = {name: v for name, v in settings.items() if name not in LANE_SETTINGS}
        model = new_model(functools.partial(make_model, **named) if named else make_model)
        start = f"weights/{place}/"
        state = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise InputError(
                f"Expected make_model to build the model of {folder}, which printed as "
                f"{facts['model'].splitlines()[0]}; found {type(model).__name__}: "
                f"{str(error).splitlines()[-1].strip()}"
            ) from None
        if place == 0:
            _warn_if_other(model, facts["model"], folder)
        models.append(model.eval())
    names = {name.rsplit("/", 1)[1] for name in tensors if name.startswith("curves/")}
    places = range(len(models))
    curves = {n: [tensors[f"curves/{place}/{n}"] for place in places] for n in sorted(names)}
    numbers: dict[str, Any] = {name: facts[name] for name in _NUMBERS} | {
        "seeds": tuple(facts["seeds"]),
        # Results of the first versions have neither, and one metric for each kind.
        "higher_is_better": facts.get("higher_is_better", True),
        "kind": facts.get("kind") or _KINDS.get(facts["metric"], "values"),
    }
    return FitResult(
        **numbers, curves=curves, models=models, prepare=prepare or default_prepare(models[0])
    )


def _saved(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read facts and tensors of a result; others than :meth:`FitResult.save` wrote are refused."""
    try:
        facts = json.loads(plain_file(folder / _FACTS).read_text(encoding="utf-8"))
        content = plain_file(folder / _TENSORS).read_bytes()
        # Results of earlier versions have no digest.
        sealed = isinstance(facts, dict) and "sha256" in facts
        if sealed and facts.pop("sha256") != _digest(facts, content):
            raise ValueError("that it was changed since")
        tensors = load(content)
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise InputError(
            f"Expected {folder} to be a folder that FitResult.save wrote; found {error}"
        ) from None
    if not isinstance(facts, dict) or facts.get("layout") != _LAYOUT:
        raise InputError(f"Expected a result of layout {_LAYOUT} in {folder}; found another.")
    _expect_sound(facts, tensors, folder)
    return facts, tensors


def _expect_sound(facts: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> None:
    """Refuse facts of other types, of unequal lengths, or without their curves."""
    seeds = facts.get("seeds")
    count = len(seeds) if isinstance(seeds, list) else 0
    kinds: dict[str, tuple[type, ...]] = {
        **dict.fromkeys(("seeds", "best_epoch", "epochs_run"), (int,)),
        **dict.fromkeys(("val_accuracy", "test_accuracy"), (int, float)),
        "settings": (dict,),
    }
    wrong = [
        name
        for name, kind in kinds.items()
        if not isinstance(values := facts.get(name), list)
        or not len(values) == count > 0
        or not all(isinstance(v, kind) and not isinstance(v, bool) for v in values)
    ]
    plain = {"metric": (str,), "model": (str,), "seconds": (int, float)}
    wrong += [name for name, kind in plain.items() if type(facts.get(name)) not in kind]
    if type(facts.get("higher_is_better", True)) is not bool:
        wrong.append("higher_is_better")
    if facts.get("kind") not in (None, *get_args(Kind)):
        wrong.append("kind")
    # Without a digest, a name that was changed is the sign of others that were.
    wrong += sorted(facts.keys() - {*_NUMBERS, "higher_is_better", "kind", "layout", "model"})
    curves = [name.split("/", 2) for name in tensors if name.startswith("curves/")]
    names = {parts[-1] for parts in curves}
    every = {f"curves/{place}/{name}" for place in range(count) for name in names}
    if not every <= tensors.keys() or len(curves) != len(every):
        wrong.append("curves")
    if wrong:
        raise InputError(
            f"Expected the numbers of a result in {folder}, each as FitResult.save writes it; "
            f"found {wrong[0]!r} in another form. Save the result again."
        )


def _digest(facts: dict[str, Any], tensors: bytes) -> str:
    """Hash all that a saved result holds."""
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode() + b"\0" + tensors).hexdigest()


def _warn_if_other(model: torch.nn.Module, saved: str, folder: Path) -> None:
    """Warn of a model that takes the saved weights and prints otherwise than the saved one."""
    # Functions print with their address, which says nothing.
    lines = [re.sub(r" at 0x[0-9a-f]+", "", text).splitlines() for text in (saved, repr(model))]
    for was, found in zip_longest(*lines, fillvalue="nothing"):
        if was != found:
            warn(
                f"Expected make_model to build the model of {folder}, of which a line was "
                f"{was.strip()!r}; found {found.strip()!r}. The weights fit, but what the models "
                f"predict may not be what was saved."
            )
            return
