/* data.js - what the page knows: runs, their rows, curves, and numbers as people read them. */

const report = JSON.parse(document.getElementById("data").textContent);

const has = (object, name) => Object.prototype.hasOwnProperty.call(object, name);
const isNumber = x => typeof x === "number" && isFinite(x);
const isPositive = x => isNumber(x) && x > 0;

/* ---- Numbers ---------------------------------------------------------------------------- */

const powerOf = x => Math.floor(Math.log10(Math.abs(x)));

/* The text of x, or of the next number with as many digits where that one lies on the wrong side:
 * toward is 1 for what may only be rounded up, -1 for what may only be rounded down. */
function rounded(x, toward, unit, show) {
    const text = show(x);
    return toward * (x - Number(text)) > 0 ? show(x + toward * unit) : text;
}

/* Without a minus in front of zero. */
function fixed(x, decimals, toward = 0) {
    return rounded(x, toward, 10 ** -decimals, y => {
        const text = y.toFixed(decimals);
        return Number(text) === 0 ? (0).toFixed(decimals) : text;
    });
}

const withPower = (x, decimals, toward = 0) =>
    rounded(x, toward, 10 ** (powerOf(x) - decimals), y => y.toExponential(decimals));

/* Four or so significant digits; 1e-3 .. 1e6 without an exponent. */
function formatNumber(x, digits = 4, toward = 0) {
    if (!isNumber(x)) return "–";
    if (x === 0 || Number.isInteger(x) && Math.abs(x) < 1e6) return String(x);
    const size = Math.abs(x);
    if (size >= 1e6 || size < 1e-3) return withPower(x, Math.min(digits, 3) - 1, toward);
    return fixed(x, Math.max(0, digits - 1 - powerOf(x)), toward);
}

/* Which way a field is rounded: what is proved must hold for the number that is read. */
const boundSides = {upper: 1, lower: -1};
function sideOf(row, name) {
    if (name === "value" || name === "ratio" || name === "log_value")
        return kindOf(row) === "bound" ? boundSides[row.kind] ?? 0 : 0;
    return name === "upper" || name === "upper_prob" ? 1 : 0;
}

function formatValue(value, toward = 0) {
    if (value === null || value === undefined) return "–";
    if (typeof value === "number") return formatNumber(value, 6, toward);
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value === "object") return JSON.stringify(value);
    return value;
}

/* One rule for a whole column, so that its decimal points stand under each other. */
function columnFormat(values) {
    const sizes = values.filter(x => isNumber(x) && x !== 0).map(Math.abs);
    const whole = values.every(x => !isNumber(x) || Number.isInteger(x));
    if (!sizes.length || whole) return formatValue;
    const most = sizes.reduce((a, b) => Math.max(a, b)),
          least = sizes.reduce((a, b) => Math.min(a, b));
    if (most >= 1e7 || most < 1e-2 || most / least > 1e6)
        return (x, toward) => isNumber(x) ? withPower(x, 2, toward) : formatValue(x);
    const decimals = Math.min(8, Math.max(0, 3 - Math.floor(Math.log10(least))));
    return (x, toward) => isNumber(x) ? fixed(x, decimals, toward) : formatValue(x);
}

