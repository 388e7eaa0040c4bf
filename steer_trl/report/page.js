// The page around the curves: runs at a glance, alarms, settings, theme. All texts of a run go in as text.
"use strict";

function duration(seconds) {
  if (!(seconds >= 1)) return null;
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([size_]) => seconds >= size_) ?? [1, "s"];
  return `${+(seconds / size).toPrecision(2)} ${unit}`;
}

const entropyKey = (run) => (run.curves.rollout_entropy ? "rollout_entropy" : "entropy");

// The metric of an evaluation that says most: pass@ of the most tries, otherwise accuracy.
function evaluationKeys(run) {
  const keys = Object.keys(run.curves).filter((key) => key.startsWith("eval_"));
  const pass = keys.filter((key) => /pass@\d+$/.test(key)).sort((a, b) => Number(b.split("@").at(-1)) - Number(a.split("@").at(-1)));
  const one = keys.filter((key) => /(avg@\d+|accuracy)$/.test(key));
  return [one[0], pass[0]].filter(Boolean);
}

function fact(label, value, more) {
  return element("div", { class: "fact" }, element("dt", {}, label), element("dd", {}, value, more ? element("small", {}, more) : null));
}

function pair(label, run, key, relative) {
  const both = run.ends[key];
  if (!both) return null;
  const share = relative && both[0] > 0 ? Math.round(100 * (both[1] / both[0] - 1)) : null;
  return fact(label, `${number(both[0])} → ${number(both[1])}`, share === null ? null : `${share > 0 ? "+" : share < 0 ? "−" : "±"}${Math.abs(share)} %`);
}

function runCard(run, i) {
  const one = series().find((s) => s.runs.includes(i));
  const progress = run.max_steps ? Math.min(1, run.step / run.max_steps) : null;
  const status = [run.status, `step ${run.step.toLocaleString("en")}${run.max_steps ? ` of ${run.max_steps.toLocaleString("en")}` : ""}`];
  status.push(run.started && run.ended ? duration(run.ended - run.started) : null);
  const methods = Array.isArray(run.methods) ? run.methods.join(" + ") || "plain GRPO" : null;
  const last = (key) => run.curves[key]?.[1].at(-1);
  return element(
    "article",
    { class: "card run", style: `--own: var(--c${one.color % 8})` },
    element("h2", {}, run.name),
    element("p", { class: "status" }, status.filter(Boolean).join(" · ")),
    progress === null ? null : element("div", { class: "progress" }, element("i", { style: `width: ${100 * progress}%` })),
    methods ? element("p", { class: "methods" }, methods) : null,
    element(
      "dl",
      { class: "facts" },
      pair("Entropy", run, entropyKey(run), true),
      pair("Reward", run, "reward", false),
      ...evaluationKeys(run).map((key) => pair(key.replace(/^eval_/, "").replaceAll("_", " "), run, key, false)),
      last("shaping/weight_mean") === undefined ? null : fact("Mean weight", number(last("shaping/weight_mean"), 4), last("shaping/share_changed") === undefined ? null : `${number(100 * last("shaping/share_changed"), 2)} % changed`),
      last("completions/clipped_ratio") === undefined ? null : fact("Cut off", `${number(100 * last("completions/clipped_ratio"), 2)} %`),
    ),
    run.alarms.length ? element("a", { class: "alarm-count", href: "#alarms" }, `${run.alarms.length} alarm${run.alarms.length > 1 ? "s" : ""}`) : null,
    ...(run.resumed.length ? [element("p", { class: "note" }, `Resumed at step ${run.resumed.join(", ")}.`)] : []),
    ...run.notes.map((note) => element("p", { class: "note" }, note)),
  );
}

