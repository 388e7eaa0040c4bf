"""The page in a browser: Debian's Chromium without a window. Nothing is requested, nothing foreign runs."""

import json
import random
import shutil

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from support.evaluations import SETTINGS, write_evaluation
from support.run_folders import SCRIPT, alarm, completion, write_held, write_hostile, write_run

from steer_trl import report
from steer_trl.monitoring import run_files

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium with chromedriver here; make browser installs Debian's"
)
LONG = "entropy_held_at_0_5_with_new_prompts_for_dull_ones"
SCREENS = [(1280, 800, "light"), (1280, 800, "dark"), (390, 844, "light"), (390, 844, "dark")]


@pytest.fixture(scope="module")
def driver():
    options = ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver):
    yield driver
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def open_page(browser, page, width=1280, height=800, theme="light"):
    browser.get_log("browser"), browser.get_log("performance")
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
    assert browser.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0


def requested(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return {url[:200] for url in sent if not url.startswith("data:")}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A run that falls, with an alarm, and a held one that is shorter; both longer than a curve has points."""
    folder = tmp_path_factory.mktemp("runs")
    alarm(write_run(folder / "grpo", steps=1500, method="none", token_steps=(60,)), 300)
    write_held(folder / LONG, steps=1000)
    dice = random.Random(0)
    for step in (1, 400):
        for place in range(4):
            run_files.append(folder / LONG, completion(step, place, dice), f"tokens/step-{step:08d}.jsonl")
    return report.write([folder], folder / "report.html")


@pytest.mark.parametrize(("width", "height", "theme"), SCREENS)
def test_the_page_renders_without_requests(browser, page, width, height, theme):
    open_page(browser, page, width, height, theme)
    assert requested(browser) == {page.as_uri()}
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (int(background.removeprefix("rgb(").split(",")[0]) < 128) == (theme == "dark")
    colours = browser.execute_script(
        "return [...document.querySelectorAll('.panel canvas')].map(canvas => { const {data} ="
        " canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        " return new Set(data).size })"
    )
    assert len(colours) == len(browser.find_elements(By.CSS_SELECTOR, ".panel")) >= 7
    assert min(colours) > 20  # lines and letters, not an empty sheet
    # The entropy comes first, whole on the first screen, with what became of each run.
    first = browser.find_element(By.CSS_SELECTOR, ".panel")
    bottom = browser.execute_script("return arguments[0].querySelector('.plot').getBoundingClientRect().bottom", first)
    assert "Policy entropy" in first.text and bottom < height
    assert "falling" in first.text and "held at 0.147, target 0.15 (\N{MINUS SIGN}2%)" in first.text
    lines = browser.execute_script("return linesOf(DATA.panels[0], 'entropy').map(line => line.aside ?? line.label)")
    assert lines == [LONG, "grpo", "target 0.15", "start 0.3", lines[-1]] and lines[-1].startswith("start 0.3")
    assert not browser.find_element(By.ID, "guide").get_attribute("open")


def test_a_target_that_falls_is_drawn_as_a_path(browser, tmp_path):
    targets = [0.5] * 30 + [0.5 - 0.01 * step for step in range(1, 21)]
    run_files.begin(tmp_path / "held", 0, {"methods": ["stare"], "settings": {"hold_entropy": 0.5}})
    for step, target in enumerate(targets, 1):
        entry = {"step": step, "entropy": target, "rollout_entropy": target, "rollout_entropy/start": 1.0}
        run_files.append(tmp_path / "held", entry | {"hold_entropy/target": target, "hold_entropy/reference": target})
    open_page(browser, report.write([tmp_path / "held"], tmp_path / "report.html"))
    lines = browser.execute_script("return linesOf(DATA.panels[0], 'entropy')")
    (drawn,) = (line["curve"] for line in lines if (line.get("aside") or "").startswith("target"))
    assert dict(zip(*drawn, strict=True)) == pytest.approx(dict(enumerate(targets, 1)))


def test_a_long_run_shows_the_means_of_all_its_entries(browser, tmp_path):
    """The thin line has only the lowest and highest entries of each part."""
    rewards = np.random.default_rng(0).exponential(0.1, 3000)
    for step, reward in enumerate(rewards, 1):
        run_files.append(tmp_path / "run", {"step": step, "entropy": 1.0, "reward": reward})
    open_page(browser, report.write([tmp_path / "run"], tmp_path / "report.html"))
    panel = "DATA.panels.find(panel => panel.keys.some(one => one.key === 'reward'))"
    for level, share in (("smooth", 0.04), ("smoother", 0.15)):
        browser.find_element(By.ID, f"smooth-{level}").click()
        line = browser.execute_script(f"return linesOf({panel}, 'reward')[0]")
        steps, drawn = line["curve"]
        width = round(share * len(rewards))
        assert drawn == pytest.approx([rewards[max(0, step - width) : step].mean() for step in steps], rel=1e-4)
        assert max(line["raw"][1]) == pytest.approx(rewards.max(), rel=1e-4)
    start, end = rewards[:10].mean(), rewards[-10:].mean()
    assert line["end"] == pytest.approx(end, rel=1e-4)
    assert f"{start:.3g} → {end:.3g}" in browser.find_element(By.CSS_SELECTOR, ".card.run .facts").text


def test_tokens_and_settings_of_two_runs(browser, tmp_path):
    """The page itself places steps on the axis of tokens, and finds the settings that differ."""
    spread = {"methods": ["repo_r"], "settings": {"hold_entropy": 0.5}}
    long = {"methods": [], "settings": {"seed": 3, "output_dir": "x"}, "defaults": {"hold_entropy": None}}
    counts = {"spread": (spread, [100] * 4 + [260] * 4 + [300]), "long": (long, [50, 100, 900])}
    for name, (about, values) in counts.items():
        run_files.begin(tmp_path / name, 0, about)
        for step, count in enumerate(values, 1):
            run_files.append(tmp_path / name, {"step": step, "entropy": 1.0, "num_tokens": count})
    open_page(browser, report.write([tmp_path], tmp_path / "report.html"))
    long, spread = browser.execute_script("return RUNS.map(run => run.tokens)")
    assert (long, spread) == ([[0, 1, 2, 3], [0, 50, 100, 900]], [[0, 4, 8, 9], [0, 100, 260, 300]])
    browser.find_element(By.ID, "over-tokens").click()
    ends = browser.execute_script(
        "return linesOf(DATA.panels[0], 'entropy').slice(0, 2).map(line => line.curve[0].at(-1))"
    )
    assert ends == [900, 300] and "prompts and completions" in browser.find_element(By.ID, "controls").text
    assert browser.execute_script("return [stepAt(RUNS[1], 180), placeOf(RUNS[1], 2)]") == [6, 50]
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#settings .card:first-of-type tr")]
    assert rows[1:] == ["advantage_shaping none repo_r", "hold_entropy not set (default) 0.5", "seed 3 default"]


def test_a_click_on_a_curve_opens_its_completions(browser, page):
    open_page(browser, page)
    over = browser.find_element(By.CSS_SELECTOR, ".panel .u-over")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    ActionChains(browser).move_to_element_with_offset(over, int(-0.2 * over.size["width"]), 0).perform()
    # Wherever one points, each curve that reaches there has a number, also between the points of a thinned curve.
    panels = browser.execute_script(
        "return [...document.querySelectorAll('.panel')].slice(0, 3).map(card => ["
        "card.querySelector('.at').textContent, ...[...card.querySelectorAll('.legend b')].map(b => b.textContent)])"
    )
    assert all(abs(int(at.removeprefix("step ")) - 450) < 15 and "\N{EN DASH}" not in rest for at, *rest in panels)
    ActionChains(browser).click().perform()
    step = "document.querySelector('#tokens .steps select').value"
    assert browser.execute_script(f"return {step}") == "400"
    top = "return document.getElementById('tokens').getBoundingClientRect().top"
    WebDriverWait(browser, 5).until(lambda _: abs(browser.execute_script(top)) < 200)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".completion")) == 4
    colours = "return [...document.querySelectorAll('.completion .text span')].map(s => s.style.backgroundColor)"
    seen = set()
    for button in range(5):
        browser.execute_script("document.querySelectorAll('#tokens .segments button')[arguments[0]].click()", button)
        seen.add(tuple(browser.execute_script(colours)))
    assert len(seen) == 5

    # The page may still scroll, which hides the numbers of a token.
    def open_numbers(_):
        browser.execute_script("document.querySelector('.completion .text span').click()")
        return browser.find_element(By.ID, "tip").text

    tip = WebDriverWait(browser, 5).until(open_numbers)
    assert '"2"' in tip and "% likely" in tip and "Entropy change" in tip


def test_nothing_of_a_hostile_folder_runs(browser, tmp_path):
    page = report.write([write_hostile(tmp_path / "run")], tmp_path / "report.html")
    open_page(browser, page, 390, 844)
    text = browser.find_element(By.TAG_NAME, "main").text
    assert text.count("window.ran = true") >= 4  # an alarm, a setting, a prompt, a token: as texts
    assert SCRIPT in text
    for button in range(len(browser.find_elements(By.CSS_SELECTOR, "#tokens .segments button"))):
        browser.execute_script("document.querySelectorAll('#tokens .segments button')[arguments[0]].click()", button)
    browser.execute_script("document.querySelector('.completion .text span').click()")
    assert browser.execute_script("return window.ran") is None
    assert browser.execute_script("return document.querySelectorAll('script, img').length") == 2
    assert requested(browser) == {page.as_uri()}


def test_sweeps_with_other_numbers_of_samples_are_drawn_apart(browser, tmp_path):
    for name, samples in (("grpo", 16), ("held", 8)):
        folder = write_run(tmp_path / name, steps=3, token_steps=())
        for temperature in (0.5, 1.0):
            drawn = {"sampling": {"temperature": temperature}, "benchmarks": {"a": {"samples": samples}}}
            write_evaluation(folder / f"_eval/t{temperature}", [0.6] * 40, settings=drawn, samples=samples)
    open_page(browser, report.write([tmp_path], tmp_path / "report.html"))
    text = browser.find_element(By.ID, "frontier").text
    reason = browser.execute_script("return DATA.frontiers[1].apart.why")
    assert "NaN" not in text and "undefined" not in text and reason in text
    cards = browser.find_elements(By.CSS_SELECTOR, "#frontier .card")
    assert [len(card.find_elements(By.TAG_NAME, "polyline")) for card in cards] == [1, 1]
    rows = [[row.text for row in card.find_elements(By.CSS_SELECTOR, "tbody th")] for card in cards]
    assert rows == [["1 try", *(f"{k} tries" for k in tries)] for tries in ((2, 4, 8, 16), (2, 4, 8))]


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_a_sweep_is_compared_and_drawn(browser, tmp_path, width, height):
    for name, shift in (("grpo", 0.0), ("held", 0.2)):
        folder = write_run(tmp_path / name, steps=3, token_steps=())
        for temperature in (0.5, 1.0, 1.5):
            drawn = SETTINGS | {"sampling": {"temperature": temperature, "top_p": 1.0}}
            write_evaluation(folder / f"_eval/t{temperature}", [0.6 + shift - temperature / 4] * 47, settings=drawn)
    open_page(browser, report.write([tmp_path], tmp_path / "report.html"), width, height)
    main = browser.execute_script("return DATA.comparisons[0].main")
    sentence = browser.find_element(By.CSS_SELECTOR, "#comparison .verdict").text
    for row in main:
        numbers = [f"{100 * row[side]:.1f} %" if row["metric"][0] in "pa" else f"{row[side]:.2f}" for side in "ba"]
        verdict = row["verdict"] if row["verdict"] in ("higher", "lower") else "no difference seen"
        assert f"{numbers[0]} instead of {numbers[1]}, {verdict}" in sentence
    shown = browser.find_elements(By.CSS_SELECTOR, "#comparison tbody tr")
    assert sum(row.is_displayed() for row in shown) == len(main) + 1  # the others are folded
    section = browser.find_element(By.ID, "frontier")
    assert len(section.find_elements(By.CSS_SELECTOR, "polyline")) == 2
    picture = section.find_element(By.CSS_SELECTOR, "svg")
    assert picture.size["width"] > 0.8 * min(width, browser.execute_script("return innerWidth"))
    overlaps = browser.execute_script(
        "const boxes = [...document.querySelectorAll('#frontier svg g text')].map(one => one.getBBox());"
        "return [boxes.length, boxes.filter((a, i) => boxes.some((b, j) => i < j && a.x < b.x + b.width &&"
        " b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)).length]"
    )
    assert overlaps[0] >= 5 and overlaps[1] == 0
