"""The page in a browser: Debian's Chromium without a window. Nothing is requested, nothing foreign runs."""

import json
import random
import re
import shutil

import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from support.evaluations import SETTINGS, write_evaluation
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
    """It has nothing to complain about."""
    yield driver
    assert [entry["message"] for entry in driver.get_log("browser")] == []


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Three runs, two of which are seeds of one setting."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder / f"stare_{seed}", seed=seed)
    alarm(write_run(folder / "grpo", method="none", looks=(60,)))
    return report.write([folder], folder / "report.html")


def opened(browser, page, width=1366, theme="light"):
    browser.get_log("browser"), browser.get_log("performance")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "true"


def first_plot(browser):
    over = browser.find_element(By.CSS_SELECTOR, ".panel .u-over")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    return over


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return {url[:200] for url in sent if not url.startswith("data:")}


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_it_renders_and_asks_for_nothing(browser, page, width, theme):
    opened(browser, page, width, theme)
    assert requests(browser) == {page.as_uri()}
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
    ActionChains(browser).move_to_element(first_plot(browser)).click().perform()
    step = "document.querySelector('#tokens .steps select').value"
    assert browser.execute_script(f"return {step}") == "30"
    top = "return document.getElementById('tokens').getBoundingClientRect().top"
    WebDriverWait(browser, 5).until(lambda _: abs(browser.execute_script(top)) < 200)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".completion")) == 4
    assert browser.find_element(By.CSS_SELECTOR, ".completion .text").text == "2+3=5<eos>"
    browser.find_element(By.CSS_SELECTOR, "[aria-label='Earlier step']").click()
    assert browser.execute_script(f"return {step}") == "1"


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
    return f"[...document.querySelectorAll('.panel')].find(card => card.querySelector('h3').textContent === '{title}')"


def test_wherever_one_points_every_curve_that_reaches_there_has_a_number(browser, two):
    opened(browser, two)
    over = first_plot(browser)
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
    card, plain = (one.text for one in browser.find_elements(By.CSS_SELECTOR, ".run"))
    assert "0.3 → 0.147" in card and "target 0.15, held within 2 %" in card
    assert "REPO-R, arXiv 2603.11682: " in card and "Plain GRPO: " in plain
    legend = browser.execute_script(f"return {panel_of('Policy entropy')}.querySelector('.legend').textContent")
    assert f"{LONG}0.147" in legend
    start, end = browser.execute_script("const {entropy} = DATA.runs[1].ends; return entropy.map(x => number(x))")
    assert f"{start} → {end}" in plain and f"grpo, in the loss{end}" in legend


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


def test_runs_can_be_hidden_and_seeds_put_apart(browser, page):
    opened(browser, page)
    names = "return [...document.querySelectorAll('.chip')].map(chip => chip.textContent)"
    assert browser.execute_script(names) == ["grpo", "stare (2 seeds)"]
    lines = "return document.querySelector('.panel .legend').textContent"
    assert "grpo" in browser.execute_script(lines)
    browser.execute_script("document.querySelector('.chip').click()")
    assert "grpo" not in browser.execute_script(lines)
    browser.execute_script("document.getElementById('seeds').click()")
    assert browser.execute_script(names) == ["grpo", "stare_0", "stare_1"]


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
    assert requests(browser) == {page.as_uri()}


def test_a_run_of_plain_trl_has_its_curves_and_says_how_tokens_are_kept(browser, tmp_path):
    write_state(tmp_path / "run/checkpoint-9", 9)
    opened(browser, report.write([tmp_path / "run"], tmp_path / "report.html"), 390)
    titles = [one.text for one in browser.find_elements(By.CSS_SELECTOR, ".panel h3")]
    assert titles == ["Policy entropy", "Reward"]
    assert "log_tokens=50" in browser.find_element(By.ID, "tokens").text


