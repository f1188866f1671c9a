// Tables: scroll areas that a keyboard reaches, and columns that sort. Texts stay texts; nothing is fetched.
(() => {
  // What follows a figure, and what it is worth in the base unit: as `format.py` writes figures.
  const PREFIXES = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, m: 1e-3, "µ": 1e-6, n: 1e-9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  const UNITS = { "%": 0.01, s: 1, min: 60, h: 3600, "×": 1 };

  function figure(text) {
    const found = /^[<~+]?\s*([+\-−]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([^\s\d,;(]*)/.exec(text.trim());
    if (!found) return null;
    const value = Number(found[1].replace(/,/g, "").replace("−", "-")), unit = found[2];
    // A date, an address, a name that begins with a digit: no figure.
    if (!Number.isFinite(value) || !/^(|%|×|[A-Za-zµ°/].*)$/.test(unit)) return null;
    if (unit in UNITS) {
      // 2 min 5 s.
      return [...text.matchAll(/([\d.]+)\s*(h|min|s)\b/g)].length > 1 ? [...text.matchAll(/([\d.]+)\s*(h|min|s)\b/g)].reduce((sum, part) => sum + Number(part[1]) * UNITS[part[2]], 0) : value * UNITS[unit];
    }
    const prefix = Object.keys(PREFIXES).sort((a, b) => b.length - a.length).find((one) => unit.startsWith(one) && /^(B|B\/s|s|Hz|W|J|V|A|bit\/s|T\/s|\/s|)$/.test(unit.slice(one.length)));
    return value * (prefix ? PREFIXES[prefix] : 1);
  }

  // A cell's value: that of its record where the cell has it, else what it shows. Null: missing.
  function valueOf(cell) {
    const shown = cell.textContent.trim();
    if (shown === "" || shown === "–") return null;
    const raw = /(?:^|= )(-?\d[\d.]*(?:e[+-]?\d+)?)(?: |,|$)/.exec(cell.title || "");
    const value = raw ? Number(raw[1]) : figure(shown);
    return value === null ? shown : value;
  }

  function sorting(table) {
    // Headings that are links are of a list that the server sorts, of which this is a page.
    if (table.tHead.querySelector("a")) return;
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], first = [...body.rows];
    if (first.length < 3 || first.some((row) => row.cells.length !== heads.length)) return;
    heads.forEach((head, at) => {
      if (!head.textContent.trim() || head.querySelector(".hidden")) return;
      const button = document.createElement("button");
      button.type = "button"; button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const values = new Map(first.map((row) => [row, valueOf(row.cells[at])]));
        const known = [...values.values()].filter((value) => value !== null);
        const numeric = known.filter((value) => typeof value === "number").length * 2 > known.length;
        // Figures begin with the largest, names with A; then the other way, then as it was.
        const orders = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
        const order = orders[orders.indexOf(head.getAttribute("aria-sort")) + 1] || null;
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        const rows = [...first];
        if (order) {
          head.setAttribute("aria-sort", order);
          const sign = order === "ascending" ? 1 : -1;
          const isOther = (value) => value === null ? 2 : numeric && typeof value !== "number" ? 1 : 0;
          const compare = (a, b) => isOther(a) - isOther(b) || (isOther(a) === 2 ? 0 : sign * (numeric && !isOther(a) ? a - b : String(a).localeCompare(String(b), "en", { numeric: true })));
          rows.sort((a, b) => compare(values.get(a), values.get(b)));
        }
        body.append(...rows);
      });
    });
  }

  const nameOf = (area) => {
    const caption = area.querySelector("caption");
    if (caption) return caption.textContent.trim();
    for (let place = area; place && place.tagName !== "MAIN"; place = place.parentElement) {
      for (let before = place.previousElementSibling; before; before = before.previousElementSibling) if (/^(H[1-6]|SUMMARY)$/.test(before.tagName)) return before.textContent.trim();
    }
    return "Table";
  };

  document.querySelectorAll("main table").forEach((table) => { if (table.tHead && table.tBodies.length === 1) sorting(table); });
  // An area is a stop of the keyboard only while it has something to scroll to.
  const watched = new ResizeObserver((changes) => changes.forEach(({ target }) => fit(target.closest(".scroll"))));
  function fit(area) {
    const scrolls = area.scrollWidth > area.clientWidth + 1;
    if (scrolls) { area.tabIndex = 0; area.setAttribute("role", "region"); area.setAttribute("aria-label", nameOf(area)); }
    else { area.removeAttribute("tabindex"); area.removeAttribute("role"); area.removeAttribute("aria-label"); }
    area.classList.toggle("scrolls", scrolls);
    // A caption is as wide as its table; its words are no wider than what is seen of it, and stay there.
    area.querySelectorAll("caption > span").forEach((words) => { words.style.maxWidth = scrolls ? `${area.clientWidth - 32}px` : ""; });
  }
  document.querySelectorAll(".scroll caption").forEach((caption) => { const words = document.createElement("span"); words.append(...caption.childNodes); caption.append(words); });
  document.querySelectorAll(".scroll").forEach((area) => { fit(area); watched.observe(area); if (area.firstElementChild) watched.observe(area.firstElementChild); });
})();
