// How the site is searched. Pages that answer a question come before those that mention its words, pages with all its
// words before those with most of them, and words of other systems stand for those of these pages.
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

const SYNONYMS = [
  [/\btime[- ]?zones?\b/g, "zone"], [/\budfs?\b/g, "python function"], [/\bde-?dup\w*/g, "duplicates"],
  [/\bheart ?beats?\b/g, "silent"], [/\breload\b/g, "load"], [/\bunit tests?\b/g, "test"], [/\bwhy\b/g, "cause"],
  [/\bwatermarks?\b/g, "late"], [/\bcolumn\b/g, "property"],
];
const query = Search.query, allWords = Search.performTermsSearch;
Search.query = (text) => query(SYNONYMS.reduce((asked, [word, here]) => asked.replace(word, here), text.toLowerCase()));
Search.performTermsSearch = (words, excluded) => {
  if (words.size < 3) return allWords(words, excluded);  // most of two words are both
  const pages = new Map();
  for (const word of words) {
    for (const result of allWords(new Set([word]), excluded)) {
      const page = pages.get(result[0]) ?? {result, words: 0, score: 0};
      pages.set(result[0], {result, words: page.words + 1, score: page.score + result[4]});
    }
  }
  const most = [...pages.values()].filter((page) => page.words * 2 > words.size && page.words < words.size);
  const some = most.map(({result, words: present, score}) => {
    const [page, title, anchor, description, , file, kind] = result;
    return [page, title, anchor, description, score / words.size - 8 * (words.size - present), file, kind];
  });
  return [...allWords(words, excluded), ...some];
};
