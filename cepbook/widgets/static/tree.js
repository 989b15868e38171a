// The partitions of a nested context as a tree: a node for each partition of an outer level, a leaf for each context
// partition. Python puts this text between table.js and view.js.

const sum = (a, b) => (a === null && b === null ? null : (a ?? 0) + (b ?? 0));
const latest = (a, b) => (a === null || (b !== null && b > a) ? b : a);
const NUL = "\u0001"; // between texts that are compared together

class PartitionTree {
  // partitions: {count, columns: [Column], cells, levels: [{name, columns: [index]}], sizes}; the last `sizes` columns
  // tell of events and sizes, which add up
  constructor(partitions) {
    this.partitions = partitions;
    const { levels, count } = partitions;
    this.roots = [];
    this.counts = levels.map(() => 0);
    const known = new Map();
    const sizes = partitions.sizes ? partitions.cells.slice(-partitions.sizes) : [];
    const kinds = partitions.sizes ? partitions.columns.slice(-partitions.sizes) : [];
    this.added = kinds.map(({ kind }) => (kind === "time" ? latest : sum)); // the last event is the latest of all
    for (let r = 0; r < count; r += 1) {
      let siblings = this.roots;
      let path = "";
      const above = [];
      for (let level = 0; level < levels.length - 1; level += 1) {
        path += NUL + this.text(level, r);
        let node = known.get(path);
        if (!node) {
          node = { path, level, text: this.text(level, r), leaves: 0, sizes: sizes.map(() => null) };
          Object.assign(node, { children: [], place: siblings.length + 1 });
          known.set(path, node);
          siblings.push(node);
          this.counts[level] += 1;
        }
        above.push(node);
        siblings = node.children;
      }
      for (const node of above) {
        node.leaves += 1;
        sizes.forEach((values, i) => (node.sizes[i] = this.added[i](node.sizes[i], values[r])));
      }
      const level = levels.length - 1;
      const text = this.text(level, r);
      const leaf = { path: `${path}${NUL}${r}`, level, row: r, text, leaves: 1, sizes: sizes.map((values) => values[r]) };
      siblings.push(Object.assign(leaf, { children: [], place: siblings.length + 1 }));
      this.counts[level] += 1;
    }
  }
  // What tells a partition of `level` from its siblings, of the path that row `r` is on.
  text(level, r) {
    const { name, columns } = this.partitions.levels[level];
    const parts = columns.map((c) => {
      const column = this.partitions.columns[c];
      return `${column.name.slice(name.length + 1)} = ${column.text(this.partitions.cells[c][r])}`;
    });
    return parts.join(", ");
  }
  // The nodes that are seen, from above, when those of `collapsed` paths are closed.
  visible(collapsed) {
    const found = [];
    const visit = (nodes) => {
      for (const node of nodes) {
        node.siblings = nodes.length;
        found.push(node);
        if (!collapsed.has(node.path)) visit(node.children);
      }
    };
    visit(this.roots);
    return found;
  }
  // All paths that can be closed.
  branches() {
    return this.visible(new Set()).filter((node) => node.children.length).map((node) => node.path);
  }
  // "1 NineToFive · 3 SegmentedByCustomer"
  summary() {
    return this.partitions.levels.map((level, i) => `${numbers.format(this.counts[i])} ${level.name}`).join(" · ");
  }
}
