// One tensor: how the source and the target cut it, and who sends what to whom.

const MOST_RECTANGLES = 3000;
const LEAST_BETWEEN_LINES = 5;  // pixels: lines that are closer run into each other

// The two dims that are drawn, rows first: those that are cut, then the last others.
function drawnDims(rank, cut) {
  const dims = cut.slice(0, 2);
  for (let d = rank - 1; d >= 0 && dims.length < 2; --d) if (!dims.includes(d)) dims.push(d);
  dims.sort((a, b) => a - b);
  return {rows: dims.length === 2 ? dims[0] : null, columns: dims.length ? dims[dims.length - 1] : null, others: cut.slice(2)};
}

const shardColour = (index, count) => `hsl(${Math.round(210 + 300 * index / Math.max(count, 1)) % 360} 48% var(--shard-lightness))`;

// Where shards begin or end on a dim, but for its ends: those of every so many that leave room between lines.
function cutLines(shards, dim, length, pixels) {
  const ends = new Set(shards.flatMap((shard) => shard.dims[dim].flatMap(([global, , size]) => (size ? [global, global + size] : []))));
  const all = [...ends].filter((end) => end > 0 && end < length).sort((a, b) => a - b);
  let every = 1;
  while (pixels * every < LEAST_BETWEEN_LINES * (all.length + 1)) every *= 2;
  return {dim, every, at: all.filter((_, i) => (i + 1) % every === 0)};
}

// A drawing of one side. `shards` have ranks, stored shape and runs [global, stored, length] by dim.
class SideDrawing {
  constructor(title, shape, shards, left, dims, tell) {
    this.shards = shards;
    this.dims = dims;
    this.shape = shape;
    this.tell = tell;
    const columns = dims.columns === null ? 1 : shape[dims.columns], rows = dims.rows === null ? 1 : shape[dims.rows];
    this.width = 360;
    this.height = dims.rows === null ? 44 : Math.max(90, Math.min(300, this.width * rows / Math.max(columns, 1)));
    this.scale = (dim, length) => (dim === null ? length : length / Math.max(shape[dim], 1)) * (dim === dims.rows && dim !== null ? this.height : this.width);
    this.layer = drawn("g");
    this.current = 0;
    const labels = drawn("g", {"aria-hidden": "true"});
    const group = drawn("g", {class: "shards", role: "listbox", "aria-label": `${title}: shards`});
    this.rectangles = [];
    let leftOver = false, drawnRectangles = 0;
    shards.forEach((shard, index) => {
      const parts = this.rectanglesOf(shard.dims.map((runs) => runs.map(([global, , length]) => [global, global + length])));
      drawnRectangles += parts.length;
      if (drawnRectangles > MOST_RECTANGLES) { leftOver = true; return; }
      const nodes = parts.map(([x, y, w, h]) => drawn("rect", {x, y, width: w, height: h, class: "shard", "fill-opacity": 0.3, fill: shardColour(index, shards.length)}));
      const node = drawn("g", {role: "option", tabindex: index === 0 ? 0 : -1, class: "shard", "aria-selected": "false", "aria-label": this.describe(shard)},
        drawn("title", {}, this.describe(shard)), ...nodes);
      parts.forEach(([x, y, w, h]) => {
        const ranks = runsText(shard.ranks), label = ranks.length * 7 < w - 4 ? ranks : `×${countOf(shard.ranks)}`;
        if (label.length * 7 < w - 2 && h > 12) labels.append(drawn("text", {x: x + w / 2, y: y + h / 2 + 4, "text-anchor": "middle"}, label));
      });
      node.addEventListener("mouseenter", () => this.tell(this, index));
      node.addEventListener("focus", () => { this.mark(index); this.tell(this, index); });
      node.addEventListener("click", () => { node.focus(); this.tell(this, index, true); });
      node.addEventListener("keydown", (event) => this.key(event, index));
      group.append(node);
      this.rectangles.push(nodes);
    });
    this.nodes = [...group.children];
    const lines = [[dims.rows, rows, this.height], [dims.columns, columns, this.width]].filter(([dim]) => dim !== null).map(([dim, length, pixels]) => cutLines(shards, dim, length, pixels));
    const across = lines.flatMap(({dim, at}) => at.map((end) => (dim === dims.columns ? `M${this.scale(dim, end)} 0V${this.height}` : `M0 ${this.scale(dim, end)}H${this.width}`)));
    const leftOut = lines.filter(({every}) => every > 1).map(({dim, every}) => `, one cut in ${every.toLocaleString("en")} of dim ${dim} drawn`).join("");
    const rowName = dims.rows === null ? "" : `dim ${dims.rows}: ${rows}`, columnName = dims.columns === null ? "a scalar" : `dim ${dims.columns}: ${columns}`;
    this.figure = element("figure", {},
      element("figcaption", {}, element("strong", {}, title), " ", element("small", {}, `${countText(shards.length + left.shards, "different shard")} on ${countText(left.ranks, "rank")}${leftOut}`)),
      drawn("svg", {viewBox: `-14 -16 ${this.width + 18} ${this.height + 20}`, width: this.width + 18, "aria-label": `${title} cuts`, role: "group"},
        drawn("text", {class: "axis", x: 0, y: -5}, columnName),
        drawn("text", {class: "axis", transform: `translate(-5 ${this.height}) rotate(-90)`}, rowName),
        drawn("rect", {class: "frame", x: 0, y: 0, width: this.width, height: this.height}), group,
        drawn("path", {class: "cut-lines", d: across.join("")}), this.layer, labels),
      leftOver || left.shards || left.runs ? element("p", {class: "note"}, "Too many pieces to draw all of them.") : null);
  }

