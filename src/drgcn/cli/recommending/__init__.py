"""The verbs of ``drgcn recommend``."""
