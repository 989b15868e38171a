// What the panes of a statement view show: rows of the stream, of the window, partial matches, context partitions. Each
// function draws the table of a panel (view.js) of what its store has; those of whole panes return the words below it.
// Python puts this text before view.js.

const FLASH = 1200; // ms, as in view.css
const PLAIN = { text: (value) => value, chars: Infinity }; // a line as it is

function partitionName(panel, id) {
  const { partitions } = panel.store;
  const at = partitions ? partitions.cells[0].indexOf(id) : -1;
  if (at < 0) return panel.store.ui.partition === id && panel.store.ui.named ? panel.store.ui.named : `partition ${id}`;
  if (partitions.lines) return partitions.cells[1][at];
  const named = partitions.columns.slice(1, partitions.columns.length - partitions.sizes);
  return named.map((c, i) => `${c.name} = ${c.text(partitions.cells[i + 1][at])}`).join(", ") || `partition ${id}`;
}

function wordsOf(panel) {
  return panel.store.ui.filter.toLowerCase().split(/\s+/).filter(Boolean);
}

// The indices of the rows that pass filter and signs; null for all.
function rowsPassing(panel, count, cells, insert, columns = panel.store.columns) {
  const { ui } = panel.store;
  const words = wordsOf(panel);
  if (!words.length && (!insert || (ui.plus && ui.minus))) return null;
  const found = [];
  for (let r = 0; r < count; r += 1) {
    if (insert && !(insert[r] ? ui.plus : ui.minus)) continue;
    if (words.length) {
      const text = columns.map((c, i) => c.text(cells[i][r])).join("\u0001").toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push(r);
  }
  return found;
}

// The columns of the stream as `arranged` takes them; `draw` fills a cell of row `r`.
function streamColumns(panel) {
  const { store } = panel;
  const [time, kind] = store.info.added;
  const chars = Math.max(12, store.timeColumn.chars);
  const sorted = (key) => panel.sorting("stream", key);
  const when = { ...store.timeColumn, key: time, chars, look: "cv-when", sorted: sorted(time) };
  const sign = { key: kind, name: "+ or −", label: "±", title: "insert (+) or remove (−)", chars: store.info.traced ? 3 : 1, look: "cv-sign", untested: true };
  when.draw = (cell, rows, r) => setText(cell, timeText(rows.time[r], store.withMillis));
  sign.draw = (cell, rows, r, open) => setText(cell, `${open}${rows.insert[r] ? "+" : "−"}`);
  const own = store.columns.map((c, i) => ({ ...c, key: c.name, sorted: sorted(c.name), draw: (cell, rows, r) => fillCell(cell, c, rows.cells[i][r]) }));
  return [when, sign, ...own].map((c) => ({ ...c, extra: 4 }));
}

function drawStream(panel) {
  const { store } = panel;
  const page = store.page; // what the kernel found, if the reader searches or sorts and it has answered
  const rows = page ?? panel.held ?? store.rows;
  const passing = page ? null : rowsPassing(panel, rows.time.length, rows.cells, rows.insert);
  const count = page ? page.count : passing ? passing.length : rows.time.length;
  const { traced } = store.info;
  const entries = traced ? expanded(panel, rows, passing, count, page) : null;
  panel.entries.stream = entries;
  panel.cursors.stream = Math.min(panel.cursors.stream, (entries ? entries.length : count) - 1);
  const at = entries ? (i) => entries[i]?.row : page ? (i) => i - page.first : passing ? (i) => passing[i] : (i) => i;
  panel.seen = { rows, at, count: entries ? entries.length : count };
  const columns = panel.shownColumns("stream");
  const selection = panel.selections.stream;
  const fill = (i, row, cells) => {
    if (entries?.[i]?.line !== undefined) return fillLine(panel, entries[i].line, row, cells);
    const r = at(i);
    selection.draw(i, cells);
    if (!(rows.delivery[r] >= 0)) return fillBlank(row, cells);
    const first = i === 0 || rows.delivery[at(i - 1)] !== rows.delivery[r];
    const insert = rows.insert[r];
    const cursor = i === panel.cursors.stream ? " cv-cursor" : "";
    setClass(row, `cv-row ${insert ? "cv-insert" : "cv-remove"}${first ? " cv-first" : ""}${i === panel.tables.stream.top ? " cv-top" : ""} cv-choice${cursor}`);
    const open = entries?.[i].key !== undefined ? (store.ui.opened.has(entries[i].key) ? "▾ " : "▸ ") : "";
    columns.forEach((column, c) => column.draw(cells[c], rows, r, open));
    if (open) setAttribute(row, "aria-expanded", String(open === "▾ "));
    else row.removeAttribute("aria-expanded");
  };
  const tail = store.ui.follow && !store.ui.sort.stream;
  panel.tables.stream.draw(columns, entries ? entries.length : count, fill, store.rows.time.length ? "No row passes the filter." : (store.missed?.text ?? "No rows yet."), tail);
  if (page) {
    panel.need("stream", page);
    return pageSummary(page, Boolean(store.ui.sort.stream), store.ui.before !== null);
  }
  if (store.searches) return "searching all rows …";
  const total = store.inserted + store.removed;
  const kept = rows.time.length;
  const latest = total > kept && !panel.held ? `the latest ${numbers.format(kept)} of ${plural(total, "row")}` : plural(kept, "row");
  const parts = [passing ? `${numbers.format(count)} of ${latest}` : latest];
  if (panel.held) parts.push("paused while you read", `${numbers.format(total - panel.held.next)} newer`);
  return total ? parts.join(" · ") : "";
}

function pageSummary({ found, total, count }, sorted, held) {
  const parts = [found === total ? plural(total, "row") : `${numbers.format(found)} of ${plural(total, "row")}`];
  if (found > count) parts.push(`the ${sorted ? "first" : "last"} ${numbers.format(count)} are shown`);
  if (held) parts.push("paused while you read");
  return parts.join(" · ");
}

// A row that the kernel has not sent yet.
function fillBlank(row, cells) {
  setClass(row, "cv-row");
  row.removeAttribute("aria-expanded");
  cells.forEach((cell) => fillCell(cell, PLAIN, ""));
}

// The rows of the stream with the events that made them, where these are opened.
function expanded(panel, rows, passing, count, page) {
  const { ui, matches } = panel.store;
  const entries = page ? Array.from({ length: page.first }) : [];
  const last = page ? page.time.length : count;
  for (let i = 0; i < last; i += 1) {
    const row = passing ? passing[i] : i;
    const delivery = rows.delivery[row];
    if (!rows.insert[row]) {
      entries.push({ row });
      continue;
    }
    const later = rowsBehind(rows, row); // insert rows of the delivery after this one: its first rows may have been cut
    const key = `${delivery}:${later}`;
    entries.push({ row, key, delivery });
    if (!ui.opened.has(key)) continue;
    const found = matches.get(delivery);
    if (!found) panel.store.expand(delivery); // opened before the page was connected anew
    for (const line of found ? linesOf(found, later) : ["Reading …"]) entries.push({ row, line });
  }
  if (page) entries.length += count - page.first - last;
  return entries;
}

// How many rows of its delivery and side follow a row.
function rowsBehind(rows, r) {
  if (rows.behind) return rows.behind[r];
  let behind = 0;
  while (rows.delivery[r + behind + 1] === rows.delivery[r] && rows.insert[r + behind + 1] === rows.insert[r]) behind += 1;
  return behind;
}

function fillLine(panel, line, row, cells) {
  setClass(row, "cv-row cv-detail");
  row.removeAttribute("aria-expanded");
  cells.forEach((cell, i) => fillCell(cell, PLAIN, i ? "" : line));
}

function drawWaiting(panel) {
  const { store } = panel;
  const { waiting, ui } = store;
  const table = panel.tables.waiting;
  if (!waiting) {
    table.draw([], 0, () => {}, "Reading …");
    return "";
  }
  const entries = [];
  waiting.keys.forEach((key, row) => {
    entries.push({ row, key });
    if (ui.opened.has(key)) for (const line of waiting.lines[row].length ? waiting.lines[row] : ["no events yet"]) entries.push({ row, line });
  });
  panel.entries.waiting = entries;
  const columns = waiting.columns.map((c, i) => ({ ...c, extra: i === 0 ? 6 : 4 }));
  const fill = (i, row, cells) => {
    const { row: r, key, line } = entries[i];
    if (line !== undefined) return fillLine(panel, line, row, cells);
    const open = ui.opened.has(key);
    setClass(row, `cv-row cv-choice${i === panel.cursors.waiting ? " cv-cursor" : ""}`);
    setAttribute(row, "aria-expanded", String(open));
    waiting.columns.forEach((column, c) => fillCell(cells[c], column, waiting.cells[c][r]));
    setText(cells[0], `${open ? "▾" : "▸"} ${cells[0].textContent.replace(/^[▾▸] /, "")}`);
  };
  table.draw(columns, entries.length, fill, "There are no partial matches.");
  const parts = [plural(waiting.total, "partial match", "partial matches")];
  if (waiting.total > waiting.count) parts.push(`the first ${numbers.format(waiting.count)} are shown`);
  return parts.join(" · ");
}

// The columns of a table of rows as `arranged` takes them: `at` is the place of a column among those sent.
function rowColumns(panel, pane) {
  const { store } = panel;
  const sent = pane === "window" ? store.columns : (store.events?.shown ?? []);
  return sent.map((c, i) => ({ ...c, key: c.name, column: c, at: i, sorted: panel.sorting(pane, c.name), extra: 4 + (i === 0 ? 1 : 0) }));
}

// The rows of the iterator, or the events of the window; both are read, searched and sorted by the kernel.
function drawRows(panel, pane, shown, empty) {
  const { store } = panel;
  const window = store[pane];
  const passing = window && window.found === undefined ? rowsPassing(panel, window.sent, window.cells, null, shown) : null;
  const count = window ? (passing ? passing.length : window.count) : 0;
  const columns = panel.shownColumns(pane);
  const selection = panel.selections[pane];
  panel.seenRows[pane] = { count, at: (i) => (passing ? passing[i] : i - (window?.first ?? 0)) };
  const flash = window && performance.now() - window.at < FLASH;
  const fill = (i, row, cells) => {
    const r = passing ? passing[i] : i - window.first;
    setClass(row, flash && window.entered.has(r) ? `cv-row cv-flash-${window.generation % 2}` : "cv-row");
    const there = r >= 0 && r < window.sent;
    selection.draw(i, cells);
    columns.forEach(({ column, at }, c) => fillCell(cells[c], there ? column : PLAIN, there ? window.cells[at][r] : ""));
  };
  const nothing = !window ? "Reading …" : passing || window.found === 0 ? "No row passes the filter." : (store.missed?.text ?? empty);
  panel.tables[pane].draw(columns, count, fill, nothing);
  if (!window) return "";
  if (!passing) panel.need(pane, window);
  const [noun, sorted] = [pane === "events" ? "event" : "row", Boolean(store.ui.sort[pane])];
  const parts = [passing ? `${numbers.format(count)} of ${plural(window.count, noun)}` : plural(window.total, noun)];
  const found = window.found ?? window.total;
  if (window.found !== undefined && found < window.total) parts[0] = `${numbers.format(found)} of ${plural(window.total, noun)}`;
  if (found > window.count) parts.push(`the ${sorted ? "first" : "last"} ${numbers.format(window.count)} are shown`);
  if (pane === "events" && count) parts.push("only the properties that the statement still needs");
  return parts.join(" · ");
}

function drawPartitions(panel) {
  const { store } = panel;
  const { partitions } = store;
  const { node } = panel.tables.partitions;
  if (!partitions) {
    panel.tables.partitions.draw([], 0, () => {}, partitions === null ? "This statement has no context." : "Reading …");
    return "";
  }
  const draw = partitions.lines ? () => drawTree(panel) : () => drawFlat(panel);
  const entries = (panel.entries.partitions = new Array(partitions.count)); // of the lines that are there
  for (let i = 0; i < partitions.sent; i += 1) entries[partitions.first + i] = partitions.lines?.[i] ?? { row: i, number: 0 };
  panel.cursors.partitions = Math.min(panel.cursors.partitions, Math.max(0, entries.length - 1));
  draw();
  if (entries.length) setAttribute(node, "aria-activedescendant", `${panel.id}-p${panel.cursors.partitions}`);
  const found = partitions.found ?? partitions.total;
  const shown = !partitions.lines && found > partitions.count ? ` · the first ${numbers.format(partitions.count)} are shown` : "";
  const all = partitions.found === undefined ? plural(found, "partition") : `${numbers.format(found)} of ${plural(partitions.total, "partition")}`;
  const counted = partitions.lines && partitions.count && partitions.found === undefined ? treeSummary(partitions.levels) : all;
  const since = partitions.count && partitions.since ? ` · arrivals are counted from ${partitions.since} on` : "";
  return `${counted}${shown}${since}${partitions.count ? " · choose one to see its rows" : ""}`;
}

function drawFlat(panel) {
  const { partitions } = panel.store;
  const columns = partitions.columns.map((c, i) => partitionColumn(panel, c, i));
  const fill = (i, row, cells) => {
    const r = i - partitions.first;
    const there = r >= 0 && r < partitions.sent;
    drawChoice(panel, i, row, partitions.cells[0][r]);
    partitions.columns.forEach((column, c) => {
      const value = there ? partitions.cells[c][r] : null;
      const none = !there || (c >= partitions.columns.length - partitions.sizes && value === null);
      fillCell(cells[c], none ? PLAIN : column, none ? "" : value);
      drawShare(cells[c], c === partitions.bar && there ? value : null, partitions.most);
    });
  };
  panel.tables.partitions.draw(columns, partitions.count, fill, partitions.total ? "No partition passes the filter." : "No partition exists yet.");
  panel.need("partitions", partitions);
}

function partitionColumn(panel, c, i) {
  return { ...c, sorted: panel.sorting("partitions", c.name), extra: i === panel.store.partitions.bar ? 14 : 4 };
}

function drawTree(panel) {
  const { partitions } = panel.store;
  const { cells, columns: sent } = partitions;
  const title = "context partitions below it";
  const columns = sent.map((c, i) => {
    const column = partitionColumn(panel, c, i);
    return { ...column, ...(i === 1 ? { chars: partitions.wide } : i === 2 ? { title } : {}) };
  });
  [columns[0], columns[1]] = [columns[1], columns[0]]; // what it is called, then its id
  const places = sent.map((_, c) => (c > 1 ? c : 1 - c)); // where a column is drawn
  const fill = (i, row, drawn) => {
    const r = i - partitions.first;
    const line = partitions.lines[r];
    const there = line !== undefined;
    const branch = there && line.number > 0;
    drawChoice(panel, i, row, there && !branch ? cells[0][r] : undefined);
    if (there) for (const [name, value] of [["level", line.depth + 1], ["setsize", line.siblings], ["posinset", line.place]]) setAttribute(row, `aria-${name}`, String(value));
    if (branch) setAttribute(row, "aria-expanded", String(line.open));
    else row.removeAttribute("aria-expanded");
    sent.forEach((column, c) => {
      const value = there ? cells[c][r] : null;
      const cell = drawn[places[c]];
      if (c === 1) {
        fillCell(cell, { ...PLAIN, chars: 70 }, there ? `${branch ? (line.open ? "▾ " : "▸ ") : "  "}${value}` : "");
        cell.style.setProperty("--cv-level", there ? String(line.depth) : "0");
        cell.classList.add("cv-node");
        return;
      }
      fillCell(cell, value === null ? PLAIN : column, value ?? "");
      drawShare(cell, c === partitions.bar ? value : null, partitions.most);
    });
  };
  const none = partitions.total ? "No partition passes the filter." : "No partition exists yet.";
  panel.tables.partitions.draw(columns, partitions.count, fill, none);
  panel.need("partitions", partitions);
}

function drawChoice(panel, i, row, id) {
  const chosen = id !== undefined && id === panel.store.ui.partition;
  setClass(row, `cv-row cv-choice${i === panel.cursors.partitions ? " cv-cursor" : ""}${chosen ? " cv-picked" : ""}`);
  setAttribute(row, "id", `${panel.id}-p${i}`);
  setAttribute(row, "aria-selected", String(chosen));
}
