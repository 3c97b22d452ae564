// The page from the plan in it.

const plan = JSON.parse(document.getElementById("plan").textContent);
const at = (id) => document.getElementById(id);

function showHead() {
  at("digest").textContent = plan.plan_digest;
  const side = (title, summary, views) => element("div", {class: "side"}, element("h2", {}, title),
    element("div", {class: "mesh"}, summary.axes.length ? summary.axes.join(" × ") : "whole, one rank"),
    element("p", {class: "note"}, `${countText(summary.ranks, "rank")}, ${summary.format}, ${bytesText(summary.bytes)}`),
    ...Object.entries(views).map(([name, axes]) => element("p", {class: "note"}, `${name}: ${axes.join(" × ")}`)));
  at("sides").append(side("Source", plan.source, plan.views.source), element("div", {class: "arrow", "aria-hidden": "true"}, "→"), side("Target", plan.target, plan.views.target));
  const {totals, memory, estimate} = plan;
  const fact = (name, value, ...small) => at("facts").append(element("div", {}, element("dt", {}, name), element("dd", {}, value, ...small.map((text) => element("small", {}, text)))));
  fact("Moves", countText(totals.tensors, "tensor"), `in ${countText(totals.transfers, "transfer")}`);
  fact("Read", bytesText(totals.bytes_read), `${totals.bytes_read.toLocaleString("en")} bytes`);
  fact("Between processes", bytesText(totals.bytes_exchanged), `${totals.bytes_exchanged.toLocaleString("en")} bytes`);
  fact("Written", bytesText(totals.bytes_written), `${totals.bytes_written.toLocaleString("en")} bytes` + (totals.padding_bytes ? `, of them ${bytesText(totals.padding_bytes)} padding` : ""));
  fact("Processes", `${plan.processes}, ${countText(totals.rounds, "round")}`);
  fact("Transport", plan.transport.name, plan.transport.why);
  fact("Memory", bytesText(memory.peak_staging_bytes.reduce((a, b) => Math.max(a, b), 0)), `of tensor bytes in a process at most; ${bytesText(memory.bound_bytes)} allowed`);
  fact("Estimate", secondsText(estimate.seconds), `where storage does ${plan.storage_gigabytes_per_second} GB/s each way; ${secondsText(estimate.floor_seconds)} if all of it overlaps`);
}

function showRemarks() {
  for (const warning of plan.warnings)
    at("warning-list").append(element("li", {}, element("code", {}, warning.code), ` ${[warning.where, warning.tensor !== "" && `tensor ${needsQuotes(warning.tensor) ? shown(warning.tensor) : `'${shown(warning.tensor)}'`}`, warning.message].filter(Boolean).join(": ")}`));
  at("warnings").hidden = plan.warnings.length === 0;
  const remark = (name, texts) => { if (texts.length) at("remark-list").append(element("dt", {}, name), element("dd", {}, texts.map(shown).join(", "))); };
  remark("Ignored in the source", plan.ignored_files);
  remark("Tensors left out", plan.dropped ?? []);
  if (plan.unused_optional_rules) remark("Rules that matched nothing", [`${plan.unused_optional_rules}`]);
  remark("Axes that only make copies", plan.copy_axes);
  at("remarks").hidden = at("remark-list").children.length === 0;
  at("remarks-link").hidden = at("remarks").hidden;
}

// Groups: [kind, texts, slots, layouts by runs, pattern where numbers are folded, source patterns]
const groups = plan.groups.map(([kind, texts, slots, layouts, pattern, sources]) =>
  ({kind: plan.kinds[kind], texts, slots, layouts, pattern: pattern ?? texts[0], sources: sources ?? [], count: slots.reduce((count, slot) => count * countOf(slot), 1)}));

function layoutOf(group, member) {
  let first = 0;
  for (const [layout, count] of group.layouts) {
    if (member < first + count) return plan.layouts[layout];
    first += count;
  }
  return null;
}

function showMember(group, names, member, place) {
  const layout = layoutOf(group, member);
  if (layout === null) { place.replaceChildren(element("p", {class: "note"}, "Not drawn, to keep this page small; reshard plan --tensor NAME shows it.")); return; }
  const note = layout.tensor === names[member] ? null
    : element("p", {class: "note"}, `Cut as ${shown(layout.tensor)}, whose transfers are listed; of equal copies this tensor may be read from others.`);
  place.replaceChildren(...[note, tensorDrawing(layout, group.kind, layout.tensor)].filter(Boolean));
}

function detailOf(group, wanted) {
  const names = namesOf(group), place = element("div"), {kind} = group;
  let member = Math.max(0, names.indexOf(wanted));
  const head = element("p", {class: "note"}, `${kind.rule === null ? "No rule: on every rank" : `Rule ${kind.rule}`}. Shards ${shapeText(kind.source_shard_shape)} become ${shapeText(kind.target_shard_shape)}` +
    (kind.target_shapes.length > 1 ? `, on other ranks ${kind.target_shapes.slice(1).map(shapeText).join(", ")}` : "") + "." +
    (group.sources.length ? ` In the source: ${group.sources.map(shown).join(", ")}.` : "") +
    kind.padded_offsets.map(([dim, offsets]) => ` Padded sequences of dim ${dim} begin at ${offsets.slice(0, 16).join(", ")}${offsets.length > 16 ? " ..." : ""}.`).join(""));
  const parts = [head];
  if (names.length > 1) {
    const input = element("input", {type: "number", min: 1, max: names.length, value: member + 1, "aria-label": `Tensor of ${names.length}`}), title = element("code");
    const choose = () => { member = Math.max(0, Math.min(names.length - 1, Number(input.value) - 1 || 0)); title.textContent = shown(names[member]); showMember(group, names, member, place); };
    input.addEventListener("change", choose);
    parts.push(element("p", {class: "member"}, "Tensor ", input, ` of ${names.length.toLocaleString("en")}: `, title));
    choose();
  } else {
    showMember(group, names, member, place);
  }
  return element("div", {class: "detail"}, ...parts, place);
}

