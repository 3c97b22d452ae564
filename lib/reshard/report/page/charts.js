// Traffic between ranks as a heat map, and the memory of processes over rounds.

const blockText = (index, size, count) => {
  const first = index * size, last = Math.min(first + size, count) - 1;
  return first === last ? `${first}` : `${first} to ${last}`;
};

function heatMap(traffic, sources, targets) {
  const rows = traffic.bytes.length, columns = traffic.bytes[0].length;
  const most = Math.max(1, ...traffic.bytes.map((row) => Math.max(...row)));
  const cell = Math.max(4, Math.min(26, Math.floor(660 / Math.max(rows, columns))));
  const readout = element("p", {class: "readout", role: "status"}, "Point at a cell, or move over the map with the arrow keys.");
  const cells = traffic.bytes.map(() => []);
  const svg = drawn("svg", {class: "heat-map", tabindex: 0, role: "img", width: columns * cell + 66, viewBox: `-56 -30 ${columns * cell + 66} ${Math.max(rows * cell, 64) + 36}`,
                            "aria-label": "Heat map of traffic: source ranks down, target ranks across; arrow keys read single cells"});
  traffic.bytes.forEach((row, r) => row.forEach((bytes, c) => {
    if (bytes === 0) return;
    const node = drawn("rect", {class: "heat", x: c * cell, y: r * cell, width: cell - (cell > 8 ? 1 : 0), height: cell - (cell > 8 ? 1 : 0),
                                fill: `rgba(var(--heat), ${(0.08 + 0.92 * bytes / most).toFixed(3)})`});
    node.dataset.row = r;
    node.dataset.column = c;
    cells[r][c] = svg.appendChild(node);
  }));
  svg.append(drawn("rect", {class: "frame", x: -1, y: -1, width: columns * cell + 1, height: rows * cell + 1}));
  const every = (count) => Math.max(1, Math.ceil(count * 22 / (cell * count)));
  for (let c = 0; c < columns; c += every(columns) * (targets > 99 ? 2 : 1))
    svg.append(drawn("text", {class: "axis", x: c * cell + cell / 2, y: -6, "text-anchor": "middle"}, `${c * traffic.targets_per_column}`));
  for (let r = 0; r < rows; r += every(rows)) svg.append(drawn("text", {class: "axis", x: -5, y: r * cell + cell / 2 + 3, "text-anchor": "end"}, `${r * traffic.sources_per_row}`));
  svg.append(drawn("text", {class: "axis", x: 0, y: -19}, "target rank"), drawn("text", {class: "axis", transform: `translate(-44 ${Math.max(rows * cell, 64)}) rotate(-90)`}, "source rank"));

  let at = [0, 0];
  const tell = (row, column) => {
    cells[at[0]][at[1]]?.classList.remove("current");
    at = [row, column];
    cells[row][column]?.classList.add("current");
    const from = blockText(row, traffic.sources_per_row, sources), to = blockText(column, traffic.targets_per_column, targets);
    readout.textContent = `Source rank ${from} to target rank ${to}: ${exactBytes(traffic.bytes[row][column])}`.replace(/rank (\d+ to \d+)/g, "ranks $1");
  };
  svg.addEventListener("mouseover", (event) => { if (event.target.dataset.row !== undefined) tell(Number(event.target.dataset.row), Number(event.target.dataset.column)); });
  svg.addEventListener("focus", () => tell(...at));
  svg.addEventListener("keydown", (event) => {
    const next = moved(event.key, at, rows, columns);
    if (next === null) return;
    tell(...next);
    event.preventDefault();
  });
  return [element("div", {class: "scroll"}, svg), element("div", {class: "legend"}, "least", element("i", {"aria-hidden": "true"}), `most: ${bytesText(most)}`), readout];
}

// One bar per process: a plan of a single round.
function memoryBars({names, series}, bound) {
  const table = element("table", {}, element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "process"), element("th", {scope: "col", class: "number"}, "bytes"), element("th", {scope: "col"}, "of the bound"))));
  const body = table.appendChild(element("tbody")), more = element("button", {type: "button"});
  listed(body, more, names.map((name, i) => [name, series[i][0]]), 32, ([name, bytes]) => {
    const bar = element("span", {class: "bar"});
    bar.style.width = `${(10 * bytes / bound).toFixed(3)}rem`;
    return element("tr", {}, element("td", {}, name), element("td", {class: "number", title: exactBytes(bytes)}, bytesText(bytes)), element("td", {class: "bar-room"}, bar));
  });
  return [element("div", {class: "scroll"}, table), more];
}

// Lines over rounds: of each process, or of the least, middle and most of many.
function memoryLines(history, bound) {
  const series = history.names.map((name, i) => ({name, values: history.series[i]})), entries = series[0].values.length;
  const width = 720, height = 200, highest = Math.max(...history.series.flat());
  const top = highest > bound / 3 ? Math.max(highest, bound) : highest * 1.1 || 1;
  const x = (entry) => width * entry / entries, y = (bytes) => height - height * bytes / top;
  const readout = element("p", {class: "readout", role: "status"}, "Point at a round, or move over the chart with the arrow keys.");
  const cursor = drawn("line", {class: "cursor", y1: 0, y2: height, visibility: "hidden"});
  const svg = drawn("svg", {class: "chart", tabindex: 0, role: "img", width: width + 90, viewBox: `-80 -14 ${width + 90} ${height + 36}`, "aria-label": "Bytes that each process holds, by round; arrow keys read single rounds"});
  for (let i = 0; i <= 4; ++i) svg.append(drawn("line", {class: "gridline", x1: 0, x2: width, y1: y(top * i / 4), y2: y(top * i / 4)}), drawn("text", {class: "axis", x: -6, y: y(top * i / 4) + 3, "text-anchor": "end"}, bytesText(Math.round(top * i / 4))));
  if (bound <= top) svg.append(drawn("line", {class: "bound", x1: 0, x2: width, y1: y(bound), y2: y(bound)}));
  series.forEach(({values}, i) => svg.append(drawn("path", {class: "series", stroke: shardColour(i, series.length), d: values.map((bytes, e) => `${e ? "L" : "M"}${x(e).toFixed(1)} ${y(bytes).toFixed(1)}H${x(e + 1).toFixed(1)}`).join("")})));
  svg.append(cursor, drawn("text", {class: "axis", x: 0, y: height + 16}, "round 0"), drawn("text", {class: "axis", x: width, y: height + 16, "text-anchor": "end"}, `${history.rounds - 1}`));
  let at = 0;
  const tell = (entry) => {
    at = entry;
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(entry + 0.5));
    cursor.setAttribute("visibility", "visible");
    readout.textContent = `Round ${blockText(entry, history.rounds_per_entry, history.rounds)}: ` + series.map(({name, values}) => `${name} ${bytesText(values[entry])}`).join(", ");
  };
  svg.addEventListener("mousemove", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    tell(Math.max(0, Math.min(entries - 1, Math.floor(point.x / width * entries))));
  });
  svg.addEventListener("focus", () => tell(at));
  svg.addEventListener("keydown", (event) => {
    const next = moved(event.key, [0, at], 1, entries);
    if (next === null) return;
    tell(next[1]);
    event.preventDefault();
  });
  const key = element("div", {class: "legend"}, ...series.map(({name}, i) => {
    const swatch = element("span", {"aria-hidden": "true"}, "■ ");
    swatch.style.color = shardColour(i, series.length);
    return element("span", {}, swatch, name);
  }), bound <= top ? element("span", {}, "┄ bound") : null);
  return [element("div", {class: "scroll"}, svg), key, readout];
}
