/* words.js - what the page says: the headline, what was differentiated, how to read it. */

const mapWords = {
    "heads":
        "all attention heads side by side, before the output projection, differentiated at " +
        "what the attention module receives",
    "attention":
        "attention with its output projection, differentiated at what the attention module " +
        "receives",
    "norm-attention": "the norm followed by attention, differentiated at the input of the block",
    "residual":
        "attention with its residual connection (in post-norm models with the norm behind it), " +
        "differentiated at the input of the block",
    "block": "the whole residual block, differentiated at its input",
    "model": "the whole model, from the output of the embedding to the last hidden state"
};
const maskWords = {
    none: "every token sees every token",
    causal: "a token sees itself and those before it",
    times: "a token sees those that are not later",
    sliding: "a token sees a window of those before it"
};

const listWords = items => items.length < 2 ?
    items.join("") :
    items.slice(0, -1).join(", ") + " and " + items[items.length - 1];
const strong = text => el("strong", {}, text);
const stretch = (value, toward = 0) => "×" + formatNumber(value, 4, toward);

function section(id, title, ...content) {
    document.getElementById("nav").append(el("a", {href: "#" + id}, title));
    const node = el("section", {id}, el("h2", {}, title), ...content);
    main.append(node);
    return node;
}

const tile = (value, name, warn) =>
    el("div", {class: warn ? "tile warn" : "tile"}, el("b", {}, value), el("span", {}, name));

function cellWords(row) {
    const place = [];
    if (row.model != null) place.push(modelName(row.model));
    if (row.layer !== null && row.layer !== undefined)
        place.push("layer " + row.layer + ", " + headName(row.head ?? null));
    place.push(`window ${row.window ?? 0} of ${row.n} tokens`);
    return place.join(", ") + (textNames.has(row.text_hash) ? " of " + textName(row.text_hash) : "");
}

/* The headline of a page without rows of "measure". */
function otherWords() {
    const best = rowsOf.attack.filter(r => isPositive(r.sigma))
                     .reduce((top, r) => !top || r.sigma > top.sigma ? r : top, null);
    if (best)
        return [
            el("p", {class: "kicker"}, subjectWords(rowsOf.attack)),
            el("h1", {}, "The worst input that was found is stretched ",
               el("em", {}, stretch(best.sigma))),
            el("p", {},
               ...(subjectWords([best]) ? ["What was attacked is ",
                   strong(subjectWords([best]) + (isNumber(best.head) ? `, head ${best.head}` : "")),
                   best.map ? ` (map ${best.map}). ` : ". "] : []),
               `The input has ${best.n} tokens of radius ${formatNumber(best.radius)} (domain ` +
               `${formatValue(best.domain)}): there is a change of it of size 1 that moves the ` +
               `output by ${formatNumber(best.sigma)}, to first order. This is `,
               strong("sigma"),
               ", the largest singular value of the Jacobian at that input, and a lower bound " +
               "of the Lipschitz constant over all inputs of that radius",
               isPositive(best.upper) ?
                   `; the proved upper bound there is ${formatNumber(best.upper, 4, 1)}.` :
                   ".")
        ];
    const tight = rowsOf.bound.filter(r => r.kind === "upper" && !r.refused && isPositive(r.ratio))
                      .reduce((top, r) => !top || r.ratio < top.ratio ? r : top, null);
    if (tight)
        return [
            el("h1", {}, "The tightest bound is ", el("em", {}, stretch(tight.ratio, 1)),
               " the exact value"),
            el("p", {}, strong(String(tight.name)),
               ` bounds sigma, the largest singular value of the Jacobian, by ${
                   formatNumber(tight.value, 4, 1)}; the exact value is ${formatNumber(tight.sigma)}.`)
        ];
    const changed = perturbWords();
    if (changed || rowsOf.claim.length) return changed ?? [];
    return [
        el("h1", {}, "No cell is finished yet"),
        el("p", {},
           "The run has begun, and this page was written before its first value. Write it " +
           "again later.")
    ];
}

/* "theorem of the paper": "theorems of the paper" */
const pluralOf = source => source.replace(/^(\S+)/, "$1s");

/* "12 of 12 theorems of the paper hold", for each source of claims that were judged. */
function claimWords() {
    const groups = [...groupBy(rowsOf.claim, row => sourceOf(row) ?? "claim")];
    if (!groups.length) return null;
    const heads = groups.flatMap(([source, rows]) => {
        const judged = rows.filter(isJudged), held = judged.filter(isHeld).length;
        return judged.length ? `${held} of ${judged.length} ${pluralOf(source)} hold` : [];
    });
    const open = rowsOf.claim.filter(row => !isJudged(row)).length;
    return [
        el("h1", {}, heads.length ? heads.join("; ") : "Nothing was judged"),
        el("p", {},
           "Each claim is listed below with its source, where it stands and what was measured. ",
           open ? `${open} are not judged, with the reason. ` : "")
    ];
}