def write_paced(folder, tokens, steps=40, skill=0.4):
    """A run that writes so many tokens in all, evaluated at its end."""
    runlog.begin(folder, 0, {"methods": [], "max_steps": steps, "settings": {"note": folder.name}})
    for step in range(1, steps + 1):
        share = step / steps
        runlog.append(folder, {"step": step, "entropy": 1 - share / 2, "num_tokens": tokens * share})
    path = write_evaluation(folder / f"benchmarks/step-{steps}", [skill - 0.2, skill, skill + 0.2] * 20, tokens)
    pairs = json.loads((path / "summary.json").read_text())["benchmarks"]["a"]["metrics"]
    runlog.append(folder, {"step": steps} | {f"eval_a_{key}": mean for key, (mean, _) in pairs.items()})
    for place in range(4):
        runlog.append(folder, completion(20, place, random.Random(0)), "tokens/step-00000020.jsonl")
    return folder


@pytest.fixture(scope="module")
def paced(tmp_path_factory):
    """A run, and one that takes as many steps over thrice the tokens and solves more."""
    folder = tmp_path_factory.mktemp("paced")
    write_paced(folder / "plain", 1_000_000)
    write_paced(folder / "sampled", 3_000_000, skill=0.7)
    return report.write([folder], folder / "report.html")


def axis(browser):
    """What is pressed, and where the axis and each run's curve end."""
    script = (
        "const lines = linesOf(DATA.panels[0], 'entropy'); return [document.querySelector('.over [aria-pressed=true]')"
        ".textContent, axisRange()[1], ...lines.map(line => line.curve[0].at(-1))]"
    )
    return browser.execute_script(script)


def test_curves_are_drawn_over_what_one_chooses(browser, paced):
    opened(browser, paced)
    assert axis(browser) == ["steps", 40, 40, 40]
    browser.execute_script("document.getElementById('over-steps').focus()")
    ActionChains(browser).send_keys(Keys.TAB).send_keys(Keys.ENTER).perform()  # a keyboard keeps its place
    assert browser.execute_script("return document.activeElement.id") == "over-tokens"
    assert axis(browser) == ["tokens", 3e6, 1e6, 3e6]
    assert "prompts and completions" in browser.find_element(By.ID, "drawing").text
    steps, looks = browser.execute_script(
        "const lines = linesOf(DATA.panels[0], 'entropy'); return [lines.map(line =>"
        " [line.axis.stepAt(750000), line.axis.placeOf(20)]), looksOf(lines)]"
    )
    assert steps == [[30, 500_000], [10, 1_500_000]] and looks == [500_000, 1_500_000]  # which a click opens
    over = first_plot(browser)
    ActionChains(browser).move_to_element_with_offset(over, int(-0.25 * over.size["width"]), 0).perform()
    legend = browser.execute_script("return document.querySelector('.panel .legend').textContent")
    assert re.search(r"plain0\.6[12]\d*sampled0\.8[78]\d*7\d\dK tokens$", legend)  # after 0.75 of 3 million


def test_a_logarithmic_scale_is_for_curves_above_zero(browser, page):
    opened(browser, page)
    scales = (
        "return DATA.panels.map(panel => [panel.title, isLogarithmic(panel, placed(linesOf(panel,"
        " panel.lines[0].key))[1])])"
    )
    assert not any(is_log for _, is_log in browser.execute_script(scales))
    browser.find_element(By.ID, "y-log").click()
    found = dict(browser.execute_script(scales))
    assert found["Policy entropy"] and found["Token weights"] and not found["Loss"]  # which is 0 in these runs


def test_the_curves_are_there_as_csv(browser, page):
    opened(browser, page)
    csv = browser.execute_async_script(
        "const done = arguments[0]; const read = new FileReader(); const made = URL.createObjectURL;"
        "URL.createObjectURL = blob => { read.onload = () => done(read.result); read.readAsText(blob); return '#' };"
        "curvesAsCsv(); URL.createObjectURL = made"
    )
    head, *rows = csv.splitlines()
    assert head == "run,key,step,value" and '"grpo","reward",30,0.5' in rows
    assert len(rows) == browser.execute_script(
        "return DATA.runs.flatMap(run => Object.values(run.curves)).reduce((sum, [steps]) => sum + steps.length, 0)"
    )


