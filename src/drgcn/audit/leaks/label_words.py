"""The words of a class name, and which nodes carry them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from drgcn.audit.leaks.word_source import WordSource
from drgcn.audit.texts.stemming import stem
from drgcn.audit.texts.title_features import split_words
from drgcn.data.splits import Mask
from drgcn.errors import InputError

Rule = Literal["all", "any", "phrase"]
RULES: Final[tuple[Rule, ...]] = ("all", "any", "phrase")
Expansions = Mapping[str, str | Sequence[str]]

# Names of research fields that are usually written as letters. A class called "AI" may still
# mean something else: every table shows the words that were looked for.
ABBREVIATIONS: Final[Expansions] = MappingProxyType(
    {
        "AI": "Artificial Intelligence",
        "ML": "Machine Learning",
        "IR": "Information Retrieval",
        "DB": "Database",
        "HCI": "Human Computer Interface",
        "NLP": "Natural Language Processing",
        "CV": "Computer Vision",
    }
)

# They say nothing of a class, and texts often come without them.
_GLUE: Final = frozenset(
    (
        "a",
        "an",
        "and",
        "as",
        "at",
        "by",
        "for",
        "from",
        "in",
        "of",
        "on",
        "or",
        "the",
        "to",
        "with",
    )
)
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class LabelWords:
    """A class and how its name may be written.

    Attributes:
        name: The class as the data calls it.
        forms: The ways to write it, each as words in lower case, not stemmed. None if the name
            has no letters: there is nothing to look for then.
    """

    name: str
    forms: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, name: str, expansions: Expansions = ABBREVIATIONS) -> LabelWords:
        """The words of a name: cut at blanks, signs and ``aB``, or those of its expansion.

        Args:
            name: Name of a class, such as ``"Reinforcement_Learning"``.
            expansions: How names are written out, one way or several.
        """
        if not isinstance(name, str):
            raise InputError(
                f"Expected class names to be strings; found {name!r}. Use str() on them."
            )
        written = expansions.get(name, name)
        ways = [written] if isinstance(written, str) else list(written)
        forms = (tuple(_words(way)) for way in ways)
        return cls(name, tuple(dict.fromkeys(form for form in forms if any(map(_telling, form)))))

    def __str__(self) -> str:
        return " / ".join(" ".join(form) for form in self.forms)

    @property
    def stems(self) -> frozenset[str]:
        """The stems that ``"any"`` looks for: each word, and all of them written as one."""
        words = {word for form in self.forms for word in form if _telling(word)}
        return frozenset(map(stem, words | {"".join(form) for form in self.forms}))

    def found(self, source: WordSource, rule: Rule) -> Mask:
        """The nodes that carry the name.

        Args:
            source: Where to look.
            rule: ``"all"``: every word but "of", "and" and the like, anywhere. ``"any"``: one
                of these words that has a letter. ``"phrase"``: all words in order, with nothing
                between them. The name written as one word ("casebased") counts under all three,
                since texts lose their hyphens.
        """
        if rule not in RULES:
            raise InputError(f"Expected rule to be one of {', '.join(RULES)}; found {rule!r}.")
        none = np.zeros_like(source.readable)
        if rule == "any":
            return _union((source.has_word(word) for word in sorted(self.stems)), none)
        return _union((_carried(form, source, rule) for form in self.forms), none)


def _carried(form: tuple[str, ...], source: WordSource, rule: Rule) -> Mask:
    as_one = source.has_word(stem("".join(form)))
    if rule == "phrase":
        return as_one | source.has_phrase([stem(word) for word in form])
    words = [stem(word) for word in form if word not in _GLUE]
    return as_one | np.all([source.has_word(word) for word in words], axis=0)


def _union(masks: Iterable[Mask], none: Mask) -> Mask:
    return np.any([none, *masks], axis=0)


def _words(name: str) -> list[str]:
    return split_words(_CAMEL.sub(" ", unicodedata.normalize("NFKC", name)))


def _telling(word: str) -> bool:
    return word not in _GLUE and any(letter.isalpha() for letter in word)
