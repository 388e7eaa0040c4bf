// A completion as a card: its tokens in colour, and what one token says when it is pointed at.
"use strict";

const COLOURS = {
  weight: {
    label: "Weight",
    middle: 1,
    low: "below 1: damped",
    high: "above 1: amplified",
    about: "The factor on the token's advantage; 1, plain GRPO, has no colour.",
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
    about: "How undecided the model was at this place, in nats.",
  },
  advantage: {
    label: "Advantage",
    middle: 0,
    low: "becomes less likely",
    high: "becomes more likely",
    about: "What the loss trains the token with, after the method.",
  },
  change: {
    label: "Entropy change",
    middle: 0,
    low: "lowers the entropy",
    high: "raises the entropy",
    about: "What the update of this token does to the entropy of its place, to first order, in nats per unit of step.",
  },
};

// The 98th percentile of the distance from the middle: one odd token must not make all others pale.
function scaleOf(completions, by) {
  const middle = COLOURS[by].middle ?? 0;
  const sizes = completions
    .flatMap((one) => (one[by] ?? []).filter((x) => x !== null).map((x) => Math.abs(x - middle)))
    .filter((x) => x > 0)
    .sort((a, b) => a - b);
  return sizes.length ? sizes[Math.floor(0.98 * (sizes.length - 1))] : null;
}

function shade(value, by, scale) {
  if (value === null || value === undefined || scale === null) return null;
  const middle = COLOURS[by].middle;
  const share = Math.max(-1, Math.min(1, (value - (middle ?? 0)) / scale));
  const strength = Math.round(100 * Math.abs(share) * 0.62);
  if (strength === 0) return null;
  const hue = middle === null ? "--heat" : share < 0 ? "--cold" : "--warm";
  return `color-mix(in srgb, var(${hue}) ${strength}%, transparent)`;
}

function legendBar(by, scale, estimated) {
  const { middle, low, high, about } = COLOURS[by];
  if (scale === null)
    return element(
      "div",
      { class: "scale" },
      element("p", {}, `${about} Here it is ${number(middle ?? 0)} for every token.`),
    );
  const ends = middle === null ? [0, scale] : [middle - scale, middle + scale];
  if (by === "weight") ends[0] = Math.max(0, ends[0]);
  const parts =
    middle === null
      ? ["transparent", "color-mix(in srgb, var(--heat) 62%, transparent)"]
      : [
          "color-mix(in srgb, var(--cold) 62%, transparent)",
          "transparent",
          "color-mix(in srgb, var(--warm) 62%, transparent)",
        ];
  return element(
    "div",
    { class: "scale" },
    element(
      "div",
      {},
      element("span", {}, `${low} ${number(ends[0], 2)}`),
      element("i", { style: `background: linear-gradient(90deg, ${parts.join(", ")})` }),
      element("span", {}, `${number(ends[1], 2)} ${high}`),
    ),
    element("p", {}, about + (estimated ? " Estimated from the sampled token alone, as in STEER." : "")),
  );
}

function completionCard(one, index, by, scale) {
  const text = element("div", { class: "text", tabindex: "0", "aria-label": `Completion ${index + 1}` });
  const tools = new Set(one.tool);
  one.texts.forEach((token, i) => {
    const shown_ = token === "" ? "·" : token.replaceAll("\n", "↵\n").replaceAll("\t", "→\t");
    const background = shade(one[by]?.[i], by, scale);
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
  const sign = one.raw === null || one.raw === undefined ? "" : one.raw > 0 ? "good" : one.raw < 0 ? "bad" : "";
  const facts = [
    element(
      "b",
      { class: `badge ${sign}` },
      `${sign === "good" ? "▲ " : sign === "bad" ? "▼ " : ""}reward ${number(one.reward)}`,
    ),
    one.raw === null ? null : element("span", {}, `advantage ${one.raw > 0 ? "+" : ""}${number(one.raw)}`),
    element("span", {}, `${number(one.tokens, 6)} token${one.tokens === 1 ? "" : "s"}`),
    one.cut ? element("span", { class: "cut" }, "cut off at the length") : null,
  ];
  const names = Object.entries(one.rewards);
  return element(
    "article",
    { class: `card completion ${sign}` },
    element("header", {}, ...facts),
    text,
    one.tokens > one.texts.length
      ? element("p", { class: "note" }, `The first ${one.texts.length} of ${number(one.tokens, 6)} tokens.`)
      : null,
    names.length > 1
      ? element("p", { class: "note" }, names.map(([name, value]) => `${name} ${number(value)}`).join(" · "))
      : null,
  );
}

function tokenTip(one, i, tools) {
  if (tools.has(i)) return [element("b", {}, "Written by a tool"), "It is not trained on."];
  const rows = Object.entries(COLOURS).filter(([name]) => one[name] && one[name][i] !== null);
  const likely = one.surprisal?.[i];
  return [
    element("b", {}, JSON.stringify(one.texts[i])),
    likely === null || likely === undefined
      ? "Not trained on."
      : element("span", {}, `${number(100 * Math.exp(-likely), 2)} % likely`),
    element(
      "dl",
      {},
      ...rows.flatMap(([name, about]) => [element("dt", {}, about.label), element("dd", {}, number(one[name][i]))]),
    ),
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
