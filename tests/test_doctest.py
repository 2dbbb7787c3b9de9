"""The examples in docstrings run."""

import doctest
import importlib

import pytest

MODULES = (
    "drgcn.reweighting",
    "drgcn.insertion",
    "drgcn.nn.chebyshev",
    "drgcn.nn.gcn",
    "drgcn.nn.geniepath",
    "drgcn.nn.lgcn",
    "drgcn.nn.mixhop",
    "drgcn.stability.attainable",
    "drgcn.stability.measure",
    "drgcn.stability.moments",
    "drgcn.stability.measure",
    "drgcn.data.loader",
    "drgcn.audit.texts",
    "drgcn.training.tracker",
    "drgcn.studies.advice.advice",
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    import torch

    result = doctest.testmod(module, extraglobs={"torch": torch})
    assert result.attempted > 0
    assert result.failed == 0
