// The curves: one uPlot per panel, with one cursor for all. A change of theme redraws them, because their colours come
// from the style sheet.
"use strict";

const charts = [];

// The vertical range. An axis begins at `low`, often 0, only if the curves come near it, so that small changes show.
function ranged([low, high], lines) {
  return (u, min, max) => {
    if (min === null) return [low ?? 0, high ?? 1];
    const [left, right] = [u.scales.x.min ?? -Infinity, u.scales.x.max ?? Infinity];
    const bars = lines.flatMap(barsOf).filter(([place]) => place >= left && place <= right);
    const values = [min, max, ...bars.flatMap(([, from_, to_]) => [from_, to_])];
    const isNear = high !== null || Math.min(...values) < 0.5 * Math.max(...values);
    if (low !== null && isNear) values.push(low);
    if (high !== null) values.push(high);
    const [from, to] = [Math.min(...values), Math.max(...values)];
    const margin = (to - from || Math.abs(to) || 1) * 0.08;
    return [from === low ? low : from - margin, to === high ? high : to + margin];
  };
}

// The labels of an axis's ticks, with enough decimals to tell neighbours apart.
function markTexts(values, increment) {
  if (increment < 1e-4) {
    const digits = Math.ceil(Math.log10(Math.max(...values.map(Math.abs)) / increment));
    return values.map((value) => (value ? value.toExponential(Math.max(0, digits)) : "0"));
  }
  const digits = Math.max(0, -Math.floor(Math.log10(increment) + 1e-9));
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return values.map((value) => value.toLocaleString("en", options).replace("-", "−"));
}

// The 95 % intervals of a line's evaluations: place, lower end (at least 0, as for every metric), upper end.
function barsOf({ interval, run }) {
  return (interval ?? []).map(([step, middle, half]) => [
    placeOf(run, step),
    Math.max(0, middle - half),
    middle + half,
  ]);
}

// A value, with its interval if it is the result of an evaluation.
function valueText({ interval }, value) {
  const found = interval?.findLast(([, middle]) => value !== null && Math.abs(middle - value) < 1e-5);
  return found ? `${number(value)} ±${number(found[2], 2)}` : number(value);
}

function draw(holder, panel, key, height, onStep, onRead) {
  const lines = linesOf(panel, key);
  const [columns, table] = tableOfLines(lines);
  const options = [{}];
  for (const line of lines) {
    const stroke = color(line.color);
    options.push({
      stroke,
      width: line.aside ? 1.5 : 1.8,
      dash: line.dash,
      fill: line.stacked ? stroke : undefined,
      spanGaps: true,
      points: { show: line.curve[0].length < 30 && !line.aside, size: 5, fill: stroke },
    });
    const pale = `color-mix(in srgb, ${stroke} 28%, transparent)`;
    if (line.raw) options.push({ spanGaps: true, points: { show: false }, stroke: pale, width: 1 });
  }
  const axis = {
    stroke: css("--muted"),
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
    gap: 4,
  };
  const plot = new uPlot(
    {
      width: Math.max(holder.clientWidth, 120),
      height,
      padding: [12, 10, 0, 0],
      legend: { show: false },
      cursor: {
        dataIdx: nearestPoint,
        sync: { key: "all" },
        drag: { x: true, y: false },
        points: { size: 7 },
        focus: { prox: 24 },
      },
      scales: { x: { time: false, range: axisRange }, y: { range: ranged(panel.within, lines) } },
      axes: [
        { ...axis, size: 28, space: 60, values: (_, splits) => splits.map(tickText) },
        { ...axis, size: 54, values: (_, splits, __, ___, increment) => markTexts(splits, increment) },
      ],
      series: options,
      hooks: {
        setCursor: [(u) => onRead(lines, columns, u.cursor.idx === null || u.cursor.idx === undefined ? null : u, table)],
        draw: [(u) => drawMarks(u, lines)],
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
    const { run } = nearestLine(plot, lines, columns, event.clientX - box.left, event.clientY - box.top);
    onStep(Math.round(stepAt(run, plot.posToVal(event.clientX - box.left, "x"))), run.index);
  });
  return plot;
}

function nearestLine(plot, lines, columns, x, y) {
  let best = [Infinity, lines[0]];
  lines.forEach((line, i) => {
    const index = nearestPoint(plot, columns[i], null, plot.posToVal(x, "x"));
    if (line.aside || index === null) return;
    const distance_ = Math.abs(plot.valToPos(plot.data[columns[i]][index], "y") - y);
    if (distance_ < best[0]) best = [distance_, line];
  });
  return best[1];
}

// The curve's point nearest to a place, because thinned curves have their points at different places. There is none
// before the curve begins or after it ends.
function nearestPoint(u, column, closest, place) {
  const places = u.data[0];
  const values = u.data[column];
  if (column === 0) return closest;
  const has = (i) => values[i] !== null && values[i] !== undefined;
  const after = places.findIndex((x, i) => x >= place && has(i));
  let before = (after < 0 ? places.length : after) - 1;
  while (before >= 0 && !has(before)) before--;
  const slack = 0.015 * (u.scales.x.max - u.scales.x.min);
  if (after < 0) return before >= 0 && place - places[before] <= slack ? before : null;
  if (before < 0) return places[after] - place <= slack ? after : null;
  return places[after] - place < place - places[before] ? after : before;
}

// Draws alarms as lines with a flag, intervals of evaluations as bars, steps with tokens as ticks at the bottom, and
// the labels of dashed and dotted lines.
function drawMarks(u, lines) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  const across = (place) => u.valToPos(place, "x", true);
  const path = (...points) => points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  const runs = [...new Set(lines.map((line) => line.run))];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * ratio, bbox.top - 12 * ratio, bbox.width + 12 * ratio, bbox.height + 14 * ratio);
  ctx.clip();
  for (const run of runs)
    for (const { step } of run.alarms) {
      const x = across(placeOf(run, step));
      const top = bbox.top - 9 * ratio;
      ctx.strokeStyle = ctx.fillStyle = color(RUNS.length > 1 ? run.index : "var(--alarm)");
      ctx.globalAlpha = 0.75;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      path([x, bbox.top], [x, bbox.top + bbox.height]);
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath();
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
  ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  for (const { aside, color: own, curve } of lines.filter((line) => line.aside)) {
    ctx.fillStyle = color(own);
    const right = Math.min(across(curve[0].at(-1)), bbox.left + bbox.width) - 4 * ratio;
    ctx.fillText(aside, right, u.valToPos(curve[1].at(-1), "y", true) - 5 * ratio);
  }
  ctx.fillStyle = css("--muted");
  ctx.globalAlpha = 0.8;
  const foot = bbox.top + bbox.height - 6 * ratio;
  for (const run of runs)
    for (const { step } of run.token_steps) ctx.fillRect(across(placeOf(run, step)) - 1.25 * ratio, foot, 2.5 * ratio, 6 * ratio);
  ctx.restore();
}

