"use strict";
// What pages of the server do beside those of reports: sliders fill the number beside them, a query that waits is looked at
// again, a run under way shows its last second, addresses stay short, and `/` goes to the search.
(() => {
  for (const range of document.querySelectorAll(".ask input[type=range]")) {
    const exact = document.getElementById(range.dataset.for);
    let timer = 0;
    range.addEventListener("input", () => {
      exact.value = range.value;
      clearTimeout(timer);
      timer = setTimeout(() => {
        sessionStorage.setItem("moved", JSON.stringify([location.pathname, range.id, scrollY]));
        range.form.requestSubmit();
      }, 400);
    });
  }

  // Whoever moves a slider by keyboard goes on where the page was, also where an answer had to be waited for.
  const moved = JSON.parse(sessionStorage.getItem("moved") || "null");
  if (moved && moved[0] === location.pathname && !document.querySelector("[data-job]")) {
    sessionStorage.removeItem("moved");
    const range = document.getElementById(moved[1]);
    if (range) { range.focus({ preventScroll: true }); scrollTo(0, moved[2]); }
  }

  // What is empty or as it is anyway is not part of the address.
  for (const form of document.querySelectorAll("form.ask")) {
    form.addEventListener("formdata", ({ formData }) => {
      for (const input of form.elements) {
        const usual = input.dataset.default || "";
        if (input.type === "checkbox") {
          if (usual && !input.checked) formData.set(input.name, "no");
        } else if (input.name && (input.className === "exact" && usual && input.value ? Number(input.value) === Number(usual) : input.value === usual)) formData.delete(input.name);
      }
    });
  }

  const search = document.querySelector("form[role=search] input");
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest && event.target.closest("input, select, textarea, [role=application]");
    if (event.key === "/" && search && !isTyping && !event.ctrlKey && !event.metaKey) { event.preventDefault(); search.focus(); }
  });

  const chosen = document.getElementById("chosen");
  if (chosen && document.getElementById("compare")) {
    const button = document.getElementById("compare");
    const count = () => {
      const n = chosen.querySelectorAll("input[name=run]:checked").length;
      button.disabled = n < 2 || n > 8;
      button.textContent = n < 2 ? "Choose two to eight runs to compare" : n > 8 ? `${n} runs are chosen, eight are the most` : `Compare ${n} runs`;
    };
    chosen.addEventListener("change", count);
    count();
  }

  const json = async (address) => {
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  };

  const job = document.querySelector("[data-job]");
  if (job) {
    const passed = job.querySelector("output");
    const look = async () => {
      try {
        const state = await json(`/jobs/${job.dataset.job}`);
        // Not as a reload, after which the page would stand where this one did.
        if (state.done) { location.replace(location.pathname + location.search); return; }
        passed.textContent = `${Math.round(state.seconds)} s`;
      } catch { /* the server is away for a moment */ }
      setTimeout(look, 500);
    };
    setTimeout(look, 300);
  }

  const live = document.querySelector("[data-live]");
  if (live) {
    const heading = document.querySelector("#result h1"), list = live.querySelector("ul"), phase = document.getElementById("phase");
    const marks = { valid: "✓", suspect: "!", invalid: "✕" };
    const element = (name, kind, text, ...inner) => {
      const made = document.createElement(name);
      if (kind) made.className = kind;
      made.append(...inner, text);
      return made;
    };
    const item = (one) => {
      if (!one.level) return element("li", "", one.text);
      const mark = element("span", "mark", marks[one.level] || "…");
      mark.setAttribute("aria-hidden", "true");
      return element("li", "", ` ${one.text}`, element("span", `badge ${one.level}`, one.word, mark));
    };
    const look = async () => {
      try {
        const state = await json(live.dataset.live);
        if (state.status !== "running") { location.reload(); return; }
        heading.textContent = state.line;
        // Only the phase is read out: figures change each second.
        if (phase.textContent !== state.phase) phase.textContent = state.phase;
        list.replaceChildren(...state.so_far.map(item));
        page.drawn.phases = state.phases;
        page.drawn.charts = page.drawn.charts.map((old) => state.charts.find((one) => one.id === old.id) || old);
        for (const chart of state.charts) {
          const place = document.getElementById("chart-" + chart.id);
          if (!place) {
            // The page was made before there was anything to draw.
            if (performance.now() > 2000) { location.reload(); return; }
          } else if (window.Plotly && page.kinds[chart.kind]) {
            const colour = page.palette();
            const [traces, layout] = page.kinds[chart.kind](chart, colour, place.clientWidth);
            // What somebody zoomed into stays.
            window.Plotly.react(place, traces, { ...layout, ...page.frame(colour), uirevision: "live" }, page.shown);
          }
        }
      } catch { /* the server is away for a moment */ }
      setTimeout(look, 1000);
    };
    setTimeout(look, 1000);
  }
})();
