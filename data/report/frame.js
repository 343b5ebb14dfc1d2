/* frame.js - a chart in the page: drawn when its turn comes, with a pointer that tells the cell,
 * buttons that save, and controls. */

const main = document.getElementById("main"), tip = document.getElementById("tip");
const charts = Object.create(null); /* by id: view, result, redraw */

/* ---- The pointer -------------------------------------------------------------------------- */

function tipPairs(datum) {
    if (datum.fit || datum.slope) return fitPairs(datum);
    if (datum.change) return changePairs(datum.change);
    if (datum.made) return perturbPairs(datum.made);
    if (datum.heat)
        return [
            ...describeCell(datum.first)
                .filter(([name]) => ["run", "layer", "head", "n"].includes(name)),
            [datum.what.name, datum.what.long(datum.value)], ["windows", String(datum.count)]
        ];
    if (datum.median)
        return [
            ...describeCell(datum.first)
                .filter(([name]) => ["run", "layer", "head", "n"].includes(name)),
            ["median sigma", formatNumber(datum.y, 6)], ["windows", String(datum.count)]
        ];
    if (datum.zoo)
        return ["name", "source", "kind", "norm", "domain", "value", "ratio", "sigma"]
            .filter(name => datum.row[name] !== null && datum.row[name] !== undefined)
            .map(name => [name, formatValue(datum.row[name], sideOf(datum.row, name))])
            .concat(isNumber(datum.row.value) ? [] : [
                ["value", "10^" + formatNumber(zooLog(datum.row) / Math.LN10, 4, sideOf(datum.row, "value"))]
            ]);
    return describeCell(datum.row);
}

