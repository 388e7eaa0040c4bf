// Compares the evaluations of two runs. Every number and verdict is that of steer-trl compare.
"use strict";

const NOT_DECIDED = "no difference seen";

function tableOf(heads, bodies, attributes = {}) {
  const head = element("tr", {}, heads.map((text) => element("th", { scope: "col" }, text)));
  const body = bodies.map((rows) => element("tbody", {}, rows));
  return element("div", { class: "table" }, element("table", attributes, element("thead", {}, head), body));
}

function rowOf(name, cells) {
  const cell = (one) => (one instanceof Node && one.tagName === "TD" ? one : element("td", {}, one));
  return element("tr", {}, element("th", { scope: "row" }, name), cells.map(cell));
}

function measureText(metric) {
  const [kind, k] = metric.split("@");
  const tries = k === "1" ? "one try" : `${k} tries`;
  const texts = { pass: `solved in ${tries}`, avg: "solved in one try", maj: `vote of ${tries}` };
  return texts[kind] ?? `different correct answers of ${k}`;
}

// Shares are percentages; numbers of answers are not.
const isShare = (metric) => !metric.startsWith("distinct");
const amount = (value, metric) => (isShare(metric) ? `${(100 * value).toFixed(1)}\u00a0%` : value.toFixed(2));
const verdictOf = ({ verdict }) => (["higher", "lower"].includes(verdict) ? verdict : NOT_DECIDED);

function verdictSentence({ a, b, main }) {
  const changes = main.flatMap((row, i) => [
    `${i ? "; " : ""}${measureText(row.metric)}: ${amount(row.b, row.metric)} instead of ${amount(row.a, row.metric)}, `,
    element("b", {}, verdictOf(row)),
  ]);
  return element("p", { class: "verdict" }, element("b", {}, RUNS[b].name), " against ", element("b", {}, RUNS[a].name), ": ", changes, ".");
}

function comparisonRow(row) {
  const scale = isShare(row.metric) ? 100 : 1;
  const digits = isShare(row.metric) ? 1 : 2;
  const difference = scale * row.difference;
  const half = ((scale * (row.high - row.low)) / 2).toFixed(digits);
  const signed = `${difference < 0 ? "−" : "+"}${Math.abs(difference).toFixed(digits)} ± ${half}`;
  const verdict = element("td", { class: verdictOf(row).replaceAll(" ", "-") }, verdictOf(row));
  return rowOf(measureText(row.metric), [amount(row.a, row.metric), amount(row.b, row.metric), signed, verdict]);
}

function comparisonTable({ a, b }, rows) {
  const heads = ["", nameOf(RUNS[a]), nameOf(RUNS[b]), "difference, 95\u00a0%", "verdict"];
  const bodies = [...new Set(rows.map((row) => row.label))].map((label) => {
    const own = rows.filter((row) => row.label === label);
    const text = `${label} · ${own[0].problems.toLocaleString("en")} problems`;
    const head = element("tr", {}, element("th", { class: "of", colspan: heads.length }, text));
    return [head, ...own.map(comparisonRow)];
  });
  return tableOf(heads, bodies, { class: "compared" });
}

function comparisonCard(pair) {
  const where = pair.steps.length ? `The last evaluation of each during training (steps ${pair.steps.join(" and ")}).` : `Evaluations in ${pair.name}.`;
  if (pair.refused) {
    const names = [nameOf(RUNS[pair.a]), nameOf(RUNS[pair.b])];
    return element("article", { class: "card" }, names, notes([`${where} Not compared: ${pair.refused}`]));
  }
  const { main, others } = pair;
  const summary = element("summary", {}, `All other measures (${others.length})`);
  return element(
    "article",
    { class: "card" },
    verdictSentence(pair),
    comparisonTable(pair, main),
    others.length ? element("details", {}, summary, comparisonTable(pair, others)) : null,
    notes([`${where} Of twenty such intervals one misses, on average.`]),
  );
}

function comparisonSection() {
  if (!DATA.comparisons.length) return null;
  const cards = DATA.comparisons.map(comparisonCard);
  const head = element("h2", {}, "Evaluations compared");
  return element("section", { id: "comparison", "data-nav": "Compared" }, head, element("div", { class: "grid" }, cards));
}
