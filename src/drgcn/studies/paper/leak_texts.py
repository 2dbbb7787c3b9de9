"""What is known of the words of Cora's and Citeseer's papers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from drgcn.audit.leaks.words import read_feature_names
from drgcn.audit.texts import NodeTexts
from drgcn.errors import MissingDataError

# Words of these papers were guessed from their features: as texts they would say nothing new.
_GUESSED = "recovered bag of words"


@dataclass(frozen=True)
class LeakTexts:
    """Texts and feature names of a dataset of papers.

    Attributes:
        texts: Title and abstract of every paper, as far as they are known.
        feature_names: The word of every feature, where it is known for sure.
        kinds: How many papers have a text of each kind.
        titles: How many papers have words of their title besides.
    """

    texts: tuple[str, ...]
    feature_names: tuple[str | None, ...]
    kinds: dict[str, int]
    titles: int

    @classmethod
    def of_dataset(cls, root: Path, name: str) -> LeakTexts:
        """Read ``text/<name>_planetoid_text.jsonl`` and ``text/<name>_vocab_recovered.csv``.

        Lines of the first are those that ``NodeTexts`` reads; words of a title
        may stand beside the text as ``title_terms``.
        """
        path = root / "text" / f"{name}_planetoid_text.jsonl"
        words = root / "text" / f"{name}_vocab_recovered.csv"
        for file in (path, words):
            if not file.is_file():
                raise MissingDataError(f"there are no texts of {name}: {file} does not exist")
        texts = list(NodeTexts.read(path).texts)
        kinds: Counter[str] = Counter()
        titles = 0
        with path.open("rb") as lines:
            for entry in map(json.loads, filter(bytes.strip, lines)):
                index, title = entry["index"], entry.get("title_terms", "")
                if entry["kind"] == _GUESSED:
                    texts[index] = ""
                kinds[entry["kind"]] += 1
                titles += bool(title)
                texts[index] = f"{texts[index]} {title}".strip()
        return cls(tuple(texts), read_feature_names(words), dict(kinds), titles)
