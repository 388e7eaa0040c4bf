// The curves: one uPlot per panel, all with one cursor. Colours are those of the style sheet, so a change of theme redraws.
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
  made.append(...children.filter((child) => child !== null && child !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return made;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1).replace("-", "−");
  const text = size >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(size >= 100 ? 4 : digits));
  return text.replace("-", "−");
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
      lines.push({ label: several ? one.name : line.label, color: several ? one.color : k, curve: smooth, raw, run: one.runs[0] });
      for (const target of first ? panel.targets ?? [] : [])
        if (one.curve(target)) lines.push({ label: "target", color: several ? one.color : k, curve: one.curve(target).slice(0, 2), dash: [6, 4], aside: true });
      if (panel.has_start && first && !several)
        lines.push({ label: "start", color: k, curve: [[curve[0][0], curve[0].at(-1)], [curve[1][0], curve[1][0]]], dash: [2, 3], aside: true });
    }
  });
  return lines;
}

// The mean of the points up to each, over a share of the curve: noise of single steps hides what a run does.
function smoothed(curve) {
  const window = Math.max(1, Math.round((curve[0].length * [0, 0.04, 0.15][state.smooth])));
  if (window === 1) return curve;
  const mean = (column) => {
    let sum = 0;
    return column.map((value, i) => {
      sum += value - (i >= window ? column[i - window] : 0);
      return sum / Math.min(window, i + 1);
    });
  };
  return [curve[0], ...curve.slice(1).map(mean)];
}

// uPlot wants one list of steps for all lines of a plot.
function placed(lines) {
  const tables = lines.map((line) => (line.raw ? [...line.curve, line.raw[1]] : line.curve));
  const places = [];
  tables.reduce((place, table) => (places.push(place), place + table.length - 1), 1);
  return [places, tables.length ? uPlot.join(tables, tables.map((table) => table.slice(1).map(() => 2))) : [[]]];
}

function ranged([low, high]) {
  return (_, min, max) => {
    if (min === null) return [low ?? 0, high ?? 1];
    let [from, to] = [Math.min(low ?? min, min), Math.max(high ?? max, max)];
    const margin = (to - from || Math.abs(to) || 1) * 0.06;
    return [low !== null && from >= low ? low : from - margin, high !== null && to <= high ? high : to + margin];
  };
}

function draw(holder, panel, key, onStep, onRead) {
  const lines = linesOf(panel, key);
  const [places, table] = placed(lines);
  const options = [{}];
  const bands = [];
  for (const line of lines) {
    const stroke = color(line.color);
    const few = line.curve[0].length < 30 && !line.aside;
    options.push({ label: line.label, stroke, width: line.aside ? 1.3 : 1.8, dash: line.dash, spanGaps: true, points: { show: few, size: 5, fill: stroke } });
    if (line.curve.length === 4) {
      bands.push({ series: [options.length + 1, options.length], fill: `color-mix(in srgb, ${stroke} 18%, transparent)` });
      for (let i = 0; i < 2; i++) options.push({ stroke: "transparent", spanGaps: true, points: { show: false } });
    }
    if (line.raw) options.push({ stroke: `color-mix(in srgb, ${stroke} 28%, transparent)`, width: 1, spanGaps: true, points: { show: false } });
  }
  const alarms = alarmSteps();
  const looks = lookSteps();
  const axis = { stroke: css("--muted"), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  let plot = null;
  const onCursor = (u) => onRead(lines, places, u.cursor.idx === null || u.cursor.idx === undefined ? null : u, table);
  plot = new uPlot(
    {
      width: Math.max(holder.clientWidth, 120),
      height: 210,
      padding: [12, 10, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: SYNC }, drag: { x: true, y: false }, points: { size: 7 }, focus: { prox: 24 } },
      scales: { x: { time: false, range: () => stepRange() }, y: { range: ranged(panel.within) } },
      axes: [
        { ...axis, size: 28, gap: 4, space: 60 },
        { ...axis, size: 50, gap: 4, values: (_, splits) => splits.map((value) => number(value)) },
      ],
      series: options,
      bands,
      hooks: { setCursor: [onCursor], draw: [(u) => marks(u, alarms, looks)] },
    },
    table,
    holder,
  );
  let down = null;
  plot.over.addEventListener("mousedown", (event) => (down = event.clientX));
  plot.over.addEventListener("click", (event) => {
    if (down !== null && Math.abs(event.clientX - down) > 4) return; // a drag magnifies
    const step = Math.round(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x"));
    onStep(step, focusedRun(plot, lines, places, event));
  });
  return plot;
}

// The run whose line is nearest to where one clicks.
function focusedRun(plot, lines, places, event) {
  const y = event.clientY - plot.over.getBoundingClientRect().top;
  const index = plot.posToIdx(event.clientX - plot.over.getBoundingClientRect().left);
  let best = [Infinity, null];
  lines.forEach((line, i) => {
    const value = nearest(plot.data[places[i]], index);
    if (line.aside || value === null) return;
    const distance = Math.abs(plot.valToPos(value, "y") - y);
    if (distance < best[0]) best = [distance, line.run];
  });
  return best[1];
}

function nearest(column, index) {
  for (let i = 0; i < column.length; i++)
    for (const place of [index - i, index + i]) if (column[place] !== null && column[place] !== undefined) return column[place];
  return null;
}

function visibleRuns() {
  return [...new Set(shown().flatMap((one) => one.runs))];
}

// All panels have one range of steps, so that what is above each other happened at once.
function stepRange() {
  const steps = shown().flatMap((one) => DATA.keys.flatMap((key) => { const curve = one.curve(key); return curve && curve[0].length ? [curve[0][0], curve[0].at(-1)] : []; }));
  const [from, to] = [Math.min(...steps), Math.max(...steps)];
  return to > from ? [from, to] : [from - 1, from + 1];
}

function alarmSteps() {
  return visibleRuns().flatMap((i) => DATA.runs[i].alarms.map((alarm) => alarm.step));
}

function lookSteps() {
  return [...new Set(visibleRuns().flatMap((i) => DATA.runs[i].looks.map((look) => look.step)))];
}

// Alarms as lines with a flag, kept tokens as ticks on the ground.
function marks(u, alarms, looks) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * ratio, bbox.top - 12 * ratio, bbox.width + 12 * ratio, bbox.height + 14 * ratio);
  ctx.clip();
  for (const step of new Set(alarms)) {
    const x = u.valToPos(step, "x", true);
    ctx.strokeStyle = ctx.fillStyle = css("--alarm");
    ctx.globalAlpha = 0.75;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.beginPath();
    ctx.moveTo(x - 4.5 * ratio, bbox.top - 9 * ratio);
    ctx.lineTo(x + 4.5 * ratio, bbox.top - 9 * ratio);
    ctx.lineTo(x, bbox.top - 1 * ratio);
    ctx.fill();
  }
  ctx.fillStyle = css("--muted");
  ctx.globalAlpha = 0.8;
  for (const step of looks) ctx.fillRect(u.valToPos(step, "x", true) - 1.25 * ratio, bbox.top + bbox.height - 6 * ratio, 2.5 * ratio, 6 * ratio);
  ctx.restore();
}

