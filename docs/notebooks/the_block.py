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
# # Does the block help my model?
#
# A PyG model without a gate, with Dr, and with two gates that see no data. Every grey line is a seed: the same first weights, another gate.

# %% alt="Dot chart: test accuracy of six seeds, plain, with Dr, and with the static and the constant gate, a line joining the dots of each seed"
import matplotlib.pyplot as plt
from torch_geometric.nn import GraphSAGE

from drgcn import compare, load

data = load("planted")  # synthetic, and made for Dr: put your own Data here


def make():
    return GraphSAGE(data.num_features, 32, num_layers=2, out_channels=4, dropout=0.5)


found = compare(make, data, seeds=range(6), epochs=60)
rows = [[100 * score for score in result.test_accuracy] for result in found.fits.values()]
figure, axes = plt.subplots(figsize=(7, 3.5))
axes.plot(rows, color="0.85")
for place, scores in enumerate(rows):
    axes.plot([place] * len(scores), scores, "o")
axes.set_xticks(range(4), [gate or "plain" for gate in found.fits])
axes.set_ylabel("test accuracy %")
plt.show()

# %% [markdown]
# The same as a table with its verdict. *Static* is a learnable gate per dimension that sees no data, *constant* a fixed one half: what they
# gain as well is due to gating, not to the block.

# %%
print(found.summary())

# %% [markdown]
# What the block does to the features, before and after training: K is the variance across dimensions after reweighting, relative to before.

# %%
from drgcn import advise, reweighting_blocks, stability_k

print(advise(data))
model = found.fits["dr"].models[0]
for name, block in reweighting_blocks(model).items():
    print(name, block)
first = next(iter(reweighting_blocks(model).values()))
s = first.vector(data.x).detach()
print(f"K of the first block, after training: {stability_k(data.x, s):.2f}")

# %% [markdown]
# The same on data that was not made for it: handwritten digits, joined to their nearest neighbours.

# %%
data = load("digits")


def make():
    return GraphSAGE(data.num_features, 32, num_layers=2, out_channels=10, dropout=0.5)


print(compare(make, data, seeds=range(3), epochs=40).summary())
