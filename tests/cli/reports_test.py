"""JSON reports of `plan`, `inspect` and `run`: whole documents for small cases."""

import json

from support import Case, snapshot
from tensors import even, iota, noise


class PlanReport(Case):
    def report(self, plan, source, *options, np=1):
        before = snapshot(self.dir)
        result = self.reshard("plan", plan, "--source", source, "--report", "json", *options, np=np)
        self.assert_exit(result, 0)
        self.assertEqual(snapshot(self.dir), before, "a dry run writes nothing")
        return result.json()

    def assert_report(self, report, expected):
        """All but what no contract fixes: the digest, why a transport was chosen, times, rounds and peaks."""
        self.assertRegex(report.pop("plan_digest"), "^[0-9a-f]{16}$")
        self.assertIsInstance(report["transport"].pop("why"), str)
        self.assertEqual(set(report["estimate"]), {"seconds", "floor_seconds"})
        for seconds in report.pop("estimate").values():
            self.assertGreaterEqual(seconds, 0)
        self.assertGreaterEqual(report["totals"].pop("rounds"), 1)
        peaks = report["memory"].pop("peak_staging_bytes")
        self.assertEqual(len(peaks), report["processes"])
        self.assertLessEqual(max(peaks), report["memory"]["bound_bytes"])
        self.assertEqual(report.pop("ignored_files", []), [])
        self.assertEqual(report, expected)

    def test_rows_from_one_rank_to_two(self):
        report = self.report(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4, 2)}), "--transport", "direct")
        self.assert_report(report, {
            "schema": "reshard.plan", "version": 1,
            "source": {"axes": [], "ranks": 1, "format": "safetensors", "bytes": 32},
            "target": {"axes": ["tp=2"], "ranks": 2, "format": "safetensors", "bytes": 32},
            "processes": 1, "transport": {"name": "direct"},
            "totals": {"tensors": 1, "transfers": 2, "bytes_read": 32, "bytes_exchanged": 0, "bytes_written": 32, "padding_bytes": 0},
            "memory": {"bound_bytes": 512 * 1024 * 1024},
            "traffic": [{"source_rank": 0, "target_rank": 0, "bytes": 16}, {"source_rank": 0, "target_rank": 1, "bytes": 16}],
            "ranks": [{"rank": 0, "coordinates": {"tp": 0}, "file": "rank-00000.safetensors", "tensors": 1, "bytes": 16},
                      {"rank": 1, "coordinates": {"tp": 1}, "file": "rank-00001.safetensors", "tensors": 1, "bytes": 16}],
            "tensors": [{"name": "w", "dtype": "f32", "shape": [4, 2], "rule": 0, "source_shard_shape": [4, 2], "target_shard_shape": [2, 2], "transfers": [
                {"source_rank": 0, "target_rank": 0, "source_box": [[0, 2], [0, 2]], "target_box": [[0, 2], [0, 2]]},
                {"source_rank": 0, "target_rank": 1, "source_box": [[2, 4], [0, 2]], "target_box": [[0, 2], [0, 2]]}]}],
            "warnings": []})

    def test_three_columns_to_two_with_a_rename_a_conversion_and_a_replica(self):
        w = iota(2, 6)
        source = self.ranks([{"a": s, "n": iota(3, dtype="I64")} for s in even(w, 1, 3)])
        plan = self.tp_plan(3, 2, ("n", None), ("a", {"1": "tp"}, {"rename": "b", "dtype": "f64"}))
        report = self.report(plan, source, "--processes", "2", "--transport", "mpi")
        transfers = [{"source_rank": 0, "target_rank": 0, "source_box": [[0, 2], [0, 2]], "target_box": [[0, 2], [0, 2]]},
                     {"source_rank": 1, "target_rank": 0, "source_box": [[0, 2], [0, 1]], "target_box": [[0, 2], [2, 3]]},
                     {"source_rank": 1, "target_rank": 1, "source_box": [[0, 2], [1, 2]], "target_box": [[0, 2], [0, 1]]},
                     {"source_rank": 2, "target_rank": 1, "source_box": [[0, 2], [0, 2]], "target_box": [[0, 2], [1, 3]]}]
        tensors = {tensor["name"]: tensor for tensor in report["tensors"]}
        self.assertEqual(list(tensors), ["b", "n"])
        self.assertEqual(tensors["b"], {"name": "b", "source_name": "a", "dtype": "f64", "source_dtype": "f32", "shape": [2, 6], "rule": 1,
                                        "source_shard_shape": [2, 2], "target_shard_shape": [2, 3], "transfers": transfers})
        self.assertEqual((tensors["n"]["source_shard_shape"], tensors["n"]["target_shard_shape"], len(tensors["n"]["transfers"])), ([3], [3], 2))
        self.assertEqual(report["processes"], 2)
        self.assertEqual(report["transport"]["name"], "mpi")
        # Two replicas of n are written; each true byte of the source is read once.
        self.assertEqual({key: report["totals"][key] for key in ("tensors", "transfers", "bytes_read", "bytes_written", "padding_bytes")},
                         {"tensors": 2, "transfers": 6, "bytes_read": 48 + 24, "bytes_written": 96 + 48, "padding_bytes": 0})
        # The traffic is in the source's dtype.
        sums = {(entry["source_rank"], entry["target_rank"]): entry["bytes"] for entry in report["traffic"]}
        self.assertEqual(sum(sums.values()), 48 + 48)
        self.assertEqual((report["source"]["bytes"], report["target"]["bytes"]), (48 + 3 * 24, 96 + 48))

    def test_equal_transfers_are_listed_once(self):
        report = self.report(self.tp_plan(0, 2, ("*", {"0": "tp"})), self.full({f"layer{i}": iota(4, 2) for i in range(3)}))
        first, *others = report["tensors"]
        self.assertEqual(len(first["transfers"]), 2)
        for tensor in others:
            self.assertEqual(tensor["same_as"], "layer0")
            self.assertNotIn("transfers", tensor)
        self.assertEqual(report["totals"]["transfers"], 6)

    def test_uneven_shards_list_every_rank(self):
        report = self.report(self.tp_plan(0, 4, ("w", {"0": {"axes": "tp", "split": "chunk"}})), self.full({"w": iota(6, 2)}))
        tensor, = report["tensors"]
        self.assertEqual(tensor["target_shard_shape"], [2, 2])
        self.assertEqual(tensor["target_shard_shapes"], [[2, 2], [2, 2], [2, 2], [0, 2]])

    def test_tensors_absent_on_a_rank(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["pp=2"]}, "tensors": [{"match": "l.*", "owner": {"pp": "$1/2"}}]})
        report = self.report(plan, self.full({"l.0": iota(2), "l.1": iota(2)}))
        self.assertEqual([tensor.get("target_shard_shapes") for tensor in report["tensors"]], [[[2], None], [None, [2]]])
        self.assertEqual([(rank["tensors"], rank["bytes"]) for rank in report["ranks"]], [(1, 8), (1, 8)])

    def test_padding_is_counted(self):
        plan = self.tp_plan(0, 2, ("w", None, {"target": {"shard": {"0": {"axes": "tp", "pad_total": 4, "size": 10}}}}))
        report = self.report(plan, self.full({"w": iota(10, 2)}))
        self.assertEqual((report["totals"]["padding_bytes"], report["totals"]["bytes_written"]), (6 * 2 * 4, 16 * 2 * 4))
        self.assertEqual(sum(entry["bytes"] for entry in report["traffic"]), 80)

    def test_narrowing_the_listing(self):
        source = self.full({"a.w": iota(4), "a.v": iota(2, 2), "b.w": iota(4)})
        plan = self.tp_plan(0, 2, ("*.w", {"0": "tp"}), ("*.v", {"1": "tp"}))
        report = self.report(plan, source, "--tensor", "a.*")
        self.assertEqual([tensor["name"] for tensor in report["tensors"]], ["a.v", "a.w"])
        self.assertEqual(report["totals"]["tensors"], 3)
        local = self.report(plan, source, "--rank", "1")["local"]
        self.assertEqual(sorted(local, key=lambda entry: entry["name"]), [
            {"name": "a.v", "shape": [2, 1], "bytes": 8, "file": "rank-00001.safetensors"},
            {"name": "a.w", "shape": [2], "bytes": 8, "file": "rank-00001.safetensors"},
            {"name": "b.w", "shape": [2], "bytes": 8, "file": "rank-00001.safetensors"}])

    def test_why_a_transport_was_chosen(self):
        """Two copies in the source, two in the target: each process writes one and reads every byte of the tensor for it."""
        source = self.ranks([{"w": iota(4)}, {"w": iota(4)}])
        plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2"]}, "target": {"axes": ["dp=2"]}, "tensors": [{"match": "w"}]})
        self.assertEqual(self.report(plan, source, "--processes", "2")["transport"],
                         {"name": "mpi", "why": "direct would read 2.00 bytes for each one that the target needs"})
        halves = self.ranks([{"w": half} for half in even(iota(4), 0, 2)], name="halves")
        self.assertEqual(self.report(self.tp_plan(2, 2, ("w", {"0": "tp"})), halves, "--processes", "2")["transport"],
                         {"name": "direct", "why": "the processes read 1.00 bytes for each one that the target needs, which is cheaper than sending them on"})

    def test_a_listing_that_nothing_matches(self):
        source = self.full({"layers.0.w": iota(4), "layers.0.v": iota(4)})
        words = ("plan", self.tp_plan(0, 2, ("**", {"0": "tp"}, {"rename": "model.$1"})), "--source", source)
        for rank in ("-1", "2", "-9223372036854775808"):
            result = self.reshard(*words, "--rank", rank)
            self.assert_refused(result, 2, "E_USAGE", words=(f"--rank {rank}: the target has ranks 0 to 1",))
        self.assert_refused(self.reshard(*words, "--rank", "one"), 2, "E_USAGE", words=("--rank", "one"))
        for pattern, said in (("model.layer.*.w", "nearest: 'model.layers.0.w'"), ("model.*.w", "`*` stops at '.' and '/': '**' in its place, as in 'model.**.w', matches 1 of them"),
                              ("layers.**", "(it has 2)"), ("re:x", "(it has 2)"), ("x*" * 64, "matches no tensor of the target (it has 2)")):
            for form in ("text", "json", "html"):
                result = self.reshard(*words, "--tensor", pattern, "--report", form)
                self.assert_refused(result, 2, "E_USAGE", words=("--tensor", pattern, said))
        self.assert_exit(self.reshard(*words, "--tensor", "model.**.w"), 0)

    def test_a_report_of_inspect_stands_for_the_checkpoint(self):
        source = self.ranks([{"w": s, "n": iota(3)} for s in even(iota(8, 2), 0, 2)])
        report = self.dir / "report.json"
        self.assert_exit(self.reshard("inspect", source, "--report", "json", "--output", report), 0)
        plan = self.tp_plan(2, 4, ("w", {"0": "tp"}), ("n", None))
        told, real = (self.report(plan, place, "--processes", "3") for place in (report, source))
        for document in (told, real):
            document.pop("plan_digest")
            document.pop("ignored_files", None)
        self.assertEqual(told, real)
        self.refuse(plan, report, 2, "E_USAGE", words=("inspect",))
        self.refuse_plan(self.tp_plan(4, 2, ("w", {"0": "tp"}), ("n", None)), report, 4, "E_MESH_WORLD")
        packed = self.tp_plan(2, 4, ("w", {"0": {"axes": "tp", "layout": "zigzag", "packed": {"cu_seqlens": "n"}}}), ("n", None))
        self.assertEqual(self.reshard("plan", packed, "--source", report).code, 4)
        for text in ("{", "[]", '{"schema": "reshard.plan", "version": 1}', report.read_text().replace('"version":1', '"version":2').replace('"version": 1', '"version": 2'),
                     report.read_text().replace('"ranks"', '"rank"'), report.read_text().replace('[0,1]', '[0,2]').replace('[0, 1]', '[0, 2]')):
            broken = self.dir / "broken.json"
            broken.write_text(text)
            self.refuse_plan(plan, broken, 4, "E_FORMAT", words=("broken.json",))
        for key, values in (("axes", (7, ["tp"], [2], ["tp=3"], ["tp=2", "tp=1"], {})), ("files", (7, ["rank-{rank}.h5"]))):
            for value in values:
                broken.write_text(json.dumps({**json.loads(report.read_text()), key: value}))
                self.refuse_plan(plan, broken, 4, "E_FORMAT", words=("broken.json", key))
        broken.write_text(json.dumps({**json.loads(report.read_text()), "axes": ["dp=1", "tp=2"]}))
        self.assert_exit(self.reshard("plan", self.tp_plan(2, 4, ("w", {"0": "tp"}), ("n", None)), "--source", broken), 0)

    def test_replicas_of_a_target_are_written_by_one_process(self):
        """Ranks 0 and 2 hold the same half: where one process writes both, it reads that half and nothing is exchanged."""
        report = {"schema": "reshard.inspect", "version": 1, "format": "safetensors", "ranks": 1, "axes": None, "files": "model.safetensors", "bytes": 1 << 26,
                  "tensors": [{"name": "w", "dtype": "f32", "stored": [[[4096, 4096], [0, 0]]], "global_shape": None}], "warnings": []}
        (self.dir / "inspect.json").write_text(json.dumps(report))
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["dp=2", "tp=2"]}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        told = self.report(plan, self.dir / "inspect.json", "--processes", "2", "--transport", "mpi")
        self.assertEqual((told["totals"]["bytes_read"], told["totals"]["bytes_exchanged"]), (1 << 26, 0))
        direct = self.report(plan, self.dir / "inspect.json", "--processes", "2", "--transport", "direct")
        self.assertEqual(direct["totals"]["bytes_read"], 1 << 26)

    def refuse_plan(self, plan, source, code, *codes, words=()):
        result = self.reshard("plan", plan, "--source", source)
        self.assert_exit(result, code)
        self.assert_error_lines(result, *codes)
        for word in words:
            self.assertIn(word, result.err)

    def test_ignored_files_are_named(self):
        source = self.full({"w": iota(4)})
        (source / "config.json").write_text("{}")
        (source / "vocab.txt").write_text("a\n")
        self.assertEqual(sorted(self.report(self.tp_plan(0, 2, ("w", {"0": "tp"})), source)["ignored_files"]), ["config.json", "vocab.txt"])

    def test_the_report_does_not_depend_on_who_makes_it(self):
        source = self.ranks([{"w": s} for s in even(iota(12, 2), 0, 4)])
        plan = self.tp_plan(4, 3, ("w", {"0": "tp"}))
        alone = self.report(plan, source, "--processes", "3")
        self.assertEqual(self.report(plan, source, np=3), alone)
        self.assertEqual(self.report(plan, source, "--processes", "3"), alone)

    def test_dropped_tensors_are_listed(self):
        result = self.reshard("plan", self.tp_plan(0, 2, ("a", {"0": "tp"}), ("b", None, {"drop": True})), "--source", self.full({"a": iota(4), "b": iota(4)}), "--report", "json")
        self.assert_exit(result, 0)
        self.assertEqual([tensor["name"] for tensor in result.json()["tensors"]], ["a"])
        self.assertIn('"b"', result.out)

    def test_text_names_tensors_and_meshes(self):
        source = self.full({"layer.<w>": iota(4)})
        plan = self.tp_plan(0, 2, ("**", {"0": "tp"}))
        text = self.reshard("plan", plan, "--source", source)
        self.assert_exit(text, 0)
        for word in ("layer.<w>", "tp=2"):
            self.assertIn(word, text.out)

    def test_text_of_equal_axes_that_cut_otherwise(self):
        source = self.ranks([{"h": iota(4), "w": iota(4), "v": iota(4)}] * 2)
        plan = self.tp_plan(2, 2, ("h", {"0": {"axes": "tp", "layout": "zigzag"}}, {"target": {"shard": {"0": "tp"}}}),
                            ("w", {"0": "tp"}, {"target": {"shard": {"0": {"axes": "tp", "segments": [4, 4]}}}}), ("v", {"0": "tp"}))
        text = self.reshard("plan", plan, "--source", source)
        self.assert_exit(text, 0)
        self.assertRegex(text.out, r"\n  h .* dim 0 tp 2 in 2 pieces -> in 1 piece +1 tensor")
        self.assertRegex(text.out, r"\n  w .* dim 0 tp 2 in 1 piece -> in 2 pieces +1 tensor")
        self.assertRegex(text.out, r"\n  v .* dim 0 tp 2 +1 tensor")
        self.assertIn("dim 0 tp 2 in 2 pieces -> in 1 piece", self.reshard("plan", plan, "--source", source, "--tensor", "h").out)

    def test_refusals_of_a_dry_run(self):
        source = self.full({"w": iota(6)})
        result = self.reshard("plan", self.tp_plan(0, 4, ("w", {"0": "tp"})), "--source", source, "--report", "json")
        self.assert_exit(result, 4)
        report = result.json()
        self.assertEqual([(error["code"], error["tensor"]) for error in report["errors"]], [("E_INDIVISIBLE", "w")])


    def test_coordinates_of_long_axes_stand_below_each_other(self):
        names = ("tensor_parallel_axis", "data_parallel_replicas", "context_parallel_ring", "expert_model_parallel")
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [f"{name}=2" for name in names]},
                          "tensors": [{"match": "w", "shard": {"0": names[0]}}]})
        text = self.reshard("plan", plan, "--source", self.full({"w": iota(8, 4)})).out
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        rank = text[text.index("\n  15 "):].splitlines()[1:5]
        self.assertEqual([line[4:].split()[0] for line in rank], [f"{name}=1" for name in names])


