// What is wrong with a cell, and what a word in it is, while it is typed. The kernel knows, and is asked over a comm when
// it is idle. Only texts that the user has changed are looked at: in a notebook that was just opened nothing is deployed.
import { linter } from '@codemirror/lint';
import { language } from '@codemirror/language';
import { StateEffect } from '@codemirror/state';
import { ViewPlugin, hoverTooltip } from '@codemirror/view';

const TARGET = 'cepbook.lint';
const DELAY = 400; // ms after the last key
const PATIENCE = 3000; // ms for an answer, and between two tries of a kernel that has no cepbook
const again = StateEffect.define();
const touched = new Set();

/** The comm of one kernel: questions by number, and what their answers go to. */
class Channel {
  constructor(kernel) {
    this.kernel = kernel;
    this.waiting = new Map();
    this.number = 0;
    this.closed = 0;
    this.busy = false;
    kernel.statusChanged.connect((_, status) => {
      if (status === 'busy') this.busy = true;
      else if (status === 'idle' && this.busy) {
        this.busy = false;
        if (!this.asked) for (const view of touched) view.dispatch({ effects: again.of(null) });
        this.asked = false;
      }
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

  ask(question) {
    if (this.kernel.isDisposed || this.kernel.status !== 'idle' || !this.open()) return Promise.resolve(null);
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

function channelOf(kernel) {
  if (!channels.has(kernel)) channels.set(kernel, new Channel(kernel));
  return channels.get(kernel);
}

/** Ask the kernel behind an editor: that of its notebook; for a file that of the notebook last used. */
function ask(notebooks, view, question) {
  const cellOf = panel => panel.content.widgets.find(cell => cell.editor?.editor === view);
  const panel = notebooks.find(each => Boolean(cellOf(each)));
  const kernel = (panel ?? notebooks.currentWidget)?.sessionContext.session?.kernel;
  if (!kernel) return Promise.resolve(null);
  const cell = panel ? cellOf(panel).model.id : null;
  return channelOf(kernel).ask({ text: view.state.doc.toString(), cell, alone: !panel, ...question });
}

const isEpl = state => state.facet(language)?.name === 'epl';

function words(message, hint) {
  const node = document.createElement('div');
  node.textContent = message;
  if (hint) {
    const remedy = node.appendChild(document.createElement('div'));
    remedy.textContent = `hint: ${hint}`;
    remedy.style.opacity = '0.75';
  }
  return node;
}

/** Errors of EPL texts as they are typed, and help where the pointer rests. */
export function advice(notebooks) {
  const problems = async view => {
    if (!isEpl(view.state) || !touched.has(view)) return [];
    const { doc } = view.state;
    const found = await ask(notebooks, view, { kind: 'lint' });
    if (!found || view.state.doc !== doc) return [];
    return found.map(({ from, to, message, hint }) => ({
      from: Math.min(from, doc.length),
      to: Math.min(to, doc.length),
      severity: 'error',
      message,
      renderMessage: () => words(message, hint)
    }));
  };
  const help = async (view, at) => {
    if (!isEpl(view.state)) return null;
    const range = view.state.wordAt(at);
    const found = range && (await ask(notebooks, view, { kind: 'hover', at }));
    if (!found) return null;
    const create = () => {
      const dom = document.createElement('pre');
      dom.className = 'cepbook-help';
      dom.textContent = found;
      Object.assign(dom.style, { margin: 0, padding: '4px 8px', maxWidth: '80ch', whiteSpace: 'pre-wrap' });
      return { dom };
    };
    return { pos: range.from, end: range.to, create };
  };
  const watch = ViewPlugin.define(view => ({
    update(update) {
      if (update.transactions.some(each => each.docChanged && (each.isUserEvent('input') || each.isUserEvent('delete')))) {
        touched.add(view);
      }
    },
    destroy() {
      touched.delete(view);
    }
  }));
  const asked = update => update.transactions.some(each => each.effects.some(effect => effect.is(again)));
  return [watch, linter(problems, { delay: DELAY, needsRefresh: asked }), hoverTooltip(help, { hoverTime: DELAY })];
}