function groupItem({group, wanted}, open) {
  const {kind} = group, item = element("li");
  const button = element("button", {type: "button", class: "group", "aria-expanded": "false", onclick: () => toggle()},
    element("span", {class: "name"}, shown(group.pattern)), element("span", {class: "shape"}, `${kind.dtypes} ${shapeText(kind.shape)}`),
    element("span", {class: "cut"}, kind.cuts), element("span", {class: "count"}, countText(group.count, "tensor")));
  const toggle = () => {
    const opening = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", opening);
    if (opening) item.append(detailOf(group, wanted));
    else item.lastChild.remove();
  };
  item.append(button);
  if (open) toggle();
  return item;
}

// Groups with a name that has the text in it, and the first such name.
function search(text) {
  const found = [];
  for (const group of groups) {
    if (text === "" || group.pattern.includes(text)) { found.push({group, wanted: null}); continue; }
    if (group.slots.length === 0) continue;
    const wanted = namesOf(group).find((name) => name.includes(text));
    if (wanted !== undefined) found.push({group, wanted});
  }
  return found;
}

function showGroups(text) {
  const found = search(text);
  at("groups").replaceChildren();
  const open = found.length === 1 && groups.length > 1;
  listed(at("groups"), at("more-groups"), found, 100, (entry) => groupItem(entry, open));
  const tensors = found.reduce((sum, {group}) => sum + group.count, 0);
  at("found").textContent = text === "" ? `${countText(tensors, "tensor")}, ${countText(found.length, "line")}` : `${countText(found.length, "line")} of ${groups.length.toLocaleString("en")}`;
}

function showTensors() {
  let waiting = null;
  at("query").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => showGroups(at("query").value.trim()), 120); });
  // A link to a tensor: plan.html#tensor=NAME
  let wanted = location.hash.startsWith("#tensor=") ? location.hash.slice(8) : "";
  try { wanted = decodeURIComponent(wanted); } catch { /* a name with a % in it, written as it is */ }
  at("query").value = wanted;
  showGroups(wanted);
}

function showRanks() {
  const most = plan.ranks.reduce((a, rank) => Math.max(a, rank[4]), 1);
  const body = element("tbody");
  at("rank-table").append(element("thead", {}, element("tr", {}, ...["rank", "coordinates", "file"].map((text) => element("th", {scope: "col"}, text)),
    ...["tensors", "bytes"].map((text) => element("th", {scope: "col", class: "number"}, text)), element("th", {scope: "col"}, element("span", {"aria-hidden": "true"}, "")))), body);
  listed(body, at("more-ranks"), plan.ranks, 32, ([rank, coordinates, file, tensors, bytes]) => {
    const bar = element("span", {class: "bar"});
    bar.style.width = `${(10 * bytes / most).toFixed(3)}rem`;
    return element("tr", {}, element("td", {}, `${rank}`), element("td", {}, coordinates), element("td", {}, shown(file)), element("td", {class: "number"}, tensors.toLocaleString("en")),
      element("td", {class: "number", title: exactBytes(bytes)}, bytesText(bytes)), element("td", {class: "bar-room"}, bar));
  });
  if (plan.ranks_left) at("ranks").append(element("p", {class: "note"}, `${countText(plan.ranks_left, "further rank")}: --report json lists them.`));
}

function showTraffic() {
  const {traffic} = plan, blocks = traffic.sources_per_row > 1 || traffic.targets_per_column > 1;
  at("traffic-note").textContent = "Bytes of the source's tensors from each source rank to each target rank, whichever processes move them." +
    (blocks ? ` A row is ${countText(traffic.sources_per_row, "rank")}, a column ${countText(traffic.targets_per_column, "rank")}.` : "");
  at("traffic-map").append(...heatMap(traffic, plan.source.ranks, plan.target.ranks));
}

function showMemory() {
  const {history} = plan, bound = plan.memory.bound_bytes;
  at("memory-note").textContent = `Tensor bytes that a process holds at most, of ${bytesText(bound)} allowed` +
    (history.rounds <= 1 ? "; without lockstep rounds, for the whole run." : history.rounds_per_entry > 1 ? `, over ${history.rounds} rounds; each step is the most of ${history.rounds_per_entry} rounds.` : `, over ${history.rounds} rounds.`);
  at("memory-chart").append(...(history.series.length === 0 ? ["Nothing moves."] : history.rounds <= 1 ? memoryBars(history, bound) : memoryLines(history, bound)));
}

showHead();
showRemarks();
showTensors();
showTraffic();
showMemory();
showRanks();