// A panel: title, what its lines are, the plot, and what it means.
function panelCard(panel, onStep) {
  const several = series().length > 1;
  const having = (line) => series().filter((one) => one.curve(line.key)).length;
  const present = panel.lines.filter(having);
  let key = present.reduce((best, line) => (having(line) > having(best) ? line : best), present[0])?.key;
  const legend = element("div", { class: "legend" });
  const holder = element("div", { class: "plot" });
  const choice =
    several && present.length > 1
      ? element("select", { "aria-label": `What ${panel.title} shows`, onchange: (event) => ((key = event.target.value), redraw()) }, ...present.map((line) => element("option", { value: line.key, selected: line.key === key }, line.label)))
      : null;
  const only = several && present.length === 1 && present[0].label !== panel.title.toLowerCase() ? element("span", { class: "only" }, present[0].label) : null;
  const card = element(
    "article",
    { class: "card panel" },
    element("header", {}, element("h3", {}, panel.title), element("span", { class: "unit" }, panel.unit)),
    element("div", { class: series().length > 3 ? "row many" : "row" }, choice ?? only, legend),
    holder,
    element("p", { class: "sees" }, panel.sees),
    panel.healthy ? element("p", { class: "healthy" }, element("b", {}, "Healthy: "), panel.healthy) : null,
  );
  let plot = null;
  function read(lines, places, u, table) {
    const index = u ? u.cursor.idx : null;
    legend.replaceChildren(
      ...lines
        .map((line, i) => [line, table[places[i]]])
        .filter(([line]) => !line.aside || !several)
        .map(([line, column]) => {
          const value = index === null ? column.findLast((x) => x !== null && x !== undefined) : column[index];
          return element("span", { class: "line" }, element("i", { class: line.dash ? "swatch dashed" : "swatch", style: `--swatch: var(--c${line.color % 8})` }), line.label, element("b", {}, number(value)));
        }),
      element("span", { class: "at" }, index === null ? "" : `step ${table[0][index]}`),
    );
  }
  function redraw() {
    plot?.destroy();
    plot = draw(holder, panel, key, onStep, read);
    const lines = linesOf(panel, key);
    const [places, table] = placed(lines);
    read(lines, places, null, table);
  }
  charts.push({ redraw, resize: () => plot && holder.clientWidth && plot.setSize({ width: holder.clientWidth, height: 210 }) });
  return card;
}
