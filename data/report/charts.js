/* charts.js - every chart as a Vega specification made from the rows.
 *
 * A chart is a function of its settings that returns { spec, names, rows, note }: the
 * specification, its data for CSV, and what has to be said under it; or null when there is
 * nothing to draw.  Colours and shapes are computed here, so the specifications stay plain. */

/* ---- sigma against the length, and against the radius ------------------------------------- */

/* Colour of a cell, and the legend that goes with it. */
function cellColor(mode, rows) {
    if (mode === "run") {
        const colors = series.map(s => layers.map((l, i) => towardsPaper(categoryColor(s.index),
            layers.length < 2 ? 0 : 0.5 * (1 - i / (layers.length - 1)))));
        const at = new Map(layers.map((layer, i) => [layer, i]));
        return row => colors[row.series.index][at.get(row.layer ?? null)];
    }
    if (mode !== "radius") {
        const colors = new Map(layers.map(layer => [layer, layerColor(layer)]));
        return row => colors.get(row.layer ?? null);
    }
    const [low, high] = logRange(rows.map(row => row.radius_rms), 0);
    return row => isPositive(row.radius_rms) ?
        rampColor(Math.log(row.radius_rms / low) / Math.log(high / low)) :
        cssColor("--soft");
}

function legendEntries(settings, mode) {
    if (mode === "run")
        return series.filter(s => settings.series.has(s))
            .map(s => ({label: s.label, color: categoryColor(s.index), shape: seriesShape(s)}));
    if (mode === "layer")
        return layers.filter(l => settings.layers.has(l))
            .map(l => ({label: layerName(l), color: layerColor(l), shape: "circle"}));
    return [];
}

const isVisible = settings => row => settings.series.has(row.series) &&
    settings.layers.has(row.layer ?? null) &&
    (settings.head === "each" || (row.head ?? null) === settings.head);

const curveOf = row => row.series.index + "/" + (row.layer ?? "") + "/" + (row.head ?? "");

/* Law of a fit between the smallest and the largest x of its curve; all laws of its interval go
 * through the middle of the logarithms, about which least squares turns the line. */
function lawRows(fit, medians, style) {
    const xs = medians.map(m => m.x);
    const middle = Math.exp(medians.reduce((sum, m) => sum + Math.log(m.x), 0) / medians.length);
    const low = Math.min(...xs), high = Math.max(...xs);
    const at = (x, exponent) => fit.coefficient * middle ** fit.exponent * (x / middle) ** exponent;
    return [low, middle, high].map(x => {
        const ends = hasInterval(fit) ?
            [at(x, fit.exponent_low), at(x, fit.exponent_high)] :
            [at(x, fit.exponent)];
        return {
            x,
            y: at(x, fit.exponent),
            low: Math.min(...ends),
            high: Math.max(...ends),
            ...style
        };
    });
}

const largestOf = rows => rows.reduce((best, row) => row.sigma > best.sigma ? row : best);

/* One mark for each length of a curve: medians over its windows. */
function medianRows(members, xOf, colorOf) {
    const first = members[0], shape = seriesShape(first.series);
    const rows = [...groupBy(members, row => row.n)].map(([n, cells]) => {
        const radii = cells.map(row => row.radius_rms).filter(isPositive);
        const like = {series: first.series, layer: first.layer, radius_rms: median(radii)};
        return {
            n, x: median(cells.map(xOf)), y: median(cells.map(row => row.sigma)),
            count: cells.length, first, worst: largestOf(cells), color: colorOf(like), shape,
            median: true
        };
    });
    return rows.sort((a, b) => a.x - b.x);
}

/* The fitted law of a curve; where no straight line fits, against n, its medians joined by a thin
 * line. */
function curveRows(curve, first, medians, against, color) {
    const style = {curve, color, dash: seriesDash(first.series), width: 1.8};
    const fit = fits.find(
        f => f.against === against && f.series === first.series &&
            f.layer === (first.layer ?? null) && f.head === (first.head ?? null));
    if (fit && isLaw(fit)) return lawRows(fit, medians.filter(m => m.n >= 8), style);
    if (against !== "n" || medians.length < 2) return [];
    return medians.map(({x, y}) => ({x, y, low: y, high: y, ...style, width: 1}));
}

/* How steep growth like sqrt(n) is: a short piece in the corner that growing curves leave free. */
function rootGuide(xs, yRange) {
    const [low, high] = logRange(xs, 0), end = low * (high / low) ** 0.3;
    const top = yRange[1] / (yRange[1] / yRange[0]) ** 0.04;
    return guide([{x: low, y: top * Math.sqrt(low / end), text: ""}, {x: end, y: top, text: "√n: the theorem's ½"}]);
}

