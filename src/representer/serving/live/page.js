"use strict";
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let about, shown, chosen = {}, waiting, asked = 0, scale = 3;  // scale: digits that are shown

// Everything shown is set as text: what is typed never becomes markup.
function make(tag, values = {}, ...children) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(values)) {
    if (name in one) one[name] = value; else one.setAttribute(name, value);
  }
  one.append(...children);
  return one;
}

function draw(tag, values, ...children) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(values)) one.setAttribute(name, value);
  one.append(...children);
  return one;
}

const digitsFor = (most) => Math.min(8, Math.max(most < 1000 ? 2 : 0, 3 - Math.ceil(Math.log10(most || 1))));
const number = (value, digits = scale) => {
  const text = Math.abs(value).toFixed(digits);
  return (value < 0 && Number(text) !== 0 ? "−" : "") + text;
};
const signed = (value) => (Number(value.toFixed(scale)) > 0 ? "+" : "") + number(value);
const sign = (value) => Number(value.toFixed(scale)) === 0 ? "" : value > 0 ? "up" : "down";
const color = (value, most) => `color-mix(in srgb, var(--${value > 0 ? "heat" : "against"}) ` +
  `${(85 * Math.min(1, Math.abs(value) / (most || 1))).toFixed(1)}%, transparent)`;
const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

