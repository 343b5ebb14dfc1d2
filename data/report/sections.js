/* sections.js - one section for each kind of rows that the runs hold, and none for others. */

/* Without a test slopes may differ by chance. */
const verdictOf = f => isLaw(f) ? "power law" :
    isNumber(f.lack_of_fit)     ? "no power law" :
                                  "no power law shown";

function fitTable() {
    const known = fits.filter(f => isNumber(f.exponent)), refused = fits.length - known.length;
    if (!known.length) return null;
    const several = series.length > 1, anyHead = known.some(f => f.head !== null);
    const names = [
        ...(several ? ["run"] : []), "layer", ...(anyHead ? ["head"] : []), "against", "exponent",
        "95 % interval", "verdict", "lack of fit p", "local exponents", "coefficient", "lengths",
        "starts", "texts"
    ];
    const slopes = f => (f.slopes ?? []).map(x => isNumber(x) ? fixed(x, 2) : "–").join(" ");
    const cells = f => [
        ...(several ? [f.series.label] : []), f.layer === null ? "model" : String(f.layer),
        ...(anyHead ? [f.head === null ? "all" : String(f.head)] : []), f.against,
        fixed(f.exponent, 3), intervalText(f, 3), verdictOf(f), formatNumber(f.lack_of_fit, 2),
        slopes(f), formatNumber(f.coefficient), String(f.lengths), formatValue(f.starts),
        formatValue(f.texts)
    ];
    return el("details", {class: "fits", open: known.length <= 30},
        el("summary", {}, `Exponents over these lengths (${known.length})`),
        plainTable(names, known.map(cells), ["run", "against", "verdict", "local exponents"]),
        known.some(hasInterval) ? null : el("p", {class: "note"},
            "There are no intervals: they need six windows that start alike at all lengths."),
        refused ? el("p", {class: "note"},
            `${refused} curves against the radius are not fitted: it varies by less than a ` +
            "factor 1.25, and any exponent would do.") : null);
}

/* Intervals that have no point in common. */
const areApart = (a, b) => a.exponent_low > b.exponent_high || b.exponent_low > a.exponent_high;

/* Exponents of several texts beside the joint one. */
function textTable() {
    const all = (report.texts ?? []).filter(f => f.against === "n" && isNumber(f.exponent));
    if (!all.length) return null;
    const place = f => [f.experiment, f.model, f.map, f.mask, f.layer ?? "", f.head ?? ""].join("/");
    const hashes = distinct(all.map(f => f.text).filter(Boolean));
    const nameOf = textName;
    const shown = f => f ? fixed(f.exponent, 2) +
        (hasInterval(f) ? ` [${fixed(f.exponent_low, 2)}, ${fixed(f.exponent_high, 2)}]` : "") : "–";
    const verdict = parts => {
        if (!parts.every(hasInterval)) return "no intervals, so nothing follows";
        return parts.some(a => parts.some(b => areApart(a, b))) ?
            "the texts differ" : "not told apart";
    };
    const lines = [...groupBy(all, place).values()].map(members => {
        const joint = members.find(f => !f.text), parts = members.filter(f => f.text);
        return [
            joint.model == null ? "–" : modelName(joint.model),
            joint.layer === null || joint.layer === undefined ? "model" : String(joint.layer),
            shown(joint), ...hashes.map(hash => shown(parts.find(f => f.text === hash))),
            verdict(parts), String(joint.starts)
        ];
    });
    const names = ["model", "layer", "joint", ...hashes.map(nameOf), "verdict", "starts"];
    return el("details", {class: "fits", open: lines.length <= 30},
        el("summary", {}, "Exponents of each text, and of all together"),
        plainTable(names, lines, ["model", "verdict"]),
        el("p", {class: "note"},
            "The joint exponent is the mean of those of the texts. " +
            (hashes.length < 6 ? "Its interval speaks of other windows of these texts, not of " +
                "other texts: that needs six." : "Its interval resamples the texts.")));
}

/* Runs side by side: the worst cell, the median at the longest length that all of them have, the
 * exponents. */
