// What a server of the live view answers, from the tables and the network in this file.
function answering(content) {
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const floats = (text) => new Float32Array(bytes(text).buffer);
  const total = (values) => values.reduce((sum, one) => sum + one, 0);
  const { targets, vocabulary } = content, numbers = new Map(vocabulary.map((word, k) => [word, k]));
  const widths = targets.map((one) => (one.classes || [0]).length);
  const firsts = widths.map((_, k) => total(widths.slice(0, k)));
  const kernels = content.kernels.map((own) => own && { orders: own.orders,
    columns: own.ngrams.map((list) => new Map(list.map((ngram, k) => [ngram, k]))),
    weights: [floats(own.weights0), floats(own.weights1)], intercepts: floats(own.intercepts),
    coefficients: floats(own.coefficients) });
  const rules = content.replace.map(([source, flags, to]) => [new RegExp(source, flags), to]);
  const pattern = new RegExp(content.pattern, "gu");
  let instance;

  function split(text) {
    for (const [rule, to] of rules) text = text.replace(rule, to);
    if (content.is_composed) text = text.normalize("NFC");
    return (content.is_lower ? text.toLowerCase() : text).match(pattern) || [];
  }

  // n-grams of words and of characters that the kernel has, each with its part of a feature
  function features(own, words) {
    const found = [], joined = [...` ${words.join(" ")} `], word = [];
    let spaces = -1;
    for (const one of joined) word.push(one === " " ? spaces++ : spaces);
    [words, joined].forEach((tokens, view) => {
      const starts = new Map(), first = view ? own.weights[0].length : 0;
      for (const n of own.orders[view]) for (let i = 0; i + n <= tokens.length; ++i) {
        const column = own.columns[view].get(tokens.slice(i, i + n).join(view ? "" : " "));
        if (column === undefined) continue;
        if (!starts.has(column)) starts.set(column, []);
        starts.get(column).push([i, n]);
      }
      const values = [...starts].map(([k, all]) => own.weights[view][k] * Math.log1p(all.length));
      const length = Math.sqrt(2 * total(values.map((one) => one * one))) || 1;
      [...starts].forEach(([column, all], k) => {
        for (const [i, n] of all) {
          const where = view ? [word[i + 1]] : [...Array(n).keys()].map((j) => i + j);
          const ngram = tokens.slice(i, i + n).join(view ? "" : " ");
          found.push({ what: view ? `'${ngram}'` : ngram, where, column: first + column,
            value: values[k] / length / all.length });
        }
      });
    });
    return found;
  }

  // scores of the network before the first word, and after each
  async function readings(words) {
    const { code, start } = content.network;
    if (!instance) {
      const names = ["exp", "expm1", "log1p", "tanh", "cos", "sin", "asinh", "sqrt", "abs", "pow", "min", "max"];
      const env = Object.fromEntries(names.map((name) => [`${name}f`, Math[name]]));
      Object.assign(env, { fabsf: Math.abs, fminf: Math.min, fmaxf: Math.max });
      instance = (await WebAssembly.instantiate(bytes(code), { env })).instance.exports;
    }
    const found = [start], place = instance.start();
    for (const word of words.slice(0, content.max_length ?? undefined)) {
      instance.step(numbers.has(word) && numbers.get(word) > 1 ? numbers.get(word) : 1);
      found.push([...new Float32Array(instance.memory.buffer, place, start.length)]);
    }
    return found;
  }

  function predicted(k, scores, moments) {
    const { classes, thresholds, mean, scale, calibration } = targets[k], { conformal } = content;
    const strata = conformal?.strata?.[k], by = conformal?.by;
    const bound = (name) => !conformal || by === "group" ? null
      : by === "class" ? strata[name] ?? 1 : conformal.quantiles[k];
    if (!classes) {
      const all = total(moments.map(([weight]) => weight));
      const between = moments.length === 2
        ? moments[0][0] * moments[1][0] / all ** 2 * (moments[0][1][0] - moments[1][1][0]) ** 2 : 0;
      const uncertainty = Math.sqrt(calibration[0] * scale ** 2 * between + calibration[1]);
      const prediction = mean + scale * scores[0], half = bound("") && bound("") * uncertainty;
      return { prediction, uncertainty, ...(half !== null && { low: prediction - half, high: prediction + half }) };
    }
    const most = Math.max(...scores), powers = scores.map((one) => Math.exp(one - most));
    const chances = thresholds ? scores.map((one) => 1 / (1 + Math.exp(-one)))
      : powers.map((one) => one / total(powers));
    const listed = classes.map((name, c) => [name, chances[c]]);
    const probabilities = Object.fromEntries(listed);
    if (thresholds) {
      const chosen = classes.filter((_, c) => chances[c] > thresholds[c]);
      return { prediction: chosen.join(", ") || "none", probabilities };
    }
    const inside = listed.filter(([name, chance]) => 1 - chance <= bound(name) + 1e-6);
    const prediction_set = inside.sort((a, b) => b[1] - a[1]).map(([name]) => name);
    return { prediction: String(classes[scores.indexOf(most)]), probabilities,
      ...(bound(classes[0]) !== null && { prediction_set }) };
  }

  async function explain(text) {
    const words = split(text), isRead = targets.some((one) => one.network);
    const prefixes = isRead ? await readings(words) : [], entries = {}, known = [], all = [];
    targets.forEach((target, k) => {
      const own = target.kernel ? kernels[k] : null, moments = [];
      known.push(own ? features(own, words) : []);
      if (own) {
        const width = own.coefficients.length / widths[k];
        moments.push([target.kernel, [...own.intercepts].map((constant, c) =>
          constant + total(known[k].map((one) => one.value * own.coefficients[c * width + one.column])))]);
      }
      if (target.network) moments.push([target.network,
        prefixes.at(-1).slice(firsts[k], firsts[k] + widths[k])]);
      const scores = moments[0][1].map((_, c) => total(moments.map(([weight, part]) => weight * part[c])));
      all.push(scores);
      entries[k + 1] = predicted(k, scores, moments);
    });
    const { kernel, network, classes, thresholds, scale, mean } = targets[0];
    const output = all[0].indexOf(Math.max(...all[0])), unit = classes ? 1 : scale;
    const centered = (values) => values[output] -
      (values.length > 1 && !thresholds ? total(values) / values.length : 0);
    let constant = classes ? 0 : mean;
    const parts = [];
    if (kernel) {
      const { coefficients, intercepts } = kernels[0], width = coefficients.length / widths[0];
      constant += unit * kernel * centered([...intercepts]);
      for (const { what, where, column, value } of known[0]) {
        const own = [...intercepts].map((_, c) => coefficients[c * width + column]);
        parts.push({ what, where, part: "kernel", contribution: unit * kernel * value * centered(own) });
      }
    }
    if (network) {
      const read = prefixes.map((scores) => unit * network * centered(scores.slice(0, widths[0])));
      constant += read[0];
      read.slice(1).forEach((score, t) => parts.push({ what: words[t], where: [t], part: "network",
        contribution: score - read[t] }));
    }
    const prediction = targets.length > 1 ? { targets: entries } : entries[1];
    return { prediction, constant, score: constant + total(parts.map((one) => one.contribution)),
      notes: notes(words), ...summed(words, parts) };
  }

  function notes(words) {
    const unknown = [...new Set(words)].filter((word) => !numbers.has(word));
    const shown = unknown.slice(0, 10).join(", ") + (unknown.length > 10 ? ", …" : "");
    return unknown.length ? [`Not in the training texts, or too rare: ${shown}`] : [];
  }

  // the contributions by n-gram, and by word in equal parts
  function summed(words, parts) {
    const lines = new Map(), places = words.map((name) => ({ name, raises: 0, lowers: 0 }));
    for (const { what, where, part, contribution } of parts) {
      if (!lines.has(what)) lines.set(what, { what, at: new Map(), kernel: 0, network: 0, contribution: 0 });
      const line = lines.get(what);
      line[part] += contribution;
      line.contribution += contribution;
      line.at.set(where.join(), where);
      for (const t of where) places[t][contribution > 0 ? "raises" : "lowers"] += contribution / where.length;
    }
    const bySize = (a, b) => Math.abs(b.contribution) - Math.abs(a.contribution);
    const ordered = [...lines.values()].sort(bySize)
      .map(({ at, ...line }) => ({ ...line, places: [...at.values()] }));
    const listed = (own) => ({ lines: own.slice(0, 10), count: own.length,
      sum: total(own.map((one) => one.contribution)) });
    return { places, elsewhere: 0, nouns: ["word", "n-gram"],
      parts: [...new Set(parts.map((one) => one.part))].sort(),
      raises: listed(ordered.filter((one) => one.contribution > 0)),
      lowers: listed(ordered.filter((one) => one.contribution <= 0)),
      by_place: places.map(({ name, raises, lowers }) => ({ what: name, contribution: raises + lowers })).sort(bySize) };
  }

  const about = { task: "text", estimator: content.estimator, shares: content.shares, prompt: "Text",
    place: "word", sample: "", has_changes: false, examples: [], served: "This page needs no server.",
    meaning: content.meaning };
  return async (_, body) => body ? explain(body.input) : about;
}