function radiusAxis(xs) {
    const domain = logRange(xs);
    return {
        domain, axis: axis("x", "bottom", "radius of the tokens, rms |x|", logTicks(...domain))
    };
}

/* Where colours tell the runs apart, the layer stands behind the end of each curve. */
function endLabels(medians, curves) {
    const every = Math.ceil(curves / 24); /* of the layers, where they crowd */
    const last = [...groupBy(medians, m => curveOf(m.first)).values()].map(
        own => own.reduce((a, b) => b.x >= a.x ? b : a)).filter(
        m => layers.indexOf(m.first.layer ?? null) % every === 0);
    return last.map(m => ({x: m.x, y: m.y, color: m.color, text: String(m.first.layer ?? "")}));
}
const layerTexts = {
    name: "endsMarks",
    type: "text",
    from: {data: "ends"},
    interactive: false,
    encode: {
        enter: {
            x: {scale: "x", field: "x", offset: 7},
            y: {scale: "y", field: "y"},
            baseline: {value: "middle"},
            fontSize: {value: 11},
            fill: {field: "color"},
            text: {field: "text"}
        }
    }
};

/* The slope from each length to the next, beside the curve; not where curves crowd. */
function localSlopes(medians, curves, width) {
    if (curves > Math.min(4, width / 200)) return [];
    return [...groupBy(medians, m => curveOf(m.first)).values()].flatMap(own => own.slice(1).map(
        (b, i) => {
            const a = own[i];
            return {
                x: Math.sqrt(a.x * b.x), y: Math.sqrt(a.y * b.y), color: b.color,
                text: fixed(Math.log(b.y / a.y) / Math.log(b.x / a.x), 2)
            };
        }).filter(s => isNumber(Number(s.text))));
}
const slopeTexts = {
    name: "localMarks",
    type: "text",
    from: {data: "local"},
    interactive: false,
    encode: {
        enter: {
            x: {scale: "x", field: "x"},
            y: {scale: "y", field: "y", offset: -12},
            align: {value: "center"},
            baseline: {value: "middle"},
            fontSize: {value: 11},
            fill: {field: "color"},
            text: {field: "text"}
        }
    }
};

/* against: "n" or "radius" */
function cellChart(settings, options, against) {
    const byLength = against === "n", xOf = byLength ? row => row.n : row => row.radius_rms;
    const chosen = rowsOf.measure.filter(isVisible(settings));
    const rows = chosen.filter(row => isPositive(row.sigma) && isPositive(xOf(row)));
    if (!rows.length) return null;
    const mode = settings.color, colorOf = cellColor(mode, rowsOf.measure);
    const soft = cssColor("--soft"), rim = {value: cssColor("--paper")};
    const points = rows.map(row => ({
        x: xOf(row), y: row.sigma, color: colorOf(row), shape: seriesShape(row.series), row
    }));
    const medians = [], laws = [], groups = groupBy(rows, curveOf);
    for (const [curve, members] of groups) {
        const own = medianRows(members, xOf, colorOf), first = members[0];
        const color = mode === "radius" ? soft : colorOf(first);
        if (byLength) medians.push(...own);
        laws.push(...curveRows(curve, first, own, against, color));
    }
    const ends = mode === "run" && layers.length > 1 ? endLabels(medians, groups.size) : [];
    if (groups.size > 14) /* bands would hide each other */
        for (const law of laws) law.low = law.high = law.y;

    const xs = points.map(p => p.x), ys = [...points.map(p => p.y), ...laws.map(l => l.y)];
    const yRange = logRange(ys), x = byLength ? lengthAxis(xs, options.width) : radiusAxis(xs);
    const line = byLength && distinct(xs).length > 1 ? rootGuide(xs, yRange) : null;
    return {
        spec: frame(options, {
            data: [
                ...(line ? [line.data] : []), {name: "laws", values: laws},
                {name: "points", values: settings.windows || !byLength ? points : []},
                {name: "medians", values: medians}, {name: "ends", values: ends},
                {name: "local", values: byLength ?
                    localSlopes(medians, groups.size, options.width) : []}
            ],
            marks: [
                ...(line ? line.marks : []), curves("laws"),
                symbols("points", 26, byLength ? 0.38 : 0.55),
                symbols("medians", 62, 1, {stroke: rim, strokeWidth: {value: 1}}), layerTexts,
                slopeTexts
            ],
            scales: [logScale("x", "width", x.domain), logScale("y", "height", yRange)],
            axes: [x.axis, axis("y", "left", "sigma", logTicks(...yRange))],
            entries: legendEntries(settings, mode),
            shaped: mode === "run"
        }),
        size: points.length + medians.length,
        names: ["run", "layer", "head", "n", "window", "sigma", "radius_rms"],
        rows: rows.map(row => [
            row.series.label, row.layer, row.head, row.n, row.window, row.sigma, row.radius_rms
        ]),
        note: chosen.length > rows.length
            ? chosen.length - rows.length + " cells without a positive sigma are not drawn." : ""
    };
}

