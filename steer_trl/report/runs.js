// The runs at a glance, a card for each; which of them the curves show, and how they are drawn.
"use strict";

function duration(seconds) {
  if (!(seconds >= 1)) return null;
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([size_]) => seconds >= size_);
  return `${+(seconds / size).toPrecision(2)} ${unit}`;
}

const entropyKey = (run) => (run.curves[DATA.names.ROLLOUT_ENTROPY] ? DATA.names.ROLLOUT_ENTROPY : DATA.names.ENTROPY);

// The metric of an evaluation that says most: pass@ of the most tries, otherwise accuracy.
function evaluationKeys(run) {
  const keys = Object.keys(run.curves).filter((key) => key.startsWith("eval_"));
  const tries = (key) => Number(key.split("@").at(-1));
  const pass = keys.filter((key) => /pass@\d+$/.test(key)).sort((a, b) => tries(b) - tries(a));
  return [keys.find((key) => /(avg@\d+|accuracy)$/.test(key)), pass[0]].filter(Boolean);
}

function fact(label, value, more) {
  const small = more ? element("small", {}, more) : null;
  return element("div", { class: "fact" }, element("dt", {}, label), element("dd", {}, value, small));
}

function pair(label, run, key) {
  const both = run.ends[key];
  return both ? fact(label, `${number(both[0])} → ${number(both[1])}`) : null;
}

// How the entropy went: that of whole rollouts where the run has it, and where it should be.
function entropyOf(run) {
  const both = run.ends[entropyKey(run)];
  if (!both) return null;
  const change = both[0] > 0 ? Math.round(100 * (both[1] / both[0] - 1)) : null;
  const relative = change === null ? null : `${change > 0 ? "+" : change < 0 ? "−" : "±"}${Math.abs(change)} %`;
  const last = (name) => run.ends[DATA.names[name]]?.[1];
  const [held, error, path] = ["HELD_TARGET", "HELD_ERROR", "HELD_REFERENCE"].map(last);
  const target = held ?? last("STARE_TARGET");
  let more = [relative, target === undefined ? null : `target ${number(target)}`].filter(Boolean).join(", ");
  if (held !== undefined && error !== undefined) {
    const away = `${number(100 * Math.abs(error), 2)} %`;
    if (Math.abs(error) <= 0.1) more = `target ${number(held)}, held within ${away}`;
    else if (path !== undefined && Math.abs(path / held - 1) > 0.1) more = `on its way to ${number(held)}`;
    else more = `target ${number(held)}, ${away} ${error > 0 ? "above" : "below"} it`;
  }
  return fact("Entropy", `${number(both[0])} → ${number(both[1])}`, more);
}

// What the methods do, for who meets them here first.
function aboutMethods(run) {
  if (!Array.isArray(run.methods)) return [];
  if (!run.methods.length) return ["Plain GRPO: all tokens of a completion have the same advantage."];
  const held = "hold_entropy moves the method's strength between rollouts, so that the entropy keeps to its target.";
  return [...run.methods.map((name) => DATA.methods[name]), run.curves[DATA.names.HELD_TARGET] && held];
}

