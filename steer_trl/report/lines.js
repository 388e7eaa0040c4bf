// What is drawn: the runs as the page's data, the lines of a panel, and their smoothing.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const SYNC = "steps";
const state = {
  hidden: new Set(),
  together: DATA.groups.some((group) => group.runs.length > 1),
  smooth: 1,
  over: "steps",
  baselines: {},
};
const charts = [];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(
    ...children
      .filter((child) => child !== null && child !== undefined)
      .map((c) => (c instanceof Node ? c : String(c))),
  );
  return made;
}

// Buttons of which one is pressed. A keyboard's place in them is found again by their ids, however often they are made.
function segments(label, id, names, pressed, choose, isOut = () => false) {
  return element(
    "div",
    { class: `segments ${id}`, role: "group", "aria-label": label },
    ...names.map((name) =>
      element(
        "button",
        {
          type: "button",
          id: `${id}-${name.replaceAll(" ", "-")}`,
          "aria-pressed": String(name === pressed),
          disabled: isOut(name),
          onclick: () => choose(name),
        },
        name,
      ),
    ),
  );
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
  if (state.together) {
    return DATA.groups.map((group, i) => ({
      name: group.runs.length > 1 ? `${group.name} (${group.runs.length} seeds)` : DATA.runs[group.runs[0]].name,
      color: i,
      runs: group.runs,
      axes: group.runs.length > 1 ? group.axes : DATA.runs[group.runs[0]].axes,
      curve: (key) => (group.runs.length > 1 ? group.curves[key] : DATA.runs[group.runs[0]].curves[key]),
    }));
  }
  return DATA.runs.map((run, i) => ({
    name: run.name,
    color: i,
    runs: [i],
    axes: run.axes,
    curve: (key) => run.curves[key],
  }));
}

function shown() {
  return series().filter((one) => !state.hidden.has(one.name));
}

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
  const compared = shown();
  const lines = [];
  const several = series().length > 1;
  const keys = several ? panel.lines.filter((line) => line.key === key) : panel.lines;
  keys.forEach((line, k) => {
    for (const one of compared) {
      const own = several ? keyOf(panel, one, line.key) : line.key;
      const curve = one.curve(own);
      if (!curve || !curve[0].length) continue;
      const first = k === 0;
      const axis = axisOf(one);
      const smooth = smoothed(curve);
      const raw = smooth !== curve && curve.length === 2 ? curve : null;
      const instead = panel.lines.find((other) => other.key === own && own !== line.key);
      lines.push({
        label: several ? one.name + (instead ? `, ${instead.label}` : "") : line.label,
        color: several ? one.color : k,
        curve: smooth,
        raw,
        interval: one.runs.length === 1 ? DATA.runs[one.runs[0]].intervals[own] : undefined,
        axis,
        runs: one.runs,
        end: endOf(one, own),
      });
      for (const target of first ? (panel.targets ?? []) : [])
        if (one.curve(target))
          lines.push({
            label: "target",
            color: several ? one.color : k,
            curve: one.curve(target).slice(0, 2),
            dash: [6, 4],
            aside: true,
            axis,
            runs: one.runs,
            end: endOf(one, target),
          });
      if (panel.has_start && first && !several)
        lines.push({
          label: "start",
          color: k,
          curve: [
            [curve[0][0], curve[0].at(-1)],
            [startOf(one, own), startOf(one, own)],
          ],
          dash: [2, 3],
          aside: true,
          axis,
          runs: one.runs,
          end: startOf(one, own),
        });
    }
  });
  return lines;
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
  let sum = null;
  return keys
    .map((line, k) => {
      const [steps, own] = smoothed(run.curves[line.key]);
      sum = own.map((value, i) => value + (sum?.[i] ?? 0));
      const end = run.ends[line.key][1];
      const color_ = toneOf(k, keys.length);
      return {
        ...line,
        color: color_,
        curve: [steps, sum],
        own,
        stacked: true,
        axis: axisOf(run),
        runs: [place],
        end,
      };
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
  return [
    places,
    tables.length
      ? uPlot.join(
          tables,
          tables.map((table) => table.slice(1).map(() => 2)),
        )
      : [[]],
  ];
}

function visibleRuns() {
  return [...new Set(shown().flatMap((one) => one.runs))];
}

// All panels have one range, so that what is above each other happened at once.
function axisRange() {
  const places = shown().flatMap((one) => {
    const { placeOf } = axisOf(one);
    return DATA.keys.flatMap((key) => {
      const curve = one.curve(key);
      return curve && curve[0].length ? [placeOf(curve[0][0]), placeOf(curve[0].at(-1))] : [];
    });
  });
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
        const own = several ? series().find((one) => one.runs.includes(i)).color : "var(--alarm)";
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
