/* page.js - puts the page together, and follows theme, width and paper. */

function setTheme() {
    applyTheme();
    document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
    refreshers.forEach(refresh => refresh());
    redraw();
}

/* for those who look with the console, and for tests */
window.lipscope = {charts, report, rows: allRows, tip: tipPairs};
document.title = "lipscope: " + (subjectWords(allRows) || lastOf(report.runs[0].file));
lede();
if (allRows.length > rowsOf.change.length) howToRead();
claimSection();
measureSections();
zooSection();
attackSection();
perturbSection();
rowsSection();
originSection();
setTheme();

document.getElementById("theme").addEventListener("click", () => {
    chosenTheme = isDark() ? "light" : "dark";
    setTheme();
});
darkQuery.addEventListener("change", setTheme);
let width = innerWidth, resizing = 0;
addEventListener("resize", () => {
    if (innerWidth === width) return; /* the address bar of a phone changes the height only */
    width = innerWidth;
    clearTimeout(resizing);
    resizing = setTimeout(() => redraw(), 150);
});
/* paper is white, and does not wait */
const drawNow = () => {
    waiting.clear();
    for (const chart of Object.values(charts)) {
        chart.draw();
        if (chart.view) chart.view.run();
    }
};
let afterPaper = null; /* sets the theme back */
addEventListener("beforeprint", () => {
    const theme = chosenTheme, dark = isDark();
    afterPaper = dark ? () => { chosenTheme = theme; setTheme(); } : null;
    if (dark) chosenTheme = "light";
    applyTheme();
    refreshers.forEach(refresh => refresh());
    if (dark || waiting.size) drawNow();
});
addEventListener("afterprint", () => { if (afterPaper) afterPaper(); });
