"""The page in a browser: Debian's Chromium without a window. Nothing is requested, nothing foreign runs."""

import json
import shutil
import time

import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from support.run_folders import SCRIPT, alarm, write_hostile, write_run, write_state

from steer_trl import report

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium with chromedriver here; make browser installs Debian's"
)
SCREENS = [(1366, "light"), (1366, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def browser():
    options = ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Three runs, two of which are seeds of one setting."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder / f"stare_{seed}", seed=seed)
    alarm(write_run(folder / "grpo", method="none", looks=(60,)))
    return report.write([folder], folder / "report.html")


def opened(browser, page, width=1366, theme="light"):
    """Open the page and return what it complained about and asked for."""
    browser.get_log("browser"), browser.get_log("performance")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(page.as_uri())
    browser.execute_script("localStorage.clear(); setTheme('auto')")
    assert browser.execute_script("return document.documentElement.dataset.ready") == "true"


def complaints(browser):
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return {url[:200] for url in sent if not url.startswith("data:")}


def eventually(condition):
    for _ in range(100):
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_it_renders_and_asks_for_nothing(browser, page, width, theme):
    opened(browser, page, width, theme)
    assert complaints(browser) == [] and requests(browser) == {page.as_uri()}
    overflow, background = browser.execute_script(
        "return [document.documentElement.scrollWidth - innerWidth, getComputedStyle(document.body).backgroundColor]"
    )
    assert overflow <= 0
    assert (int(background.removeprefix("rgb(").split(",")[0]) < 128) == (theme == "dark")
    plots = browser.execute_script(
        "return [...document.querySelectorAll('.panel canvas')].map(canvas => { const {data} ="
        " canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        " return new Set(data).size })"
    )
    assert len(plots) == len(browser.find_elements(By.CSS_SELECTOR, ".panel")) >= 7
    assert min(plots) > 20  # lines and letters, not an empty sheet
    assert browser.title == "3 runs: training report"


def test_a_click_on_a_curve_opens_the_completions_of_that_step(browser, page):
    opened(browser, page)
    over = browser.find_element(By.CSS_SELECTOR, ".panel .u-over")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    ActionChains(browser).move_to_element(over).click().perform()
    step = "document.querySelector('#tokens .steps select').value"
    assert browser.execute_script(f"return {step}") == "30"
    top = "return document.getElementById('tokens').getBoundingClientRect().top"
    assert eventually(lambda: abs(browser.execute_script(top)) < 200)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".completion")) == 4
    assert browser.find_element(By.CSS_SELECTOR, ".completion .text").text == "2+3=5<eos>"
    browser.find_element(By.CSS_SELECTOR, "[aria-label='Earlier step']").click()
    assert browser.execute_script(f"return {step}") == "1"
    assert complaints(browser) == []


def test_tokens_are_coloured_by_what_one_chooses_and_tell_their_numbers(browser, page):
    opened(browser, page)
    colours = "return [...document.querySelectorAll('.completion .text span')].map(s => s.style.backgroundColor)"
    seen = []
    for button in range(5):
        browser.execute_script("document.querySelectorAll('#tokens .segments button')[arguments[0]].click()", button)
        seen.append(tuple(browser.execute_script(colours)))
        assert any(seen[-1])
    assert len(set(seen)) == 5
    browser.execute_script("document.querySelector('.completion .text span').click()")
    tip = browser.find_element(By.ID, "tip").text
    assert '"2"' in tip and "% likely" in tip and "Entropy change" in tip


def test_runs_can_be_hidden_seeds_put_apart_and_the_theme_switched(browser, page):
    opened(browser, page)
    names = "return [...document.querySelectorAll('.chip')].map(chip => chip.textContent)"
    assert browser.execute_script(names) == ["grpo", "stare (2 seeds)"]
    lines = "return document.querySelector('.panel .legend').textContent"
    assert "grpo" in browser.execute_script(lines)
    browser.execute_script("document.querySelector('.chip').click()")
    assert "grpo" not in browser.execute_script(lines)
    browser.execute_script("document.getElementById('seeds').click()")
    assert browser.execute_script(names) == ["grpo", "stare_0", "stare_1"]
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(colour)
    for theme in ("light", "dark"):
        browser.find_element(By.ID, "theme").click()
        assert browser.execute_script("return document.documentElement.dataset.theme") == theme
    assert browser.execute_script(colour) != before
    assert complaints(browser) == []


def test_nothing_of_a_hostile_folder_runs(browser, tmp_path):
    page = report.write([write_hostile(tmp_path / "run")], tmp_path / "report.html")
    opened(browser, page, 390)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    text = browser.find_element(By.TAG_NAME, "main").text
    assert text.count("window.ran = true") >= 4  # an alarm, a setting, a prompt, a token: as texts
    assert SCRIPT in text
    for button in range(len(browser.find_elements(By.CSS_SELECTOR, "#tokens .segments button"))):
        browser.execute_script("document.querySelectorAll('#tokens .segments button')[arguments[0]].click()", button)
    browser.execute_script("document.querySelector('.completion .text span').click()")
    assert browser.execute_script("return window.ran") is None
    assert browser.execute_script("return document.querySelectorAll('script, img').length") == 2
    assert complaints(browser) == [] and requests(browser) == {page.as_uri()}


def test_a_run_of_plain_trl_has_its_curves_and_says_how_tokens_are_kept(browser, tmp_path):
    write_state(tmp_path / "run/checkpoint-9", 9)
    opened(browser, report.write([tmp_path / "run"], tmp_path / "report.html"), 390)
    titles = [one.text for one in browser.find_elements(By.CSS_SELECTOR, ".panel h3")]
    assert titles == ["Policy entropy", "Reward"]
    assert "log_tokens=50" in browser.find_element(By.ID, "tokens").text
    assert complaints(browser) == []
