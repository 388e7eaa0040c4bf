// The page around the curves: alarms, settings, sections. All texts of a run go in as text.
"use strict";

function alarmsSection() {
  const section = document.getElementById("alarms");
  const all = DATA.runs.flatMap((run, i) => run.alarms.map((alarm) => [i, alarm]));
  all.sort(([, a], [, b]) => a.step - b.step);
  section.hidden = !all.length;
  const item = ([i, alarm]) => {
    const open = { type: "button", class: "quiet", onclick: () => openTokens(alarm.step, i) };
    const whose = element("span", { class: "whose" }, dotOf(ownerOf(i).color), DATA.runs[i].name);
    const title = element("b", {}, alarm.title);
    const text = element("div", {}, title, DATA.runs.length > 1 ? whose : null, element("p", {}, alarm.text));
    return element("li", {}, element("button", open, `step ${alarm.step}`), text);
  };
  section.replaceChildren(element("h2", {}, "Alarms"), element("ol", { class: "card alarms" }, ...all.map(item)));
}

// Any key of the log that no panel shows.
function otherPanel() {
  const used = new Set(DATA.panels.flatMap((panel) => panel.lines.map((line) => line.key)));
  const rest = DATA.keys.filter((key) => !used.has(key));
  if (!rest.length) return [];
  const holder = element("div");
  const show = (key) => {
    const before = charts.length;
    const lines = [{ key, label: key }];
    const about = { title: key, unit: "", lines, sees: "A key of the log as it is.", within: [null, null] };
    holder.replaceChildren(panelCard(about, openTokens));
    if (holder.isConnected) charts[before].redraw();
  };
  const options = rest.map((key) => element("option", { value: key }, key));
  const change = (event) => show(event.target.value);
  const choice = element("select", { "aria-label": "Another key of the log", onchange: change }, ...options);
  show(rest[0]);
  const field = element("label", { class: "field" }, element("span", {}, "Key"), choice);
  return [
    element("h2", { id: "all-else" }, "Everything else in the log"),
    element("div", { class: "other" }, field, holder),
  ];
}

function settingsSection() {
  const { different, same } = DATA.differences;
  const several = DATA.runs.length > 1;
  const cell = (value) => element("td", { class: /\bdefault\)?$/.test(value) ? "default" : null }, value);
  const rows = (settings) => Object.entries(settings).map(([name, values]) => rowOf(name, [values].flat().map(cell)));
  const parts = [];
  if (Object.keys(different).length) {
    const heads = ["setting", ...DATA.runs.map((run) => run.name)];
    const title = several ? "Where the settings differ" : "Settings";
    parts.push(element("h2", {}, title), element("div", { class: "card" }, tableOf(heads, [rows(different)])));
  }
  if (Object.keys(same).length) {
    const title = `Settings that ${several ? "all runs share and that " : ""}are not the defaults`;
    const attributes = { class: "card table", open: !several };
    parts.push(element("details", attributes, element("summary", {}, title), tableOf([], [rows(same)])));
  }
  const versions = Object.entries(DATA.runs[0].versions).map(([name, version]) => `${name} ${version}`);
  parts.push(element("p", { class: "versions" }, versions.join(" · ")));
  document.getElementById("settings").replaceChildren(...parts);
}

function build() {
  charts.length = 0;
  runsSection();
  alarmsSection();
  const sections = [...new Set(DATA.panels.map((panel) => panel.section))].map((name) => {
    const own = DATA.panels.filter((panel) => panel.section === name);
    const cards = element("div", { class: "grid" }, ...own.map((panel) => panelCard(panel, openTokens)));
    return element("section", { id: name.toLowerCase().replaceAll(" ", "-") }, element("h2", {}, name), cards);
  });
  sections.splice(1, 0, ...[comparisonSection(), frontierSection()].filter(Boolean), tokenSection());
  sections.push(element("section", { id: "other" }, ...otherPanel()));
  document.getElementById("sections").replaceChildren(...sections);
  settingsSection();
  const heads = [...document.querySelectorAll("main section:not([hidden]) > h2")];
  const links = heads.map((head) => element("a", { href: `#${head.parentElement.id}` }, head.textContent));
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
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => charts.forEach((chart) => chart.resize()), 60);
});

const title = DATA.runs.length === 1 ? DATA.runs[0].name : `${DATA.runs.length} runs`;
document.title = `${title}: training report`;
document.getElementById("title").textContent = title;
build();
document.documentElement.dataset.ready = "true";
