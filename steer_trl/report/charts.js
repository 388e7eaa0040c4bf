// The curves: one uPlot per panel, all with one cursor. Colours are those of the style sheet, so a change of theme
// redraws.
"use strict";

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
    options.push({
      label: line.label,
      stroke,
      width: line.aside ? 1.3 : 1.8,
      dash: line.dash,
      spanGaps: true,
      points: { show: few, size: 5, fill: stroke },
    });
    if (line.curve.length === 4) {
      bands.push({
        series: [options.length + 1, options.length],
        fill: `color-mix(in srgb, ${stroke} 18%, transparent)`,
      });
      for (let i = 0; i < 2; i++) options.push({ stroke: "transparent", spanGaps: true, points: { show: false } });
    }
    if (line.raw)
      options.push({
        stroke: `color-mix(in srgb, ${stroke} 28%, transparent)`,
        width: 1,
        spanGaps: true,
        points: { show: false },
      });
  }
  const alarms = alarmSteps();
  const looks = lookSteps();
  const axis = {
    stroke: css("--muted"),
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
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
    for (const place of [index - i, index + i])
      if (column[place] !== null && column[place] !== undefined) return column[place];
  return null;
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
  for (const step of looks)
    ctx.fillRect(
      u.valToPos(step, "x", true) - 1.25 * ratio,
      bbox.top + bbox.height - 6 * ratio,
      2.5 * ratio,
      6 * ratio,
    );
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
      ? element(
          "select",
          { "aria-label": `What ${panel.title} shows`, onchange: (event) => ((key = event.target.value), redraw()) },
          ...present.map((line) => element("option", { value: line.key, selected: line.key === key }, line.label)),
        )
      : null;
  const only =
    several && present.length === 1 && present[0].label !== panel.title.toLowerCase()
      ? element("span", { class: "only" }, present[0].label)
      : null;
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
          return element(
            "span",
            { class: "line" },
            element("i", {
              class: line.dash ? "swatch dashed" : "swatch",
              style: `--swatch: var(--c${line.color % 8})`,
            }),
            line.label,
            element("b", {}, number(value)),
          );
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
  charts.push({
    redraw,
    resize: () => plot && holder.clientWidth && plot.setSize({ width: holder.clientWidth, height: 210 }),
  });
  return card;
}
