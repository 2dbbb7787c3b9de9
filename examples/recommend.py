"""
Recommendation: train, evaluate, export, ask
============================================

From clicks to lists of items in Python. The clicks are synthetic: their recalls say
nothing about others.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from drgcn.recommend.clicks import ClickSplit
from drgcn.recommend.model import ModelOptions, TrainSettings, build_model, train
from drgcn.recommend.retrieval import evaluate
from drgcn.recommend.serving import ExportFolder, ExportSettings, LoadedRun, Recommender, export
from drgcn.recommend.synthetic import generate_astar

# Synthetic clicks of about 18,000 users; `drgcn recommend ingest` reads your own.
data = generate_astar(fraction=0.0005)
split = ClickSplit.by_time(data)  # the last day is to be found from the days before
print(f"{data.graph.num_clicks:,} clicks, to find: {split.name}")

bars = {}
for gate in ("none", "dr"):
    model = build_model(data, split.train, ModelOptions(gate=gate, fan_outs=(5, 5)))
    train(model, data, split.train, TrainSettings(steps=15, batch_size=512, lr=0.01))
    run = LoadedRun(model, {"day": 12}, data)
    report = evaluate(*run.vectors(split.train), split, n=50)
    recall, popular = report.model["all"]["recall"], report.popularity["all"]["recall"]
    bars |= {f"gate {gate}": recall, "popular items": popular}
    print(
        f"gate {gate}: recall@50 {100 * recall.mean:.1f} % ({100 * recall.low:.1f} to "
        f"{100 * recall.high:.1f}), popular items {100 * popular.mean:.1f} %"
    )

# For serving all clicks count, those of the last day too.
folder = Path(tempfile.mkdtemp()) / "export"
export(run, folder, ExportSettings(index="none"))  # "auto" for an index of faiss
recommender = Recommender(ExportFolder(folder))
top = recommender.for_users(torch.tensor([17]), 5, exclude_seen=True)
print("user 17, not seen yet:", top.items[0].tolist())

# Somebody new, by attributes alone.
vector = recommender.export.cold_users.vectors([{"interest": 2, "number_0": 0.1}])
print("somebody new:         ", recommender.for_vectors(vector, 5).items[0].tolist())

# A few steps of training stay behind a list of popular items, which is why it stands beside.
figure, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
for name, found in bars.items():
    error = [[100 * (found.mean - found.low)], [100 * (found.high - found.mean)]]
    axes.barh(name, 100 * found.mean, xerr=error, capsize=4)
axes.set_xlabel("recall@50 in %, with 95 % intervals")
plt.show()
