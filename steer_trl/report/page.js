// The page as a whole: its sections in order. Strings of a run are inserted as text, never as HTML.
"use strict";

function alarmsSection() {
  const all = RUNS.flatMap((run) => run.alarms.map((alarm) => [run, alarm]));
  if (!all.length) return null;
  all.sort(([, a], [, b]) => a.step - b.step);
  const item = ([run, alarm]) => {
    const open = { type: "button", class: "quiet", onclick: () => openTokens(alarm.step, run.index) };
    const whose = RUNS.length > 1 ? element("span", { class: "whose" }, nameOf(run)) : null;
    const words = [element("b", {}, alarm.title ?? ""), whose, element("p", {}, alarm.text ?? "")];
    return element("li", {}, element("button", open, `step ${alarm.step}`), element("div", {}, words));
  };
  const list = element("ol", { class: "card alarms" }, all.map(item));
  return element("section", { id: "alarms", "data-nav": "Alarms" }, element("h2", {}, "Alarms"), list);
}

// A panel is drawn if a run has logged one of its keys. With `must_move`, a curve must also change.
function isDrawn(panel) {
  const curves = RUNS.flatMap((run) => panel.keys.flatMap(({ key }) => (run.curves[key] ? [run.curves[key][1]] : [])));
  return curves.length > 0 && (!panel.must_move || curves.some((values) => values.some((one) => one !== values[0])));
}

const NAV = { "What the run does": "Run", "How the method acts": "Method" };

function panelSections(panels) {
  return [...new Set(panels.map((panel) => panel.section))].map((name) => {
    const cards = panels.filter((panel) => panel.section === name).map((panel) => panelCard(panel, openTokens));
    const grid = element("div", { class: "grid" }, cards);
    const attributes = { id: name.toLowerCase().replaceAll(" ", "-"), "data-nav": NAV[name] ?? name };
    return element("section", attributes, element("h2", {}, name), grid);
  });
}

// A section that shows any key of the log that has no panel.
function otherSection() {
  const used = new Set(DATA.panels.flatMap((panel) => [...panel.keys.map((one) => one.key), ...panel.targets]));
  const rest = DATA.keys.filter((key) => !used.has(key));
  if (!rest.length) return null;
  const holder = element("div");
  const show = (key) => {
    const before = charts.length;
    const keys = [{ key, label: key }];
    holder.replaceChildren(panelCard({ title: key, unit: "", keys, sees: "", within: [null, null] }, openTokens));
    if (holder.isConnected) charts[before].redraw();
  };
  const options = rest.map((key) => element("option", { value: key }, key));
  const change = (event) => show(event.target.value);
  const choice = element("select", { "aria-label": "Another key of the log", onchange: change }, options);
  show(rest[0]);
  const field = element("label", { class: "field" }, element("span", {}, "Key"), choice);
  const body = element("div", { class: "other" }, field, holder);
  return element("section", { id: "other", "data-nav": "Other" }, element("h2", {}, "Everything else in the log"), body);
}

// The settings of a run, without its folders, and with the methods that it used.
function settingsOf({ settings, methods }) {
  const { output_dir: _, logging_dir: __, ...known } = settings;
  return methods ? { ...known, advantage_shaping: methods.join(" + ") || "none" } : known;
}

// The value of a setting in a run; only "default" if the default is used and its value is unknown.
function settingText(run, name) {
  const own = settingsOf(run);
  const isDefault = !Object.hasOwn(own, name);
  const defaults = RUNS.find((one) => Object.hasOwn(one.defaults, name))?.defaults;
  if (isDefault && !defaults) return "default";
  const value = isDefault ? defaults[name] : own[name];
  const text = value === null ? "not set" : typeof value === "string" ? value : JSON.stringify(value);
  const shown = text.length > 300 ? `${text.slice(0, 300)} [...]` : text;
  return isDefault ? `${shown} (default)` : shown;
}

function settingsSection() {
  const names = [...new Set(RUNS.flatMap((run) => Object.keys(settingsOf(run))))].sort();
  const rows = names.map((name) => [name, RUNS.map((run) => settingText(run, name))]);
  const different = rows.filter(([, texts]) => new Set(texts).size > 1);
  const same = rows.filter(([, texts]) => new Set(texts).size === 1).map(([name, texts]) => [name, texts.slice(0, 1)]);
  const cell = (text) => element("td", { class: /\bdefault\)?$/.test(text) ? "default" : null }, text);
  const lines = (some) => some.map(([name, texts]) => rowOf(name, texts.map(cell)));
  const several = RUNS.length > 1;
  const parts = [element("h2", {}, different.length ? "Settings that differ" : "Settings")];
  if (different.length) {
    const heads = ["setting", ...RUNS.map((run) => breakable(run.name))];
    parts.push(element("div", { class: "card" }, tableOf(heads, [lines(different)])));
  }
  if (same.length) {
    const title = several ? "Settings that all runs share" : "Settings that are not at their default";
    const attributes = { class: "card table", open: !several };
    parts.push(element("details", attributes, element("summary", {}, title), tableOf([], [lines(same)])));
  }
  const versions = Object.entries(RUNS[0].versions).map(([name, version]) => `${name} ${version}`);
  parts.push(element("p", { class: "versions" }, versions.join(" · ")));
  return element("section", { id: "settings", "data-nav": "Settings" }, parts);
}

function build() {
  const [first, ...others] = DATA.panels.filter(isDrawn);
  const cards = element("div", { class: "run-cards" }, RUNS.map(runCard));
  const [whatItDoes, ...howItActs] = panelSections(others);
  const sections = [
    first ? panelCard(first, openTokens, true) : null,
    element("section", { id: "runs", "aria-label": "Runs" }, cards),
    alarmsSection(),
    comparisonSection(),
    document.getElementById("guide"),
    element("div", { id: "controls" }),
    whatItDoes,
    frontierSection(),
    tokenSection(),
    ...howItActs,
    otherSection(),
    settingsSection(),
  ];
  document.getElementById("page").replaceChildren(...sections.filter(Boolean));
  showControls();
  const named = [...document.querySelectorAll("[data-nav]")];
  const links = named.map((section) => element("a", { href: `#${section.id}` }, section.dataset.nav));
  document.getElementById("jump").replaceChildren(...links);
  redrawAll();
}

function redrawAll() {
  for (const chart of charts) chart.redraw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
let waiting = 0;
const observer = new ResizeObserver(() => {
  clearTimeout(waiting);
  waiting = setTimeout(() => charts.forEach((chart) => chart.resize()), 60);
});

const title = RUNS.length === 1 ? RUNS[0].name : `${RUNS.length} runs`;
document.title = `${title}: training report`;
document.getElementById("title").textContent = title;
build();
observer.observe(document.getElementById("page"));
document.documentElement.dataset.ready = "true";
