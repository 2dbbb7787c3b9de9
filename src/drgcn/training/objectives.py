"""Objectives: losses to minimise, and metrics to choose and test by, for all seeds at once."""

from __future__ import annotations

import copy
import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError, warn
from drgcn.training.inputs import Kind, name_of, reason_of

# A number ``[seeds]`` from scores ``[seeds, nodes, outputs]`` and labels, which all seeds share
# or which have a first axis of their own.
AllSeeds = Callable[[Tensor, Tensor], Tensor]
# The same for the scores ``[nodes, outputs]`` of one network.
OneSeed = Callable[[Tensor, Tensor], Any]


@dataclass(frozen=True)
class Metric:
    """A metric of one's own.

    Attributes:
        name: Its name in results.
        function: Returns a number from the scores ``[nodes, outputs]`` of one network and the
            labels; nodes are pairs of nodes or graphs in other tasks. Tensor operations of fixed
            shape are fast; with anything else networks are scored one by one.
        higher_is_better: False for errors.
    """

    name: str
    function: OneSeed
    higher_is_better: bool = True


# Difference of two sums over the same numbers in another order.
_ROUNDING: Final = 1e-5
_HITS: Final = re.compile(r"hits@([1-9]\d*)", re.IGNORECASE)
# Loss and metric as arguments of :func:`drgcn.fit`.
LossChoice = str | OneSeed | None
MetricChoice = str | OneSeed | Metric | None