function compareTable() {
    if (series.length < 2) return null;
    const common = lengths.filter(n => series.every(s => s.rows.some(r => r.n === n))).pop();
    const names = [
        "run", "cells", "largest sigma", "at", ...(common ? [`median at n = ${common}`] : []),
        "exponents", "95 % intervals"
    ];
    const place = row => [
        row.layer == null ? null : "layer " + row.layer,
        row.head == null ? null : "head " + row.head, "n = " + row.n
    ].filter(Boolean).join(", ");
    const line = s => {
        const rows = s.rows.filter(r => isNumber(r.sigma));
        const worst = rows.reduce((best, r) => r.sigma > best.sigma ? r : best, rows[0]);
        const own = fits.filter(f => f.series === s && f.against === "n" && isNumber(f.exponent));
        const ends = name => [Math.min, Math.max].map(
            (end, i) => fixed(end(...own.map(f => f[name[i]])), 2)).join(" … ");
        const middle = median(rows.filter(r => r.n === common).map(r => r.sigma));
        return [
            el("span", {class: "key"}, swatchOf(s), s.label), s.rows.length.toLocaleString("en"),
            worst ? formatNumber(worst.sigma) : "–", worst ? place(worst) : "–",
            ...(common ? [formatNumber(middle)] : []),
            own.length ? ends(["exponent", "exponent"]) : "–",
            own.length && own.every(hasInterval) ? ends(["exponent_low", "exponent_high"]) : "–"
        ];
    };
    return plainTable(names, series.map(line), ["run", "at"]);
}

function swatchOf(s) {
    const swatch = el("i", {"aria-hidden": "true"});
    const refresh = () => {
        swatch.style.background = categoryColor(s.index);
    };
    refreshers.push(refresh);
    refresh();
    return swatch;
}

const refreshers = []; /* of swatches, when colours change */
const settings = {
    layers: new Set(layers),
    series: new Set(series),
    head: heads.includes(null) ? null : "each",
    windows: true,
    color: series.length > 1 ? "run" : "layer",
    heatSeries: [...series].sort((a, b) => b.rows.length - a.rows.length)[0],
    heatHead: heads.includes(null) ? null : heads[0],
    across: heads.some(h => h !== null) && heads.filter(h => h !== null).length > 1 ? "head" : "n",
    length: lengths[lengths.length - 1] ?? null,
    zoo: null,
    norm: null,
    attack: "all"
};

/* A choice that is one of the settings. */
const pick = (label, options, name, ids) => choice(label, options, settings[name], value => {
    settings[name] = value;
    refreshers.forEach(refresh => refresh());
    redraw(ids);
});

/* What is drawn of the cells, in all charts that show cells one by one. */
function cellControls() {
    const ids = ["depth", "growth", "slopes", "radius", "upper", "released"], controls = [];
    const changed = () => redraw(ids);
    const add = (items, name, labelOf, colorOf, title) => {
        if (items.length < 2) return;
        const node = chips(items, settings[name], labelOf, colorOf, changed, title);
        refreshers.push(node.refresh);
        controls.push(node);
    };
    add(layers, "layers", layer => layer === null ? "model" : String(layer),
        layer => settings.color === "layer" ? layerColor(layer) : null, "Layers");
    add(series, "series", s => s.label,
        s => settings.color === "run" ? categoryColor(s.index) : null, "Runs");
    const radii = rowsOf.measure.map(row => row.radius_rms);
    const colors = [
        ...(layers.length > 1 || series.length === 1 ? [["layer", "layer"]] : []),
        ...(series.length > 1 ? [["run", "run"]] : []),
        ...(radii.some(isPositive) ? [["radius", "radius"]] : [])
    ];
    if (colors.length > 1) controls.push(pick("colour by", colors, "color", ids));
    const alone = [...heads.map(h => [h, headName(h)]), ["each", "each head alone"]];
    if (heads.length > 1) controls.push(pick("heads", alone, "head", ids));
    const ramp = el("div", {class: "ramp"});
    refreshers.push(() => {
        if (settings.color === "radius") fillRamp(ramp, logRange(radii, 0), "radius");
        else ramp.replaceChildren();
    });
    controls.push(check("windows", true, on => {
        settings.windows = on;
        redraw(["growth"]);
    }), ramp);
    return controls;
}

/* Which run, length and direction both maps of layers show. */
function mapControls() {
    const byHead = heads.filter(h => h !== null).length > 1, controls = [], ids = ["heat", "sink"];
    if (series.length > 1)
        controls.push(pick("run", series.map(s => [s, s.label]), "heatSeries", ids));
    if (byHead) controls.push(pick("length", lengths.map(n => [n, String(n)]), "length", ids));
    if (byHead && lengths.length > 1)
        controls.push(pick("across", [["head", "heads"], ["n", "lengths"]], "across", ids));
    return controls;
}

/* A chart with the ramp of its colours beside the controls. */
function mapChart(id, title, about, draw, name, controls) {
    const ramp = el("div", {class: "ramp"});
    const make = (s, options) => {
        const result = draw(s, options);
        if (result && !options.saved) fillRamp(ramp, result.ramp, name);
        return result;
    };
    return makeChart(id, title, about, make, settings, [...controls, ramp]);
}

