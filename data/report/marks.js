/* marks.js - what the charts are made of: logarithmic axes, marks, the frame of a specification. */

/* ---- Scales and axes --------------------------------------------------------------------- */

/* 1, 2, 5, 10, 20, ... inside the range; powers of ten where it is long, all digits where short. */
function logTicks(low, high) {
    const decades = Math.log10(high / low);
    const digits = decades > 4 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
    const step = Math.max(1, Math.ceil(decades / 8)), ticks = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k += step)
        for (const digit of digits) {
            const tick = Number((digit * 10 ** k).toPrecision(3));
            if (tick >= low && tick <= high) ticks.push(tick);
        }
    return ticks.length > 2 ?
        ticks :
        [0, 1, 2, 3].map(i => Number((low + (high - low) * (i + 0.5) / 4).toPrecision(3)));
}

/* The range of positive values with a margin, as a factor. */
function logRange(values, margin = 0.06) {
    let low = Infinity, high = 0;
    for (const x of values) {
        if (!isPositive(x)) continue;
        if (x < low) low = x;
        if (x > high) high = x;
    }
    if (!(high > 0)) return [0.1, 10];
    if (high / low < 1.02) return [low / 1.2, high * 1.2];
    const factor = (high / low) ** margin;
    return [low / factor, high * factor];
}

/* 0.02, 5, 1,000; 10⁶, 2·10⁹ where that is longer. */
function tickText(x) {
    const exponent = Math.floor(Math.log10(Math.abs(x)) + 1e-9),
          digits = Number((x / 10 ** exponent).toPrecision(3));
    if (exponent < 5 && exponent > -4)
        return Number(x.toPrecision(3)).toLocaleString("en", {maximumSignificantDigits: 3});
    const power = "10" + String(exponent).replace(/./g, c => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");
    return digits === 1 ? power : digits + "·" + power;
}

const axis = (scale, orient, title, values, more = {}) => ({
    scale,
    orient,
    title,
    values,
    grid: true,
    encode: {labels: {update: {text: {signal: "tickTexts[datum.value]"}}}},
    ...more
});
const logScale = (name, range, domain) =>
    ({name, type: "log", domain, range, zero: false, nice: false, clamp: false});

/* Lengths are powers of two more often than not: they are their own ticks while they fit. */
function lengthAxis(values, width, title = "length n (tokens)") {
    const [low, high] = logRange(values);
    const all = sortPlaces(distinct(values)), room = width / 34;
    const ticks =
        all.length <= room ? all : all.filter((x, i) => i % Math.ceil(all.length / room) === 0);
    return {domain: [low, high], axis: axis("x", "bottom", title, ticks, {labelOverlap: "greedy"})};
}

/* ---- Marks -------------------------------------------------------------------------------- */

const symbols = (data, size, opacity, more = {}) => ({
    name: data + "Marks",
    type: "symbol",
    from: {data},
    encode: {
        enter: {
            x: {scale: "x", field: "x"},
            y: {scale: "y", field: "y"},
            size: {value: size},
            fill: {field: "color"},
            fillOpacity: {value: opacity},
            shape: {field: "shape"},
            cursor: {value: "pointer"},
            ...more
        }
    }
});

/* Curves with a band: rows x, y, low, high, curve, color, dash, width. */
const curves = data => ({
    name: data + "Marks",
    type: "group",
    from: {facet: {name: data + "_curve", data, groupby: "curve"}},
    clip: true,
    interactive: false,
    encode: {update: {width: {signal: "width"}, height: {signal: "height"}}},
    marks: [
        {
            type: "area",
            from: {data: data + "_curve"},
            interactive: false,
            encode: {
                enter: {
                    x: {scale: "x", field: "x"},
                    y: {scale: "y", field: "low"},
                    y2: {scale: "y", field: "high"},
                    fill: {field: "color"},
                    fillOpacity: {value: 0.14}
                }
            }
        },
        {
            type: "line",
            from: {data: data + "_curve"},
            interactive: false,
            encode: {
                enter: {
                    x: {scale: "x", field: "x"},
                    y: {scale: "y", field: "y"},
                    stroke: {field: "color"},
                    strokeWidth: {field: "width"},
                    strokeDash: {field: "dash"},
                    strokeJoin: {value: "round"}
                }
            }
        }
    ]
});

/* A dotted line for comparison, with its name at the end. */
const guide = points => {
    const soft = cssColor("--soft");
    return {
        data: {name: "guide", values: points},
        marks: [
            {
                type: "line",
                from: {data: "guide"},
                interactive: false,
                clip: true,
                encode: {
                    enter: {
                        x: {scale: "x", field: "x"},
                        y: {scale: "y", field: "y"},
                        stroke: {value: soft},
                        strokeWidth: {value: 1.2},
                        strokeDash: {value: [1, 4]},
                        strokeCap: {value: "round"}
                    }
                }
            },
            {
                type: "text",
                from: {data: "guide"},
                interactive: false,
                encode: {
                    enter: {
                        x: {scale: "x", field: "x"},
                        y: {scale: "y", field: "y"},
                        dx: {value: 6},
                        baseline: {value: "middle"},
                        align: {value: "left"},
                        fill: {value: soft},
                        fontSize: {value: 11},
                        text: {field: "text"}
                    }
                }
            }
        ]
    };
};

/* For a saved picture, which has no buttons around it: what the colours and shapes mean. */
function legends(entries, shaped) {
    if (entries.length < 2) return {scales: [], legends: []};
    const scales = [{
        name: "legendColor",
        type: "ordinal",
        domain: entries.map(e => e.label),
        range: entries.map(e => e.color)
    }];
    const legend = {fill: "legendColor", orient: "right", symbolType: "circle"};
    if (shaped) {
        scales.push({
            name: "legendShape",
            type: "ordinal",
            domain: entries.map(e => e.label),
            range: entries.map(e => e.shape)
        });
        legend.shape = "legendShape";
        delete legend.symbolType;
    }
    return {scales, legends: [legend]};
}

function frame(options, parts) {
    const extra = options.saved && parts.entries ? legends(parts.entries, parts.shaped) :
                                                   {scales: [], legends: []};
    const ticks = (parts.axes ?? []).flatMap(a => a.values ?? []);
    return {
        signals: [{name: "tickTexts", value: Object.fromEntries(ticks.map(x => [x, tickText(x)]))}],
        width: options.width,
        height: options.height,
        padding: {left: 4, right: 10, top: 8, bottom: 4},
        autosize: {type: "fit", contains: "padding"},
        config: chartConfig(),
        data: parts.data,
        scales: [...parts.scales, ...extra.scales],
        axes: parts.axes ?? [],
        legends: extra.legends,
        marks: parts.marks
    };
}