@dataclass(frozen=True)
class Objective:
    """Loss that a model minimises, and metric by which it is chosen and tested.

    Attributes:
        kind: Meaning of the labels: ``"classes"`` are numbers ``[nodes]``, ``"labels"`` zeros and
            ones ``[nodes, labels]``, ``"values"`` measurements ``[nodes, values]``, and
            ``"links"`` zeros and ones ``[pairs, 1]``.
        width: Number of classes, labels or values.
        metric: Name of the metric.
        higher_is_better: False if the metric is an error.
        loss: Returns the mean loss ``[seeds]``.
        measure: Returns the metric ``[seeds]``.
    """

    kind: Kind
    width: int
    metric: str
    higher_is_better: bool
    loss: AllSeeds
    measure: AllSeeds

    def score(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the metric ``[seeds]`` in single precision."""
        shared = labels.dim() == (1 if self.kind == "classes" else 2)
        if shared or self.measure is _accuracy or isinstance(self.measure, _OfEachSeed):
            return self.measure(scores, labels).to(torch.float32)
        each = [self.measure(s, y) for s, y in zip(scores[:, None], labels, strict=True)]
        return torch.cat(each).to(torch.float32)

    @property
    def is_share(self) -> bool:
        """True if the metric is a share of something, which percent suit."""
        return is_share(self.metric)

    def guess(self, labels: Tensor) -> float:
        """Return the metric of the best answer that is the same for every node."""
        labels = labels.double() if labels.is_floating_point() else labels
        found = [float(self.measure(scores, labels)) for scores in self._constants(labels)]
        return max(found) if self.higher_is_better else min(found)

    def sample_size(self, labels: Tensor) -> int:
        """Return the number of nodes; for ROC-AUC, of nodes whose share of one half would vary by
        chance as much as the area does on the rarest label."""
        if self.metric != "ROC-AUC":
            return len(labels)
        _, wanted = _columns(torch.zeros(1, len(labels), self.width), labels.cpu())
        positives = wanted.sum(-1)
        sizes = 3 * positives * (len(labels) - positives) // (len(labels) + 1)
        return int(sizes[(positives > 0) & (positives < len(labels))].min().clamp(min=1))

    def expect_outputs(self, outputs: int) -> None:
        """Refuse a model with a number of outputs that the labels do not go with."""
        if self.kind == "classes" and outputs < self.width:
            raise InputError(
                f"Expected a model with at least {self.width} outputs, one per class; found "
                f"{outputs}."
            )
        if self.kind == "labels" and outputs != self.width:
            raise InputError(
                f"Expected a model with {self.width} outputs, one per label; found {outputs}."
            )
        if self.kind == "values" and outputs != self.width:
            raise InputError(
                f"Expected a model with {self.width} outputs, one per value of data.y (real "
                f"numbers, a regression); found {outputs}. For classes, use data.y.long()."
            )

    def expect_defined(self, outputs: int, **parts: Tensor) -> str:
        """Refuse labels of parts of which there is no such loss or metric.

        Returns:
            What both come to on made-up scores, by which a function of one's own is told from
            another of its name.
        """
        found = []
        for function in (self.loss, self.measure):
            if isinstance(function, _OfEachSeed):
                function.warn_of_all_pairs(next(iter(parts.values())))
        for part, labels in parts.items():
            places = torch.arange(2 * len(labels) * outputs, device=labels.device)
            scores = (places * 0.618034).frac().view(2, len(labels), outputs)
            values = (*self.loss(scores, labels).tolist(), *self.score(scores, labels).tolist())
            if not all(map(math.isfinite, values)):
                raise InputError(
                    f"Expected labels in the {part} part for which the loss and {self.metric} are "
                    f"defined; found none, as where all are of one class or value. Choose another "
                    f"split or metric."
                )
            found += [f"{value:.4g}" for value in values]
        return f"{self.metric} {' '.join(found)}"

    def _constants(self, labels: Tensor) -> Iterator[Tensor]:
        """Yield scores ``[1, nodes, outputs]`` that are the same for every node."""
        match self.kind:
            case "classes":
                rows = torch.eye(self.width)
            case "labels":  # the most frequent labels, from none of them to all
                place = labels.sum(0).argsort(descending=True).argsort().cpu()
                rows = torch.where(place < torch.arange(self.width + 1)[:, None], 1.0, -1.0)
            case "values":
                rows = torch.stack([labels.mean(0), labels.median(0).values]).cpu()
            case "links":
                rows = torch.zeros(1, 1)
        for row in rows.to(labels.device, torch.float64):
            yield row.expand(1, len(labels), -1)


def objective_for(
    labels: Tensor,
    loss: LossChoice = None,
    metric: MetricChoice = None,
    *,
    kind: Kind | None = None,
    device: torch.device | str = "cpu",
) -> Objective:
    """Return the objective for some labels.

    Args:
        labels: Class numbers ``[nodes]``, a table of zeros and ones, or other numbers.
        loss: Name of a loss, or a function. (default: the usual one for such labels)
        metric: Name of a metric, a function of which more is better, or a :class:`Metric`.
            (default: the usual one)
        kind: Meaning of the labels. (default: what their form says)
        device: Device of the scores; tensors that a given function holds are moved there.
    """
    if kind is None:
        if labels.dim() == 1 and not labels.is_floating_point():
            kind = "classes"
        elif labels.dim() == 2 and bool(((labels == 0) | (labels == 1)).all()):
            kind = "labels"
        else:
            kind = "values"
    width = int(labels.max()) + 1 if kind == "classes" else labels[0].numel()
    usual_loss, usual_metric = _USUAL[kind]
    name, measure, higher = _metric_for(metric or usual_metric, kind, device)
    return Objective(
        kind, width, name, higher, _loss_for(loss or usual_loss, kind, device), measure
    )


def kind_meant(loss: LossChoice, metric: MetricChoice, labels: object) -> Kind | None:
    """Return the meaning that labels get from the name of a loss, or, if they are real numbers,
    from that of a metric; ``None`` if their own form has to say it."""
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss].kinds[0]
    measured = isinstance(labels, Tensor) and labels.is_floating_point()
    if measured and isinstance(metric, str) and metric_name(metric) in _OF_VALUES:
        return "values"
    return None


def metric_name(name: str) -> str:
    """Return the name of a metric as results have it, ``ROC-AUC`` for ``roc_auc``."""

    def plain(word: str) -> str:
        return re.sub(r"[-_ ]", "", word).lower()

    known = {plain(word): word for word in _METRICS}
    hits = _HITS.fullmatch(name)
    return f"Hits@{hits[1]}" if hits else known.get(plain(name)) or name


def is_share(metric: str) -> bool:
    """Return whether a metric is a share of something, which percent suit."""
    known = _METRICS.get("Hits@k" if _HITS.fullmatch(metric) else metric)
    return known is not None and known.higher_is_better


def _loss_for(loss: str | OneSeed, kind: Kind, device: torch.device | str) -> AllSeeds:
    if not isinstance(loss, str):
        return _OfEachSeed(loss, "loss", kind, device)
    found = _LOSSES.get(loss)
    if found is None or kind not in found.kinds:
        known = ", ".join(name for name, other in _LOSSES.items() if kind in other.kinds)
        raise InputError(
            f"Expected a loss for {_WORDS[kind]}, {known}, or a function of scores and labels; "
            f"found {loss!r}."
        )
    return found.function


def _metric_for(
    metric: str | OneSeed | Metric, kind: Kind, device: torch.device | str
) -> tuple[str, AllSeeds, bool]:
    if isinstance(metric, Metric):
        measure = _OfEachSeed(metric.function, metric.name, kind, device)
        return metric.name, measure, metric.higher_is_better
    if not isinstance(metric, str):
        return _metric_for(Metric(name_of(metric), metric), kind, device)
    name = metric_name(metric)
    hits = _HITS.fullmatch(name)
    found = _METRICS.get("Hits@k" if hits else name)
    if found is None or kind not in found.kinds or name == "Hits@k":
        known = ", ".join(name for name, other in _METRICS.items() if kind in other.kinds)
        raise InputError(
            f"Expected a metric of {_WORDS[kind]}, {known}, or a function of scores and labels; "
            f"found {metric!r}."
        )
    if hits:
        return name, functools.partial(_hits, k=int(hits[1])), True
    return name, found.function, found.higher_is_better


class _OfEachSeed:
    """A function of the scores of one network, for those of all: by ``torch.vmap``, or one by one
    where that cannot follow.

    Args:
        function: Returns a number, or several of which the mean is taken if it is a loss.
        name: ``"loss"``, or the name of the metric.
        kind: Meaning of the labels.
        device: Device that tensors of a partial or a module are moved to.
    """

    def __init__(
        self, function: OneSeed, name: str, kind: Kind, device: torch.device | str
    ) -> None:
        if not callable(function):
            raise InputError(
                f"Expected loss and metric to be names or functions of scores and labels; found "
                f"{type(function).__name__}."
            )
        if isinstance(function, torch.nn.Module):
            function = copy.deepcopy(function).to(device)
        elif isinstance(function, functools.partial):
            held = {
                k: v.to(device) if isinstance(v, Tensor) else v
                for k, v in function.keywords.items()
            }
            function = functools.partial(function.func, *function.args, **held)
        self.function, self.name, self.kind = function, name, kind
        self.vmapped: dict[bool, bool] = {}  # known after the first call, with own labels or not

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the number of every seed ``[seeds]``."""
        own = labels.dim() > (1 if self.kind == "classes" else 2)
        if self.name == "loss" and self.kind != "classes":
            labels = labels.to(scores.dtype)
        if own not in self.vmapped:
            self.vmapped[own] = self._can_be_vmapped(scores, labels, own)
        if self.vmapped[own]:
            return torch.vmap(self._one, in_dims=(0, 0 if own else None))(scores, labels)
        lanes = labels if own else [labels] * len(scores)
        return torch.stack([self._one(s, y) for s, y in zip(scores, lanes, strict=True)])

    def warn_of_all_pairs(self, labels: Tensor) -> None:
        """Warn of a function that holds each score against every label: ``[nodes]`` of the one
        and ``[nodes, 1]`` of the other are broadcast to a table."""
        if self.kind == "classes" or labels.size(1) > 1:
            return
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        shuffled = labels[order.to(labels.device)]
        right = labels[None].to(torch.get_default_dtype())
        asked = [(right, labels), (right, shuffled), (2 * right + 1, labels)]
        ours, theirs, others = (float(self(scores, y)) for scores, y in asked)
        alike, constant = (math.isclose(ours, v, rel_tol=_ROUNDING) for v in (theirs, others))
        if alike and not constant and not torch.equal(labels, shuffled):
            warn(
                f"{name_of(self.function)} is the same if labels are shuffled, so it does not "
                f"hold each score against its own: both have the shape [{len(labels)}, 1], and "
                f"one that is squeezed is broadcast to all pairs. Squeeze both, or neither."
            )

    def _can_be_vmapped(self, scores: Tensor, labels: Tensor, own: bool) -> bool:
        """Return whether ``torch.vmap`` can follow; refuse a function that fails by itself."""
        try:
            self._one(scores[0], labels[0] if own else labels)
        except InputError:
            raise
        except Exception as error:  # a function of anyone's may raise anything
            raise InputError(
                f"Expected a function of scores {list(scores.shape[1:])} and labels "
                f"{list(labels.shape)} of {labels.dtype}; {name_of(self.function)} raised "
                f"{reason_of(error)}"
            ) from error
        try:
            torch.vmap(self._one, in_dims=(0, 0 if own else None))(scores, labels)
        except Exception:  # values that are read, shapes that depend on them, numpy
            return False
        return True

    def _one(self, scores: Tensor, labels: Tensor) -> Tensor:
        found = self.function(scores, labels)
        value = torch.as_tensor(found, device=scores.device)
        if self.name == "loss":
            value = value.mean()
        if value.dim():
            raise InputError(
                f"Expected {self.name} to be one number for all nodes; found shape "
                f"{list(value.shape)}."
            )
        return value


# Losses


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean softmax cross-entropy."""
    seeds, nodes, classes = scores.shape
    loss = F.cross_entropy(
        scores.reshape(-1, classes), labels.expand(seeds, nodes).reshape(-1), reduction="none"
    )
    return loss.view(seeds, nodes).mean(1)


def _bce(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean sigmoid cross-entropy over nodes and labels."""
    targets = labels.to(scores.dtype).expand_as(scores)
    loss = F.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    return loss.mean((1, 2))


def _mse(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean squared error over nodes and values."""
    return (scores - labels.to(scores.dtype)).square().mean((1, 2))


def _mae(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean absolute error over nodes and values."""
    return (scores - labels.to(scores.dtype)).abs().mean((1, 2))


def _huber(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of squared errors below 1 and absolute errors above."""
    targets = labels.to(scores.dtype).expand_as(scores)
    return F.huber_loss(scores, targets, reduction="none").mean((1, 2))


# Metrics


def _accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the share of right predictions."""
    right = (scores.argmax(-1) == labels).sum(1)
    return right.to(_precision(scores)) / labels.shape[-1]


def _micro_f1(scores: Tensor, labels: Tensor) -> Tensor:
    """Return F1 of all decisions pooled, for labels at the threshold one half; 1 without
    positives. For classes it is the accuracy."""
    if labels.dim() == 1:
        return _accuracy(scores, labels)
    found, wanted = scores > 0, labels > 0.5
    right = (found & wanted).sum((1, 2))
    asked = found.sum((1, 2)) + wanted.sum()
    share = 2 * right.to(_precision(scores)) / asked.clamp(min=1)
    return torch.where(asked == 0, 1.0, share)


def _macro_f1(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean F1 of all labels, or of all classes that occur or are predicted."""
    if labels.dim() == 1:
        classes = torch.arange(scores.size(-1), device=scores.device)
        found, wanted = scores.argmax(-1, keepdim=True) == classes, labels[:, None] == classes
    else:
        found, wanted = scores > 0, labels > 0.5
    asked = found.sum(1) + wanted.sum(0)
    each = 2 * (found & wanted).sum(1).to(_precision(scores)) / asked.clamp(min=1)
    return each.mean(1) if labels.dim() == 2 else each.sum(1) / (asked > 0).sum(1)


def _roc_auc(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the chance that a positive has a higher score than a negative, equal ones counted by
    half; the mean over labels, or classes each against the rest, that have both."""
    scores, wanted = _columns(scores, labels)
    ordered = scores.sort(-1).values
    below, up_to = (torch.searchsorted(ordered, scores, right=right) for right in (False, True))
    positives = wanted.sum(-1)
    # Twice the rank, equal scores sharing theirs: whole numbers, whose sums are exact.
    twice = ((below + up_to + 1) * wanted).sum(-1) - positives * (positives + 1)
    area = twice.double() / (2 * positives * (wanted.size(-1) - positives))
    return _mean_of_defined(area, scores, wanted)


def _average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean precision at the scores of all positives; the mean over labels, or classes
    each against the rest, of two the second alone."""
    scores, wanted = _columns(scores, labels)
    if labels.dim() == 1 and len(wanted) == 2:
        scores, wanted = scores[:, 1:].contiguous(), wanted[1:]
    ordered, order = scores.sort(-1)
    below = torch.searchsorted(ordered, scores)
    hits = wanted.expand_as(scores).gather(-1, order).cumsum(-1)
    found = wanted.sum(-1)[:, None] - F.pad(hits, (1, 0)).gather(-1, below)
    precision = found.double() / (wanted.size(-1) - below)
    return _mean_of_defined((precision * wanted).sum(-1) / wanted.sum(-1), scores, wanted)


def _mrr(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of one over the rank of each positive among all negatives; the rank among
    equal scores is their mean."""
    scores, wanted = _columns(scores, labels)
    negatives = scores.masked_fill(wanted, -torch.inf).sort(-1).values
    below, up_to = (torch.searchsorted(negatives, scores, right=right) for right in (False, True))
    rank = 1 + wanted.size(-1) - (below + up_to).double() / 2
    return _mean_of_defined((wanted / rank).sum(-1) / wanted.sum(-1), scores, wanted)


def _hits(scores: Tensor, labels: Tensor, k: int) -> Tensor:
    """Return the share of positives with a higher score than the k-th best negative."""
    scores, wanted = _columns(scores, labels)
    negatives = scores.masked_fill(wanted, -torch.inf)
    last = negatives.topk(min(k, negatives.size(-1))).values[..., -1:]
    share = ((scores > last) & wanted).sum(-1).double() / wanted.sum(-1)
    share = torch.where((~wanted).sum(-1) < k, torch.nan, share)
    return _mean_of_defined(share, scores, wanted)


def _columns(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores ``[seeds, labels, nodes]``, and which are of positives ``[labels, nodes]``."""
    if labels.dim() == 1:
        classes = torch.arange(scores.size(-1), device=scores.device)
        scores, wanted = _log_odds(scores), labels[:, None] == classes
    else:
        wanted = labels > 0.5
    return scores.transpose(1, 2).contiguous(), wanted.T.contiguous()


def _log_odds(scores: Tensor) -> Tensor:
    """Return the logarithm of p / (1 - p) of every class, in the order of its probability p, which
    itself would be rounded to ties near one, where sure networks have it."""
    scores = scores.double()
    scores = scores - scores.amax(-1, keepdim=True)
    ordered = scores.sort(-1, descending=True).values  # sums are the same in any order of classes
    of_first = -ordered[..., 1:].logsumexp(-1, keepdim=True)
    log_p = scores - ordered.logsumexp(-1, keepdim=True)
    odds = torch.where(scores == 0, of_first, log_p - torch.log1p(-log_p.exp()))
    most = torch.finfo(odds.dtype).max  # a class that a model rules out has a score of -inf
    return odds.clamp(-most, most)


def _mean_of_defined(values: Tensor, scores: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean over columns with positives and negatives; NaN if scores are not finite,
    which have no order."""
    both = wanted.any(-1) & ~wanted.all(-1)
    mean = torch.where(both, values, 0.0).sum(-1) / both.sum()
    return torch.where(scores.isfinite().all(-1).all(-1), mean, torch.nan)


def _r2(scores: Tensor, labels: Tensor) -> Tensor:
    """Return one minus squared error over variance, the mean over values that vary; 0 is what
    their mean reaches."""
    labels = labels.double()  # a mean far from zero, rounded, would be taken for spread
    error = (scores - labels).square().sum(1)
    variance = (labels - labels.mean(-2, keepdim=True)).square().sum(-2)
    varies = (labels != labels[..., :1, :]).any(-2)
    return torch.where(varies, 1 - error / variance, 0.0).sum(-1) / varies.sum(-1)


def _rmse(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the root of the mean squared error, the mean over values."""
    return (scores - labels).square().mean(1).sqrt().mean(-1)


def _precision(scores: Tensor) -> torch.dtype:
    return torch.promote_types(scores.dtype, torch.float32)


class _Named(NamedTuple):
    function: Callable[..., Tensor]
    kinds: tuple[Kind, ...]
    higher_is_better: bool = True


_LOSSES: Final = {
    "cross_entropy": _Named(_cross_entropy, ("classes",)),
    "bce": _Named(_bce, ("labels", "links")),
    "mse": _Named(_mse, ("values",)),
    "mae": _Named(_mae, ("values",)),
    "huber": _Named(_huber, ("values",)),
}
_METRICS: Final = {
    "accuracy": _Named(_accuracy, ("classes",)),
    "micro-F1": _Named(_micro_f1, ("classes", "labels")),
    "macro-F1": _Named(_macro_f1, ("classes", "labels")),
    "ROC-AUC": _Named(_roc_auc, ("classes", "labels", "links")),
    "average precision": _Named(_average_precision, ("classes", "labels", "links")),
    "MRR": _Named(_mrr, ("links",)),
    "Hits@k": _Named(_hits, ("links",)),
    "R2": _Named(_r2, ("values",)),
    "MAE": _Named(_mae, ("values",), higher_is_better=False),
    "MSE": _Named(_mse, ("values",), higher_is_better=False),
    "RMSE": _Named(_rmse, ("values",), higher_is_better=False),
}
_OF_VALUES: Final = ("R2", "MAE", "MSE", "RMSE")
_USUAL: Final[dict[Kind, tuple[str, str]]] = {
    "classes": ("cross_entropy", "accuracy"),
    "labels": ("bce", "micro-F1"),
    "values": ("mse", "R2"),
    "links": ("bce", "ROC-AUC"),
}
_WORDS: Final[dict[Kind, str]] = {
    "classes": "class numbers",
    "labels": "tables of zeros and ones",
    "values": "real numbers",
    "links": "pairs of nodes",
}
