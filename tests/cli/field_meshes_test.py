"""Failures that people met in other checkpoint tools, as tests: experts, pipeline stages, a second weight axis with its padding,
quantised groups. Each test is named by the id of its report; docstrings retell what went wrong there.
"""

from support import Case, snapshot
from tensors import PAD, Tensor, even, iota, noise, take, tensor


class Meshes(Case):
    def mesh_plan(self, source, target, *rules, **top):
        def side(axes):
            return axes if isinstance(axes, dict) else {"axes": list(axes)}
        return self.plan({"reshard": 1, "source": side(source), "target": side(target), "tensors": list(rules), **top})


def padded(value, rows, fill=-999.0):
    """The matrix with rows of `fill` below it."""
    width = value.shape[1]
    return Tensor("F32", (rows, width), value.data + tensor("F32", (rows - value.shape[0], width), [fill] * ((rows - value.shape[0]) * width)).data)


class Experts(Meshes):
    def test_MOE_1(self):
        """Each expert rank numbers its experts from 0, so that names collide and only one rank's experts survive."""
        experts = [tensor("F32", (2, 2), [number] * 4) for number in range(4)]
        source = self.ranks([{"experts.0.w": experts[2 * ep], "experts.1.w": experts[2 * ep + 1]} for ep in (0, 1)])
        local = {"match": "experts.*.w", "owner": {"ep": {"index": "$1", "count": 4, "numbering": "local"}}}
        self.assert_full(self.convert_everywhere(self.mesh_plan(["ep=2"], [], local), source), {f"experts.{i}.w": experts[i] for i in range(4)})
        self.assert_files(self.convert_everywhere(self.mesh_plan(["ep=2"], ["ep=4"], local), source), [{"experts.0.w": expert} for expert in experts])
        self.refuse(self.mesh_plan(["ep=2"], [], {"match": "experts.*.w", "owner": {"ep": "$1/4"}}), source, 4, "E_MISSING", words=("experts.",))

    def test_MOE_2(self):
        """Only one slice of each expert was saved, and nothing complained."""
        experts = {f"experts.{i}.fc2": iota(4, 8, first=100 * i) for i in range(4)}
        files = [{name: even(experts[name], 1, 2)[etp] for name in (f"experts.{2 * ep}.fc2", f"experts.{2 * ep + 1}.fc2")} for ep in (0, 1) for etp in (0, 1)]
        rule = {"match": "experts.*.fc2", "view": "expert", "owner": {"ep": "$1/4"}, "shard": {"1": "etp"}}
        plan = self.mesh_plan({"axes": ["tp=4"], "views": {"expert": ["ep=2", "etp=2"]}}, [], rule)
        source = self.ranks(files)
        target = self.convert_everywhere(plan, source)
        self.assert_full(target, experts)
        (source / "rank-00003.safetensors").unlink()
        self.refuse(plan, source, 4, "E_MISSING", words=("rank-00003.safetensors", "rank 3 of 4", "in view 'expert' ep=1 etp=1",
                                                         "holds 'experts.*.fc2' (tensors[0]) with $1 = 2 to 3 of axis ep, elements 4 to 7 of dim 1"))

    def test_MOE_3(self):
        """Experts in one grouped tensor."""
        w = iota(4, 2, 3)
        rule = {"match": "experts.down_proj", "shard": {"0": "ep"}}
        target = self.convert_everywhere(self.mesh_plan([], ["ep=2"], rule), self.full({"experts.down_proj": w}))
        self.assert_files(target, [{"experts.down_proj": half} for half in even(w, 0, 2)])

    def test_an_expert_that_no_file_has(self):
        """A gap among the experts of a layer is refused from files, from a report of them and from a manifest; a layer without experts has none."""
        experts = {f"layers.{layer}.experts.{i}.{part}": iota(2, first=i) for layer in (1, 3) for i in range(4) for part in ("w1", "w2")}
        norms = {f"layers.{layer}.norm": iota(2) for layer in range(4)}
        rules = [{"match": "layers.*.experts.*.*", "owner": {"ep": "$2/4", "pp": "$1/4"}}, {"match": "layers.*.norm"}]
        plan = self.mesh_plan([], ["pp=2", "ep=2"], *rules)
        self.convert(plan, self.full({**experts, **norms}, "whole"))
        words = ("'layers.3.experts.2.w1'", "no rank stores it", "'ep'", "$2 from 0 to 3", "lack 2: 'layers.3.experts.2.w1', 'layers.3.experts.2.w2';", "and 1 more tensor ")
        source = self.full({**{name: value for name, value in experts.items() if not name.startswith("layers.3.experts.2.")}, **norms})
        self.refuse(plan, source, 4, "E_MISSING", words=words)
        report = self.dir / "inspect.json"
        self.assert_exit(self.reshard("inspect", source, "--report", "json", "--output", report), 0)
        result = self.reshard("plan", plan, "--source", report)
        self.assert_exit(result, 4)
        self.assert_error_lines(result, "E_MISSING")
        self.assertIn("'layers.3.experts.2.w1'", result.err)
        dropping = self.mesh_plan([], ["tp=2"], {"match": "layers.3.experts.2.*", "drop": True}, {"match": "**"})
        with_manifest = self.convert(dropping, self.dir / "whole")
        self.refuse(self.plan({"reshard": 1, "target": {"axes": ["pp=2", "ep=2"]}, "tensors": [
            {"match": "layers.*.experts.*.*", "target": {"owner": {"ep": "$2/4", "pp": "$1/4"}}}, {"match": "layers.*.norm"}]}), with_manifest, 4, "E_MISSING", words=words)

    def test_a_count_of_more_experts_than_there_are(self):
        source = self.full({f"experts.{i}.w": iota(2, first=i) for i in range(4)})
        self.refuse(self.mesh_plan([], ["ep=2"], {"match": "experts.*.w", "owner": {"ep": "$1/8"}}), source, 4, "E_MISSING",
                    words=("'experts.4.w'", "from 0 to 7", "lack 4 to 7", "correct the count"), options=("--allow-missing",))