// Many runs are easier to compare in a table.
function runsTable() {
  const entropy = DATA.runs.every((run) => run.ends.rollout_entropy) ? "rollout_entropy" : "entropy";
  const keys = [...new Set([entropy, "reward", ...DATA.runs.flatMap(evaluationKeys)])];
  const heads = ["run", "method", "step", ...keys.map((key) => key.replace(/^eval_/, "").replaceAll("_", " ")), "mean weight", "alarms"];
  const cell = (run, key) => (run.ends[key] ? `${number(run.ends[key][0])} → ${number(run.ends[key][1])}` : "–");
  const rows = DATA.runs.map((run, i) => {
    const own = series().find((one) => one.runs.includes(i));
    const methods = Array.isArray(run.methods) ? run.methods.join(" + ") || "plain GRPO" : "–";
    const name = element("th", { scope: "row" }, element("i", { class: "dot", style: `--own: var(--c${own.color % 8})` }), run.name, ...run.notes.map((note) => element("p", { class: "note" }, note)));
    const step = `${run.step.toLocaleString("en")}${run.max_steps && run.status !== "finished" ? ` of ${run.max_steps.toLocaleString("en")}` : ""}${run.status ? `, ${run.status}` : ""}`;
    return element("tr", {}, name, ...[methods, step, ...keys.map((key) => cell(run, key)), number(run.ends["shaping/weight_mean"]?.[1], 4), run.alarms.length || "–"].map((value) => element("td", {}, value)));
  });
  return element("div", { class: "card table glance" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {}, head)))), element("tbody", {}, ...rows)));
}

function runsSection() {
  const section = document.getElementById("runs");
  const chips = series().map((one) =>
    element("button", { type: "button", class: "chip", "aria-pressed": String(!state.hidden.has(one.name)), style: `--own: var(--c${one.color % 8})`, onclick: () => toggle(one.name) }, one.name),
  );
  const seeds = DATA.groups.some((group) => group.runs.length > 1)
    ? element("button", { type: "button", class: "quiet", id: "seeds", onclick: () => ((state.together = !state.together), state.hidden.clear(), build()) }, state.together ? "Show seeds apart" : "Put seeds together")
    : null;
  const band = state.together && seeds ? element("span", { class: "band" }, "line: mean of the seeds, band: lowest to highest") : null;
  const hint = chosen.run !== null || lookSteps().length ? element("span", { class: "band" }, "Click on a curve to see the completions of that step.") : null;
  const smooth = element(
    "div",
    { class: "segments smooth", role: "group", "aria-label": "Smooth the curves" },
    ...["as logged", "smooth", "smoother"].map((name, i) => element("button", { type: "button", "aria-pressed": String(state.smooth === i), onclick: () => ((state.smooth = i), runsSection(), redrawAll()) }, name)),
  );
  section.replaceChildren(
    DATA.runs.length <= 3 ? element("div", { class: "run-cards" }, ...DATA.runs.map(runCard)) : runsTable(),
    element("div", { class: "chips", id: "chips" }, ...(series().length > 1 ? chips : []), seeds, band, hint, smooth),
  );
}

function toggle(name) {
  state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
  if (!shown().length) state.hidden.clear();
  runsSection();
  redrawAll();
}

function alarmsSection() {
  const section = document.getElementById("alarms");
  const all = DATA.runs.flatMap((run) => run.alarms.map((alarm) => [run, alarm])).sort(([, a], [, b]) => a.step - b.step);
  section.hidden = !all.length;
  section.replaceChildren(
    element("h2", {}, "Alarms"),
    element(
      "ol",
      { class: "card alarms" },
      ...all.map(([run, alarm]) =>
        element(
          "li",
          {},
          element("button", { type: "button", class: "quiet", onclick: () => openTokens(alarm.step, DATA.runs.indexOf(run)) }, `step ${alarm.step}`),
          element("div", {}, element("b", {}, alarm.title || alarm.alarm), DATA.runs.length > 1 ? element("span", { class: "whose" }, run.name) : null, element("p", {}, alarm.text)),
        ),
      ),
    ),
  );
}

