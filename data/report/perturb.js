/* perturb.js - changes of finite size: how far they are stretched, beside what sigma, the
 * derivative and the proved bound say of them. */

const changeNames = {swap: "a swapped token", noise: "noise"};
/* field, name, colour and shape of what stands above a step; a swap's ratio has those of swaps. */
const perturbParts = [
    ["noise", "noise"], ["swap", "swapped token"], ["first_order", "predicted by the derivative"],
    ["upper", "proved bound"], ["sigma", "sigma"]
];
const perturbIndex = name => perturbParts.findIndex(([field]) => field === name);
const perturbLook = name => ({
    color: categoryColor(perturbIndex(name)), shape: shapes[perturbIndex(name)]
});
const perturbMaps = distinct(rowsOf.change.map(row => row.layer ?? null)); /* the model is last */
const hasStep = row => isPositive(row.step) && isPositive(row.ratio);

/* Without a step: a token less or more leaves no difference of two inputs. */
function perturbNote(rows) {
    const apart = rows.filter(row => !isNumber(row.step)).length;
    return apart ? `${apart} windows with a token left out or written twice have another length, so ` +
        "no step and no ratio: how far they move the other tokens is in the table." : "";
}

function perturbChart(settings, options) {
    const own = rowsOf.change.filter(row => (row.layer ?? null) === settings.perturb);
    const rows = own.filter(hasStep);
    if (!rows.length) return null;
    /* a prediction is larger, to be seen behind the ratio that it falls together with */
    const mark = (row, y, name) => ({
        x: row.step, y, made: row, size: name === "first_order" ? 170 : 56, ...perturbLook(name)
    });
    const points = rows.flatMap(row => [
        ...["upper", "first_order"].filter(name => isPositive(row[name]))
            .map(name => mark(row, row[name], name)),
        ...(has(changeNames, row.change) ? [mark(row, row.ratio, row.change)] : [])
    ]);
    const xRange = logRange(rows.map(row => row.step)), sigma = rows[0].sigma;
    const line = !isPositive(sigma) ? [] : xRange.map(x => ({
        x, y: sigma, low: sigma, high: sigma, curve: "sigma", color: perturbLook("sigma").color,
        dash: [], width: 1.8
    }));
    const yRange = logRange([...points, ...line].map(p => p.y));
    return {
        spec: frame(options, {
            data: [{name: "lines", values: line}, {name: "points", values: points}],
            scales: [logScale("x", "width", xRange), logScale("y", "height", yRange)],
            axes: [
                axis("x", "bottom", "size of the step, |X' − X| / |X|", logTicks(...xRange)),
                axis("y", "left", "output change / input change", logTicks(...yRange))
            ],
            marks: [curves("lines"), symbols("points", 0, 0.85, {size: {field: "size"}})],
            entries: perturbParts.map(([name, label]) => ({label, ...perturbLook(name)})),
            shaped: true
        }),
        size: points.length,
        names: ["layer", "change", "token", "from", "to", "step", "ratio", "first_order", "sigma", "upper"],
        rows: rows.map(r => [
            r.layer, r.change, r.token, r.from, r.to, r.step, r.ratio, r.first_order, r.sigma, r.upper
        ]),
        note: perturbNote(rowsOf.change)
    };
}

/* The change in words: pairs of name and value, for the pointer. */
const perturbPairs = row => [["map", layerName(row.layer ?? null)]].concat(
    ["change", "token", "from", "to", "step", "ratio", "first_order", "sigma", "upper", "others", "logits"]
        .filter(name => row[name] !== null && row[name] !== undefined)
        .map(name => [name, formatValue(row[name], sideOf(row, name))]));

/* The headline of a page of changes; null: there are none. */
function perturbWords() {
    const top = rowsOf.change.filter(hasStep)
                    .reduce((best, row) => !best || row.ratio > best.ratio ? row : best, null);
    if (!top) return null;
    const what = top.change === "swap" ? `token ${top.token}, ${top.from}, becomes ${top.to}` :
                                         `noise of ${formatNumber(100 * top.step, 3)} % of the input`;
    return [
        el("p", {class: "kicker"}, subjectWords(rowsOf.change)),
        el("h1", {}, "Changes of finite size are stretched up to ", el("em", {}, stretch(top.ratio))),
        el("p", {},
           `Of ${rowsOf.change.filter(hasStep).length} changes this one is stretched most: `,
           strong(what), `, seen by the ${top.layer == null ? "whole model" : "attention of layer " + top.layer}. `,
           isNumber(top.first_order) ? `The derivative predicts ${stretch(top.first_order)}. ` : "",
           isNumber(top.sigma) ? `No small change there is stretched more than sigma, ${stretch(top.sigma)}` : "",
           isNumber(top.upper) ? `, and no change of this size more than the proved bound, ${stretch(top.upper, 1)}.` : ".")
    ];
}

function perturbSection() {
    const maps = perturbMaps.filter(
        layer => rowsOf.change.some(row => (row.layer ?? null) === layer && hasStep(row)));
    if (!maps.length) return;
    const shown = perturbParts.filter(([name]) => rowsOf.change.some(
        row => hasStep(row) && (row.change === name || isPositive(row[name]))));
    settings.perturb = maps[0];
    section("perturb", "Changes",
        makeChart("perturb", "finite changes against the size of the step",
            "How many times further the output moves than the input did. Both axes are logarithmic.",
            perturbChart, settings, [
                ...(maps.length > 1 ? [pick("map", maps.map(l => [l, layerName(l)]), "perturb", ["perturb"])] : []),
                ...shown.map(([name, label]) => key(label, perturbIndex(name)))
            ]));
}
