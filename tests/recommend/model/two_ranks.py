"""A run on two ranks over gloo against one alone; run by test_exchange.py with torchrun's
variables set."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_gather, all_reduce

from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.training import train
from tests.recommend.model.clicks import data, new_model


class Gloo(Exchange):
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def sum(self, x):
        return all_reduce(x)

    def gather(self, x):
        return torch.cat(all_gather(x.contiguous()))

    def gather_ids(self, ids):
        found = [torch.empty_like(ids) for _ in range(self.size)]
        dist.all_gather(found, ids.contiguous())
        return torch.cat(found)

    def average_gradients(self, parameters):
        for parameter in parameters:
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.size

    def mean(self, x):
        x = x.clone()
        dist.all_reduce(x)
        return x / self.size


def runs(exchange):
    clicks = data()
    found = []
    for gate, loss in (("dr", "softmax"), ("static", "bpr"), ("light", "softmax")):
        settings = TrainSettings(steps=4, batch_size=32, negatives=8, seed=1, loss=loss, lr=1e-2)
        if gate == "light":
            model = new_model(clicks, model="lightgcn", channels=8)
        else:
            model = new_model(clicks, gate=gate, channels=8, fan_outs=(3, 2))
        result = train(model, clicks, settings=settings, exchange=exchange)
        found.append((result.losses, torch.cat([p.flatten() for p in model.parameters()])))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo")
    together = runs(Gloo())
    if dist.get_rank() == 0:
        for (losses, weights), (alone, expected) in zip(together, runs(Exchange()), strict=True):
            torch.testing.assert_close(losses, alone)
            torch.testing.assert_close(weights, expected, rtol=1e-8, atol=1e-9)
        print("two ranks agree with one", file=sys.stdout)
    dist.barrier()
    dist.destroy_process_group()