def test_the_colours_of_weights_have_their_real_ends(browser, tmp_path):
    folder = write_run(tmp_path / "run", looks=())
    for place, weights in enumerate(([1.0, 0.25, 2.0], [1.0, 1.0, 1.0])):
        line = completion(1, place, random.Random(0), texts=["a", "b", "c"]) | {"weights": weights}
        runlog.append(folder, line, "tokens/step-00000001.jsonl")
    opened(browser, report.write([folder], tmp_path / "report.html"))
    scale = browser.find_element(By.CSS_SELECTOR, "#tokens .scale").text
    assert "damped 0.25" in scale and "4 amplified" in scale  # by ratios: 1/4 is as far from 1 as 4
    shares = browser.execute_script("return [0.25, 2, 1].map(one => shade(one, 'weight', Math.log(4)))")
    assert "62%" in shares[0] and "31%" in shares[1] and shares[2] is None


def test_points_of_an_evaluation_have_bars(browser, paced):
    opened(browser, paced)
    bars = "return linesOf(DATA.panels.find(panel => panel.title === 'Evaluation'), 'eval_a_avg@4').map(barsOf)"
    for (place, low, high), *others in browser.execute_script(bars):
        assert place == 40 and 0 <= low < high and not others
    legend = browser.execute_script(f"return {panel_of('Evaluation')}.querySelector('.legend').textContent")
    assert re.search(r"plain0\.\d+ ±0\.\d+sampled", legend)


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_evaluations_are_compared_in_a_table_that_fits(browser, paced, width, theme):
    opened(browser, paced, width, theme)
    section = browser.find_element(By.ID, "comparison")
    row = next(line.text for line in section.find_elements(By.TAG_NAME, "tr") if line.text.startswith("avg@4"))
    expected = json.loads(browser.execute_script("return JSON.stringify(DATA.comparisons[0].pairs[0].rows[0])"))
    assert f"+{expected['difference']:.3f}" in row and f"+{expected['low']:.3f} to" in " ".join(row.split())
    assert row.split()[-1] == "higher"
    sides = [one.text for one in section.find_elements(By.CSS_SELECTOR, ".side")]
    assert [" ".join(side.split()) for side in sides] == ["A plain step 40", "B sampled step 40"]
    wide = "[...document.querySelectorAll('#comparison .table')].filter(one => one.scrollWidth > one.clientWidth)"
    assert browser.execute_script(f"return {wide}.length") == 0


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_a_sweep_is_drawn_with_its_best_temperatures(browser, tmp_path, width, theme):
    for name, shift in (("grpo", 0.1), ("held", 0.0)):
        folder = write_run(tmp_path / name, steps=3, looks=(), note=name)
        for temperature in (0.5, 1.5):
            drawn = SETTINGS | {"sampling": {"temperature": temperature, "top_p": 1.0}}
            write_evaluation(folder / f"_eval/t{temperature}", [0.7 + shift - temperature / 4] * 20, settings=drawn)
    opened(browser, report.write([tmp_path], tmp_path / "report.html"), width, theme)
    section = browser.find_element(By.ID, "frontier")
    curves = json.loads(browser.execute_script("return JSON.stringify(DATA.frontiers[0].curves)"))
    assert len(section.find_elements(By.CSS_SELECTOR, "polyline")) == 2
    assert len(section.find_elements(By.CSS_SELECTOR, "circle")) == 4
    rows = [row.text for row in section.find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert all(f"{100 * curve['best'][0][2]:.1f} %" in row for row, curve in zip(rows, curves, strict=True))
    assert browser.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