class Stages(Meshes):
    def test_PPL_1(self):
        """The layers beyond an even split were dropped without a message."""
        layers = {f"layers.{i}.w": tensor("F32", (1,), (i,)) for i in range(10)}
        source = self.full(layers)
        for stages, split in ((3, [4, 3, 3]), (4, [3, 3, 2, 2])):
            rule = {"match": "layers.*.w", "owner": {"pp": {"index": "$1", "split": split}}}
            target = self.convert_everywhere(self.mesh_plan([], [f"pp={stages}"], {"match": "layers.*.w", "target": {"owner": rule["owner"]}}), source)
            first, files = 0, []
            for count in split:
                files.append({f"layers.{i}.w": layers[f"layers.{i}.w"] for i in range(first, first + count)})
                first += count
            self.assert_files(target, files)
            back = self.convert_everywhere(self.mesh_plan([f"pp={stages}"], [], {"match": "layers.*.w", "source": {"owner": rule["owner"]}}), target)
            self.assert_full(back, layers)
        self.refuse(self.mesh_plan([], ["pp=3"], {"match": "layers.*.w", "owner": {"pp": "$1/10"}}), source, 3, "E_OWNER", words=("10", "3", "split"))

    def test_TIE_1(self):
        """With several stages a tied embedding has a copy of its own on the last."""
        embed, layers = iota(4, 2), [iota(2, first=10), iota(2, first=20)]
        rules = [{"match": "embed"}, {"match": "layers.*.w", "owner": {"pp": "$1/2"}}]
        two = [{"embed": embed, "layers.0.w": layers[0]}, {"embed": embed, "layers.1.w": layers[1]}]
        one = {"embed": embed, "layers.0.w": layers[0], "layers.1.w": layers[1]}
        self.assert_files(self.convert_everywhere(self.mesh_plan([], ["pp=2"], *rules), self.full(one, name="one")), two)
        self.assert_full(self.convert_everywhere(self.mesh_plan(["pp=2"], [], *rules), self.ranks(two)), one)
        two[1]["embed"] = iota(4, 2, first=1)
        result = self.run_plan(self.mesh_plan(["pp=2"], [], *rules), self.ranks(two, name="changed"), "--check-replicas")
        self.assert_exit(result, 4)
        self.assert_error_lines(result, "E_REPLICA")

    def test_first_and_last_stage(self):
        model = {"embedding.w": iota(2), "layers.0.w": iota(2, first=10), "layers.1.w": iota(2, first=20), "norm": iota(2, first=30), "tied": iota(3)}
        rules = [{"match": "embedding.w", "owner": {"pp": "0/2"}}, {"match": "norm", "owner": {"pp": "1/2"}}, {"match": "layers.*.w", "owner": {"pp": "$1/2"}},
                 {"match": "tied", "owner": {"pp": {"index": [0, 1], "count": 2}}}]
        target = self.convert_everywhere(self.mesh_plan([], ["pp=2"], *rules), self.full(model))
        self.assert_files(target, [{name: model[name] for name in names} for names in (("embedding.w", "layers.0.w", "tied"), ("layers.1.w", "norm", "tied"))])


