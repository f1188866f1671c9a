"use strict";
// What every page with charts shares: colours, the theme's button, the button that copies, drawing. Colours come
// from the style sheet, so that one set of traces serves light, dark and paper; nothing here reads anything outside
// this page.
const page = (() => {
  const nonce = document.currentScript.nonce;
  const drawn = JSON.parse(document.getElementById("drawn").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const stored = { get: () => { try { return localStorage.getItem("steelyard-theme"); } catch { return null; } },
                   set: (v) => { try { localStorage.setItem("steelyard-theme", v); } catch { /* a file page may not store */ } } };
  const palette = () => { const style = getComputedStyle(root); return (name) => style.getPropertyValue(name).trim(); };
  // Plotly reads a few tags in names; a name from outside must stay a name.
  const text = (name) => String(name).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const parts = (colour) => { const found = /^#(..)(..)(..)$/.exec(colour); return found ? found.slice(1).map((part) => parseInt(part, 16)) : null; };
  const faint = (colour, share) => { const found = parts(colour); return found ? `rgba(${found.join(",")},${share})` : colour; };
  // How light a colour is to the eye, from 0 to 255.
  const light = (colour) => { const found = parts(colour); return found ? found.reduce((sum, part, at) => sum + part * [0.299, 0.587, 0.114][at], 0) : 128; };
  const heatScale = (colour) => [0, 1, 2, 3].map((step) => [step / 3, colour(`--heat-${step}`)]);
  const axis = (colour) => ({ gridcolor: colour("--grid"), zeroline: false, linecolor: colour("--line"), tickfont: { color: colour("--muted"), size: 11.5 }, automargin: true, fixedrange: coarse });
  const title = (words, colour) => ({ text: text(words), font: { size: 12, color: colour("--muted") }, standoff: 8 });
  const shown = { responsive: true, displayModeBar: false, displaylogo: false };
  // What all charts' layouts have.
  const frame = (colour) => ({
    autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: coarse ? false : "zoom",
    font: { family: getComputedStyle(document.body).fontFamily, color: colour("--ink"), size: 12 },
    hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--line"), font: { color: colour("--ink"), size: 12 } },
  });

  // Round values of a logarithmic axis: every decade, and 2 and 5 between them where there are few.
  function decades(values) {
    const known = values.filter((value) => value > 0);
    if (!known.length) return [];
    const first = Math.floor(Math.log10(Math.min(...known))), last = Math.ceil(Math.log10(Math.max(...known)));
    const ticks = [];
    for (let power = first; power <= last; power++) for (const step of last - first > 3 ? [1] : [1, 2, 5]) ticks.push(Number(`${step}e${power}`));
    return ticks;
  }

  // The button that goes through the themes; `redraw` gives the charts their new colours. Returns what shows the
  // chosen theme again.
  function themes(redraw) {
    const button = document.getElementById("theme");
    const WORDS = { auto: "Auto", light: "Light", dark: "Dark" };
    const SPOKEN = { auto: "as the system", light: "light", dark: "dark" };
    let theme = WORDS[stored.get()] ? stored.get() : "auto";
    function apply() {
      if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
      button.textContent = WORDS[theme];
      button.setAttribute("aria-label", "Colours: " + SPOKEN[theme]);
      redraw();
    }
    button.hidden = false;
    button.addEventListener("click", () => { theme = { auto: "light", light: "dark", dark: "auto" }[theme]; stored.set(theme); apply(); });
    dark.addEventListener("change", () => { if (theme === "auto") redraw(); });
    apply();
    return apply;
  }

  // The button that copies the command, on pages that show one.
  function copying() {
    const copy = document.getElementById("copy");
    if (!copy) return;
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      const command = document.getElementById("command");
      try { await navigator.clipboard.writeText(command.textContent); } catch {
        const range = document.createRange(); range.selectNodeContents(command);
        const selection = getSelection(); selection.removeAllRanges(); selection.addRange(range);
        document.execCommand("copy");
      }
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1600);
    });
  }

  // Plotly's bundle: run already from a file beside the page, or packed in the page. Returns whether it is there.
  async function library() {
    if (window.Plotly) return true;
    const packed = document.getElementById("chart-library");
    if (!packed || !window.DecompressionStream) return false;
    try {
      const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
      const script = document.createElement("script");
      script.nonce = nonce;
      script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
      document.head.append(script);
      // A page that is saved from the browser need not hold it twice.
      script.remove();
    } catch { return false; }
    return Boolean(window.Plotly);
  }

  // Calls `draw` once charts can be drawn; where they cannot, the page says why.
  async function withCharts(draw) {
    if (!drawn.charts.length || await library()) draw();
    else document.getElementById("charts-missing").hidden = false;
  }

  // Draws the charts of the page: `kinds` has for each kind what makes traces and a layout of a chart, its colours
  // and its width. Charts over time are zoomed together.
  const kinds = {};
  const isOverTime = (chart) => chart.kind === "time" || chart.kind === "rows";
  const plots = new Map();

  function draw(chart) {
    const place = document.getElementById("chart-" + chart.id);
    if (!place) return;
    const colour = palette();
    const [traces, layout] = kinds[chart.kind](chart, colour, place.clientWidth);
    window.Plotly.react(place, traces, { ...layout, ...frame(colour) }, shown);
    if (plots.has(chart.id)) return;
    plots.set(chart.id, place);
    if (isOverTime(chart)) place.on("plotly_relayout", (change) => follow(place, change));
  }

  // A chart that is there already is left alone, which also ends the echo of events.
  function follow(source, change) {
    if (!Object.keys(change).some((key) => key.startsWith("xaxis."))) return;
    const range = [...source.layout.xaxis.range];
    for (const chart of drawn.charts.filter(isOverTime)) {
      const place = plots.get(chart.id);
      if (!place || place === source) continue;
      const there = place.layout.xaxis.range;
      const isThere = there[0] === range[0] && there[1] === range[1];
      if (!isThere) window.Plotly.relayout(place, { "xaxis.range": [...range] });
    }
  }

  function drawAll(done) {
    const waiting = [...drawn.charts];
    const some = () => {
      const until = performance.now() + 40;
      while (waiting.length && performance.now() < until) draw(waiting.shift());
      if (waiting.length) setTimeout(some, 0); else if (done) done();
    };
    some();
  }

  function drawPage() {
    const apply = themes(() => { if (plots.size) drawAll(); });
    copying();
    // Paper is white whatever the screen is, narrower, and shows every part that is closed on the screen.
    let closed = null;
    const fit = () => plots.forEach((place) => window.Plotly.Plots.resize(place));
    window.addEventListener("beforeprint", () => {
      closed = [...document.querySelectorAll("#details details:not([open]), details.closed:not([open])")];
      closed.forEach((part) => { part.open = true; });
      root.dataset.theme = "light";
      root.classList.add("paper");
      if (window.Plotly) drawn.charts.forEach(draw);
      fit();
    });
    window.addEventListener("afterprint", () => {
      if (!closed) return;
      closed.forEach((part) => { part.open = false; });
      closed = null;
      root.classList.remove("paper");
      apply();
      if (window.Plotly) drawAll(fit);
    });
    withCharts(() => drawAll(() => { root.dataset.drawn = "yes"; }));
  }

  return { drawn, root, coarse, palette, text, faint, light, heatScale, axis, title, shown, frame, decades, themes, copying, drawPage, kinds };
})();