const growthChart = (settings, options) => cellChart(settings, options, "n");
const radiusChart = (settings, options) => cellChart(settings, options, "radius");

/* ---- Heat map ----------------------------------------------------------------------------- */

/* What a map of layers by heads or lengths shows: a positive number of a cell, on which scale its
 * colour is, and how it reads. */
const mapQuantities = {
    sigma: {
        of: row => row.sigma, log: true, name: "median sigma", column: "median_sigma",
        text: x => formatNumber(x, 3), long: x => formatNumber(x, 6)
    },
    sink: {
        of: row => isPositive(row.sink) ? row.sink / row.n : null, log: false,
        name: "median share", column: "median_share_of_the_sink",
        text: x => fixed(100 * x, 0) + " %", long: x => shareText(x)
    }
};

function placeMap(settings, options, what) {
    const byHead = settings.across === "head";
    const rows = rowsOf.measure.filter(
        row => row.series === settings.heatSeries && isPositive(what.of(row)) &&
            (byHead ? row.head !== null && row.head !== undefined && row.n === settings.length :
                      (row.head ?? null) === settings.heatHead));
    if (!rows.length) return null;
    const cells = [
        ...groupBy(rows, row => (row.layer ?? "") + "/" + (byHead ? row.head : row.n)).values()
    ].map(members => ({
              layer: members[0].layer ?? null,
              place: byHead ? members[0].head : members[0].n,
              value: median(members.map(what.of)),
              count: members.length,
              first: members[0],
              worst: largestOf(members),
              what
          }));
    const [low, high] = logRange(cells.map(c => c.value), 0);
    const rowsShown = sortPlaces(distinct(cells.map(c => c.layer))),
          places = sortPlaces(distinct(cells.map(c => c.place)));
    const width = options.width / (places.length + 1), labelled = width > 34 && cells.length <= 600;
    for (const cell of cells) {
        const t = !(high > low) ? 0.5 : what.log ?
            Math.log(cell.value / low) / Math.log(high / low) : (cell.value - low) / (high - low);
        cell.color = rampColor(t);
        cell.ink = isDark() || t > 0.55 ? "#10131a" : "#ffffff";
        cell.text = labelled ? what.text(cell.value) : "";
        cell.heat = true;
    }
    const height = Math.min(720, Math.max(120, rowsShown.length * 26 + 60));
    return {
        height,
        size: cells.length,
        spec: frame({...options, height}, {
            data: [{name: "cells", values: cells}],
            scales: [
                {name: "x", type: "band", domain: places, range: "width", paddingInner: 0.04},
                {name: "y", type: "band", domain: rowsShown, range: "height", paddingInner: 0.06}
            ],
            axes: [
                {
                    scale: "x",
                    orient: "bottom",
                    title: byHead ? "head" : "length n (tokens)",
                    domain: false,
                    ticks: false,
                    labelOverlap: "greedy"
                },
                {
                    scale: "y",
                    orient: "left",
                    title: "layer",
                    domain: false,
                    ticks: false,
                    labelOverlap: "greedy",
                    encode: {
                        labels: {
                            update: {text: {signal: "datum.value === null ? 'model' : datum.value"}}
                        }
                    }
                }
            ],
            marks: [
                {
                    name: "cellsMarks",
                    type: "rect",
                    from: {data: "cells"},
                    encode: {
                        enter: {
                            x: {scale: "x", field: "place"},
                            width: {scale: "x", band: 1},
                            y: {scale: "y", field: "layer"},
                            height: {scale: "y", band: 1},
                            fill: {field: "color"},
                            cornerRadius: {value: 2},
                            cursor: {value: "pointer"}
                        },
                        update: {stroke: {value: null}},
                        hover: {stroke: {value: cssColor("--ink")}, strokeWidth: {value: 1.5}}
                    }
                },
                {
                    type: "text",
                    from: {data: "cells"},
                    interactive: false,
                    encode: {
                        enter: {
                            x: {scale: "x", field: "place", band: 0.5},
                            y: {scale: "y", field: "layer", band: 0.5},
                            align: {value: "center"},
                            baseline: {value: "middle"},
                            fill: {field: "ink"},
                            fontSize: {value: 11},
                            text: {field: "text"}
                        }
                    }
                }
            ]
        }),
        names: ["layer", byHead ? "head" : "n", what.column, "windows"],
        rows: cells.map(c => [c.layer, c.place, c.value, c.count]),
        ramp: [what.text(low), what.text(high)],
        note: ""
    };
}
const heatChart = (settings, options) => placeMap(settings, options, mapQuantities.sigma);
const sinkChart = (settings, options) => placeMap(settings, options, mapQuantities.sink);

