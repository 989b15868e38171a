// The tokens of EPL for CodeMirror. Keywords come from the grammar (words.json, written by the build).
import { LanguageSupport, StreamLanguage } from '@codemirror/language';
import words from './words.json';

const KEYWORDS = new Set(words.keywords);
const TYPES = new Set(words.types);
const UNITS = new Set(words.units);
const ATOMS = new Set(['true', 'false', 'null']);

function string(stream, quote) {
  let escaped = false;
  for (let c = stream.next(); c != null; c = stream.next()) {
    if (c === quote && !escaped) return 'string';
    escaped = !escaped && c === '\\';
  }
  return 'string';
}

function comment(stream, state) {
  while (!stream.eol()) {
    if (stream.match('*/')) {
      state.comment = false;
      return 'comment';
    }
    stream.next();
  }
  return 'comment';
}

function word(stream, state, text) {
  const lower = text.toLowerCase();
  const after = state.after;
  if (after === '#' || (after === ':' && state.window)) {
    state.window = after === '#' && stream.peek() === ':'; // the namespace of #std:unique
    return 'builtin';
  }
  if (after === '.') return stream.match(/\s*\(/, false) ? 'variableName.function' : 'propertyName';
  if (after === '0' && UNITS.has(lower)) return 'keyword';
  if (ATOMS.has(lower)) return 'atom';
  if (TYPES.has(lower) && state.schema) return 'builtin';
  if (KEYWORDS.has(lower)) {
    if (lower === 'schema') state.schema = true;
    return 'keyword';
  }
  if (stream.match(/\s*\(/, false) && !state.names) return 'variableName.function';
  return 'variableName';
}

const epl = {
  name: 'epl',
  startState: () => ({ comment: false, after: '', window: false, schema: false, names: false }),
  token(stream, state) {
    if (state.comment) return comment(stream, state);
    if (stream.eatSpace()) return null;
    if (stream.sol() && stream.match(/^%%?\w+.*/)) return 'meta';
    if (stream.match('//')) {
      stream.skipToEnd();
      return 'comment';
    }
    if (stream.match('/*')) {
      state.comment = true;
      return comment(stream, state);
    }
    const quote = stream.peek();
    if (quote === "'" || quote === '"') {
      stream.next();
      state.after = '';
      return string(stream, quote);
    }
    if (stream.match(/^`[^`]*`?/)) {
      state.after = '';
      return 'variableName';
    }
    if (stream.match(/^@\w+/)) {
      state.after = '';
      return 'meta';
    }
    if (stream.match(/^(0x[\da-f]+|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[lfd]?)/i)) {
      state.after = '0';
      return 'number';
    }
    const found = stream.match(/^[A-Za-z_$\u00c0-\uffff][\w$\u00c0-\uffff]*/);
    if (found) {
      const style = word(stream, state, found[0]);
      // What stands behind these names a type, so a parenthesis after it opens a filter and not a call.
      state.names = /^(from|into|join|schema|on|context|inherits|as)$/i.test(found[0]);
      state.after = '';
      return style;
    }
    const sign = stream.next();
    state.after = sign;
    if (sign === ';') Object.assign(state, { window: false, schema: false, names: false });
    return /[-+*/%=<>!|&~^]/.test(sign) ? 'operator' : /[#.:]/.test(sign) ? 'operator' : 'punctuation';
  },
  languageData: {
    name: 'epl',
    commentTokens: { line: '//', block: { open: '/*', close: '*/' } },
    closeBrackets: { brackets: ['(', '[', '{', "'", '"'] }
  }
};

export const eplLanguage = StreamLanguage.define(epl);
export const eplSupport = () => new LanguageSupport(eplLanguage);