const hasHeads = () => heads.filter(h => h !== null).length > 1;

function heatSection() {
    section("layers", hasHeads() ? "Layers and heads" : "Layers",
        mapChart("heat", hasHeads() ? "sigma by layer and head" : "sigma by layer and length",
            "Medians over windows; the colour is logarithmic.", heatChart, "median sigma",
            mapControls()));
}

function sinkSection() {
    if (!rowsOf.measure.some(row => isPositive(row.sink))) return;
    section("sink", "Sink",
        mapChart("sink", hasHeads() ? "share on the sink by layer and head" :
                "share on the sink by layer and length",
            "How much of all attention goes to the one token that takes most of it, in the head " +
            "where that is most; medians over windows. Spread evenly it would be 1/n.",
            sinkChart, "median share", []));
}

function measureSections() {
    const has = name => rowsOf.measure.some(row => isPositive(row[name]));
    const bounds = ["upper", "upper_prob"].filter(has);
    if (!rowsOf.measure.length) return;
    if (hasDepth())
        section("depth", "Depth",
            makeChart("depth", "growth exponent by depth",
                "How steeply sigma grows with the length, e of sigma ≈ c·nᵉ, in each layer. Bars " +
                "are 95 % intervals. Where the mark is hollow no straight line fits, and the " +
                "exponent is an average steepness over these lengths.",
                depthChart, settings, depthControls()));
    if (series.length > 1)
        section("compare", "Runs", changeWords(), compareTable(),
            changes.some(c => c.layer !== null) ?
                makeChart("change", "sigma against the first run, by layer",
                    "How many times larger sigma is than in " + series[0].label + ", at the same " +
                    "lengths. Bars are 95 % intervals over starts; where one crosses the line at " +
                    "1, no change is shown.", changeChart, settings) : null);
    if (lengths.length > 1) lengthSection();
    sentenceSection();
    heatSection();
    sinkSection();
    if (has("radius_rms"))
        section("radius", "Radius",
            makeChart("radius", "sigma against radius",
                "Each mark is a cell, at the root mean square length of its tokens. Behind a " +
                "LayerNorm the radius hardly varies, and then nothing can be said of the " +
                "dependence; laws are fitted where it varies by a factor 1.25 over the lengths.",
                radiusChart, settings));
    if (bounds.length)
        section("upper", "Bounds",
            makeChart("upper", "upper bounds against the exact value",
                "On the diagonal a bound is exact. What lies above it is how much the bound " +
                "gives away.",
                upperChart, settings, bounds.map((f, i) => key(boundNames[f], i))));
    if (has("released"))
        section("released", "As released",
            makeChart("released", "what the released scripts compute, against sigma",
                "The paper's scripts return |Jᵀ f(X)|^½ where the definition asks for sigma. " +
                "If both were the same, the marks would lie on the diagonal.",
                releasedChart, settings));
}

/* Which run is which; switching one off switches it off in the charts of cells, too. */
function depthControls() {
    if (series.length < 2) return [];
    return series.map(s => el("span", {class: "key"}, swatchOf(s), s.label));
}

/* Growth over the lengths: cells, laws, local slopes. */
function lengthSection() {
    section("growth", "Length",
        makeChart("growth", "sigma against length",
            "Small marks are windows, large ones medians over windows. Where a straight line fits " +
            "it is drawn, with the 95 % interval of its exponent; elsewhere there is no power law, " +
            "and a thin line joins the medians. Both axes are logarithmic.",
            growthChart, settings, cellControls()),
        fits.some(f => f.against === "n" && (f.slopes ?? []).some(isNumber)) ?
            makeChart("slopes", "local exponents",
                "The slope from each length to the next: level lines are power laws, and where " +
                "they come down the growth is ending.",
                slopeChart, settings) : null,
        fitTable(), textTable());
}

/* What a colour and shape stand for, in a row of controls. */
function key(text, index) {
    const swatch = el("i", {"aria-hidden": "true"});
    refreshers.push(() => {
        swatch.style.background = categoryColor(index);
    });
    swatch.style.background = categoryColor(index);
    return el("span", {class: "key"}, swatch, text);
}

function fillRamp(node, [low, high], name) {
    const stops = [...Array(9).keys()].map(i => rampColor(i / 8));
    const bar = el("i", {"aria-hidden": "true"});
    bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
    const text = x => isNumber(x) ? formatNumber(x, 3) : x;
    node.replaceChildren(name + " ", text(low), bar, text(high));
}