/* ---- One value against another ------------------------------------------------------------ */

const boundNames = {
    upper: "proved upper bound",
    upper_prob: "upper bound with its probability",
    released: "as released"
};

/* sigma across, other fields of the same cell up, and the diagonal on which they are equal. */
function againstChart(settings, options, fields) {
    const rows = rowsOf.measure.filter(isVisible(settings)).filter(row => isPositive(row.sigma));
    const colors = fields.map((field, i) => categoryColor(i));
    const points = fields.flatMap(
        (field, i) =>
            rows.filter(row => isPositive(row[field]))
                .map(
                    row =>
                        ({x: row.sigma, y: row[field], color: colors[i], shape: shapes[i], row})));
    if (!points.length) return null;
    const xRange = logRange(points.map(p => p.x)),
          yRange = logRange([...points.map(p => p.y), ...points.map(p => p.x)]);
    const line = guide(xRange.map(x => ({x, y: x, text: ""})));
    return {
        spec: frame(options, {
            data: [line.data, {name: "points", values: points}],
            scales: [logScale("x", "width", xRange), logScale("y", "height", yRange)],
            axes: [
                axis("x", "bottom", "sigma", logTicks(...xRange)),
                axis(
                    "y", "left", fields.length > 1 ? "bound" : boundNames[fields[0]],
                    logTicks(...yRange))
            ],
            marks: [...line.marks, symbols("points", 34, 0.6)],
            entries: fields.map(
                (field, i) =>
                    ({label: boundNames[field], color: categoryColor(i), shape: shapes[i]})),
            shaped: true
        }),
        size: points.length,
        names: ["run", "layer", "head", "n", "window", "sigma", ...fields],
        rows: rows.map(
            row =>
                [row.series.label, row.layer, row.head, row.n, row.window, row.sigma,
                 ...fields.map(f => row[f])]),
        note: ""
    };
}

const upperChart = (settings, options) => againstChart(
    settings, options,
    ["upper", "upper_prob"].filter(f => rowsOf.measure.some(row => isPositive(row[f]))));
const releasedChart = (settings, options) => againstChart(settings, options, ["released"]);

/* ---- The zoo of bounds -------------------------------------------------------------------- */

const zooKey = row => JSON.stringify([
    row.run, row.model, row.layer, row.head, row.n, row.window, row.radius, row.experiment
].map(x => x ?? null));
const zooKinds = ["upper", "limit", "lower"];
/* ln(value), also where a double cannot hold the value */
const zooLog = row => isPositive(row.value) ? Math.log(row.value) :
    isNumber(row.log_value)                 ? row.log_value :
                                              null;

