// What the curves are drawn over: optimizer steps, tokens or hours, as far as the logs of the runs have them. What is
// chosen stands in the address, #over=tokens, so that a link shows the same.
"use strict";

// For each choice the columns that serve it, the best first, with what the page says of each.
const AXES = {
  steps: { columns: {} },
  tokens: {
    columns: {
      generated_tokens:
        "Tokens that were generated so far, those of groups that dynamic sampling drops included; prompts do not count.",
      num_tokens:
        "Tokens as TRL counts them: prompts and completions so far, those that dynamic sampling drops included.",
    },
    lacks: "no token counts (num_tokens)",
  },
  hours: {
    columns: { hours: "Time since the training began: evaluations included, pauses before it was resumed not." },
    lacks: "no times from its first entry on",
  },
};

// The best column that all of some series have; one of its own for each would compare nothing.
const columnOf = (name, all) => Object.keys(AXES[name].columns).find((key) => all.every((one) => one.axes[key]));
const canBe = (name) => name === "steps" || columnOf(name, shown()) !== undefined;

// What is chosen, or steps where a run that is shown has not what it takes.
function over() {
  return Object.hasOwn(AXES, state.over) && canBe(state.over) ? state.over : "steps";
}

function drawOver(name) {
  state.over = name;
  writeAddress();
  runsSection();
  redrawAll();
}

const inAddress = () => new URLSearchParams(location.hash.slice(1));

// A link to a section has no axis: it gets the one that is chosen.
function readAddress() {
  const address = inAddress();
  if (address.has("over")) state.over = address.get("over");
  else if (state.over !== "steps") writeAddress();
}

function writeAddress() {
  const address = inAddress();
  if (state.over === "steps") address.delete("over");
  else address.set("over", state.over);
  const text = [...address].map((pair) => pair.filter(Boolean).map(encodeURIComponent).join("=")).join("&");
  try {
    history.replaceState(null, "", `#${text}`);
  } catch {
    location.hash = text; // a page inside of another may not write its history
  }
}

// On the straight line between two neighbours; beyond the ends, on that of the last two. `from` never falls.
function between(from, to, value) {
  let [low, high] = [0, from.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    from[middle] < value ? (low = middle) : (high = middle);
  }
  const width = from[high] - from[low];
  return width ? to[low] + ((value - from[low]) * (to[high] - to[low])) / width : to[high];
}

// Where the steps of a run, or of seeds together, lie on the axis, and which step is at a place.
function axisOf({ axes }) {
  const name = over();
  if (name === "steps") return { placeOf: (step) => step, stepAt: (place) => place };
  const [steps, values] = axes[columnOf(name, shown())];
  const places = name === "hours" ? values.map((value) => value * hoursUnit().factor) : values;
  return {
    placeOf: (step) => between(steps, places, step),
    stepAt: (place) => between(places, steps, place),
  };
}

// Hours, or less for runs of less than one.
function hoursUnit() {
  const longest = Math.max(...DATA.runs.map((run) => run.axes.hours?.[1].at(-1) ?? 0));
  const units = [
    { factor: 1, name: "h" },
    { factor: 60, name: "min" },
    { factor: 3600, name: "s" },
  ];
  return units.find(({ factor }) => longest * factor >= 1) ?? units[2];
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

// A mark of the axis, and a place on it in words.
function tickText(place) {
  if (over() === "hours") return `${number(place)} ${hoursUnit().name}`;
  return over() === "tokens" ? compact.format(place) : place.toLocaleString("en");
}

function placeText(place) {
  if (over() === "steps") return `step ${Math.round(place).toLocaleString("en")}`;
  return over() === "tokens" ? `${tickText(place)} tokens` : tickText(place);
}

// The choice, and why one of them is none.
function axisChoice() {
  const missing = Object.keys(AXES).filter((name) => !canBe(name));
  const reason = (name) => {
    const key = Object.keys(AXES[name].columns).at(-1);
    const who = shown().filter((one) => !one.axes[key]);
    const hide = who.length < shown().length ? " Hide it to draw the others." : "";
    return `Not over ${name}: the log of ${who.map((one) => one.name).join(", ")} has ${AXES[name].lacks}.${hide}`;
  };
  const about = over() === "steps" ? null : AXES[over()].columns[columnOf(over(), shown())];
  return [
    element("span", { class: "band" }, "Curves over"),
    segments("Draw the curves over", "over", Object.keys(AXES), over(), drawOver, (name) => missing.includes(name)),
    ...[about, ...missing.map(reason)]
      .filter(Boolean)
      .map((text) => element("p", { class: "band axis-note" }, text)),
  ];
}
