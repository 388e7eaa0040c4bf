// Single tokens: the completions of a group side by side, coloured by the chosen quantity.
"use strict";

const chosen = { run: null, step: null, group: 0, by: null };

const acts = (one) => Boolean(one.weight?.some((x) => x !== null && Math.abs(x - 1) > 0.005));

// Ranks a group first by whether weights act and whether it has a learning signal, and then by the number of its
// different completions.
function worth(group) {
  const teaches = group.completions.some((one) => one.advantage?.some((x) => x));
  const different = new Set(group.completions.map((one) => one.texts.join("\u0000"))).size;
  return 1e6 * (group.completions.some(acts) + teaches) + different;
}

// The index of the best group or step; the last one if several are equal.
const best = (all, worth_) => all.reduce((a, b, i) => (worth_(b) >= worth_(all[a]) ? i : a), 0);
const bestGroup = (look) => best(look.groups, worth);

// The quantity that colours a group, unless the reader has chosen one: the weights if they act, otherwise the surprisal.
function colourOf(group) {
  const has = (name) => group.completions.some((one) => one[name]?.some((x) => x !== null));
  if (chosen.by) return chosen.by;
  if (group.completions.some(acts)) return "weight";
  return ["surprisal", "entropy", "advantage", "change", "weight"].find(has) ?? "surprisal";
}

const runsWithTokens = () => RUNS.filter((run) => run.token_steps.length).map((run) => run.index);

function tokenSection() {
  const body = element("div", { id: "token-body" });
  const [first] = runsWithTokens();
  if (first === undefined) {
    const code = element("code", {}, "log_tokens=50");
    const then = ", and every 50th step shows its completions here, coloured by weight, surprisal, entropy or advantage.";
    body.append(element("p", { class: "card empty" }, "No single tokens were kept. Train with ", code, then));
  } else {
    if (chosen.run === null) {
      const weighted = (i) => RUNS[i].token_steps.some((look) => look.groups.some((one) => one.completions.some(acts)));
      chosen.run = runsWithTokens().find(weighted) ?? first;
      const { token_steps } = RUNS[chosen.run];
      const look = token_steps[best(token_steps, (one) => worth(one.groups[bestGroup(one)]))];
      Object.assign(chosen, { step: look.step, group: bestGroup(look) });
    }
    showTokens(body);
  }
  return element("section", { id: "tokens", "data-nav": "Tokens" }, element("h2", {}, "Token by token"), body);
}

function nearestLook(run, step) {
  return RUNS[run].token_steps
    .map((look) => look.step)
    .reduce((a, b) => (Math.abs(b - step) < Math.abs(a - step) ? b : a));
}

// Opens the tokens nearest to a step. At equal distance the run that was clicked on is preferred.
function openTokens(step, run) {
  if (chosen.run === null) return;
  const away = (i) => Math.abs(nearestLook(i, step) - step) - (i === run ? 0.5 : i === chosen.run ? 0.25 : 0);
  const visible = shownRuns().map((run) => run.index);
  const able = runsWithTokens().filter((i) => visible.includes(i));
  chosen.run = able.reduce((a, b) => (away(b) < away(a) ? b : a), able[0] ?? chosen.run);
  chosen.step = nearestLook(chosen.run, step);
  chosen.group = bestGroup(RUNS[chosen.run].token_steps.find((look) => look.step === chosen.step));
  showTokens(document.getElementById("token-body"));
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  document.getElementById("tokens").scrollIntoView({ behavior });
}

function select(label, options, value, onChange) {
  const list = options.map(([number_, text]) => element("option", { value: number_, selected: number_ === value }, text));
  const change = (event) => onChange(Number(event.target.value));
  const made = element("select", { "aria-label": label, onchange: change }, ...list);
  return element("label", { class: "field" }, element("span", {}, label), made);
}

function showTokens(body) {
  const run = RUNS[chosen.run];
  const look = run.token_steps.find((one) => one.step === chosen.step) ?? run.token_steps.at(-1);
  chosen.step = look.step;
  chosen.group = Math.min(chosen.group, look.groups.length - 1);
  const { prompt, completions } = look.groups[chosen.group];
  const by = colourOf(look.groups[chosen.group]);
  const again = (changes) => (Object.assign(chosen, changes), showTokens(body));
  const steps = run.token_steps.map((one) => one.step);
  const place = steps.indexOf(look.step);
  const turn = (text, label, to) => {
    const onclick = () => again({ step: steps[to] });
    return element("button", { type: "button", disabled: !(to in steps), "aria-label": label, onclick }, text);
  };
  const others = runsWithTokens().map((i) => [i, RUNS[i].name]);
  const has = Object.keys(COLOURS).filter((name) => completions.some((one) => one[name]));
  const named = (label) => has.find((name) => COLOURS[name].label === label);
  const labels = has.map((name) => COLOURS[name].label);
  const chooseRun = (i) => again({ run: i, step: nearestLook(i, chosen.step) });
  const prompts = look.groups.map((_, i) => [i, `${i + 1} of ${look.groups.length}`]);
  const controls = element(
    "div",
    { class: "controls" },
    others.length > 1 ? select("Run", others, chosen.run, chooseRun) : null,
    element(
      "div",
      { class: "steps" },
      turn("◀", "Earlier step", place - 1),
      select("Step", steps.map((step) => [step, step]), look.step, (step) => again({ step })),
      turn("▶", "Later step", place + 1),
    ),
    prompts.length > 1 ? select("Prompt", prompts, chosen.group, (i) => again({ group: i })) : null,
    element(
      "div",
      { class: "field" },
      element("span", {}, "Colour by"),
      segments("Colour by", "colour", labels, COLOURS[by].label, (label) => again({ by: named(label) })),
    ),
  );
  const full = fullColour(completions, by);
  const order = completions
    .map((one, i) => [one, i])
    .sort(([a, i], [b, j]) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity) || i - j);
  const estimated = by === "change" && !completions.every((one) => one.exact);
  const isDull = completions.length > 1 && !completions.some((one) => one.raw);
  const dull = "All completions of this prompt got the same reward: no advantage, nothing to learn from them.";
  body.replaceChildren(
    element("div", { class: "card token-bar" }, controls, legendBar(by, full, estimated)),
    element(
      "details",
      { class: "card prompt", open: prompt.length < 400 },
      element("summary", {}, "Prompt"),
      element("pre", {}, prompt || "(not kept)"),
    ),
    ...(isDull ? [element("p", { class: "card empty" }, dull)] : []),
    ...notes([look.more && "The page has room for the first completions of this step only."]),
    element("div", { class: "completions" }, ...order.map(([one, i]) => completionCard(one, i, by, full))),
  );
}
