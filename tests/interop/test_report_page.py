"""The report of a lake in a browser: it opens without a complaint, and every picture has an extent."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.unit.lake.test_report import rows

from kohort.lake.report import page

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

# Measured by the browser: which pictures of a figure are seen, and whether the page is wider than the screen.
MEASURE = """<script>
document.title = JSON.stringify({
  seen: [...document.querySelectorAll("figure")].map(one => one.id + ":" +
    [...one.querySelectorAll("div")].filter(each => each.clientHeight > 20).length).join(" "),
  spills: document.documentElement.scrollWidth > window.innerWidth })
</script></body>"""


@pytest.mark.parametrize("width", [500, 1280])  # a window of headless Chromium is not narrower than 500
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_opens_without_errors_and_shows_one_picture_of_each_figure(
    tmp_path: Path, width: int, theme: str
) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium on this machine")
    file = tmp_path / "report.html"
    file.write_text(page(rows()).replace("</body>", MEASURE))
    dark = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
    how = [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", *dark, "--dump-dom"]
    opened = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            *how,
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [line for line in opened.stderr.splitlines() if "CONSOLE" in line] == []
    measured = re.search(r"<title>(.*?)</title>", opened.stdout)
    figures = ("timeline", "phases", "lag", "lost-time", "members", "commits")
    seen = " ".join(f"{name}:1" for name in figures)
    assert measured is not None
    assert measured[1] == f'{{"seen":"{seen}","spills":false}}'
