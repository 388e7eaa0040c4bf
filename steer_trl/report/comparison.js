// The evaluations of several runs compared with the first, as steer-trl compare does: every number and verdict is its.
"use strict";

function tableOf(heads, bodies, attributes = {}) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  const body = bodies.map((rows) => element("tbody", {}, ...rows));
  return element("div", { class: "table" }, element("table", attributes, element("thead", {}, head), ...body));
}

function rowOf(name, cells) {
  const cell = (one) => (one instanceof Node && one.tagName === "TD" ? one : element("td", {}, one));
  return element("tr", {}, element("th", { scope: "row" }, ...[name].flat()), ...cells.map(cell));
}

const dotOf = (i) => element("i", { class: "dot", style: `--own: ${styleOf(i)}` });
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(Math.abs(value) < 100 ? 3 : 0);
const interval = ([low, high]) => `${signed(low)} to ${signed(high)}`;

function comparisonRow(row) {
  const small = [
    interval([row.low, row.high]),
    row.welch ? `over seeds: ${interval(row.welch)}` : null,
    row.paired_by_seed ? `paired by seed: ${interval(row.paired_by_seed)}` : null,
  ].filter(Boolean);
  const difference = [signed(row.difference), ...small.map((text) => element("small", {}, text))];
  const verdict = element("td", { class: row.verdict === "not decided" ? "open" : "decided" }, row.verdict);
  return rowOf(row.metric, [number(row.a), number(row.b), element("td", {}, ...difference), verdict]);
}

function pairCard(table, pair) {
  const side = (letter, i) => {
    const at = table.steps[i] ? ` step ${table.steps[i].join(", ")}` : "";
    const name = element("span", {}, DATA.groups[i].name, element("span", { class: "unit" }, at));
    return element("p", { class: "side" }, element("b", {}, letter), dotOf(i), name);
  };
  const parts = [side("A", pair.a), side("B", pair.b)];
  if (pair.refused) return [...parts, element("p", { class: "note" }, `Not compared: ${pair.refused}`)];
  const heads = ["", "A", "B", "B − A, 95\u00a0%", "B is"];
  const head = (text) => element("tr", {}, element("th", { class: "of", colspan: heads.length }, text));
  const labels = [...new Set(pair.rows.map((row) => row.label))];
  const bodies = labels.map((label) => {
    const own = pair.rows.filter((row) => row.label === label);
    return [head(`${label} · ${own[0].problems.toLocaleString("en")} problems`), ...own.map(comparisonRow)];
  });
  return [...parts, tableOf(heads, bodies, { class: "compared" })];
}

function comparisonOf(table) {
  const about = [...new Set(table.pairs.map((pair) => pair.about).filter(Boolean))].join(" ");
  const what =
    table.name === "benchmarks"
      ? "The last evaluation of each run during its training."
      : `What steer-trl eval has left in ${table.name} of each run.`;
  const cards = table.pairs.map((pair) => element("article", { class: "card" }, ...pairCard(table, pair)));
  const misses = "One in twenty such intervals misses, also where nothing differs; steer-trl compare has all measures.";
  return [element("p", { class: "sees" }, `${what} ${about} ${misses}`), element("div", { class: "grid" }, ...cards)];
}

function comparisonSection() {
  if (!DATA.comparisons.length) return null;
  const tables = DATA.comparisons.map((table) => element("div", { class: "comparison" }, ...comparisonOf(table)));
  return element("section", { id: "comparison" }, element("h2", {}, "Evaluations compared"), ...tables);
}
