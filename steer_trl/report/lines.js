// What is drawn: the runs as the page's data, the lines of a panel, and their smoothing.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const SYNC = "steps";
const state = { hidden: new Set(), together: DATA.groups.some((group) => group.runs.length > 1), smooth: 1 };
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
      curve: (key) => (group.runs.length > 1 ? group.curves[key] : DATA.runs[group.runs[0]].curves[key]),
    }));
  }
  return DATA.runs.map((run, i) => ({ name: run.name, color: i, runs: [i], curve: (key) => run.curves[key] }));
}

function shown() {
  return series().filter((one) => !state.hidden.has(one.name));
}

const color = (i) => css(`--c${i % 8}`);

// The lines of a panel: all its keys of a single run, or one key of several.
function linesOf(panel, key) {
  const compared = shown();
  const lines = [];
  const several = series().length > 1;
  const keys = several ? panel.lines.filter((line) => line.key === key) : panel.lines;
  keys.forEach((line, k) => {
    for (const one of compared) {
      const curve = one.curve(line.key);
      if (!curve || !curve[0].length) continue;
      const first = k === 0;
      const smooth = smoothed(curve);
      const raw = smooth !== curve && curve.length === 2 ? curve : null;
      lines.push({
        label: several ? one.name : line.label,
        color: several ? one.color : k,
        curve: smooth,
        raw,
        run: one.runs[0],
      });
      for (const target of first ? (panel.targets ?? []) : [])
        if (one.curve(target))
          lines.push({
            label: "target",
            color: several ? one.color : k,
            curve: one.curve(target).slice(0, 2),
            dash: [6, 4],
            aside: true,
          });
      if (panel.has_start && first && !several)
        lines.push({
          label: "start",
          color: k,
          curve: [
            [curve[0][0], curve[0].at(-1)],
            [curve[1][0], curve[1][0]],
          ],
          dash: [2, 3],
          aside: true,
        });
    }
  });
  return lines;
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

// All panels have one range of steps, so that what is above each other happened at once.
function stepRange() {
  const steps = shown().flatMap((one) =>
    DATA.keys.flatMap((key) => {
      const curve = one.curve(key);
      return curve && curve[0].length ? [curve[0][0], curve[0].at(-1)] : [];
    }),
  );
  const [from, to] = [Math.min(...steps), Math.max(...steps)];
  return to > from ? [from, to] : [from - 1, from + 1];
}

function alarmSteps() {
  return visibleRuns().flatMap((i) => DATA.runs[i].alarms.map((alarm) => alarm.step));
}

function lookSteps() {
  return [...new Set(visibleRuns().flatMap((i) => DATA.runs[i].looks.map((look) => look.step)))];
}
