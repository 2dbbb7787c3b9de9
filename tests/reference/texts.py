"""Features of texts as the paper's appendix puts them, one word and one token at a time."""

import re
import string

import numpy as np


def words(text):
    """Lower case, no possessive endings, cut at everything but ASCII letters and digits."""
    kept = string.ascii_lowercase + string.digits
    out, word = [], ""
    for letter in re.sub("'s(?![a-z0-9_])", "", text.lower()) + " ":
        if letter in kept:
            word += letter
        elif word:
            out.append(word)
            word = ""
    return out


def title(text, vectors, width, stop):
    """[mean vector of words that are no stop words, length, length without stop words]"""
    total, known, length, telling = np.zeros(width), 0, 0, 0
    for word in words(text):
        length += 1
        if word in stop:
            continue
        telling += 1
        if word in vectors:
            total += vectors[word]
            known += 1
    return np.array([*(total / known if known else total), length, telling])


def mean_over_tokens(H, mask):
    """H: hidden state [n, t, d]; mask: 1 for a real token, 0 for padding [n, t]."""
    n, t, d = H.shape
    out = np.zeros((n, d))
    for i in range(n):
        for j in range(d):
            real = [H[i, k, j] for k in range(t) if mask[i, k] == 1]
            out[i, j] = sum(real) / len(real)
    return out
