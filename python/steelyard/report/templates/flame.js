"use strict";
// Draws one flame graph from the data beside it. Names are set as text only; nothing here reads anything outside this page.
(() => {
  const me = document.currentScript, id = me.dataset.flame;
  const figure = document.getElementById(id), data = JSON.parse(document.getElementById(`${id}-data`).textContent);
  const part = (name) => figure.querySelector(`.flame-${name}`);
  const view = part("view"), detail = part("detail"), search = figure.querySelector("input"), turn = part("turn"), reset = part("reset"), side = part("side");
  const around = part("around"), fold = part("fold");
  const SVG = "http://www.w3.org/2000/svg", ROW = 18, LETTER = 6.63, NARROW = 0.4;
  const two = data.samples.length === 2;
  const changed = two && data.changed ? new Set(data.changed) : null;
  // A function without a name is known by its module only.
  const called = ([name, module]) => name.startsWith("[") && module ? `${name} [${module}]` : name;
  const DEEP = 64, CHAIN_FROM = 24, CHAIN = 4;

  // What is drawn: boxes with one name or, where frames were folded, several. `up` holds callers, which stand above
  // the function that was asked for; box 0 is the root.
  function model(parent, names, samples, { merged = {}, up = null, deep = null } = {}) {
    const children = parent.map(() => []);
    parent.forEach((above, box) => { if (box) children[above].push(box); });
    const word = (box) => {
      const all = names[box];
      if (!all.length) return "all";
      if (all[0] < 0) return `… ${(merged[box] || 0).toLocaleString("en")} narrower`;
      const first = called(data.names[all[0]]);
      if (deep && deep[box] > 1) return `${first} ×${deep[box]} deep`;
      return all.length > 1 ? `${first} … ${called(data.names[all[all.length - 1]])} (${all.length} frames)` : first;
    };
    const words = parent.map((_, box) => word(box));
    for (const list of children) list.sort((a, b) => (names[a][0] < 0) - (names[b][0] < 0) || (words[a] < words[b] ? -1 : words[a] > words[b] ? 1 : a - b));
    return { parent, names, samples, merged, up, children, words };
  }
  const whole = model(data.parent, data.name.map((name, box) => box ? [name] : []), data.samples, { merged: data.merged });
  const depth = (() => { const depthOf = [0]; data.parent.forEach((above, box) => { if (box) depthOf[box] = depthOf[above] + 1; }); return depthOf.reduce((most, one) => Math.max(most, one), 0); })();

  // The same samples in fewer rows: a function that calls itself is one box, and far from the root so is a chain of
  // calls without a branch. Widths stay what they were.
  function folded() {
    const parent = [-1], names = [[]], samples = data.samples.map((side) => [side[0]]), merged = {}, deep = [1], changes = [];
    const sum = (boxes, at) => boxes.reduce((all, box) => all + data.samples[at][box], 0);
    // Children of some boxes by name, through calls of the function by itself.
    function below(boxes, name) {
      const groups = new Map(), waiting = boxes.flatMap((box) => whole.children[box].map((child) => [child, 1]));
      let most = 1;
      while (waiting.length) {
        const [box, times] = waiting.pop();
        if (name >= 0 && data.name[box] === name) { most = Math.max(most, times + 1); for (const child of whole.children[box]) waiting.push([child, times + 1]); continue; }
        const group = groups.get(data.name[box]);
        if (group) group.push(box); else groups.set(data.name[box], [box]);
      }
      return { groups, most };
    }
    const waiting = [{ box: 0, sources: [0], name: -2, depth: 0 }];
    while (waiting.length) {
      let { box, sources, name, depth } = waiting.pop();
      let { groups, most } = below(sources, name);
      deep[box] = most;
      const chain = [...names[box]];
      let inner = groups;
      while (depth >= CHAIN_FROM && most === 1 && inner.size === 1) {
        const [next, boxes] = [...inner][0];
        if (next < 0 || samples.some((side, at) => sum(boxes, at) !== side[box])) break;
        const further = below(boxes, next);
        if (further.most > 1) break;
        chain.push(next);
        inner = further.groups;
      }
      if (chain.length >= CHAIN) { names[box] = chain; groups = inner; }
      for (const [next, boxes] of groups) {
        const at = parent.length;
        parent.push(box); names.push([next]); deep.push(1);
        samples.forEach((side, which) => side.push(sum(boxes, which)));
        if (next < 0) merged[at] = boxes.reduce((all, one) => all + (data.merged[one] || 0), 0);
        if (changed && boxes.some((one) => changed.has(one))) changes.push(at);
        waiting.push({ box: at, sources: boxes, name: next, depth: depth + 1 });
      }
    }
    return { ...model(parent, names, samples, { merged, deep }), changed: new Set(changes) };
  }

  // Everything about one function: who calls it above, what it calls below. A call within a call of it counts once.
  function sandwich(name) {
    const parent = [-1], names = [[name]], samples = data.samples.map(() => [0]), up = [false], merged = {};
    const inside = new Map();
    function child(box, next, isUp) {
      const key = `${box},${next},${isUp}`;
      if (inside.has(key)) return inside.get(key);
      const at = parent.length;
      inside.set(key, at);
      parent.push(box); names.push([next]); up.push(isUp);
      samples.forEach((side) => side.push(0));
      return at;
    }
    const add = (to, from) => samples.forEach((side, at) => { side[to] += data.samples[at][from]; });
    const waiting = [0];
    while (waiting.length) {
      const box = waiting.pop();
      if (!box || data.name[box] !== name) { waiting.push(...whole.children[box]); continue; }
      add(0, box);
      for (let above = data.parent[box], at = 0; above > 0; above = data.parent[above]) { at = child(at, data.name[above], true); add(at, box); }
      const inner = whole.children[box].map((one) => [one, 0]);
      while (inner.length) {
        const [one, below] = inner.pop(), at = child(below, data.name[one], false);
        add(at, one);
        if (data.name[one] < 0) merged[at] = (merged[at] || 0) + (data.merged[one] || 0);
        for (const next of whole.children[one]) inner.push([next, at]);
      }
    }
    return model(parent, names, samples, { merged, up });
  }

  let drawn = depth > DEEP ? folded() : whole;
  let shown = two ? 1 : 0, zoom = 0, here = 0, icicle = false, wanted = "";
  const size = (box) => drawn.samples[shown][box];
  const share = (box, at = shown) => data.totals[at] ? drawn.samples[at][box] / data.totals[at] : 0;
  const percent = (ratio) => `${(100 * ratio).toFixed(Math.abs(ratio) >= 0.1 ? 1 : 2)}\u202f%`;
  const own = (box, at) => drawn.samples[at][box] - drawn.children[box].reduce((sum, child) => drawn.up && drawn.up[child] ? sum : sum + drawn.samples[at][child], 0);
  const nameOf = (box) => drawn.names[box].length && drawn.names[box][0] >= 0 ? data.names[drawn.names[box][0]] : null;
  const isChange = (box) => changed !== null && (drawn === whole ? changed.has(box) : Boolean(drawn.changed && drawn.changed.has(box)));

  function colour(box) {
    if (two) {
      if (!isChange(box)) return "var(--diff-same)";
      const difference = share(box, 1) - share(box, 0);
      // The root of a share's change: a change of 1 % must be visible beside one of 80 %.
      const strength = Math.round(30 + 70 * Math.min(1, Math.sqrt(Math.abs(difference))));
      return `color-mix(in srgb, var(${difference > 0 ? "--diff-up" : "--diff-down"}) ${strength}%, var(--diff-same))`;
    }
    const name = nameOf(box);
    if (name === null) return "var(--tax-generic)";
    const category = name[2];
    return category ? `var(--tax-${category}, var(--tax-user))` : "var(--tax-generic)";
  }

  // Where each box stands: left edge and width as shares of what is zoomed into, and its depth. No recursion: stacks
  // may be a thousand frames deep.
  function layout() {
    const placed = [], line = [];
    for (let box = zoom; box >= 0; box = drawn.parent[box]) line.unshift(box);
    line.slice(0, -1).forEach((box, depth) => placed.push({ box, x: 0, width: 1, depth, past: true }));
    const all = size(zoom) || 1, waiting = [{ box: zoom, x: 0, width: 1, depth: line.length - 1 }];
    while (waiting.length) {
      const place = waiting.pop();
      placed.push(place);
      const x = { true: place.x, false: place.x };
      for (const child of drawn.children[place.box]) {
        const width = size(child) / all, isUp = Boolean(drawn.up && drawn.up[child]);
        if (width > 0) waiting.push({ box: child, x: x[isUp], width, depth: place.depth + (isUp ? -1 : 1) });
        x[isUp] += width;
      }
    }
    return placed;
  }

  let places = new Map(), marks = new Map();
  function draw(across) {
    const width = Math.max(240, across || view.clientWidth), all = layout();
    const seen = all.filter((place) => place.width * width >= NARROW);
    const high = seen.reduce((most, place) => Math.min(most, place.depth), 0), rows = seen.reduce((most, place) => Math.max(most, place.depth), 0) - high;
    // Callers stand above and callees below, whichever way the whole is drawn.
    const isDown = icicle || drawn.up !== null;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("width", width); svg.setAttribute("height", (rows + 1) * ROW + 1); svg.setAttribute("viewBox", `0 0 ${width} ${(rows + 1) * ROW + 1}`);
    places = new Map(all.map((place) => [place.box, place])); marks = new Map();
    for (const place of seen) {
      const group = document.createElementNS(SVG, "g"), rect = document.createElementNS(SVG, "rect");
      const x = place.x * width, y = (isDown ? place.depth - high : rows - place.depth) * ROW, wide = place.width * width;
      rect.setAttribute("x", x.toFixed(2)); rect.setAttribute("y", y); rect.setAttribute("width", Math.max(0.3, wide).toFixed(2)); rect.setAttribute("height", ROW - 1); rect.setAttribute("rx", 1.5);
      rect.style.fill = colour(place.box);
      group.dataset.box = place.box;
      if (place.past) group.classList.add("past");
      if (drawn.up && place.depth === 0) group.classList.add("asked");
      group.append(rect);
      const letters = Math.floor((wide - 6) / LETTER);
      if (letters >= 3) {
        const text = document.createElementNS(SVG, "text"), name = drawn.words[place.box];
        text.setAttribute("x", (x + 3).toFixed(2)); text.setAttribute("y", y + 12.5);
        text.textContent = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
        group.append(text);
      }
      marks.set(place.box, group);
      svg.append(group);
    }
    view.replaceChildren(svg);
    reset.hidden = zoom === 0 && !drawn.up;
    fold.hidden = Boolean(drawn.up) || depth <= CHAIN_FROM; around.hidden = nameOf(here) === null || Boolean(drawn.up && here === 0);
    find(); mark(here, false);
    if (drawn.up) view.scrollTop = Math.max(0, -high * ROW - view.clientHeight / 2); else if (!icicle) view.scrollTop = view.scrollHeight;
  }

  function sentence(box) {
    const isCaller = Boolean(drawn.up && drawn.up[box]);
    const counted = (at) => `${percent(share(box, at))} (${(drawn.samples[at][box] / data.scales[at]).toLocaleString("en")} ${data.unit}${isCaller ? ` of ${drawn.words[0]}` : `, ${percent(data.totals[at] ? own(box, at) / data.totals[at] : 0)} its own`})`;
    const name = nameOf(box);
    const where = name && name[1] && !drawn.words[box].endsWith(`[${name[1]}]`) ? ` [${name[1]}]` : "", kind = name && data.titles[name[2]] ? ` · ${data.titles[name[2]]}` : "";
    if (!two) return `${where}${kind}: ${counted(0)}`;
    const noise = changed === null || drawn.up ? "not judged" : isChange(box) ? "a change" : "may be noise";
    const difference = 100 * (share(box, 1) - share(box, 0));
    return `${where}: ${data.sides[0]} ${counted(0)}, ${data.sides[1]} ${counted(1)}, difference ${difference >= 0 ? "+" : "−"}${Math.abs(difference).toFixed(2)} points, ${noise}`;
  }
  function tell(box) {
    const strong = document.createElement("strong");
    strong.textContent = drawn.words[box];
    detail.replaceChildren(strong, sentence(box));
  }
  function mark(box, scroll = true) {
    view.querySelectorAll(".here").forEach((group) => group.classList.remove("here"));
    here = box;
    around.hidden = nameOf(box) === null || Boolean(drawn.up && box === 0);
    const group = marks.get(box);
    if (group && document.activeElement === view) { group.classList.add("here"); if (scroll) group.scrollIntoView({ block: "nearest" }); }
    tell(box);
  }
  function find() {
    const text = wanted.toLowerCase(), found = part("found");
    view.querySelectorAll(".found").forEach((group) => group.classList.remove("found"));
    if (!text) { found.textContent = ""; return; }
    // A match within a match counts once.
    let sum = 0, boxes = 0;
    const waiting = [[0, false]];
    while (waiting.length) {
      const [box, within] = waiting.pop();
      const hit = drawn.names[box].some((number) => number >= 0 && (data.names[number][0].toLowerCase().includes(text) || data.names[number][1].toLowerCase().includes(text)));
      if (hit) { boxes += 1; if (!within && !(drawn.up && drawn.up[box])) sum += size(box); const group = marks.get(box); if (group) group.classList.add("found"); }
      for (const child of drawn.children[box]) waiting.push([child, within || hit]);
    }
    found.textContent = boxes ? `${percent(sum / (data.totals[shown] || 1))} in ${boxes.toLocaleString("en")} boxes` : "no function has that in its name";
  }
  function into(box) {
    if (drawn.up) { if (nameOf(box) !== null) about(box); return; }
    if (box && nameOf(box) === null) return;
    zoom = box; here = box; draw();
  }
  const isFolded = () => fold.getAttribute("aria-pressed") === "true";
  function about(box) { const name = nameOf(box); if (name === null) return; drawn = sandwich(data.names.indexOf(name)); zoom = 0; here = 0; draw(); }
  function back() { if (drawn.up) drawn = isFolded() ? folded() : whole; zoom = 0; here = 0; draw(); }

  const boxOf = (event) => { const group = event.target.closest && event.target.closest("g[data-box]"); return group ? Number(group.dataset.box) : null; };
  view.addEventListener("click", (event) => { const box = boxOf(event); if (box !== null) into(!drawn.up && box === zoom && box ? drawn.parent[box] : box); });
  view.addEventListener("mousemove", (event) => { const box = boxOf(event); if (box !== null) tell(box); });
  view.addEventListener("mouseleave", () => tell(here));
  view.addEventListener("focus", () => mark(here)); view.addEventListener("blur", () => view.querySelectorAll(".here").forEach((group) => group.classList.remove("here")));
  const inner = (box, isUp = false) => { const list = drawn.children[box].filter((child) => size(child) > 0 && Boolean(drawn.up && drawn.up[child]) === isUp); return list.reduce((best, child) => best === null || size(child) > size(best) ? child : best, null); };
  function beside(box, step) {
    const depth = places.get(box) ? places.get(box).depth : 0;
    const row = [...places.values()].filter((place) => place.depth === depth && marks.has(place.box)).sort((a, b) => a.x - b.x);
    const at = row.findIndex((place) => place.box === box) + step;
    return row[at] ? row[at].box : box;
  }
  view.addEventListener("keydown", (event) => {
    // Up and down are what they look like: among callers the way up leads further from the function.
    const isDown = icicle || drawn.up !== null, isUp = Boolean(drawn.up && (drawn.up[here] || here === 0));
    const away = () => inner(here) ?? here, home = () => Math.max(0, drawn.parent[here]);
    const moves = {
      ArrowUp: isUp ? () => inner(here, true) ?? here : isDown ? home : away,
      ArrowDown: drawn.up && drawn.up[here] ? home : isDown ? away : home,
      ArrowLeft: () => beside(here, -1), ArrowRight: () => beside(here, 1), Home: () => zoom,
    };
    if (moves[event.key]) { event.preventDefault(); mark(moves[event.key]()); }
    else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); into(here); }
    else if (event.key === "Escape") { event.preventDefault(); back(); }
    else if (event.key === "s") { event.preventDefault(); about(here); }
    else if (event.key === "/") { event.preventDefault(); search.focus(); }
  });
  search.addEventListener("input", () => { wanted = search.value.trim(); find(); });
  search.addEventListener("keydown", (event) => { if (event.key === "Escape") { search.value = ""; wanted = ""; find(); view.focus(); } });
  turn.addEventListener("click", () => { icicle = !icicle; turn.setAttribute("aria-pressed", icicle); turn.textContent = icicle ? "Flame graph" : "Icicle"; draw(); });
  reset.addEventListener("click", () => { back(); view.focus(); });
  around.addEventListener("click", () => { about(here); view.focus(); });
  fold.addEventListener("click", () => { fold.setAttribute("aria-pressed", !isFolded()); drawn = isFolded() ? folded() : whole; zoom = 0; here = 0; draw(); });
  if (side) side.addEventListener("click", () => { shown = 1 - shown; side.textContent = `Widths of ${data.sides[shown]}`; if (!size(zoom)) zoom = 0; draw(); });

  function legend() {
    const entries = two
      ? [["var(--diff-up)", `more in ${data.sides[1]}`], ["var(--diff-down)", `less in ${data.sides[1]}`], ["var(--diff-same)", changed === null ? "not judged" : "no change beyond noise"]]
      : [...new Set(data.names.map((name) => name[2]))].filter((category) => data.titles[category]).sort((a, b) => Object.keys(data.titles).indexOf(a) - Object.keys(data.titles).indexOf(b)).map((category) => [`var(--tax-${category}, var(--tax-user))`, data.titles[category]]);
    part("legend").replaceChildren(...entries.map(([fill, text]) => { const entry = document.createElement("span"), key = document.createElement("i"); key.style.background = fill; entry.append(key, text); return entry; }));
  }
  fold.setAttribute("aria-pressed", drawn !== whole);
  let width = 0;
  new ResizeObserver(() => { if (view.clientWidth !== width) { width = view.clientWidth; draw(); } }).observe(view);
  window.addEventListener("beforeprint", () => draw(690)); window.addEventListener("afterprint", () => draw());
  legend(); draw(); tell(0);
  figure.dataset.drawn = "yes";
})();
