// The page: two texts, one engine, and views of the last run.
import examples from './examples.json';
import { Editor } from './editor.js';
import { Engine, Stopped } from './engine.js';
import { fragment, texts } from './share.js';
import * as views from './views.js';

const LIMIT = 30_000; // ms after which a run is stopped
const LINT_DELAY = 500; // ms after the last key
const SAVED = 'cepbook.playground';
const at = id => document.getElementById(id);

let run = null; // the last answer
let step = 0;
let tab = 'state';
let explanation = null; // nodes of the tab "Why"
let diagram = ''; // the statement of the marble diagram
let data = null; // what a dropped file led to

function say(words, ms = 4000) {
  at('status').textContent = words;
  clearTimeout(say.timer);
  if (words && ms) say.timer = setTimeout(() => say(''), ms);
}

// ---- engine -----------------------------------------------------------------------------------------------------

const engine = new Engine(
  (part, words) => {
    at('loading').hidden = false;
    at('loading').firstElementChild.style.width = `${part * 100}%`;
    at('loading').setAttribute('aria-valuenow', Math.round(part * 100));
    at('loading').setAttribute('aria-valuetext', words);
  },
  () => {
    at('loading').hidden = true;
  },
  words => say(`The engine could not be loaded: ${words}`, 0)
);

/** Ask the engine beside runs: null while one is busy, so that typing never waits. */
async function aside(kind, request) {
  if (!engine.isReady || engine.isBusy) return null;
  try {
    const answer = await engine.ask(kind, request);
    return answer.error ? null : answer;
  } catch {
    return null;
  }
}

let lintTimer;
function changed() {
  clearTimeout(lintTimer);
  lintTimer = setTimeout(async () => {
    const { text } = module;
    const answer = await aside('lint', { module: text });
    if (answer && module.text === text) module.mark(answer.problems);
    save();
  }, LINT_DELAY);
}

function save() {
  try {
    sessionStorage.setItem(SAVED, JSON.stringify({ module: module.text, scenario: scenario.text }));
  } catch {
    // a browser without storage forgets the text when it reloads
  }
}

const editor = (name, label) =>
  new Editor(at(name), label, {
    onChange: changed,
    onRun: start,
    onFormat: format,
    ask: (kind, text, offset) => aside(kind, { text, at: offset, in: name })
  });
const module = editor('module', 'Module');
const scenario = editor('scenario', 'Scenario');

/** Lay the statements of the module out anew. */
async function format() {
  const answer = await engine.ask('format', { module: module.text });
  if (answer.error) problems([{ text: answer.error }]);
  else module.text = answer.text;
}

// ---- run --------------------------------------------------------------------------------------------------------

let again = false; // another run was asked for meanwhile

async function start() {
  if (at('run').dataset.running) {
    again = true;
    return;
  }
  again = false;
  at('run').dataset.running = 'yes';
  const timer = setTimeout(() => engine.stop(), LIMIT);
  const busy = setTimeout(() => (at('run').textContent = 'Stop'), 250);
  try {
    const request = { module: module.text, scenario: scenario.text };
    if (data) showReplay(await replayed());
    else show(await engine.ask('run', request));
  } catch (error) {
    if (error instanceof Stopped) say('The run was stopped. The texts are as they were; the engine starts anew.');
    else say(`The engine failed: ${error.message}`, 10_000);
  } finally {
    clearTimeout(timer);
    clearTimeout(busy);
    delete at('run').dataset.running;
    at('run').textContent = 'Run';
    save();
    document.body.dataset.runs = Number(document.body.dataset.runs ?? 0) + 1;
    if (again) start();
    else keep();
  }
}

/** Keep the files of the page for days without a network; not before there was an answer. */
let isKept = false;
function keep() {
  if (isKept) return;
  isKept = true;
  navigator.serviceWorker?.register('./offline.js').catch(() => {
    // a browser without it, or a page that is not served securely, needs the network
  });
}

function show(answer) {
  if (answer.error) {
    problems([{ text: answer.error }]);
    return;
  }
  run = answer;
  module.mark(answer.problems.filter(problem => problem.in === 'module'));
  scenario.mark(answer.problems.filter(problem => problem.in === 'scenario'));
  problems(answer.failure ? [{ text: answer.failure }] : answer.problems);
  explanation = null;
  const table = views.reactions(answer.steps, { onStep: select, onWhy: why, onFate: fate });
  at('reactions').replaceChildren(...(answer.steps.length ? [table] : []));
  verdict(answer.steps);
  if (!answer.statements.includes(diagram)) diagram = answer.statements[0] ?? '';
  at('step').max = Math.max(0, answer.steps.length - 1);
  if (tab === 'why') choose('state');
  select(answer.steps.length - 1, false);
}