// Any key of the log that no panel shows.
function otherPanel() {
  const used = new Set(DATA.panels.flatMap((panel) => panel.lines.map((line) => line.key)));
  const rest = DATA.keys.filter((key) => !used.has(key));
  if (!rest.length) return [];
  const holder = element("div");
  const show = (key) => {
    const before = charts.length;
    const card = panelCard({ title: key, unit: "", lines: [{ key, label: key }], sees: "A key of the log as it is.", healthy: "", within: [null, null] }, openTokens);
    holder.replaceChildren(card);
    if (holder.isConnected) charts[before].redraw();
  };
  const choice = element("select", { "aria-label": "Another key of the log", onchange: (event) => show(event.target.value) }, ...rest.map((key) => element("option", { value: key }, key)));
  show(rest[0]);
  return [element("h2", { id: "all-else" }, "Everything else in the log"), element("div", { class: "other" }, element("label", { class: "field" }, element("span", {}, "Key"), choice), holder)];
}

function settingsSection() {
  const { different, same } = DATA.differences;
  const section = document.getElementById("settings");
  const names = DATA.runs.map((run) => run.name);
  const versions = Object.entries(DATA.runs[0].versions);
  const parts = [];
  if (Object.keys(different).length)
    parts.push(
      element("h2", {}, DATA.runs.length > 1 ? "Where the settings differ" : "Settings"),
      element("div", { class: "card table" }, element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, "setting"), ...names.map((name) => element("th", {}, name)))), element("tbody", {}, ...Object.entries(different).map(([name, values]) => element("tr", {}, element("th", { scope: "row" }, name), ...values.map((value) => element("td", { class: value === "default" ? "default" : null }, value))))))),
    );
  if (Object.keys(same).length)
    parts.push(
      element("details", { class: "card table", open: DATA.runs.length === 1 }, element("summary", {}, DATA.runs.length > 1 ? "Settings that all runs share and that are not the defaults" : "Settings that are not the defaults"), element("table", {}, element("tbody", {}, ...Object.entries(same).map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)))))),
    );
  if (versions.length) parts.push(element("p", { class: "versions" }, versions.map(([name, version]) => `${name} ${version}`).join(" · ")));
  section.replaceChildren(...parts);
}

function build() {
  charts.length = 0;
  runsSection();
  alarmsSection();
  const sections = [...new Set(DATA.panels.map((panel) => panel.section))].map((name) => {
    const own = DATA.panels.filter((panel) => panel.section === name);
    return element("section", { id: name.toLowerCase().replaceAll(" ", "-") }, element("h2", {}, name), element("div", { class: "grid" }, ...own.map((panel) => panelCard(panel, openTokens))));
  });
  sections.splice(1, 0, tokenSection());
  sections.push(element("section", { id: "other" }, ...otherPanel()));
  document.getElementById("sections").replaceChildren(...sections);
  settingsSection();
  const heads = [...document.querySelectorAll("main section:not([hidden]) > h2")];
  document.getElementById("jump").replaceChildren(...heads.map((head) => element("a", { href: `#${head.parentElement.id}` }, head.textContent)));
  redrawAll();
}

function redrawAll() {
  for (const chart of charts) chart.redraw();
}

// Light, dark, or as the system has it.
const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };
const store = { get: () => { try { return localStorage.getItem("steer-trl-theme"); } catch { return null; } }, set: (value) => { try { localStorage.setItem("steer-trl-theme", value); } catch { /* a page from a file may have no store */ } } };

function setTheme(name) {
  const theme = name in THEMES ? name : "auto";
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = THEMES[theme];
  store.set(theme);
  redrawAll();
}

document.getElementById("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => charts.forEach((chart) => chart.resize()), 60);
});

const title = DATA.runs.length === 1 ? DATA.runs[0].name : `${DATA.runs.length} runs`;
document.title = `${title}: training report`;
document.getElementById("title").textContent = title;
build();
setTheme(store.get());
document.documentElement.dataset.ready = "true";
