// What is drawn: the runs as the page's data, the lines of a panel, and their smoothing.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const SYNC = "steps";
const state = {
  hidden: new Set(),
  together: DATA.groups.some((group) => group.runs.length > 1),
  smooth: 1,
  over: "steps",
  y: "linear",
};
const charts = [];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  const given = children.filter((child) => child !== null && child !== undefined);
  made.append(...given.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

const notes = (texts) => texts.filter(Boolean).map((text) => element("p", { class: "note" }, text));

// Buttons of which one is pressed. A keyboard's place in them is found again by their ids, however often they are made.
function segments(label, id, names, pressed, choose) {
  const button = (name) => {
    const attributes = { type: "button", id: `${id}-${name.replaceAll(" ", "-")}`, onclick: () => choose(name) };
    return element("button", { ...attributes, "aria-pressed": String(name === pressed) }, name);
  };
  return element("div", { class: `segments ${id}`, role: "group", "aria-label": label }, ...names.map(button));
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1).replaceAll("-", "−");
  const text =
    size >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(size >= 100 ? 4 : digits));
  return text.replaceAll("-", "−");
}

// What is compared: runs, or groups of runs that differ in their seed only. Each has a colour of its own.
function series() {
  const all = state.together ? DATA.groups : DATA.runs.map((run, i) => ({ name: run.name, runs: [i] }));
  const axes = state.together ? DATA.axes.groups : DATA.axes.runs;
  return all.map(({ name, runs, curves }, color) => ({
    name,
    color,
    runs,
    axis: axisOf(axes[color]),
    curve: (key) => (curves ?? DATA.runs[runs[0]].curves)[key],
  }));
}

const shown = () => series().filter((one) => !state.hidden.has(one.name));
const ownerOf = (run) => series().find((one) => one.runs.includes(run));

// Where the steps of a run, or of seeds together, lie on the axis, and which step is at a place.
function axisOf(tokens) {
  if (state.over === "steps") return { placeOf: (step) => step, stepAt: (place) => place };
  const [steps, places] = tokens;
  return { placeOf: (step) => between(steps, places, step), stepAt: (place) => between(places, steps, place) };
}

