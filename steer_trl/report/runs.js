// A card for each run, and the controls of the curves.
"use strict";

function duration(seconds) {
  if (!(seconds >= 1)) return null;
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([size_]) => seconds >= size_);
  return `${+(seconds / size).toPrecision(2)} ${unit}`;
}

// The used part of the budget that ends the run.
function budgetText({ unit, used, size }) {
  if (unit !== "tokens") return `${number(used)} of ${number(size)} ${unit}`;
  const [divisor, letter] = size >= 1e6 ? [1e6, "M"] : [1e3, "K"];
  return `${(used / divisor).toFixed(2)} of ${(size / divisor).toFixed(2)} ${letter} tokens`;
}

// The two most informative metrics: the accuracy of one try, and pass@k with the most tries.
function evaluationKeys(run) {
  const keys = Object.keys(run.curves).filter((key) => key.startsWith("eval_"));
  const tries = (key) => Number(key.split("@").at(-1));
  const pass = keys.filter((key) => /pass@\d+$/.test(key)).sort((a, b) => tries(b) - tries(a));
  return [keys.find((key) => /(avg@\d+|accuracy)$/.test(key)), pass[0]].filter(Boolean);
}

const fact = (label, value) =>
  element("div", { class: "fact" }, element("dt", {}, label), element("dd", {}, value));

function changeOf(label, run, key) {
  const ends = run.ends[key];
  return ends ? fact(label, `${number(ends[0])} → ${number(ends[1])}`) : null;
}

function runCard(run) {
  const { budget } = run;
  const isBySteps = !budget || budget.unit === "steps";
  const status = [
    run.status,
    budget ? budgetText(budget) : null,
    isBySteps && budget ? null : `step ${run.step.toLocaleString("en")}`,
    run.started && run.ended ? duration(run.ended - run.started) : null,
  ];
  const width = budget ? `width: ${100 * Math.min(1, budget.used / budget.size)}%` : "";
  const last = (name) => run.curves[DATA.names[name]]?.[1].at(-1);
  const [changed, cut] = [last("SHARE_CHANGED"), last("CLIPPED_RATIO")];
  const percent = (label, value) => (value === undefined ? null : fact(label, `${number(100 * value, 2)} %`));
  const facts = [
    run.entropy ? fact("Entropy", phraseOf(run)) : null,
    changeOf("Reward", run, DATA.names.REWARD),
    ...evaluationKeys(run).map((key) => changeOf(key.replace(/^eval_/, "").replaceAll("_", " "), run, key)),
    percent("Tokens changed", changed),
    percent("Cut off", cut),
  ];
  const count = run.alarms.length;
  const commit = run.code.commit && `Code: commit ${String(run.code.commit).slice(0, 12)}`;
  return element(
    "article",
    { class: "card run", style: `--own: ${styleOf(run.index)}` },
    element("h2", {}, breakable(run.name)),
    element("p", { class: "status" }, status.filter(Boolean).join(" · ")),
    budget ? element("div", { class: "progress" }, element("i", { style: width })) : null,
    run.weights.length ? element("p", { class: "weights" }, run.weights.join("; ")) : null,
    element("dl", { class: "facts" }, facts),
    count ? element("a", { class: "alarm-count", href: "#alarms" }, `${count} alarm${count > 1 ? "s" : ""}`) : null,
    notes([
      commit && `${commit}${run.code.is_changed === true ? ", with changes" : ""}.`,
      run.resumed.length && `Resumed at step ${run.resumed.join(", ")}.`,
      ...run.notes,
    ]),
  );
}

// The controls that choose the shown runs, the horizontal axis and the smoothing. They are rebuilt after each choice,
// and the focus stays where it was.
function showControls() {
  const holder = document.getElementById("controls");
  const apply = (changes) => (Object.assign(state, changes), showControls(), redrawAll());
  const chip = (run) => {
    const pressed = String(!state.hidden.has(run.index));
    const attributes = { type: "button", class: "chip", id: `chip-${run.index}`, onclick: () => toggle(run.index) };
    return element("button", { ...attributes, "aria-pressed": pressed }, nameOf(run));
  };
  const smooth = (name) => apply({ smooth: LEVELS.indexOf(name) });
  const focused = holder.contains(document.activeElement) ? document.activeElement.id : "";
  const hint = runsWithTokens().length ? "Click on a curve to see the completions of that step." : "";
  holder.replaceChildren(
    ...(RUNS.length > 1 ? RUNS.map(chip) : []),
    ...(TOKEN_KEY ? [segments("Draw the curves over", "over", ["steps", "tokens"], state.over, (over) => apply({ over }))] : []),
    segments("Smooth the curves", "smooth", LEVELS, LEVELS[state.smooth], smooth),
    element("span", { class: "hint" }, [state.over === "tokens" && `${TOKENS[TOKEN_KEY]}.`, hint].filter(Boolean).join(" ")),
  );
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function toggle(index) {
  state.hidden.has(index) ? state.hidden.delete(index) : state.hidden.add(index);
  if (!shownRuns().length) state.hidden.clear();
  showControls();
  redrawAll();
}
