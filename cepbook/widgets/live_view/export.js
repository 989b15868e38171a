// The rows of a view as a file of the reader's, or on the clipboard. The kernel makes the file: the page has the last rows only.
// Python puts this text before store.js.

const FORMS = {
  csv: { label: "CSV", type: "text/csv", title: "save these rows as a CSV file" },
  parquet: { label: "Parquet", type: "application/vnd.apache.parquet", title: "save these rows as a Parquet file" },
  text: { label: "Copy", type: "text/plain", title: "copy these rows, with tabs between columns" },
};
const WHOLE = ["stream", "window"]; // the panes whose rows can be taken

class Exporter {
  constructor(store) {
    this.store = store;
    this.note = make("span", { class: "cv-taken", role: "status" });
    this.buttons = Object.entries(FORMS).map(([form, { label, title }]) => {
      const button = make("button", { type: "button", class: "cv-take", title }, label);
      button.onclick = () => this.ask(form);
      return button;
    });
    this.node = make("div", { class: "cv-takes", role: "group", "aria-label": "download these rows" }, this.note, ...this.buttons);
  }
  ask(form) {
    const { ui, client } = this.store;
    this.wanted = `${form}-${Math.random().toString(36).slice(2)}`;
    setText(this.note, "reading …");
    this.store.send({ kind: "take", client, id: this.wanted, form, stream: ui.pane === "stream", partition: ui.partition });
  }
  // Frames may be repeated: a file is taken once.
  async take({ id, form, file, rows, note, problem, buffer }, buffers) {
    if (id !== this.wanted) return;
    this.wanted = null;
    if (problem) return this.say(problem);
    const { type, label } = FORMS[form];
    const blob = new Blob([buffers[buffer]], { type });
    if (form === "text") {
      try {
        await navigator.clipboard.writeText(await blob.text());
      } catch (error) {
        return this.say(`not copied: ${error.message}`);
      }
      return this.say(`copied ${plural(rows, "row")}${note}`);
    }
    const link = make("a", { href: URL.createObjectURL(blob), download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    this.say(`${plural(rows, "row")} as ${label}${note}`);
  }
  say(words) {
    setText(this.note, words);
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => setText(this.note, ""), 8_000);
  }
  draw() {
    this.node.hidden = !WHOLE.includes(this.store.ui.pane) || this.store.state === "dropped";
  }
}