/** Run the module over the dropped file; a new engine reads the file again. */
async function replayed() {
  const answer = data.worker === engine.worker ? null : await read();
  return answer?.error ? answer : engine.ask('replay', { module: module.text });
}

async function read() {
  const answer = await engine.ask('csv', { text: data.text, name: data.name });
  data.worker = engine.worker;
  return answer;
}

function showReplay(answer) {
  if (answer.error) return problems([{ text: answer.error }]);
  run = null;
  module.mark(answer.problems);
  problems(answer.failure ? [{ text: answer.failure }] : answer.problems);
  const width = at('reactions').clientWidth - 40;
  const parts = answer.statements.flatMap(({ name, total, table, column, curve, span }) => [
    views.make('h3', {}, name, ' ', views.make('small', {}, `${total.toLocaleString('en')} rows`)),
    curve.length > 1 ? views.chart({ name: `${name}.${column}`, values: curve, labels: [`${column}  ${span[0]}`, span[1]] }, width) : null,
    total ? views.table(table) : null
  ]);
  at('reactions').replaceChildren(...parts.filter(Boolean));
  draw();
}

/** Take a CSV file: a schema and a first statement in the module, and its rows as events. */
async function drop(file) {
  setData({ name: file.name, text: await file.text() });
  say(`Reading ${file.name} …`, 0);
  const answer = await read();
  if (answer.error) {
    setData(null);
    say('');
    return problems([{ text: answer.error }]);
  }
  module.text = answer.module;
  scenario.text = `# ${answer.events.toLocaleString('en')} events of ${file.name}. An example in the list above, or an address, ends this.\n`;
  at('prose').hidden = true;
  say([`${answer.events.toLocaleString('en')} rows were read`, ...answer.notes].join('; ') + '.');
  start();
}

function problems(list) {
  at('problems').hidden = !list.length;
  at('problems').textContent = list.map(({ text }) => text).join('\n\n');
}

function verdict(steps) {
  const compared = steps.filter(({ agrees }) => agrees != null);
  if (!compared.length) return;
  const wrong = compared.filter(({ agrees }) => !agrees).length;
  const words = wrong
    ? `✗ ${wrong} of ${compared.length} steps have other reactions than expected`
    : '✓ all reactions are as expected';
  at('reactions').prepend(views.make('p', { class: `verdict ${wrong ? 'wrong' : 'right-answer'}` }, words));
}

// ---- a moment ---------------------------------------------------------------------------------------------------

function select(number, scroll = true) {
  if (!run) return;
  step = Math.max(0, Math.min(number, run.steps.length - 1));
  const chosen = run.steps[step];
  at('step').value = step;
  at('clock').textContent = chosen ? chosen.now : '';
  at('step').setAttribute('aria-valuetext', chosen ? `step ${step + 1} of ${run.steps.length}, ${chosen.now}` : '');
  const row = views.select(at('reactions'), step);
  if (scroll) row?.scrollIntoView({ block: 'nearest' });
  if (tab === 'state') draw();
}