  describe(shard) {
    const dims = shard.dims.map((runs) => runs.length > 4 ? `${runs.length} intervals` : runs.map(([global, , length]) => `${global}:${global + length}`).join(" and ") || "nothing");
    const stored = product(shard.stored), own = product(shard.dims.map((runs) => runs.reduce((sum, run) => sum + run[2], 0)));
    return `${ranksText(shard.ranks)}: [${dims.join(", ")}], stored ${shapeText(shard.stored)}` + (stored > own ? `, ${(stored - own).toLocaleString("en")} elements of padding` : "");
  }

  // A product of intervals per dim as rectangles [x, y, width, height]; empty ones are left out.
  rectanglesOf(box) {
    const along = (dim) => (dim === null ? [[0, 1]] : box[dim]);
    if (box.some((intervals, d) => this.shape[d] > 0 && intervals.every(([begin, end]) => begin === end))) return [];
    const out = [];
    for (const [top, bottom] of along(this.dims.rows)) for (const [begin, end] of along(this.dims.columns)) {
      const y = this.dims.rows === null ? 0 : this.scale(this.dims.rows, top), h = this.dims.rows === null ? this.height : this.scale(this.dims.rows, bottom - top);
      out.push([this.scale(this.dims.columns, begin), y, this.scale(this.dims.columns, end - begin), h]);
    }
    return out;
  }

  key(event, index) {
    const step = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity}[event.key];
    if (step !== undefined) {
      this.nodes[Math.max(0, Math.min(this.nodes.length - 1, index + step))].focus();
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      this.tell(this, index, true);
      event.preventDefault();
    }
  }

  mark(index) {
    this.nodes.forEach((node, i) => {
      node.setAttribute("tabindex", i === index ? 0 : -1);
      node.setAttribute("aria-selected", i === index);
      this.rectangles[i].forEach((rectangle) => rectangle.classList.toggle("current", i === index));
    });
  }

  show(boxes) {
    const rectangles = boxes.slice(0, MOST_RECTANGLES).flatMap((box) => this.rectanglesOf(box.map((interval) => [interval])));
    this.layer.replaceChildren(...rectangles.map(([x, y, width, height]) => drawn("rect", {class: "moved", x, y, width, height})));
  }
}

// A transfer of the page: [source rank, target rank, begin, end, ...] in coordinates of the tensor.
function transferOf(numbers) {
  const box = [];
  for (let i = 2; i < numbers.length; i += 2) box.push([numbers[i], numbers[i + 1]]);
  return {source: numbers[0], target: numbers[1], box};
}