/* Which map was differentiated, with which mask, in which precision. */
function mapWordsOf(rows) {
    const all = name => distinct(rows.map(row => row[name]).filter(Boolean));
    const masks = all("mask").map(m => m + (maskWords[m] ? ` (${maskWords[m]})` : ""));
    const types = all("dtype");
    return [
        "The map is ",
        ...all("map").flatMap(
            (m, i) => [i ? "; and " : "", strong(m), mapWords[m] ? ` (${mapWords[m]})` : ""]),
        masks.length ? ". Mask: " + listWords(masks) : "",
        types.length
            ? `. Products in ${listWords(types)}; every value was re-evaluated in double.` : "."
    ];
}

function tiles(rows) {
    const loose = rows.filter(r => r.converged === false).length;
    const residual =
        rows.reduce((most, r) => isNumber(r.residual) ? Math.max(most, r.residual) : most, 0);
    const single = heads.filter(h => h !== null).length;
    const last = lengths[lengths.length - 1];
    return el("div", {class: "tiles"},
        tile(rows.length.toLocaleString("en"), rows.length === 1 ? "cell" : "cells"),
        tile(String(layers.length), layers.length === 1 ? "layer" : "layers"),
        single ? tile(String(single), single === 1 ? "head" : "heads") : null,
        tile(lengths.length > 1 ? `${lengths[0]} – ${last}` : String(last), "tokens"),
        series.length > 1 ? tile(String(series.length), "runs")
            : tile(formatNumber(median(rows.map(r => r.sigma)), 3), "median sigma"),
        tile(formatNumber(residual, 2), "largest residual"),
        tile(loose ? String(loose) : "all", loose ? "not converged" : "converged", loose));
}

function lede() {
    const rows = rowsOf.measure.filter(row => isNumber(row.sigma)), claims = claimWords();
    const worst = rows.reduce((best, row) => !best || row.sigma > best.sigma ? row : best, null);
    if (!worst) {
        const words = el("div", {}, ...(claims ?? []), ...otherWords());
        main.append(el("div", {class: "lede"}, words));
        return;
    }
    const headline = el("h1", {}, "A small change of the input is stretched up to ",
        el("em", {}, stretch(worst.sigma)));
    const meaning = el("p", {},
        claims ? "The largest sigma of a measured cell is at " : "That is at ",
        strong(cellWords(worst)), ": there is a change of size 1 that moves the output by ",
        formatNumber(worst.sigma), ", to first order. This number is ", strong("sigma"),
        ", the largest singular value of the Jacobian in the Frobenius norm of sequences: the " +
        "local Lipschitz constant of the map. ", ...mapWordsOf(rows));
    const words = el("div", {}, el("p", {class: "kicker"}, subjectWords(rows) || "lipscope"),
        ...(claims ?? [headline]), meaning, growthWords());
    main.append(el("div", {class: "lede"}, words, tiles(rows)));
}

/* "gpt2 · alice29.txt · layers 0 to 11": what the page is about. */
function subjectWords(rows) {
    const few = (name, show) => {
        const all = distinct(rows.map(r => r[name]).filter(x => x !== null && x !== undefined));
        return all.length && all.length <= 4 ? listWords(all.map(show)) : null;
    };
    const known = sortPlaces(distinct(rows.map(r => r.layer ?? null))).filter(l => l !== null);
    const depth = !known.length ? null : known.length === 1 ? "layer " + known[0] :
        `layers ${known[0]} to ${known[known.length - 1]}`;
    return [few("model", modelName), few("text_hash", textName), depth].filter(Boolean).join(" · ");
}

/* What changed most between the first run and another. */
function changeWords() {
    const sure = changes.filter(c => c.ratio_low > 1 || c.ratio_high < 1);
    const most = sure.reduce((top, c) => !top ||
        Math.abs(Math.log(c.ratio)) > Math.abs(Math.log(top.ratio)) ? c : top, null);
    if (!changes.length) return null;
    if (!most)
        return el("p", {}, changes.some(c => isPositive(c.ratio_low)) ?
            "No layer has changed for sure: every interval of a ratio contains 1." :
            "There are too few windows for intervals: nothing can be said of a change.");
    return el("p", {}, "What changed most is ", strong(layerName(most.layer)),
        ` of ${most.series.label}: sigma is `, strong(stretch(most.ratio)),
        ` that of ${series[0].label} (95 % between ${formatNumber(most.ratio_low, 3)} and ` +
        `${formatNumber(most.ratio_high, 3)}). ${sure.length} of ${changes.length} ratios differ ` +
        "from 1 for sure.");
}

