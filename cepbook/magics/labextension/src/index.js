// EPL in JupyterLab: a cell whose first line is %%epl, %%query, %%events or another dialect's is coloured as EPL while it is typed.
// No cell API and no mime type is involved: the language of an editor is a CodeMirror facet, and ours takes precedence.
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { ViewPlugin } from '@codemirror/view';
import { ICommandPalette } from '@jupyterlab/apputils';
import { EditorExtensionRegistry, IEditorExtensionRegistry, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { onEmptyLine, providers } from './complete.js';
import { addFormat } from './format.js';
import { eplSupport } from './language.js';
import { advice } from './lint.js';
import { follow, renderer } from './saved.js';
import { sidebar } from './sidebar.js';
import words from './words.json';

const MAGIC = new RegExp(`^\\s*%%(${words.magics.join('|')})\\b`);
const LANGUAGE = 'magics_language';

function isEpl(doc) {
  for (let n = 1; n <= doc.lines; n++) {
    const text = doc.line(n).text;
    if (text.trim()) return MAGIC.test(text);
  }
  return false;
}

/** Note in the metadata of a cell that was run whether it is EPL: from there nbconvert knows how to colour it. */
function note(cell) {
  if (cell.model.type !== 'code') return;
  const language = cell.model.getMetadata(LANGUAGE);
  if (MAGIC.test(cell.model.sharedModel.getSource())) {
    if (language !== 'epl') cell.model.setMetadata(LANGUAGE, 'epl');
  } else if (language === 'epl') cell.model.deleteMetadata(LANGUAGE);
}

/** The extension of one editor: holds the language when the document is EPL, and nothing when it is not. */
function eplCells() {
  const slot = new Compartment();
  const on = Prec.highest(eplSupport());

  // In the very transaction that makes or unmakes the first line, so that no frame shows the wrong language.
  const follow = EditorState.transactionExtender.of(transaction => {
    if (!transaction.docChanged) return null;
    const wanted = isEpl(transaction.newDoc);
    return wanted === isEpl(transaction.startState.doc) ? null : { effects: slot.reconfigure(wanted ? on : []) };
  });

  // The document that an editor starts with: an extension cannot see it before there is a view.
  const start = ViewPlugin.define(view => {
    let alive = true;
    Promise.resolve().then(() => {
      if (alive && isEpl(view.state.doc) && slot.get(view.state) !== on) {
        view.dispatch({ effects: slot.reconfigure(on) });
      }
    });
    return {
      destroy() {
        alive = false;
      }
    };
  });
  return [slot.of([]), follow, start];
}

const cells = {
  id: 'cepbook-epl:plugin',
  description: 'EPL highlighting in cells and in .epl files.',
  autoStart: true,
  requires: [IEditorExtensionRegistry],
  optional: [IEditorLanguageRegistry],
  activate: (app, extensions, languages) => {
    extensions.addExtension({
      name: 'cepbook-epl:cells',
      factory: () => EditorExtensionRegistry.createImmutableExtension(eplCells())
    });
    NotebookActions.executed.connect((_, { cell }) => note(cell));
    if (languages) {
      languages.addLanguage({
        name: 'epl',
        displayName: 'EPL',
        mime: 'text/x-epl',
        extensions: ['epl'],
        load: async () => eplSupport()
      });
    }
    app.docRegistry.addFileType({
      name: 'epl',
      displayName: 'EPL file',
      extensions: ['.epl'],
      mimeTypes: ['text/x-epl'],
      contentType: 'file',
      fileFormat: 'text'
    });
  }
};

// Charts become smaller where there is no room for them, down to what can be read. Ours are drawn as SVG. Vega's menu is
// white in every theme, with its button at a fifth of full opacity, which is a pale disc on a dark page.
const CHARTS = `
.jp-OutputArea-output .vega-embed svg.marks { max-width: max(100%, 420px); height: auto; }
.jp-OutputArea-output .vega-embed summary, .jp-OutputArea-output .vega-embed .vega-actions {
  background: var(--jp-layout-color1); border-color: var(--jp-border-color1); color: var(--jp-ui-font-color1);
}
.jp-OutputArea-output .vega-embed .vega-actions::before { border-bottom-color: var(--jp-border-color1); }
.jp-OutputArea-output .vega-embed .vega-actions::after { border-bottom-color: var(--jp-layout-color1); }
.jp-OutputArea-output .vega-embed .vega-actions a { color: var(--jp-ui-font-color1); }
.jp-OutputArea-output .vega-embed .vega-actions a:is(:hover, :focus) {
  background: var(--jp-layout-color2); color: var(--jp-ui-font-color0);
}`;

const views = {
  id: 'cepbook-epl:saved-views',
  description: 'Live views whose kernel is gone are shown as the picture that was saved; charts fit their cells.',
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry],
  activate: (app, notebooks, rendermime) => {
    rendermime.addFactory(renderer, 0);
    document.head.append(Object.assign(document.createElement('style'), { textContent: CHARTS }));
    notebooks.widgetAdded.connect((_, panel) => follow(panel));
  }
};

const advised = {
  id: 'cepbook-epl:advice',
  description: 'Errors of EPL as it is typed, and what the word under the pointer is.',
  autoStart: true,
  requires: [IEditorExtensionRegistry, INotebookTracker],
  activate: (app, extensions, notebooks) => {
    extensions.addExtension({
      name: 'cepbook-epl:advice',
      factory: () => EditorExtensionRegistry.createImmutableExtension(advice(notebooks))
    });
  }
};

const completed = {
  id: 'cepbook-epl:completion',
  description: 'Skeletons of statements in cells and files, and names in .epl files.',
  autoStart: true,
  requires: [ICompletionProviderManager, INotebookTracker, IEditorExtensionRegistry],
  activate: (app, manager, notebooks, registry) => {
    registry.addExtension({
      name: 'cepbook-epl:empty-line',
      factory: () => EditorExtensionRegistry.createImmutableExtension(onEmptyLine(app, notebooks))
    });
    for (const provider of providers(notebooks)) manager.registerProvider(provider);
  }
};

const formats = {
  id: 'cepbook-epl:format',
  description: 'A command and buttons that lay EPL out anew.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette],
  activate: addFormat
};

export default [cells, views, advised, completed, formats, sidebar];