// The same box in the coordinates of the shard that a rank stores.
function storedBox(shards, rank, box) {
  const shard = shards.find((candidate) => holds(candidate.ranks, rank));
  if (shard === undefined) return null;
  return box.map(([begin, end], d) => {
    const run = shard.dims[d].find(([global, , length]) => global <= begin && end <= global + length);
    return run === undefined ? null : [begin - run[0] + run[1], end - run[0] + run[1]];
  });
}

function tensorDrawing(layout, kind, name) {
  const dims = drawnDims(kind.shape.length, kind.cut_dims);
  const transfers = layout.transfers.map(transferOf);
  const bytesOf = (transfer) => product(transfer.box.map(([begin, end]) => end - begin)) * kind.source_element_bytes;
  const readout = element("p", {class: "readout", role: "status"}, "Point at a shard, or move to one with Tab and the arrow keys; Enter lists its transfers alone.");
  const table = element("table"), more = element("button", {type: "button", hidden: true}), all = element("button", {type: "button", hidden: true}, "List all transfers");

  const concerns = (side, shard) => transfers.filter((transfer) => holds(shard.ranks, side === source ? transfer.source : transfer.target));
  const tell = (side, index, chosen) => {
    const shard = side.shards[index], those = concerns(side, shard);
    const peers = [...new Set(those.map((transfer) => (side === source ? transfer.target : transfer.source)))];
    const sum = those.reduce((bytes, transfer) => bytes + bytesOf(transfer), 0);
    const who = peers.length > 8 ? countText(peers.length, "rank") : `rank${peers.length === 1 ? "" : "s"} ${peers.join(", ")}`;
    readout.textContent = `${side === source ? "Source" : "Target"} ${side.describe(shard)}. ` +
      (those.length === 0 ? "Nothing listed moves here." : `${side === source ? "Sends to" : "Gets from"} ${who}: ${exactBytes(sum)} in ${countText(those.length, "transfer")}.`);
    source.show(those.map((transfer) => transfer.box));
    target.show(those.map((transfer) => transfer.box));
    if (chosen) list(those);
  };
  const source = new SideDrawing("Source", kind.shape, layout.source, layout.source_left, dims, tell);
  const target = new SideDrawing("Target", kind.shape, layout.target, layout.target_left, dims, tell);

  function list(those) {
    all.hidden = those.length === transfers.length;
    const body = element("tbody");
    table.replaceChildren(
      element("caption", {}, `Transfers of ${shown(name)}` + (those.length === 0 ? ": none" : "") + (layout.transfers_left ? `: ${transfers.length.toLocaleString("en")} of ${(transfers.length + layout.transfers_left).toLocaleString("en")}; --report json lists all` : "")),
      element("thead", {}, element("tr", {}, ...["source rank", "target rank", "elements of the tensor", "in the source's shard", "in the target's shard"].map((text) => element("th", {scope: "col"}, text)),
        element("th", {scope: "col", class: "number"}, "bytes"))), body);
    const stored = (shards, rank, box) => { const at = storedBox(shards, rank, box); return at === null || at.includes(null) ? "?" : boxText(at); };
    listed(body, more, those, 24, (transfer) => element("tr", {},
      element("td", {}, `${transfer.source}`), element("td", {}, `${transfer.target}`), element("td", {}, boxText(transfer.box)),
      element("td", {}, stored(layout.source, transfer.source, transfer.box)), element("td", {}, stored(layout.target, transfer.target, transfer.box)),
      element("td", {class: "number", title: exactBytes(bytesOf(transfer))}, bytesText(bytesOf(transfer)))));
  }
  all.onclick = () => list(transfers);
  list(transfers);

  return element("div", {},
    dims.others.length ? element("p", {class: "note"}, `Dim ${dims.others.join(", ")} is cut too and not drawn: shards that differ only there lie on each other.`) : null,
    element("div", {class: "drawings"}, source.figure, target.figure), readout,
    element("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Transfers"}, table), more, " ", all);
}
