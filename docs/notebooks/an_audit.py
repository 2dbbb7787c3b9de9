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
# # Is my dataset sound?
#
# Copies of training nodes in the test part make results look better than they are. Here more and more test nodes get the features of a
# training node of their class: the accuracy rises, and the audit counts them.

# %% alt="Two charts: the test accuracy of three seeds rises with the share of copies in the test part, and so does the number of nodes that the audit counts as copies"
import matplotlib.pyplot as plt
from torch_geometric.nn import GCN

from drgcn import fit, load
from drgcn.audit.report import audit

shares, accuracies, copies = [0.0, 0.1, 0.2, 0.4], [], []
for share in shares:
    data = load("digits")
    train, test = (mask.nonzero().flatten() for mask in (data.train_mask, data.test_mask))
    for node in test[: int(share * len(test))]:
        same = train[data.y[train] == data.y[node]]
        data.x[node] = data.x[same[node % len(same)]]
    report = audit(data)
    copies.append(report.finding("exact duplicates").numbers["copies"])
    result = fit(
        lambda data=data: GCN(data.num_features, 32, 2, 10, dropout=0.5), data, range(3), epochs=40
    )
    accuracies.append([100 * score for score in result.test_accuracy])

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.plot(shares, accuracies, "o-")
left.set(xlabel="share of copies in the test part", ylabel="test accuracy %, three seeds")
right.bar([f"{share:.0%}" for share in shares], copies)
right.set(xlabel="share of copies", ylabel="nodes the audit counts as copies")
plt.show()

# %% [markdown]
# What an audit finds, worst first. Every finding has the definition by which it was counted.

# %%
for finding in report.findings[:4]:
    print(
        f"{finding.severity}: {finding.name}\n   {finding.summary}\n   {finding.definition[:160]}\n"
    )

# %% [markdown]
# The groups themselves, to look at or to take away (`drgcn refine` merges them and writes a line for every node).

# %%
from drgcn.audit.duplicates import find_duplicates, straddling
from drgcn.audit.graph_view import GraphView

groups = find_duplicates(data).groups()
across = straddling(GraphView.of(data), groups, "train", "test")
print(len(groups), "groups, of which", len(across), "stand on both sides:", across[:3])
