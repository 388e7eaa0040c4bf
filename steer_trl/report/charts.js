// The curves: one uPlot per panel, all with one cursor. Colours are those of the style sheet, so a change of theme
// redraws.
"use strict";

function ranged([low, high], lines) {
  return (u, min, max) => {
    if (min === null) return [low ?? 0, high ?? 1];
    const [left, right] = [u.scales.x.min ?? -Infinity, u.scales.x.max ?? Infinity];
    const bars = lines.flatMap(barsOf).filter(([place]) => place >= left && place <= right);
    const ends = bars.flatMap(([, from_, to_]) => [from_, to_]);
    const from = Math.min(low ?? min, min, ...ends);
    const to = Math.max(high ?? max, max, ...ends);
    const margin = (to - from || Math.abs(to) || 1) * 0.06;
    return [low !== null && from >= low ? low : from - margin, high !== null && to <= high ? high : to + margin];
  };
}

// A scale of powers of ten, where nothing that is drawn is 0 or less.
const isLogarithmic = (panel, table) =>
  state.y === "log" && !panel.is_stacked && table.slice(1).flat().every((value) => !(value <= 0) || value === null);

// The intervals of a line's evaluations: place, lower end, upper end. No metric of an evaluation is below 0.
function barsOf({ interval, axis }) {
  if (!interval) return [];
  const [steps, means, halves] = interval;
  return steps.map((step, i) => [axis.placeOf(step), Math.max(0, means[i] - halves[i]), means[i] + halves[i]]);
}

// A value with its interval, where it is that of an evaluation.
function valueText({ interval }, value) {
  const close = (mean) => value !== null && Math.abs(mean - value) < 1e-5;
  const i = interval ? interval[1].findLastIndex(close) : -1;
  return i < 0 ? number(value) : `${number(value)} ±${number(interval[2][i], 2)}`;
}

function draw(holder, panel, key, onStep, onRead) {
  const lines = linesOf(panel, key);
  const [places, table] = placed(lines);
  const hidden = { spanGaps: true, points: { show: false } };
  const options = [{}];
  const bands = [];
  for (const line of lines) {
    const stroke = color(line.color);
    const fade = (share) => `color-mix(in srgb, ${stroke} ${share}%, transparent)`;
    options.push({
      stroke,
      width: line.aside ? 1.3 : 1.8,
      dash: line.dash,
      fill: line.stacked ? stroke : undefined,
      spanGaps: true,
      points: { show: line.curve[0].length < 30 && !line.aside, size: 5, fill: stroke },
    });
    if (line.curve.length === 4) {
      bands.push({ series: [options.length + 1, options.length], fill: fade(18) });
      options.push({ ...hidden, stroke: "transparent" }, { ...hidden, stroke: "transparent" });
    }
    if (line.raw) options.push({ ...hidden, stroke: fade(28), width: 1 });
  }
  const isLog = isLogarithmic(panel, table);
  const alarms = alarmsOf(lines);
  const looks = looksOf(lines);
  const axis = {
    stroke: css("--muted"),
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
    gap: 4,
  };
  const marked = (value) => (value === null ? "" : number(value));
  const plot = new uPlot(
    {
      width: Math.max(holder.clientWidth, 120),
      height: 210,
      padding: [12, 10, 0, 0],
      legend: { show: false },
      cursor: {
        dataIdx: nearestPoint,
        sync: { key: SYNC },
        drag: { x: true, y: false },
        points: { size: 7 },
        focus: { prox: 24 },
      },
      scales: {
        x: { time: false, range: () => axisRange() },
        y: isLog ? { distr: 3 } : { range: ranged(panel.within, lines) },
      },
      axes: [
        { ...axis, size: 28, space: 60, values: (_, splits) => splits.map(tickText) },
        { ...axis, size: 50, values: (_, splits) => splits.map(marked) },
      ],
      series: options,
      bands,
      hooks: {
        setCursor: [(u) => onRead(lines, places, u.cursor.idx === null || u.cursor.idx === undefined ? null : u, table)],
        draw: [(u) => marks(u, lines, alarms, looks)],
      },
    },
    table,
    holder,
  );
  let down = null;
  plot.over.addEventListener("mousedown", (event) => (down = event.clientX));
  plot.over.addEventListener("click", (event) => {
    if (down !== null && Math.abs(event.clientX - down) > 4) return; // a drag magnifies
    const box = plot.over.getBoundingClientRect();
    const line = focusedLine(plot, lines, places, event.clientX - box.left, event.clientY - box.top);
    onStep(Math.round(line.axis.stepAt(plot.posToVal(event.clientX - box.left, "x"))), line.runs[0]);
  });
  return plot;
}

// The line that is nearest to where one clicks.
function focusedLine(plot, lines, places, x, y) {
  let best = [Infinity, lines[0]];
  lines.forEach((line, i) => {
    const index = nearestPoint(plot, places[i], null, plot.posToVal(x, "x"));
    if (line.aside || index === null) return;
    const distance = Math.abs(plot.valToPos(plot.data[places[i]][index], "y") - y);
    if (distance < best[0]) best = [distance, line];
  });
  return best[1];
}

