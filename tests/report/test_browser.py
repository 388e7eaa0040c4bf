"""The page in a browser: Debian's Chromium without a window. Nothing is requested, nothing foreign runs."""

import json
import random
import shutil
import time

import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from support.run_folders import SCRIPT, alarm, completion, write_held, write_hostile, write_run, write_state

from steer_trl import report, runlog

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium with chromedriver here; make browser installs Debian's"
)
NO_NUMBER = "\N{EN DASH}"
LONG = "entropy_held_at_0_5_with_new_prompts_for_dull_ones"
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


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A collapsing run with an alarm and a held one that is shorter, longer than a curve has points."""
    folder = tmp_path_factory.mktemp("two")
    alarm(write_run(folder / "grpo", steps=1500, method="none", looks=()), 300)
    write_held(folder / LONG, steps=1000)
    return report.write([folder], folder / "report.html")


def panel_of(title):
    """The JavaScript of a panel's card."""
    return f"[...document.querySelectorAll('.panel')].find(card => card.querySelector('h3').textContent === '{title}')"


def test_an_alarm_has_its_runs_colour_and_stands_only_where_that_run_has_a_curve(browser, two):
    opened(browser, two)
    flag = (  # the colours above the plot's own area, where only flags are drawn
        "const canvas = {card}.querySelector('canvas'); const {{data}} = canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, 8); const seen = new Set();"
        "for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 250) seen.add(data.slice(i, i + 3).join());"
        "return [...seen]"
    )
    assert browser.execute_script(flag.format(card=panel_of("Policy entropy"))) == ["217,96,26"]  # --c1, grpo
    assert browser.execute_script(flag.format(card=panel_of("Token weights"))) == []
    assert browser.execute_script("return DATA.runs.map(run => run.alarms.length)") == [0, 1]


def test_wherever_one_points_every_curve_that_reaches_there_has_a_number(browser, two):
    opened(browser, two)
    over = browser.find_element(By.CSS_SELECTOR, ".panel .u-over")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    read = (
        "return [...document.querySelectorAll('.panel')].slice(0, 3).map(card => ["
        "card.querySelector('.at').textContent, ...[...card.querySelectorAll('.legend b')].map(b => b.textContent)])"
    )
    width = over.size["width"]
    for share in (0.05, 0.21, 0.33, 0.47, 0.6):  # both runs reach two thirds
        ActionChains(browser).move_to_element_with_offset(over, int((share - 0.5) * width), 3).perform()
        panels = browser.execute_script(read)
        (step,) = {step for step, *_ in panels}
        assert abs(int(step.removeprefix("step ").replace(",", "")) - 1500 * share) < 15
        assert all(NO_NUMBER not in numbers for _, *numbers in panels), (share, panels)
    ActionChains(browser).move_to_element_with_offset(over, int(0.4 * width), 3).perform()
    assert browser.execute_script(read)[0][1] == NO_NUMBER  # the held run has ended


def test_a_run_has_one_entropy_and_a_held_one_says_how_far_it_is_from_its_target(browser, two):
    opened(browser, two)
    card, plain = (browser.find_elements(By.CSS_SELECTOR, ".run")[i].text for i in (0, 1))
    assert "0.3 → 0.147" in card and "target 0.15, held within 2 %" in card
    legend = browser.execute_script(f"return {panel_of('Policy entropy')}.querySelector('.legend').textContent")
    assert f"{LONG}0.147" in legend
    start, end = browser.execute_script("const {entropy} = DATA.runs[1].ends; return entropy.map(x => number(x))")
    assert f"{start} → {end}" in plain and f"grpo, in the loss{end}" in legend


