/* depth.js - charts over the layers: how the exponent changes with depth, and between which
 * lengths sigma grows. */

/* ---- Straight axes and marks --------------------------------------------------------------- */

const straightScale = (name, range, domain) => ({name, type: "linear", domain, range, zero: false});

/* The range of exponents: 0 and the theorem's 1/2 are always in it. */
function exponentRange(values) {
    const known = values.filter(isNumber);
    const low = Math.min(0, ...known), high = Math.max(0.5, ...known), rim = 0.08 * (high - low);
    return [low < 0 ? low - rim : -0.04, high + rim];
}

const exponentAxis = ([low, high]) => {
    const step = high - low > 2.4 ? 0.5 : 0.25, values = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) values.push(k * step);
    return {scale: "y", orient: "left", title: "exponent of n", values, grid: false, format: ".2~f"};
};

/* Lines across at the exponents that people compare with. */
function exponentGuides(narrow) {
    const soft = cssColor("--soft");
    const lines = [
        {y: 0, dash: [], text: ""},
        {y: 0.25, dash: [1, 4], text: narrow ? "¼" : "¼, drawn by the paper"},
        {y: 0.5, dash: [5, 4], text: narrow ? "½" : "½, the theorem's worst"}
    ];
    return {
        data: {name: "exponents", values: lines},
        marks: [
            {
                type: "rule",
                from: {data: "exponents"},
                interactive: false,
                encode: {
                    enter: {
                        x: {value: 0},
                        x2: {signal: "width"},
                        y: {scale: "y", field: "y"},
                        stroke: {value: soft},
                        strokeOpacity: {value: 0.7},
                        strokeDash: {field: "dash"}
                    }
                }
            },
            {
                type: "text",
                from: {data: "exponents"},
                interactive: false,
                encode: {
                    enter: {
                        x: {signal: "width", offset: -4},
                        y: {scale: "y", field: "y", offset: -6},
                        align: {value: "right"},
                        fill: {value: soft},
                        fontSize: {value: 11},
                        text: {field: "text"}
                    }
                }
            }
        ]
    };
}

const errorBars = data => ({
    name: data + "Marks",
    type: "rule",
    from: {data},
    interactive: false,
    encode: {
        enter: {
            x: {scale: "x", field: "x"},
            y: {scale: "y", field: "low"},
            y2: {scale: "y", field: "high"},
            stroke: {field: "color"},
            strokeWidth: {value: 1.4},
            strokeOpacity: {value: 0.75}
        }
    }
});

/* A thin line through the points of each curve, in their order. */
const thinLine = (points, dashOf) => points.map(p => ({
    x: p.x, y: p.y, low: p.y, high: p.y, curve: p.curve, color: p.color, dash: dashOf(p), width: 1.2
}));

/* ---- The exponent by depth ----------------------------------------------------------------- */

/* Fits of whole layers that an exponent could be told of, those of one series beside each other. */
const depthFits = settings => fits.filter(
    f => f.against === "n" && f.layer !== null && isNumber(f.exponent) &&
        settings.series.has(f.series) && (settings.head === "each" || f.head === settings.head));

/* Whether there is a depth to show. */
const hasDepth = () =>
    distinct(fits.filter(f => f.against === "n" && isNumber(f.exponent) && f.layer !== null)
                 .map(f => f.layer)).length > 1;

