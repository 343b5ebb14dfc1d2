/* cell.js - one cell, opened: its sentence with what each token does, its numbers, and the way to
 * its neighbours.
 *
 * Words come from somebody's text: each stands in an element of its own, as text, isolated from
 * the writing direction of its neighbours, with controls as signs. */

/* ---- Words ---------------------------------------------------------------------------------- */

const windowKey = (run, x) =>
    [run, x.model_hash, x.text_hash, x.special ? 1 : 0, x.start].join(" ");
const windows = new Map();
report.runs.forEach((run, index) => {
    for (const window of run.windows ?? []) windows.set(windowKey(index, window), window);
});

/* The tokens of a cell's window, or null: the first ones of the longest window of this start, and
 * the special ones behind it. */
function wordsOf(row) {
    const window = windows.get(windowKey(row.run, row));
    if (!window || !isNumber(row.n) || window.tokens.length < row.n) return null;
    const {tokens, after} = window;
    return [...tokens.slice(0, row.n - after), ...tokens.slice(tokens.length - after)];
}

const LONGEST_WORD = 60;

/* A token as people read it; an id where there is no text. */
function wordText(token) {
    if (typeof token === "number") return "#" + token;
    const cut = token.length > LONGEST_WORD ? token.slice(0, LONGEST_WORD) + "…" : token;
    return cut.replace(/[\u0000-\u001f\u007f]/g, c => c === "\n" ? "⏎" : c === "\t" ? "⇥" :
        c === "\u007f" ? "␡" : String.fromCharCode(0x2400 + c.charCodeAt(0)));
}

const quoted = token => el("bdi", {class: "word"}, "“" + wordText(token).trim() + "”");

/* ---- The sentence --------------------------------------------------------------------------- */

const influenceOf = row => Array.isArray(row.influence) && row.influence.length === row.n &&
    row.influence.some(isPositive) ? row.influence : null;

function sentence(row, words) {
    const own = influenceOf(row), most = own ? Math.max(...own.filter(isNumber)) : 0;
    const marks = [["token", "most"], ["sink_token", "sink"], ["pair_from", "from"], ["pair_to", "to"]];
    const spans = words.map((word, i) => {
        const classes = marks.filter(([field]) => row[field] === i).map(([, name]) => name);
        const value = own && isNumber(own[i]) ? own[i] : null;
        const text = wordText(word);
        const node = el("bdi", {
            class: ["token", ...classes].join(" "),
            title: `token ${i}` + (value === null ? "" : `: alone about ${formatNumber(value, 2)}`)
        }, text);
        if (value !== null) node.style.setProperty("--heat", (0.82 * value / most).toFixed(3));
        return text.includes("⏎") ? [node, el("wbr")] : [node];
    });
    return el("p", {class: "sentence", dir: "ltr"}, ...spans.flat());
}

/* Which token, which pair, which sink: as words. */
function factWords(row, words) {
    const word = i => words && i >= 0 && i < words.length ? quoted(words[i]) : `token ${i}`;
    const lines = [];
    if (isNumber(row.token))
        lines.push(["Most by itself", el("span", {}, word(row.token),
            ` (token ${row.token}): moving it alone is stretched ${stretch(row.token_norm)}`)]);
    if (isNumber(row.pair_from) && isNumber(row.pair_to))
        lines.push(["Strongest pair", el("span", {}, word(row.pair_from), " → ", word(row.pair_to),
            `: a change of the first moves the second ${stretch(row.pair_norm)}`)]);
    if (isNumber(row.sink_token) && isPositive(row.sink))
        lines.push(["Sink", el("span", {}, word(row.sink_token),
            ` takes ${shareText(row.sink / row.n)} of the attention of a head`,
            isPositive(row.sink_norm) ? `; moved alone ${stretch(row.sink_norm)}, all others ` +
                `${stretch(row.rest_norm)}` : "")]);
    return lines.length ? el("dl", {class: "facts"},
        ...lines.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])) : null;
}

const shareText = share => fixed(100 * share, 1) + " %";

function heatKey(row) {
    const own = influenceOf(row);
    if (!own) return null;
    const bar = el("i", {class: "heat", "aria-hidden": "true"});
    return el("p", {class: "note ramp"}, "what each token does alone (Frobenius norm): 0", bar,
        formatNumber(Math.max(...own.filter(isNumber)), 2),
        row.token === undefined || row.token === null ? "" : " · outlined: the most · " +
            "dotted to solid line: the pair · overlined: the sink");
}

