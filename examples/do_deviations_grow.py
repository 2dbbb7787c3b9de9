"""
Do deviations grow?
===================

Theorem 2 says that deviations from the fixed point grow, at a rate given by K. With ReLU they
shrink, and the part that K speaks of is gone after one layer. :doc:`/theory` has the proofs.
"""

import matplotlib.pyplot as plt
import torch

from drgcn.theory import arc_cosine, deviations

features, layers = 16, 12
noise = torch.randn(features, features, generator=torch.Generator().manual_seed(0)).double()
parts = deviations(1e-3 * (noise + noise.T), layers)
for layer in (0, 1, layers):
    print(
        f"layer {layer:>2}:", {name: f"{size:.1e}" for name, size in parts[layer].norms().items()}
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
before = torch.linspace(-1, 1, 101).tolist()
left.plot(before, [arc_cosine(rho) for rho in before], label="after ReLU")
left.plot(before, before, color="0.7", label="unchanged")
left.set(xlabel="correlation of two features", ylabel="the same one layer later")
left.legend(frameon=False)
for name in ("G", "L", "M"):
    sizes = [part.norms()[name] for part in parts]
    right.plot([size if size > 1e-12 else float("nan") for size in sizes], "o-", label=name)
right.set(xlabel="layer", ylabel="size of a deviation, by space", yscale="log")
right.legend(frameon=False)
plt.show()