class InspectReport(Case):
    def test_a_full_file(self):
        source = self.full({"w": iota(4, 2, dtype="BF16"), "s": iota()})
        result = self.reshard("inspect", source, "--report", "json")
        self.assert_exit(result, 0)
        self.assertEqual(result.json(), {
            "schema": "reshard.inspect", "version": 1, "format": "safetensors", "ranks": 1, "axes": None, "files": "model.safetensors", "bytes": 20,
            "tensors": [{"name": "s", "dtype": "f32", "stored": [[[], [0, 0]]], "global_shape": None},
                        {"name": "w", "dtype": "bf16", "stored": [[[4, 2], [0, 0]]], "global_shape": None}], "warnings": []})

    def test_a_report_as_source_whose_tensor_is_stored_nowhere(self):
        report = self.reshard("inspect", self.full({"w": iota(4, 2)}), "--report", "json").json()
        report["tensors"][0]["stored"] = []
        (self.dir / "report.json").write_text(json.dumps(report))
        for shape in (None, [4, 2]):
            report["tensors"][0]["global_shape"] = shape
            result = self.reshard("plan", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", self.dir / "report.json")
            self.assert_exit(result, 4)
            self.assert_error_lines(result, "E_FORMAT")
            self.assertIn("'stored' is empty", result.err)

    def test_rank_files_with_runs_of_equal_shapes(self):
        source = self.ranks([{"w": iota(3)}, {"w": iota(3)}, {"w": iota(3)}, {"w": iota(1), "last": iota(2)}])
        for np in (1, 2):
            report = self.reshard("inspect", source, "--report", "json", np=np).json()
            self.assertEqual((report["ranks"], report["axes"], report["files"], report["bytes"]), (4, None, "rank-{rank:05}.safetensors", 48))
            self.assertEqual([(tensor["name"], tensor["stored"]) for tensor in report["tensors"]],
                             [("last", [[[2], [3, 3]]]), ("w", [[[3], [0, 2]], [[1], [3, 3]]])])

    def test_a_target_of_ours_knows_its_mesh_and_shapes(self):
        target = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4, 2)}))
        report = self.reshard("inspect", target, "--report", "json").json()
        self.assertEqual((report["axes"], report["ranks"]), (["tp=2"], 2))
        self.assertEqual(report["tensors"], [{"name": "w", "dtype": "f32", "stored": [[[2, 2], [0, 1]]], "global_shape": [4, 2]}])

    def test_a_single_file_and_text(self):
        source = self.full({"layers.0.w": iota(4, 2)})
        result = self.reshard("inspect", source / "model.safetensors")
        self.assert_exit(result, 0)
        self.assertIn("layers.0.w", result.out)
        self.assert_exit(self.reshard("inspect", self.dir / "nowhere"), 4)


