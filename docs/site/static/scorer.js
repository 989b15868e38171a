// Pages that answer a question come before those that mention its words.
const PLACES = [
  ["how-to/", 12], ["tutorial/", 3], ["concepts/", 8], ["coming_from/", 5], ["reference/", 6], ["notebooks/", -2],
  ["internals/", -14], ["performance", -14], ["changelog", -16], ["contents", -16], ["index", -8], ["how-to/index", -20],
  ["concepts/index", -16], ["reference/index", -16], ["notebooks/index", -10],
];
var Scorer = {
  score: (result) => {
    const [page, title, , , score] = result;
    const words = new URLSearchParams(window.location.search).get("q")?.toLowerCase().split(/\s+/) ?? [];
    const name = title.toLowerCase();
    const named = words.filter((word) => word.length > 2 && name.includes(word.replace(/s$/, ""))).length;
    const places = PLACES.filter(([start]) => page.startsWith(start)).map(([, points]) => points);
    return score + 6 * named + places.reduce((sum, points) => sum + points, 0);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