/* NaN of nothing. */
function median(values) {
    const sorted = Float64Array.from(values).sort(), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

function groupBy(items, keyOf) {
    const groups = new Map();
    for (const item of items) {
        const key = keyOf(item), group = groups.get(key);
        if (group)
            group.push(item);
        else
            groups.set(key, [item]);
    }
    return groups;
}

const distinct = items => [...new Set(items)];
/* Numbers in their order; null, which means all of them, first. */
const sortPlaces = items => items.sort((a, b) => (a === null ? -1 : a) - (b === null ? -1 : b));

/* ---- Rows ------------------------------------------------------------------------------- */

/* What a row is about follows from its fields, not from the command: "reproduce" has all kinds. */
function kindOf(row) {
    const given = name => row[name] !== null && row[name] !== undefined;
    if (given("claim")) return "claim";
    if (given("change") && "first_order" in row) return "change";
    if (given("name") && given("norm") && given("kind")) return "bound";
    if (given("best_construction") || given("domain") && given("evaluations")) return "attack";
    if (isNumber(row.n) && (given("sigma") || given("window")))
        return "measure"; /* sigma may be null */
    return "other";
}

/* What an attack was made on: its rows say what was found, the run of what. */
function attackedOf(run) {
    if (run.command !== "attack") return {};
    const typed = /^\S+ attack ('[^']*'|[^-'\s]\S*)/.exec(run.command_line ?? "");
    const {layer, heads, map, mask, text_hash} = run.settings ?? {};
    const model = run.settings?.told?.model ?? typed?.[1].replace(/^'|'$/g, ""); /* older runs: as typed */
    return {
        ...(typeof model === "string" ? {model} : {}),
        ...(isNumber(layer) && layer >= 0 ? {layer} : {}),
        ...(/^\d+$/.test(heads) ? {head: Number(heads)} : {}),
        ...(typeof map === "string" ? {map} : {}), ...(typeof mask === "string" ? {mask} : {}),
        ...(text_hash ? {text_hash} : {})
    };
}

function readRun(run, index) {
    const columns = run.fields.filter(name => has(run.columns, name));
    const rows = [], attacked = attackedOf(run);
    for (let i = 0; i < run.count; i++) {
        const row = Object.assign(Object.create(null), attacked);
        for (const name of run.fields)
            row[name] = has(run.columns, name) ? run.columns[name][i] : run.same[name];
        Object.defineProperty(row, "run", {value: index});
        rows.push(row);
    }
    run.index = index;
    run.rows = rows;
    run.varying = columns;
}
report.runs.forEach(readRun);

const allRows = report.runs.flatMap(run => run.rows);
const rowsOf = {
    measure: [],
    bound: [],
    attack: [],
    claim: [],
    change: [],
    other: []
};
for (const row of allRows) rowsOf[kindOf(row)].push(row);