class SecondAxis(Meshes):
    def test_GTP_1(self):
        """Alignment padding was counted as data, so that every rank above 0 read its neighbour's rows."""
        w = iota(10, 2)
        rule = {"match": "w", "shard": {"0": {"axes": ["tp", "gtp"], "pad_to": 4, "size": 10}}}
        shards = {(0, 0): take(w, range(4)), (0, 1): padded(take(w, [4]), 4), (1, 0): take(w, range(5, 9)), (1, 1): padded(take(w, [9]), 4)}
        source = self.ranks([{"w": shards[tp, gtp]} for gtp in (0, 1) for tp in (0, 1)])
        self.assert_full(self.convert_everywhere(self.mesh_plan(["gtp=2", "tp=2"], [], rule), source), {"w": w})
        back = self.convert_everywhere(self.mesh_plan([], ["gtp=2", "tp=2"], rule), self.full({"w": w}, name="full"))
        zero = [take(w, range(4)), take(w, range(5, 9)), take(w, [4, PAD, PAD, PAD]), take(w, [9, PAD, PAD, PAD])]
        self.assert_files(back, [{"w": shard} for shard in zero])
        fill = {"match": "w", "shard": {"0": {"axes": ["tp", "gtp"], "pad_to": 4, "size": 10, "fill": "last"}}}
        back = self.convert_everywhere(self.mesh_plan([], ["gtp=2", "tp=2"], fill), self.dir / "full")
        self.assert_files(back, [{"w": shard} for shard in (take(w, range(4)), take(w, range(5, 9)), take(w, [4, 4, 4, 4]), take(w, [9, 9, 9, 9]))])

    def test_GTP_2(self):
        """For row-parallel weights the two cuts are perpendicular."""
        w = iota(8, 8)
        rule = {"match": "proj", "shard": {"1": "tp", "0": "gtp"}}
        files = [{"proj": even(even(w, 0, 2)[gtp], 1, 2)[tp]} for gtp in (0, 1) for tp in (0, 1)]
        self.assertEqual(files[1]["proj"], take(w, range(4), range(4, 8)))
        four = self.convert_everywhere(self.mesh_plan(["gtp=2", "tp=2"], ["tp=4"], rule), self.ranks(files))
        self.assert_files(four, [{"proj": part} for part in even(w, 1, 4)])
        rows = self.convert_everywhere(self.mesh_plan(["tp=4"], ["gtp=4"], rule), four)
        self.assert_files(rows, [{"proj": part} for part in even(w, 0, 4)])

    def test_GTP_3(self):
        """Tensors not cut by the second axis were claimed by all its peers, or by nobody."""
        norm, w = iota(8), iota(8, 2)
        rules = [{"match": "final_norm"}, {"match": "w", "shard": {"0": ["tp", "gtp"]}}]
        files = [{"final_norm": norm, "w": even(even(w, 0, 2)[tp], 0, 2)[gtp]} for _ in (0, 1) for gtp in (0, 1) for tp in (0, 1)]
        source = self.ranks(files)
        mesh = ["cp=2", "gtp=2", "tp=2"]
        self.assert_full(self.convert_everywhere(self.mesh_plan(mesh, [], *rules), source), {"final_norm": norm, "w": w})
        target = self.convert_everywhere(self.mesh_plan(mesh, ["gtp=2", "tp=4"], *rules), source)
        self.assert_files(target, [{"final_norm": norm, "w": even(even(w, 0, 4)[tp], 0, 2)[gtp]} for gtp in (0, 1) for tp in range(4)])

    def test_GTP_4(self):
        """Settings stored in the source overwrote the target that was asked for."""
        w = iota(16, 2)
        rule = {"match": "w", "shard": {"0": ["tp", "gtp"]}}
        recorded = self.convert(self.mesh_plan([], ["tp=1"], {"match": "w", "shard": {"0": "tp"}}), self.full({"w": w}))
        target = self.convert_everywhere(self.mesh_plan(["tp=1"], ["gtp=2", "tp=4"], rule), recorded)
        self.assert_files(target, [{"w": even(even(w, 0, 4)[tp], 0, 2)[gtp]} for gtp in (0, 1) for tp in range(4)])

    def test_GTP_5(self):
        """A disabled axis must change nothing."""
        w = iota(8, 2)
        source = self.full({"w": w})
        with_axis = self.convert(self.mesh_plan(["gtp=1", "tp=1"], ["gtp=1", "tp=2"], {"match": "w", "shard": {"0": ["tp", "gtp"]}}), source)
        without = self.convert(self.mesh_plan(["tp=1"], ["tp=2"], {"match": "w", "shard": {"0": "tp"}}), source)
        def tensors_of(folder):
            return {name: digest for name, digest in snapshot(folder).items() if name != "reshard.json"}
        self.assertEqual(tensors_of(with_axis), tensors_of(without))
        again = self.convert(self.mesh_plan(["tp=2"], ["tp=2"], {"match": "w", "shard": {"0": "tp"}}), without)
        self.assertEqual(tensors_of(again), tensors_of(without))

    def test_OPT_1(self):
        """Flattened buffers padded for one data parallel size could not be loaded with another."""
        values = iota(10)
        rule = {"match": "exp_avg", "shard": {"0": {"axes": "dp", "size": 10, "pad_to": 1}}}
        four = [take(values, range(0, 3)), take(values, range(3, 6)), take(values, range(6, 9)), Tensor("F32", (3,), take(values, [9]).data + b"\xff" * 8)]
        three = self.convert_everywhere(self.mesh_plan(["dp=4"], ["dp=3"], rule), self.ranks([{"exp_avg": part} for part in four]))
        self.assert_files(three, [{"exp_avg": part} for part in (take(values, range(4)), take(values, range(4, 8)), take(values, [8, 9, PAD, PAD]))])
        five = self.convert_everywhere(self.mesh_plan(["dp=3"], ["dp=5"], rule), three)
        self.assert_files(five, [{"exp_avg": part} for part in even(values, 0, 5)])