function runCard(run, i) {
  const steps = (count) => count.toLocaleString("en");
  const status = [
    run.status,
    `step ${steps(run.step)}${run.max_steps ? ` of ${steps(run.max_steps)}` : ""}`,
    run.started && run.ended ? duration(run.ended - run.started) : null,
  ];
  const width = `width: ${100 * Math.min(1, run.step / run.max_steps)}%`;
  const methods = Array.isArray(run.methods) ? run.methods.join(" + ") || "plain GRPO" : null;
  const last = (name) => run.curves[DATA.names[name]]?.[1].at(-1);
  const percent = (value) => `${number(100 * value, 2)} %`;
  const [weight, changed, cut] = ["WEIGHT_MEAN", "SHARE_CHANGED", "CLIPPED_RATIO"].map(last);
  const facts = [
    entropyOf(run),
    pair("Reward", run, DATA.names.REWARD),
    ...evaluationKeys(run).map((key) => pair(key.replace(/^eval_/, "").replaceAll("_", " "), run, key)),
    weight === undefined
      ? null
      : fact("Mean weight", number(weight, 4), changed === undefined ? null : `${percent(changed)} changed`),
    cut === undefined ? null : fact("Cut off", percent(cut)),
  ];
  const count = run.alarms.length;
  const alarms = `${count} alarm${count > 1 ? "s" : ""}`;
  return element(
    "article",
    { class: "card run", style: `--own: ${styleOf(ownerOf(i).color)}` },
    element("h2", {}, run.name),
    element("p", { class: "status" }, status.filter(Boolean).join(" · ")),
    run.max_steps ? element("div", { class: "progress" }, element("i", { style: width })) : null,
    methods ? element("p", { class: "methods" }, methods) : null,
    ...(DATA.runs.length <= 3 ? notes(aboutMethods(run)) : []),
    element("dl", { class: "facts" }, ...facts),
    count ? element("a", { class: "alarm-count", href: "#alarms" }, alarms) : null,
    ...notes([
      run.code && `Code: ${run.code}.`,
      run.resumed.length && `Resumed at step ${run.resumed.join(", ")}.`,
      ...run.notes,
    ]),
  );
}

// Every curve as the page has it; written when somebody asks for it.
function curvesAsCsv() {
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
  const lines = DATA.runs.flatMap(({ name, curves }) =>
    Object.entries(curves).flatMap(([key, [steps, values]]) =>
      steps.map((step, i) => [quoted(name), quoted(key), step, values[i]].join()),
    ),
  );
  return URL.createObjectURL(new Blob([["run,key,step,value", ...lines].join("\n")], { type: "text/csv" }));
}

function runsSection() {
  const section = document.getElementById("runs");
  const redraw = (changes) => (Object.assign(state, changes), runsSection(), redrawAll());
  const chip = ({ name, color: own }, i) =>
    element(
      "button",
      {
        type: "button",
        class: "chip",
        id: `chip-${i}`,
        "aria-pressed": String(!state.hidden.has(name)),
        style: `--own: ${styleOf(own)}`,
        onclick: () => toggle(name),
      },
      name,
    );
  const band = (text) => element("span", { class: "band" }, text);
  const apart = () => ((state.together = !state.together), state.hidden.clear(), build());
  const seeds = DATA.groups.some((group) => group.runs.length > 1)
    ? [
        element(
          "button",
          { type: "button", class: "quiet", id: "seeds", onclick: apart },
          state.together ? "Show seeds apart" : "Put seeds together",
        ),
        state.together ? band("line: mean of the seeds, band: lowest to highest") : null,
      ]
    : [];
  const levels = ["as logged", "smooth", "smoother"];
  const csv = { class: "quiet", id: "csv", download: "curves.csv", href: "#" };
  csv.onclick = (event) => (event.currentTarget.href = curvesAsCsv());
  const over = [
    segments("Draw the curves over", "over", ["steps", "tokens"], state.over, (name) => redraw({ over: name })),
    state.over === "tokens" ? band(DATA.tokens) : null,
  ];
  const drawing = [
    ...(DATA.tokens ? over : []),
    segments("Smooth the curves", "smooth", levels, levels[state.smooth], (name) =>
      redraw({ smooth: levels.indexOf(name) }),
    ),
    segments("Scale of the curves", "y", ["linear", "log"], state.y, (name) => redraw({ y: name })),
    element("a", csv, "Curves as CSV"),
  ];
  const focused = section.contains(document.activeElement) ? document.activeElement.id : "";
  const hint = withLooks().length ? band("Click on a curve to see the completions of that step.") : null;
  section.replaceChildren(
    element("div", { class: "run-cards" }, ...DATA.runs.map(runCard)),
    ...(DATA.runs.length > 3 ? notes([...new Set(DATA.runs.flatMap(aboutMethods))]) : []),
    element("div", { class: "chips", id: "chips" }, ...(series().length > 1 ? series().map(chip) : []), ...seeds, hint),
    element("div", { class: "chips", id: "drawing" }, ...drawing),
  );
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function toggle(name) {
  state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
  if (!shown().length) state.hidden.clear();
  runsSection();
  redrawAll();
}
