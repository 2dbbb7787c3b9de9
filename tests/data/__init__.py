"""Tests of drgcn.data; a package, so that its helpers can be shared."""