/* "3 of 6 curves", or "the one curve" */
const countWords = (count, all) => all === 1 ? "the one curve" :
    count === all                            ? `all ${all} curves` :
                                               `${count} of ${all} curves`;

function growthWords() {
    const known = fits.filter(f => f.against === "n" && isNumber(f.exponent));
    if (!known.length) return null;
    const sorted = [...known].sort((a, b) => a.exponent - b.exponent), least = sorted[0],
          most = sorted[sorted.length - 1];
    const name = f => (series.length > 1 ? f.series.label + ", " : "") + layerName(f.layer) +
        (f.head === null ? "" : ", " + headName(f.head));
    const interval = f => hasInterval(f) ?
        ` (95 % between ${fixed(f.exponent_low, 2)} and ${fixed(f.exponent_high, 2)})` :
        "";
    const sure = known.filter(hasInterval), laws = known.filter(isLaw).length;
    const up = sure.filter(f => f.exponent_low > 0).length;
    const down = sure.filter(f => f.exponent_high < 0).length;
    const open = sure.length - up - down;
    const growth = !sure.length ?
        " There are too few windows for intervals (six that start alike are needed), so nothing " +
            "follows for other windows." :
        (up ? ` sigma grows with the length in ${countWords(up, sure.length)} (interval above ` +
                 "0)." : "") +
            (down ? ` It falls in ${countWords(down, sure.length)} (interval below 0).` : "") +
            (open ? ` In ${countWords(open, sure.length)} the interval contains 0: whether sigma ` +
                     "grows there is open." : "");
    const straight = laws ?
        ` In ${countWords(laws, known.length)} a straight line fits, a power law over these lengths` +
            (laws < known.length ? "; in the others there is no power law, and the exponent is an " +
                     "average steepness." : ".") :
        sure.length ?
        " Nowhere does a straight line fit: there is no power law, and the exponent is an average " +
            "steepness." :
        " A power law is not shown: that needs six windows as well, or slopes that agree.";
    return el(
        "p", {}, "Over these lengths the exponent of sigma, its slope against the length on ",
        "logarithmic axes, is ", known.length > 1 ? "from " : "",
        strong(fixed(least.exponent, 2)), interval(least), ` in ${name(least)}`,
        ...(known.length > 1 ?
                [" to ", strong(fixed(most.exponent, 2)), interval(most), ` in ${name(most)}`] :
                []),
        ".", growth, straight,
        known.every(f => f.map === "attention" || f.map === "heads") ?
            " For tokens of bounded size nothing outgrows √n, the exponent 0.5, in the long run." :
            "");
}

function howToRead() {
    const part = (title, ...text) => el("div", {}, el("h3", {}, title), el("p", {}, ...text));
    main.append(el(
        "details", {class: "how"}, el("summary", {}, "How to read this page"),
        el("div", {class: "columns"},
           part(
               "What a value is", "A ", strong("cell"),
               " is one layer, with all heads or one, at one window of the text. Its sigma is " +
               "reached by an explicit direction, evaluated in double: a ",
               strong("lower bound"),
               ", and ", strong("lower"), " is the same less all rounding. The residual tells how " +
               "close that direction is to a singular vector; it bounds no error of sigma. ",
               strong("upper"), " is proved at this input; ", strong("upper_prob"),
               " holds with its probability over random vectors."),
           part(
               "What it means",
               "A sigma of 10: nudge the tokens a little in the worst direction, and the " +
               "output moves ten times as far. It speaks of this input, not of others. The exponent ",
               el("code", {}, "e"), " of ", el("code", {}, "sigma ≈ c·nᵉ"),
               " is fitted to medians over windows for lengths from 8 on. Its 95 % interval comes " +
               "from resampling the starts of the windows, each with all its lengths, and needs six " +
               "of them. It is a law only where a straight line fits; in a causal model sigma of a " +
               "longer window with the same start cannot be smaller. The ",
               strong("radius"), " is the root mean square length of the tokens."),
           part(
               "What you can do",
               "Click a layer or a run to switch it off and on, double-click to see it alone. " +
               "Point at a mark to read its cell. ",
               strong("SVG"), " saves a chart, ", strong("CSV"),
               " its numbers with every digit. The table sorts by its headings and takes " +
               "filters like ",
               el("code", {}, "layer=3 sigma>10"), "."))));
}
