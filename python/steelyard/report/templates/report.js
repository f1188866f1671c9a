// Draws the charts of a run.
(() => {
  const { drawn, root, palette, text, faint, heatScale, axis: axisOf, shown: asShown, frame } = page;
  const ROLES = {
    total: "--s-blue", fast: "--s-green", slow: "--s-red", bound: "--s-ink", p50: "--s-blue", p99: "--s-red", p999: "--s-purple",
    service: "--s-ink", user: "--s-blue", nice: "--s-sky", system: "--s-red", irq: "--s-purple", softirq: "--s-orange",
    steal: "--s-ink", iowait: "--s-green", line0: "--s-blue", line1: "--s-red", line2: "--s-green", line3: "--s-purple",
    line4: "--s-orange", line5: "--s-sky", line6: "--s-ink", line7: "--s-yellow",
  };
  // Categories of the tax map have a colour each, beside the roles of lines.
  const roleColour = (role, colour) => role.startsWith("tax-") ? colour(`--${role}`) || colour("--tax-user") : colour(ROLES[role] || "--s-blue");
  const UNITS = { "1/s": ["~s", "/s", 1], "bytes/s": ["~s", "B/s", 1], ns: ["~s", "s", 1e-9], ratio: [".0%", "", 1], hz: ["~s", "Hz", 1], w: ["~s", "W", 1], celsius: ["~f", " °C", 1], 1: ["~s", "", 1] };

  const most = (chart) => chart.traces.reduce((all, trace) => trace.y.reduce((top, y) => y > top ? y : top, all), 0);
  function unit(chart) {
    if (chart.unit === "bytes") {
      return most(chart) >= 2 ** 30 ? ["~r", " GiB", 2 ** -30] : ["~r", " MiB", 2 ** -20];
    }
    // Half a task is 0.5, not 500 thousandths: prefixes are for numbers that need them.
    if (String(chart.unit) === "1" && most(chart) < 1000) return [",~r", "", 1];
    return UNITS[chart.unit] || ["~s", " " + chart.unit, 1];
  }

  function lines(chart, colour) {
    const [, , scale] = unit(chart);
    const scaled = (values) => scale === 1 ? values : values.map((y) => y === null ? null : y * scale);
    const traces = [];
    for (const trace of chart.traces) {
      const shade = colour(ROLES[trace.role] || "--s-blue");
      const x = trace.x || chart.x;
      const name = text(trace.name);
      if (trace.low) {
        const band = { x, type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: name, connectgaps: false };
        traces.push({ ...band, y: scaled(trace.low) }, { ...band, y: scaled(trace.high), fill: "tonexty", fillcolor: faint(shade, 0.16) });
      }
      const [format, suffix] = unit(chart);
      const hover = chart.unit === "ratio" ? "%{y:.1%}" : `%{y:${format === "~s" ? ".3s" : ",.3~r"}}${suffix}`;
      traces.push({
        x, y: scaled(trace.y), name, type: "scatter", mode: trace.mode || "lines", legendgroup: name, connectgaps: false,
        ...(trace.mode ? { marker: { color: shade, size: 9, symbol: trace.symbol || "circle", line: { color: colour("--surface"), width: 1 } } } : {}),
        line: { color: shade, width: trace.stack ? 0 : 2, dash: trace.dash || "solid" },
        // Waiting for I/O is idle time with a reason: it must not look like work.
        ...(trace.stack ? { stackgroup: "all", fillcolor: faint(shade, trace.role === "iowait" ? 0.22 : 0.82) } : {}),
        hovertemplate: chart.kind === "percentile" ? `%{text} %{y:.3s}s` : chart.kind === "curve" ? `%{x:,.4~r}${chart.xSuffix}: ${hover}` : hover,
        ...(chart.kind === "percentile" ? { text: x.map((value) => `${percent(value)}`) } : {}),
      });
    }
    return traces;
  }

  // 1/(1-q) back to the quantile it stands for, with as many nines as it needs.
  function percent(value) {
    const share = 100 * (1 - 1 / value);
    const nines = Math.log10(value);
    // Ticks stand on whole decades; between them one more digit distinguishes neighbours.
    const digits = Math.abs(nines - Math.round(nines)) < 1e-6 ? Math.round(nines) - 2 : Math.ceil(nines) - 1;
    return `${share.toFixed(Math.max(0, Math.min(8, digits)))}\u202f%`;
  }

  // A round number with its SI prefix.
  function short(value) {
    const prefixes = ["n", "µ", "m", "", "k", "M", "G", "T"];
    const step = Math.max(-3, Math.min(4, Math.floor(Math.log10(value) / 3 + 1e-9)));
    return `${Number((value / 10 ** (3 * step)).toPrecision(3))}\u202f${prefixes[step + 3]}`;
  }

  // Labels on a logarithmic axis.
  function decades(chart) {
    const ticks = page.decades(chart.traces.flatMap((trace) => trace.y.map((y) => y * unit(chart)[2])));
    return ticks.length ? ticks : [1];
  }

  function heat(chart, colour) {
    // Shares of a CPU, or counts of samples.
    const isShare = chart.unit === "ratio";
    return [{
      type: "heatmap", x: chart.x, y: chart.rows, z: chart.traces.map((trace) => trace.y), zmin: 0, zmax: isShare ? 1 : Math.max(1, most(chart)), hoverongaps: false,
      colorscale: heatScale(colour),
      colorbar: { tickformat: isShare ? ".0%" : ",~r", thickness: 10, outlinewidth: 0, len: 0.9, tickfont: { color: colour("--muted"), size: 11 } },
      hovertemplate: isShare ? "CPU %{y}, %{x:.1f} s: %{z:.0%}<extra></extra>" : "second %{x:.4~r}, %{y}: %{z} samples<extra></extra>",
    }];
  }

  // One stacked bar a row; a part is named on the bar where there is room for its name.
  function shares(chart, colour, width) {
    return chart.traces.map((trace) => ({
      type: "bar", orientation: "h", x: trace.y, y: chart.rows.map(text), name: text(trace.name), marker: { color: roleColour(trace.role, colour), line: { color: colour("--surface"), width: 1 } },
      text: trace.y.map((y) => y * (width - 120) > 7 * trace.name.length ? text(trace.name) : y * width > 36 ? `${Math.round(100 * y)}\u202f%` : ""), textposition: "inside", insidetextanchor: "middle", textangle: 0, constraintext: "none", insidetextfont: { color: colour("--tax-ink"), size: 11 },
      hovertemplate: "%{y}: %{x:.1%}<extra>%{fullData.name}</extra>",
    }));
  }

  function axes(chart, colour, width) {
    const [format, suffix] = unit(chart);
    const axis = axisOf(colour);
    const x = { ...axis, showgrid: false, ticks: "outside", ticklen: 4, tickcolor: colour("--line"), hoverformat: ".1f", nticks: chart.size === "panel" ? 4 : 8, ticksuffix: " s", showticksuffix: "last", ticklabeloverflow: "allow" };
    const y = { ...axis, tickformat: format, ticksuffix: suffix, nticks: chart.size === "panel" ? 4 : 6, fixedrange: true };
    if (chart.kind === "percentile") {
      const last = Math.max(...chart.traces.map((trace) => Math.max(...(trace.x || chart.x))));
      let ticks = [1, 2, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter((tick) => tick <= last * 1.001);
      // A label of five nines is 70 pixels wide; where they would meet, the nearest to the left go first.
      const room = Math.max(3, Math.floor(width / 80));
      if (ticks.length > room || Math.log10(2) / Math.log10(last) * (width - 60) < 45) ticks = ticks.filter((tick) => tick !== 2);
      while (ticks.length > room) ticks = ticks.filter((tick, at) => at % 2 === 0 || ticks.length === 2);
      Object.assign(x, { type: "log", tickvals: ticks, ticktext: ticks.map((tick) => tick === 1 ? "0 %" : tick === 2 ? "50 %" : percent(tick)), showgrid: true, ticksuffix: "", hoverformat: "", tickangle: 0 });
    }
    // Prefixes are for numbers that need them: 0.02, not 20 thousandths.
    const isSmall = chart.kind === "curve" && chart.traces.every((trace) => (trace.x || chart.x).every((at) => at < 1));
    if (chart.kind === "curve") Object.assign(x, { showgrid: true, ticksuffix: "", tickformat: isSmall ? "~r" : "~s", hoverformat: "", rangemode: "tozero", title: { text: chart.xTitle, font: { size: 12, color: colour("--muted") } } }, chart.xLog ? { type: "log", dtick: 1 } : {});
    if (chart.log) {
      const ticks = decades(chart);
      Object.assign(y, { type: "log", tickvals: ticks, ticktext: ticks.map((tick) => short(tick) + suffix) });
    }
    if (chart.range) y.range = chart.unit === "bytes" ? chart.range.map((value) => value * unit(chart)[2]) : chart.range;
    else if (!chart.log && chart.kind === "time") y.rangemode = "tozero";
    if (chart.kind === "shares") { Object.assign(x, { ticksuffix: "", tickformat: ".0%", range: [0, 1], showgrid: true, fixedrange: true }); Object.assign(y, { type: "category", tickformat: "", ticksuffix: "", tickmode: "array", tickvals: chart.rows.map((_, at) => at), autorange: "reversed", showgrid: false }); }
    if (chart.kind === "heat") Object.assign(y, { type: "category", tickformat: "", ticksuffix: "", range: undefined, title: { text: chart.yTitle, font: { size: 12, color: colour("--muted") } }, nticks: 12, showgrid: false, autorange: "reversed" });
    return { xaxis: x, yaxis: y };
  }

  // Lines and a band across a chart that is not over time. On a logarithmic axis a shape takes the value itself,
  // an annotation its logarithm.
  function marks(chart, colour) {
    const [, , scale] = unit(chart);
    const shapes = [], annotations = [];
    if (chart.band) shapes.push({ type: "rect", xref: "x", yref: "paper", x0: chart.band[0], x1: chart.band[1], y0: 0, y1: 1, line: { width: 0 }, fillcolor: colour("--phase"), layer: "below" });
    const line = { width: 1.5, color: colour("--muted"), dash: "dash" };
    for (const mark of chart.marks) {
      const said = { text: text(mark.label), showarrow: false, font: { size: 11, color: colour("--muted") } };
      if (mark.axis === "y") {
        const at = mark.value * scale;
        shapes.push({ type: "line", xref: "paper", yref: "y", x0: 0, x1: 1, y0: at, y1: at, line });
        annotations.push({ ...said, xref: "paper", x: 0, xanchor: "left", yref: "y", y: chart.log ? Math.log10(at) : at, yanchor: "bottom" });
      } else {
        shapes.push({ type: "line", xref: "x", yref: "paper", x0: mark.value, x1: mark.value, y0: 0, y1: 1, line });
        annotations.push({ ...said, xref: "x", x: mark.value, xanchor: "center", yref: "paper", y: 1, yanchor: "bottom" });
      }
    }
    return { shapes, annotations };
  }

  const apart = (chart) => ["percentile", "curve", "shares"].includes(chart.kind);
  function phases(chart, colour, width) {
    if (chart.kind === "percentile") return {};
    if (chart.kind === "shares") return { barmode: "stack", bargap: 0.28 };
    if (chart.kind === "curve") return marks(chart, colour);
    const small = chart.size === "panel" || chart.kind === "heat";
    const shapes = [], annotations = [];
    for (const phase of drawn.phases) {
      const measured = phase.name === "measure";
      if (measured && chart.kind === "time") shapes.push({ type: "rect", xref: "x", yref: "paper", x0: phase.begin, x1: phase.end, y0: 0, y1: 1, line: { width: 0 }, fillcolor: colour("--phase"), layer: "below" });
      if (chart.kind === "heat" && measured) for (const at of [phase.begin, phase.end]) shapes.push({ type: "line", xref: "x", yref: "paper", x0: at, x1: at, y0: 0, y1: 1, line: { width: 1, color: colour("--muted"), dash: "dot" } });
      // A name wider than its phase would lie on the next one's.
      if (!small && (phase.end - phase.begin) / span() * (width - 70) > 7 * phase.name.length) annotations.push({ x: phase.begin, xref: "x", y: 1, yref: "paper", yanchor: "bottom", xanchor: "left", text: text(phase.name), showarrow: false, font: { size: 11, color: measured ? colour("--accent") : colour("--muted") } });
    }
    return { shapes, annotations };
  }
  const span = () => Math.max(...drawn.phases.map((phase) => phase.end)) - Math.min(...drawn.phases.map((phase) => phase.begin));

  function layout(chart, colour, width) {
    const small = chart.size === "panel";
    const shown = chart.kind === "heat" ? 0 : chart.traces.length;
    const box = { ...axes(chart, colour, width), ...phases(chart, colour, width) };
    if (!apart(chart) && drawn.phases.length) box.xaxis.range = [Math.min(...drawn.phases.map((phase) => phase.begin)), Math.max(...drawn.phases.map((phase) => phase.end))];
    return {
      ...frame(colour), ...box,
      margin: { l: 8, r: 16, t: small ? 6 : 20, b: 8 },
      // The page writes out the legend of shares: thirty names make no legend of a chart.
      showlegend: !small && shown > 1 && chart.kind !== "shares", legend: { orientation: "h", x: 0, y: chart.kind === "curve" ? -0.3 : -0.13, yanchor: "top", font: { color: colour("--ink"), size: 12 }, itemclick: "toggle" },
      hovermode: chart.kind === "heat" || apart(chart) ? "closest" : "x unified", hoverdistance: chart.kind === "percentile" ? -1 : 20,
    };
  }

  const plots = new Map();
  function draw(chart) {
    const place = document.getElementById("chart-" + chart.id);
    if (!place) return;
    const colour = palette();
    const traces = chart.kind === "heat" ? heat(chart, colour) : chart.kind === "shares" ? shares(chart, colour, place.clientWidth) : lines(chart, colour);
    window.Plotly.react(place, traces, layout(chart, colour, place.clientWidth), asShown);
    if (!plots.has(chart.id)) {
      plots.set(chart.id, place);
      if (!apart(chart)) place.on("plotly_relayout", (change) => follow(place, change));
    }
  }
  // A zoom into one chart over time zooms all of them; a chart that is there already is left alone, which
  // also ends the echo of events.
  function follow(source, change) {
    if (!Object.keys(change).some((key) => key.startsWith("xaxis."))) return;
    const range = [...source.layout.xaxis.range];
    for (const chart of drawn.charts) {
      const place = plots.get(chart.id);
      if (!place || place === source || apart(chart)) continue;
      const there = place.layout.xaxis.range;
      if (there[0] !== range[0] || there[1] !== range[1]) window.Plotly.relayout(place, { "xaxis.range": [...range] });
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

  page.themes(() => { if (plots.size) drawAll(); });
  page.copying();
  // Paper is white whatever the screen is, narrower, and shows every part that is closed on the screen.
  let before = null;
  const fit = () => plots.forEach((place) => window.Plotly.Plots.resize(place));
  window.addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, closed: [...document.querySelectorAll("#details details:not([open]), details.closed:not([open])")] };
    before.closed.forEach((part) => { part.open = true; });
    root.dataset.theme = "light";
    root.classList.add("paper");
    if (window.Plotly) drawn.charts.forEach(draw);
    fit();
  });
  window.addEventListener("afterprint", () => {
    if (!before) return;
    before.closed.forEach((part) => { part.open = false; });
    if (before.theme) root.dataset.theme = before.theme; else delete root.dataset.theme;
    root.classList.remove("paper");
    before = null;
    if (window.Plotly) drawAll(fit);
  });
  page.withCharts(() => drawAll(() => { root.dataset.drawn = "yes"; }));
})();
