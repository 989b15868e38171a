// What is wrong with a cell, and what a word in it is, while it is typed. The kernel knows, and is asked over a comm when
// it is idle. Only texts that the user has changed are looked at: in a notebook that was just opened nothing is deployed.
import { linter } from '@codemirror/lint';
import { StateEffect } from '@codemirror/state';
import { ViewPlugin, hoverTooltip } from '@codemirror/view';
import { ask, isEpl } from './ask.js';

const DELAY = 400; // ms after the last key
const again = StateEffect.define();
const touched = new Set();
const lookAgain = () => {
  for (const view of touched) view.dispatch({ effects: again.of(null) });
};

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
    const found = await ask(notebooks, view, { kind: 'lint' }, lookAgain);
    if (!found || view.state.doc !== doc) return [];
    return found.map(({ from, to, message, hint, severity }) => ({
      from: Math.min(from, doc.length),
      to: Math.min(to, doc.length),
      severity,
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
