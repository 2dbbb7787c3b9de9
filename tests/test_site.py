"""The documentation site: small pages, commands that exist, an example for every public name."""

from __future__ import annotations

import ast
import doctest
import functools
import json
import re
import shlex
import shutil
import subprocess
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch
import typer

from drgcn.cli.verbs import app

from .golden.test_public_names import PACKAGES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = DOCS / "_build" / "html"
# The sources; what a build writes beside them stands in .gitignore.
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "api").glob("*.md")),
    DOCS / "notebooks" / "index.md",
]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.py"))
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_are_small(page):
    assert page.stat().st_size <= 30 * 1024, "more than 30 KB: split it"


def commands(text):
    """The lines of a page's blocks that call the command line, continued lines joined."""
    for language, block in FENCE.findall(text):
        if language in ("", "sh", "bash", "console"):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"^\s*(?:\$ )?(?:\.venv/bin/)?drgcn(\s+[^|>&;]*)", line)
                if found:
                    yield shlex.split(found[1], comments=True)


whole_command = functools.cache(typer.main.get_command)


def parse(words):
    """Let the real command line take the words of a command; nothing is run."""
    command = whole_command(app)
    context = None
    while True:
        context = command.context_class(command, info_name=command.name, parent=context)
        _, words, _ = command.make_parser(context).parse_args(list(words))
        if not words or not hasattr(command, "commands"):
            return
        name, *words = words
        command = command.get_command(context, name)
        assert command is not None, f"no command {name}"


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name_of)
def test_commands_and_code_are_read(page):
    text = page.read_text(encoding="utf-8")
    for words in commands(text):
        parse(words)
    for language, block in FENCE.findall(text):
        if language == "python":
            ast.parse(block)


def test_a_command_that_does_not_exist_is_found():
    (words,) = commands("```\ndrgcn train cora --comparre  # a slip\n```")
    with pytest.raises(Exception, match="comparre"):
        parse(words)
    with pytest.raises(AssertionError, match="trian"):
        parse(["trian", "cora"])


API = {page.stem: page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("drgcn*.md")}
# The first trains two models, the second starts torchrun and Ray.
SLOW = {"drgcn.recommend.study", "drgcn.recommend.distributed"}


# Ray warns of settings of its own when it begins.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in sorted(API)]
)
def test_examples_of_the_api_run(name, monkeypatch, tmp_path):
    if name.startswith("drgcn.recommend.retrieval"):
        pytest.importorskip("faiss")
    if name.startswith("drgcn.recommend.clicks"):
        pytest.importorskip("duckdb")
    if name == "drgcn.recommend.distributed":
        pytest.importorskip("ray")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = "\n".join(block for kind, block in FENCE.findall(API[name]) if kind == "pycon")
    torch.manual_seed(0)
    test = doctest.DocTestParser().get_doctest(source, {}, name, None, 0)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def test_every_public_name_has_a_tested_example():
    """In its docstring, or on the page of its package; those of the root on any page."""
    from .test_doctest import MODULES

    def examples(page):
        return "\n".join(block for kind, block in FENCE.findall(page) if kind == "pycon")

    missing = {}
    for package, module in PACKAGES.items():
        text = examples("\n".join(API.values()) if package == "drgcn" else API[package])
        for name in module.__all__:
            thing = getattr(module, name)
            own = getattr(thing, "__module__", None) in MODULES and ">>>" in (thing.__doc__ or "")
            if not own and not re.search(rf"\b{name}\b", text):
                missing.setdefault(package, set()).add(name)
    assert missing == {}


@pytest.mark.parametrize("source", NOTEBOOKS, ids=name_of)
def test_notebooks_are_those_of_their_scripts(source):
    jupytext = pytest.importorskip("jupytext")
    script, notebook = (jupytext.read(path) for path in (source, source.with_suffix(".ipynb")))
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        (cell.cell_type, cell.source) for cell in script.cells
    ], "run `jupytext --sync docs/notebooks/*.py`"
    assert not any(cell.get("outputs") for cell in notebook.cells)
    assert source.with_suffix(".ipynb").stat().st_size < 10_000


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name_of)
def test_links_elsewhere_are_well_formed(page):
    """Their form is all that can be checked without a network."""
    for link in re.findall(r"\]\((\w+:[^)]*)\)|<(\w+:[^>]*)>", page.read_text(encoding="utf-8")):
        parts = urlsplit("".join(link))
        assert parts.scheme == "https", link
        assert re.fullmatch(r"([\w-]+\.)+[a-z]{2,}", parts.netloc), link
        assert not re.search(r"\s|//|[.,;]$", parts.path), link


