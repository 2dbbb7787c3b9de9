"""Rankings by looking at every pair, written down without any care for speed."""

import numpy as np
import torch


def halving_sum(terms):
    """32-bit floats, the second half added to the first until one is left."""
    terms = [np.float32(t) for t in terms]
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        left, right = terms[:half], terms[half:]
        terms = [a + right[k] if k < len(right) else a for k, a in enumerate(left)]
    return terms[0]


def score_table(queries, items, metric):
    """All scores, each sum in the order of :func:`halving_sum`."""
    q, x = queries.numpy(), items.numpy()
    table = np.empty((len(q), len(x)), dtype=np.float32)
    for row, query in enumerate(q):
        terms = query * x if metric == "ip" else -((query - x) ** 2)
        columns = [terms[:, k] for k in range(terms.shape[1])]
        while len(columns) > 1:
            half = (len(columns) + 1) // 2
            rest = columns[half:]
            columns = [c + rest[k] if k < len(rest) else c for k, c in enumerate(columns[:half])]
        table[row] = columns[0]
    return table


def ranked(queries, items, n, metric="ip", seen=None):
    """Scores and items of the best n: by score, then by id; -inf and -1 where a list ends."""
    table = score_table(queries, items, metric)
    scores = np.full((len(table), n), -np.inf, dtype=np.float32)
    found = np.full((len(table), n), -1)
    for row, line in enumerate(table):
        banned = set() if seen is None else seen[row]
        free = [i for i in range(len(line)) if i not in banned]
        best = sorted(free, key=lambda i, line=line: (-line[i], i))[:n]
        found[row, : len(best)] = best
        scores[row, : len(best)] = line[best]
    return torch.from_numpy(scores), torch.from_numpy(found)
