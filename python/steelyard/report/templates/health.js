// Draws the charts of a health check.
(() => {
  const { faint, light, heatScale, axis, title } = page;
  const ROLES = { base: "--s-red", huge: "--s-blue" };

  function bytes(count) {
    for (const [shift, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (count >= shift) return `${count / shift}\u202f${unit}`;
    return `${count}\u202fB`;
  }

  function latency(chart, colour, width) {
    const traces = [];
    for (const line of chart.lines) {
      const shade = colour(ROLES[line.role]);
      const band = { x: line.x, type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: line.role };
      traces.push({ ...band, y: line.low }, { ...band, y: line.high, fill: "tonexty", fillcolor: faint(shade, 0.16) });
      traces.push({ x: line.x, y: line.y, name: line.name, legendgroup: line.role, type: "scatter", mode: "lines+markers", line: { color: shade, width: 2 }, marker: { color: shade, size: 5 },
                    text: line.labels, customdata: line.low.map((low, at) => [low, line.high[at]]), hovertemplate: "%{text}: %{y:.3g} ns (%{customdata[0]:.3g} to %{customdata[1]:.3g})<extra>%{fullData.name}</extra>" });
    }
    const all = chart.lines.flatMap((line) => line.x), times = chart.lines.flatMap((line) => [...line.low, ...line.high]);
    const first = Math.log2(Math.min(...all)), last = Math.log2(Math.max(...all));
    // A label takes 70 pixels: every power of two, every other, every fourth.
    const step = [1, 2, 4, 8].find((each) => (last - first) / each <= width / 70) || 8;
    const ticks = [];
    for (let power = Math.ceil(first); power <= last + 1e-9; power += step) ticks.push(2 ** power);
    const low = Math.log10(Math.min(...times) / 1.25), high = Math.log10(Math.max(...times) * 1.5);
    const shapes = [], annotations = [];
    for (const mark of chart.marks) {
      shapes.push({ type: "line", xref: "x", yref: "paper", x0: mark.at, x1: mark.at, y0: 0, y1: 1, line: { width: 1, color: colour("--muted"), dash: "dash" }, layer: "below" });
      annotations.push({ x: Math.log10(mark.at), xref: "x", y: 1, yref: "paper", yanchor: "bottom", xanchor: "center", text: mark.name, showarrow: false, font: { size: 11, color: colour("--muted") } });
    }
    const values = [];
    for (let power = Math.floor(low); power <= high; power++) for (const each of [1, 2, 5]) { const value = Number(`${each}e${power}`); if (Math.log10(value) >= low && Math.log10(value) <= high) values.push(value); }
    return [traces, {
      shapes, annotations, showlegend: true, legend: { x: 0.02, y: 0.96, font: { color: colour("--ink"), size: 12 }, bgcolor: "rgba(0,0,0,0)" }, hovermode: "closest",
      xaxis: { ...axis(colour), type: "log", tickvals: ticks, ticktext: ticks.map(bytes), tickangle: 0, showgrid: false, title: title("working set", colour), range: [Math.log10(Math.min(...all) / 1.15), Math.log10(Math.max(...all) * 1.15)] },
      yaxis: { ...axis(colour), type: "log", tickvals: values, ticktext: values.map((value) => `${value}\u202fns`), range: [low, high], fixedrange: true },
      margin: { l: 8, r: 16, t: 26, b: 8 },
    }];
  }

  // The text of a cell must stand out from its colour, whichever end of the scale is the dark one.
  function inks(chart, colour) {
    const steps = heatScale(colour).map(([, shade]) => light(shade));
    return (value) => {
      const place = Math.max(0, Math.min(3, 3 * (value - chart.low) / (chart.high - chart.low || 1))), at = Math.min(2, Math.floor(place));
      return steps[at] + (steps[at + 1] - steps[at]) * (place - at) > 140 ? "#101418" : "#ffffff";
    };
  }

  function cells(chart, colour, x, y, digits) {
    if (!chart.text) return [];
    const ink = inks(chart, colour);
    return chart.z.flatMap((row, at) => row.map((value, column) => value === null ? null : {
      x: x[column], y: y[at], text: digits(value), showarrow: false, font: { size: 11, color: ink(value) } })).filter(Boolean);
  }

  function bar(colour, unit) {
    return { ticksuffix: unit, thickness: 10, outlinewidth: 0, len: 0.94, tickfont: { color: colour("--muted"), size: 11 } };
  }

  function bandwidth(chart, colour) {
    const three = (value) => Number(value.toPrecision(3)).toString();
    return [[{ type: "heatmap", x: chart.x, y: chart.y, z: chart.z, zmin: chart.low, zmax: chart.high, colorscale: heatScale(colour), hoverongaps: false, xgap: 1, ygap: 1,
               colorbar: bar(colour, ""), hovertemplate: "CPUs of %{y}, memory of %{x}: %{z:.3g} GB/s<extra></extra>" }],
            { annotations: cells(chart, colour, chart.x, chart.y, three), xaxis: { ...axis(colour), type: "category", showgrid: false, title: title("memory, GB/s", colour), side: "bottom" },
              yaxis: { ...axis(colour), type: "category", autorange: "reversed", showgrid: false, title: title("CPUs", colour) }, margin: { l: 8, r: 8, t: 8, b: 8 } }];
  }

  function matrix(chart, colour, width) {
    const places = chart.cpus.map((_, at) => at);
    // A label of three digits takes 26 pixels across and 14 down.
    const every = Math.max(1, Math.ceil(places.length * 26 / Math.max(200, width - 120)));
    const ticks = places.filter((at) => at % every === 0);
    const names = chart.cpus.map(String);
    const shapes = chart.borders.flatMap((at) => ["x", "y"].map((across) => ({
      type: "line", xref: "x", yref: "y", x0: across === "x" ? at - 0.5 : -0.5, x1: across === "x" ? at - 0.5 : places.length - 0.5,
      y0: across === "x" ? -0.5 : at - 0.5, y1: across === "x" ? places.length - 0.5 : at - 0.5, line: { width: 2, color: colour("--surface") } })));
    const lines = { ...axis(colour), tickvals: ticks, ticktext: ticks.map((at) => names[at]), showgrid: false, tickangle: 0, ticks: "outside", ticklen: 3, tickcolor: colour("--line") };
    return [[{ type: "heatmap", x: places, y: places, z: chart.z, zmin: chart.low, zmax: chart.high, colorscale: heatScale(colour), hoverongaps: false,
               xgap: places.length <= 64 ? 0.5 : 0, ygap: places.length <= 64 ? 0.5 : 0, colorbar: bar(colour, " ns"),
               customdata: places.map((row) => places.map((column) => `CPU ${names[row]} and CPU ${names[column]}`)), hovertemplate: "%{customdata}: %{z:.3g} ns<extra></extra>" }],
            { shapes, annotations: cells(chart, colour, places, places, (value) => String(Math.round(value))), xaxis: { ...lines, title: title("CPU, near ones together", colour), range: [-0.5, places.length - 0.5] },
              yaxis: { ...lines, range: [places.length - 0.5, -0.5], scaleanchor: "x", constrain: "domain" }, margin: { l: 8, r: 8, t: 8, b: 8 } }];
  }

  Object.assign(page.kinds, { latency, bandwidth, matrix });
})();
