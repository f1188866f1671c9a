"use strict";
// What every page with charts shares: colours, the theme's button, the button that copies, drawing. Colours come
// from the style sheet, so that one set of traces serves light, dark and paper; nothing here reads anything outside
// this page.
const page = (() => {
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

  // Whether charts cannot be drawn; the page then says what is missing.
  function lacksScript() {
    const lacks = drawn.charts.length > 0 && !window.Plotly;
    if (lacks) document.getElementById("script-missing").hidden = false;
    return lacks;
  }

  // A page whose charts are of a few `kinds`: each makes traces and a layout of a chart, its colours and its width.
  function drawPage(kinds) {
    function draw(chart) {
      const place = document.getElementById("chart-" + chart.id);
      if (!place) return;
      const colour = palette();
      const [traces, layout] = kinds[chart.kind](chart, colour, place.clientWidth);
      window.Plotly.react(place, traces, { ...layout, ...frame(colour) }, shown);
    }
    const lacks = lacksScript();
    const drawAll = () => { if (!lacks) { drawn.charts.forEach(draw); root.dataset.drawn = "yes"; } };
    const apply = themes(drawAll);
    copying();
    // Paper is white whatever the screen is.
    window.addEventListener("beforeprint", () => { root.dataset.theme = "light"; drawAll(); });
    window.addEventListener("afterprint", apply);
  }

  return { drawn, root, coarse, palette, text, faint, light, heatScale, axis, title, shown, frame, decades, themes, copying, lacksScript, drawPage };
})();
