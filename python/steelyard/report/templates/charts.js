// Draws charts on one pair of axes, and maps of cells.
(() => {
  const { text, faint, light, heatScale, axis: axisOf, title: titleOf, decades } = page;
  const cut = (name, most) => { const all = String(name); return all.length > most ? `${all.slice(0, most - 1)}…` : all; };
  const shadeOf = (role, colour) => colour(role.startsWith("tax-") ? `--${role}` : role === "muted" ? "--muted" : `--s-${role}`) || colour("--s-blue");

  // Tick format, suffix, format for whoever points at it.
  const SUFFIX = { s: "s", bytes: "B", "bytes/s": "B/s", hz: "Hz", w: "W", "1/s": "/s" };
  function unit(name, top) {
    if (name === "ratio") return top <= 0.05 ? [".1%", "", ".3%"] : [".0%", "", ".2%"];
    const prefixed = name in SUFFIX || top >= 10000;
    const suffix = name === "1" ? "" : SUFFIX[name] || ` ${text(name)}`;
    return prefixed ? ["~s", suffix, ".4s"] : [",~r", suffix, ",.4~r"];
  }
  const topOf = (values) => values.reduce((most, value) => value !== null && Math.abs(value) > most ? Math.abs(value) : most, 0);

  function trace(series, chart, colour, all, width) {
    const shade = shadeOf(series.role, colour);
    const name = text(series.name);
    const named = chart.xKind === "name" ? series.x.map((x) => text(x)) : series.x;
    const [, suffix, point] = unit(chart.yUnit, all);
    const [, xSuffix, xPoint] = chart.xKind === "number" ? unit(chart.xUnit, topOf(series.x)) : ["", "", ""];
    const along = chart.horizontal ? { x: series.y, y: named, orientation: "h" } : { x: named, y: series.y };
    const labels = series.labels ? series.labels.map(text) : null;
    const value = chart.horizontal ? `%{x:${point}}` : `%{y:${point}}`;
    const isQuantile = chart.xKind === "quantile";
    const at = isQuantile ? "%{text}" : chart.horizontal ? "%{y}" : chart.xKind === "number" ? `%{x:${xPoint}}${xSuffix}` : "%{x}";
    const ends = series.low && series.kind !== "line" && series.kind !== "step" ? " (%{customdata[0]} to %{customdata[1]})" : "";
    const base = { ...along, name, legendgroup: name, hovertext: labels, hovertemplate: `${labels ? "%{hovertext}<br>" : ""}${at}: ${value}${suffix}${ends}<extra>${name}</extra>` };
    if (isQuantile) base.text = series.x.map(percent);
    const pretty = (number) => number === null ? "–" : chart.yUnit === "ratio" ? `${(100 * number).toPrecision(3)} %` : `${Number(number.toPrecision(4))}`;
    if (ends) base.customdata = series.low.map((low, i) => [pretty(low), pretty(series.high[i])]);
    if (series.kind === "bar") {
      const whisker = series.low ? { [chart.horizontal ? "error_x" : "error_y"]: whiskers(series, colour("--muted")) } : {};
      const named = chart.namedParts ? partNames(series, colour, width) : {};
      return [{ ...base, ...whisker, ...named, type: "bar", marker: { color: shade, line: named.line || { width: 0 } } }];
    }
    if (series.kind === "points") {
      const whisker = series.low ? { [chart.horizontal ? "error_x" : "error_y"]: whiskers(series, shade) } : {};
      return [{ ...base, ...whisker, type: "scatter", mode: "markers", marker: { color: faint(shade, series.x.length > 400 ? 0.35 : 0.85), size: series.size || 7, symbol: series.symbol || "circle", line: { width: 0 } } }];
    }
    const line = { color: shade, width: 2, dash: series.dash || "solid", ...(series.kind === "step" ? { shape: "hv" } : {}) };
    const made = [];
    if (series.low) {
      const band = { x: named, type: "scatter", mode: "lines", line: { width: 0, ...(series.kind === "step" ? { shape: "hv" } : {}) }, hoverinfo: "skip", showlegend: false, legendgroup: name, connectgaps: false };
      made.push({ ...band, y: series.low }, { ...band, y: series.high, fill: "tonexty", fillcolor: faint(shade, 0.16) });
    }
    const filled = series.kind === "area" ? { fill: chart.stacked ? undefined : "tozeroy", fillcolor: faint(shade, chart.stacked ? 0.8 : 0.2), ...(chart.stacked ? { stackgroup: "all" } : {}) } : {};
    // A few values are shown as such: a line between three of them would hide where they stand.
    const mode = series.kind === "line" && series.x.length <= 24 && !series.dash ? "lines+markers" : "lines";
    made.push({ ...base, ...filled, type: "scatter", mode, line, marker: { color: shade, size: 6, symbol: series.symbol || "circle" }, connectgaps: false });
    return made;
  }

  // A part of a stacked bar has its name on it where there is room, else its share.
  function partNames(series, colour, width) {
    const named = (share) => share * (width - 120) > 7 * series.name.length;
    const word = (share) => (named(share) ? text(series.name) : share * width > 36 ? `${Math.round(100 * share)}\u202f%` : "");
    return {
      text: series.y.map((share) => (share ? word(share) : "")), textposition: "inside", insidetextanchor: "middle", textangle: 0,
      constraintext: "none", insidetextfont: { color: colour("--tax-ink"), size: 11 },
      line: { color: colour("--surface"), width: 1 },
    };
  }

  // 1/(1-q) back to the quantile it stands for, with as many nines as it needs.
  function percent(value) {
    const nines = Math.log10(value);
    // Ticks stand on whole decades; between them one more digit distinguishes neighbours.
    const digits = Math.abs(nines - Math.round(nines)) < 1e-6 ? Math.round(nines) - 2 : Math.ceil(nines) - 1;
    return `${(100 * (1 - 1 / value)).toFixed(Math.max(0, Math.min(8, digits)))}\u202f%`;
  }

  function quantiles(chart, width) {
    const last = Math.max(...chart.series.flatMap((series) => series.x));
    let ticks = [1, 2, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter((tick) => tick <= last * 1.001);
    // A label of five nines is 70 pixels wide; where they would meet, the nearest to the left go first.
    const room = Math.max(3, Math.floor(width / 80));
    const isTight = (Math.log10(2) / Math.log10(last)) * (width - 60) < 45;
    if (ticks.length > room || isTight) ticks = ticks.filter((tick) => tick !== 2);
    while (ticks.length > room) ticks = ticks.filter((tick, at) => at % 2 === 0 || ticks.length === 2);
    const word = (tick) => (tick === 1 ? "0 %" : tick === 2 ? "50 %" : percent(tick));
    return { type: "log", tickvals: ticks, ticktext: ticks.map(word), showgrid: true, tickangle: 0 };
  }

  function whiskers(series, shade) {
    const apart = (ends, sign) => series.y.map((y, i) => y === null || ends[i] === null ? 0 : Math.max(0, sign * (ends[i] - y)));
    return { type: "data", symmetric: false, array: apart(series.high, 1), arrayminus: apart(series.low, -1), color: shade, thickness: 1.4, width: 4 };
  }

  // The ticks of a logarithmic axis with their words.
  function ticksOf(values, suffix, isShare) {
    const ticks = decades(values);
    if (!ticks.length) return {};
    const prefixes = ["n", "µ", "m", "", "k", "M", "G", "T", "P"];
    const word = (value) => {
      if (isShare) return `${Number((100 * value).toPrecision(3))} %`;
      const step = Math.max(-3, Math.min(5, Math.floor(Math.log10(value) / 3 + 1e-9)));
      return Math.abs(step) < 1 || (step === -1 && !suffix) ? `${Number(value.toPrecision(3))}${suffix}` : `${Number((value / 10 ** (3 * step)).toPrecision(3))}\u202f${prefixes[step + 3]}${suffix}`;
    };
    return { tickvals: ticks, ticktext: ticks.map(word) };
  }

  function xy(chart, colour, width) {
    const values = chart.series.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]);
    const all = topOf(values);
    const traces = chart.series.flatMap((one) => trace(one, chart, colour, all, width));
    const [format, suffix] = unit(chart.yUnit, all);
    const figures = { ...axisOf(colour), tickformat: format, ticksuffix: suffix, title: titleOf(chart.yTitle, colour), nticks: 7, rangemode: chart.fromZero || chart.series.some((one) => one.kind === "bar") ? "tozero" : "normal" };
    if (chart.yRange) figures.range = chart.yLog ? chart.yRange.map(Math.log10) : chart.yRange;
    if (chart.yLog) Object.assign(figures, { type: "log", tickformat: "", ticksuffix: "", ...ticksOf(values, suffix, chart.yUnit === "ratio") });
    const along = { ...axisOf(colour), title: titleOf(chart.xTitle, colour), showgrid: chart.xKind === "number", ticks: "outside", ticklen: 4, tickcolor: colour("--line") };
    if (chart.xKind === "name") {
      const names = [...new Set(chart.series.flatMap((one) => one.x))];
      const most = chart.horizontal ? Math.max(12, Math.floor(width / 18)) : 24;
      Object.assign(along, { type: "category", categoryorder: "array", categoryarray: names.map(text), tickmode: "array", tickvals: names.map((_, at) => at), ticktext: names.map((name) => text(cut(name, most))) });
      if (chart.horizontal) Object.assign(along, { autorange: "reversed", ticks: "" });
    } else if (chart.xKind === "quantile") Object.assign(along, quantiles(chart, width));
    else if (chart.xKind === "time") Object.assign(along, { type: "date", title: titleOf(chart.xTitle || "UTC", colour), hoverformat: "%Y-%m-%d %H:%M:%S" });
    else {
      const across = chart.series.flatMap((one) => one.x);
      const [xFormat, xSuffix] = unit(chart.xUnit, topOf(across));
      Object.assign(along, { tickformat: xFormat, ticksuffix: xSuffix });
      if (chart.xLog) Object.assign(along, { type: "log", tickformat: "", ticksuffix: "", ...ticksOf(across, xSuffix, chart.xUnit === "ratio") });
    }
    if (chart.xRange) along.range = chart.xLog ? chart.xRange.map(Math.log10) : chart.xRange;
    // Names of lines across the chart stand above it, and the legend above them.
    const named = chart.series.length > 1 && [...chart.marks.filter((mark) => mark.axis === "x"), ...chart.bands].some((one) => one.label);
    return [traces, {
      ...marks(chart, colour), ...(chart.horizontal ? { xaxis: figures, yaxis: along } : { xaxis: along, yaxis: { ...figures, fixedrange: true } }),
      barmode: chart.stacked ? "stack" : "group", bargap: 0.25, hovermode: chart.xKind === "time" && !chart.horizontal ? "x unified" : "closest",
      showlegend: chart.series.length > 1 && !chart.namedParts, hoverdistance: chart.xKind === "quantile" ? -1 : 20, legend: { orientation: "h", x: 0, y: named ? 1.08 : 1.02, yanchor: "bottom", font: { color: colour("--ink"), size: 12 } }, margin: { l: 8, r: 16, t: named ? 50 : chart.series.length > 1 || chart.marks.length || chart.bands.length ? 34 : 12, b: 8 },
    }];
  }

  // Lines and spans across a chart. On a logarithmic axis a shape takes the value itself, an annotation its logarithm.
  function marks(chart, colour) {
    const shapes = [], annotations = [];
    const [x, y] = chart.horizontal ? ["y", "x"] : ["x", "y"];
    for (const band of chart.bands) {
      const shade = shadeOf(band.role, colour);
      shapes.push({ type: "rect", xref: "x", yref: "paper", x0: band.begin, x1: band.end, y0: 0, y1: 1, line: { width: 0 }, fillcolor: faint(shade, 0.13), layer: "below" });
      if (band.label) annotations.push({ x: band.begin, xref: "x", y: 1, yref: "paper", yanchor: "top", xanchor: "left", text: text(band.label), showarrow: false, font: { size: 11, color: shade } });
    }
    for (const mark of chart.marks) {
      const shade = shadeOf(mark.role, colour), line = { width: 1.5, color: shade, dash: "dash" };
      const said = { text: text(mark.label), showarrow: false, font: { size: 11, color: shade } };
      const ref = mark.axis === "x" ? x : y, other = ref === "x" ? "y" : "x";
      shapes.push({ type: "line", [`${ref}ref`]: ref, [`${other}ref`]: "paper", [`${ref}0`]: mark.at, [`${ref}1`]: mark.at, [`${other}0`]: 0, [`${other}1`]: 1, line });
      const log = mark.axis === "x" ? chart.xLog : chart.yLog;
      if (mark.label) annotations.push({ ...said, [`${ref}ref`]: ref, [ref]: log ? Math.log10(mark.at) : mark.at, [`${other}ref`]: "paper", [other]: ref === "x" ? 1 : 0, [`${ref}anchor`]: ref === "x" ? "center" : "bottom", [`${other}anchor`]: ref === "x" ? "bottom" : "left" });
    }
    return { shapes, annotations };
  }

  function heat(chart, colour, width) {
    const [format, suffix, point] = unit(chart.unit, topOf(chart.z.flat()));
    const known = chart.z.flat().filter((value) => value !== null);
    let low = chart.low ?? Math.min(...known), high = chart.high ?? Math.max(...known);
    let scale = heatScale(colour);
    if (chart.middle !== null) {
      // Both sides have the same reach, so that the middle has the paper's colour.
      const reach = Math.max(high - chart.middle, chart.middle - low, 1e-12);
      [low, high] = [chart.middle - reach, chart.middle + reach];
      scale = [[0, colour("--s-blue")], [0.5, colour("--surface")], [1, colour("--s-red")]];
    }
    const most = Math.max(10, Math.floor(width / 30));
    const numbers = (names) => names.map((_, at) => at);
    // A label takes about 8 pixels a letter across, and 14 down: of many rows or columns some are named.
    const every = (names, room, wide) => Math.max(1, Math.ceil(names.length * wide / Math.max(100, room)));
    const side = (names, limit, step) => {
      const named = numbers(names).filter((at) => at % step === 0);
      return { ...axisOf(colour), tickvals: named, ticktext: named.map((at) => text(cut(names[at], limit))), showgrid: false };
    };
    const longest = Math.min(16, Math.max(...chart.columns.map((name) => name.length)));
    const across = longest > 5 ? 1 : every(chart.columns, width - 120, 8 * longest + 4);
    const down = every(chart.rows, (chart.height || 400) - 60, 14);
    const shapes = chart.borders.flatMap((at) => ["x", "y"].map((axis) => {
      const [here, other] = axis === "x" ? [chart.columns, chart.rows] : [chart.rows, chart.columns];
      const ends = { [`${axis}0`]: at - 0.5, [`${axis}1`]: at - 0.5, [`${axis === "x" ? "y" : "x"}0`]: -0.5, [`${axis === "x" ? "y" : "x"}1`]: other.length - 0.5 };
      return here.length > at ? { type: "line", xref: "x", yref: "y", ...ends, line: { width: 2, color: colour("--surface") } } : null;
    })).filter(Boolean);
    const gap = chart.columns.length > 64 ? 0 : 1;
    const annotations = [];
    if (chart.cells) chart.cells.forEach((row, r) => row.forEach((word, c) => { if (word) annotations.push({ x: c, y: r, text: text(word), showarrow: false, font: { size: 11, color: ink(chart.z[r][c]) } }); }));
    function ink(value) {
      if (value === null) return colour("--muted");
      const at = (value - low) / (high - low || 1);
      if (chart.middle !== null) return colour("--ink");
      const nearest = colour(`--heat-${Math.round(3 * Math.max(0, Math.min(1, at)))}`);
      return light(nearest) > 140 ? "#14181f" : "#ffffff";
    }
    const labels = chart.labels ? chart.labels.map((row) => row.map(text)) : chart.z.map((row, r) => row.map((_, c) => `${text(chart.rows[r])}, ${text(chart.columns[c])}`));
    return [[{ type: "heatmap", x: numbers(chart.columns), y: numbers(chart.rows), z: chart.z, zmin: low, zmax: high, colorscale: scale, hoverongaps: false, xgap: gap, ygap: gap, customdata: labels,
               colorbar: { tickformat: format, ticksuffix: suffix, thickness: 10, outlinewidth: 0, len: 0.94, tickfont: { color: colour("--muted"), size: 11 } }, hovertemplate: `%{customdata}: %{z:${point}}${suffix}<extra></extra>` }],
            { annotations, shapes, xaxis: { ...side(chart.columns, 16, across), title: titleOf(chart.xTitle, colour), side: "bottom" }, yaxis: { ...side(chart.rows, most, down), title: titleOf(chart.yTitle, colour), autorange: "reversed" }, margin: { l: 8, r: 8, t: 8, b: 8 } }];
  }

  Object.assign(page.kinds, { xy, heat });
})();