/* All that is known of a cell. */
function cellBody(row) {
    const words = wordsOf(row);
    return [
        words ? sentence(row, words) : el("p", {class: "note"},
            "The run file does not hold the words of this window: it is older than that, or an " +
            "image, or there were too many for one page."),
        words ? heatKey(row) : null,
        words && !influenceOf(row) ? el("p", {class: "note"},
            "What each token does is measured by --details.") : null,
        factWords(row, words),
        el("dl", {class: "numbers"}, ...describeCell(row).map(
            ([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))))
    ];
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

const coordinates = ["layer", "head", "n", "window"];
const cellKey = row => coordinates.map(name => row[name] ?? "").join("/");

/* The cells of one series by their places, made when they are first asked for. */
function cellsOf(s) {
    s.cells ??= new Map(s.rows.map(row => [cellKey(row), row]));
    return s.cells;
}
const placesOf = (s, name) => {
    s.places ??= {};
    return s.places[name] ??= sortPlaces(distinct(s.rows.map(row => row[name] ?? null)));
};

/* The cell with another layer, head, length or window; the nearest by the rest where that one was
 * not measured. */
function cellWith(row, name, value) {
    const exact = cellsOf(row.series).get(cellKey({
        layer: row.layer, head: row.head, n: row.n, window: row.window, [name]: value
    }));
    return exact ?? row.series.rows.find(r => (r[name] ?? null) === value);
}

const stepNames = {layer: "layer", head: "head", n: "length", window: "window"};

/* Buttons to the cells beside this one. */
function steps(row, go) {
    return coordinates.flatMap(name => {
        const all = placesOf(row.series, name), at = all.indexOf(row[name] ?? null);
        if (all.length < 2) return [];
        const to = step => cellWith(row, name, all[at + step]);
        const button = (step, text, title) => el("button", {
            type: "button", class: "quiet", disabled: at + step < 0 || at + step >= all.length,
            title, "aria-label": title, "data-step": name + (step < 0 ? "-" : "+"),
            onclick: () => go(to(step))
        }, text);
        return [el("span", {class: "step"}, button(-1, "‹", "previous " + stepNames[name]),
            stepNames[name], button(1, "›", "next " + stepNames[name]))];
    });
}

/* ---- Opened ---------------------------------------------------------------------------------- */

const dialog = el("dialog", {id: "cell", "aria-labelledby": "cell-title"});
document.body.append(dialog);
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });

function openCell(row) {
    hideTip();
    dialog.replaceChildren(
        el("div", {class: "title"}, el("h2", {id: "cell-title"}, cellWords(row)),
            el("button", {type: "button", class: "quiet", "data-close": "", autofocus: true,
                onclick: () => dialog.close()}, "Close")),
        row.series && row.window !== undefined ?
            el("div", {class: "controls"}, ...steps(row, openCell)) : null,
        ...cellBody(row).filter(Boolean));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
}

/* The cell behind a mark: its own, or of several the one with the largest sigma. */
const cellOfMark = datum => datum ? datum.row ?? datum.worst ?? null : null;

/* ---- In the page ------------------------------------------------------------------------------ */

/* The cell with the largest sigma whose words are known, one with influence before others. */
function firstSentence() {
    const known = rowsOf.measure.filter(row => isNumber(row.sigma) && wordsOf(row));
    const told = known.filter(influenceOf);
    return (told.length ? told : known)
        .reduce((best, row) => !best || row.sigma > best.sigma ? row : best, null);
}

function sentenceSection() {
    const first = firstSentence();
    if (!first) return;
    const body = el("div", {class: "opened"}), controls = el("div", {class: "controls"});
    const show = row => {
        const options = name => placesOf(row.series, name).map(value => [value,
            name === "layer" ? layerName(value) : name === "head" ? headName(value) : String(value)]);
        controls.replaceChildren(
            ...(series.length > 1 ? [choice("run", series.map(s => [s, s.label]), row.series,
                s => show(cellsOf(s).get(cellKey(row)) ?? s.rows[0]))] : []),
            ...coordinates.filter(name => placesOf(row.series, name).length > 1).map(
                name => choice(stepNames[name], options(name), row[name] ?? null,
                    value => show(cellWith(row, name, value)))));
        body.replaceChildren(...cellBody(row).filter(Boolean));
    };
    show(first);
    const left = report.runs.reduce((sum, run) => sum + (run.influence_left ?? 0), 0);
    section("words", "Words",
        el("figure", {id: "sentence"},
            el("figcaption", {}, el("h3", {}, "the sentence of a cell"),
                el("p", {class: "subject"}, subjectWords(rowsOf.measure)),
                el("p", {}, "The tokens of one window as they read; the stronger the colour, the " +
                    "further a change of that token alone moves the output. It begins with the " +
                    "cell of the largest sigma. Click a mark of any chart, or a row of the table " +
                    "(or press Enter there), to open its cell.")),
            controls, body, helpFor("sentence"),
            left ? el("p", {class: "note"}, `Of ${left} cells with smaller sigma the colours ` +
                "were left out, for the size of this page; the run file has them.") : null));
}
