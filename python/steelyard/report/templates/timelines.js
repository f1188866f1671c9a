// Draws what is over the time of a run: lines, stacked areas, and rows of a map. All share one axis, with the
// phases of the run, and are zoomed together.
(() => {
  const { drawn, text, faint, heatScale, axis: axisOf, decades } = page;
  const ROLES = {
    total: "blue", fast: "green", slow: "red", bound: "ink", p50: "blue", p99: "red", p999: "purple",
    service: "ink", user: "blue", nice: "sky", system: "red", irq: "purple", softirq: "orange", steal: "ink",
    iowait: "green", line0: "blue", line1: "red", line2: "green", line3: "purple", line4: "orange",
    line5: "sky", line6: "ink", line7: "yellow",
  };
  const shadeOf = (role, colour) => colour(`--s-${ROLES[role] || role}`) || colour("--s-blue");
  // Tick format, suffix, factor.
  const UNITS = {
    "1/s": ["~s", "/s", 1], "bytes/s": ["~s", "B/s", 1], ns: ["~s", "s", 1e-9], ratio: [".0%", "", 1],
    hz: ["~s", "Hz", 1], w: ["~s", "W", 1], celsius: [".0f", " °C", 1], "1": ["~s", "", 1], count: ["~s", "", 1],
  };

  const most = (chart) =>
    chart.traces.reduce((all, trace) => trace.y.reduce((top, y) => (y > top ? y : top), all), 0);

  function unit(chart) {
    if (chart.unit === "bytes") {
      return most(chart) >= 2 ** 30 ? ["~r", " GiB", 2 ** -30] : ["~r", " MiB", 2 ** -20];
    }
    // Half a task is 0.5, not 500 thousandths: prefixes are for numbers that need them.
    if (["1", "count"].includes(String(chart.unit)) && most(chart) < 1000) return [",~r", "", 1];
    return UNITS[chart.unit] || ["~s", " " + chart.unit, 1];
  }

  function lines(chart, colour) {
    const [format, suffix, scale] = unit(chart);
    const scaled = (values) => (scale === 1 ? values : values.map((y) => (y === null ? null : y * scale)));
    const value = `%{y:${format === "~s" ? ".3s" : ",.3~r"}}${suffix}`;
    const traces = [];
    for (const trace of chart.traces) {
      const shade = shadeOf(trace.role, colour);
      const x = trace.x || chart.x;
      const name = text(trace.name);
      if (trace.low) {
        const band = {
          x, type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false,
          legendgroup: name, connectgaps: false,
        };
        const fill = { fill: "tonexty", fillcolor: faint(shade, 0.16) };
        traces.push({ ...band, y: scaled(trace.low) }, { ...band, y: scaled(trace.high), ...fill });
      }
      // Waiting for I/O is idle time with a reason: it must not look like work.
      const share = trace.role === "iowait" ? 0.22 : 0.82;
      traces.push({
        x, y: scaled(trace.y), name, type: "scatter", mode: "lines", legendgroup: name, connectgaps: false,
        line: { color: shade, width: trace.stack ? 0 : 2, dash: trace.dash || "solid" },
        ...(trace.stack ? { stackgroup: "all", fillcolor: faint(shade, share) } : {}),
        hovertemplate: chart.unit === "ratio" ? "%{y:.1%}" : value,
      });
    }
    return traces;
  }

  function cells(chart, colour) {
    // Shares of a CPU, or counts of samples.
    const isShare = chart.unit === "ratio";
    return [{
      type: "heatmap", x: chart.x, y: chart.rows, z: chart.traces.map((trace) => trace.y), hoverongaps: false,
      zmin: 0, zmax: isShare ? 1 : Math.max(1, most(chart)), colorscale: heatScale(colour),
      colorbar: {
        tickformat: isShare ? ".0%" : ",~r", thickness: 10, outlinewidth: 0, len: 0.9,
        tickfont: { color: colour("--muted"), size: 11 },
      },
      hovertemplate: isShare
        ? "CPU %{y}, %{x:.1f} s: %{z:.0%}<extra></extra>"
        : "second %{x:.4~r}, %{y}: %{z} samples<extra></extra>",
    }];
  }

  // A round number with its SI prefix.
  function short(value) {
    const prefixes = ["n", "µ", "m", "", "k", "M", "G", "T"];
    const step = Math.max(-3, Math.min(4, Math.floor(Math.log10(value) / 3 + 1e-9)));
    return `${Number((value / 10 ** (3 * step)).toPrecision(3))}\u202f${prefixes[step + 3]}`;
  }

  function axes(chart, colour) {
    const [format, suffix, scale] = unit(chart);
    const isPanel = chart.size === "panel";
    const xaxis = {
      ...axisOf(colour), showgrid: false, ticks: "outside", ticklen: 4, tickcolor: colour("--line"),
      hoverformat: ".1f", nticks: isPanel ? 4 : 8, ticksuffix: " s", showticksuffix: "last",
      ticklabeloverflow: "allow",
    };
    const yaxis = {
      ...axisOf(colour), tickformat: format, ticksuffix: suffix, nticks: isPanel ? 4 : 6, fixedrange: true,
    };
    if (chart.kind === "rows") {
      const title = { text: chart.yTitle, font: { size: 12, color: colour("--muted") } };
      Object.assign(yaxis, { type: "category", tickformat: "", ticksuffix: "", title });
      return { xaxis, yaxis };
    }
    if (chart.log) {
      const ticks = decades(chart.traces.flatMap((trace) => trace.y.map((y) => y * scale)));
      const tickvals = ticks.length ? ticks : [1];
      Object.assign(yaxis, { type: "log", tickvals, ticktext: tickvals.map((tick) => short(tick) + suffix) });
    }
    if (chart.range) yaxis.range = chart.unit === "bytes" ? chart.range.map((end) => end * scale) : chart.range;
    else if (!chart.log) yaxis.rangemode = "tozero";
    return { xaxis, yaxis };
  }

  const begin = () => Math.min(...drawn.phases.map((phase) => phase.begin));
  const end = () => Math.max(...drawn.phases.map((phase) => phase.end));

  function phases(chart, colour, width) {
    const isSmall = chart.size === "panel" || chart.kind === "rows";
    const shapes = [], annotations = [];
    const across = { xref: "x", yref: "paper", y0: 0, y1: 1 };
    for (const phase of drawn.phases || []) {
      const isMeasured = phase.name === "measure";
      if (isMeasured && chart.kind === "time") {
        const fill = { line: { width: 0 }, fillcolor: colour("--phase"), layer: "below" };
        shapes.push({ type: "rect", ...across, x0: phase.begin, x1: phase.end, ...fill });
      }
      if (isMeasured && chart.kind === "rows") {
        const line = { width: 1, color: colour("--muted"), dash: "dot" };
        for (const at of [phase.begin, phase.end]) shapes.push({ type: "line", ...across, x0: at, x1: at, line });
      }
      // A name wider than its phase would lie on the next one's.
      const room = ((phase.end - phase.begin) / (end() - begin())) * (width - 70);
      if (!isSmall && room > 7 * phase.name.length) {
        annotations.push({
          x: phase.begin, xref: "x", y: 1, yref: "paper", yanchor: "bottom", xanchor: "left",
          text: text(phase.name), showarrow: false,
          font: { size: 11, color: colour(isMeasured ? "--accent" : "--muted") },
        });
      }
    }
    return { shapes, annotations };
  }

  function layout(chart, colour, width) {
    const isPanel = chart.size === "panel";
    const made = { ...axes(chart, colour), ...phases(chart, colour, width) };
    if ((drawn.phases || []).length) made.xaxis.range = [begin(), end()];
    return {
      ...made, margin: { l: 8, r: 16, t: isPanel ? 6 : 20, b: 8 },
      showlegend: !isPanel && chart.kind === "time" && chart.traces.length > 1,
      legend: {
        orientation: "h", x: 0, y: -0.13, yanchor: "top", font: { color: colour("--ink"), size: 12 },
        itemclick: "toggle",
      },
      hovermode: chart.kind === "rows" ? "closest" : "x unified", hoverdistance: 20,
    };
  }

  Object.assign(page.kinds, {
    time: (chart, colour, width) => [lines(chart, colour), layout(chart, colour, width)],
    rows: (chart, colour, width) => [cells(chart, colour), layout(chart, colour, width)],
  });
})();
