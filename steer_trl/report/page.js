// The page around the curves: alarms, settings, theme. All texts of a run go in as text.
"use strict";

function whose(run) {
  const own = series().find((one) => one.runs.includes(DATA.runs.indexOf(run))).color;
  const dot = element("i", { class: "dot", style: `--own: ${styleOf(own)}` });
  return element("span", { class: "whose" }, dot, run.name);
}

function alarmsSection() {
  const section = document.getElementById("alarms");
  const all = DATA.runs
    .flatMap((run) => run.alarms.map((alarm) => [run, alarm]))
    .sort(([, a], [, b]) => a.step - b.step);
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
          element(
            "button",
            { type: "button", class: "quiet", onclick: () => openTokens(alarm.step, DATA.runs.indexOf(run)) },
            `step ${alarm.step}`,
          ),
          element(
            "div",
            {},
            element("b", {}, alarm.title || alarm.alarm),
            DATA.runs.length > 1 ? whose(run) : null,
            element("p", {}, alarm.text),
          ),
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
    const card = panelCard(
      {
        title: key,
        unit: "",
        lines: [{ key, label: key }],
        sees: "A key of the log as it is.",
        healthy: "",
        within: [null, null],
      },
      openTokens,
    );
    holder.replaceChildren(card);
    if (holder.isConnected) charts[before].redraw();
  };
  const choice = element(
    "select",
    { "aria-label": "Another key of the log", onchange: (event) => show(event.target.value) },
    ...rest.map((key) => element("option", { value: key }, key)),
  );
  show(rest[0]);
  return [
    element("h2", { id: "all-else" }, "Everything else in the log"),
    element(
      "div",
      { class: "other" },
      element("label", { class: "field" }, element("span", {}, "Key"), choice),
      holder,
    ),
  ];
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
      element(
        "div",
        { class: "card table" },
        element(
          "table",
          {},
          element(
            "thead",
            {},
            element("tr", {}, element("th", {}, "setting"), ...names.map((name) => element("th", {}, name))),
          ),
          element(
            "tbody",
            {},
            ...Object.entries(different).map(([name, values]) =>
              element(
                "tr",
                {},
                element("th", { scope: "row" }, name),
                ...values.map((value) =>
                  element("td", { class: /\bdefault\)?$/.test(value) ? "default" : null }, value),
                ),
              ),
            ),
          ),
        ),
      ),
    );
  if (Object.keys(same).length)
    parts.push(
      element(
        "details",
        { class: "card table", open: DATA.runs.length === 1 },
        element(
          "summary",
          {},
          DATA.runs.length > 1
            ? "Settings that all runs share and that are not the defaults"
            : "Settings that are not the defaults",
        ),
        element(
          "table",
          {},
          element(
            "tbody",
            {},
            ...Object.entries(same).map(([name, value]) =>
              element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)),
            ),
          ),
        ),
      ),
    );
  if (versions.length)
    parts.push(
      element("p", { class: "versions" }, versions.map(([name, version]) => `${name} ${version}`).join(" · ")),
    );
  section.replaceChildren(...parts);
}

function build() {
  charts.length = 0;
  runsSection();
  alarmsSection();
  const sections = [...new Set(DATA.panels.map((panel) => panel.section))].map((name) => {
    const own = DATA.panels.filter((panel) => panel.section === name);
    return element(
      "section",
      { id: name.toLowerCase().replaceAll(" ", "-") },
      element("h2", {}, name),
      element("div", { class: "grid" }, ...own.map((panel) => panelCard(panel, openTokens))),
    );
  });
  sections.splice(1, 0, ...[comparisonSection(), frontierSection()].filter(Boolean), tokenSection());
  sections.push(element("section", { id: "other" }, ...otherPanel()));
  document.getElementById("sections").replaceChildren(...sections);
  settingsSection();
  const heads = [...document.querySelectorAll("main section:not([hidden]) > h2")];
  document
    .getElementById("jump")
    .replaceChildren(...heads.map((head) => element("a", { href: `#${head.parentElement.id}` }, head.textContent)));
  redrawAll();
}

function redrawAll() {
  for (const chart of charts) chart.redraw();
}

// Light, dark, or as the system has it.
const SYSTEM = matchMedia("(prefers-color-scheme: dark)");
const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };
const store = {
  get: (name) => {
    try {
      return localStorage.getItem(`steer-trl-${name}`);
    } catch {
      return null;
    }
  },
  set: (name, value) => {
    try {
      localStorage.setItem(`steer-trl-${name}`, value);
    } catch {
      /* a page from a file may have no store */
    }
  },
};

function setTheme(name) {
  const theme = name in THEMES ? name : "auto";
  const isDark = theme === "dark" || (theme === "auto" && SYSTEM.matches);
  Object.assign(document.documentElement.dataset, { theme, shade: isDark ? "dark" : "light" });
  document.getElementById("theme").textContent = THEMES[theme];
  store.set("theme", theme);
  redrawAll();
}

document.getElementById("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
});
SYSTEM.addEventListener("change", () => setTheme(document.documentElement.dataset.theme));
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
readAddress();
build();
addEventListener("hashchange", () => {
  const before = over();
  readAddress();
  if (over() !== before) drawOver(state.over);
});
setTheme(store.get("theme"));
// The guide is open until somebody closes it.
const guide = document.getElementById("guide");
guide.open = store.get("guide") !== "closed";
guide.addEventListener("toggle", () => store.set("guide", guide.open ? "open" : "closed"));
// An address with more than the name of a section is none that the browser finds.
const place = inAddress().has("over") ? [...inAddress().keys()].find((key) => document.getElementById(key)) : undefined;
if (place) document.getElementById(place).scrollIntoView();
document.documentElement.dataset.ready = "true";