class Groups(Meshes):
    def test_QNT_1(self):
        """Readers without FP8 refuse the file or misjudge sizes."""
        model = {"w": noise("w", 4, 2, dtype="F8_E4M3"), "v": noise("v", 4, dtype="F8_E5M2")}
        rule = {"match": "*", "shard": {"0": "tp"}}
        middle = self.convert_everywhere(self.mesh_plan([], ["tp=2"], rule), self.full(model))
        self.assert_files(middle, [{name: even(value, 0, 2)[rank] for name, value in model.items()} for rank in (0, 1)])
        self.assertEqual({name: len(value.data) for name, value in self.files(middle)[0].items()}, {"w": 4, "v": 2})
        hdf5 = self.convert_everywhere(self.mesh_plan(["tp=2"], ["tp=2"], rule), middle, "--target-format", "hdf5")
        self.assert_full(self.convert_everywhere(self.mesh_plan(["tp=2"], [], rule), hdf5, "--target-format", "safetensors"), model)

    def test_QNT_2(self):
        """Block scales were rounded apart from their weight."""
        rule = {"match": "w", "members": {"weight": "out in", "scale": "out/4 in/4"}, "shard": {"in": "tp"}}
        weight, scale = noise("w", 4, 8, dtype="F8_E4M3"), iota(1, 2)
        two = self.convert_everywhere(self.mesh_plan([], ["tp=2"], rule), self.full({"w.weight": weight, "w.scale": scale}))
        self.assert_files(two, [{"w.weight": even(weight, 1, 2)[rank], "w.scale": even(scale, 1, 2)[rank]} for rank in (0, 1)])
        self.refuse(self.mesh_plan([], ["tp=2"], rule), self.full({"w.weight": noise("x", 4, 6, dtype="F8_E4M3"), "w.scale": scale}, name="ragged"), 4,
                    "E_UNIT_SPLIT|E_INDIVISIBLE")
        self.assert_full(self.convert_everywhere(self.mesh_plan(["tp=2"], [], rule), two), {"w.weight": weight, "w.scale": scale})

    def test_QNT_3(self):
        """Group scales of a row-parallel weight were not cut with it."""
        rule = {"match": "w", "members": {"weight": "out in", "scale": "out in/32"}, "shard": {"in": "tp"}}
        model = {"w.weight": noise("w", 4, 64, dtype="F8_E4M3"), "w.scale": noise("s", 4, 2, dtype="F8_E8M0")}
        two = self.convert_everywhere(self.mesh_plan([], ["tp=2"], rule), self.full(model))
        self.assert_files(two, [{name: even(value, 1, 2)[rank] for name, value in model.items()} for rank in (0, 1)])
        self.assert_full(self.convert_everywhere(self.mesh_plan(["tp=2"], [], rule), two), model)

    def test_QNT_4(self):
        """Packed int4 words were cut by the unpacked count, or zeros and scales along the wrong axis."""
        def model(out):
            return {"l.qweight": iota(2, out, dtype="I32"), "l.qzeros": iota(2, out // 8, dtype="I32"), "l.scales": iota(2, out, dtype="F16"), "l.g_idx": iota(16, dtype="I32")}
        def rule(dim):
            return {"match": "l", "members": {"qweight": "in/8 out", "qzeros": "in/8 out/8", "scales": "in/8 out", "g_idx": "in"}, "shard": {dim: "tp"}}
        columns = self.convert_everywhere(self.mesh_plan([], ["tp=2"], rule("out")), self.full(model(16)))
        self.assert_files(columns, [{name: value if name == "l.g_idx" else even(value, 1, 2)[rank] for name, value in model(16).items()} for rank in (0, 1)])
        rows = self.convert_everywhere(self.mesh_plan([], ["tp=2"], rule("in")), self.full(model(16)))
        self.assert_files(rows, [{name: even(value, 0, 2)[rank] for name, value in model(16).items()} for rank in (0, 1)])
        self.refuse(self.mesh_plan([], ["tp=2"], rule("out")), self.full(model(24), name="odd"), 4, "E_UNIT_SPLIT|E_INDIVISIBLE")
