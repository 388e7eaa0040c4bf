// Single tokens: the completions of a group side by side, coloured by what one chooses.
"use strict";

const COLOURS = {
  weight: { label: "Weight", middle: 1, low: "below 1: damped", high: "above 1: amplified", about: "The factor on the token's advantage; 1, plain GRPO, has no colour." },
  surprisal: { label: "Surprisal", middle: null, low: "expected", high: "surprising", about: "How unlikely the token was, in nats: 0.1 is nine times in ten, 2.3 once in ten." },
  entropy: { label: "Entropy", middle: null, low: "no choice", high: "undecided", about: "How undecided the model was at this place, in nats." },
  advantage: { label: "Advantage", middle: 0, low: "becomes less likely", high: "becomes more likely", about: "What the loss trains the token with, after the method." },
  change: { label: "Entropy change", middle: 0, low: "lowers the entropy", high: "raises the entropy", about: "What the update of this token does to the entropy of its place, to first order, in nats per unit of step." },
};

const chosen = { run: null, step: null, group: 0, by: null };

// How much a group tells: 2 where a token has another weight than 1, 1 where it teaches something.
function worth(group) {
  if (group.completions.some((one) => one.weight?.some((x) => x !== null && x !== 1))) return 2;
  return Number(group.completions.some((one) => one.advantage?.some((x) => x)));
}

function telling(run, step) {
  const { groups } = run.looks.find((look) => look.step === step);
  return groups.reduce((best, group, i) => (worth(group) > worth(groups[best]) ? i : best), 0);
}


function tokenSection() {
  const withLooks = DATA.runs.map((run, i) => (run.looks.length ? i : -1)).filter((i) => i >= 0);
  const body = element("div", { id: "token-body" });
  const section = element("section", { id: "tokens" }, element("h2", {}, "Token by token"), body);
  if (!withLooks.length) {
    body.append(element("p", { class: "card empty" }, "No single tokens were kept. Train with ", element("code", {}, "log_tokens=50"), ", and every 50th step shows its completions here, coloured by weight, surprisal, entropy or advantage."));
    return section;
  }
  const acts = (i) => DATA.runs[i].looks.some((look) => look.groups.some((group) => group.completions.some((one) => one.weight?.some((x) => x !== null && x !== 1))));
  if (chosen.run === null) {
    chosen.run = withLooks.find(acts) ?? withLooks[0];
    const looks = DATA.runs[chosen.run].looks;
    chosen.step = (looks.findLast((look) => look.groups.some((group) => worth(group) > 1)) ?? looks.findLast((look) => look.groups.some(worth)) ?? looks.at(-1)).step;
    chosen.group = telling(DATA.runs[chosen.run], chosen.step);
  }
  const any = DATA.runs.flatMap((run) => run.looks.flatMap((look) => look.groups.flatMap((group) => group.completions)));
  const interesting = (name) => any.some((one) => one[name]?.some((x) => x !== null && x !== COLOURS[name].middle));
  chosen.by ??= ["weight", "surprisal", "entropy"].find(interesting) ?? "surprisal";
  showTokens(body);
  return section;
}

function nearestLook(run, step) {
  return DATA.runs[run].looks.map((look) => look.step).reduce((a, b) => (Math.abs(b - step) < Math.abs(a - step) ? b : a));
}

