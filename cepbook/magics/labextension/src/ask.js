// Questions to the kernel over a comm, asked when it is idle (cepbook/magics/editor/lint.py answers them).
import { language } from '@codemirror/language';

const TARGET = 'cepbook.lint';
const PATIENCE = 3000; // ms for an answer, and between two tries of a kernel that has no cepbook

export const isEpl = state => state.facet(language)?.name === 'epl';

/** The comm of one kernel: questions by number, and what their answers go to. */
class Channel {
  constructor(kernel) {
    this.kernel = kernel;
    this.waiting = new Map();
    this.number = 0;
    this.closed = 0;
    this.ran = false;
    this.listeners = new Set(); // called when the kernel has run a cell; questions, of others too, are no reason
    kernel.iopubMessage.connect((_, { header }) => {
      if (header.msg_type === 'execute_input') this.ran = true;
    });
    kernel.statusChanged.connect((_, status) => {
      if (status !== 'idle') return;
      this.asked = false;
      if (this.ran) for (const listener of this.listeners) listener();
      this.ran = false;
    });
  }

  open() {
    if (this.comm && !this.comm.isDisposed) return true;
    if (Date.now() - this.closed < PATIENCE) return false;
    this.comm = this.kernel.createComm(TARGET);
    this.comm.onMsg = message => {
      const { id, found } = message.content.data;
      this.waiting.get(id)?.(found);
      this.waiting.delete(id);
    };
    this.comm.onClose = () => {
      this.comm = null;
      this.closed = Date.now();
      for (const answer of this.waiting.values()) answer(null);
      this.waiting.clear();
    };
    this.comm.open();
    return true;
  }

  async ask(question) {
    // busy with another question of ours: that takes a moment
    for (let tries = 0; tries < 20 && this.asked && this.kernel.status === 'busy'; tries++) {
      await new Promise(resolve => setTimeout(resolve, 50));
    }
    if (this.kernel.isDisposed || this.kernel.status !== 'idle' || !this.open()) return null;
    const id = ++this.number;
    this.asked = true; // answering makes the kernel busy, and that is no reason to ask again
    return new Promise(resolve => {
      this.waiting.set(id, resolve);
      setTimeout(() => this.waiting.delete(id) && resolve(null), PATIENCE);
      this.comm.send({ id, ...question });
    });
  }
}

const channels = new WeakMap();

/** Ask the kernel behind an editor: that of its notebook; for a file that of the notebook last used. Null: no answer.
 * `again` is called whenever that kernel has run something. */
export function ask(notebooks, view, question, again) {
  const cellOf = panel => panel.content.widgets.find(cell => cell.editor?.editor === view);
  const panel = notebooks.find(each => Boolean(cellOf(each)));
  const kernel = (panel ?? notebooks.currentWidget)?.sessionContext.session?.kernel;
  if (!kernel) return Promise.resolve(null);
  if (!channels.has(kernel)) channels.set(kernel, new Channel(kernel));
  const channel = channels.get(kernel);
  if (again) channel.listeners.add(again);
  const cell = panel ? cellOf(panel).model.id : null;
  return channel.ask({ text: view.state.doc.toString(), cell, alone: !panel, ...question });
}