function depthChart(settings, options) {
    const known = depthFits(settings);
    if (!known.length) return null;
    const paper = cssColor("--paper"), several = series.length;
    const points = known.map(f => {
        const color = categoryColor(f.series.index);
        return {
            /* side by side, so that intervals do not hide each other */
            x: f.layer + (several > 1 ? 0.3 * (f.series.index / (several - 1) - 0.5) : 0),
            y: f.exponent, low: hasInterval(f) ? f.exponent_low : null,
            high: hasInterval(f) ? f.exponent_high : null, color,
            fill: isLaw(f) ? color : paper, shape: seriesShape(f.series),
            curve: f.series.index + "/" + (f.head ?? ""), fit: f
        };
    }).sort((a, b) => a.x - b.x);
    const bars = points.filter(p => p.low !== null);
    const guides = exponentGuides(options.width < 520), rim = known.map(f => f.layer);
    const yRange = exponentRange(points.flatMap(p => [p.y, p.low, p.high]));
    const xRange = [Math.min(...rim) - 0.5, Math.max(...rim) + 0.5];
    return {
        spec: frame(options, {
            data: [
                guides.data, {name: "bars", values: bars},
                {name: "joined", values: thinLine(points, p => seriesDash(p.fit.series))},
                {name: "layers", values: points}
            ],
            scales: [straightScale("x", "width", xRange), straightScale("y", "height", yRange)],
            axes: [
                {
                    scale: "x", orient: "bottom", title: "layer", grid: false, format: "d",
                    values: sortPlaces(distinct(rim)), labelOverlap: "greedy"
                },
                exponentAxis(yRange)
            ],
            marks: [
                ...guides.marks, curves("joined"), errorBars("bars"),
                symbols("layers", 70, 1, {
                    fill: {field: "fill"}, stroke: {field: "color"}, strokeWidth: {value: 1.6}
                })
            ],
            entries: series.filter(s => settings.series.has(s)).map(
                s => ({label: s.label, color: categoryColor(s.index), shape: seriesShape(s)})),
            shaped: true
        }),
        size: points.length,
        names: ["run", "layer", "head", "exponent", "low", "high", "law", "starts"],
        rows: known.map(f => [
            f.series.label, f.layer, f.head, f.exponent, f.exponent_low, f.exponent_high,
            isLaw(f), f.starts
        ]),
        note: bars.length < points.length
            ? "Marks without a bar have no interval: it needs six windows that start alike at all " +
                "lengths." : ""
    };
}

/* ---- Local slopes -------------------------------------------------------------------------- */

/* From each length to the next, at the middle of both on the logarithmic axis. */
function slopeChart(settings, options) {
    const colorOf = cellColor(settings.color === "radius" ? "layer" : settings.color, []);
    const points = [];
    for (const fit of fits) {
        if (fit.against !== "n" || !settings.series.has(fit.series) ||
            !settings.layers.has(fit.layer) ||
            settings.head !== "each" && fit.head !== settings.head)
            continue;
        const own = fit.series.rows.filter(
            r => (r.layer ?? null) === fit.layer && (r.head ?? null) === fit.head && r.n >= 8);
        const at = sortPlaces(distinct(own.map(r => r.n)));
        if (!Array.isArray(fit.slopes) || fit.slopes.length !== at.length - 1) continue;
        const like = {series: fit.series, layer: fit.layer};
        fit.slopes.forEach((slope, i) => isNumber(slope) && points.push({
            x: Math.sqrt(at[i] * at[i + 1]), y: slope, from: at[i], to: at[i + 1],
            color: colorOf(like), shape: seriesShape(fit.series),
            curve: fit.series.index + "/" + (fit.layer ?? "") + "/" + (fit.head ?? ""), slope: fit
        }));
    }
    if (!points.length) return null;
    const guides = exponentGuides(options.width < 520);
    const yRange = exponentRange(points.map(p => p.y));
    const x = lengthAxis(points.flatMap(p => [p.from, p.to]), options.width);
    return {
        spec: frame(options, {
            data: [
                guides.data,
                {name: "joined", values: thinLine(points, p => seriesDash(p.slope.series))},
                {name: "slopes", values: points}
            ],
            scales: [logScale("x", "width", x.domain), straightScale("y", "height", yRange)],
            axes: [x.axis, exponentAxis(yRange)],
            marks: [...guides.marks, curves("joined"), symbols("slopes", 42, 0.9)],
            entries: legendEntries(settings, settings.color),
            shaped: settings.color === "run"
        }),
        size: points.length,
        names: ["run", "layer", "head", "from", "to", "local_exponent"],
        rows: points.map(p => [
            p.slope.series.label, p.slope.layer, p.slope.head, p.from, p.to, p.y
        ]),
        note: ""
    };
}

/* ---- What changed between runs --------------------------------------------------------------- */

