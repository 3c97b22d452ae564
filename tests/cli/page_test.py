"""The page of `plan --report html`: what is in it, and what a browser makes of it. What needs Chromium is skipped where there is none."""

import collections
import html.parser
import json
import re
import unittest

import chromium
from support import REPOSITORY, Case, execute, needs_plain_build
from tensors import even, iota, take

needs_chromium = unittest.skipUnless(chromium.PROGRAM, "chromium is not installed")

HOSTILE = ["</script><script>window.broken = 1</script>", "<img src=x onerror=window.broken=1>", "\"'&lt;\\", "line\nbreak\ttab", "emoji \U0001f9ea \u2028 end", "<!--", "]]>", "__proto__", "constructor"]


class Parts(html.parser.HTMLParser):
    """Start tags, and the text of every script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "input", "link"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def numbers(runs):
    return [n for first, last, step in runs for n in range(first, last + 1, step)]


def names_of(group):
    _, texts, slots, *_ = group
    names = [texts[0]]
    for slot, text in zip(slots, texts[1:]):
        names = [f"{name}{number}{text}" for name in names for number in numbers(slot)]
    return sorted(names, key=lambda name: name.encode())


class Page(Case):
    def page(self, plan, source, *options):
        result = self.reshard("plan", plan, "--source", source, "--report", "html", "--output", self.dir / "plan.html", *options, timeout=120)
        self.assert_exit(result, 0)
        self.assertEqual(result.out, "")
        return (self.dir / "plan.html").read_text(encoding="utf-8")

    def data(self, page):
        parts = Parts(page)
        self.assertEqual(parts.open, [])
        return json.loads(parts.scripts[0])

    def report(self, plan, source, *options):
        result = self.reshard("plan", plan, "--source", source, "--report", "json", *options, timeout=120)
        self.assert_exit(result, 0)
        return result.json()

    def moe(self, *options):
        result = execute(["python3", "-B", REPOSITORY / "scripts" / "make_report.py", self.dir / "moe", *options])
        self.assert_exit(result, 0)
        return self.dir / "moe" / "plan.yaml", self.dir / "moe" / "report.json"

    def small(self):
        """Cut, cut the other way, zigzag, padded, on one stage, renamed and converted, whole, a scalar, without elements: on two ranks."""
        layers = {f"layers.{i}.w": iota(8, 12) for i in range(4)}
        sides = [{**{name: part for name, value in layers.items() for part in [even(value, 0, 2)[rank]]}, "row": even(iota(6, 8), 1, 2)[rank], "norm": iota(5), "scalar": iota(), "void": even(iota(0, 4), 1, 2)[rank],
                  "seq": take(iota(16, 2), [i for i in range(16) if (i // 4 in (0, 3)) == (rank == 0)]), "v": even(iota(10, 2), 0, 2)[rank]} for rank in range(2)]
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["pp=2", "tp=2"]}, "tensors": [
            {"match": "layers.*.w", "shard": {"0": "tp"}, "owner": {"pp": "$1/4"}, "target": {"shard": {"0": None, "1": "tp"}}},
            {"match": "row", "shard": {"1": "tp"}, "rename": "moved.row", "dtype": "f64"},
            {"match": "seq", "shard": {"0": {"axes": "tp", "layout": "zigzag"}}, "target": {"shard": {"0": {"layout": "contiguous"}}}},
            {"match": "v", "shard": {"0": "tp"}, "target": {"shard": {"0": {"pad_total": 4}}}},
            {"match": "{norm,scalar}"}, {"match": "void", "shard": {"1": "tp"}}]})
        return plan, self.ranks(sides)


class Contents(Page):
    def assert_tells_the_report(self, page, report):
        """The data of the page against the JSON report of the same plan: all of it where nothing is left out for size."""
        data = self.data(page)
        for key in ("plan_digest", "source", "target", "processes", "transport", "totals", "estimate", "memory", "warnings", "ignored_files"):
            self.assertEqual(data[key], report[key], key)
        self.assertEqual([[rank["rank"], " ".join(f"{axis}={c}" for axis, c in rank["coordinates"].items()), rank["file"], rank["tensors"], rank["bytes"]] for rank in report["ranks"]], data["ranks"])
        traffic, bytes_of = data["traffic"], collections.Counter()
        for entry in report["traffic"]:
            bytes_of[entry["source_rank"] // traffic["sources_per_row"], entry["target_rank"] // traffic["targets_per_column"]] += entry["bytes"]
        self.assertEqual({(r, c): cell for r, row in enumerate(traffic["bytes"]) for c, cell in enumerate(row) if cell}, dict(bytes_of))
        history = data["history"]
        if len(history["names"]) == report["processes"]:
            self.assertEqual([max(values) for values in history["series"]], report["memory"]["peak_staging_bytes"])
        self.assertEqual(max(max(values) for values in history["series"]), max(report["memory"]["peak_staging_bytes"]))
        self.assert_tells_the_tensors(data, report["tensors"])

    def assert_tells_the_tensors(self, data, tensors):
        listed = {tensor["name"]: tensor for tensor in tensors}
        self.assertEqual(sorted(name for group in data["groups"] for name in names_of(group)), sorted(listed))
        drawn = 0
        for group in data["groups"]:
            kind, names = data["kinds"][group[0]], names_of(group)
            layouts = [layout for layout, count in group[3] for _ in range(count)]
            self.assertEqual(len(layouts), len(names))
            for name, number in zip(names, layouts):
                tensor, layout = listed[name], data["layouts"][number]
                for key in ("shape", "rule", "source_shard_shape", "target_shard_shape"):
                    self.assertEqual(kind[key], tensor[key], f"{name}: {key}")
                self.assertIn(tensor["dtype"], kind["dtypes"])
                if layout is not None and layout["tensor"] == name:
                    drawn += 1
                    transfers = listed[tensor["same_as"]]["transfers"] if "same_as" in tensor else tensor["transfers"]
                    self.assert_tells_the_transfers(layout, transfers)
        self.assertGreaterEqual(drawn, len(data["kinds"]))

    def assert_tells_the_transfers(self, layout, transfers):
        """Boxes of the page are those of the tensor: its runs lead back to those of the shards."""
        def stored(side, rank, box):
            shard = next(shard for shard in layout[side] if rank in numbers(shard["ranks"]))
            found = []
            for runs, (begin, end) in zip(shard["dims"], box):
                first, at, _ = next(run for run in runs if run[0] <= begin and end <= run[0] + run[2])
                found.append([begin - first + at, end - first + at])
            return found
        found = []
        for source, target, *ends in layout["transfers"]:
            box = list(zip(ends[::2], ends[1::2]))
            found.append({"source_rank": source, "target_rank": target, "source_box": stored("source", source, box), "target_box": stored("target", target, box)})
        self.assertEqual(len(found) + layout["transfers_left"], len(transfers))
        self.assertEqual(found, transfers[:len(found)])

    def test_the_page_tells_what_the_json_report_tells(self):
        plan, source = self.small()
        for options in ((), ("--processes", "3", "--transport", "mpi", "--memory", "1KiB")):
            with self.subTest(options=options):
                self.assert_tells_the_report(self.page(plan, source, *options), self.report(plan, source, *options))

    def test_experts_on_many_ranks(self):
        plan, source = self.moe("--layers", "16", "--experts", "16", "--hidden", "1024", "--ffn", "256", "--vocabulary", "2048",
                                "--source", "pp=2,dp=8,tp=8", "--target", "pp=4,dp=16,tp=4")
        page = self.page(plan, source, "--processes", "4")
        self.assert_tells_the_report(page, self.report(plan, source, "--processes", "4"))
        patterns = {group[4] for group in self.data(page)["groups"] if len(group) > 4}
        self.assertIn("model.layers.{0..15}.mlp.experts.{0..15}.down_proj.weight", patterns)
        # The text folds the same names.
        text = self.reshard("plan", plan, "--source", source)
        self.assert_exit(text, 0)
        for pattern in patterns:
            self.assertIn(f"  {pattern}\n" if f"  {pattern}\n" in text.out else f"  {pattern}  ", text.out)

    def test_the_page_loads_nothing_and_runs_nothing_but_its_own_script(self):
        page = self.page(*self.small())
        parts = Parts(page)
        self.assertEqual([tag for tag, _ in parts.tags if tag in ("link", "img", "iframe", "object", "embed", "base", "form")], [])
        for tag, attributes in parts.tags:
            self.assertFalse({"src", "srcset", "action", "data", "style", "onload", "onerror", "onclick"} & set(attributes), (tag, attributes))
            self.assertTrue(attributes.get("href", "#").startswith("#"), (tag, attributes))
        self.assertEqual(re.findall(r"url\(|@import|\bfetch\(|XMLHttpRequest|WebSocket|\beval\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write", page), [])
        self.assertEqual({address for address in re.findall(r"https?://[^\"'\s<]+", page)}, {"http://www.w3.org/2000/svg"})
        self.assertEqual(len(parts.scripts), 2)
        ids = [attributes["id"] for _, attributes in parts.tags if "id" in attributes]
        self.assertEqual(len(ids), len(set(ids)))
        for _, attributes in parts.tags:
            for key in ("aria-labelledby", "for"):
                self.assertIn(attributes.get(key, ids[0]), ids)

    def test_names_are_data(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        source = self.full({name: iota(4) for name in HOSTILE})
        page = self.page(plan, source)
        self.assertEqual(len(Parts(page).scripts), 2)
        self.assert_tells_the_report(page, self.report(plan, source))

    @needs_plain_build
    def test_a_hundred_thousand_tensors_stay_under_20_megabytes(self):
        entries = []
        for i in range(100_000):
            name = f"model.block_{i:06x}_{i * 2654435761 % 2**32:08x}.some_quite_long_part_of_a_name.which_does_not_fold.weight_{chr(97 + i % 26)}"
            entries.append({"name": name, "dtype": "bf16", "stored": [[[64, 64 + i % 7 * 64], [0, 0]]], "global_shape": None})
        (self.dir / "report.json").write_text(json.dumps({"schema": "reshard.inspect", "version": 1, "format": "safetensors", "ranks": 1, "axes": None, "files": None, "bytes": 0, "tensors": entries, "warnings": []}))
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=8"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        page = self.page(plan, self.dir / "report.json")
        self.assertLess(len(page.encode()), 20_000_000)
        self.assertEqual(sum(len(names_of(group)) for group in self.data(page)["groups"]), 100_000)

    def test_without_a_file_the_page_goes_to_standard_output(self):
        plan, source = self.small()
        result = self.reshard("plan", plan, "--source", source, "--report", "html")
        self.assert_exit(result, 0)
        self.assertEqual(result.out, self.page(plan, source))

    def test_the_page_is_of_a_dry_run(self):
        plan, source = self.small()
        for words in (("plan", plan, "--check"), ("plan", plan, "--source", source, "--rank", "0"), ("inspect", source), ("run", plan, "--source", source, "--target", self.dir / "t")):
            with self.subTest(words=words[0]):
                result = self.reshard(*words, "--report", "html")
                self.assert_exit(result, 2)
                self.assert_error_lines(result, "E_USAGE")
        result = self.reshard("plan", plan, "--source", source, "--report", "html", "--output", source / "plan.html")
        self.assert_exit(result, 2)


@needs_chromium
class Browser(Page):
    def browse(self, plan, source, *options, anchor="", **how):
        self.page(plan, source, *options)
        manager = chromium.Chromium(**how)
        browser = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        self.seconds = browser.open(f"{(self.dir / 'plan.html').as_uri()}{anchor}")
        return browser

    def assert_quiet(self, browser):
        self.assertEqual(browser.messages, [])
        self.assertEqual([address for address in browser.requests if not address.startswith(("file:", "about:"))], [])

    def test_what_is_shown_are_the_numbers_of_the_json_report(self):
        plan, source = self.small()
        report = self.report(plan, source)
        browser = self.browse(plan, source)
        shown = browser.value("document.querySelector('header').innerText")
        for number in (report["plan_digest"], f"{report['totals']['bytes_written']:,} bytes", f"{report['totals']['bytes_read']:,} bytes", f"{report['totals']['transfers']} transfers", report["transport"]["why"]):
            self.assertIn(number, shown)
        ranks = browser.value("[...document.querySelectorAll('#rank-table tbody tr')].map((row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent))")
        self.assertEqual(ranks, [[str(rank["rank"]), " ".join(f"{axis}={c}" for axis, c in rank["coordinates"].items()), rank["file"], str(rank["tensors"])] for rank in report["ranks"]])
        for name in ("layers.0.w", "moved.row", "seq", "v", "norm", "scalar", "void"):
            tensor = next(tensor for tensor in report["tensors"] if tensor["name"] == name)
            browser.value(f"(at('query').value = '', showGroups(''), [...document.querySelectorAll('.group')].find((button) => namesOf(groups.find((group) => shown(group.pattern) === button.querySelector('.name').textContent)).includes({json.dumps(name)})).click())")
            rows = browser.value("[...document.querySelectorAll('.detail tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
            box = lambda intervals: "[" + ", ".join(f"{begin}:{end}" for begin, end in intervals) + "]"
            self.assertEqual([[int(row[0]), int(row[1]), row[3], row[4]] for row in rows],
                             [[t["source_rank"], t["target_rank"], box(t["source_box"]), box(t["target_box"])] for t in tensor["transfers"]], name)
        self.assert_quiet(browser)

    def test_hostile_names_run_nothing(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        browser = self.browse(plan, self.full({name: iota(4) for name in HOSTILE}))
        browser.value("document.querySelectorAll('.group').forEach((button) => button.click())")
        self.assertIsNone(browser.value("window.broken"))
        self.assertEqual(browser.value("document.querySelectorAll('img').length"), 0)
        names = browser.value("[...document.querySelectorAll('.group .name')].map((name) => name.textContent)")
        escaped = [name.replace("\n", "\\n").replace("\t", "\\t").replace("\u2028", "\\u2028") for name in HOSTILE]
        self.assertEqual(sorted(names), sorted(f'"{name}"' if name.startswith('"') else name for name in escaped))
        self.assert_quiet(browser)

    def test_names_are_shown_as_in_the_text_report(self):
        names = ["", "  ", " w", "w ", '"w"', "w\u00a0", "a  b", "w\x1b\x85\u200e\u202e\u2066\u200b\ufeff", "é"]
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        browser = self.browse(plan, self.full({name: iota(4) for name in names}))
        shown = browser.value("[...document.querySelectorAll('.group .name')].map((name) => name.textContent)")
        self.assertEqual(sorted(shown), sorted(['""', '"  "', '" w"', '"w "', '""w""', '"w\u00a0"', "a  b", "w\\x1b\\u0085\\u200e\\u202e\\u2066\\u200b\\ufeff", "é"]))
        # What the browser lays out, and a user copies: blanks in a row are all there.
        self.assertIn("a  b", browser.value("[...document.querySelectorAll('.group .name')].map((name) => name.innerText)"))
        self.assert_quiet(browser)

    def cuts(self, browser, side):
        """The caption of a drawing, and where its lines are: down and across, in pixels."""
        caption, path = browser.value(f"(() => {{ const figure = document.querySelectorAll('.detail figure')[{side}]; return [figure.querySelector('figcaption').innerText, figure.querySelector('.cut-lines').getAttribute('d')]; }})()")
        return caption, [float(x) for x in re.findall(r"M([\d.]+) 0V", path)], [float(y) for y in re.findall(r"M0 ([\d.]+)H", path)]

    def test_lines_between_many_shards_leave_room_for_what_they_cut(self):
        def report(shape, ranks=1):
            stored = [[[shape[0] // ranks, *shape[1:]], [0, ranks - 1]]]
            (self.dir / "report.json").write_text(json.dumps({"schema": "reshard.inspect", "version": 1, "format": "safetensors", "ranks": ranks, "axes": None, "files": None, "bytes": 0, "warnings": [],
                                                              "tensors": [{"name": "w", "dtype": "bf16", "stored": stored, "global_shape": None}]}))
            return self.dir / "report.json"

        def opened(shape, axes, shard, ranks=1):
            plan = self.plan({"reshard": 1, "source": {"axes": [f"tp={ranks}"]}, "target": {"axes": axes}, "tensors": [{"match": "w", "shard": shard, **({} if ranks > 1 else {"source": {"shard": None}})}]})
            browser = self.browse(plan, report(shape, ranks))
            browser.value("document.querySelector('.group').getAttribute('aria-expanded') === 'true' || document.querySelector('.group').click()")
            return browser

        for shape, count, dim in (([1024, 1024], 1024, 0), ([1, 2048], 2048, 1), ([4096], 1024, 0)):
            with self.subTest(shape=shape):
                browser = opened(shape, [f"tp={count}"], {str(dim): "tp"})
                caption, down, across = self.cuts(browser, 1)
                lines, length = (across, None) if len(shape) == 2 and dim == 0 else (down, 360)
                self.assertRegex(caption, rf"{count:,} different shards on {count:,} ranks, one cut in [\d,]+ of dim {dim} drawn")
                every = int(re.search(r"one cut in ([\d,]+) of", caption)[1].replace(",", ""))
                self.assertEqual(len(lines), count // every - (0 if count % every else 1))
                self.assertGreaterEqual(min(b - a for a, b in zip(lines, lines[1:])), 5)
                self.assertEqual(self.cuts(browser, 0)[1:], ([], []))
                # Every shard can be read all the same.
                browser.value("document.querySelectorAll('.detail figure')[1].querySelector('[role=option]').focus()")
                browser.press("ArrowRight")
                self.assertIn("Target rank 1: ", browser.value("document.querySelector('.detail .readout').textContent"))
                browser.press("End")
                self.assertIn(f"Target rank {count - 1}: ", browser.value("document.querySelector('.detail .readout').textContent"))
                self.assert_quiet(browser)
        browser = opened([64, 64], ["tp=32", "ep=32"], {"0": "tp", "1": "ep"})
        caption, down, across = self.cuts(browser, 1)
        self.assertEqual((caption, len(down), len(across)), ("Target 1,024 different shards on 1,024 ranks", 31, 31))
        browser = opened([4, 6], ["tp=2"], {"0": "tp"}, ranks=4)
        self.assertEqual([len(lines) for side in (0, 1) for lines in self.cuts(browser, side)[1:]], [0, 3, 0, 1])

    def test_by_keyboard(self):
        browser = self.browse(*self.small())
        browser.value("document.getElementById('query').focus()")
        browser.press("Tab")
        self.assertIn("group", browser.value("document.activeElement.className"))
        self.assertNotEqual(browser.value("getComputedStyle(document.activeElement).outlineStyle"), "none")
        browser.press("Enter")
        self.assertEqual(browser.value("document.activeElement.getAttribute('aria-expanded')"), "true")
        for _ in range(3):  # past the number of the tensor, into the drawing of the source
            if browser.value("document.activeElement.getAttribute('role')") != "option":
                browser.press("Tab")
        first = browser.value("document.querySelector('.detail .readout').textContent")
        self.assertIn("Source rank 0", first)
        browser.press("ArrowRight")
        self.assertIn("Source rank 1", browser.value("document.querySelector('.detail .readout').textContent"))
        before = browser.value("document.querySelectorAll('.detail tbody tr').length")
        browser.press("Enter")
        after = browser.value("[...document.querySelectorAll('.detail tbody tr')].map((row) => row.cells[0].textContent)")
        self.assertLess(len(after), before)
        self.assertEqual(set(after), {"1"})
        browser.value("document.querySelector('.heat-map').focus()")
        browser.press("ArrowDown")
        self.assertRegex(browser.value("document.querySelector('#traffic-map .readout').textContent"), "^Source rank 1 to target rank 0: ")
        self.assert_quiet(browser)

    def test_search(self):
        plan, source = self.moe("--layers", "16", "--experts", "16", "--hidden", "1024", "--ffn", "256", "--vocabulary", "2048",
                                "--source", "pp=2,dp=8,tp=8", "--target", "pp=4,dp=16,tp=4")
        browser = self.browse(plan, source, "--processes", "16", "--transport", "mpi", anchor="#tensor=layers.7.mlp.experts.11.up_proj")
        self.assertEqual(browser.value("document.querySelectorAll('.group').length"), 1)
        self.assertEqual(browser.value("document.querySelector('.detail code').textContent"), "model.layers.7.mlp.experts.11.up_proj.weight")
        self.assertEqual(browser.value("search('no such name').length"), 0)
        self.assert_quiet(browser)

    def test_a_narrow_window_scrolls_only_up_and_down(self):
        plan, source = self.small()
        for dark in (False, True):
            browser = self.browse(plan, source, width=360, height=700, dark=dark)
            browser.value("document.querySelectorAll('.group').forEach((button) => button.click())")
            self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), 360)
            ground, text = browser.value("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color].map((colour) => colour.match(/\\d+/g).slice(0, 3).map(Number))")
            (self.assertLess if dark else self.assertGreater)(sum(ground), sum(text))
            self.assert_quiet(browser)

    @needs_plain_build
    def test_a_hundred_thousand_tensors_open_in_seconds(self):
        plan, source = self.moe("--layers", "256", "--experts", "128")
        browser = self.browse(plan, source, "--processes", "64")
        size = (self.dir / "plan.html").stat().st_size
        print(f"{len(json.loads(source.read_text())['tensors'])} tensors: {size} bytes, open after {self.seconds:.1f} s")
        self.assertLess(size, 20_000_000)
        self.assertLess(self.seconds, 20)
        self.assert_quiet(browser)

