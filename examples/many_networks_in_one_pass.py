"""
Many networks in one pass
=========================

24 networks, six settings of four seeds each, trained side by side. Each equals the network that is
trained alone, on CPU to the bit.
"""

import matplotlib.pyplot as plt
import torch
from torch_geometric.nn import GCN

from drgcn import fit, insert_reweighting, load

data = load("digits")


def make() -> torch.nn.Module:
    """PyG's GCN with a block in front of each convolution."""
    return insert_reweighting(GCN(data.num_features, 32, 2, data.dataset.classes, dropout=0.5))


rates, dropouts = [0.003, 0.01, 0.03], [0.2, 0.5]
found = fit(make, data, range(4), epochs=60, grid={"lr": rates, "dropout": dropouts})
print(found.summary())
best = found.best_setting()
print("chosen on validation nodes:", best.settings[0])

# One of them again, alone: the same numbers.
setting = {name: [value] for name, value in best.settings[0].items()}
alone = fit(make, data, [2], epochs=60, grid=setting)
assert alone.test_accuracy == best.select([2]).test_accuracy

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
means = [
    [
        100 * sum(result.val_accuracy) / len(result.seeds)
        for result in (found.where(lr=lr, dropout=dropout) for lr in rates)
    ]
    for dropout in dropouts
]
picture = left.imshow(means, cmap="viridis")
left.set_xticks(range(len(rates)), rates)
left.set_yticks(range(len(dropouts)), dropouts)
left.set(xlabel="learning rate", ylabel="dropout", title="validation accuracy %")
figure.colorbar(picture, ax=left, shrink=0.7)
for curve in best.curves["val_accuracy"]:
    right.plot(100 * curve)
right.set(xlabel="epoch", title="the chosen setting, four seeds")
plt.show()