/* Texts of those parts of a row that are there. */
const joinParts = parts => parts.filter(part => part !== null && part !== undefined).join(", ");

function zooSection() {
    if (!rowsOf.bound.length) return;
    const cases = [...groupBy(rowsOf.bound, zooKey)], controls = [];
    const part = (row, name, before) => row[name] == null ? null : before + formatValue(row[name]);
    const name = row => joinParts([
        row.experiment, row.model == null ? null : modelName(row.model),
        part(row, "layer", "layer "), part(row, "head", "head "), part(row, "n", "n = "),
        part(row, "radius", "R = "), part(row, "window", "window ")
    ]) || lastOf(report.runs[row.run].file);
    settings.zoo = cases[0][0];
    if (cases.length > 1)
        controls.push(pick("case", cases.map(([k, rows]) => [k, name(rows[0])]), "zoo", ["zoo"]));
    zooKinds.forEach((kind, i) => {
        if (rowsOf.bound.some(r => r.kind === kind)) controls.push(key(kind, i));
    });
    const refused = rowsOf.bound.filter(r => r.refused).map(
        r => el("li", {}, strong(String(r.name)), ": ", String(r.refused)));
    section("zoo", "Every bound",
        makeChart("zoo", "every bound beside the exact value",
            "Tightest first. Upper bounds over a ball hold for all inputs of that radius, so " +
            "they lie far to the right; lower bounds over a ball are reached by other inputs " +
            "and may exceed the exact value here. An arrow means: beyond the edge.",
            zooChart, settings, controls),
        refused.length ? el("details", {},
            el("summary", {}, `Refused, because a hypothesis does not hold (${refused.length})`),
            el("ul", {}, ...refused)) : null);
}

function attackSection() {
    if (!rowsOf.attack.length) return;
    const cases = [...groupBy(rowsOf.attack, attackKey)], controls = [];
    const name = row => joinParts([
        attackSeries.length > 1 ? row.series.label : null, row.domain,
        "R = " + formatNumber(row.radius)
    ]);
    const options = [["all", "all"], ...cases.map(([k, rows]) => [k, name(rows[0])])];
    if (cases.length > 4) settings.attack = cases[0][0]; /* all at once would be a tangle */
    if (cases.length > 1) controls.push(pick("case", options, "attack", ["attack"]));
    attackParts.forEach(([field, text], i) => {
        if (rowsOf.attack.some(r => isPositive(r[field]))) controls.push(key(text, i));
    });
    section("attack", "Attack",
        makeChart("attack", "attack, construction and bound",
            "An attack searches for the input with the largest sigma; a construction is an " +
            "input written down by the theory; no input of this radius can exceed the bound.",
            attackChart, settings, controls));
}

const isJudged = row => row.holds === true || row.holds === false ||
    /^(yes|no|true|false|holds|fails)$/i.test(String(row.holds));
const isHeld = row => row.holds === true || /^(yes|true|holds)$/i.test(String(row.holds));

/* Whose claim it is; run files of the first edition have kinds. */
const sourceOf = row => row.source ?? row.kind;

function claimSection() {
    if (!rowsOf.claim.length) return;
    const rows = [...rowsOf.claim].sort((a, b) => (a.order ?? 0) - (b.order ?? 0));
    const given = names => names.filter(n => rows.some(r => r[n] != null));
    const names = [
        ...given(["section", "source"]), "claim", ...given(["origin", "paper"]), "measured",
        "holds"
    ];
    const badge = (kind, text) => el("span", {class: "badge " + kind}, text);
    const verdict = r => !isJudged(r) ? badge("", "not judged")
        : isHeld(r) ? badge("good", "✓ holds") : badge("bad", "✗ fails");
    const cell = (r, name) => el("td", {}, name === "holds" ? verdict(r) : formatValue(r[name]),
        name === "claim" && r.says != null ? el("p", {class: "says"}, formatValue(r.says)) : null);
    const line = r => el("tr", {}, ...names.map(name => cell(r, name)));
    const body = el("tbody"), kinds = distinct(rows.map(sourceOf).filter(Boolean));
    const fill = keep => body.replaceChildren(...rows.filter(keep).map(line));
    const filters = [
        ["all", () => true], ["those that fail", r => isJudged(r) && !isHeld(r)],
        ["those that hold", r => isJudged(r) && isHeld(r)],
        ["those not judged", r => !isJudged(r)],
        ...(kinds.length > 1 ? kinds.map(k => [k, r => sourceOf(r) === k]) : [])
    ];
    fill(() => true);
    section(
        "claims", "Claims",
        el("div", {class: "controls"},
           choice("show", filters.map(([name, keep]) => [keep, name]), filters[0][1], fill)),
        el("div", {class: "scroller tall"},
           el("table", {class: "plain claims"},
              el("thead", {}, el("tr", {}, ...names.map(n => el("th", {scope: "col"}, n)))),
              body)));
}

