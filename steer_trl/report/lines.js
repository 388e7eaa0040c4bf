// The data of the page, and the lines that a panel draws from it.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
// The tokens of each step: those generated if all runs have logged them, otherwise those that TRL counts.
const TOKENS = {
  [DATA.names.GENERATED_TOKENS]: "tokens generated so far, with the groups that dynamic sampling drops; without prompts",
  [DATA.names.NUM_TOKENS]: "tokens as TRL counts them: prompts and completions so far",
};
const TOKEN_KEY = Object.keys(TOKENS).find((key) => DATA.runs.every((run) => run.curves[key]));
const RUNS = DATA.runs.map((run, index) => ({ ...run, index, tokens: run.token_axes[TOKEN_KEY] }));
const isByTokens = TOKEN_KEY && RUNS.every((run) => run.budget?.unit === "tokens");
// The levels of smoothing, of which `state.smooth` is the index.
const LEVELS = ["as logged", "smooth", "smoother"];
const state = { hidden: new Set(), smooth: 1, over: isByTokens ? "tokens" : "steps" };
const shownRuns = () => RUNS.filter((run) => !state.hidden.has(run.index));

// Helpers for elements, colours and numbers.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  const given = children.flat(Infinity).filter((child) => child !== null && child !== undefined);
  made.append(...given.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

const notes = (texts) => texts.filter(Boolean).map((text) => element("p", { class: "note" }, text));

// A name that may break across lines only between its words: after an underscore, a hyphen, a dot or a slash.
const breakable = (name) => name.split(/(?<=[_\-./])/).flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
const dotOf = (run) => element("i", { class: "dot", style: `--own: ${styleOf(run.index)}` });
const nameOf = (run) => element("span", { class: "name" }, dotOf(run), breakable(run.name));

// Buttons, one of which is pressed. They keep their ids when they are rebuilt, so that the focus can be restored.
function segments(label, id, names, pressed, choose) {
  const button = (name) => {
    const attributes = { type: "button", id: `${id}-${name.replaceAll(" ", "-")}`, onclick: () => choose(name) };
    return element("button", { ...attributes, "aria-pressed": String(name === pressed) }, name);
  };
  return element("div", { class: `segments ${id}`, role: "group", "aria-label": label }, names.map(button));
}

// A number stands for the colour of a run, a string is CSS. The canvas needs the values of the CSS variables.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const styleOf = (own) => (typeof own === "string" ? own : `var(--c${own % 8})`);
const color = (own) => styleOf(own).replace(/var\((--[\w-]+)\)/g, (_, name) => css(name));

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1).replaceAll("-", "−");
  const text =
    size >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(size >= 100 ? 4 : digits));
  return text.replaceAll("-", "−");
}

// The horizontal axis: optimizer steps, or the tokens of each run at its steps (`run.tokens`: steps, and tokens so far).

const placeOf = (run, step) => (state.over === "steps" ? step : interpolate(...run.tokens, step));
const stepAt = (run, place) => (state.over === "steps" ? place : interpolate(run.tokens[1], run.tokens[0], place));

