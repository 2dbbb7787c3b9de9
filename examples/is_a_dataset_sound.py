"""
Is a dataset sound?
===================

An audit of a graph into which two faults were put: a column that gives a class away, and copies of
training nodes in the test part.
"""

from collections import Counter

import matplotlib.pyplot as plt
import torch

from drgcn.audit.report import audit
from drgcn.data import load

data = load("digits")
before = audit(data)

train, test = (mask.nonzero().flatten() for mask in (data.train_mask, data.test_mask))
data.x = torch.cat([data.x, (data.y == 3).float()[:, None]], dim=1)  # a column that is a label
data.x[test[:40]] = data.x[train[:40]]  # the same thing in training and test
after = audit(data, name="digits, spoilt")

for finding in after.findings:
    if finding.severity in ("serious", "warning"):
        print(f"{finding.severity:>8}  {finding.name}: {finding.summary}")

levels = ["serious", "warning", "note", "fine"]
figure, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
for place, report in enumerate((after, before)):
    counts, left = Counter(finding.severity for finding in report.findings), 0
    for level, colour in zip(levels, ("#D55E00", "#E69F00", "#56B4E9", "#BBBBBB"), strict=True):
        label = level if place == 0 else None
        axes.barh(place, counts[level], left=left, color=colour, label=label)
        left += counts[level]
axes.set_yticks([0, 1], ["spoilt", "as it was"])
axes.set_xlabel("findings")
axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False)
plt.show()
