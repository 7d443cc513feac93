"""The report of operators: the same numbers in each format, and the page in a real browser."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import DEVICE, MODULE, PACKAGE
from without_kernel import without_kernel

pytestmark = pytest.mark.needs("emulation")  # its rows tell of emulated calls

REPORT = import_module(f"{MODULE.__name__}._operator_report")
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def operators() -> Iterator[ModuleType]:
    """The module ``operators`` after some calls of emulated operators."""
    operators: ModuleType = MODULE.operators
    without_kernel(("erfinv", "logaddexp"), 2)
    with operators.fallback_policy("emulate"):
        x = torch.rand(2, 3, device=DEVICE)
        operators.reset_fallback_counts()
        for _ in range(5):
            torch.erfinv(x)
        torch.erfinv(x.double())
        torch.cat([x, x])
        torch.logaddexp(*torch.zeros(2, 2, dtype=torch.complex32, device=DEVICE))
        torch.erfinv(torch.bucketize(x, x[0]).clamp(0, 1).to(torch.float16))
        yield operators
    operators.reset_fallback_counts()


def used(data: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row["usage"] for row in data["operators"] if row["usage"] is not None}


def test_json_holds_every_field(operators: ModuleType) -> None:
    data = json.loads(operators.report("json"))
    assert list(data) == [
        "schema_version",
        "created",
        "device",
        "package",
        "package_version",
        "torch_version",
        "policy",
        "states",
        "operators",
    ]
    assert (data["schema_version"], data["package"], data["torch_version"]) == (1, PACKAGE, torch.__version__)
    assert data["policy"] == {"general": "emulate", "warn": False, "operators": {}}
    coverage = operators.coverage()
    assert {row["name"]: {"state": row["state"], "reason": row["reason"]} for row in data["operators"]} == coverage
    states = [told["state"] for told in coverage.values()]
    assert {state: told["operators"] for state, told in data["states"].items()} == {
        state: states.count(state) for state in operators.STATES
    }
    assert {name: usage["calls"] for name, usage in used(data).items()} == operators.fallback_counts()
    erfinv = used(data)["aten::erfinv"]
    assert erfinv["calls"] == 7
    assert erfinv["dtypes"] == ["float16", "float32", "float64"]
    assert erfinv["first_call"] == [{"argument": "self", "dtype": "float32", "shape": [2, 3]}]
    assert erfinv["seconds"] > 0
    assert list(erfinv) == ["calls", "timed_calls", "widened_calls", "seconds", "dtypes", "first_call", "omitted"]


def test_text_counts_states_and_lists_calls(operators: ModuleType) -> None:
    text = operators.report()
    assert text == operators.report("text")
    states = [told["state"] for told in operators.coverage().values()]
    for state in operators.STATES:
        assert re.search(rf"^ *{states.count(state)}  {state} ", text, re.MULTILINE)
    (line,) = [line for line in text.splitlines() if " aten::erfinv " in line]
    assert re.fullmatch(
        r" *7 +\d+\.\d{3} ms  aten::erfinv +emulated +float16 float32 float64 +self float32\[2, 3\]", line
    )
    (line,) = [line for line in text.splitlines() if " aten::logaddexp " in line]
    assert re.match(r" *1 +1 +\d+\.\d{3} ms  aten::logaddexp ", line), "computed in a wider dtype"
    assert f"operators {len(operators.usage())}, calls {sum(operators.fallback_counts().values())}, " in text


def test_text_says_that_no_operator_ran(operators: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REPORT, "usage", dict)
    assert "No operator ran without a native kernel." in operators.report()


def test_text_names_operators_with_a_policy_of_their_own(operators: ModuleType) -> None:
    operators.set_operator_policy("aten::lgamma", "error")
    try:
        assert "  aten::lgamma: error\n" in operators.report()
        assert json.loads(operators.report("json"))["policy"]["operators"] == {"aten::lgamma": "error"}
    finally:
        operators.set_operator_policy("aten::lgamma", None)


@pytest.mark.parametrize("format", ["text", "json", "html"])
def test_each_format_can_be_written_to_a_file(format: str, operators: ModuleType, tmp_path: Path) -> None:
    for path in (tmp_path / "a report", str(tmp_path / "b")):
        report = operators.report(format, path)
        assert Path(path).read_text(encoding="utf-8") == report
    with pytest.raises(FileNotFoundError):
        operators.report(format, tmp_path / "absent" / "report")


def test_an_unknown_format_is_refused(operators: ModuleType) -> None:
    with pytest.raises(ValueError, match="'pdf'.*'html'"):
        operators.report("pdf")


def test_operators_of_other_libraries_are_listed(operators: ModuleType, device: str) -> None:
    before = operators.fallback_counts()
    library = torch.library.Library("report_tests", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    torch.ops.report_tests.twice(torch.zeros(2, device=device))
    rows = {row["name"]: row for row in json.loads(operators.report("json"))["operators"]}
    assert rows["report_tests::twice"]["state"] == "emulated"
    library._destroy()
    rows = {row["name"]: row for row in json.loads(operators.report("json"))["operators"]}
    assert rows["report_tests::twice"]["state"] == "none"
    assert before.items() <= operators.fallback_counts().items()


# The page

HOSTILE = "aten::</script><script>document.title='broken'</script><b title=\"'&amp;\u2028"


@pytest.fixture
def hostile(operators: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds names with markup and quotes to the report."""
    real, used = operators.coverage, operators.usage()
    tensor = {"argument": "<i>self</i>", "dtype": torch.float32, "shape": (2,)}
    monkeypatch.setattr(REPORT, "coverage", lambda: {**real(), HOSTILE: {"state": "none", "reason": "<img src=x>"}})
    monkeypatch.setattr(REPORT, "usage", lambda: {**used, HOSTILE: {**used["aten::erfinv"], "first_call": [tensor]}})


