// Axes and colours of a chart. Uses table.js; Python puts this text before chart_view.js.

const SECOND = 1e3, MINUTE = 60e3, HOUR = 3600e3, DAY = 86400e3, YEAR = 365 * DAY;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 15, 30].map((n) => n * SECOND), [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  [1, 2, 3, 6, 12].map((n) => n * HOUR), [1, 2, 4, 7, 14].map((n) => n * DAY),
);
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
// Of one lightness, so that all can be read on white and on dark grey; neighbours differ for colour-blind readers, too.
const HUES = ["#3b82d6", "#d97a12", "#2c9a5b", "#c2508f", "#8a6fd1", "#8d8d1e", "#16a0ad", "#d2504d", "#7b8794", "#a5754a"];
const hue = (at) => HUES[at % HUES.length];

// The times (ms) of at most about `most` ticks, and the text of each. The first tick of a day has its date.
function timeTicks([from, to], most) {
  const span = Math.max(1, to - from);
  const dated = from >= YEAR;
  const step = STEPS.find((size) => span / size <= most);
  if (!step && dated) return monthTicks(from, to, most);
  const size = step ?? niceStep(span / DAY / most) * DAY;
  const ticks = [];
  for (let at = Math.ceil(from / size) * size; at <= to && ticks.length < 100; at += size) ticks.push(at);
  const short = (at) => (size >= MINUTE ? timeText(at, true).slice(-12, -7) : timeText(at, true).slice(-12, size < SECOND ? undefined : -4));
  return ticks.map((at, i) => {
    const day = Math.floor(at / DAY);
    const midnight = at % DAY === 0;
    if (!dated) return { at, text: day ? (midnight ? `${day}d` : `${day}d ${short(at)}`) : short(at) };
    const date = new Date(at).toISOString().slice(0, 10);
    if (size >= DAY) return { at, text: i && ticks[i - 1] >= Date.UTC(Number(date.slice(0, 4)), 0) ? date.slice(5) : date };
    return { at, text: midnight ? date.slice(5) : short(at) };
  });
}

function monthTicks(from, to, most) {
  const first = new Date(from);
  const last = new Date(to);
  if (Number.isNaN(first.getTime()) || Number.isNaN(last.getTime())) return [];
  const count = (last.getUTCFullYear() - first.getUTCFullYear()) * 12 + last.getUTCMonth() - first.getUTCMonth() + 1;
  const step = MONTHS.find((size) => count / size <= most) ?? MONTHS.at(-1);
  const ticks = [];
  const begin = first.getUTCFullYear() * 12 + first.getUTCMonth();
  for (let month = Math.ceil(begin / step) * step; ; month += step) {
    const at = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (at > to || ticks.length > 60) return ticks;
    if (at >= from) ticks.push({ at, text: new Date(at).toISOString().slice(0, step < 12 ? 7 : 4) });
  }
}

// 1, 2 or 5 times a power of ten, at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((n) => n * power >= least * 0.999) * power;
}

function valueTicks(low, high, most) {
  const step = niceStep((high - low) / most);
  if (!(step > 0) || !Number.isFinite(step)) return [];
  const decimals = Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9 && ticks.length < 50; n++) {
    const value = n * step + 0; // no -0
    const size = Math.max(Math.abs(low), Math.abs(high));
    ticks.push({ at: value, text: size >= 1e6 || size < 1e-4 ? shortNumber(value, step) : value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }) });
  }
  return ticks;
}

function shortNumber(value, step) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const unit = size >= 1e9 || size < 1e-4 ? 0 : size >= 1e6 ? 1e6 : size >= 1e3 ? 1e3 : 1;
  const digits = Math.max(0, Math.min(8, Math.ceil(Math.log10(size / step) - 1e-9)));
  if (!unit) return value.toExponential(digits).replace("e+", "e");
  return `${Number((value / unit).toPrecision(digits + 1))}${{ 1e6: "M", 1e3: "K", 1: "" }[unit]}`;
}

// The range of values to show: its own, or that of the points with some room; bars and areas begin at 0.
function valueRange(info, extent) {
  if (info.values) return info.values;
  const known = [...(extent ?? []), ...info.thresholds];
  if (!known.length) return [0, 1];
  if (["bar", "area"].includes(info.kind)) known.push(0);
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (info.kind === "heat" && !info.thresholds.length) return low < high ? [low, high] : [low - 0.5, high + 0.5];
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  const room = (high - low) * 0.05;
  const zero = ["bar", "area"].includes(info.kind);
  return [zero && low === 0 ? 0 : low - room, zero && high === 0 ? 0 : high + room];
}

function rangeText([from, to]) {
  const millis = to - from < 10 * SECOND;
  return `${timeText(from, millis)} – ${timeText(to, millis)}`;
}
