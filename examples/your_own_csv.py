"""
Your own data: two CSV files
============================

A graph out of a database, read, trained on, and judged: does Dr help on it?
"""

import csv
import random
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from drgcn import fit, load, stability_k, variance_spread
from drgcn.nn import GCN

# Two files, as they might come out of a database: people, and who follows whom.
random.seed(0)
folder = Path(tempfile.mkdtemp()) / "people"
folder.mkdir()
with (folder / "nodes.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["id", "age", "posts", "income", "label"])
    for i in range(400):
        group = ("reader", "writer")[i % 2]
        posts = random.gauss(3, 2) + (4 if group == "writer" else 0)
        row = [f"p{i}", random.randint(18, 80), round(posts, 2), random.randint(0, 90_000), group]
        writer.writerow(row)
with (folder / "edges.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["source", "target"])
    for _ in range(1200):
        i = random.randrange(400)
        j = (i + 2 * random.randrange(1, 200)) % 400 if random.random() < 0.8 else (i + 1) % 400
        writer.writerow([f"p{i}", f"p{j}"])

# `standard` because income is counted in tens of thousands: on raw scales any gate saturates.
data = load(folder, normalize="standard")
print(data)
print(f"spread of the feature variances: {variance_spread(data.x):.2f}")

scores = {}
for gate in (None, "dr", "static"):
    result = fit(
        lambda gate=gate: GCN(data.num_features, 16, data.dataset.classes, reweight=gate),
        data,
        seeds=range(8),
        epochs=100,
    )
    scores[gate or "plain"] = [100 * score for score in result.test_accuracy]
    mean = sum(result.test_accuracy) / len(result.test_accuracy)
    print(f"{gate or 'plain':>8}: {100 * mean:.1f} % over {len(result.seeds)} seeds")
    if gate == "dr":
        s = result.models[0].inputs[0].gate.vector(data.x)
        shown = [round(value, 2) for value in s.tolist()]
        print(f"          learnt s {shown}, K {stability_k(data.x, s):.2f}")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.boxplot(list(scores.values()), tick_labels=list(scores))
axes.set_ylabel("test accuracy % of 8 seeds")
plt.show()
