/* bundle.js - joins the parts of Vega, which are AMD modules, to the one object `vega`.
 *
 * Before each part the page calls vegaPart(NAME); the part then calls define(NEEDS, MAKE).
 * Parts stand in an order in which everything needed is already there. */
const vegaParts = Object.create(null);
let vegaCurrent = "";

function vegaPart(name) { vegaCurrent = name; }

function define(needs, make) {
    const made = {};
    vegaParts[vegaCurrent] = made;
    make(...needs.map(
        name => name === "exports" ?
            made :
            vegaParts[name === "vega-selections" ? "vega-selection" : name]));
}
define.amd = true;

/* What Vega's own index does: one table of transforms, one object of names. */
function vegaJoin() {
    const parts = vegaParts;
    Object.assign(
        parts["vega-dataflow"].transforms, parts["vega-transforms"], parts["vega-view-transforms"],
        parts["vega-encode"]);
    return {
        View: parts["vega-view"].View,
        parse: parts["vega-parser"].parse,
        scheme: parts["vega-scale"].scheme,
        interpreter: parts["vega-interpreter"].expressionInterpreter
    };
}