function choose(name) {
  tab = name;
  for (const button of document.querySelectorAll('[role=tab]')) {
    const chosen = button.id === `tab-${name}`;
    button.setAttribute('aria-selected', chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  at('panel').setAttribute('aria-labelledby', `tab-${name}`);
  draw();
}

const words = text => [views.make('p', {}, text)];

async function draw() {
  const panel = at('panel');
  if (tab === 'why') {
    panel.replaceChildren(...(explanation ?? words('Click a reaction to see why it was delivered, or an event to see what became of it.')));
  } else if (tab === 'state') {
    const chosen = run?.steps[step];
    if (!chosen) panel.replaceChildren(...words('Nothing ran yet.'));
    else panel.replaceChildren(...views.state(run.states[chosen.state], run.states[run.steps[step - 1]?.state]));
  } else {
    const names = run?.statements ?? [];
    if (!names.length) return panel.replaceChildren(...words('Nothing ran yet.'));
    const chips = names.map(name =>
      views.make('button', { 'aria-pressed': String(name === diagram), onclick: () => ((diagram = name), draw()) }, name)
    );
    const answer = await engine.ask('marble', { statement: diagram });
    if (tab !== 'marble') return;
    const picture = answer.error ? words(answer.error) : views.marble(answer, panel.clientWidth - 20);
    panel.replaceChildren(views.make('div', { class: 'chips' }, ...chips), ...picture);
  }
}

async function explain(kind, request) {
  const answer = await engine.ask(kind, request);
  explanation = answer.error ? words(answer.error) : views.page(answer.page);
  choose('why');
  at('panel').scrollTop = 0;
}
const why = request => explain('why', request);
const fate = event => explain('fate', { event });

// ---- texts ------------------------------------------------------------------------------------------------------

/** With a dropped file there are no steps: the rows have the whole side. */
const setData = value => {
  data = value;
  document.body.classList.toggle('with-data', Boolean(value));
};

function open({ module: epl, scenario: trace, prose = '' }) {
  setData(null);
  module.text = epl;
  scenario.text = trace;
  at('prose').hidden = !prose;
  at('prose').textContent = prose;
}

function openExample(name) {
  const example = examples.flatMap(group => group.examples).find(each => each.name === name);
  if (!example) return false;
  open(example);
  at('examples').value = name;
  return true;
}

for (const { group, examples: list } of examples) {
  const options = list.map(({ name, title }) => views.make('option', { value: name }, title));
  at('examples').append(views.make('optgroup', { label: group }, ...options));
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} is in the clipboard.`);
  } catch {
    const blob = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
    const name = what.includes('notebook') ? 'playground.ipynb' : 'playground.md';
    views.make('a', { href: blob, download: name }).click();
    say(`${what} was saved as ${name}.`);
  }
}

async function copyFile(kind, what) {
  const answer = await engine.ask(kind, { module: module.text, scenario: scenario.text });
  if (answer.error) problems([{ text: answer.error }]);
  else copy(answer.text, what);
}

at('run').addEventListener('click', () => (at('run').dataset.running ? engine.stop() : start()));
at('format').addEventListener('click', format);
at('notebook').addEventListener('click', () => copyFile('notebook', 'The notebook'));
at('test').addEventListener('click', () => copyFile('test', 'The scenario file'));
at('share').addEventListener('click', async () => {
  history.replaceState(null, '', `#${await fragment(module.text, scenario.text)}`);
  copy(location.href, 'The address');
});
at('examples').addEventListener('change', event => {
  openExample(event.target.value);
  history.replaceState(null, '', `#example=${encodeURIComponent(event.target.value)}`);
  start();
});
at('step').addEventListener('input', event => select(Number(event.target.value)));
for (const name of ['state', 'marble', 'why']) at(`tab-${name}`).addEventListener('click', () => choose(name));
document.querySelector('.tabs').addEventListener('keydown', event => {
  const names = ['state', 'marble', 'why'];
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!move) return;
  const next = names[(names.indexOf(tab) + move + names.length) % names.length];
  choose(next);
  at(`tab-${next}`).focus();
});
at('theme').addEventListener('click', () => {
  const isDark = getComputedStyle(document.body).colorScheme.includes('dark')
    ? document.documentElement.dataset.theme === 'dark' || (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches)
    : false;
  document.documentElement.dataset.theme = isDark ? 'light' : 'dark';
});
document.addEventListener('keydown', event => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.defaultPrevented) start();
});
document.addEventListener('dragover', event => {
  event.preventDefault();
  document.body.classList.add('dropping');
});
document.addEventListener('dragleave', event => event.relatedTarget ?? document.body.classList.remove('dropping'));
document.addEventListener('drop', event => {
  event.preventDefault();
  document.body.classList.remove('dropping');
  const [file] = event.dataTransfer.files;
  if (file) drop(file);
}, true);
at('file').addEventListener('change', ({ target }) => target.files[0] && drop(target.files[0]));
at('open').addEventListener('click', () => at('file').click());
addEventListener('hashchange', begin);
addEventListener('resize', () => tab === 'marble' && draw());

async function begin() {
  let wanted = null;
  try {
    wanted = await texts(location.hash);
  } catch {
    say('The address holds no text that can be read.');
  }
  if (wanted?.example && openExample(wanted.example)) wanted = null;
  else if (wanted && !wanted.example) open(wanted);
  else {
    let saved = null;
    try {
      saved = JSON.parse(sessionStorage.getItem(SAVED));
    } catch {
      // nothing was saved
    }
    if (saved?.module) open(saved);
    else openExample(examples[0].examples[0].name);
  }
  start();
}
begin();
