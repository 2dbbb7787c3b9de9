"""Tests of drgcn.sampling."""
