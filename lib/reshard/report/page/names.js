"use strict";
// Numbers and names as people read them, and elements of the page. Every text of the plan goes into the page as a text
// node or an attribute's value: no name can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const drawn = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function bytesText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = bytes / 1024, unit = 0;
  for (; value >= 1023.995 && unit + 1 < units.length; ++unit) value /= 1024;
  return `${Number(value.toFixed(2))} ${units[unit]}`;
}
const exactBytes = (bytes) => (bytes < 1024 ? bytesText(bytes) : `${bytesText(bytes)} (${bytes.toLocaleString("en")} bytes)`);

// As the text report has them.
function secondsText(seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 1e-3) return "<1 ms";
  if (seconds < 0.9995) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds), minutes = Math.round(seconds / 60);
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
const countText = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const boxText = (box) => `[${box.map(([begin, end]) => `${begin}:${end}`).join(", ")}]`;
const shapeText = (shape) => `[${shape.join(", ")}]`;
const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

// Names as in the text report: on one line, control characters as \n, \t, \xHH, characters that only steer how others
// are shown as \uHHHH; in quotes where they are empty, have a blank at either end or begin with a quote.
const escaped = (name) => name.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => {
  const code = c.charCodeAt(0), digits = (count) => code.toString(16).padStart(count, "0");
  return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[c] ?? (code < 0x80 ? `\\x${digits(2)}` : `\\u${digits(4)}`);
});
const needsQuotes = (name) => /^$|^"|^[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]|[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]$/.test(name);
const shown = (name) => (needsQuotes(name) ? `"${escaped(name)}"` : escaped(name));

// Numbers come as [first, last, step] runs.
function* numbersOf(runs) {
  for (const [first, last, step] of runs) for (let n = first; n <= last; n += step) yield n;
}
const countOf = (runs) => runs.reduce((sum, [first, last, step]) => sum + Math.floor((last - first) / step) + 1, 0);
const runsText = (runs) => runs.map(([first, last, step]) =>
  first === last ? `${first}` : `${first}..${last}${step === 1 ? "" : `..${step}`}`).join(",");
const holds = (runs, number) => runs.some(([first, last, step]) => first <= number && number <= last && (number - first) % step === 0);
function ranksText(runs) {
  const text = runsText(runs);
  const count = countOf(runs);
  return `${count === 1 ? "rank" : "ranks"} ${text.length <= 40 ? text : `${runsText(runs.slice(0, 1))} and more, ${count} in all`}`;
}

// All names of a group in bytewise order: the order of the group's layouts.
function namesOf(group) {
  let names = [group.texts[0]];
  group.slots.forEach((slot, i) => {
    const longer = [];
    for (const name of names) for (const number of numbersOf(slot)) longer.push(`${name}${number}${group.texts[i + 1]}`);
    names = longer;
  });
  return names.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

// The first `most` items of a list, and a button that adds as many again.
function listed(container, button, items, most, render) {
  let next = 0;
  const more = () => {
    container.append(...items.slice(next, next + most).map(render));
    next = Math.min(next + most, items.length);
    button.hidden = next >= items.length;
    button.textContent = `Show ${Math.min(most, items.length - next).toLocaleString("en")} of ${(items.length - next).toLocaleString("en")} more`;
  };
  button.onclick = more;
  more();
}

// Arrow keys in a grid of so many rows and columns: the new place, or null for another key.
function moved(key, [row, column], rows, columns) {
  const steps = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
                 Home: [0, -columns], End: [0, columns], PageUp: [-rows, 0], PageDown: [rows, 0]};
  if (!(key in steps)) return null;
  const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
  return [clamp(row + steps[key][0], rows), clamp(column + steps[key][1], columns)];
}