// Curves are thinned, and have their points at places of their own: the nearest point of a curve is what it says at a
// place. Before a curve begins and after it ends there is none.
function nearestPoint(u, series_, closest, place) {
  const places = u.data[0];
  const column = u.data[series_];
  if (series_ === 0) return closest;
  const has = (i) => column[i] !== null && column[i] !== undefined;
  const after = places.findIndex((x, i) => x >= place && has(i));
  let before = (after < 0 ? places.length : after) - 1;
  while (before >= 0 && !has(before)) before--;
  const slack = 0.015 * (u.scales.x.max - u.scales.x.min);
  if (after < 0) return before >= 0 && place - places[before] <= slack ? before : null;
  if (before < 0) return places[after] - place <= slack ? after : null;
  return places[after] - place < place - places[before] ? after : before;
}

// Alarms as lines with a flag, intervals of evaluations as bars, kept tokens as ticks on the ground.
function marks(u, lines, alarms, looks) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  const across = (place) => u.valToPos(place, "x", true);
  const path = (...points) => points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * ratio, bbox.top - 12 * ratio, bbox.width + 12 * ratio, bbox.height + 14 * ratio);
  ctx.clip();
  for (const alarm of alarms) {
    const x = across(alarm.place);
    ctx.strokeStyle = ctx.fillStyle = color(alarm.color);
    ctx.globalAlpha = 0.75;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    path([x, bbox.top], [x, bbox.top + bbox.height]);
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.beginPath();
    const top = bbox.top - 9 * ratio;
    path([x - 4.5 * ratio, top], [x + 4.5 * ratio, top], [x, bbox.top - ratio]);
    ctx.fill();
  }
  ctx.setLineDash([]);
  ctx.lineWidth = 1.2 * ratio;
  for (const line of lines)
    for (const [place, ...ends] of barsOf(line)) {
      const [x, cap] = [across(place), 3 * ratio];
      const [low, high] = ends.map((end) => u.valToPos(end, "y", true));
      ctx.strokeStyle = color(line.color);
      ctx.beginPath();
      path([x, low], [x, high]);
      for (const y of [low, high]) path([x - cap, y], [x + cap, y]);
      ctx.stroke();
    }
  ctx.fillStyle = css("--muted");
  ctx.globalAlpha = 0.8;
  const foot = bbox.top + bbox.height - 6 * ratio;
  for (const place of looks) ctx.fillRect(across(place) - 1.25 * ratio, foot, 2.5 * ratio, 6 * ratio);
  ctx.restore();
}

// A panel: title, what its lines are, the plot, and what it means.
function panelCard(panel, onStep) {
  const several = series().length > 1;
  const having = (line) => series().filter((one) => one.curve(keyOf(panel, one, line.key))).length;
  const present = panel.lines.filter(having);
  let key = present.reduce((most, line) => (having(line) > having(most) ? line : most), present[0])?.key;
  let options = several ? present.map((line) => [line.key, line.label]) : [];
  if (panel.is_stacked) {
    const has = ([i]) => present.some((line) => DATA.runs[i].curves[line.key]);
    options = DATA.runs.map((run, i) => [i, run.name]).filter(has);
    key = options[0][0];
  }
  const choose = (event) => ((key = panel.is_stacked ? Number(event.target.value) : event.target.value), redraw());
  const list = options.map(([value, label]) => element("option", { value, selected: value === key }, label));
  const named = options.length === 1 && options[0][1] !== panel.title.toLowerCase();
  const choice =
    options.length > 1
      ? element("select", { "aria-label": `What ${panel.title} shows`, onchange: choose }, ...list)
      : named
        ? element("span", { class: "only" }, options[0][1])
        : null;
  const legend = element("div", { class: "legend" });
  const holder = element("div", { class: "plot" });
  const card = element(
    "article",
    { class: "card panel" },
    element("header", {}, element("h3", {}, panel.title), element("span", { class: "unit" }, panel.unit)),
    element("div", { class: series().length > 3 || panel.is_stacked ? "row many" : "row" }, choice, legend),
    holder,
    element("p", { class: "sees" }, panel.sees),
    panel.healthy ? element("p", { class: "healthy" }, element("b", {}, "Healthy: "), panel.healthy) : null,
  );
  let plot = null;
  function read(lines, places, u, table) {
    const place = u && u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null;
    const at = (line, i) => {
      if (place === null) return line.end;
      const index = nearestPoint(u, places[i], null, place);
      return index === null ? null : (line.own ?? table[places[i]])[index];
    };
    const told = lines.map((line, i) => [line, at(line, i)]).filter(([line]) => !line.aside || !several);
    if (panel.is_stacked) told.reverse();
    const item = ([line, value]) =>
      element(
        "span",
        { class: "line" },
        element("i", { class: line.dash ? "swatch dashed" : "swatch", style: `--swatch: ${styleOf(line.color)}` }),
        element("span", {}, line.label),
        element("b", {}, valueText(line, value)),
      );
    const where = element("span", { class: "at" }, place === null ? "at the end" : placeText(place));
    legend.replaceChildren(...told.map(item), where);
  }
  function redraw() {
    plot?.destroy();
    plot = draw(holder, panel, key, onStep, read);
    read(linesOf(panel, key), [], null, []);
  }
  const resize = () => plot && holder.clientWidth && plot.setSize({ width: holder.clientWidth, height: 210 });
  charts.push({ redraw, resize });
  return card;
}
