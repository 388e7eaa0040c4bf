// The runs at a glance: a card for each of a few, a table of many; which of them the curves show.
"use strict";

function duration(seconds) {
  if (!(seconds >= 1)) return null;
  const units = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const [size, unit] = units.find(([size_]) => seconds >= size_) ?? [1, "s"];
  return `${+(seconds / size).toPrecision(2)} ${unit}`;
}

const entropyKey = (run) => (run.curves[DATA.names.ROLLOUT_ENTROPY] ? DATA.names.ROLLOUT_ENTROPY : DATA.names.ENTROPY);

// The metric of an evaluation that says most: pass@ of the most tries, otherwise accuracy.
function evaluationKeys(run) {
  const keys = Object.keys(run.curves).filter((key) => key.startsWith("eval_"));
  const pass = keys
    .filter((key) => /pass@\d+$/.test(key))
    .sort((a, b) => Number(b.split("@").at(-1)) - Number(a.split("@").at(-1)));
  const one = keys.filter((key) => /(avg@\d+|accuracy)$/.test(key));
  return [one[0], pass[0]].filter(Boolean);
}

function fact(label, value, more) {
  return element(
    "div",
    { class: "fact" },
    element("dt", {}, label),
    element("dd", {}, value, more ? element("small", {}, more) : null),
  );
}

function pair(label, run, key) {
  const both = run.ends[key];
  return both ? fact(label, `${number(both[0])} → ${number(both[1])}`) : null;
}

// How the entropy went: that of whole rollouts where the run has it, and where it should be.
function entropyOf(run) {
  const both = run.ends[entropyKey(run)];
  if (!both) return [null, null];
  const change = both[0] > 0 ? Math.round(100 * (both[1] / both[0] - 1)) : null;
  const relative = change === null ? null : `${change > 0 ? "+" : change < 0 ? "−" : "±"}${Math.abs(change)} %`;
  const held = run.ends[DATA.names.HELD_TARGET]?.[1];
  const target = held ?? run.ends[DATA.names.STARE_TARGET]?.[1];
  const error = run.ends[DATA.names.HELD_ERROR]?.[1];
  const path = run.ends[DATA.names.HELD_REFERENCE]?.[1];
  let more = [relative, target === undefined ? null : `target ${number(target)}`].filter(Boolean).join(", ");
  if (held !== undefined && error !== undefined) {
    const distance = `${number(100 * Math.abs(error), 2)} %`;
    const side = error > 0 ? "above" : "below";
    if (Math.abs(error) <= 0.1) more = `target ${number(held)}, held within ${distance}`;
    else if (path !== undefined && Math.abs(path / held - 1) > 0.1) more = `on its way to ${number(held)}`;
    else more = `target ${number(held)}, ${distance} ${side} it`;
  }
  return [`${number(both[0])} → ${number(both[1])}`, more];
}

// What the methods do, for who meets them here first.
function aboutMethods(run) {
  if (!Array.isArray(run.methods)) return [];
  if (!run.methods.length) return ["Plain GRPO: all tokens of a completion have the same advantage."];
  const held = run.curves[DATA.names.HELD_TARGET]
    ? ["hold_entropy moves the method's strength between rollouts, so that the entropy keeps to its target."]
    : [];
  return [...run.methods.map((name) => DATA.methods[name]).filter(Boolean), ...held];
}

function runCard(run, i) {
  const one = series().find((s) => s.runs.includes(i));
  const progress = run.max_steps ? Math.min(1, run.step / run.max_steps) : null;
  const status = [
    run.status,
    `step ${run.step.toLocaleString("en")}${run.max_steps ? ` of ${run.max_steps.toLocaleString("en")}` : ""}`,
  ];
  status.push(run.started && run.ended ? duration(run.ended - run.started) : null);
  const methods = Array.isArray(run.methods) ? run.methods.join(" + ") || "plain GRPO" : null;
  const [entropy, target] = entropyOf(run);
  const last = (key) => run.curves[key]?.[1].at(-1);
  return element(
    "article",
    { class: "card run", style: `--own: var(--c${one.color % 8})` },
    element("h2", {}, run.name),
    element("p", { class: "status" }, status.filter(Boolean).join(" · ")),
    progress === null
      ? null
      : element("div", { class: "progress" }, element("i", { style: `width: ${100 * progress}%` })),
    methods ? element("p", { class: "methods" }, methods) : null,
    ...aboutMethods(run).map((text) => element("p", { class: "note" }, text)),
    element(
      "dl",
      { class: "facts" },
      entropy ? fact("Entropy", entropy, target) : null,
      pair("Reward", run, DATA.names.REWARD),
      ...evaluationKeys(run).map((key) => pair(key.replace(/^eval_/, "").replaceAll("_", " "), run, key)),
      last(DATA.names.WEIGHT_MEAN) === undefined
        ? null
        : fact(
            "Mean weight",
            number(last(DATA.names.WEIGHT_MEAN), 4),
            last(DATA.names.SHARE_CHANGED) === undefined
              ? null
              : `${number(100 * last(DATA.names.SHARE_CHANGED), 2)} % changed`,
          ),
      last(DATA.names.CLIPPED_RATIO) === undefined
        ? null
        : fact("Cut off", `${number(100 * last(DATA.names.CLIPPED_RATIO), 2)} %`),
    ),
    run.alarms.length
      ? element(
          "a",
          { class: "alarm-count", href: "#alarms" },
          `${run.alarms.length} alarm${run.alarms.length > 1 ? "s" : ""}`,
        )
      : null,
    run.code ? element("p", { class: "note" }, `Code: ${run.code}.`) : null,
    ...(run.resumed.length ? [element("p", { class: "note" }, `Resumed at step ${run.resumed.join(", ")}.`)] : []),
    ...run.notes.map((note) => element("p", { class: "note" }, note)),
  );
}

