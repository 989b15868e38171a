// The lines of the tree of a nested context that were sent: a node for each partition of an outer level, a leaf for each
// context partition. What is unfolded below a node, and in which order, the kernel knows (widgets/outline.py).
// Python puts this text between table.js and view.js.

// Of each line: {row, number, depth, open, place, siblings}; `number` is 0 of a leaf.
function treeLines(tree, buffers) {
  const parts = Object.fromEntries(Object.entries(tree).map(([name, column]) => [name, decode(column, buffers)]));
  return parts.number.map((number, row) => ({
    row,
    number,
    depth: parts.depth[row],
    open: parts.opened[row],
    place: parts.place[row],
    siblings: parts.siblings[row],
  }));
}

// "1 NineToFive · 3 SegmentedByCustomer"
function treeSummary(levels) {
  return levels.map(([name, count]) => `${numbers.format(count)} ${name}`).join(" · ");
}