class _Links(HTMLParser):
    """The links of a page, and the places in it that links can name."""

    def __init__(self, page):
        super().__init__()
        self.links, self.places = [], {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places |= {found[key] for key in ("id", "name") if found.get(key)}
        self.links += [found[key] for key in ("href", "src") if found.get(key)]


@pytest.mark.slow
def test_links_within_the_site_resolve():
    if not (SITE / "index.html").is_file():
        pytest.skip("no site here: make docs")
    pages = {path.resolve(): _Links(path) for path in SITE.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            places = pages[target].places if target in pages else {"", unquote(parts.fragment)}
            if not target.exists() or unquote(parts.fragment) not in places:
                broken.append(f"{path.name}: {link}")
    assert len(pages) > 60
    assert broken == []


# What a browser says of a page 390 pixels wide: its width, and whether formulas were drawn.
_LOOK = """<!doctype html><pre id=said>nothing</pre><iframe id=page width=390 height=844></iframe>
<script>
const pages = PAGES, said = {}, frame = document.getElementById("page");
const wait = ms => new Promise(done => setTimeout(done, ms));
(async () => {
  for (const page of pages) {
    await new Promise(done => { frame.onload = done; frame.src = page; });
    const there = frame.contentDocument;
    const waits = () => there.querySelector(".math") && !there.querySelector("mjx-container");
    for (let n = 0; n < 40 && waits(); n++) await wait(100);
    const cut = [...there.querySelectorAll("span.math mjx-container")].filter(
      one => !one.closest(".table-wrapper") && one.getBoundingClientRect().right > 390).map(
      one => String(one.parentNode.previousSibling?.textContent).slice(-60));
    said[page] = [there.documentElement.scrollWidth, there.querySelectorAll(".math").length,
                  there.querySelectorAll("mjx-container").length, cut];
  }
  document.getElementById("said").textContent = JSON.stringify(said);
})();
</script>"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """Run a browser on a page of the built site; without one, or without a site, skip."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium here")
    if not (SITE / "index.html").is_file():
        pytest.skip("no site here: make docs")
    handler = partial(_Quiet, directory=str(SITE))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def run(page, *options):
        profile = tmp_path_factory.mktemp("profile")
        flags = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run")
        quiet = ("disable-background-networking", "disable-component-update", "disable-sync")
        words = [
            program,
            *(f"--{flag}" for flag in (*flags, *quiet)),
            f"--user-data-dir={profile}",
        ]
        address = f"http://127.0.0.1:{server.server_port}/{page}"
        done = subprocess.run([*words, *options, address], capture_output=True, timeout=200)
        return done.stdout.decode()

    yield run
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path != "/look":
            return super().do_GET()
        pages = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html"))
        body = _LOOK.replace("PAGES", json.dumps(pages)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.slow
def test_pages_fit_a_phone_and_formulas_are_drawn(chromium):
    dom = chromium("look", "--virtual-time-budget=300000", "--dump-dom")
    (said,) = re.findall(r"<pre id=\"said\">(.*?)</pre>", dom, re.DOTALL)
    found = json.loads(said.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    assert len(found) > 60
    assert {page: facts[0] for page, facts in found.items() if facts[0] > 390} == {}
    assert {page: facts[3] for page, facts in found.items() if facts[3]} == {}, "split them"
    formulas = {page: facts[1:3] for page, facts in found.items() if facts[1]}
    assert formulas["theory.html"][0] > 100
    assert {page: seen for page, seen in formulas.items() if seen[0] != seen[1]} == {}


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", ["index.html", "theory.html", "gallery/index.html"])
def test_screenshots_show_a_page(chromium, page, width, tmp_path):
    picture = tmp_path / "page.png"
    options = (
        f"--window-size={width},1600",
        f"--screenshot={picture}",
        "--virtual-time-budget=9000",
    )
    chromium(page, *options)
    from PIL import Image

    with Image.open(picture) as image:
        assert len(image.convert("RGB").getcolors(2**24) or ()) > 50
