// Sweeps over temperatures: accuracy of one try against pass@k, with a curve for each run and a point for each
// temperature.
"use strict";

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// Maps values to places on the axis, with marks at round numbers.
function scaleOf(values, from, to, count) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low || 10) * 0.08;
  const [start, end] = [low - margin, high + margin];
  const rough = (end - start) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const increment = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const marks = [];
  for (let mark = Math.ceil(start / increment) * increment; mark <= end; mark += increment) marks.push(mark);
  const place = (value) => from + ((value - start) / (end - start)) * (to - from);
  return { place, marks, texts: markTexts(marks, increment) };
}

const shareAt = (point, k) => 100 * point.solved[k];

function frontierPicture({ curves, tries }, width) {
  const [height, left, right, top, bottom] = [Math.round(Math.min(440, Math.max(280, width * 0.4))), 48, 24, 28, 44];
  const most = tries.at(-1);
  const points = curves.flatMap((curve) => curve.points);
  const x = scaleOf(points.map((one) => shareAt(one, 1)), left, width - right, width / 110);
  const y = scaleOf(points.map((one) => shareAt(one, most)), height - bottom, top, height / 60);
  const text = (words, attributes) => drawn("text", attributes, words);
  const line = (x1, y1, x2, y2) => drawn("line", { x1, y1, x2, y2 });
  const taken = points.map((one) => [x.place(shareAt(one, 1)) - 5, y.place(shareAt(one, most)) - 5, 10, 10]);
  const isFree = ([left_, top_, wide, high]) =>
    taken.every(([l, t, w, h]) => left_ + wide <= l || l + w <= left_ || top_ + high <= t || t + h <= top_);
  // A temperature stands beside its point, at the first free one of eight places, or is left out.
  const labelOf = (point) => {
    const words = String(point.temperature);
    const [px, py] = [x.place(shareAt(point, 1)), y.place(shareAt(point, most))];
    const [w, h] = [7 * words.length, 14];
    const places = [[8, -16], [8, 4], [-8 - w, -16], [-8 - w, 4], [-w / 2, -22], [-w / 2, 9], [9, -6], [-9 - w, -6]];
    const box = places.map(([dx, dy]) => [px + dx, py + dy, w, h]).find(isFree);
    if (!box) return [];
    taken.push(box);
    return [text(words, { x: box[0], y: box[1] + 11 })];
  };
  const lines = curves.map(({ run, points: own }) => {
    const at = own.map((one) => [x.place(shareAt(one, 1)), y.place(shareAt(one, most))]);
    const dots = at.map(([cx, cy]) => drawn("circle", { cx, cy, r: 4 }));
    const curve = drawn("polyline", { points: at.map((one) => one.join()).join(" ") });
    return drawn("g", { style: `--own: ${styleOf(run)}` }, curve, ...dots, ...own.flatMap(labelOf));
  });
  return drawn(
    "svg",
    { class: "frontier", width, height, role: "img", "aria-label": `one try against pass@${most}` },
    ...x.marks.map((mark) => line(x.place(mark), top, x.place(mark), height - bottom)),
    ...y.marks.map((mark) => line(left, y.place(mark), width - right, y.place(mark))),
    ...x.marks.map((mark, i) => text(x.texts[i], { x: x.place(mark), y: height - bottom + 16, "text-anchor": "middle" })),
    ...y.marks.map((mark, i) => text(y.texts[i], { x: left - 8, y: y.place(mark) + 4, "text-anchor": "end" })),
    text("solved in one try, %", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }),
    text(`solved in ${most} tries, %`, { x: 4, y: 14 }),
    ...lines,
  );
}

// The best temperature and the share solved at it, with a row for each number of tries and a column for each run.
function bestTable({ curves, tries }) {
  const heads = ["", ...curves.map(({ run }) => nameOf(RUNS[run]))];
  const rows = tries.map((k) => {
    const cells = curves.map(({ points }) => {
      const best_ = points.reduce((a, b) => (shareAt(b, k) > shareAt(a, k) ? b : a));
      return `${shareAt(best_, k).toFixed(1)} % at ${best_.temperature}`;
    });
    return rowOf(k === 1 ? "1 try" : `${k} tries`, cells);
  });
  return tableOf(heads, [rows], { class: "compared" });
}

// Why a run is not drawn with the others, or not at all.
function apartNote({ curves, apart }) {
  if (!apart) return null;
  const where = curves.length ? ` together with ${RUNS[apart.run].name}` : "";
  return notes([`Not drawn${where}: ${apart.why}`]);
}

function frontierCard(picture) {
  const { name, benchmark, curves, apart } = picture;
  const head = element("h3", {}, benchmark, element("span", { class: "unit" }, ` ${name}`));
  if (!curves.length) return element("article", { class: "card" }, head, nameOf(RUNS[apart.run]), apartNote(picture));
  const holder = element("div", { class: "frontier-plot" });
  const redraw = () => holder.replaceChildren(frontierPicture(picture, Math.max(holder.clientWidth, 260)));
  charts.push({ redraw, resize: redraw });
  const legend = element("p", { class: "names" }, curves.map(({ run }) => nameOf(RUNS[run])));
  return element("article", { class: "card" }, head, legend, holder, bestTable(picture), apartNote(picture));
}

function frontierSection() {
  if (!DATA.frontiers.length) return null;
  const about =
    "At a higher temperature, a model is less accurate and its tries differ more. Each point is a temperature. The table " +
    "shows the one that solves most in k tries. It is chosen on these problems, so the numbers are a little too high.";
  const cards = DATA.frontiers.map(frontierCard);
  const parts = [element("h2", {}, "Temperatures"), element("p", { class: "sees" }, about), cards];
  return element("section", { id: "frontier", "data-nav": "Temperatures" }, parts);
}
