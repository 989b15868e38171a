// The editors: CodeMirror with the language of JupyterLab's cells (cepbook/magics/labextension/src).
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { HighlightStyle, bracketMatching, syntaxHighlighting } from '@codemirror/language';
import { lintKeymap, setDiagnostics } from '@codemirror/lint';
import { EditorState, Prec } from '@codemirror/state';
import { EditorView, drawSelection, highlightActiveLine, hoverTooltip, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { eplSupport } from '../../cepbook/magics/labextension/src/language.js';
import words from '../../cepbook/magics/labextension/src/words.json';

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'light-dark(#8250df, #d2a8ff)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'light-dark(#0a6640, #7ee2a8)' },
  { tag: [tags.number, tags.atom, tags.bool, tags.null], color: 'light-dark(#0550ae, #79c0ff)' },
  { tag: tags.comment, color: 'light-dark(#59636e, #9aa6b2)', fontStyle: 'italic' },
  { tag: [tags.meta, tags.standard(tags.name), tags.standard(tags.variableName)], color: 'light-dark(#953800, #ffa657)' },
  { tag: tags.function(tags.variableName), color: 'light-dark(#0b63b5, #6cb6ff)' }
]);

const look = EditorView.theme({
  '&': { height: '100%', color: 'var(--ink)', backgroundColor: 'transparent', fontSize: '13px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '4px 0 12px' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--dim)', border: 'none', paddingLeft: '8px' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--soft) 70%, transparent)' },
  '&.cm-focused': { outline: 'none' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'light-dark(#cfe4fa, #24415f) !important'
  },
  '.cm-tooltip': { backgroundColor: 'var(--page)', color: 'var(--ink)', border: '1px solid var(--line)', maxWidth: '70ch' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-diagnostic': { borderLeftColor: 'var(--remove-ink)' },
  '.cm-help': { margin: 0, padding: '6px 10px', whiteSpace: 'pre-wrap', fontFamily: 'var(--mono)' }
});

/** Python counts characters, JavaScript counts units of UTF-16. */
export function units(text, characters) {
  let at = 0;
  for (let n = 0; n < characters && at < text.length; n++) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}

const characters = (text, at) => Array.from(text.slice(0, at)).length;

function remedy(message, hint) {
  const node = document.createElement('div');
  node.textContent = message;
  if (hint) node.append(Object.assign(document.createElement('div'), { textContent: `hint: ${hint}` }));
  return node;
}

/** An editor. `ask(kind, text, at)` answers `complete` and `hover`. `onChange()` is called when the text changes,
 * `onRun()` at Ctrl Enter, `onFormat()` at Alt Shift F. */
export class Editor {
  constructor(parent, label, { onChange, onRun, onFormat, ask }) {
    const help = async (view, at) => {
      const range = view.state.wordAt(at);
      const text = view.state.doc.toString();
      const found = range && (await ask('hover', text, characters(text, at)));
      if (!found?.text) return null;
      const dom = Object.assign(document.createElement('pre'), { className: 'cm-help', textContent: found.text });
      return { pos: range.from, end: range.to, create: () => ({ dom }) };
    };
    const complete = async context => {
      const word = context.matchBefore(/[\w$]*/);
      if (!context.explicit && !word?.text && !context.matchBefore(/[#.]$/)) return null;
      const text = context.state.doc.toString();
      const found = await ask('complete', text, characters(text, context.pos));
      if (!found?.items?.length) return null;
      const options = found.items.map(([label, type]) => ({ label, type }));
      return { from: context.pos - found.typed, options, validFor: /^[\w$]*$/ };
    };
    const skeletons = context => {
      const line = context.state.doc.lineAt(context.pos);
      const typed = line.text.slice(0, context.pos - line.from);
      if (!/^[a-z ]+$/i.test(typed) && !(context.explicit && !typed)) return null;
      const options = words.skeletons
        .filter(({ label }) => label.startsWith(typed.toLowerCase()))
        .map(({ label, text }) => ({ label, apply: text, type: 'text', boost: -5 }));
      return options.length ? { from: line.from, options, filter: false } : null;
    };
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          EditorView.lineWrapping,
          eplSupport(),
          syntaxHighlighting(colours),
          look,
          autocompletion({ override: [complete, skeletons] }),
          hoverTooltip(help, { hoverTime: 400 }),
          Prec.highest(keymap.of([{ key: 'Mod-Enter', run: () => (onRun(), true) },
            { key: 'Alt-Shift-f', run: () => (onFormat(), true) }])),
          keymap.of([
            ...closeBracketsKeymap,
            ...completionKeymap,
            ...lintKeymap,
            ...historyKeymap,
            { key: 'Escape', run: view => (view.contentDOM.blur(), true) },
            indentWithTab,
            ...defaultKeymap
          ]),
          EditorView.contentAttributes.of({ 'aria-label': label }),
          EditorView.updateListener.of(update => {
            if (update.docChanged) onChange();
          })
        ]
      })
    });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  set text(text) {
    const { length } = this.view.state.doc;
    if (this.text !== text) this.view.dispatch({ changes: { from: 0, to: length, insert: text } });
  }

  /** Underline problems, whose places are those of Python. */
  mark(problems) {
    const { text } = this;
    const diagnostics = problems.map(({ from, to, message, hint }) => {
      const end = Math.max(units(text, to), units(text, from) + 1);
      return {
        from: Math.min(units(text, from), text.length),
        to: Math.min(end, text.length),
        severity: 'error',
        message,
        renderMessage: () => remedy(message, hint)
      };
    });
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }
}
