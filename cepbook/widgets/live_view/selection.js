// Cells that the reader selects with the mouse, or with shift and the arrow keys, and copies as text with tabs.
// Python puts this text before view.js.

class Selection {
  constructor(panel, pane, table) {
    Object.assign(this, { panel, pane, table });
    this.clear();
    const { body, node } = table;
    body.addEventListener("pointerdown", (event) => this.press(event));
    body.addEventListener("pointermove", (event) => this.drag(event));
    body.addEventListener("selectstart", (event) => this.dragged && event.preventDefault());
    node.addEventListener("pointerup", () => (this.start = null));
    // The click that ends a drag, or extends a selection, does nothing else.
    body.addEventListener("click", (event) => {
      if (this.dragged || event.shiftKey) event.stopImmediatePropagation();
      else if (this.any) this.clear();
      this.dragged = false;
    });
    node.addEventListener("keydown", (event) => this.key(event));
    node.addEventListener("copy", (event) => this.any && event.preventDefault());
  }
  get any() {
    return this.from !== null;
  }
  // Rows first, columns first: both ends are included.
  get range() {
    const [a, b] = [this.from, this.to];
    return { top: Math.min(a.row, b.row), bottom: Math.max(a.row, b.row), left: Math.min(a.column, b.column), right: Math.max(a.column, b.column) };
  }
  has(row, column) {
    if (!this.any) return false;
    const { top, bottom, left, right } = this.range;
    return row >= top && row <= bottom && column >= left && column <= right;
  }
  clear() {
    this.from = this.to = null;
    this.start = null;
    this.dragged = false;
    this.panel.schedule?.();
  }
  cellOf(event) {
    const cell = event.target.closest(".cv-cell");
    const row = cell?.parentNode;
    return row?.index === undefined ? null : { row: row.index, column: row.cells.indexOf(cell) };
  }
  press(event) {
    if (event.button !== 0) return;
    const cell = this.cellOf(event);
    if (event.shiftKey && cell) {
      event.preventDefault();
      this.select(this.from ?? this.last ?? cell, cell);
    } else this.start = cell;
    this.last = cell ?? this.last;
  }
  // Within one cell the text itself is selected, as everywhere.
  drag(event) {
    if (!this.start || !(event.buttons & 1)) return;
    const cell = this.cellOf(event);
    if (!cell || (!this.dragged && cell.row === this.start.row && cell.column === this.start.column)) return;
    this.dragged = true;
    window.getSelection()?.removeAllRanges();
    this.select(this.start, cell);
  }
  select(from, to) {
    Object.assign(this, { from, to, used: true });
    this.froze ||= this.panel.freeze(this.pane);
    const { top, bottom, left, right } = this.range;
    this.panel.exporter.say(`${plural(bottom - top + 1, "row")} × ${plural(right - left + 1, "column")} selected: Ctrl+C copies`);
    this.panel.schedule();
  }
  key(event) {
    if (event.target !== this.table.node) return;
    const command = event.ctrlKey || event.metaKey;
    const rows = this.panel.rowCount(this.pane);
    const last = this.table.columns.length - 1;
    if (!rows) return;
    if (command && event.key.toLowerCase() === "a") {
      this.select({ row: 0, column: 0 }, { row: rows - 1, column: last });
    } else if (command && event.key.toLowerCase() === "c" && this.any && !String(window.getSelection())) {
      this.panel.exporter.ask("text");
    } else if (event.key === "Escape" && this.any) {
      this.clear();
      if (this.froze) this.panel.set({ follow: true });
      this.froze = false;
    } else if (event.shiftKey && event.key.startsWith("Arrow")) {
      const at = this.to ?? { row: Math.max(0, this.panel.cursors[this.pane] ?? this.table.top ?? 0), column: 0 };
      const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
      const to = { row: Math.min(rows - 1, Math.max(0, at.row + down)), column: Math.min(last, Math.max(0, at.column + right)) };
      this.select(this.from ?? { row: at.row, column: 0 }, this.any ? to : { ...to, column: last });
      this.panel.bring(this.pane, to.row);
    } else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }
  draw(index, cells) {
    if (!this.used) return;
    cells.forEach((cell, column) => cell.classList.toggle("cv-selected", this.has(index, column)));
  }
}
