"""The documentation site: `make docs` builds it into docs/_build/html, without a network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from drgcn import __version__

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small graphs: two threads are slower than one
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from notebook_pages import make_pages  # noqa: E402

project = "drgcn"
author = "the drgcn authors"
project_copyright = author
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "pages", "notebooks/*.ipynb"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 4  # links to headings as on GitHub
suppress_warnings = ["config.cache"]

napoleon_use_ivar = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
python_display_short_literal_types = True
autodoc_typehints_format = "short"
maximum_signature_line_length = 80

html_theme = "furo"
html_title = "drgcn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all of them run
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
    "image_srcset": ["2x"],
}


def _joined(found: re.Match[str]) -> str:
    return found[0].replace(" ", "\N{NO-BREAK SPACE}")


def keep_numbers_whole(app: Sphinx, page: nodes.document) -> None:
    """Let no line in a table end inside 87.4 ± 0.4 or [-0.07, +0.35]: it scrolls instead."""
    for cell in page.findall(nodes.entry):
        for text in list(cell.findall(nodes.Text)):
            words = re.sub(r"(?<=\d) ± \d[\d.]*( †)?", _joined, text)
            words = re.sub(r"\[[-+\d.]+, [-+\d.]+\]", _joined, words)
            if words != text:
                text.parent.replace(text, nodes.Text(words))


def without_factories(*about: Any) -> tuple[str | None, str | None]:
    """Return a signature that Sphinx can read: some defaults are printed as <factory> or alike."""
    *_, signature, returned = about
    default = r"<(?:class '(?:\w+\.)*(\w+)'|[^<>]+)>"
    return signature and re.sub(default, lambda m: m[1] or "...", signature), returned


def setup(app: Sphinx) -> None:
    """Run the notebooks before pages are read, and mend what pages show."""
    app.connect("builder-inited", lambda app: make_pages(HERE / "notebooks"))
    app.connect("doctree-read", keep_numbers_whole)
    app.connect("autodoc-process-signature", without_factories)
