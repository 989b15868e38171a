// What the page draws: problems, reactions beside the stimuli, retained rows, explanations, diagrams.

const SVG = 'http://www.w3.org/2000/svg';

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter(child => child != null));
  return node;
}

function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const title = text => draw('title', {}, text);

const cells = pairs =>
  pairs.flatMap(([name, value], at) => [at ? '  ' : '', make('span', { class: 'name' }, `${name}=`), value]);

const TONE = { '+': 'insert', '−': 'remove' };

/** The reactions of one step as table rows of [who, sign, what], with the questions that a click asks. */
function* lines(step, onWhy) {
  for (const { statement, delivery, rows, failed, detail } of step.reactions) {
    if (failed) {
      yield { tone: 'failed', who: failed, sign: '!', what: [detail.split('\n')[0]] };
      continue;
    }
    if (!rows.length) yield { who: '', sign: '=', what: ['(none)'] };
    for (const [index, { sign, cells: pairs }] of rows.entries()) {
      const words = cells(pairs);
      const ask = statement && (() => onWhy({ statement, delivery, row: index }));
      const what = ask
        ? [make('button', { class: 'link', title: 'Why was this row delivered?', onclick: ask }, ...words)]
        : words;
      yield { tone: TONE[sign] ?? '', who: index ? '' : (statement ?? ''), sign, what };
    }
  }
  if (step.agrees === false) {
    yield { tone: 'wrong', who: 'expected', sign: '✗', what: [step.expected.join('\n') || 'no reaction'] };
  }
}

const TIME = /^(@|t\s*[=+])/;

/** Stimuli with their reactions. `onStep(n)` selects a step, `onWhy` and `onFate` ask about a row and an event. */
export function reactions(steps, { onStep, onWhy, onFate }) {
  const body = make('tbody');
  let event = 0;
  for (const [number, step] of steps.entries()) {
    const isTime = TIME.test(step.text);
    const isEvent = !isTime && !/^(iterate|query|set|get|undeploy|partitions|table|deployed|together)\b/.test(step.text);
    const own = event;
    if (isEvent) event++;
    const stimulus = isEvent
      ? make('button', { class: 'link', title: 'What became of this event?', onclick: () => onFate(own) }, step.text)
      : step.text;
    const sides = [...lines(step, onWhy)];
    for (const [at, side] of (sides.length ? sides : [null]).entries()) {
      const row = make(
        'tr',
        { class: at ? '' : `stimulus${isTime ? ' time' : ''}`, 'data-step': number, onclick: () => onStep(number) },
        make('td', { class: 'stimulus' }, at ? '' : stimulus),
        make('td', { class: side?.tone ?? '' }, side?.who ?? ''),
        make('td', { class: `${side?.tone ?? ''} sign` }, side?.sign ?? ''),
        make('td', { class: side?.tone ?? '' }, ...(side?.what ?? ['']))
      );
      body.append(row);
    }
  }
  const head = ['stimulus', 'statement', '±', 'reaction'].map(text => make('th', { scope: 'col' }, text));
  return make('table', {}, make('thead', {}, make('tr', {}, ...head)), body);
}

export function select(table, number) {
  for (const row of table.querySelectorAll('tr.current')) row.classList.remove('current');
  const row = table.querySelector(`tr[data-step="${number}"]`);
  row?.classList.add('current');
  return row;
}

/** A table as Python describes it, with rows of `gone` struck out below. */
export function table({ headings, right, cells: rows, signs = [] }, fresh = new Set(), gone = []) {
  const line = (values, tone) =>
    make('tr', { class: tone }, ...values.map((value, at) => make('td', { class: right[at] && 'number' }, value)));
  return make(
    'table',
    {},
    make('thead', {}, make('tr', {}, ...headings.map((name, at) => make('th', { scope: 'col', class: right[at] && 'number' }, name)))),
    make(
      'tbody',
      {},
      ...rows.map((values, at) => line(values, TONE[signs[at]] ?? (fresh.has(at) ? 'insert' : ''))),
      ...gone.map(values => line(values, 'gone'))
    )
  );
}

const key = values => JSON.stringify(values);

/** Which rows came and which went since the state before, as multisets. */
function changes(now, before) {
  const left = new Map();
  for (const values of before?.table.cells ?? []) left.set(key(values), [...(left.get(key(values)) ?? []), values]);
  const fresh = new Set();
  for (const [at, values] of now.table.cells.entries()) {
    const same = left.get(key(values));
    if (same?.length) same.pop();
    else fresh.add(at);
  }
  return { fresh, gone: [...left.values()].flat() };
}

