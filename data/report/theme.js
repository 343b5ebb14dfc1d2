/* theme.js - light and dark, and the colours of charts in both.
 *
 * Layers are ordered, so they walk along viridis; runs and quantities are not, and take the
 * palette of Okabe and Ito.  Both can be told apart by colour-blind people.  The ends of viridis
 * that fall together with the paper are left out. */

const root = document.documentElement;
const darkQuery = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null; /* null: as the system says */

const isDark = () => (chosenTheme ?? (darkQuery.matches ? "dark" : "light")) === "dark";

function applyTheme() { root.dataset.theme = isDark() ? "dark" : "light"; }

const cssColor = name => getComputedStyle(root).getPropertyValue(name).trim();

const palettes = {
    light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#6a51a3", "#444444"],
    dark: ["#56a8e0", "#f0883e", "#2fc297", "#e09bc4", "#e6b83c", "#8fd0f5", "#a99be0", "#c8c8c8"]
};

const categoryColor = index => palettes[isDark() ? "dark" : "light"][index % 8];

function rampColor(t) {
    const [low, high] = isDark() ? [0.28, 0.98] : [0.02, 0.86];
    return vega.scheme("viridis")(low + (high - low) * Math.min(1, Math.max(0, t)));
}

/* A colour "#rrggbb" mixed with the paper: 0 leaves it, 1 is paper. */
function towardsPaper(color, share) {
    const parts = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
    const paper = parts(cssColor("--paper"));
    return "#" + parts(color).map((c, i) => Math.round(c + share * (paper[i] - c)))
        .map(c => c.toString(16).padStart(2, "0")).join("");
}

function layerColor(layer) {
    const at = layers.indexOf(layer);
    return layers.length < 2 ? categoryColor(0) : rampColor(at / (layers.length - 1));
}

const shapes = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"];
const seriesShape = s => shapes[s.index % shapes.length];
const seriesDash = s => [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 4]][s.index % 6];

/* What all charts share. */
function chartConfig() {
    const ink = cssColor("--ink"), soft = cssColor("--soft"), line = cssColor("--line");
    const font = getComputedStyle(document.body).fontFamily;
    return {
        background: cssColor("--paper"),
        font,
        axis: {
            labelColor: soft,
            titleColor: ink,
            domainColor: line,
            tickColor: line,
            gridColor: line,
            gridOpacity: 0.6,
            labelFont: font,
            titleFont: font,
            labelFontSize: 11,
            titleFontSize: 12,
            titleFontWeight: 500,
            titlePadding: 8,
            labelPadding: 4,
            tickSize: 4,
            labelOverlap: "parity"
        },
        text: {font, fontSize: 11},
        legend: {
            labelColor: ink,
            titleColor: ink,
            labelFont: font,
            titleFont: font,
            labelFontSize: 11,
            titleFontSize: 11,
            titleFontWeight: 500,
            symbolStrokeWidth: 0
        }
    };
}
applyTheme();
