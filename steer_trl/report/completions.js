// A completion as a card: its coloured tokens, and the numbers of the token under the pointer.
"use strict";

const COLOURS = {
  weight: {
    label: "Weight",
    middle: 1,
    low: "damped",
    high: "amplified",
    about: "The factor on the token's advantage, on a scale of ratios; 1, plain GRPO, has no colour.",
  },
  surprisal: {
    label: "Surprisal",
    middle: null,
    low: "expected",
    high: "surprising",
    about: "How unlikely the token was, in nats: 0.1 is nine times in ten, 2.3 once in ten.",
  },
  entropy: {
    label: "Entropy",
    middle: null,
    low: "no choice",
    high: "undecided",
    about: "How undecided the model was before this token, in nats.",
  },
  advantage: {
    label: "Advantage",
    middle: 0,
    low: "becomes less likely",
    high: "becomes more likely",
    about: "The advantage of the token in the loss, after the method.",
  },
  change: {
    label: "Entropy change",
    middle: 0,
    low: "lowers the entropy",
    high: "raises the entropy",
    about: "The change of the entropy by the update of this token, to first order, in nats per unit of step size.",
  },
};

// The distance of a value from the value that has no colour. For a weight, it is the logarithm of its ratio to 1.
const distance = (value, by) =>
  by === "weight" ? Math.log(Math.max(value, 0.001)) : value - (COLOURS[by].middle ?? 0);

// The distance at which colours are strongest: the largest one for weights, otherwise the 98th percentile, so that one
// odd token does not make all others pale.
function fullColour(completions, by) {
  const values = completions.flatMap((one) => one[by] ?? []).filter((x) => x !== null);
  const sizes = values.map((x) => Math.abs(distance(x, by))).filter((x) => x > 0);
  sizes.sort((a, b) => a - b);
  return sizes.length ? sizes[Math.floor((by === "weight" ? 1 : 0.98) * (sizes.length - 1))] : null;
}

function shade(value, by, full) {
  if (value === null || value === undefined || full === null) return null;
  const part = Math.max(-1, Math.min(1, distance(value, by) / full));
  const strength = Math.round(100 * Math.abs(part) * 0.62);
  if (strength === 0) return null;
  const hue = COLOURS[by].middle === null ? "--heat" : part < 0 ? "--cold" : "--warm";
  return `color-mix(in srgb, var(${hue}) ${strength}%, transparent)`;
}

function legendBar(by, full, estimated) {
  const { middle, low, high, about } = COLOURS[by];
  const note = (text) => element("p", {}, text + (estimated ? " Estimated from the sampled token alone, as in STEER." : ""));
  if (full === null)
    return element("div", { class: "scale" }, note(`${about} Here it is ${number(middle ?? 0)} for every token.`));
  const tone = (hue) => `color-mix(in srgb, var(${hue}) 62%, transparent)`;
  const tones = middle === null ? ["transparent", tone("--heat")] : [tone("--cold"), "transparent", tone("--warm")];
  const ends = middle === null ? [0, full] : [middle - full, middle + full];
  const [from, to] = by === "weight" ? [Math.exp(-full), Math.exp(full)] : ends;
  const beyond = by === "weight" ? "" : " 2 % of these tokens are beyond the ends of the scale.";
  return element(
    "div",
    { class: "scale" },
    element(
      "div",
      {},
      element("span", {}, `${low} ${number(from, 2)}`),
      element("i", { style: `background: linear-gradient(90deg, ${tones.join(", ")})` }),
      element("span", {}, `${number(to, 2)} ${high}`),
    ),
    note(about + beyond),
  );
}

function completionCard(one, index, by, full) {
  const text = element("div", { class: "text", tabindex: "0", "aria-label": `Completion ${index + 1}` });
  const tools = new Set(one.tool);
  one.texts.forEach((token, i) => {
    const shown_ = token === "" ? "·" : token.replaceAll("\n", "↵\n").replaceAll("\t", "→\t");
    const background = shade(one[by]?.[i], by, full);
    const span = element("span", { class: tools.has(i) ? "tool" : null, "data-i": i }, shown_);
    if (background) span.style.backgroundColor = background;
    text.append(span);
  });
  const tell = (event) => {
    const i = event.target.dataset?.i;
    if (i === undefined) return hideTip();
    showTip(event.target, tokenTip(one, Number(i), tools));
  };
  text.addEventListener("pointerover", tell);
  text.addEventListener("click", tell);
  text.addEventListener("pointerleave", hideTip);
  const sign = one.raw > 0 ? "good" : one.raw < 0 ? "bad" : "";
  const mark = { good: "▲ ", bad: "▼ " }[sign] ?? "";
  const names = Object.entries(one.rewards);
  return element(
    "article",
    { class: `card completion ${sign}` },
    element(
      "header",
      {},
      element("b", { class: `badge ${sign}` }, `${mark}reward ${number(one.reward)}`),
      one.raw === null ? null : element("span", {}, `advantage ${one.raw > 0 ? "+" : ""}${number(one.raw)}`),
      element("span", {}, `${number(one.tokens, 6)} token${one.tokens === 1 ? "" : "s"}`),
      one.cut ? element("span", { class: "cut" }, "cut off at the length") : null,
    ),
    text,
    ...notes([
      one.tokens > one.texts.length && `The first ${one.texts.length} of ${number(one.tokens, 6)} tokens.`,
      names.length > 1 && names.map(([name, value]) => `${name} ${number(value)}`).join(" · "),
    ]),
  );
}

function tokenTip(one, i, tools) {
  if (tools.has(i)) return [element("b", {}, "Written by a tool"), "It is not trained on."];
  const rows = Object.entries(COLOURS).filter(([name]) => one[name] && one[name][i] !== null);
  const likely = one.surprisal?.[i];
  const numbers = rows.flatMap(([name, { label }]) => [element("dt", {}, label), element("dd", {}, number(one[name][i]))]);
  return [
    element("b", {}, JSON.stringify(one.texts[i])),
    likely === null || likely === undefined ? "Not trained on." : `${number(100 * Math.exp(-likely), 2)} % likely`,
    element("dl", {}, ...numbers),
  ];
}

function showTip(target, children) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(...children);
  tip.hidden = false;
  const box = target.getClientRects()[0] ?? target.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8));
  const above = box.bottom + tip.offsetHeight + 10 > innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${above ? Math.max(8, box.top - tip.offsetHeight - 6) : box.bottom + 6}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}
