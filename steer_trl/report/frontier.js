// Sweeps over temperatures: accuracy of one try against pass@k, a curve a run, a point a temperature.
"use strict";

const SIZE = { width: 420, height: 270, left: 42, right: 34, top: 16, bottom: 38 };

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// From values, shares, to places on the axis, with three marks.
function placesOn(values, from, to) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low || 0.1) * 0.08;
  const place = (value) => from + ((value - low + margin) / (high - low + 2 * margin || 0.1)) * (to - from);
  return { place, marks: [low, (low + high) / 2, high] };
}

const share = (value) => (100 * value).toFixed(1);

function frontierPicture(curves) {
  const points = curves.flatMap((curve) => curve.points);
  const { width, height, left, right, top, bottom } = SIZE;
  const x = placesOn(points.map((point) => point[1]), left, width - right);
  const y = placesOn(points.map((point) => point[2]), height - bottom, top);
  const text = (words, attributes) => drawn("text", attributes, words);
  const pointOf = ([temperature, a, b]) => [
    drawn("circle", { cx: x.place(a), cy: y.place(b), r: 4 }),
    text(String(temperature), { x: x.place(a) + 6, y: y.place(b) - 6 }),
  ];
  const lines = curves.map(({ group, points: own }) => {
    const line = drawn("polyline", { points: own.map((one) => `${x.place(one[1])},${y.place(one[2])}`).join(" ") });
    return drawn("g", { style: `--own: ${styleOf(group)}` }, line, ...own.flatMap(pointOf));
  });
  return drawn(
    "svg",
    { class: "frontier", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "accuracy against pass@k" },
    ...x.marks.map((at) => text(share(at), { x: x.place(at), y: height - bottom + 16, "text-anchor": "middle" })),
    ...y.marks.map((at) => text(share(at), { x: left - 8, y: y.place(at) + 4, "text-anchor": "end" })),
    text("accuracy of one try, %", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }),
    text(`pass@${curves[0].k}, %`, { x: 4, y: 11 }),
    ...lines,
  );
}

// Which temperature serves k tries best, and pass@k there.
function bestTable(curves) {
  const heads = ["", ...curves[0].best.map(([k]) => (k === 1 ? "1 try" : `${k} tries`))];
  const rows = curves.map(({ group, best: own }) =>
    rowOf([dotOf(group), DATA.groups[group].name], own.map(([, at, value]) => `${at} (${share(value)} %)`)),
  );
  return tableOf(heads, [rows], { class: "compared" });
}

function frontierSection() {
  if (!DATA.frontiers.length) return null;
  const about =
    "Sampled hotter, a model is less accurate and its tries differ more. The table has the temperature at which k tries solve most; chosen on these problems, so pass@k there is a little too high.";
  const cards = DATA.frontiers.map(({ name, benchmark, curves }) => {
    const head = element("h3", {}, benchmark, element("span", { class: "unit" }, ` ${name}`));
    return element("article", { class: "card" }, head, frontierPicture(curves), bestTable(curves));
  });
  return element(
    "section",
    { id: "frontier" },
    element("h2", {}, "Temperatures"),
    element("p", { class: "sees" }, about),
    element("div", { class: "grid" }, ...cards),
  );
}
