"use strict";
// Makes it possible to choose a language and to move the limits. Without this script, the rest of the page is complete.
// It draws like `charts.py` (outline) and `sections/limits.py` (steps, beyond), which draw all languages together.
(() => {
  const HEIGHT = 40;
  const rules = JSON.parse(document.getElementById("what-if").textContent);
  const language = document.getElementById("language");
  const group = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const limitOf = (value) => (value >= 1000 ? group(Math.round(value)) : String(Number(value.toPrecision(6))));
  const documents = (number) => `${group(number)} document${number === 1 ? "" : "s"}`;
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const add = (left, right) => left.map((number, place) => number + right[place]);

  function percent(share) {
    if (share > 0 && share < 0.0005) return "<\u202f0.1\u202f%";
    if (share === 0 || (share >= 0.0995 && (share < 0.995 || share === 1))) return `${Math.round(100 * share)}\u202f%`;
    return `${Math.min(100 * share, 99.9).toFixed(1)}\u202f%`;
  }

  // Returns the entry of the chosen language, or the entries of all languages that have documents.
  function chosen(rule) {
    const all = rules[rule].languages;
    if (!language.value) return Object.values(all);
    return all[language.value] ? [all[language.value]] : [];
  }

  function steps(rule) {
    const none = new Array(rules[rule].edges.length + 1).fill(0);
    return chosen(rule).reduce((total, entry) => add(total, entry.steps), none);
  }

  // Returns the number of documents that the rule would remove with its edge number `place` as the limit.
  function removed(rule, found, place) {
    return sum(rule.startsWith("min_") ? found.slice(0, place + 1) : found.slice(place + 1));
  }

  // Returns how many documents of each step are removed. A minimum removes the lowest values, a maximum the highest.
  function beyond(rule, found, number) {
    const result = found.map(() => 0);
    const places = [...found.keys()];
    let rest = number;
    for (const place of rule.startsWith("min_") ? places : places.reverse()) {
      result[place] = Math.min(rest, found[place]);
      rest -= result[place];
    }
    return result;
  }

  function outline(numbers, peak) {
    const scale = peak ? HEIGHT / Math.log1p(peak) : 0;
    const parts = numbers.map((number, place) => `V${(HEIGHT - Math.log1p(number) * scale).toFixed(1)}H${place + 1}`);
    return `M0 ${HEIGHT}${parts.join("")}V${HEIGHT}Z`;
  }

  // Returns the horizontal position of a value in the histogram, whose steps have width 1.
  function position(value, edges) {
    const place = edges.findIndex((edge) => edge >= value);
    if (place < 0) return edges.length;
    if (place === 0 || edges[place] === value) return place + 1;
    return place + (value - edges[place - 1]) / (edges[place] - edges[place - 1]);
  }

  // Returns the state of a rule's control: the limit of the slider if it was moved, else the configured limits.
  function state(control) {
    const rule = control.dataset.rule;
    const slider = control.querySelector("input");
    const found = steps(rule);
    const entries = chosen(rule);
    const now = sum(entries.map((entry) => entry.now));
    const limits = entries.flatMap((entry) => entry.limits);
    if (slider.dataset.moved) {
      const limit = rules[rule].edges[slider.value];
      const number = removed(rule, found, Number(slider.value));
      return { rule, found, now, number, from: limit, to: limit, moved: true, gone: beyond(rule, found, number) };
    }
    const none = found.map(() => 0);
    const gone = entries.reduce((total, entry) => add(total, beyond(rule, entry.steps, entry.now)), none);
    const from = limits.length ? Math.min(...limits) : null;
    const to = limits.length ? Math.max(...limits) : null;
    return { rule, found, now, number: now, from, to, moved: false, gone };
  }

  function say(one) {
    const total = sum(one.found);
    const share = total ? percent(one.number / total) : "–";
    const result = `removes ${documents(one.number)} (${share})`;
    if (one.moved) return `limit ${limitOf(one.from)} ${result}; the configured limits remove ${group(one.now)}`;
    if (one.from === null) return "no limit";
    const limit =
      one.from === one.to
        ? limitOf(one.from)
        : `${limitOf(one.from)} to ${limitOf(one.to)} (depending on the language)`;
    return `limit ${limit} ${result}`;
  }

  function draw(card) {
    const states = [...card.querySelectorAll(".control")].map((control) => {
      const one = state(control);
      control.querySelector("output").textContent = say(one);
      const slider = control.querySelector("input");
      const edges = rules[one.rule].edges;
      if (!one.moved) {
        const free = one.rule.startsWith("min_") ? edges[0] : edges[edges.length - 1];
        const limit = one.from === null ? free : (one.from + one.to) / 2;
        slider.value = Math.round(position(limit, edges)) - 1;
      }
      slider.setAttribute("aria-valuetext", say(one));
      return one;
    });
    const edges = rules[states[0].rule].edges;
    const found = states[0].found;
    const peak = Math.max(...found);
    const drawing = card.querySelector("svg");
    drawing.querySelector(".all").setAttribute("d", outline(found, peak));
    drawing.querySelector(".beyond").setAttribute("d", outline(states.map((one) => one.gone).reduce(add), peak));
    drawing.querySelectorAll(".band, .line").forEach((mark) => mark.remove());
    states.filter((one) => one.from !== null).forEach((one) => {
      const [low, high] = [position(one.from, edges), position(one.to, edges)];
      const mark = (name, values) => {
        const element = document.createElementNS(drawing.namespaceURI, name);
        Object.entries(values).forEach(([key, value]) => element.setAttribute(key, value));
        drawing.append(element);
      };
      mark("rect", { class: "band", x: low, y: 0, width: high - low, height: HEIGHT });
      mark("path", { class: "line", d: `M${low} 0V${HEIGHT}M${high} 0V${HEIGHT}` });
    });
  }

  const cards = [...document.querySelectorAll(".limit")];
  cards.forEach((card) => card.querySelectorAll("input").forEach((slider) => {
    slider.hidden = false;
    slider.addEventListener("input", () => {
      slider.dataset.moved = "yes";
      draw(card);
    });
  }));
  document.querySelector(".chooser").hidden = false;
  language.addEventListener("change", () => cards.forEach(draw));
  document.getElementById("reset").addEventListener("click", () => cards.forEach((card) => {
    card.querySelectorAll("input").forEach((slider) => delete slider.dataset.moved);
    draw(card);
  }));
  cards.forEach(draw);
})();