// On the straight line between two neighbours; beyond the ends, on that of the last two. `from` never falls.
function between(from, to, value) {
  let [low, high] = [0, from.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    from[middle] < value ? (low = middle) : (high = middle);
  }
  const width = from[high] - from[low];
  return width ? to[low] + ((value - from[low]) * (to[high] - to[low])) / width : to[high];
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const tickText = (place) => (state.over === "steps" ? place.toLocaleString("en") : compact.format(place));
const placeText = (place) =>
  state.over === "steps" ? `step ${Math.round(place).toLocaleString("en")}` : `${compact.format(place)} tokens`;

// A colour of the style sheet, by its number, or as CSS writes it; for the canvas the names in it are looked up.
const styleOf = (own) => (typeof own === "string" ? own : `var(--c${own % 8})`);
const color = (own) => styleOf(own).replace(/var\((--[\w-]+)\)/g, (_, name) => css(name));

// The lines of a panel, their points where they lie on the axis.
function linesOf(panel, key) {
  const lines = panel.is_stacked ? stackOf(panel, key) : keysOf(panel, key);
  return lines.map((line) => {
    const [steps, ...values] = line.curve;
    return { ...line, curve: [steps.map(line.axis.placeOf), ...values] };
  });
}

// All keys of a panel of a single run, or one key of several.
function keysOf(panel, key) {
  const several = series().length > 1;
  const keys = several ? panel.lines.filter((line) => line.key === key) : panel.lines;
  return keys.flatMap((line, k) =>
    shown().flatMap((one) => {
      const own = several ? keyOf(panel, one, line.key) : line.key;
      const curve = one.curve(own);
      if (!curve || !curve[0].length) return [];
      const instead = panel.lines.find((other) => other.key === own && own !== line.key);
      const about = { color: several ? one.color : k, axis: one.axis, runs: one.runs };
      const smooth = smoothed(curve);
      const lines = [
        {
          ...about,
          label: several ? one.name + (instead ? `, ${instead.label}` : "") : line.label,
          curve: smooth,
          raw: smooth !== curve && curve.length === 2 ? curve : null,
          interval: one.runs.length === 1 ? DATA.runs[one.runs[0]].intervals[own] : undefined,
          end: endOf(one, own),
        },
      ];
      const aside = (label, curve_, dash, end) => lines.push({ ...about, label, curve: curve_, dash, end, aside: true });
      if (k === 0)
        for (const target of panel.targets ?? [])
          if (one.curve(target)) aside("target", one.curve(target).slice(0, 2), [6, 4], endOf(one, target));
      const start = startOf(one, own);
      if (panel.has_start && k === 0 && !several)
        aside("start", [[curve[0][0], curve[0].at(-1)], [start, start]], [2, 3], start);
      return lines;
    }),
  );
}

// The key that a panel shows of a run: another one where the run has not what the others have.
function keyOf(panel, one, key) {
  return one.curve(key) ? key : (panel.instead?.[key] ?? key);
}

// Where a curve begins and ends, as the cards have it: the mean of its last entries, and of the seeds.
const startOf = (one, key) => meanOf(one.runs.map((i) => DATA.runs[i].ends[key]?.[0]));
const endOf = (one, key) => meanOf(one.runs.map((i) => DATA.runs[i].ends[key]?.[1]));

function meanOf(numbers) {
  const known = numbers.filter((value) => value !== undefined);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

// Parts of a whole, of one run: each line is the sum of the parts so far, the largest first.
function stackOf(panel, place) {
  const run = DATA.runs[place];
  const keys = panel.lines.filter((line) => run?.curves[line.key]);
  const axis = axisOf(DATA.axes.runs[place]);
  let sum = null;
  return keys
    .map((line, k) => {
      const [steps, own] = smoothed(run.curves[line.key]);
      sum = own.map((value, i) => value + (sum?.[i] ?? 0));
      const about = { curve: [steps, sum], own, stacked: true, axis, runs: [place] };
      return { ...line, ...about, color: toneOf(k, keys.length), end: run.ends[line.key][1] };
    })
    .reverse();
}

// From cold over neutral to warm.
function toneOf(k, count) {
  const place = count > 1 ? (2 * k) / (count - 1) - 1 : 0;
  if (place === 0) return "var(--line)";
  const share = Math.round(20 + 75 * Math.abs(place));
  return `color-mix(in srgb, var(${place < 0 ? "--cold" : "--warm"}) ${share}%, var(--card))`;
}

// The mean of the points up to each, over a share of the curve: noise of single steps hides what a run does.
function smoothed(curve) {
  const window = Math.max(1, Math.round(curve[0].length * [0, 0.04, 0.15][state.smooth]));
  if (window === 1) return curve;
  const mean = (column) =>
    column.map((_, i) => {
      const part = column.slice(Math.max(0, i - window + 1), i + 1);
      return part.reduce((a, b) => a + b, 0) / part.length;
    });
  return [curve[0], ...curve.slice(1).map(mean)];
}

// uPlot wants one list of steps for all lines of a plot.
function placed(lines) {
  const tables = lines.map((line) => (line.raw ? [...line.curve, line.raw[1]] : line.curve));
  const places = [];
  tables.reduce((place, table) => (places.push(place), place + table.length - 1), 1);
  const modes = tables.map((table) => table.slice(1).map(() => 2));
  return [places, tables.length ? uPlot.join(tables, modes) : [[]]];
}

// All panels have one range, so that what is above each other happened at once.
function axisRange() {
  const places = shown().flatMap((one) =>
    DATA.keys.flatMap((key) => {
      const curve = one.curve(key);
      return curve && curve[0].length ? [curve[0][0], curve[0].at(-1)].map(one.axis.placeOf) : [];
    }),
  );
  const [from, to] = [Math.min(...places), Math.max(...places)];
  return to > from ? [from, to] : [from - 1, from + 1];
}

// The alarms of the runs that have a line, each in the colour of its run and where its line has that step.
function alarmsOf(lines) {
  const several = series().length > 1;
  const found = new Map();
  for (const line of lines)
    for (const i of line.runs)
      for (const { step } of DATA.runs[i].alarms) {
        const own = several ? ownerOf(i).color : "var(--alarm)";
        const place = line.axis.placeOf(step);
        found.set(`${place} ${own}`, { place, color: own });
      }
  return [...found.values()];
}

// Where the runs that have a line have kept tokens.
function looksOf(lines) {
  const places = lines.flatMap((line) =>
    line.runs.flatMap((i) => DATA.runs[i].looks.map((look) => line.axis.placeOf(look.step))),
  );
  return [...new Set(places)];
}