function zooChart(settings, options) {
    const all = rowsOf.bound.filter(row => zooKey(row) === settings.zoo && !row.refused);
    const sigma = all.map(row => row.sigma).find(isPositive);
    const drawn =
        all.filter(row => zooLog(row) !== null && row.norm === (settings.norm ?? row.norm));
    if (!drawn.length) return null;
    /* what lies beyond is drawn at the edge, as an arrow */
    const logs = drawn.map(zooLog), least = Math.min(...logs, sigma ? Math.log(sigma) : Infinity);
    const most =
        Math.min(Math.max(...logs, sigma ? Math.log(sigma) : -Infinity), least + Math.log(1e7));
    const xRange = [Math.exp(least) / 1.3, Math.exp(most) * 1.6];
    const dots = drawn.sort((a, b) => zooLog(a) - zooLog(b)).map(row => {
        const beyond = zooLog(row) > most;
        return {
            x: beyond ? xRange[1] / 1.1 : Math.exp(zooLog(row)),
            name: row.name + (row.norm && row.norm !== "frobenius" ? "  (" + row.norm + ")" : ""),
            color: categoryColor(Math.max(0, zooKinds.indexOf(row.kind))),
            shape: beyond ? "triangle-right" : "circle",
            zoo: true,
            row
        };
    });
    const names = distinct(dots.map(d => d.name)), height = names.length * 20 + 60,
          ink = cssColor("--ink");
    const marks = [{
        name: "boundsMarks",
        type: "symbol",
        from: {data: "bounds"},
        encode: {
            enter: {
                x: {scale: "x", field: "x"},
                y: {scale: "y", field: "name", band: 0.5},
                size: {value: 80},
                fill: {field: "color"},
                shape: {field: "shape"}
            }
        }
    }];
    if (sigma)
        marks.unshift(
            {
                type: "rule",
                interactive: false,
                encode: {
                    enter: {
                        x: {scale: "x", value: sigma},
                        y: {value: 0},
                        y2: {signal: "height"},
                        stroke: {value: ink},
                        strokeWidth: {value: 1.5}
                    }
                }
            },
            {
                type: "text",
                interactive: false,
                encode: {
                    enter: {
                        x: {scale: "x", value: sigma},
                        y: {value: -4},
                        text: {value: "exact " + formatNumber(sigma)},
                        fill: {value: ink},
                        fontSize: {value: 11},
                        align: {value: "center"}
                    }
                }
            });
    return {
        height,
        size: dots.length,
        spec: frame({...options, height}, {
            data: [{name: "bounds", values: dots}],
            scales: [
                logScale("x", "width", xRange),
                {name: "y", type: "band", domain: names, range: "height"}
            ],
            axes: [
                axis("x", "bottom", "value of the bound", logTicks(...xRange)), {
                    scale: "y",
                    orient: "left",
                    grid: false,
                    ticks: false,
                    domain: false,
                    labelLimit: Math.max(110, options.width * 0.4),
                    bandPosition: 0.5
                }
            ],
            marks,
            entries: zooKinds.filter(k => drawn.some(r => r.kind === k))
                         .map(k => ({label: k, color: categoryColor(zooKinds.indexOf(k))}))
        }),
        names: ["name", "source", "kind", "norm", "domain", "value", "log_value", "sigma", "ratio"],
        rows: drawn.map(
            r =>
                [r.name, r.source, r.kind, r.norm, r.domain, r.value, r.log_value, r.sigma,
                 r.ratio]),
        note: ""
    };
}

/* ---- Attack, construction, bound ---------------------------------------------------------- */

const attackParts = [
    [
        "sigma",
        rowsOf.attack.some(row => isNumber(row.evaluations)) ? "attack: found by search" :
                                                               "exact sigma"
    ],
    ["best_construction", "best construction"], ["upper", "proved upper bound"]
];
const attackKey = row => row.series.index + "/" + row.radius + "/" + row.domain;

function attackChart(settings, options) {
    const rows = rowsOf.attack.filter(
        row =>
            isPositive(row.n) && (settings.attack === "all" || attackKey(row) === settings.attack));
    const points = [], lines = [];
    attackParts.forEach(([field], i) => {
        const color = categoryColor(i), shape = shapes[i];
        const own = rows.filter(row => isPositive(row[field]))
                        .map(row => ({x: row.n, y: row[field], color, shape, row}));
        points.push(...own);
        for (const [key, members] of groupBy(own, p => p.row.series.index + "/" + p.row.domain)) {
            const best = [...groupBy(members, p => p.x)].map(
                ([x, same]) =>
                    ({x, y: (field === "upper" ? Math.min : Math.max)(...same.map(p => p.y))}));
            best.sort((a, b) => a.x - b.x);
            lines.push(...best.map(p => ({
                                       ...p,
                                       low: p.y,
                                       high: p.y,
                                       curve: field + key,
                                       color,
                                       dash: field === "upper" ? [5, 3] : [],
                                       width: 1.6
                                   })));
        }
    });
    if (!points.length) return null;
    const yRange = logRange(points.map(p => p.y)),
          x = lengthAxis(points.map(p => p.x), options.width);
    return {
        spec: frame(options, {
            data: [{name: "lines", values: lines}, {name: "points", values: points}],
            scales: [logScale("x", "width", x.domain), logScale("y", "height", yRange)],
            axes: [x.axis, axis("y", "left", "sigma", logTicks(...yRange))],
            marks: [curves("lines"), symbols("points", 60, 0.9)],
            entries: attackParts.map(
                ([field, name], i) => ({label: name, color: categoryColor(i), shape: shapes[i]})),
            shaped: true
        }),
        size: points.length,
        names: [
            "run", "n", "radius", "domain", "start", "sigma", "best_construction", "upper",
            "evaluations"
        ],
        rows: rows.map(
            r =>
                [r.series.label, r.n, r.radius, r.domain, r.start, r.sigma, r.best_construction,
                 r.upper, r.evaluations]),
        note: ""
    };
}