async function ask(path, body) {
  if (typeof offline !== "undefined") return offline(path, body);
  const how = body && { method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify(body) };
  const answer = await fetch(path, how);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

async function update() {
  const turn = ++asked, start = performance.now();
  if (chosen.input !== undefined && !chosen.input.trim()) {
    clear();
    return say("Type something, or choose an example.");
  }
  try {
    const found = await ask("/live", chosen);
    if (turn !== asked) return;  // something else was typed in the meantime
    show(found);
    const answer = document.querySelector(".answer").textContent;
    const time = `${(performance.now() - start).toFixed(0)} ms`;
    say([`${answer}, found in ${time}`, ...found.notes].join(". "));
  } catch (error) {
    if (turn === asked) say(error.message, true);
  }
}

function say(text, isError = false) {
  at("status").textContent = text;
  at("status").className = isError ? "error" : "soft";
  if (isError) clear();
}

function clear() {
  at("result").hidden = true;  // what was found for something else
  shown = undefined;
}

function type(text, isNew = true) {
  at("input").value = text;
  if (isNew) at("example").value = "";
  chosen = { input: text };
  update();
}

function show(found) {
  shown = found;
  at("result").hidden = false;
  at("what-if").hidden = true;
  showPrediction(found.prediction);
  scale = digitsFor(largest([found.raises.sum, found.lowers.sum, found.score]));
  showPlaces(found);
  showLines(found);
  at("in-time").hidden = !found.channels;
  if (found.channels) showTime(found);
}

function showPrediction(entry) {
  const box = at("prediction");
  box.replaceChildren();
  const targets = entry.targets ? Object.entries(entry.targets) : [["", entry]];
  for (const [name, one] of targets) {
    const isNumber = typeof one.prediction === "number";
    if (isNumber) scale = digitsFor(largest([one.prediction, one.uncertainty || 0]));
    let text = isNumber ? number(one.prediction) : one.prediction;
    if (one.uncertainty !== undefined) text += ` ± ${number(one.uncertainty)}`;
    if (one.low !== undefined) text += ` (${number(one.low)} to ${number(one.high)})`;
    if (one.prediction_set) text += ` (set: ${one.prediction_set.join(", ") || "empty"})`;
    box.append(make("p", { className: "answer", textContent: (name && `${name}: `) + text }));
    const rows = one.next ? one.next.map((own) => [own.token, own.probability, own.input])
      : Object.entries(one.probabilities || {}).sort((a, b) => b[1] - a[1]).slice(0, 12);
    const bars = make("div", { className: "bars" });
    for (const [label, chance, next] of rows) {
      const bar = make("div", { className: "bar" });
      bar.style.setProperty("width", `${100 * chance}%`);
      const word = next === undefined ? make("span", { textContent: label })
        : make("button", { type: "button", textContent: label, title: "continue the text with it" });
      if (next !== undefined) word.addEventListener("click", () => type(next));
      bars.append(word, make("div", {}, bar), make("span", { textContent: `${(100 * chance).toFixed(1)} %` }));
    }
    if (rows.length) box.append(bars);
  }
}

function showPlaces({ places, drawing, points, edges }) {
  at("in-place").hidden = !places.length;
  at("drawing").replaceChildren();
  const most = largest(places.flatMap((one) => [one.raises, one.lowers]));
  at("places").replaceChildren(...places.map((one, place) => {
    const label = `${one.name}: raises ${number(one.raises)}, lowers ${number(-one.lowers)}`;
    const button = make("button", { type: "button", className: "place", title: label,
      textContent: one.name, disabled: !about.has_changes, "aria-label": label });
    button.style.setProperty("--raises", most && one.raises / most);
    button.style.setProperty("--lowers", most && -one.lowers / most);
    button.addEventListener("click", () => change(place));
    return button;
  }));
  if (drawing) {
    const parsed = new DOMParser().parseFromString(drawing, "image/svg+xml").documentElement;
    at("drawing").append(document.importNode(parsed, true));
  }
  if (points) at("drawing").append(graph(places, points, edges));
}

at("drawing").addEventListener("click", (event) => {
  const own = event.target.closest("[class*='atom-']");
  const found = own && [...own.getAttribute("class").matchAll(/atom-(\d+)/g)];
  if (found && found.length === 1 && about.has_changes) change(Number(found[0][1]));
});

function graph(places, points, edges) {
  const sums = places.map((one) => one.raises + one.lowers), most = largest(sums);
  const [x, y] = [(v) => 20 + 360 * points[v][0], (v) => 20 + 240 * points[v][1]];
  const picture = draw("svg", { viewBox: "0 0 400 290", role: "img",
    "aria-label": "the graph; below it are its nodes" });
  for (const [u, v] of edges) {
    picture.append(draw("line", { x1: x(u), y1: y(u), x2: x(v), y2: y(v), stroke: "currentColor",
      "stroke-opacity": .45 }));
  }
  sums.forEach((value, v) => {
    const node = draw("circle", { cx: x(v), cy: y(v), r: 9, stroke: "currentColor",
      class: `node atom-${v}` }, draw("title", {}, `${places[v].name} ${signed(value)}`));
    node.style.setProperty("fill", `color-mix(in srgb, ${color(value, most)}, var(--page) 10%)`);
    picture.append(draw("circle", { cx: x(v), cy: y(v), r: 9, fill: "var(--page)" }), node);
    if (places.length <= 40) {
      const label = places[v].name.replace(/^node /, "");
      picture.append(draw("text", { x: x(v), y: y(v) + 21, "text-anchor": "middle" }, label));
    }
  });
  return picture;
}

function light(places, isOn) {
  const buttons = at("places").children;
  for (const place of places.flat()) buttons[place]?.classList.toggle("lit", isOn);
}

function showLines(found) {
  const { raises, lowers, constant, score } = found;
  at("sum").textContent = `Score ${number(score)} = constant ${number(constant)}, ` +
    `${signed(raises.sum)} that raises it, ${signed(lowers.sum)} that lowers it`;
  showByPlace(found);
  at("by-feature").firstChild.textContent = `The same by ${found.nouns[1]}`;
  at("lines").replaceChildren(lines("Raises the score", raises, found), lines("Lowers the score", lowers, found));
}

function showByPlace({ by_place: rows, place }) {
  const most = largest(rows.map((one) => one.contribution)), listed = rows.slice(0, 10);
  const cells = listed.flatMap(({ what, contribution }) => {
    const bar = make("div", { className: `bar ${sign(contribution)}` });
    bar.style.setProperty("width", `${100 * Math.abs(contribution) / (most || 1)}%`);
    return [make("span", { textContent: what }), make("div", {}, bar),
      make("span", { className: sign(contribution), textContent: signed(contribution) })];
  });
  const rest = rows.slice(10).reduce((total, one) => total + one.contribution, 0);
  if (rows.length > 10) cells.push(make("span", { textContent: `${rows.length - 10} others` }),
    make("div"), make("span", { textContent: signed(rest) }));
  at("by-place").replaceChildren(...cells);
}

function lines(title, { lines: rows, count, sum }, { parts, places }) {
  const both = parts.length > 1 ? parts : [];
  const head = make("tr", {}, ...["sum", ...both].map((name) =>
    make("th", { scope: "col", className: "n", textContent: name })));
  head.prepend(make("td"));
  const body = rows.map((one) => {
    const name = one.what + (one.places.length > 1 ? ` (${one.places.length} places)` : "");
    const values = [one.contribution, ...both.map((part) => one[part])].map((value) =>
      make("td", { className: `n ${sign(value)}`, textContent: signed(value) }));
    const row = make("tr", { className: "line" },
      make("th", { scope: "row", className: "name", textContent: name }), ...values);
    if (places.length) {
      row.tabIndex = 0;
      for (const kind of ["mouseenter", "focus"]) row.addEventListener(kind, () => light(one.places, true));
      for (const kind of ["mouseleave", "blur"]) row.addEventListener(kind, () => light(one.places, false));
    }
    return row;
  });
  if (!count) body.push(make("tr", {}, make("td", { colSpan: 2 + both.length, textContent: "nothing" })));
  if (count > rows.length) {
    const rest = sum - rows.reduce((total, one) => total + one.contribution, 0);
    body.push(make("tr", {}, make("th", { scope: "row", textContent: `${count - rows.length} others` }),
      make("td", { className: `n ${sign(rest)}`, textContent: signed(rest) }), ...both.map(() => make("td"))));
  }
  return make("div", { className: "scroll" }, make("table", {},
    make("caption", { textContent: title }), make("thead", {}, head), make("tbody", {}, ...body)));
}

async function change(place) {
  const turn = asked, box = at("changes"), heading = at("h-changes");
  [...at("places").children].forEach((one, k) => one.setAttribute("aria-pressed", k === place));
  const name = shown.places[place].name;
  heading.textContent = `What if ${about.place} “${name}” were another?`;
  box.replaceChildren(make("p", { className: "soft", textContent: "…" }));
  at("what-if").hidden = false;
  heading.focus({ preventScroll: true });
  at("what-if").scrollIntoView({ block: "nearest" });
  try {
    const found = await ask("/live/changes", { ...chosen, place });
    if (turn !== asked) return;
    const of = found.of ? ` for “${found.of}”` : "";
    const note = found.tried ? `${found.tried} changes, each predicted by the whole model: how the ` +
      `score${of} changes. Choose one to make it.` : "There is nothing to put in its place.";
    box.replaceChildren(make("p", { className: "soft", textContent: note }),
      make("div", { className: "halves narrow" }, changes("Raises it most", found.raises, found.of),
        changes("Lowers it most", found.lowers, found.of)));
  } catch (error) {
    box.replaceChildren(make("p", { className: "error", textContent: error.message }));
  }
}

function changes(title, rows, of) {
  const body = rows.map((one) => {
    const button = make("button", { type: "button", textContent: one.name });
    button.addEventListener("click", () => type(one.input));
    const label = one.label === of ? "" : `→\u00a0${one.label}`;
    return make("tr", {}, make("td", {}, button), make("td", { className: "name", textContent: label }),
      make("td", { className: `n ${sign(one.change)}`, textContent: signed(one.change) }));
  });
  if (!rows.length) body.push(make("tr", {}, make("td", { textContent: "nothing" })));
  return make("div", { className: "scroll" },
    make("table", {}, make("caption", { textContent: title }), make("tbody", {}, ...body)));
}

function showTime(found) {
  const box = at("time"), width = Math.max(300, box.clientWidth), left = 118, row = 26;
  const x = (sample) => left + (width - left - 4) * sample / found.samples;
  box.replaceChildren();
  const axis = (top) => [0, .25, .5, .75, 1].map((part) => draw("text", { x: x(part * found.samples),
    y: top, "text-anchor": part === 1 ? "end" : "middle" }, `${(part * found.seconds).toPrecision(3)} s`));
  const named = (name, y) => draw("text", { x: left - 6, y, "text-anchor": "end" }, name);
  const picture = (label, height, children) => make("div", { className: "scroll" },
    draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children));
  const traces = found.traces.flatMap(({ name, values }, k) => {
    const most = largest(values) || 1, middle = row * (k + .5);
    const line = values.map((value, i) =>
      `${x(i * found.samples / values.length).toFixed(1)},${(middle - row * .48 * value / most).toFixed(1)}`);
    return [named(name, middle + 4), draw("polyline", { points: line.join(" "), fill: "none",
      stroke: "currentColor", "stroke-width": 1 })];
  });
  const height = row * found.traces.length + 16;
  const few = found.traces.length < found.channels.length ? `, the ${found.traces.length} of ` +
    `${found.channels.length} channels with the largest contributions` : "";
  box.append(make("h3", { textContent: `The window${few}` }),
    picture("traces of the channels", height, [...traces, ...axis(height - 4)]));
  if (found.filters.length) {
    const most = largest(found.filters.flatMap((one) => one.values)), thin = 16;
    const cells = found.filters.flatMap(({ name, values }, k) => [named(name, thin * k + 12),
      ...values.map((value, i) => {
        const from = i ? found.spans[i - 1][1] : found.spans[0][0];
        const cell = draw("rect", { x: x(from), y: thin * k, height: thin - 1,
          width: Math.max(.5, x(found.spans[i][1]) - x(from)) }, draw("title", {}, `${name} ${signed(value)}`));
        cell.style.setProperty("fill", color(value, most));
        return cell;
      })]);
    const bottom = thin * found.filters.length + 16;
    box.append(make("h3", { textContent: "Filters of the network over time" }),
      picture("contributions of the filters over time", bottom, [...cells, ...axis(bottom - 4)]));
  }
  if (found.bands.length) {
    const most = largest(found.bands.flatMap((one) => one.values));
    const head = make("tr", {}, make("td"), ...found.channels.map((name) => make("th", { textContent: name, scope: "col" })));
    const body = found.bands.map(({ name, values }) => make("tr", {}, make("th", { textContent: name, scope: "row" }),
      ...values.map((value) => {
        const cell = make("td", { className: "heat", textContent: signed(value) });
        cell.style.setProperty("background", color(value, most));
        return cell;
      })));
    box.append(make("h3", { textContent: "Bands of the kernel by channel" }),
      make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "bands by channel" },
        make("table", { className: "map" }, make("thead", {}, head), make("tbody", {}, ...body))));
  }
}

