"""Labels that leak into what a model sees: words, single features, and how far these get."""
