// The browser half of cepbook.widgets.charts.chart_view: it draws the points of a frame on a canvas, and asks the kernel
// for those of another range. Uses hearing.js, table.js and chart_axes.js, which Python puts before this text.

const FOOT = 22, HEAD_ROOM = 8, RIGHT = 14; // px around the plot
const NEAR = 24; // px from the pointer to a point that has a tooltip
const DRAG = 4; // px until a press is a drag
const IDLE = 2000; // ms without a row until a chart is no longer live
const LATEST_ACK = 200; // ms; a hidden page draws nothing and must not stall the frames
const HINT = "Drag: zoom in. Shift-drag: move. Ctrl-wheel: zoom. Double-click: all. Alt-click: show this moment in the bar of the replay. Keys: arrows, + and −, Shift-arrows, Enter, Escape.";

class ChartPage {
  constructor(model, el) {
    Object.assign(this, { model, el, frame: null, view: null, series: [], hidden: new Set(), moved: -Infinity });
    this.client = Math.random().toString(36).slice(2);
    this.cells = new Map(); // texts of rows that were asked for, by series and place
    this.build();
    this.onMessage = (message, buffers) => message?.kind === "frame" && this.receive(message, buffers);
    this.onInfo = () => this.schedule();
    model.on("msg:custom", this.onMessage);
    model.on("change:info", this.onInfo);
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.plot);
    this.themes = new MutationObserver(() => this.schedule());
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class", "data-theme"] });
    const hello = () => {
      this.tell({ kind: "hello", client: this.client });
      this.size = "";
      this.resized();
    };
    hello();
    hearing(model, hello);
    this.patience = setTimeout(() => this.unheard(), PATIENCE);
  }
  build() {
    const root = make("section", { class: "cepbook-chart", "aria-label": `chart ${this.info.title}` });
    root.setAttribute("data-lm-suppress-shortcuts", "true"); // arrow keys are the chart's, not the notebook's
    const button = (label, title, act) => {
      const node = make("button", { type: "button", title, "aria-label": title }, label);
      node.onclick = act;
      return node;
    };
    this.title = make("strong", { class: "cc-name" });
    this.state = make("span", { class: "cc-state", role: "status" });
    this.range = make("span", { class: "cc-range", title: "the times that are shown (UTC)" });
    this.all = button("All", "show all times", () => this.zoom(null));
    this.tools = make("span", { class: "cc-tools" },
      button("−", "zoom out", () => this.scale(2)), button("+", "zoom in", () => this.scale(0.5)),
      button("‹", "earlier", () => this.shift(-0.5)), button("›", "later", () => this.shift(0.5)), this.all);
    this.legend = make("div", { class: "cc-legend", role: "group", "aria-label": "series to show" });
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.over = make("canvas", { class: "cc-over", "aria-hidden": "true" });
    this.tip = make("div", { class: "cc-tip", hidden: "" });
    this.plot = make("div", { class: "cc-plot", tabindex: "0", role: "application", "aria-label": "plot; arrow keys read the points" }, this.canvas, this.over, this.tip);
    this.spoken = make("div", { class: "cc-spoken", "aria-live": "polite" });
    this.note = make("div", { class: "cc-note" });
    root.append(
      make("div", { class: "cc-head" }, this.title, this.state, make("span", { class: "cc-space" }), this.range, this.tools),
      this.legend, this.plot, this.note, this.spoken);
    this.note.title = HINT;
    // The colours of the page, for the canvas, which knows no variables of CSS.
    this.inks = Object.fromEntries(["dim", "line", "grid", "accent", "bad"].map((name) => [name, make("i", { class: `cc-${name}`, hidden: "" })]));
    root.append(...Object.values(this.inks));
    this.plot.onpointerdown = (event) => this.press(event);
    this.plot.onpointermove = (event) => this.move(event);
    this.plot.onpointerup = (event) => this.release(event);
    this.plot.onpointercancel = () => this.cancel();
    this.plot.onpointerleave = () => !this.drag && this.point(null);
    this.plot.ondblclick = () => this.zoom(null);
    this.plot.onkeydown = (event) => this.key(event);
    this.plot.onblur = () => this.point(null);
    this.plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.root = root;
    this.el.append(root);
  }
  get info() {
    return this.model.get("info");
  }
  tell(message) {
    try {
      this.model.send(message);
    } catch (error) {
      console.debug("cepbook: no kernel to talk to", error);
    }
  }
  // A saved notebook may hold the widget's state but has no kernel: then the last picture is all there is.
  unheard() {
    if (this.frame) return;
    const still = this.model.get("snapshot"); // made and escaped by Python
    if (still) this.legend.innerHTML = still;
    this.plot.hidden = this.tools.hidden = Boolean(still);
    setText(this.state, UNHEARD);
    setAttribute(this.state, "title", SILENT);
  }

  // ---- frames

  receive(frame, buffers) {
    clearTimeout(this.patience);
    if (!this.frame && this.plot.hidden) {
      this.legend.replaceChildren();
      this.plot.hidden = this.tools.hidden = false;
    }
    if (this.frame?.feed !== frame.feed) this.cells.clear();
    const asked = this.asked;
    if (this.frame && this.frame.rows !== frame.rows) {
      this.moved = performance.now();
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.schedule(), IDLE + 100);
    }
    this.frame = frame;
    this.series = (frame.series ?? []).map((entry) => ({
      ...entry,
      x: entry.x === undefined ? new Float32Array() : typed(buffers[entry.x], Float32Array),
      y: entry.y === undefined ? null : typed(buffers[entry.y], Float64Array),
      i: entry.i === undefined ? null : typed(buffers[entry.i], Uint32Array),
      band: entry.band?.map((b) => typed(buffers[b], Float64Array)),
    }));
    this.heat = frame.heat ? { ...frame.heat, counts: typed(buffers[frame.heat.b], Float32Array) } : null;
    if (!this.drag && (!asked || same(asked, frame))) {
      this.view = frame.range;
      this.asked = undefined;
    }
    if (frame.row) {
      this.cells.set(`${frame.row.series} ${frame.row.place}`, frame.row.cells);
      if (this.cells.size > 500) this.cells.delete(this.cells.keys().next().value);
    }
    this.ack = frame.quiet ? null : frame.n;
    this.schedule();
    if (this.ack !== null) setTimeout(() => this.acknowledge(), LATEST_ACK);
  }
  acknowledge() {
    if (this.ack === null || this.ack === undefined) return;
    this.tell({ kind: "ack", n: this.ack });
    this.ack = null;
  }
  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (this.root.isConnected) this.draw();
      this.acknowledge();
    });
  }
  resized() {
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (!width || !height) return;
    this.schedule();
    const size = `${width} ${height} ${devicePixelRatio}`;
    if (this.size === size) return;
    clearTimeout(this.sizing);
    const say = () => {
      this.size = size;
      const { left } = this.area();
      this.tell({ kind: "size", client: this.client, columns: Math.round((width - left - RIGHT) * devicePixelRatio), rows: Math.round((height - FOOT - HEAD_ROOM) * devicePixelRatio) });
    };
    if (this.size) this.sizing = setTimeout(say, 150);
    else say();
  }

  // ---- ranges

  zoom(range) {
    if (range && (!this.frame?.all || !(range[1] - range[0] >= 1))) return;
    this.view = range ?? this.frame?.all ?? null;
    this.asked = { range };
    this.tell({ kind: "zoom", client: this.client, range });
    this.point(null);
    this.schedule();
  }
  // Makes the range so many times as wide around the share `at` of it.
  scale(factor, at = 0.5) {
    if (!this.view || !this.frame?.all) return;
    const [from, to] = this.view;
    const [first, last] = this.frame.all;
    const middle = from + (to - from) * at;
    const range = [middle - (middle - from) * factor, middle + (to - middle) * factor].map(Math.round);
    this.zoom(range[0] <= first && range[1] >= last ? null : range);
  }
  shift(share) {
    if (!this.view) return;
    const by = Math.round((this.view[1] - this.view[0]) * share);
    this.zoom(this.view.map((time) => time + by));
  }
  // Show a moment in the bar of the replay, and so in all views.
  seek(time) {
    this.tell({ kind: "seek", client: this.client, time: Math.round(time) });
  }
  wheel(event) {
    if (!this.view) return;
    const { left, width } = this.area();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.scale(event.deltaY < 0 ? 0.8 : 1.25, Math.min(1, Math.max(0, (event.offsetX - left) / width)));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.shift(event.deltaX / width);
    }
  }
  press(event) {
    if (event.button || !this.view) return;
    this.plot.setPointerCapture(event.pointerId);
    this.drag = { from: event.offsetX, to: event.offsetX, moves: event.shiftKey, view: this.view };
    this.plot.focus({ preventScroll: true });
  }
  move(event) {
    if (!this.drag) return this.point(this.nearest(event.offsetX, event.offsetY));
    this.drag.to = event.offsetX;
    if (this.drag.moves) {
      const { width } = this.area();
      const [from, to] = this.drag.view;
      const by = Math.round(((this.drag.from - this.drag.to) / width) * (to - from));
      this.view = [from + by, to + by];
    }
    this.schedule();
  }
  release(event) {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    if (event.altKey && Math.abs(drag.to - drag.from) < DRAG) return this.seek(this.timeAt(event.offsetX));
    if (Math.abs(drag.to - drag.from) < DRAG) return this.point(this.nearest(event.offsetX, event.offsetY));
    if (drag.moves) return this.zoom(this.view);
    const range = [drag.from, drag.to].sort((a, b) => a - b).map((x) => Math.round(this.timeAt(x)));
    this.zoom([Math.max(range[0], this.view[0]), Math.min(range[1], this.view[1])]);
  }
  cancel() {
    if (this.drag) this.view = this.drag.view;
    this.drag = null;
    this.schedule();
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2), Escape: () => this.zoom(null),
      ArrowLeft: () => (event.shiftKey ? this.shift(-0.1) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.shift(0.1) : this.step(1)),
      ArrowUp: () => this.step(0, -1), ArrowDown: () => this.step(0, 1),
      Enter: () => this.pointed && this.seek(this.timeOf(this.series[this.pointed.at], this.pointed.p)),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // ---- points

  // Where the plot is, in pixels of CSS.
  area() {
    const left = this.left ?? 48;
    return { left, top: HEAD_ROOM, width: Math.max(1, this.plot.clientWidth - left - RIGHT), height: Math.max(1, this.plot.clientHeight - FOOT - HEAD_ROOM) };
  }
  timeAt(x) {
    const { left, width } = this.area();
    return this.view[0] + ((x - left) / width) * (this.view[1] - this.view[0]);
  }
  xOf(time) {
    const { left, width } = this.area();
    return left + (width * (time - this.view[0])) / Math.max(1e-9, this.view[1] - this.view[0]);
  }
  yOf(value) {
    const { top, height } = this.area();
    const [low, high] = this.values;
    return top + height * (1 - (value - low) / (high - low));
  }
  // The time of point `p` of a series: its share of the range of the frame.
  timeOf(series, p) {
    const [from, to] = this.frame.range;
    return from + series.x[p] * (to - from);
  }
  middle(series, p) {
    return series.y ? series.y[p] : series.band[1][p];
  }
  shown(at) {
    return !this.hidden.has(this.series[at].label);
  }
  nearest(x, y) {
    if (!this.frame?.range || !this.view) return null;
    let best = null;
    let least = NEAR * NEAR;
    const { left, width } = this.area();
    if (x < left - NEAR || x > left + width + NEAR) return null;
    this.series.forEach((series, at) => {
      if (!this.shown(at) || !series.x.length || (!series.y && !series.band)) return;
      const share = (this.timeAt(x) - this.frame.range[0]) / Math.max(1, this.frame.range[1] - this.frame.range[0]);
      const begin = bisect(series.x, share);
      for (const direction of [-1, 1]) {
        for (let p = direction < 0 ? begin - 1 : begin; p >= 0 && p < series.x.length; p += direction) {
          const dx = this.xOf(this.timeOf(series, p)) - x;
          if (Math.abs(dx) > NEAR) break;
          const value = this.middle(series, p);
          if (Number.isNaN(value)) continue;
          const dy = this.yOf(value) - y;
          const far = dx * dx + dy * dy;
          if (far < least) [least, best] = [far, { at, p }];
        }
      }
    });
    return best;
  }
  // By keyboard: the next point of a series, or the same instant of the next series.
  step(by, series = 0) {
    const usable = this.series.map((_, at) => at).filter((at) => this.shown(at) && this.series[at].x.length && (this.series[at].y || this.series[at].band));
    if (!usable.length) return;
    const now = this.pointed;
    const at = now && usable.includes(now.at) ? usable[(usable.indexOf(now.at) + series + usable.length) % usable.length] : usable[0];
    const { x } = this.series[at];
    let p = now ? (at === now.at ? now.p + by : bisect(x, this.series[now.at].x[now.p])) : by < 0 ? x.length - 1 : 0;
    p = Math.min(x.length - 1, Math.max(0, p));
    const direction = by < 0 ? -1 : 1;
    while (Number.isNaN(this.middle(this.series[at], p)) && p + direction >= 0 && p + direction < x.length) p += direction;
    this.point({ at, p }, true);
  }
  point(pointed, spoken = false) {
    this.pointed = pointed;
    this.speaks = spoken;
    clearTimeout(this.asking);
    if (pointed) {
      const { i } = this.series[pointed.at];
      if (i && !this.cells.has(`${pointed.at} ${i[pointed.p]}`)) {
        const ask = () => this.tell({ kind: "row", client: this.client, feed: this.frame.feed, series: pointed.at, place: i[pointed.p] });
        this.asking = setTimeout(ask, 60);
      }
    }
    this.schedule();
  }

  // ---- drawing

  draw() {
    const { frame, info } = this;
    setText(this.title, plain(info.title ?? ""));
    if (!frame || !this.plot.clientWidth) return;
    const past = frame.state === "past" && frame.instant !== null;
    const state = frame.state === "live" && performance.now() - this.moved > IDLE ? "idle" : frame.state;
    setText(this.state, past ? `past · ${timeText(frame.instant, frame.instant % 1000 !== 0)}` : state);
    setAttribute(this.state, "data-state", state);
    setText(this.note, frame.note);
    setText(this.range, this.view ? rangeText(this.view) : "");
    this.all.disabled = !frame.zoomed;
    this.drawLegend();
    const ink = this.prepare(this.canvas);
    const colors = this.colors();
    ink.font = `11px ${colors.font}`;
    if (!this.view) {
      ink.fillStyle = colors.dim;
      ink.fillText("No rows yet.", 12, 24);
      this.drawOver(colors);
      return;
    }
    const wide = this.view[1] - this.view[0];
    if (!(wide > 0)) this.view = [this.view[0] - 500, this.view[0] + 500];
    const seen = this.series.filter((series, at) => series.values && (this.heat || this.shown(at))).map((series) => series.values);
    const values = seen.length ? [Math.min(...seen.map((one) => one[0])), Math.max(...seen.map((one) => one[1]))] : null;
    this.values = valueRange(info, values);
    const extent = values ? `values from ${values[0]} to ${values[1]}, ` : "";
    setAttribute(this.plot, "aria-label", `plot: ${extent}${rangeText(this.view)}; arrow keys read the points`);
    this.drawAxes(ink, colors);
    const { left, top, width, height } = this.area();
    const edge = past ? Math.min(left + width, Math.max(left, this.xOf(frame.instant))) : left + width;
    for (const [from, to, opacity] of [[left, edge, 1], [edge, left + width, 0.22]]) {
      if (to <= from) continue;
      ink.save();
      ink.beginPath();
      ink.rect(from, top - 1, to - from + (opacity === 1 ? 1 : 0), height + 2);
      ink.clip();
      ink.globalAlpha = opacity;
      if (this.heat) this.drawHeat(ink, colors, opacity);
      else this.series.forEach((series, at) => this.shown(at) && this.drawSeries(ink, series, at, opacity));
      ink.restore();
    }
    this.drawThresholds(ink, colors);
    if (past && frame.instant >= this.view[0] && frame.instant <= this.view[1]) {
      ink.strokeStyle = "#d99a1b";
      ink.lineWidth = 1.5;
      stroke(ink, [[this.xOf(frame.instant), top], [this.xOf(frame.instant), top + height]]);
    }
    this.drawOver(colors);
  }
  // Sizes a canvas to its element, and gives its context in pixels of CSS.
  prepare(canvas) {
    const { clientWidth: width, clientHeight: height } = this.plot;
    const [w, h] = [width, height].map((size) => Math.round(size * devicePixelRatio));
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    const ink = canvas.getContext("2d");
    ink.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    ink.clearRect(0, 0, width, height);
    return ink;
  }
  colors() {
    const of = (name) => getComputedStyle(this.inks[name]).color;
    return { dim: of("dim"), line: of("line"), grid: of("grid"), accent: of("accent"), bad: of("bad"), font: getComputedStyle(this.root).fontFamily };
  }
  drawAxes(ink, colors) {
    const { height } = this.area();
    const values = valueTicks(...this.values, Math.max(2, Math.floor(height / 36)));
    const left = Math.ceil(Math.max(28, ...values.map((tick) => ink.measureText(tick.text).width + 12)));
    if (left !== this.left) this.left = left;
    const { top, width } = this.area();
    ink.lineWidth = 1;
    ink.textBaseline = "middle";
    ink.textAlign = "right";
    for (const { at, text } of values) {
      const y = Math.round(this.yOf(at)) + 0.5;
      ink.strokeStyle = colors.grid;
      stroke(ink, [[left, y], [left + width, y]]);
      ink.fillStyle = colors.dim;
      ink.fillText(text, left - 6, y);
    }
    ink.textBaseline = "alphabetic";
    ink.textAlign = "center";
    let end = -FOOT;
    for (const { at, text } of timeTicks(this.view, Math.max(2, Math.floor(width / 90)))) {
      const x = Math.round(this.xOf(at)) + 0.5;
      if (x < left - 1 || x > left + width + 1) continue;
      ink.strokeStyle = colors.grid;
      stroke(ink, [[x, top], [x, top + height + 4]]);
      const half = ink.measureText(text).width / 2;
      const middle = Math.min(Math.max(x, half + 2), left + width + RIGHT - half);
      if (middle - half < end + 6) continue; // it would lie on the one before
      end = middle + half;
      ink.fillStyle = colors.dim;
      ink.fillText(text, middle, top + height + 16);
    }
    ink.strokeStyle = colors.line;
    stroke(ink, [[left + 0.5, top], [left + 0.5, top + height + 0.5], [left + width, top + height + 0.5]]);
  }
  drawSeries(ink, series, at, opacity) {
    const { kind } = this.info;
    const { x } = series;
    const [from, to] = this.frame.range;
    const { left, width } = this.area();
    const wide = Math.max(1e-9, this.view[1] - this.view[0]);
    const px = (p) => left + (width * (from + x[p] * (to - from) - this.view[0])) / wide;
    ink.strokeStyle = ink.fillStyle = hue(at);
    ink.lineWidth = 1.5;
    ink.lineJoin = "round";
    const base = this.yOf(Math.min(Math.max(0, this.values[0]), this.values[1]));
    if (kind === "band") {
      const [low, mean, high] = series.band;
      for (const [begin, end] of runs(mean)) {
        ink.beginPath();
        for (let p = begin; p < end; p++) ink.lineTo(px(p), this.yOf(high[p]));
        for (let p = end - 1; p >= begin; p--) ink.lineTo(px(p), this.yOf(low[p]));
        ink.closePath();
        ink.globalAlpha = 0.25 * opacity;
        ink.fill();
        ink.globalAlpha = opacity;
        stroke(ink, Array.from({ length: end - begin }, (_, n) => [px(begin + n), this.yOf(mean[begin + n])]));
      }
    } else if (kind === "point") {
      ink.globalAlpha = 0.75 * opacity;
      const size = x.length > 2000 ? 2 : x.length > 300 ? 3 : 5;
      for (let p = 0; p < x.length; p++) if (!Number.isNaN(series.y[p])) ink.fillRect(px(p) - size / 2, this.yOf(series.y[p]) - size / 2, size, size);
    } else if (kind === "bar") {
      ink.globalAlpha = 0.8 * opacity;
      const places = new Set(Array.from(x, (_, p) => Math.round(px(p)))).size;
      const all = Math.min(28, Math.max(1, (0.75 * width) / Math.max(1, places)));
      const size = Math.max(1, all / this.series.length);
      for (let p = 0; p < x.length; p++) {
        if (Number.isNaN(series.y[p])) continue;
        const y = this.yOf(series.y[p]);
        ink.fillRect(px(p) - all / 2 + at * (all / this.series.length), Math.min(y, base), size, Math.max(1, Math.abs(base - y)));
      }
    } else {
      for (const [begin, end] of runs(series.y)) {
        ink.beginPath();
        let before = this.yOf(series.y[begin]);
        ink.moveTo(px(begin), before);
        for (let p = begin + 1; p < end; p++) {
          const [right, y] = [px(p), this.yOf(series.y[p])];
          ink.lineTo(right, before); // a value holds until the next row
          ink.lineTo(right, y);
          before = y;
        }
        const last = end < x.length ? px(end) : px(end - 1); // the last one before a null until the null
        ink.lineTo(last, before);
        ink.globalAlpha = opacity;
        ink.stroke();
        if (kind === "area") {
          ink.lineTo(last, base);
          ink.lineTo(px(begin), base);
          ink.closePath();
          ink.globalAlpha = 0.25 * opacity;
          ink.fill();
        } else if (end - begin === 1 && last - px(begin) < 2) ink.fillRect(px(begin) - 2, before - 2, 4, 4); // a line of one point
      }
    }
  }
  drawHeat(ink, colors, opacity) {
    const { columns, rows, values: [low, high], most, counts } = this.heat;
    const [from, to] = this.frame.range;
    const [wide, tall] = [(to - from) / columns, (high - low) / rows];
    ink.fillStyle = colors.accent;
    for (let c = 0; c < columns; c++) {
      const x = this.xOf(from + c * wide);
      const width = this.xOf(from + (c + 1) * wide) - x;
      for (let r = 0; r < rows; r++) {
        const count = counts[c * rows + r];
        if (!count) continue;
        ink.globalAlpha = opacity * (0.12 + 0.88 * Math.sqrt(count / most));
        const y = this.yOf(low + (r + 1) * tall);
        ink.fillRect(x, y, width + 0.3, this.yOf(low + r * tall) - y + 0.3);
      }
    }
  }
  drawThresholds(ink, colors) {
    const { left, width } = this.area();
    ink.save();
    ink.strokeStyle = ink.fillStyle = colors.bad;
    ink.lineWidth = 1;
    ink.setLineDash([5, 3]);
    ink.textAlign = "right";
    for (const value of this.info.thresholds) {
      if (value < this.values[0] || value > this.values[1]) continue;
      const y = Math.round(this.yOf(value)) + 0.5;
      stroke(ink, [[left, y], [left + width, y]]);
      ink.fillText(String(value), left + width - 2, y > 24 ? y - 4 : y + 12);
    }
    ink.restore();
  }
  drawLegend() {
    const labels = this.heat ? [] : this.series.map((series) => series.label);
    const names = labels.join("\u0001");
    if (this.named !== names) {
      this.named = names;
      const shown = labels.length > 1 ? labels : [];
      this.legend.replaceChildren(...shown.map((label, at) => {
        const swatch = make("span", { class: "cc-swatch", "aria-hidden": "true", style: `background: ${hue(at)}` });
        const node = make("button", { type: "button", title: `show or hide ${plain(label)}` }, swatch, make("span", {}, plain(label)));
        node.onclick = () => {
          if (!this.hidden.delete(label)) this.hidden.add(label);
          this.schedule();
        };
        return node;
      }));
    }
    if (this.heat) {
      const text = `1 to ${plural(this.heat.most, "row")} per cell`;
      if (this.legend.textContent !== text) this.legend.replaceChildren(make("span", { class: "cc-scale" }), text);
    }
    [...this.legend.querySelectorAll("button")].forEach((node, at) => setAttribute(node, "aria-pressed", String(this.shown(at))));
  }
  // What changes with the pointer: the selected range, the point and its row.
  drawOver(colors) {
    const ink = this.prepare(this.over);
    const { left, top, width, height } = this.area();
    const { drag } = this;
    if (drag && !drag.moves && Math.abs(drag.to - drag.from) >= DRAG) {
      const [from, to] = [drag.from, drag.to].sort((a, b) => a - b).map((x) => Math.min(left + width, Math.max(left, x)));
      ink.globalAlpha = 0.15;
      ink.fillStyle = colors.accent;
      ink.fillRect(from, top, to - from, height);
    }
    const point = !drag && this.view && this.pointed;
    const series = point && this.series[point.at];
    this.tip.hidden = !series || point.p >= series.x.length;
    if (this.tip.hidden) return;
    const time = this.timeOf(series, point.p);
    const [x, y] = [this.xOf(time), this.yOf(this.middle(series, point.p))];
    ink.strokeStyle = colors.line;
    stroke(ink, [[x, top], [x, top + height]]);
    ink.fillStyle = hue(point.at);
    ink.beginPath();
    ink.arc(x, y, 3.5, 0, 7);
    ink.fill();
    const lines = this.lines(series, point, time);
    const text = JSON.stringify(lines);
    if (this.tipped !== text) {
      this.tipped = text;
      this.tip.replaceChildren(...lines.flatMap(([name, value]) => [make("span", {}, plain(name)), make("b", {}, plain(value))]));
      if (this.speaks) setText(this.spoken, lines.map((line) => line.join(" ")).join(", "));
    }
    const beside = x + 14 + this.tip.offsetWidth < this.plot.clientWidth ? x + 14 : Math.max(0, x - 14 - this.tip.offsetWidth);
    this.tip.style.transform = `translate(${beside}px, ${Math.max(0, Math.min(this.plot.clientHeight - this.tip.offsetHeight, y - 20))}px)`;
  }
  lines(series, point, time) {
    const cells = series.i && this.cells.get(`${point.at} ${series.i[point.p]}`);
    if (cells?.length) return cells;
    const at = timeText(Math.round(time), true);
    if (!series.band) return [["time", at], [series.label, String(series.y[point.p])]];
    const [low, mean, high] = series.band.map((figures) => figures[point.p]);
    return [["from", at], ["series", series.label], ["greatest", String(high)], ["mean", mean.toPrecision(6)], ["least", String(low)]];
  }
  dispose() {
    clearTimeout(this.patience);
    clearTimeout(this.sizing);
    clearTimeout(this.asking);
    clearTimeout(this.resting);
    this.observer.disconnect();
    this.themes.disconnect();
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:info", this.onInfo);
    this.tell({ kind: "bye", client: this.client });
  }
}

function stroke(ink, points) {
  ink.beginPath();
  for (const [x, y] of points) ink.lineTo(x, y);
  ink.stroke();
}

// The first place of a sorted array whose value is not below `value`.
function bisect(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The runs of values that are not null, as places [begin, end).
function* runs(values) {
  for (let p = 0; p < values.length; ) {
    while (p < values.length && Number.isNaN(values[p])) p++;
    const begin = p;
    while (p < values.length && !Number.isNaN(values[p])) p++;
    if (p > begin) yield [begin, p];
  }
}

// True if a frame shows the range that was asked for.
function same({ range }, frame) {
  if (!range) return !frame.zoomed;
  return frame.zoomed && Math.abs(range[0] - frame.range[0]) <= 2 && Math.abs(range[1] - frame.range[1]) <= 2;
}

export default () => {
  const places = new Places();
  return { render: ({ model, el }) => places.add(el, new ChartPage(model, el)) };
};