const firstColumns = ["experiment", "name", "layer", "head", "n", "window", "sigma"];

/* A table of rows of one kind: the columns that vary, and a line of what is the same. */
function rowsTable(kind) {
    const rows = rowsOf[kind];
    if (!rows.length) return [];
    const given = name => rows[0][name] !== null && rows[0][name] !== undefined;
    const fields = report.runs.flatMap(run => run.fields).filter(name => name !== "model");
    const names = distinct([...firstColumns, ...fields, "model"]).filter( /* paths are long */
        name => !["lower", "version", "influence"].includes(name) && rows.some(row => name in row));
    const varies = name => {
        const first = JSON.stringify(rows[0][name] ?? null);
        return rows.some(row => (row[name] ?? null) !== rows[0][name] &&
            JSON.stringify(row[name] ?? null) !== first);
    };
    const shown = names.filter(
        name => varies(name) || ["layer", "n", "sigma"].includes(name) && given(name));
    const same = names.filter(name => !shown.includes(name) && given(name));
    const whole = name => kind === "change" && name === "layer" ? "model" : null; /* no layer */
    const columns = shown.map(name => ({name, get: row => row[name] ?? whole(name)}));
    if (report.runs.length > 1)
        columns.unshift({
            name: "run",
            get: row => row.series ? row.series.label : lastOf(report.runs[row.run].file)
        });
    const table = makeTable(
        rows, columns, kind === "measure" ? "lipscope-rows.csv" : `lipscope-${kind}-rows.csv`,
        kind === "measure" ? openCell : null);
    return [
        el("h3", {}, {measure: "Cells", attack: "Attacks", bound: "Bounds", change: "Changes", other: "Others"}[kind]),
        same.length ? el("p", {class: "same"}, "The same in all: ", ...same.flatMap((name, i) =>
            [(i ? " · " : "") + name + " ", el("code", {}, formatValue(rows[0][name], sideOf(rows[0], name)))])) : null,
        table
    ];
}

function rowsSection() {
    const tables = ["measure", "attack", "bound", "change", "other"].flatMap(rowsTable);
    if (tables.length) section("rows", "Rows", ...tables);
}

function originOf(run) {
    const pair = (name, value) => value === null || value === undefined || value === ""
        ? [] : [el("dt", {}, name), el("dd", {}, el("code", {}, String(value)))];
    const from = name =>
        distinct(run.rows.map(r => r[name] ?? null).filter(x => x !== null)).map(String);
    const show = value => typeof value === "object" ? JSON.stringify(value) : value;
    const settings = Object.entries(run.settings)
        .filter(([name]) => !["model_hash", "text_hash", "told"].includes(name))
        .map(([name, value]) => `${name} = ${show(value)}`);
    return el("article", {class: "origin"}, el("h3", {}, lastOf(run.file ?? run.command)),
        el("dl", {}, ...pair("file", run.file),
            ...pair("command", run.command_line ?? "lipscope " + run.command),
            ...pair("begun", run.created),
            ...pair("lipscope", distinct([run.version, ...from("version")]).join(", ")),
            ...pair("cells", run.every ?
                `${run.count.toLocaleString("en")} of ${run.cells.toLocaleString("en")}: a sample, every ` +
                `${run.every}th window with all its lengths and layers` : run.count.toLocaleString("en")),
            ...pair("model", from("model").join(", ")),
            ...pair("model hash", run.settings.model_hash ?? from("model_hash").join(", ")),
            ...pair("text hash", run.settings.text_hash ?? from("text_hash").join(", ")),
            ...pair("settings", settings.join(", "))));
}

function originSection() {
    section("origin", "Origin",
        el("p", {},
            (report.runs.some(run => run.file) ? "Every figure above comes from these run files" :
                "Every figure above was computed by this command") + "; the hashes are SHA-256 of " +
            "configuration and weights, and of the bytes of the text."),
        el("div", {class: "origins"}, ...report.runs.map(originOf)));
    const when = report.created.replace("T", " at ").replace("Z", " UTC");
    document.getElementById("footer").append(el("p", {},
        `Written by lipscope ${report.lipscope} on ${when}. This page holds all of its data and ` +
        "needs no network. Charts are drawn by Vega, © 2015–2021 University of Washington " +
        "Interactive Data Lab, BSD-3-Clause; the licence is in the source of this page."));
}
