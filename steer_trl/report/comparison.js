// The evaluations of several runs held against each other, as steer-trl compare does: every number and verdict is its.
"use strict";

const HEADLINES = /^(avg|maj|distinct)@\d+$/;

function sideName(table, i) {
  const group = DATA.groups[table.sides[i].group];
  return group.runs.length > 1 ? `${group.name} (${group.runs.length} seeds)` : DATA.runs[group.runs[0]].name;
}

// When a side was evaluated, on average over its seeds: equal steps are not equal tokens.
function sideTime(table, i) {
  const runsOf = (side) => DATA.groups[side.group].runs.map((run) => DATA.runs[run]);
  const { steps } = table.sides[i];
  if (steps.some((step) => step === null)) return null;
  const which = `step ${[...new Set(steps)].map((step) => step.toLocaleString("en")).join(", ")}`;
  const column = columnOf("tokens", table.sides.flatMap(runsOf));
  if (!column) return which;
  const tokens = runsOf(table.sides[i]).map((run, seed) => between(...run.axes[column], steps[seed]));
  const mean = tokens.reduce((a, b) => a + b, 0) / tokens.length;
  return `${which}, ${compact.format(mean)} tokens${tokens.length > 1 ? " on average" : ""}`;
}

function sideLine(letter, table, i) {
  const time = sideTime(table, i);
  return element(
    "p",
    { class: "side" },
    element("b", {}, letter),
    element("i", { class: "dot", style: `--own: ${styleOf(table.sides[i].group)}` }),
    element("span", {}, sideName(table, i), time ? element("span", { class: "unit" }, ` ${time}`) : null),
  );
}

const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(Math.abs(value) < 100 ? 3 : 0);
const interval = ([low, high]) => `${signed(low)} to ${signed(high)}`;

function comparisonRow(row) {
  const seeds = [
    row.welch ? `over seeds: ${interval(row.welch)}` : null,
    row.paired_by_seed ? `paired by seed: ${interval(row.paired_by_seed)}` : null,
  ];
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, row.metric.replaceAll("_", " ")),
    element("td", {}, number(row.a)),
    element("td", {}, number(row.b)),
    element(
      "td",
      {},
      signed(row.difference),
      ...[interval([row.low, row.high]), ...seeds].filter(Boolean).map((text) => element("small", {}, text)),
    ),
    element("td", { class: row.verdict === "not decided" ? "open" : "decided" }, row.verdict),
  );
}

function comparisonTable(rows) {
  const names = (row) => JSON.stringify([row.benchmark, row.sampling]);
  const bodies = [...new Set(rows.map(names))].map((own) => rows.filter((row) => names(row) === own));
  const heads = ["", "A", "B", "B − A, 95\u00a0%", "B is"];
  return element(
    "div",
    { class: "table" },
    element(
      "table",
      { class: "compared" },
      element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
      ...bodies.map((body) => {
        const { benchmark, sampling, problems } = body[0];
        const label = [benchmark, sampling, `${problems.toLocaleString("en")} problems`].filter(Boolean).join(" · ");
        return element(
          "tbody",
          {},
          element("tr", {}, element("th", { class: "of", colspan: heads.length, scope: "rowgroup" }, label)),
          ...body.map(comparisonRow),
        );
      }),
    ),
  );
}

// What one looks at first: one try, the vote, the variety, and pass@ of the most tries.
function headlines(rows) {
  const most = Math.max(...rows.map((row) => Number(row.metric.match(/^pass@(\d+)$/)?.[1] ?? 0)));
  return rows.filter((row) => HEADLINES.test(row.metric) || row.metric === `pass@${most}`);
}

function pairCard(table, pair) {
  const parts = [sideLine("A", table, pair.a), sideLine("B", table, pair.b)];
  if (pair.refused) return [...parts, element("p", { class: "note" }, `Not compared: ${pair.refused}`)];
  const first = headlines(pair.rows);
  const rest = pair.rows.filter((row) => !first.includes(row));
  return [
    ...parts,
    comparisonTable(first.length ? first : pair.rows),
    first.length && rest.length
      ? element("details", {}, element("summary", {}, "All other measures"), comparisonTable(rest))
      : null,
  ];
}

function comparisonOf(table) {
  const cards = element("div", { class: "grid" });
  const pairs = () => table.pairs.filter((pair) => pair.a === (state.baselines[table.name] ?? 0));
  const fill = () =>
    cards.replaceChildren(
      ...pairs().map((pair) =>
        element("article", { class: "card" }, ...pairCard(table, pair)),
      ),
    );
  const choices = [...new Set(table.pairs.map((pair) => pair.a))];
  const choice = select(
    "A, which the others are held against",
    choices.map((i) => [i, sideName(table, i)]),
    state.baselines[table.name] ?? 0,
    (i) => ((state.baselines[table.name] = i), fill()),
  );
  const about = [...new Set(table.pairs.map((pair) => pair.about).filter(Boolean))];
  const without = table.without.map((i) => DATA.groups[i].name);
  fill();
  return [
    element(
      "p",
      { class: "sees" },
      table.name === "benchmarks"
        ? "The last evaluation of each run during its training."
        : element("span", {}, "What steer-trl eval has left in ", element("code", {}, table.name), " of each run."),
      ` ${about.join(" ")} One in twenty such intervals misses, also where nothing differs.`,
    ),
    without.length ? element("p", { class: "note" }, `Without such an evaluation: ${without.join(", ")}.`) : null,
    choices.length > 1 ? choice : null,
    cards,
  ];
}

function comparisonSection() {
  if (!DATA.comparisons.length) return null;
  return element(
    "section",
    { id: "comparison" },
    element("h2", {}, "Evaluations compared"),
    ...DATA.comparisons.map((table) => element("div", { class: "comparison" }, ...comparisonOf(table))),
  );
}