// Interpolates linearly between two neighbours, and extrapolates beyond the ends. `from` must not decrease.
function interpolate(from, to, value) {
  let [low, high] = [0, from.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    from[middle] < value ? (low = middle) : (high = middle);
  }
  const width = from[high] - from[low];
  return width ? to[low] + ((value - from[low]) * (to[high] - to[low])) / width : to[high];
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const stepText = (step) => (Number.isInteger(step) ? step.toLocaleString("en") : "");
const tickText = (place) => (state.over === "steps" ? stepText(place) : compact.format(place));
const placeText = (place) =>
  state.over === "steps" ? `step ${Math.round(place).toLocaleString("en")}` : `${compact.format(place)} tokens`;

// All panels share one horizontal range, so that points above each other belong to the same time.
function axisRange() {
  const places = shownRuns().flatMap((run) => {
    const steps = Object.values(run.curves).flatMap(([own]) => (own.length ? [own[0], own.at(-1)] : []));
    return steps.length ? [Math.min(...steps), Math.max(...steps)].map((step) => placeOf(run, step)) : [];
  });
  const [from, to] = [Math.min(...places), Math.max(...places)];
  return to > from ? [from, to] : [from - 1, from + 1];
}

// The lines of a panel, with their points placed on the axis. A panel draws only one key if there are several runs, or
// if its keys are different measures of one quantity.
function linesOf(panel, key) {
  const lines = panel.is_stacked ? stackOf(panel, key) : [...curvesOf(panel, key), ...referencesOf(panel)];
  return lines.map((line) => {
    const [steps, values] = line.curve;
    return { ...line, curve: [steps.map((step) => placeOf(line.run, step)), values] };
  });
}

const drawsOneKey = (panel) => RUNS.length > 1 || panel.is_alternative;

function curvesOf(panel, key) {
  const keys = drawsOneKey(panel) ? panel.keys.filter((one) => one.key === key) : panel.keys;
  return keys.flatMap((one, k) =>
    shownRuns().flatMap((run) => {
      const curve = run.curves[one.key];
      if (!curve?.[0].length) return [];
      const smooth = smoothed(run, one.key);
      const raw = smooth !== curve && !panel.is_coarse ? curve : null;
      const several = RUNS.length > 1;
      const label = several ? run.name : one.label;
      const interval = run.intervals[one.key];
      return [{ run, label, color: several ? run.index : k, curve: smooth, raw, interval, end: run.ends[one.key][1] }];
    }),
  );
}

// The dashed target of each run, and the dotted level at which it began. Runs with the same initial level share a line.
function referencesOf(panel) {
  if (!panel.has_start) return [];
  const [from, to] = axisRange();
  const lines = [];
  for (const run of shownRuns()) {
    const own = RUNS.length > 1 ? run.index : "var(--muted)";
    for (const target of panel.targets) {
      const curve = run.curves[target];
      if (curve) lines.push({ run, color: own, curve, dash: [7, 4], aside: `target ${number(curve[1].at(-1))}` });
    }
    const start = run.entropy?.start;
    const isDrawn = lines.some((line) => line.start && Math.abs(line.start / start - 1) < 0.02);
    if (start && !isDrawn) {
      const curve = [[stepAt(run, from), stepAt(run, to)], [start, start]];
      lines.push({ run, color: "var(--muted)", curve, dash: [2, 4], start, aside: `start ${number(start)}` });
    }
  }
  return lines;
}

// The parts of a whole, for one run, stacked: each line is the sum of its own part and the parts below it.
function stackOf(panel, index) {
  const run = RUNS[index];
  const keys = panel.keys.filter((one) => run?.curves[one.key]);
  let sum = null;
  return keys
    .map((one, k) => {
      const [steps, own] = smoothed(run, one.key);
      sum = own.map((value, i) => value + (sum?.[i] ?? 0));
      const end = run.ends[one.key][1];
      return { run, label: one.label, curve: [steps, sum], own, stacked: true, color: toneOf(k, keys.length), end };
    })
    .reverse();
}

// The colour of part `k`, on a scale from cold through neutral to warm.
function toneOf(k, count) {
  const place = count > 1 ? (2 * k) / (count - 1) - 1 : 0;
  if (place === 0) return "var(--line)";
  const share = Math.round(20 + 75 * Math.abs(place));
  return `color-mix(in srgb, var(${place < 0 ? "--cold" : "--warm"}) ${share}%, var(--card))`;
}

// The running mean of a curve at its points; the curve itself if it has none at this level of smoothing. It is a mean of
// all entries of the log (`thinning.py`), because the curve has only some of them, mostly the lowest and highest.
function smoothed(run, key) {
  const means = run.means[key]?.[LEVELS[state.smooth]];
  return means ? [run.curves[key][0], means] : run.curves[key];
}

// Joins the lines of a plot, because uPlot needs one list of places for all of them. Also returns each line's column.
function tableOfLines(lines) {
  const tables = lines.map((line) => (line.raw ? [...line.curve, line.raw[1]] : line.curve));
  const columns = [];
  tables.reduce((column, table) => (columns.push(column), column + table.length - 1), 1);
  const modes = tables.map((table) => table.slice(1).map(() => 2));
  return [columns, tables.length ? uPlot.join(tables, modes) : [[]]];
}
