"""Child processes for tests, forked from one that has imported the library already.

A fresh interpreter takes seconds to import torch and PyG. What is forked takes its working folder
and environment from the process it was forked from: pass the paths that it needs.
"""

import multiprocessing

PRELOAD = [
    "drgcn.audit.refining.refine",
    "drgcn.recommend.clicks",
    "drgcn.recommend.distributed.group",
    "drgcn.recommend.model.training",
    "drgcn.studies.reproduce.processes",
]
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(PRELOAD)
