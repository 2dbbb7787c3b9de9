"""Whether graph, features and split are what a model takes them for."""