def test_page_holds_the_data(operators: ModuleType, hostile: None) -> None:
    page = operators.report("html")
    (data,) = DATA.findall(page)
    assert not set("<>&") & set(data)
    assert data.isascii()
    shown, told = json.loads(data), json.loads(operators.report("json"))
    shown["created"] = told["created"]
    assert shown == told
    assert HOSTILE in used(shown)


def test_page_is_self_contained(operators: ModuleType) -> None:
    page = operators.report("html")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"\b(src|href|action|url|import|fetch|XMLHttpRequest)\s*[=(]", DATA.sub("", page))
    assert "default-src 'none'" in page


FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,900",
)


def missing(what: str) -> None:
    """Skips the test, or fails it if a browser is required."""
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what}, and REQUIRE_BROWSER=1 is set")
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        from selenium import webdriver
    except ImportError:
        missing("the Python package selenium is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        missing("there is no chromium with its chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


class Page:
    """The report in a browser, with the actions of a user."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser = browser
        browser.get_log("browser")  # what earlier pages said
        browser.get(path.as_uri())

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def show_all(self) -> None:
        if (button := self.find("#others")).is_displayed():
            button.click()

    def column(self, place: int) -> list[str]:
        """The texts of a column, counted from 1."""
        script = "return [...document.querySelectorAll(arguments[0])].map((cell) => cell.textContent)"
        cells: list[str] = self.browser.execute_script(script, f"#rows tr > :nth-child({place})")
        return cells

    def sorted_by(self) -> dict[str, str]:
        headings = self.browser.find_elements("css selector", "thead th")
        return {heading.text: heading.get_attribute("aria-sort") for heading in headings}

    def choose(self, selector: str, value: str) -> None:
        from selenium.webdriver.support.select import Select

        Select(self.find(selector)).select_by_visible_text(value)


@pytest.fixture
def page(browser: Any, operators: ModuleType, tmp_path: Path) -> Page:
    operators.report("html", tmp_path / "report.html")
    return Page(browser, tmp_path / "report.html")


def test_page_shows_all_operators(page: Page, operators: ModuleType, device: str) -> None:
    coverage, counts = operators.coverage(), operators.fallback_counts()
    assert len(page.column(1)) == 200
    page.show_all()
    names, states, calls = page.column(1), page.column(2), page.column(3)
    assert {name: state for name, state in zip(names, states, strict=True) if name in coverage} == {
        name: told["state"] for name, told in coverage.items()
    }
    assert len(names) == len(set(names))
    assert {name: int(call) for name, call in zip(names, calls, strict=True) if call} == counts
    assert page.browser.title == page.find("h1").text == f"Operators on {device}"
    assert page.find("#shown").text == f"{len(names):,} of {len(names):,} operators"
    assert not page.find("#others").is_displayed()
    assert page.browser.get_log("browser") == [], "the console is silent"
    for state, shown in zip(operators.STATES, page.browser.find_elements("css selector", "#states li"), strict=True):
        assert f"{states.count(state):,}" in shown.text
        assert operators.STATES[state] in shown.text


def test_the_page_shows_the_operands_of_a_call(page: Page) -> None:
    page.find("#name").send_keys("aten::erfinv")
    row = page.find("#rows tr")
    name, state, calls, wider, time, dtypes, call, _ = [
        cell.text for cell in row.find_elements("css selector", "th, td")
    ]
    assert (name, state, calls, wider, call) == ("aten::erfinv", "emulated", "7", "", "self float32[2, 3]")
    assert dtypes.split() == ["float16", "float32", "float64"]
    assert re.fullmatch(r"[\d,]+\.\d{3} ms", time)
    page.find("#name").clear()
    page.find("#name").send_keys("aten::logaddexp")
    assert page.column(4)[page.column(1).index("aten::logaddexp")] == "1"


def test_a_click_on_a_heading_sorts_the_page(page: Page, operators: ModuleType) -> None:
    headings = {heading.text: heading for heading in page.browser.find_elements("css selector", "thead button")}
    assert page.sorted_by() == {name: "descending" if name == "Time" else "none" for name in headings}

    headings["Operator"].click()
    assert page.sorted_by() == {name: "ascending" if name == "Operator" else "none" for name in headings}
    names = sorted({*operators.coverage(), *operators.fallback_counts()})
    assert page.column(1) == names[:200]
    page.show_all()
    assert page.column(1) == names
    headings["Operator"].click()
    assert page.sorted_by()["Operator"] == "descending"
    assert page.column(1) == names[:-201:-1]

    headings["Calls"].click()
    assert page.sorted_by()["Calls"] == "descending"
    calls = [int(call or -1) for call in page.column(3)]
    assert calls == sorted(calls, reverse=True)

    headings["State"].click()
    page.show_all()
    states = page.column(2)
    assert states == sorted(states, key=list(operators.STATES).index)
    assert set(states) == {told["state"] for told in operators.coverage().values()}


def test_the_keyboard_sorts_the_page(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    first = page.find("thead button")
    page.find("#ran").send_keys(Keys.TAB)
    assert page.browser.switch_to.active_element == first
    first.send_keys(Keys.ENTER)
    assert page.sorted_by()["Operator"] == "ascending"
    first.send_keys(Keys.SPACE)
    assert page.sorted_by()["Operator"] == "descending"


def test_the_page_filters_by_name_and_state(page: Page, operators: ModuleType) -> None:
    coverage = operators.coverage()

    page.find("#name").send_keys("ADD tensor")
    found = {name for name in coverage if "add" in name.lower() and "tensor" in name.lower()}
    assert set(page.column(1)) == found
    assert page.find("#shown").text.startswith(f"{len(page.column(1))} of ")
    page.choose("#state", "emulated")
    assert set(page.column(1)) == {name for name in found if coverage[name]["state"] == "emulated"}
    assert set(page.column(2)) == {"emulated"}

    page.find("#name").clear()
    page.choose("#state", "cpu")
    assert set(page.column(1)) == {name for name, told in coverage.items() if told["state"] == "cpu"}
    page.choose("#state", "emulated")
    page.choose("#dtype", "float64")
    assert page.column(1) == ["aten::erfinv"]

    page.choose("#state", "native")
    assert page.column(1) == ["No operator fits."]
    assert page.find("#shown").text.startswith("0 of ")

    page.choose("#state", "all")
    page.choose("#dtype", "all")
    page.find("#ran").click()
    assert set(page.column(1)) == set(operators.fallback_counts())


def test_the_page_has_headings_and_named_controls(page: Page) -> None:
    """Assistive technology needs a table with headings, and a name for each control."""
    assert page.find("html").get_attribute("lang") == "en"
    assert "sort" in page.find("caption").get_attribute("textContent")
    assert {cell.get_attribute("scope") for cell in page.browser.find_elements("css selector", "thead th")} == {"col"}
    assert page.find("#rows th").get_attribute("scope") == "row"
    controls = page.browser.find_elements("css selector", "input, select, button")
    assert all(control.accessible_name for control in controls)
    assert page.find("#shown").aria_role == "status"


def brightness(color: str) -> float:
    """Returns the relative luminance, from 0 to 1, of a color in the browser's form, such as ``rgb(23, 28, 35)``."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_enough_contrast(scheme: str, page: Page) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    color = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    card = brightness(page.browser.execute_script(color, "table", "backgroundColor"))
    assert (card > 0.5) == (scheme == "light")
    for state in MODULE.operators.STATES:
        for selector in (f"#states [data-state='{state}'] span", f"#states [data-state='{state}'] p"):
            text = brightness(page.browser.execute_script(color, selector, "color"))
            assert (max(text, card) + 0.05) / (min(text, card) + 0.05) >= 4.5, selector


def test_page_shows_hostile_names_as_text(
    browser: Any, operators: ModuleType, hostile: None, tmp_path: Path, device: str
) -> None:
    operators.report("html", tmp_path / "report.html")
    page = Page(browser, tmp_path / "report.html")
    page.find("#name").send_keys("</script>")
    assert page.column(1) == [HOSTILE]
    assert page.column(7) == ["<i>self</i> float32[2]"]
    assert page.column(8) == ["<img src=x>"]
    assert browser.title == f"Operators on {device}"
    assert browser.find_elements("css selector", "main b[title], main i, main img") == []
    assert browser.get_log("browser") == []