const count = (n, noun) => `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;

/** Windows, stores, partitions and partial matches behind a step, with what changed in it. */
export function state(now, before) {
  const parts = [];
  const name = ({ statement, partition }) => `${statement} ${partition}`;
  const earlier = new Map((before?.retained ?? []).map(rows => [name(rows), rows]));
  for (const rows of now.retained) {
    const { fresh, gone } = changes(rows, earlier.get(name(rows)));
    const noun = rows.kind === 'partial matches' ? 'partial match' : rows.kind === 'rows' ? 'row' : 'event';
    const amount = noun === 'partial match' && rows.total !== 1 ? `${rows.total} partial matches` : count(rows.total, noun);
    parts.push(make('h3', {}, rows.statement, ' ', make('small', {}, [rows.partition, amount].filter(Boolean).join(' · '))));
    if (rows.waiting.length) parts.push(make('p', {}, `waits for ${rows.waiting.join(', ')}`));
    if (rows.table.headings.length || gone.length) {
      const headings = rows.table.headings.length ? rows.table : { ...earlier.get(name(rows)).table, cells: [] };
      parts.push(table(headings, fresh, gone));
    }
    earlier.delete(name(rows));
  }
  for (const { statement, partition } of earlier.values()) {
    if (partition) parts.push(make('p', {}, `the partition ${partition} of ${statement} has ended`));
  }
  if (now.variables.length) {
    parts.push(make('h3', {}, 'variables'));
    parts.push(table({ headings: ['name', 'value'], right: [false, true], cells: now.variables }));
  }
  if (!parts.length) parts.push(make('p', {}, 'No statement retains events: there is no window, pattern or table.'));
  return parts;
}

/** An explanation: facts, tables and sentences. */
export function page({ title: heading, note, parts }) {
  const drawn = [make('h3', {}, heading, note ? make('small', {}, `  ${note}`) : null)];
  for (const part of parts) {
    if (part.facts) drawn.push(table({ headings: [], right: [false, false], cells: part.facts }));
    else if (part.text) drawn.push(make('p', {}, part.text));
    else drawn.push(make('h3', {}, part.title), table(part));
  }
  return drawn;
}

const LANE = 20;
const MARGIN = 96;

/** A marble diagram: arrivals, the stay of each event in the window, and deliveries over time. */
export function marble(diagram, width) {
  const { start, end, arrivals, bars, deliveries } = diagram;
  // Many events come at the same time: the places are those of the moments, and long pauses are cut.
  const moments = [...new Set([start, end, ...arrivals, ...deliveries].map(at => at.time ?? at))];
  for (const { entered, left } of bars) moments.push(entered ?? start, left ?? end);
  const order = [...new Set(moments)].filter(time => time >= start && time <= end).sort((a, b) => a - b);
  const inner = Math.max(200, width - MARGIN - 40);
  const even = at => MARGIN + (inner * at) / Math.max(1, order.length - 1);
  const places = new Map(order.map((time, at) => [time, even(at)]));
  const x = time => places.get(Math.min(end, Math.max(start, time ?? end))) ?? MARGIN;
  const lanes = [];
  const top = 44;
  const rows = bars.map(bar => {
    const from = x(bar.entered);
    let lane = lanes.findIndex(until => until < from - 2);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = Math.max(x(bar.left), from + 8 + bar.label.length * 6.5);
    return { ...bar, from, to: Math.max(x(bar.left), from + 6), y: top + lane * LANE };
  });
  const base = top + lanes.length * LANE + 18;
  const height = base + 44;
  const svg = draw('svg', { class: 'marble', width: inner + MARGIN + 40, height, role: 'img' });
  svg.setAttribute('aria-label', `Marble diagram: ${arrivals.length} arrivals, ${deliveries.length} deliveries`);
  const line = y => draw('line', { class: 'axis', x1: MARGIN, x2: MARGIN + inner, y1: y, y2: y });
  svg.append(draw('text', { class: 'dim', x: 0, y: 24 }, 'arrivals'), line(20));
  for (const { time, label, at } of arrivals) {
    svg.append(draw('circle', { class: 'event', cx: x(time), cy: 20, r: 5 }, title(`${label} at ${at}`)));
  }
  if (rows.length) svg.append(draw('text', { class: 'dim', x: 0, y: top + 12 }, 'window'));
  for (const { from, to, y, label } of rows) {
    svg.append(
      draw('rect', { class: 'stay', x: from, y, width: to - from, height: LANE - 4, rx: 3 }, title(label)),
      draw('text', { x: from + 4, y: y + 12 }, label)
    );
  }
  svg.append(draw('text', { class: 'dim', x: 0, y: base + 4 }, 'deliveries'), line(base));
  for (const { time, insert, remove } of deliveries) {
    const at = x(time);
    if (insert.length) svg.append(draw('circle', { class: 'inserted', cx: at, cy: base, r: 5 }, title(`+ ${insert.join('\n+ ')}`)));
    if (remove.length) {
      const y = base + (insert.length ? 12 : 0);
      svg.append(draw('rect', { class: 'removed', x: at - 4, y: y - 4, width: 8, height: 8 }, title(`− ${remove.join('\n− ')}`)));
    }
  }
  svg.append(
    draw('text', { class: 'dim', x: MARGIN, y: height - 6 }, diagram.first),
    draw('text', { class: 'dim', x: MARGIN + inner, y: height - 6, 'text-anchor': 'end' }, diagram.last)
  );
  return [svg, ...diagram.notes.map(note => make('p', {}, note))];
}

/** A curve of numbers, with the smallest and the largest beside it. */
export function chart({ name, values, labels }, width) {
  const height = 120;
  const inner = Math.max(160, width - 110);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = at => (inner * at) / Math.max(1, values.length - 1);
  const y = value => 8 + (height - 32) * (1 - (value - low) / (high - low || 1));
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
  const svg = draw('svg', { class: 'chart', width: inner + 70, height, role: 'img', 'aria-label': `Chart of ${name}` });
  const text = value => value.toLocaleString('en', { maximumSignificantDigits: 6 });
  svg.append(
    draw('polyline', { class: 'curve', points }),
    draw('text', { class: 'dim', x: inner + 6, y: 16 }, text(high)),
    draw('text', { class: 'dim', x: inner + 6, y: height - 22 }, text(low)),
    draw('text', { class: 'dim', x: 0, y: height - 4 }, labels[0]),
    draw('text', { class: 'dim', x: inner, y: height - 4, 'text-anchor': 'end' }, labels[1])
  );
  return svg;
}