// The phrase about a run's entropy, with a real minus sign.
const phraseOf = (run) => run.entropy?.phrase.replace("-", "−");

// A panel: its title, its legend, the plot, and how to read it. The first panel is larger, and its legend has the
// phrase about each run's entropy.
function panelCard(panel, onStep, isFirst = false) {
  const having = (one) => RUNS.filter((run) => run.curves[one.key]).length;
  const present = panel.keys.filter(having);
  let key = present.reduce((most, one) => (having(one) > having(most) ? one : most), present[0])?.key;
  let options = drawsOneKey(panel) ? present.map((one) => [one.key, one.label]) : [];
  if (panel.is_stacked) {
    options = RUNS.filter((run) => present.some((one) => run.curves[one.key])).map((run) => [run.index, run.name]);
    key = options[0][0];
  }
  const choose = (event) => ((key = panel.is_stacked ? Number(event.target.value) : event.target.value), redraw());
  const list = options.map(([value, label]) => element("option", { value, selected: value === key }, label));
  const isNamed = options.length === 1 && options[0][1] !== panel.title.toLowerCase() && !isFirst;
  const choice =
    options.length > 1
      ? element("select", { "aria-label": `What ${panel.title} shows`, onchange: choose }, list)
      : isNamed
        ? element("span", { class: "only" }, options[0][1])
        : null;
  const legend = element("div", { class: "legend" });
  const holder = element("div", { class: "plot" });
  const isLong = RUNS.length > 3 || panel.is_stacked || isFirst;
  const card = element(
    "article",
    { class: isFirst ? "card panel lead" : "card panel" },
    element("header", {}, element("h3", {}, panel.title), element("span", { class: "unit" }, panel.unit), isFirst ? choice : null),
    element("div", { class: isLong ? "row many" : "row" }, isFirst ? null : choice, legend),
    holder,
    element("p", { class: "sees" }, panel.sees),
    panel.healthy ? element("p", { class: "healthy" }, element("b", {}, "Healthy: "), panel.healthy) : null,
  );
  let plot = null;
  function read(lines, columns, u, table) {
    const place = u && u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null;
    const valueAt = (line, i) => {
      if (place === null) return line.end;
      const index = nearestPoint(u, columns[i], null, place);
      return index === null ? null : (line.own ?? table[columns[i]])[index];
    };
    const items = lines.flatMap((line, i) => {
      if (line.aside) return [];
      const phrase = isFirst && place === null && phraseOf(line.run);
      return element(
        "span",
        { class: "line" },
        element("i", { class: "swatch", style: `--swatch: ${styleOf(line.color)}` }),
        element("span", {}, breakable(line.label)),
        element("b", {}, phrase || valueText(line, valueAt(line, i))),
      );
    });
    if (panel.is_stacked) items.reverse();
    const where = place === null ? (isFirst ? "" : "at the end") : placeText(place);
    legend.replaceChildren(...items, element("span", { class: "at" }, where));
  }
  const height = () => (isFirst && innerWidth > 900 ? 300 : 210);
  function redraw() {
    plot?.destroy();
    plot = draw(holder, panel, key, height(), onStep, read);
    read(linesOf(panel, key), [], null, []);
  }
  const resize = () => plot && holder.clientWidth && plot.setSize({ width: holder.clientWidth, height: height() });
  charts.push({ redraw, resize });
  return card;
}