// The look that is nearest to a step, of the run one clicked on where it has one as near.
function openTokens(step, run) {
  if (chosen.run === null) return;
  const distance = (i) => Math.abs(nearestLook(i, step) - step) - (i === run ? 0.5 : i === chosen.run ? 0.25 : 0);
  const able = visibleRuns().filter((i) => DATA.runs[i].looks.length);
  chosen.run = able.reduce((a, b) => (distance(b) < distance(a) ? b : a), able[0] ?? chosen.run);
  chosen.step = nearestLook(chosen.run, step);
  chosen.group = telling(DATA.runs[chosen.run], chosen.step);
  showTokens(document.getElementById("token-body"));
  document.getElementById("tokens").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

function select(label, options, value, onChange) {
  const made = element("select", { "aria-label": label, onchange: (event) => onChange(Number(event.target.value)) }, ...options.map(([number_, text]) => element("option", { value: number_, selected: number_ === value }, text)));
  return element("label", { class: "field" }, element("span", {}, label), made);
}

function showTokens(body) {
  const run = DATA.runs[chosen.run];
  const look = run.looks.find((one) => one.step === chosen.step) ?? run.looks.at(-1);
  chosen.step = look.step;
  chosen.group = Math.min(chosen.group, look.groups.length - 1);
  const group = look.groups[chosen.group];
  const again = (changes) => (Object.assign(chosen, changes), showTokens(body));
  const steps = run.looks.map((one) => one.step);
  const place = steps.indexOf(look.step);
  const others = DATA.runs.map((one, i) => [i, one.name]).filter(([i]) => DATA.runs[i].looks.length);
  const controls = element(
    "div",
    { class: "controls" },
    others.length > 1 ? select("Run", others, chosen.run, (i) => again({ run: i, step: nearestLook(i, chosen.step) })) : null,
    element(
      "div",
      { class: "steps" },
      element("button", { type: "button", disabled: place === 0, "aria-label": "Earlier step", onclick: () => again({ step: steps[place - 1] }) }, "◀"),
      select("Step", steps.map((step) => [step, step]), look.step, (step) => again({ step })),
      element("button", { type: "button", disabled: place === steps.length - 1, "aria-label": "Later step", onclick: () => again({ step: steps[place + 1] }) }, "▶"),
    ),
    look.groups.length > 1 ? select("Prompt", look.groups.map((_, i) => [i, `${i + 1} of ${look.groups.length}`]), chosen.group, (i) => again({ group: i })) : null,
    element("div", { class: "field" }, element("span", {}, "Colour by"), element("div", { class: "segments", role: "group", "aria-label": "Colour by" }, ...Object.entries(COLOURS).filter(([name]) => group.completions.some((one) => one[name])).map(([name, about]) => element("button", { type: "button", "aria-pressed": String(name === chosen.by), onclick: () => again({ by: name }) }, about.label)))),
  );
  const scale = scaleOf(group.completions, chosen.by);
  const order = group.completions.map((one, i) => [one, i]).sort(([a, i], [b, j]) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity) || i - j);
  const estimated = chosen.by === "change" && !group.completions.every((one) => one.exact);
  const parts = [
    element("div", { class: "card token-bar" }, controls, legendBar(chosen.by, scale, estimated)),
    element("details", { class: "card prompt", open: group.prompt.length < 400 }, element("summary", {}, "Prompt"), element("pre", {}, group.prompt || "(not kept)")),
    group.completions.length > 1 && !group.completions.some((one) => one.raw) ? element("p", { class: "card empty" }, "All completions of this prompt got the same reward: no advantage, nothing to learn from them.") : null,
    element("div", { class: "completions" }, ...order.map(([one, i]) => completionCard(one, i, scale))),
  ];
  body.replaceChildren(...parts.filter(Boolean));
}

// The 98th percentile of the distance from the middle: one odd token must not make all others pale.
function scaleOf(completions, by) {
  const middle = COLOURS[by].middle ?? 0;
  const sizes = completions.flatMap((one) => (one[by] ?? []).filter((x) => x !== null).map((x) => Math.abs(x - middle))).filter((x) => x > 0).sort((a, b) => a - b);
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
  if (scale === null) return element("div", { class: "scale" }, element("p", {}, `${about} Here it is ${number(middle ?? 0)} for every token.`));
  const ends = middle === null ? [0, scale] : [middle - scale, middle + scale];
  if (by === "weight") ends[0] = Math.max(0, ends[0]);
  const parts = middle === null ? ["transparent", "color-mix(in srgb, var(--heat) 62%, transparent)"] : ["color-mix(in srgb, var(--cold) 62%, transparent)", "transparent", "color-mix(in srgb, var(--warm) 62%, transparent)"];
  return element(
    "div",
    { class: "scale" },
    element("span", {}, `${low} ${number(ends[0], 2)}`),
    element("i", { style: `background: linear-gradient(90deg, ${parts.join(", ")})` }),
    element("span", {}, `${number(ends[1], 2)} ${high}`),
    element("p", {}, about + (estimated ? " Estimated from the sampled token alone, as in STEER." : "")),
  );
}

function completionCard(one, index, scale) {
  const text = element("div", { class: "text", tabindex: "0", "aria-label": `Completion ${index + 1}` });
  const tools = new Set(one.tool);
  one.texts.forEach((token, i) => {
    const shown_ = token === "" ? "·" : token.replaceAll("\n", "↵\n").replaceAll("\t", "→\t");
    const background = shade(one[chosen.by]?.[i], chosen.by, scale);
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
    element("b", { class: `badge ${sign}` }, `${sign === "good" ? "▲ " : sign === "bad" ? "▼ " : ""}reward ${number(one.reward)}`),
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
    one.tokens > one.texts.length ? element("p", { class: "note" }, `The first ${one.texts.length} of ${number(one.tokens, 6)} tokens.`) : null,
    names.length > 1 ? element("p", { class: "note" }, names.map(([name, value]) => `${name} ${number(value)}`).join(" · ")) : null,
  );
}

function tokenTip(one, i, tools) {
  if (tools.has(i)) return [element("b", {}, "Written by a tool"), "It is not trained on."];
  const rows = Object.entries(COLOURS).filter(([name]) => one[name] && one[name][i] !== null);
  const likely = one.surprisal?.[i];
  return [
    element("b", {}, JSON.stringify(one.texts[i])),
    likely === null || likely === undefined ? "Not trained on." : element("span", {}, `${number(100 * Math.exp(-likely), 2)} % likely`),
    element("dl", {}, ...rows.flatMap(([name, about]) => [element("dt", {}, about.label), element("dd", {}, number(one[name][i]))])),
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