/* Against the first run, which is the one that stands first on the command line. */
const changes = (report.changes ?? []).filter(c => isPositive(c.ratio)).map(
    c => ({...c, layer: c.layer ?? null, head: c.head ?? null,
        series: series.find(s => s.first.run === c.of)})).filter(c => c.series);

function changeChart(settings, options) {
    const known = changes.filter(c => c.layer !== null && settings.series.has(c.series) &&
        (settings.head === "each" || c.head === settings.head));
    if (!known.length) return null;
    const soft = cssColor("--soft"), count = distinct(known.map(c => c.of)).length;
    const points = known.map(c => ({
        x: c.layer + (count > 1 ? 0.3 * ((c.of - 1) / (count - 1) - 0.5) : 0), y: c.ratio,
        low: c.ratio_low, high: c.ratio_high, color: categoryColor(c.series.index),
        shape: seriesShape(c.series), curve: c.of + "/" + (c.head ?? ""), change: c
    })).sort((a, b) => a.x - b.x);
    const bars = points.filter(p => isPositive(p.low) && isPositive(p.high));
    const yRange = logRange([1, ...points.map(p => p.y), ...bars.flatMap(p => [p.low, p.high])], 0.1);
    const rim = known.map(c => c.layer), xRange = [Math.min(...rim) - 0.5, Math.max(...rim) + 0.5];
    return {
        spec: frame(options, {
            data: [
                {name: "bars", values: bars},
                {name: "joined", values: thinLine(points, p => seriesDash(p.change.series))},
                {name: "changes", values: points}
            ],
            scales: [straightScale("x", "width", xRange), logScale("y", "height", yRange)],
            axes: [
                {
                    scale: "x", orient: "bottom", title: "layer", grid: false, format: "d",
                    values: sortPlaces(distinct(rim)), labelOverlap: "greedy"
                },
                axis("y", "left", "sigma, as a multiple of the first run's", logTicks(...yRange))
            ],
            marks: [
                {
                    type: "rule", interactive: false,
                    encode: {enter: {
                        x: {value: 0}, x2: {signal: "width"}, y: {scale: "y", value: 1},
                        stroke: {value: soft}, strokeDash: {value: [5, 4]}
                    }}
                },
                curves("joined"), errorBars("bars"), symbols("changes", 70, 1)
            ],
            entries: series.filter(s => known.some(c => c.series === s)).map(
                s => ({label: s.label, color: categoryColor(s.index), shape: seriesShape(s)})),
            shaped: true
        }),
        size: points.length,
        names: ["run", "layer", "head", "before", "after", "ratio", "low", "high", "starts"],
        rows: known.map(c => [
            c.series.label, c.layer, c.head, c.before, c.after, c.ratio, c.ratio_low, c.ratio_high,
            c.starts
        ]),
        note: bars.length < points.length ?
            "Marks without a bar have no interval: it needs six windows that start alike." : ""
    };
}

function changePairs(c) {
    return [
        ["run", c.series.label], ["layer", String(c.layer)],
        ...(c.head === null ? [] : [["head", String(c.head)]]), ["ratio", formatNumber(c.ratio)],
        ["95 % interval", isPositive(c.ratio_low) && isPositive(c.ratio_high) ?
            `${formatNumber(c.ratio_low)} … ${formatNumber(c.ratio_high)}` : "–"],
        [`sigma at n = ${c.n}, first run`, formatNumber(c.before)], ["this run", formatNumber(c.after)],
        ["verdict", formatValue(c.verdict)]
    ];
}

/* What the pointer tells of both. */
function fitPairs(datum) {
    const fit = datum.fit ?? datum.slope;
    return [
        ...(series.length > 1 ? [["run", fit.series.label]] : []),
        ["layer", fit.layer === null ? "model" : String(fit.layer)],
        ...(fit.head === null ? [] : [["head", String(fit.head)]]),
        ...(datum.fit ? [
            ["exponent", fixed(fit.exponent, 3)], ["95 % interval", intervalText(fit, 3)],
            ["verdict", verdictOf(fit)], ["starts", formatValue(fit.starts)]
        ] : [
            ["lengths", `${datum.from} to ${datum.to}`], ["local exponent", fixed(datum.y, 3)]
        ])
    ];
}
