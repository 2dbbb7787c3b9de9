"""What the tests of all models ask of a model."""

import torch
import torch.nn.functional as F

from drgcn.data import load

GATES = [None, "dr", "static", "constant"]


def randomized(model, seed=1):
    """The model in float64, with no parameter and no running statistic at a trivial value."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.double().state_dict().items():
        if value.is_floating_point():
            draw = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            value.copy_(draw.abs() + 0.5 if name.endswith("running_var") else draw)
    return model


def gradients(out, model):
    """Of a random linear function of the output, by every parameter."""
    generator = torch.Generator().manual_seed(9)
    factors = torch.randn(out.shape, generator=generator, dtype=out.dtype)
    return torch.autograd.grad((out * factors).sum(), list(model.parameters()))


def lanes(models, *inputs):
    """Outputs of several models at once ``[models, ...]``, as ``fit`` computes them."""
    state = torch.func.stack_module_state(models)

    def call(parameters, buffers):
        return torch.func.functional_call(models[0], (parameters, buffers), inputs)

    return torch.vmap(call)(*state)


def every_second_kept(monkeypatch):
    """Replaces dropout by a mask that keeps every second entry; returns the inputs it saw."""
    seen = []

    def every_second(values, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return values
        seen.append(values)
        keep = torch.arange(values.numel()).view(values.shape) % 2 == 0
        return values * keep / (1 - p)

    monkeypatch.setattr(F, "dropout", every_second)
    return seen


def losses(make_model, optimizer=torch.optim.Adam, lr=0.02, epochs=60):
    """Training loss at every epoch of a plain loop on a small planted graph."""
    data = load("planted", nodes=200, features=16, labels_per_class=10, val_per_class=20)
    torch.manual_seed(0)
    model = make_model(data.num_features, 4)
    inputs = model.prepare(data)
    steps = optimizer(model.parameters(), lr=lr)
    found = []
    for _ in range(epochs):
        steps.zero_grad()
        loss = F.cross_entropy(model(*inputs)[data.train_mask], data.y[data.train_mask])
        loss.backward()
        steps.step()
        found.append(loss.item())
    return found
