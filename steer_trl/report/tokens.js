// Single tokens: the completions of a group side by side, coloured by what one chooses.
"use strict";

const chosen = { run: null, step: null, group: 0, by: null };

const acts = (one) => Boolean(one.weight?.some((x) => x !== null && Math.abs(x - 1) > 0.005));

// How much there is to see in a group: first whether weights act, then whether it teaches something, then how many
// different completions it has.
function worth(group) {
  const teaches = group.completions.some((one) => one.advantage?.some((x) => x));
  const different = new Set(group.completions.map((one) => one.texts.join("\u0000"))).size;
  return 1e6 * (group.completions.some(acts) + teaches) + different;
}

// Of groups or looks the one with most to see, the last of several.
const best = (all, worth_) => all.reduce((a, b, i) => (worth_(b) >= worth_(all[a]) ? i : a), 0);
const bestGroup = (look) => best(look.groups, worth);

function telling(run, step) {
  return bestGroup(run.looks.find((look) => look.step === step));
}

// What shows something in a group, unless somebody has chosen: weights that act, otherwise how surprising a token was.
function colourOf(group) {
  const has = (name) => group.completions.some((one) => one[name]?.some((x) => x !== null));
  if (chosen.by) return chosen.by;
  if (group.completions.some(acts)) return "weight";
  return ["surprisal", "entropy", "advantage", "change", "weight"].find(has) ?? "surprisal";
}

function tokenSection() {
  const withLooks = DATA.runs.map((run, i) => (run.looks.length ? i : -1)).filter((i) => i >= 0);
  const body = element("div", { id: "token-body" });
  const section = element("section", { id: "tokens" }, element("h2", {}, "Token by token"), body);
  if (!withLooks.length) {
    body.append(
      element(
        "p",
        { class: "card empty" },
        "No single tokens were kept. Train with ",
        element("code", {}, "log_tokens=50"),
        ", and every 50th step shows its completions here, coloured by weight, surprisal, entropy or advantage.",
      ),
    );
    return section;
  }
  if (chosen.run === null) {
    const weighted = (i) =>
      DATA.runs[i].looks.some((look) => look.groups.some((group) => group.completions.some(acts)));
    chosen.run = withLooks.find(weighted) ?? withLooks[0];
    const { looks } = DATA.runs[chosen.run];
    const look = looks[best(looks, (one) => worth(one.groups[bestGroup(one)]))];
    chosen.step = look.step;
    chosen.group = bestGroup(look);
  }
  showTokens(body);
  return section;
}

function nearestLook(run, step) {
  return DATA.runs[run].looks
    .map((look) => look.step)
    .reduce((a, b) => (Math.abs(b - step) < Math.abs(a - step) ? b : a));
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
  document
    .getElementById("tokens")
    .scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

function select(label, options, value, onChange) {
  const made = element(
    "select",
    { "aria-label": label, onchange: (event) => onChange(Number(event.target.value)) },
    ...options.map(([number_, text]) => element("option", { value: number_, selected: number_ === value }, text)),
  );
  return element("label", { class: "field" }, element("span", {}, label), made);
}

function showTokens(body) {
  const run = DATA.runs[chosen.run];
  const look = run.looks.find((one) => one.step === chosen.step) ?? run.looks.at(-1);
  chosen.step = look.step;
  chosen.group = Math.min(chosen.group, look.groups.length - 1);
  const group = look.groups[chosen.group];
  const by = colourOf(group);
  const again = (changes) => (Object.assign(chosen, changes), showTokens(body));
  const steps = run.looks.map((one) => one.step);
  const place = steps.indexOf(look.step);
  const others = DATA.runs.map((one, i) => [i, one.name]).filter(([i]) => DATA.runs[i].looks.length);
  const controls = element(
    "div",
    { class: "controls" },
    others.length > 1
      ? select("Run", others, chosen.run, (i) => again({ run: i, step: nearestLook(i, chosen.step) }))
      : null,
    element(
      "div",
      { class: "steps" },
      element(
        "button",
        {
          type: "button",
          disabled: place === 0,
          "aria-label": "Earlier step",
          onclick: () => again({ step: steps[place - 1] }),
        },
        "◀",
      ),
      select(
        "Step",
        steps.map((step) => [step, step]),
        look.step,
        (step) => again({ step }),
      ),
      element(
        "button",
        {
          type: "button",
          disabled: place === steps.length - 1,
          "aria-label": "Later step",
          onclick: () => again({ step: steps[place + 1] }),
        },
        "▶",
      ),
    ),
    look.groups.length > 1
      ? select(
          "Prompt",
          look.groups.map((_, i) => [i, `${i + 1} of ${look.groups.length}`]),
          chosen.group,
          (i) => again({ group: i }),
        )
      : null,
    element(
      "div",
      { class: "field" },
      element("span", {}, "Colour by"),
      element(
        "div",
        { class: "segments", role: "group", "aria-label": "Colour by" },
        ...Object.entries(COLOURS)
          .filter(([name]) => group.completions.some((one) => one[name]))
          .map(([name, about]) =>
            element(
              "button",
              { type: "button", "aria-pressed": String(name === by), onclick: () => again({ by: name }) },
              about.label,
            ),
          ),
      ),
    ),
  );
  const scale = scaleOf(group.completions, by);
  const order = group.completions
    .map((one, i) => [one, i])
    .sort(([a, i], [b, j]) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity) || i - j);
  const estimated = by === "change" && !group.completions.every((one) => one.exact);
  const parts = [
    element("div", { class: "card token-bar" }, controls, legendBar(by, scale, estimated)),
    element(
      "details",
      { class: "card prompt", open: group.prompt.length < 400 },
      element("summary", {}, "Prompt"),
      element("pre", {}, group.prompt || "(not kept)"),
    ),
    group.completions.length > 1 && !group.completions.some((one) => one.raw)
      ? element(
          "p",
          { class: "card empty" },
          "All completions of this prompt got the same reward: no advantage, nothing to learn from them.",
        )
      : null,
    look.more
      ? element("p", { class: "note" }, "The page has room for the first completions of this step only.")
      : null,
    element("div", { class: "completions" }, ...order.map(([one, i]) => completionCard(one, i, by, scale))),
  ];
  body.replaceChildren(...parts.filter(Boolean));
}
