// The rows of a view as a file of the reader's, or on the clipboard. The kernel makes the file: the page has some of the rows.
// Python puts this text before store.js.

const FORMS = {
  csv: { label: "CSV", type: "text/csv", title: "save these rows as a CSV file" },
  parquet: { label: "Parquet", type: "application/vnd.apache.parquet", title: "save these rows as a Parquet file" },
  text: { label: "Copy", type: "text/plain", title: "copy these rows, or the selected cells, with tabs between columns" },
};
const WHOLE = ["stream", "window"]; // the panes whose rows can be taken

class Exporter {
  constructor(panel) {
    this.panel = panel;
    this.store = panel.store;
    this.note = make("span", { class: "cv-taken", role: "status" });
    this.meter = make("progress", { class: "cv-progress", "aria-label": "rows written", hidden: "" });
    this.stop = make("button", { type: "button", class: "cv-take", title: "stop writing", hidden: "" }, "Cancel");
    this.stop.onclick = () => this.cancel();
    this.buttons = Object.entries(FORMS).map(([form, { label, title }]) => {
      const button = make("button", { type: "button", class: "cv-take", title }, label);
      button.onclick = () => this.ask(form);
      return button;
    });
    this.node = make("div", { class: "cv-takes", role: "group", "aria-label": "download these rows" }, this.note, this.meter, this.stop, ...this.buttons);
  }
  // The rows that are displayed: searched, sorted, with the displayed columns, or the cells that are selected.
  ask(form) {
    const { store, panel } = this;
    const { pane, partition } = store.ui;
    const selection = form === "text" ? panel.selected(pane) : null;
    if (selection?.text !== undefined) return void this.copy(Promise.resolve(selection.text), selection.rows);
    this.end();
    const id = `${form}-${Math.random().toString(36).slice(2)}`;
    this.wanted = { id, form, parts: [], rows: 0 };
    this.wanted.text = new Promise((resolve, reject) => Object.assign(this.wanted, { resolve, reject }));
    this.wanted.text.catch(() => {}); // told where it is awaited
    const columns = selection?.columns ?? panel.shownColumns(pane).map((c) => c.key);
    const span = selection ? { span: selection.span, headings: false } : {};
    store.send({ kind: "take", client: store.client, id, form, stream: pane === "stream", partition, columns, ...store.choice(pane), ...span });
    this.progress("reading …");
    if (form === "text") void this.copy(this.wanted.text);
  }
  cancel() {
    this.store.send({ kind: "cancel", id: this.wanted?.id });
    this.end();
    this.say("cancelled");
  }
  end() {
    this.wanted?.reject(new Error("cancelled"));
    this.wanted = null;
    this.meter.hidden = this.stop.hidden = true;
  }
  progress(words, done, of) {
    clearTimeout(this.quiet);
    setText(this.note, words);
    this.meter.hidden = this.stop.hidden = false;
    if (of) Object.assign(this.meter, { max: of, value: done });
    else this.meter.removeAttribute("value");
  }
  take(message, buffers) {
    const { wanted } = this;
    if (!wanted || message.id !== wanted.id) return;
    const { rows, of, part, parts, size, problem } = message;
    if (problem) {
      this.end();
      return this.say(problem, true);
    }
    if (part === undefined) return this.progress(`${numbers.format(rows)} of ${plural(of, "row")}`, rows, of);
    wanted.parts[part] = buffers[0];
    this.progress(`${(size / 1e6).toFixed(1)} MB`, part + 1, parts);
    if (part === parts - 1) this.finish(message);
  }
  finish({ form, file, rows, note, parts }) {
    const { wanted } = this;
    if (wanted.parts.filter(Boolean).length < parts) {
      this.end();
      return this.say("parts of the file are missing: try again", true);
    }
    const { type, label } = FORMS[form];
    const blob = new Blob(wanted.parts, { type });
    wanted.rows = `${plural(rows, "row")}${note}`;
    if (form === "text") return wanted.resolve(blob);
    const link = make("a", { href: URL.createObjectURL(blob), download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    this.end();
    this.say(`${wanted.rows} as ${label}`);
  }
  // The clipboard is opened while the click still counts: the text may come later.
  async copy(text, rows) {
    const { wanted } = this;
    try {
      const blob = text.then((made) => new Blob([made], { type: "text/plain" }));
      if (window.ClipboardItem) await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
      else await navigator.clipboard.writeText(await (await blob).text());
    } catch (error) {
      if (rows === undefined && this.wanted !== wanted) return; // cancelled, or another file is wanted
      if (rows === undefined) this.end();
      return this.say(`not copied: ${error.message}`, true);
    }
    const copied = rows ?? wanted.rows;
    if (rows === undefined) this.end();
    this.say(`copied ${copied}`);
  }
  say(words, stays = false) {
    setText(this.note, words);
    this.note.classList.toggle("cv-wrong", stays);
    clearTimeout(this.quiet);
    if (!stays) this.quiet = setTimeout(() => setText(this.note, ""), 8_000);
  }
  draw() {
    this.node.hidden = !WHOLE.includes(this.store.ui.pane) || this.store.state === "dropped";
  }
}
