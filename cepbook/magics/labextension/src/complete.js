// What JupyterLab's completer offers in EPL besides what the kernel completes in cells: skeletons where a statement
// begins, and in .epl files the names that the kernel of the notebook last used knows.
import { Prec } from '@codemirror/state';
import { keymap } from '@codemirror/view';
import { ask, isEpl } from './ask.js';
import words from './words.json';

const SKIP = /^(?:\s+|\/\/[^\n]*\n|\/\*[^]*?\*\/|@\w+(?:\([^)]*\))?)+/;

/** What is typed of the statement that `text` ends in; null where it is more than a few words. */
function begun(text) {
  const head = /^\s*%%[^\n]*(?:\n|$)/.exec(text);
  let rest = head ? text.slice(head[0].length) : text;
  const parts = rest.split(/('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\/\/[^\n]*|\/\*[^]*?\*\/)/);
  const last = parts.findLastIndex((part, i) => i % 2 === 0 && part.includes(';'));
  if (last >= 0) rest = parts[last].slice(parts[last].lastIndexOf(';') + 1) + parts.slice(last + 1).join('');
  rest = rest.replace(SKIP, '');
  return /^([a-z][a-z ]{0,40})?$/i.test(rest) ? rest : null;
}

class Skeletons {
  constructor() {
    this.identifier = 'cepbook-epl:skeletons';
    this.rank = 540; // below the kernel's own
  }
  async isApplicable() {
    return true; // a cell becomes EPL while it is typed
  }
  async fetch({ text, offset }, { editor }) {
    const view = editor?.editor;
    const typed = view && isEpl(view.state) ? begun(text.slice(0, offset)) : null;
    const items = typed !== null
      ? words.skeletons
          .filter(({ label }) => label.startsWith(typed.toLowerCase()))
          .map(({ label, text: insertText }) => ({ label, insertText, type: 'skeleton', documentation: insertText }))
      : [];
    return { start: offset - (typed ?? '').length, end: offset, items };
  }
}

class Names {
  constructor(notebooks) {
    this.identifier = 'cepbook-epl:names';
    this.rank = 545;
    this.notebooks = notebooks;
  }
  async isApplicable() {
    return true;
  }
  async fetch({ offset }, { editor, widget }) {
    const view = editor?.editor;
    const none = { start: offset, end: offset, items: [] };
    if (!view || !isEpl(view.state) || this.notebooks.has(widget)) return none; // the kernel itself completes in cells
    const found = await ask(this.notebooks, view, { kind: 'complete', at: offset });
    if (!found) return none;
    return { start: offset - found.typed, end: offset, items: found.items.map(([label, type]) => ({ label, type })) };
  }
}

/** Tab on an empty line opens the completer, which JupyterLab closes there; inside a statement Tab indents. */
export const onEmptyLine = (app, notebooks) =>
  Prec.highest(
    keymap.of([
      {
        key: 'Tab',
        run: view => {
          const { head, empty } = view.state.selection.main;
          const line = view.state.doc.lineAt(head);
          const inCell = notebooks.activeCell?.editor?.editor === view;
          if (!empty || !inCell || !isEpl(view.state) || line.number === 1 || line.text.trim()) return false;
          if (begun(view.state.doc.sliceString(0, head)) !== '') return false;
          app.commands.execute('completer:invoke-notebook');
          return true;
        }
      }
    ])
  );

export const providers = notebooks => [new Skeletons(), new Names(notebooks)];