function fill(select, names) {
  select.replaceChildren(...names.map(([value, name]) => make("option", { value, textContent: name })));
}

function choose() {
  const number = Number(at("example").value), { input } = about.examples[number];
  if (input !== null) return type(input, false);
  chosen = { example: number };
  return update();
}

function listExamples() {
  const group = at("group").value;
  const own = about.examples.map((one, k) => [k, one.name, one.group]);
  fill(at("example"), own.filter((one) => one[2] === group).map(([k, name]) => [k, name]));
  if (about.prompt) at("example").append(make("option", { value: "", textContent: "typed", hidden: true }));
}

async function begin() {
  about = await ask("/live");
  const shares = Object.entries(about.shares).map(([name, share]) => `${name} ${(100 * share).toFixed(0)} %`);
  at("about").textContent = `${about.estimator}, ${shares.join(", ")} of the scores. ` +
    (about.served || "This page is served by this machine, for this machine alone.");
  at("hint").textContent = "Above: what raises the score, in blue. Below: what lowers it, in red." +
    (about.has_changes ? ` Choose ${/^[aeiou]/.test(about.place) ? "an" : "a"} ${about.place} to see what another one would change.` : "");
  at("meaning").textContent = about.meaning;
  at("typing").hidden = !about.prompt;
  at("prompt").textContent = about.prompt;
  at("input").addEventListener("input", () => {
    chosen = { input: at("input").value };
    at("example").value = "";
    clearTimeout(waiting);
    waiting = setTimeout(update, 120);
  });
  at("form").addEventListener("submit", (event) => event.preventDefault());
  const groups = [...new Set(about.examples.map((one) => one.group))];
  at("groups").hidden = groups.length < 2;
  at("examples").hidden = !about.examples.length;
  fill(at("group"), groups.map((name) => [name, name]));
  at("group").addEventListener("change", () => { listExamples(); choose(); });
  at("example").addEventListener("change", choose);
  listExamples();
  if (about.examples.length) choose(); else type(about.sample);
}

addEventListener("resize", () => { if (shown?.channels) showTime(shown); });

begin().catch((error) => say(error.message, true));