/* On marks that stand for a cell; axes and curves have none. */
function showTip(event, item) {
    const datum = item && item.datum;
    if (!datum || !(datum.row || datum.first || datum.fit || datum.slope || datum.change || datum.made)) {
        tip.hidden = true;
        return;
    }
    tip.replaceChildren(
        el("dl", {},
           ...tipPairs(datum).flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), margin = 12;
    const left = event.clientX + margin + box.width > innerWidth ?
        event.clientX - margin - box.width :
        event.clientX + margin;
    const top = event.clientY + margin + box.height > innerHeight ?
        event.clientY - margin - box.height :
        event.clientY + margin;
    tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}
const hideTip = () => {
    tip.hidden = true;
};
addEventListener("scroll", hideTip, {passive: true});

/* ---- Charts ------------------------------------------------------------------------------- */

const makeView = (spec, options) => new vega.View(
    vega.parse(spec, null, {ast: true}), {expr: vega.interpreter, logLevel: 1, ...options});

/* Pixels for a few thousand marks and more, else shapes, which print better. */
const rendererFor = size => size > 2500 ? "canvas" : "svg";

function savedSpec(chart) {
    const options = {width: 760, height: 420, saved: true};
    const spec = chart.make(chart.settings, options).spec, color = cssColor("--ink");
    spec.title = {
        text: chart.title, subtitle: subjectOf(chart.id), anchor: "start", frame: "group", color,
        subtitleColor: cssColor("--soft"), fontSize: 14, subtitleFontSize: 12, offset: 10
    };
    return spec;
}

function makeChart(id, title, about, make, settings, controls = []) {
    const picture = el("div", {class: "picture", role: "img", "aria-label": title});
    const note = el("p", {class: "note"});
    const chart = charts[id] = {id, title, make, settings, picture, view: null, result: null};
    chart.draw = () => {
        const width = Math.max(260, Math.floor(picture.clientWidth)),
              height = width < 520 ? 300 : 400;
        const result = chart.result = make(settings, {width, height});
        if (chart.view) chart.view.finalize();
        chart.view = null;
        picture.replaceChildren();
        note.textContent = result ? result.note : "Nothing is switched on.";
        if (!result) return;
        picture.style.minHeight = (result.height ?? height) + "px"; /* the page must not jump */
        chart.view = makeView(
            result.spec, {container: picture, renderer: rendererFor(result.size), hover: true});
        chart.view.addEventListener("pointermove", showTip);
        chart.view.addEventListener("pointerdown", showTip); /* a finger */
        chart.view.addEventListener("pointerout", hideTip);
        chart.view.addEventListener("click", (event, item) => {
            const row = cellOfMark(item?.datum);
            if (row) openCell(row);
        });
        chart.ready = chart.view.runAsync();
    };
    chart.svg = async () => {
        const view = makeView(savedSpec(chart), {renderer: "none"});
        const text = await view.toSVG();
        view.finalize();
        return text;
    };
    chart.csv = () => csvText(chart.result.names, chart.result.rows);
    const save = el(
        "span", {class: "save"},
        el("button", {
            type: "button",
            class: "quiet",
            "data-save": "svg",
            title: "Save this chart as a picture",
            onclick: async () =>
                chart.result && saveFile(`lipscope-${id}.svg`, "image/svg+xml", await chart.svg())
        },
           "SVG"),
        el("button", {
            type: "button",
            class: "quiet",
            "data-save": "csv",
            title: "Save the data of this chart",
            onclick: () => chart.result && saveFile(`lipscope-${id}.csv`, "text/csv", chart.csv())
        },
           "CSV"));
    return el(
        "figure", {id: "chart-" + id},
        el("figcaption", {}, el("div", {class: "title"}, el("h3", {}, title), save),
           el("p", {class: "subject"}, subjectOf(id)), about ? el("p", {}, about) : null),
        controls.length ? el("div", {class: "controls"}, ...controls) : null, picture, note,
        helpFor(id));
}

/* What a chart is about: model, text, layers. */
const subjectOf = id => subjectWords(rowsOf[{zoo: "bound", attack: "attack", perturb: "change"}[id] ?? "measure"]);

/* Charts are drawn one after the other, what is in sight first, and the page stays at hand in
 * between: 20,000 marks take some tenths of a second each. */
const waiting = new Set();
let drawing = null;

function redraw(ids = Object.keys(charts)) {
    for (const id of ids)
        if (charts[id]) waiting.add(charts[id]);
    drawing ??= drawWaiting();
}

async function drawWaiting() {
    root.dataset.drawing = "";
    while (waiting.size) {
        const inSight = chart => {
            const box = chart.picture.getBoundingClientRect();
            return box.bottom > 0 && box.top < innerHeight;
        };
        const next = [...waiting].find(inSight) ?? [...waiting][0];
        waiting.delete(next);
        next.draw();
        await next.ready;
        root.dataset.ready ??= String(Math.round(performance.now())); /* words, tables, one chart */
        await new Promise(resolve => setTimeout(resolve));
    }
    drawing = null;
    delete root.dataset.drawing;
    root.dataset.complete ??= String(Math.round(performance.now()));
}

/* ---- Controls ----------------------------------------------------------------------------- */

/* Buttons that switch members of a set on and off; a double click leaves one alone. */
function chips(items, set, labelOf, colorOf, changed, label) {
    const buttons = items.map(item => {
        const swatch = el("i", {"aria-hidden": "true"});
        const button =
            el("button", {
                type: "button",
                class: "chip",
                "data-key": String(item?.label ?? item),
                onclick: () => {
                    set.has(item) ? set.delete(item) : set.add(item);
                    refresh();
                    changed();
                },
                ondblclick: () => {
                    set.clear();
                    set.add(item);
                    refresh();
                    changed();
                }
            },
               swatch, labelOf(item));
        button.item = item;
        button.swatch = swatch;
        return button;
    });
    const refresh = () => buttons.forEach(b => {
        b.setAttribute("aria-pressed", String(set.has(b.item)));
        b.swatch.style.background = colorOf(b.item) ?? "currentColor";
    });
    const all =
        el("button", {
            type: "button",
            class: "quiet",
            onclick: () => {
                const full = set.size === items.length;
                set.clear();
                if (!full) items.forEach(i => set.add(i));
                refresh();
                changed();
            }
        },
           "all / none");
    refresh();
    const node =
        el("div", {class: "chips", role: "group", "aria-label": label}, ...buttons,
           items.length > 2 ? all : null);
    node.refresh = refresh;
    return node;
}

function choice(label, options, value, changed) {
    const select =
        el("select", {onchange: () => changed(options[select.selectedIndex][0])},
           ...options.map(([key, text]) => el("option", {selected: key === value}, text)));
    return el("label", {class: "choice"}, label + " ", select);
}

const check = (label, on, changed) => {
    const box = el("input", {type: "checkbox", checked: on, onchange: () => changed(box.checked)});
    return el("label", {class: "choice"}, box, " " + label);
};
