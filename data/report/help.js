/* help.js - how to read each chart: what stands on the axes, what a mark is, what follows from it
 * and what does not. */

const chartHelp = {
    depth:
        "Across: the layers, from the first to the last. Up: the exponent e of sigma ≈ c·nᵉ over the " +
        "lengths of this run. 0 is no growth, ¼ is what the paper draws for real text, ½ (√n) is the " +
        "theorem's worst case for tokens of bounded size. A bar that crosses 0 means that growth is not " +
        "shown; two bars without a common height mean that two layers differ. A hollow mark is an " +
        "average steepness, not a law.",
    growth:
        "Both axes are logarithmic, so a power law is a straight line and its slope is the exponent. The " +
        "dotted piece has the slope ½ of the theorem, √n: what runs along it grows as fast as the worst " +
        "case, what is flatter grows slower. Numbers beside a curve are its local slopes, from each " +
        "length to the next. Small marks are single windows: how far they scatter is how much sigma " +
        "depends on the text.",
    slopes:
        "Across: the middle of two neighbouring lengths. Up: the slope of ln sigma between them. A " +
        "level line is a power law; one that comes down says that the growth ends, one that goes up " +
        "that the exponent of the whole range understates what comes. The dashed line is the " +
        "theorem's ½: single pieces may lie above it, curves of bounded tokens not for ever.",
    change:
        "Across: the layers. Up: sigma of a run divided by that of the first run, at the same lengths, " +
        "on a logarithmic axis. On the dashed line nothing has changed; a bar that crosses it means " +
        "that no change is shown. Bars are 95 % intervals over the starts of windows: they speak of " +
        "other windows of the same text.",
    heat:
        "Each field is one layer at one length (or one head of a layer); its colour and number are the " +
        "median of sigma over windows. Dark and bright stand for small and large on a logarithmic " +
        "scale, which the bar above names. Click a field to read the sentence of its worst window.",
    sink:
        "Each field is one layer at one length (or one head of a layer). The number is the share of all " +
        "attention that one token takes, in the head where that is most: 100 % would be every token " +
        "looking at it alone, 1/n all tokens alike. A strong sink takes attention off the others, and " +
        "the proved bound grows with the root of it.",
    radius:
        "Across: the root mean square length of the tokens at which the map was differentiated. Up: " +
        "sigma. In theory sigma grows with the square of the radius; behind a norm all tokens have " +
        "nearly one length, the marks stand above each other, and nothing follows.",
    upper:
        "Across: sigma, which a direction reaches. Up: what is proved, or holds with a probability, " +
        "at the same input. No mark can lie below the diagonal; how far it lies above is what the " +
        "bound gives away. Both axes are logarithmic.",
    released:
        "Across: sigma. Up: what the released scripts return, which is no Lipschitz constant. Marks " +
        "beside the diagonal show that both are different numbers, and by how much.",
    zoo:
        "Each line is one bound, the tightest first; the upright line is the exact value at this input. " +
        "Upper bounds lie to its right. Bounds over a ball hold for every input of that size and are " +
        "larger for it; lower bounds over a ball are reached by other inputs.",
    attack:
        "Across: the length of the input. Up: sigma. What the search found is a lower bound of the " +
        "worst case, and so is a construction of the theory; the proved bound is above the worst case. " +
        "The worst case itself lies between them, and where they nearly meet it is known.",
    perturb:
        "Across: the size of a change that was made, relative to the input. Up: how far the output moved, " +
        "divided by how far the input did. Left, where steps are small, a ratio and what the derivative " +
        "predicts fall together, and none exceeds the level line, sigma. To the right they part: what lies " +
        "above the line is stretched more than sigma says. No ratio lies above the proved bound of its " +
        "step, and the room between them is what the bound gives away.",
    sentence:
        "The words are the tokens of the window, in their order. The colour of a token is what a change " +
        "of it alone does to the output of all tokens, in the Frobenius norm: estimated by random " +
        "probes, good to about a tenth. It says where the layer is sensitive, not which word is " +
        "important to a reader."
};

const helpFor = id => chartHelp[id] ?
    el("details", {class: "help"}, el("summary", {}, "How to read it"), el("p", {}, chartHelp[id])) :
    null;
