# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Many networks in one pass
#
# Sixteen networks trained side by side: four learning rates of four seeds.

# %% alt="Line chart: validation accuracy by epoch for four seeds of each of four learning rates"
import matplotlib.pyplot as plt
from torch_geometric.nn import GCN

from drgcn import fit, load

data = load("digits")


def make():
    return GCN(data.num_features, 32, num_layers=2, out_channels=10, dropout=0.5)


rates = [0.001, 0.003, 0.01, 0.03]
found = fit(make, data, seeds=range(4), epochs=60, grid={"lr": rates})
figure, axes = plt.subplots(figsize=(7, 3.5))
for rate in rates:
    for number, curve in enumerate(found.where(lr=rate).curves["val_accuracy"]):
        axes.plot(100 * curve, color=f"C{rates.index(rate)}", label=rate if number == 0 else None)
axes.set(xlabel="epoch", ylabel="validation accuracy %")
axes.legend(title="learning rate", frameon=False)
plt.show()

# %% [markdown]
# A row for every setting, the best on validation nodes first. Test nodes are looked at once for each network, and choose nothing.

# %%
print(found.summary())
best = found.best_setting()
print(best.settings[0], best.test_accuracy)

# %% [markdown]
# A network does not depend on those beside it: alone, seed 3 comes out the same, to the bit on CPU.

# %%
rate = best.settings[0]["lr"]
alone = fit(make, data, seeds=[3], epochs=60, lr=rate)
assert alone.test_accuracy[0] == best.select([3]).test_accuracy[0]
alone.test_accuracy

# %% [markdown]
# The models are ordinary modules. Together they say how sure they are.

# %%
prediction = best.predict(data)
doubtful = prediction.votes.max(1).values < len(best.seeds)
right = prediction.classes == data.y
test = data.test_mask
print(f"all seeds agree on {(~doubtful[test]).float().mean():.1%} of the test nodes")
print(
    f"right where they agree {right[test & ~doubtful].float().mean():.1%}, where not {right[test & doubtful].float().mean():.1%}"
)
