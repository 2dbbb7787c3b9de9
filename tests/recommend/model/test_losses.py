import importlib

import pytest
import torch
import torch.nn.functional as F

from drgcn.errors import InputError
from drgcn.recommend.model.losses import bpr_loss, column_lse, softmax_loss

lse_module = importlib.import_module("drgcn.recommend.model.losses")


def batch(rows=37, extra=11, items=20, width=6):
    users = torch.randn(rows, width, dtype=torch.float64, requires_grad=True)
    vectors = torch.randn(rows + extra, width, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(items, (rows + extra,))
    log_q = torch.rand(items, dtype=torch.float64).log()[ids]
    return users, vectors, ids, log_q


def literal(users, vectors, ids, log_q, logq, mask_hits, first=0):
    """Row by row, column by column."""
    total = 0
    for row in range(users.size(0)):
        own = first + row
        terms = []
        for column in range(vectors.size(0)):
            hit = mask_hits and ids[column] == ids[own]
            if column == own or hit:
                continue
            logit = users[row] @ vectors[column]
            if logq == "standard":
                logit = logit - log_q[column]
            elif logq == "refined":
                logit = logit - log_q[column] - torch.log(torch.tensor(float(len(ids))).double())
            terms.append(logit)
        score = users[row] @ vectors[own] - (log_q[own] if logq == "standard" else 0)
        total = total - (score - torch.logsumexp(torch.stack([*terms, score]), 0))
    return total / users.size(0)


@pytest.mark.parametrize(
    ("logq", "mask_hits", "first"),
    [("standard", True, 0), ("refined", True, 0), ("off", True, 0), ("standard", False, 0),
     ("standard", True, 5), ("refined", False, 5)],
)  # fmt: skip
def test_chunks_equal_the_dense_loss_with_gradients(monkeypatch, logq, mask_hits, first):
    monkeypatch.setattr(lse_module, "_LOGITS", 48 * 5)  # five rows at a time
    users, vectors, ids, log_q = batch()
    own = ids[first : first + 37]
    found = softmax_loss(
        users, vectors, own, ids, log_q, first=first, logq=logq, mask_hits=mask_hits
    )
    expected = literal(users, vectors, ids, log_q, logq, mask_hits, first)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(loss, (users, vectors)) for loss in (found, expected)]
    torch.testing.assert_close(*grads)


def test_logits_are_never_all_there(monkeypatch):
    monkeypatch.setattr(lse_module, "_LOGITS", 1000)
    sizes = []
    whole = lse_module._logits

    def watched(*arguments):
        out = whole(*arguments)
        sizes.append(out.numel())
        return out

    monkeypatch.setattr(lse_module, "_logits", watched)
    users, vectors, ids, log_q = batch(rows=100, extra=0)
    softmax_loss(users, vectors, ids, ids, log_q).backward()
    assert max(sizes) <= 1000
    assert sum(sizes) == 2 * 100 * 100


def test_a_row_without_columns_has_no_loss_and_no_gradient():
    users, vectors, _, log_q = batch(rows=4, extra=0)
    same = torch.zeros(4, dtype=torch.int64)
    loss = softmax_loss(users, vectors, same, same, log_q)
    loss.backward()
    assert loss == 0
    assert not users.grad.any()
    assert not vectors.grad.any()
    assert (column_lse(users, vectors, log_q, same, same) == -torch.inf).all()


@pytest.mark.parametrize(("logq", "mask_hits"), [("refined", True), ("standard", False)])
def test_corrected_gradients_converge_to_those_of_the_full_softmax(logq, mask_hits):
    """Fifty items, drawn by a skewed distribution, in larger and larger batches."""
    items, width = 50, 4
    vectors = torch.randn(items, width, dtype=torch.float64)
    user = torch.randn(1, width, dtype=torch.float64)
    chance = torch.rand(items, dtype=torch.float64) ** 4 + 0.01
    chance /= chance.sum()
    positive = int(chance.argmax())  # where a missing correction shows most

    def gradient(sampled, log_q, **options):
        leaf = vectors.clone().requires_grad_()
        own = torch.tensor([positive])
        loss = softmax_loss(user, leaf[sampled], own, sampled, log_q, **options)
        return torch.autograd.grad(loss, leaf)[0]

    everything = torch.cat([torch.tensor([positive]), torch.arange(items)])
    full = vectors.clone().requires_grad_()
    F.cross_entropy(user @ full.T, torch.tensor([positive])).backward()
    errors = {}
    for options in ({"logq": logq, "mask_hits": mask_hits}, {"logq": "off"}):
        for size in (500, 50_000):
            drawn = torch.multinomial(chance, size, replacement=True)
            sampled = torch.cat([torch.tensor([positive]), drawn])
            found = gradient(sampled, chance.log()[sampled], **options)
            errors[options["logq"], size] = float((found - full.grad).norm() / full.grad.norm())
    assert errors[logq, 50_000] < 0.03
    assert errors[logq, 50_000] < errors[logq, 500]
    assert errors["off", 50_000] > 0.2
    # And without sampling, all items once: exact, for every item then counts once.
    uniform = torch.full((items + 1,), 1 / (items + 1), dtype=torch.float64).log()
    exact = gradient(everything, uniform, logq="refined", mask_hits=True)
    torch.testing.assert_close(exact, full.grad)


def test_bpr_is_the_log_sigmoid_of_differences():
    users, items, negatives = torch.randn(3, 9, 5, dtype=torch.float64)
    expected = -F.logsigmoid((users * items).sum(1) - (users * negatives).sum(1)).mean()
    torch.testing.assert_close(bpr_loss(users, items, negatives), expected)


def test_an_unknown_correction_is_refused():
    users, vectors, ids, log_q = batch()
    with pytest.raises(InputError, match="standard, refined or off"):
        softmax_loss(users, vectors, ids[:37], ids, log_q, logq="on")