class RunReport(Case):
    def test_a_run_reports_bytes_stages_and_peaks_per_process(self):
        w = noise("w", 64, 64)
        source = self.ranks([{"w": s} for s in even(w, 0, 2)])
        plan = self.tp_plan(2, 4, ("w", {"0": "tp"}))
        for np, transport in ((1, "direct"), (3, "mpi")):
            with self.subTest(processes=np):
                result = self.run_plan(plan, source, "--report", "json", "--transport", transport, np=np)
                self.assert_exit(result, 0)
                report = result.json()
                self.assertEqual((report["schema"], report["version"], report["processes"]), ("reshard.run", 1, np))
                self.assertEqual(set(report["stages"]), {"read", "pack", "exchange", "unpack", "write", "publish"})
                for key in ("bytes_read", "peak_staging_bytes", "peak_rss_bytes"):
                    self.assertEqual(len(report[key]), np, key)
                self.assertEqual(sum(report["bytes_read"]), 16384)
                self.assertEqual(report["bytes_resumed"], 0)
                self.assertGreater(report["seconds"], 0)
                self.assertGreaterEqual(report["digests_checked"], 1)
                self.assertEqual(report["totals"]["bytes_written"], 16384)

    def test_warnings_and_what_is_being_done_go_to_standard_error(self):
        source = self.ranks([{"w": s} for s in even(iota(8), 0, 2)])
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["dp=2", "pp=2"]}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        usual, quiet, verbose = (self.run_plan(plan, source, *options) for options in ((), ("--quiet",), ("--verbose",)))
        self.assertIn("notice: W_AXIS_IDLE", usual.err)
        for line in usual.err.splitlines():  # each whole on its line: this is no terminal
            self.assertRegex(line, "^(warning|notice): W_")
        self.assertTrue(any(len(line) > 80 for line in usual.err.splitlines()), usual.err)
        self.assertIn("warning: W_AXIS_IDLE", usual.err)
        self.assertNotIn("W_", usual.out)
        self.assertEqual(quiet.err, "")
        self.assertIn("plan.json: 1 rules", verbose.err)
        told = {(warning["where"], warning["message"].split(" cuts")[0]): warning for warning in self.reshard("plan", plan, "--source", source, "--report", "json").json()["warnings"]}
        self.assertEqual({said: warning.get("notice") for (_, said), warning in told.items()}, {"target axis 'dp' of size 2": True, "target axis 'pp' of size 2": None})
        self.assertGreater(len(verbose.err.splitlines()), len(usual.err.splitlines()) + 3)

    def test_files_that_record_another_mesh(self):
        rules = [{"match": "w", "shard": {"0": "tp"}}]
        first = self.convert(self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"], "format": "hdf5"}, "tensors": rules}), self.full({"w": iota(4)}))
        (first / "reshard.json").unlink()
        plan = self.plan({"reshard": 1, "source": {"axes": ["ep=2"]}, "target": {"axes": []}, "tensors": [{"match": "w", "shard": {"0": "ep"}}]})
        result = self.run_plan(plan, first)
        self.assert_exit(result, 0)
        self.assertIn("notice: W_AXES", result.err)
        self.assertIn("tp=2", result.err)

    def test_a_target_without_tensors_and_a_name_of_another_format(self):
        source = self.full({"w": iota(4)})
        empty = self.run_plan(self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "tensors": [{"match": "w", "drop": True}]}), source)
        self.assert_exit(empty, 0)
        self.assertRegex(empty.err, "warning: W_EMPTY: .*no tensor reaches the target: 1 of the source")
        for target, warned in (({"files": "x{rank}.h5"}, True), ({"files": "x{rank}.h5", "format": "hdf5"}, False), ({"files": "x{rank}"}, False)):
            result = self.run_plan(self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"], **target}, "tensors": [{"match": "w"}]}), source)
            self.assert_exit(result, 0)
            self.assertEqual("warning: W_FORMAT" in result.err, warned, result.err)

    def test_files_that_record_another_rank(self):
        rule = {"match": "w", "shard": {"0": "tp"}}
        halves = self.convert(self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"], "format": "hdf5"}, "tensors": [rule]}), self.full({"w": iota(4)}))
        (halves / "reshard.json").unlink()
        back = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": []}, "tensors": [rule]})
        self.assertNotIn("W_AXES", self.run_plan(back, halves).err)
        for one, other in (("rank-00000.h5", "kept"), ("rank-00001.h5", "rank-00000.h5"), ("kept", "rank-00001.h5")):
            (halves / one).rename(halves / other)
        result = self.run_plan(back, halves)
        self.assert_exit(result, 0)
        self.assertRegex(result.err, "notice: W_AXES: .*rank-00000.h5: records that it is of rank 1, by the plan it is of rank 0")

    def test_the_summary_counts_what_flags_excused(self):
        source = self.full({"a": iota(4), "b": iota(4), "d": iota(4)})
        plan = self.tp_plan(0, 2, ("a", {"0": "tp"}), ("b", {"0": "tp"}), ("c", {"0": "tp"}))
        result = self.run_plan(plan, source, "--allow-extra", "--allow-missing")
        self.assert_exit(result, 0)
        self.assertIn("1", result.out)
        self.assertEqual([sorted(file) for file in self.files(self.target)], [["a", "b"], ["a", "b"]])

    def test_replicas_are_read_once_over_mpi(self):
        w = noise("w", 4, 256)
        source = self.ranks([{"w": half} for half in even(w, 0, 2) for _ in range(4)])
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2", "cp=4"]}, "target": {"axes": []}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        result = self.run_plan(plan, source, "--report", "json", "--transport", "mpi", np=2)
        self.assert_exit(result, 0)
        self.assertEqual(sum(result.json()["bytes_read"]), 4096)
        self.assert_full(self.target, {"w": w})