// Many runs are easier to compare in a table.
function runsTable() {
  const keys = [...new Set([DATA.names.REWARD, ...DATA.runs.flatMap(evaluationKeys)])];
  const heads = [
    "run",
    "method",
    "step",
    "entropy",
    ...keys.map((key) => key.replace(/^eval_/, "").replaceAll("_", " ")),
    "mean weight",
    "alarms",
  ];
  const cell = (run, key) => (run.ends[key] ? `${number(run.ends[key][0])} → ${number(run.ends[key][1])}` : "–");
  const rows = DATA.runs.map((run, i) => {
    const own = series().find((one) => one.runs.includes(i));
    const [entropy, target] = entropyOf(run);
    const methods = Array.isArray(run.methods) ? run.methods.join(" + ") || "plain GRPO" : "–";
    const name = element(
      "th",
      { scope: "row" },
      element("i", { class: "dot", style: `--own: var(--c${own.color % 8})` }),
      run.name,
      run.code ? element("p", { class: "note" }, `Code: ${run.code}.`) : null,
      ...run.notes.map((note) => element("p", { class: "note" }, note)),
    );
    const total = run.max_steps && run.status !== "finished" ? ` of ${run.max_steps.toLocaleString("en")}` : "";
    const step = `${run.step.toLocaleString("en")}${total}${run.status ? `, ${run.status}` : ""}`;
    return element(
      "tr",
      {},
      name,
      ...[
        methods,
        step,
        element("span", {}, entropy ?? "–", target ? element("p", { class: "note" }, target) : null),
        ...keys.map((key) => cell(run, key)),
        number(run.ends[DATA.names.WEIGHT_MEAN]?.[1], 4),
        run.alarms.length || "–",
      ].map((value) => element("td", {}, value)),
    );
  });
  return element(
    "div",
    { class: "card table glance" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {}, head)))),
      element("tbody", {}, ...rows),
    ),
    ...[...new Set(DATA.runs.flatMap(aboutMethods))].map((text) => element("p", { class: "note" }, text)),
  );
}

function runsSection() {
  const section = document.getElementById("runs");
  const chips = series().map((one, i) =>
    element(
      "button",
      {
        type: "button",
        class: "chip",
        id: `chip-${i}`,
        "aria-pressed": String(!state.hidden.has(one.name)),
        style: `--own: var(--c${one.color % 8})`,
        onclick: () => toggle(one.name),
      },
      one.name,
    ),
  );
  const seeds = DATA.groups.some((group) => group.runs.length > 1)
    ? element(
        "button",
        {
          type: "button",
          class: "quiet",
          id: "seeds",
          onclick: () => ((state.together = !state.together), state.hidden.clear(), build()),
        },
        state.together ? "Show seeds apart" : "Put seeds together",
      )
    : null;
  const band =
    state.together && seeds
      ? element("span", { class: "band" }, "line: mean of the seeds, band: lowest to highest")
      : null;
  const hint =
    chosen.run !== null
      ? element("span", { class: "band" }, "Click on a curve to see the completions of that step.")
      : null;
  const levels = ["as logged", "smooth", "smoother"];
  const smooth = segments("Smooth the curves", "smooth", levels, levels[state.smooth], (name) => {
    state.smooth = levels.indexOf(name);
    runsSection();
    redrawAll();
  });
  const parts = [
    DATA.runs.length <= 3 ? element("div", { class: "run-cards" }, ...DATA.runs.map(runCard)) : runsTable(),
    element("div", { class: "chips", id: "chips" }, ...(series().length > 1 ? chips : []), seeds, band, hint),
    element("div", { class: "chips", id: "drawing" }, ...axisChoice(), smooth),
  ];
  const focused = section.contains(document.activeElement) ? document.activeElement.id : "";
  section.replaceChildren(...parts);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function toggle(name) {
  state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
  if (!shown().length) state.hidden.clear();
  runsSection();
  redrawAll();
}