const lastOf = path => String(path).replace(/\/+$/, "").replace(/.*\//, "") || String(path);

/* A model without its folders; "random:" says that its weights are.  A file with the name that
 * all models have is called by its folder. */
const modelName = model => (String(model).startsWith("random:") ? "random " : "") +
    lastOf(String(model).replace(/^random:/, "").replace(/\/model\.(gguf|safetensors)$/, ""));

/* What a run was called by --label; null: nothing. */
function runName(run) {
    const typed = /--label[ =]('[^']*'|\S+)/.exec(run.command_line ?? "");
    return typed ? typed[1].replace(/^'|'$/g, "") : null;
}

/* The texts by their hashes: as the command that made the run called them. */
const textNames = new Map();
for (const run of report.runs) {
    const typed = /--(?:text|ids|pixels)[ =]('[^']*'|\S+)/.exec(run.command_line ?? "");
    const hash = run.settings?.text_hash;
    if (typed && typeof hash === "string")
        textNames.set(hash, lastOf(typed[1].replace(/^'|'$/g, "")).replace(/^builtin:/, ""));
}
const textName = hash => textNames.get(hash) ?? "text " + String(hash).slice(0, 6);

/* ---- Series: rows that were measured alike ---------------------------------------------- */

const seriesParts = [
    ["experiment", value => value], ["model", modelName], ["map", value => "map " + value],
    ["mask", value => value === "none" ? "no mask" : value], ["dtype", value => value],
    ["text_hash", textName]
];

/* Curves of the same (run, experiment, model, map, mask, type, text).  A label names what differs
 * between them, and no more of it than is needed. */
function makeSeries(rows) {
    const keyOf = row =>
        seriesParts.reduce((key, [name]) => key + "\u0000" + (row[name] ?? ""), row.run);
    const series = [...groupBy(rows, keyOf).values()].map(
        (members, index) => ({index, rows: members, first: members[0], label: ""}));
    for (const [name, show] of seriesParts) {
        const labels = distinct(series.map(s => s.label)).length;
        const longer = s =>
            s.first[name] == null ? s.label : s.label + (s.label && ", ") + show(s.first[name]);
        if (labels < series.length && distinct(series.map(longer)).length > labels)
            for (const s of series) s.label = longer(s);
    }
    for (const s of series) {
        const called = runName(report.runs[s.first.run]);
        const alone = series.filter(other => other.first.run === s.first.run).length === 1;
        if (called) s.label = alone || !s.label ? called : called + ", " + s.label;
    }
    for (const s of series)
        s.label ||= s.first.model != null ? modelName(s.first.model) :
                                            lastOf(report.runs[s.first.run].file);
    for (const same of groupBy(series, s => s.label).values())
        if (same.length > 1) /* the same twice: the files tell them apart */
            for (const s of same) s.label += " · " + lastOf(report.runs[s.first.run].file);
    for (const s of series)
        for (const row of s.rows) Object.defineProperty(row, "series", {value: s});
    return series;
}

const series = makeSeries(rowsOf.measure);
const attackSeries = makeSeries(rowsOf.attack);
const layers = sortPlaces(distinct(rowsOf.measure.map(row => row.layer ?? null)));
const heads = sortPlaces(distinct(rowsOf.measure.map(row => row.head ?? null)));
const lengths = sortPlaces(distinct(rowsOf.measure.map(row => row.n)));

const layerName = layer => layer === null ? "whole model" : "layer " + layer;
const headName = head => head === null ? "all heads" : "head " + head;

/* A fit belongs to the series with the same fields; it does not say the type. */
function seriesOfFit(run, fit) {
    return series.find(
        s => s.first.run === run &&
            seriesParts.every(
                ([name]) => name === "dtype" || (fit[name] ?? null) === (s.first[name] ?? null)));
}
const fits = report.runs
                 .flatMap(run => run.fits.map(fit => ({
                                                  ...fit,
                                                  layer: fit.layer ?? null,
                                                  head: fit.head ?? null,
                                                  series: seriesOfFit(run.index, fit)
                                              })))
                 .filter(fit => fit.series);

/* What is said of an exponent, never more than its interval. */
const hasInterval = fit => isNumber(fit.exponent_low) && isNumber(fit.exponent_high);
const isLaw = fit => fit.law === true && isNumber(fit.exponent);
const intervalText = (fit, digits) => hasInterval(fit) ?
    `${fixed(fit.exponent_low, digits)} … ${fixed(fit.exponent_high, digits)}` :
    "–";

/* The cell in words: pairs of name and value, for the pointer. */
function describeCell(row) {
    const pairs = [];
    const add = (name, value) => {
        if (value !== null && value !== undefined)
            pairs.push([name, formatValue(value, sideOf(row, name))]);
    };
    if (series.length + attackSeries.length > 1 && row.series) add("run", row.series.label);
    add("layer", row.layer);
    if ("head" in row && layers.length)
        pairs.push(["head", row.head === null ? "all" : String(row.head)]);
    for (const name
             of ["n", "window", "sigma", "upper", "upper_prob", "released", "best_construction",
                 "residual", "radius_rms", "radius", "domain", "start", "evaluations"])
        add(name, row[name]);
    if (row.converged === false) add("converged", false);
    return pairs;
}

/* ---- CSV -------------------------------------------------------------------------------- */

/* Every digit; quotes where a field needs them (RFC 4180).  A text that a spreadsheet would take
 * for a formula is quoted with an apostrophe. */
function csvField(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return isFinite(value) ? String(value) : "";
    let text = typeof value === "object" ? JSON.stringify(value) : String(value);
    if (/^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
}

function csvText(names, rows) {
    return [names.join(","), ...rows.map(row => row.map(csvField).join(","))].join("\r\n") + "\r\n";
}

function saveFile(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], {type}));
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
