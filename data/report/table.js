/* table.js - rows as a table that sorts and filters; only what is in sight is in the document,
 * so that 20,000 rows cost as much as twenty. */

/* An element; text is always text, never markup. */
function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on"))
            node.addEventListener(name.slice(2), value);
        else if (name === "class")
            node.className = value;
        else
            node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
}

/* A table as it stands.  lines: arrays of texts or elements; columns not in "texts" are numbers. */
function plainTable(names, lines, texts) {
    const side = i => texts.includes(names[i]) ? "" : "number";
    const line = cells => el("tr", {}, ...cells.map((cell, i) => el("td", {class: side(i)}, cell)));
    const heads = names.map((name, i) => el("th", {scope: "col", class: side(i)}, name));
    return el("div", {class: "scroller"},
        el("table", {class: "plain"}, el("thead", {}, el("tr", {}, ...heads)),
            el("tbody", {}, ...lines.map(line))));
}

const ROW_HEIGHT = 28, SHOWN_AT_MOST = 18, PRINTED = 60;

/* "layer=3 sigma>=10 gpt2": comparisons with columns, and words that some cell contains. */
function makeFilter(text, columns) {
    const tests = text.trim().split(/\s+/).filter(Boolean).map(token => {
        const match = /^(\w+)(<=|>=|!=|=|<|>)(.+)$/.exec(token);
        const column = match && columns.find(c => c.name === match[1]);
        if (!column) {
            const word = token.toLowerCase();
            return row => columns.some(c => {
                const value = c.get(row);
                return value !== null && value !== undefined &&
                    String(value).toLowerCase().includes(word);
            });
        }
        const [, , sign, wanted] = match, number = Number(wanted);
        return row => {
            const value = column.get(row);
            const shown = value === null || value === undefined ?
                (column.name === "head" ? "all" : "") :
                String(value);
            if (sign === "=") return isNumber(value) ? value === number : shown === wanted;
            if (sign === "!=") return isNumber(value) ? value !== number : shown !== wanted;
            if (!isNumber(value) || isNaN(number)) return false;
            return sign === "<" ? value < number :
                sign === ">"    ? value > number :
                sign === "<="   ? value <= number :
                                  value >= number;
        };
    });
    return row => tests.every(test => test(row));
}

/* Nothing comes last, whatever the direction. */
function compareValues(a, b, direction) {
    const noA = a === null || a === undefined, noB = b === null || b === undefined;
    if (noA || noB) return noA - noB;
    if (typeof a === "number" && typeof b === "number") return direction * (a - b);
    return direction * String(a).localeCompare(String(b));
}

/* columns: name, get(row); open(row), where a row can be opened; bounds are rounded to their side */
function makeTable(rows, columns, fileName, open = null) {
    for (const column of columns) {
        const values = rows.map(column.get);
        column.numeric = values.some(x => typeof x === "number");
        column.format = column.name === "head" ?
            x => x === null || x === undefined ? "all" : String(x) :
            columnFormat(values);
        const sample = values.length > 400 ?
            values.filter((x, i) => i % Math.ceil(values.length / 400) === 0) :
            values;
        column.width = Math.min(
            40,
            sample.reduce(
                (most, x) => Math.max(most, column.format(x).length), column.name.length + 2));
    }
    const state = {sort: null, direction: 1, shown: rows};
    const count = el("span", {class: "count"});
    const body = el("tbody");
    const heads = columns.map(
        column =>
            el("th", {scope: "col", class: column.numeric ? "number" : ""},
               el("button", {type: "button", onclick: () => sortBy(column)}, column.name)));
    const table =
        el("table", {class: "rows"},
           el("colgroup", {}, ...columns.map(c => el("col", {style: `width:${c.width + 4}ch`}))),
           el("thead", {}, el("tr", {}, ...heads)), body);
    table.style.minWidth = columns.reduce((sum, c) => sum + c.width + 4, 0) + "ch";
    const scroller =
        el("div", {class: "scroller", tabindex: 0, role: "region", "aria-label": "Rows"}, table);
    const filter = el("input", {
        type: "search",
        placeholder: "filter, for instance: layer=3 sigma>10",
        "aria-label": "Filter rows",
        spellcheck: "false"
    });
    const save =
        el("button",
           {type: "button", class: "quiet", onclick: () => saveFile(fileName, "text/csv", csv())},
           "CSV");
    const csv = () =>
        csvText(columns.map(c => c.name), state.shown.map(row => columns.map(c => c.get(row))));

    const show = (c, row) => c.format(c.get(row), sideOf(row, c.name));
    const line = row => el(
        "tr", open ? {
            tabindex: 0, class: "opens", onclick: () => open(row),
            onkeydown: event => { if (event.key === "Enter") open(row); }
        } : {},
        ...columns.map(
            c => el(
                "td",
                {class: c.numeric ? "number" : "", title: c.numeric ? null : show(c, row)},
                show(c, row))));
    const space = height =>
        el("tr", {class: "space", "aria-hidden": "true"},
           el("td", {colspan: columns.length, style: `height:${height}px`}));
    let drawn = "";
    function draw(force, from = null, to = null) {
        const first = from ?? Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - 6);
        const last = Math.min(state.shown.length, to ?? first + SHOWN_AT_MOST + 12);
        if (!force && drawn === first + "/" + last) return;
        drawn = first + "/" + last;
        const lines = state.shown.slice(first, last).map(line);
        if (to === null) {
            if (first) lines.unshift(space(first * ROW_HEIGHT));
            if (last < state.shown.length)
                lines.push(space((state.shown.length - last) * ROW_HEIGHT));
        }
        body.replaceChildren(...lines);
    }
    function update() {
        const keep = makeFilter(filter.value, columns);
        state.shown = rows.filter(keep);
        const by = state.sort;
        if (by) state.shown.sort((a, b) => compareValues(by.get(a), by.get(b), state.direction));
        heads.forEach(
            (head, i) => head.setAttribute(
                "aria-sort",
                columns[i] !== by       ? "none" :
                    state.direction > 0 ? "ascending" :
                                          "descending"));
        count.textContent = state.shown.length === rows.length ?
            rows.length.toLocaleString("en") + " rows" :
            state.shown.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en") +
                " rows";
        scroller.scrollTop = 0;
        draw(true);
    }
    function sortBy(column) {
        state.direction = state.sort === column       ? -state.direction :
            column.numeric && column.name === "sigma" ? -1 :
                                                        1;
        state.sort = column;
        update();
    }
    let waiting = 0;
    scroller.addEventListener("scroll", () => {
        if (!waiting)
            waiting = requestAnimationFrame(() => {
                waiting = 0;
                draw(false);
            });
    });
    filter.addEventListener("input", update);
    /* paper does not scroll: the first rows, and a word about the others */
    const rest =
        el("p", {class: "printed"},
           rows.length > PRINTED ?
               `The first ${PRINTED} of ${rows.length} rows; the page itself holds all.` :
               "");
    addEventListener("beforeprint", () => draw(true, 0, PRINTED));
    addEventListener("afterprint", () => draw(true));
    update();
    return el(
        "div", {class: "table"},
        el("div", {class: "controls"}, filter, count, el("span", {class: "push"}), save), scroller,
        rest);
}