@pytest.mark.parametrize("width", [390, 1280])
def test_long_names_and_the_choice_of_colours_stay_inside_of_the_page(browser, two, page, width):
    parts = ".segments, .facts dd, .facts small, .legend, .legend .line, .scale"
    for one in (two, page):
        opened(browser, one, width)
        assert browser.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
        out = (
            f"return [...document.querySelectorAll('{parts}')"
            "].filter(box => box.scrollWidth > box.clientWidth + 1 || box.getBoundingClientRect().right >"
            " (box.closest('.card') ?? document.body).getBoundingClientRect().right - 8).map(box => box.textContent)"
        )
        assert browser.execute_script(out) == []
        torn = (
            "return [...document.querySelectorAll('.legend .line')].filter(line => line.querySelector('.swatch')"
            ".getBoundingClientRect().top > line.getBoundingClientRect().top + 24).length"
        )
        assert browser.execute_script(torn) == 0


def test_the_guide_is_open_until_somebody_closes_it(browser, page):
    opened(browser, page)
    is_open = "return document.getElementById('guide').open"
    assert browser.execute_script(is_open)
    assert "hold_entropy" in browser.find_element(By.ID, "guide").text
    browser.find_element(By.CSS_SELECTOR, "#guide summary").click()
    assert eventually(lambda: browser.execute_script("return localStorage.length") > 1)
    browser.get(page.as_uri())
    assert not browser.execute_script(is_open)


def test_a_method_is_explained_where_it_is_named(browser, two):
    opened(browser, two)
    held, plain = (one.text for one in browser.find_elements(By.CSS_SELECTOR, ".run"))
    assert "REPO-R, arXiv 2603.11682: " in held and "hold_entropy moves the method's strength" in held
    assert "Plain GRPO: all tokens of a completion have the same advantage." in plain


def test_methods_of_many_runs_are_explained_below_their_table(browser, tmp_path):
    for seed in range(4):
        write_run(tmp_path / f"run_{seed}", steps=3, seed=seed, method=("stare", "none")[seed % 2], looks=())
    opened(browser, report.write([tmp_path], tmp_path / "report.html"))
    text = browser.find_element(By.ID, "runs").text
    assert text.count("STARE, arXiv 2606.19236: ") == 1 and text.count("Plain GRPO: ") == 1
    assert "0.3" in browser.find_element(By.CSS_SELECTOR, ".glance td:nth-child(4)").text  # entropy


def test_no_panel_stands_alone_beside_a_gap(browser, page):
    opened(browser, page)
    gaps = (
        "return [...document.querySelectorAll('.grid')].filter(grid => grid.children.length > 1).map(grid =>"
        " grid.getBoundingClientRect().right - grid.lastElementChild.getBoundingClientRect().right)"
    )
    assert max(map(abs, browser.execute_script(gaps))) < 1


def test_the_tokens_open_where_there_is_something_to_see(browser, tmp_path):
    dice = random.Random(0)
    texts = {False: [["a", "b"]] * 4, True: [["a", "b"], ["a", "c"], ["d", "b"], ["e", "f"]]}
    for name, method in (("grpo", "none"), ("stare", "stare")):
        folder = write_run(tmp_path / name, method=method, looks=())
        for step in (1, 20, 60):
            for place, words in enumerate(texts[step == 20]):
                line = completion(step, place, dice, texts=words)
                line |= {"weights": [1.0, 1.0]} if method == "none" else {}
                runlog.append(folder, line, f"tokens/step-{step:08d}.jsonl")
    opened(browser, report.write([tmp_path], tmp_path / "report.html"))
    look = (
        "return ['Run', 'Step'].map(name => document.querySelector(`#tokens [aria-label=${name}]`)"
        ".selectedOptions[0].textContent).concat(document.querySelector('#tokens [aria-pressed=true]').textContent)"
    )
    coloured = "return [...document.querySelectorAll('.text span')].filter(one => one.style.backgroundColor).length"
    assert browser.execute_script(look) == ["stare", "20", "Weight"] and browser.execute_script(coloured)
    choose = "const run = document.querySelector('#tokens [aria-label=Run]'); run.value = 0;"
    browser.execute_script(choose + "run.dispatchEvent(new Event('change'))")
    assert browser.execute_script(look) == ["grpo", "20", "Surprisal"] and browser.execute_script(coloured)


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
