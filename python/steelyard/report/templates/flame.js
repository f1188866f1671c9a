"use strict";
// Draws one flame graph from the data beside it. Names are set as text only; nothing here reads anything outside this page.
(() => {
  const me = document.currentScript, id = me.dataset.flame;
  const figure = document.getElementById(id), data = JSON.parse(document.getElementById(`${id}-data`).textContent);
  const part = (name) => figure.querySelector(`.flame-${name}`);
  const view = part("view"), told = part("told"), search = figure.querySelector("input"), turn = part("turn"), reset = part("reset"), side = part("side");
  const SVG = "http://www.w3.org/2000/svg", ROW = 18, LETTER = 6.63, NARROW = 0.4;
  const two = data.samples.length === 2;
  const changed = two && data.changed ? new Set(data.changed) : null;
  // A function without a name is known by its module only.
  const called = ([name, module]) => name.startsWith("[") && module ? `${name} [${module}]` : name;
  const words = [...Array(data.parent.length).keys()].map((box) => box === 0 ? "all" : data.name[box] < 0 ? `… ${(data.merged[box] || 0).toLocaleString("en")} narrower` : called(data.names[data.name[box]]));
  const children = data.parent.map(() => []);
  data.parent.forEach((above, box) => { if (box) children[above].push(box); });
  for (const list of children) list.sort((a, b) => (data.name[a] < 0) - (data.name[b] < 0) || (words[a] < words[b] ? -1 : words[a] > words[b] ? 1 : a - b));
  let shown = two ? 1 : 0, zoom = 0, here = 0, icicle = false, wanted = "";
  const size = (box) => data.samples[shown][box];
  const share = (box, at = shown) => data.totals[at] ? data.samples[at][box] / data.totals[at] : 0;
  const percent = (ratio) => `${(100 * ratio).toFixed(Math.abs(ratio) >= 0.1 ? 1 : 2)}\u202f%`;
  const own = (box, at) => data.samples[at][box] - children[box].reduce((sum, child) => sum + data.samples[at][child], 0);

  function colour(box) {
    if (two) {
      if (!changed || !changed.has(box)) return "var(--diff-same)";
      const difference = share(box, 1) - share(box, 0);
      // The root of a share's change: a change of 1 % must be visible beside one of 80 %.
      const strength = Math.round(30 + 70 * Math.min(1, Math.sqrt(Math.abs(difference))));
      return `color-mix(in srgb, var(${difference > 0 ? "--diff-up" : "--diff-down"}) ${strength}%, var(--diff-same))`;
    }
    if (box === 0 || data.name[box] < 0) return "var(--tax-generic)";
    const category = data.names[data.name[box]][2];
    return category ? `var(--tax-${category}, var(--tax-user))` : "var(--tax-generic)";
  }

  // Where each box stands: left edge and width as shares of what is zoomed into, and its depth. No recursion: stacks
  // may be a thousand frames deep.
  function layout() {
    const placed = [], line = [];
    for (let box = zoom; box >= 0; box = data.parent[box]) line.unshift(box);
    line.slice(0, -1).forEach((box, depth) => placed.push({ box, x: 0, width: 1, depth, past: true }));
    const whole = size(zoom) || 1, waiting = [{ box: zoom, x: 0, width: 1, depth: line.length - 1 }];
    while (waiting.length) {
      const place = waiting.pop();
      placed.push(place);
      let x = place.x;
      for (const child of children[place.box]) {
        const width = size(child) / whole;
        if (width > 0) waiting.push({ box: child, x, width, depth: place.depth + 1 });
        x += width;
      }
    }
    return placed;
  }

  let places = new Map(), marks = new Map();
  function draw(across) {
    const width = Math.max(240, across || view.clientWidth), all = layout();
    const seen = all.filter((place) => place.width * width >= NARROW);
    const deep = seen.reduce((most, place) => Math.max(most, place.depth), 0);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("width", width); svg.setAttribute("height", (deep + 1) * ROW + 1); svg.setAttribute("viewBox", `0 0 ${width} ${(deep + 1) * ROW + 1}`);
    places = new Map(all.map((place) => [place.box, place])); marks = new Map();
    for (const place of seen) {
      const group = document.createElementNS(SVG, "g"), rect = document.createElementNS(SVG, "rect");
      const x = place.x * width, y = (icicle ? place.depth : deep - place.depth) * ROW, wide = place.width * width;
      rect.setAttribute("x", x.toFixed(2)); rect.setAttribute("y", y); rect.setAttribute("width", Math.max(0.3, wide).toFixed(2)); rect.setAttribute("height", ROW - 1); rect.setAttribute("rx", 1.5);
      rect.style.fill = colour(place.box);
      group.dataset.box = place.box;
      if (place.past) group.classList.add("past");
      group.append(rect);
      const letters = Math.floor((wide - 6) / LETTER);
      if (letters >= 3) {
        const text = document.createElementNS(SVG, "text"), name = words[place.box];
        text.setAttribute("x", (x + 3).toFixed(2)); text.setAttribute("y", y + 12.5);
        text.textContent = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
        group.append(text);
      }
      marks.set(place.box, group);
      svg.append(group);
    }
    view.replaceChildren(svg);
    reset.hidden = zoom === 0;
    find(); mark(here, false);
    if (!icicle) view.scrollTop = view.scrollHeight;
  }

  function sentence(box) {
    const counted = (at) => `${percent(share(box, at))} (${data.samples[at][box].toLocaleString("en")} ${data.unit}, ${percent(data.totals[at] ? own(box, at) / data.totals[at] : 0)} its own)`;
    const name = data.name[box] >= 0 && box ? data.names[data.name[box]] : null;
    const where = name && name[1] && !words[box].endsWith(`[${name[1]}]`) ? ` [${name[1]}]` : "", kind = name && data.titles[name[2]] ? ` · ${data.titles[name[2]]}` : "";
    if (!two) return `${where}${kind}: ${counted(0)}`;
    const noise = changed === null ? "not judged" : changed.has(box) ? "a change" : "may be noise";
    const difference = 100 * (share(box, 1) - share(box, 0));
    return `${where}: ${data.sides[0]} ${counted(0)}, ${data.sides[1]} ${counted(1)}, difference ${difference >= 0 ? "+" : "−"}${Math.abs(difference).toFixed(2)} points, ${noise}`;
  }
  function tell(box) {
    const strong = document.createElement("strong");
    strong.textContent = words[box];
    told.replaceChildren(strong, sentence(box));
  }
  function mark(box, scroll = true) {
    view.querySelectorAll(".here").forEach((group) => group.classList.remove("here"));
    here = box;
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
      const name = data.name[box] >= 0 && box ? data.names[data.name[box]] : null;
      const hit = name !== null && (name[0].toLowerCase().includes(text) || name[1].toLowerCase().includes(text));
      if (hit) { boxes += 1; if (!within) sum += size(box); const group = marks.get(box); if (group) group.classList.add("found"); }
      for (const child of children[box]) waiting.push([child, within || hit]);
    }
    found.textContent = boxes ? `${percent(sum / (data.totals[shown] || 1))} in ${boxes.toLocaleString("en")} boxes` : "no function has that in its name";
  }
  function into(box) { if (data.name[box] < 0 && box) return; zoom = box; here = box; draw(); }

  const boxOf = (event) => { const group = event.target.closest && event.target.closest("g[data-box]"); return group ? Number(group.dataset.box) : null; };
  view.addEventListener("click", (event) => { const box = boxOf(event); if (box !== null) into(box === zoom && box ? data.parent[box] : box); });
  view.addEventListener("mousemove", (event) => { const box = boxOf(event); if (box !== null) tell(box); });
  view.addEventListener("mouseleave", () => tell(here));
  view.addEventListener("focus", () => mark(here)); view.addEventListener("blur", () => view.querySelectorAll(".here").forEach((group) => group.classList.remove("here")));
  const inner = (box) => { const list = children[box].filter((child) => size(child) > 0); return list.reduce((best, child) => best === null || size(child) > size(best) ? child : best, null); };
  function beside(box, step) {
    const depth = places.get(box) ? places.get(box).depth : 0;
    const row = [...places.values()].filter((place) => place.depth === depth && marks.has(place.box)).sort((a, b) => a.x - b.x);
    const at = row.findIndex((place) => place.box === box) + step;
    return row[at] ? row[at].box : box;
  }
  view.addEventListener("keydown", (event) => {
    const deeper = icicle ? "ArrowDown" : "ArrowUp", outer = icicle ? "ArrowUp" : "ArrowDown";
    const moves = { [deeper]: () => inner(here) ?? here, [outer]: () => Math.max(0, data.parent[here]), ArrowLeft: () => beside(here, -1), ArrowRight: () => beside(here, 1), Home: () => zoom };
    if (moves[event.key]) { event.preventDefault(); mark(moves[event.key]()); }
    else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); into(here); }
    else if (event.key === "Escape") { event.preventDefault(); into(0); }
    else if (event.key === "/") { event.preventDefault(); search.focus(); }
  });
  search.addEventListener("input", () => { wanted = search.value.trim(); find(); });
  search.addEventListener("keydown", (event) => { if (event.key === "Escape") { search.value = ""; wanted = ""; find(); view.focus(); } });
  turn.addEventListener("click", () => { icicle = !icicle; turn.setAttribute("aria-pressed", icicle); turn.textContent = icicle ? "Flame graph" : "Icicle"; draw(); });
  reset.addEventListener("click", () => { into(0); view.focus(); });
  if (side) side.addEventListener("click", () => { shown = 1 - shown; side.textContent = `Widths of ${data.sides[shown]}`; if (!size(zoom)) zoom = 0; draw(); });

  function legend() {
    const entries = two
      ? [["var(--diff-up)", `more in ${data.sides[1]}`], ["var(--diff-down)", `less in ${data.sides[1]}`], ["var(--diff-same)", changed === null ? "not judged" : "no change beyond noise"]]
      : [...new Set(data.names.map((name) => name[2]))].filter((category) => data.titles[category]).sort((a, b) => Object.keys(data.titles).indexOf(a) - Object.keys(data.titles).indexOf(b)).map((category) => [`var(--tax-${category}, var(--tax-user))`, data.titles[category]]);
    part("legend").replaceChildren(...entries.map(([fill, text]) => { const entry = document.createElement("span"), key = document.createElement("i"); key.style.background = fill; entry.append(key, text); return entry; }));
  }
  let width = 0;
  new ResizeObserver(() => { if (view.clientWidth !== width) { width = view.clientWidth; draw(); } }).observe(view);
  window.addEventListener("beforeprint", () => draw(690)); window.addEventListener("afterprint", () => draw());
  legend(); draw(); tell(0);
  figure.dataset.drawn = "yes";
})();
