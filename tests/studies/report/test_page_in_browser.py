"""The page of the records in this repository, looked at in a real browser."""

import html
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from drgcn.studies.records import load_records
from drgcn.studies.report.contents import write_report

RESULTS = Path(__file__).parents[3] / "results"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
PHONE = 390

# `make docs` runs these.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium to look with"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return write_report(load_records(RESULTS), folder / "report.html", title="t", folder=RESULTS)


def browse(page, folder, *options):
    """Runs the browser with a profile of its own; what it prints."""
    profile = folder / "profile"
    done = subprocess.run(
        [BROWSER, *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


SCRIPT = """<script>
const boxes = [...document.querySelectorAll('.box')];
const wide = boxes.filter(box => box.scrollWidth > box.clientWidth);
const needed = document.documentElement.scrollWidth;
const seen = kind => document.querySelectorAll(kind + ' svg').length * (
  document.querySelector(kind).clientWidth > 0);
const shown = [seen('.on-phone'), seen('.on-desktop')];
parent.document.title += [' NAME', innerWidth, needed, wide.length, ...shown].join(':');
</script></body>"""


def framed(pages, folder):
    """Copies of pages in frames as narrow as a phone, which a window cannot be; each says how
    wide it is and how many tables scroll."""
    frames = [
        f'<iframe srcdoc="{html.escape(text.replace("</body>", SCRIPT.replace("NAME", name)))}" '
        f'style="border:0;width:{PHONE}px;height:1200px"></iframe>'
        for name, text in pages.items()
    ]
    copy = folder / "framed.html"
    copy.write_text(f'<!doctype html><title>?</title><body style="margin:0">{"".join(frames)}')
    return copy


def pixels(path):
    """Width, height and the set of colours of a PNG, read by hand."""
    raw = path.read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", raw[16:26])
    assert (depth, kind) in ((8, 2), (8, 6))
    at, data = 8, b""
    while at < len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        if raw[at + 4 : at + 8] == b"IDAT":
            data += raw[at + 8 : at + 8 + length]
        at += 12 + length
    return width, height, set(zlib.decompress(data))


@pytest.fixture(scope="module")
def on_a_phone(page, tmp_path_factory):
    """By forms of the page: width of the window, width needed, how many tables scroll, and how
    many pictures are seen of those for a phone and of those for a desktop."""
    folder, text = tmp_path_factory.mktemp("phone"), page.read_text()
    forms = {
        "closed": text,
        "opened": text.replace("<details", "<details open"),
        "unscrolled": text.replace("<details", "<details open").replace(
            "overflow-x: auto", "overflow-x: visible"
        ),
    }
    out = browse(framed(forms, folder), folder, "--dump-dom", "--window-size=600,1200")
    found = re.search(r"<title>\?(.*)</title>", out)[1].split()
    return {name: [*map(int, numbers)] for name, *numbers in (one.split(":") for one in found)}


@pytest.mark.parametrize("form", ["closed", "opened"])
def test_the_page_is_no_wider_than_a_phone(on_a_phone, form):
    inner, needed, scrolling, *_ = on_a_phone[form]
    assert inner == PHONE
    assert needed <= PHONE
    assert scrolling > 3


def test_a_phone_shows_pictures_of_its_own_width(on_a_phone):
    assert on_a_phone["closed"][3:] == [3, 0]


def test_a_page_whose_tables_do_not_scroll_would_be_wider(on_a_phone):
    assert on_a_phone["unscrolled"][1] > PHONE


def test_verdicts_are_seen_whole_on_a_desktop(page, tmp_path):
    judged = "tr.reproduced, tr.above, tr.below, tr.not-comparable"
    script = f"""<script>
    const boxes = [...document.querySelectorAll('.box')].filter(
      box => box.querySelector('{judged}') && box.clientWidth);
    const wide = boxes.filter(box => box.scrollWidth > box.clientWidth);
    document.title = [boxes.length, ...wide.map(box => box.getAttribute('aria-label'))].join(';');
    </script></body>"""
    copy = tmp_path / "desktop.html"
    copy.write_text(page.read_text().replace("</body>", script))
    out = browse(copy, tmp_path, "--dump-dom", "--window-size=1200,1200")
    count, *wide = re.search(r"<title>([^<]*)</title>", out)[1].split(";")
    assert int(count) > 3
    assert wide == []


@pytest.mark.parametrize(
    ("width", "height"), [(1280, 2000), pytest.param(600, 1200, marks=pytest.mark.slow)]
)
def test_a_screenshot_shows_something(page, tmp_path, width, height):
    shot = tmp_path / "shot.png"
    shown = framed({"page": page.read_text()}, tmp_path) if width < 1000 else page
    browse(shown, tmp_path, f"--screenshot={shot}", f"--window-size={width},{height}")
    found = pixels(shot)
    assert found[:2] == (width, height)
    assert len(found[2]) > 100  # an empty page has a handful of values
    assert shot.stat().st_size > 30_000


def test_the_page_is_of_sensible_size(page):
    assert 100_000 < page.stat().st_size < 5_000_000
