"""Failures that people met in other checkpoint tools, as tests: how tensors are cut and put together. Each test is named by the id
of its report; docstrings retell what went wrong there.
"""

from support import Case, read_safetensors, snapshot, write_safetensors
from tensors import Tensor, by_segments, even, iota, labelled_rows, noise, pieces, take, tensor


class Layouts(Case):
    def cut(self, tensors, size, *rules):
        """tp=1 to tp=size: the files."""
        return self.files(self.convert_everywhere(self.tp_plan(0, size, *rules), self.full(tensors, name=f"cut-{self.targets}")))

    def joined(self, files, *rules, size=0):
        """tp=len(files) to one file (or to tp=size)."""
        target = self.convert_everywhere(self.tp_plan(len(files), size, *rules), self.ranks(files, name=f"join-{self.targets}"))
        return self.files(target) if size > 1 else read_safetensors(target / "model.safetensors")


class Attention(Layouts):
    def test_QKV_1(self):
        """KV heads divided by tensor parallel size became 0."""
        w = iota(24, 4)
        files = self.cut({"qkv.weight": w}, 4, ("qkv.weight", {"0": {"axes": "tp", "unit": 2}}))
        self.assertEqual(files, [{"qkv.weight": take(w, range(6 * r, 6 * r + 6))} for r in range(4)])
        self.assertEqual(self.joined(files, ("qkv.weight", {"0": {"axes": "tp", "unit": 2}})), {"qkv.weight": w})
        self.refuse(self.tp_plan(0, 4, ("qkv.weight", {"0": {"axes": "tp", "unit": 12}})), self.full({"qkv.weight": w}), 4, "E_INDIVISIBLE", words=("2", "4"))

    def test_QKV_2(self):
        """More ranks than KV heads: heads repeat, and collapse again on the way back."""
        k = iota(4, 4)
        rule = ("k_proj.weight", {"0": {"axes": "tp", "unit": 2, "fallback": "repeat", "size": 4}})
        files = self.cut({"k_proj.weight": k}, 4, rule)
        heads = even(k, 0, 2)
        self.assertEqual(files, [{"k_proj.weight": heads[r // 2]} for r in range(4)])
        self.assertEqual(self.joined(files, rule), {"k_proj.weight": k})
        self.assertEqual(self.joined(files, rule, size=2), [{"k_proj.weight": head} for head in heads])
        self.refuse(self.tp_plan(0, 4, ("k_proj.weight", {"0": {"axes": "tp", "unit": 2}})), self.full({"k_proj.weight": k}), 4, "E_INDIVISIBLE")
        self.refuse(self.tp_plan(4, 1, ("k_proj.weight", {"0": {"axes": "tp", "unit": 2, "fallback": "repeat"}})), self.ranks(files), 4, "E_PAD")

    def test_QKV_3(self):
        """The one K/V head of a multi-query model was concatenated."""
        kv = iota(2, 4)
        rule = ("kv.weight", None)
        self.assertEqual(self.joined([{"kv.weight": kv}] * 2, rule), {"kv.weight": kv})
        self.assertEqual(self.joined([{"kv.weight": kv}] * 2, rule, size=4), [{"kv.weight": kv}] * 4)
        flipped = Tensor("F32", (2, 4), kv.data[:-1] + bytes([kv.data[-1] ^ 1]))
        result = self.run_plan(self.tp_plan(2, 1, rule), self.ranks([{"kv.weight": kv}, {"kv.weight": flipped}]), "--check-replicas")
        self.assert_exit(result, 4)
        self.assert_error_lines(result, "E_REPLICA")
        for word in ("'kv.weight'", "rank-00000.safetensors", "rank-00001.safetensors"):
            self.assertIn(word, result.err)

    def test_QKV_5(self):
        """A block-ordered fused weight was cut contiguously."""
        w = iota(16, 1)
        files = self.cut({"qkv": w}, 2, ("qkv", {"0": {"axes": "tp", "segments": [8, 4, 4]}}))
        self.assertEqual([file["qkv"].numbers() for file in files], [(0, 1, 2, 3, 8, 9, 12, 13), (4, 5, 6, 7, 10, 11, 14, 15)])

    def test_QKV_6(self):
        """Cutting by raw rows splits a head; the cut follows whole KV groups."""
        q, k, o = iota(32, 4), iota(16, 4), iota(4, 32)
        model = {"q_proj": q, "k_proj": k, "o_proj": o}
        def rules(split):
            return [(name, {dim: {"axes": "tp", "unit": unit, **split}}) for name, dim, unit in (("q_proj", "0", 4), ("k_proj", "0", 2), ("o_proj", "1", 4))]
        files = self.cut(model, 3, *rules({"split": "balanced"}))
        self.assertEqual(files, [{"q_proj": a, "k_proj": b, "o_proj": c} for a, b, c in
                                 zip(pieces(q, 0, [12, 12, 8]), pieces(k, 0, [6, 6, 4]), pieces(o, 1, [12, 12, 8]))])
        self.refuse(self.tp_plan(0, 3, *rules({})), self.full(model), 4, "E_INDIVISIBLE", words=("8", "3"))

    def test_QKV_7(self):
        """An impossible head configuration passed validation."""
        for nkv, words in ((5, ("32", "5")), (0, ("32", "0"))):
            plan = self.plan({"reshard": 1, "vars": {"nq": 32, "nkv": nkv, "d": 2}, "source": {"axes": []}, "target": {"axes": ["tp=2"]},
                              "tensors": [{"match": "q", "shard": {"0": {"axes": "tp", "unit": "${nq/nkv*d}"}}}]})
            self.refuse(plan, self.full({"q": iota(64, 2)}), 3, "E_SCHEMA", words=words)
        plan = self.plan({"reshard": 1, "vars": {"nq": 8, "nkv": 4, "d": 2}, "source": {"axes": []}, "target": {"axes": ["tp=3"]},
                          "tensors": [{"match": "q", "shard": {"0": {"axes": "tp", "unit": "${nq/nkv*d}"}}}]})
        self.refuse(plan, self.full({"q": iota(16, 2)}), 4, "E_INDIVISIBLE", words=("4", "3"))


class GateAndUp(Layouts):
    def test_GLU_1(self):
        """Plain concatenation interleaves the halves of a fused gate/up weight."""
        rows = [f"g{i}" for i in range(6)] + [f"u{i}" for i in range(6)]
        full = {"fc1.weight": labelled_rows(rows, 2), "fc1.bias": Tensor("F32", (12,), labelled_rows(rows, 1).data)}
        two = [[f"g{i}" for i in half] + [f"u{i}" for i in half] for half in ((0, 1, 2), (3, 4, 5))]
        files = [{"fc1.weight": labelled_rows(labels, 2), "fc1.bias": Tensor("F32", (6,), labelled_rows(labels, 1).data)} for labels in two]
        rule = ("fc1.*", {"0": {"axes": "tp", "segments": [6, 6]}})
        self.assertEqual(self.joined(files, rule), full)
        three = [[f"g{i}" for i in third] + [f"u{i}" for i in third] for third in ((0, 1), (2, 3), (4, 5))]
        self.assertEqual(self.joined(files, rule, size=3), [{"fc1.weight": labelled_rows(labels, 2), "fc1.bias": Tensor("F32", (4,), labelled_rows(labels, 1).data)}
                                                            for labels in three])

    def test_GLU_2(self):
        """A second cut by data parallel was re-ordered as if only tensor parallel existed."""
        full = labelled_rows([f"g{i}" for i in range(8)] + [f"u{i}" for i in range(8)], 2)
        held = {(0, 0): "g0 g1 g2 g3", (0, 1): "u0 u1 u2 u3", (1, 0): "g4 g5 g6 g7", (1, 1): "u4 u5 u6 u7"}  # (tp, dp)
        files = [{"fc1": labelled_rows(held[tp, dp].split(), 2)} for dp in (0, 1) for tp in (0, 1)]
        rule = {"match": "fc1", "shard": {"0": {"axes": ["tp", "dp"], "segments": [8, 8]}}}
        mesh, one = {"axes": ["dp=2", "tp=2"]}, {"axes": []}
        target = self.convert_everywhere(self.plan({"reshard": 1, "source": mesh, "target": one, "tensors": [rule]}), self.ranks(files))
        self.assert_full(target, {"fc1": full})
        back = self.convert_everywhere(self.plan({"reshard": 1, "source": one, "target": mesh, "tensors": [rule]}), self.full({"fc1": full}, name="full"))
        self.assert_files(back, files)

    def test_GLU_3(self):
        """The order was right for the base weight and wrong for the adapter of the same layer."""
        full = labelled_rows(["g0", "g1", "g2", "g3", "u0", "u1", "u2", "u3"], 2)
        model = {"fc1.weight": full, "fc1.adapter.linear_out.weight": full}
        files = self.cut(model, 2, ("fc1.**weight", {"0": {"axes": "tp", "segments": [4, 4]}}))
        halves = [labelled_rows(["g0", "g1", "u0", "u1"], 2), labelled_rows(["g2", "g3", "u2", "u3"], 2)]
        self.assertEqual(files, [dict.fromkeys(model, half) for half in halves])
        self.refuse(self.tp_plan(0, 2, ("fc1.weight", {"0": {"axes": "tp", "segments": [4, 4]}})), self.full(model), 4, "E_TENSOR_UNMATCHED",
                    words=("fc1.adapter.linear_out.weight",))


class Sections(Layouts):
    def test_SSM_1(self):
        """Mamba's fused input projection was treated as one block."""
        model = {"in_proj": iota(16, 2), "conv1d": iota(8, 1)}
        rules = [("in_proj", {"0": {"axes": "tp", "segments": [4, 4, 2, 2, 4]}}), ("conv1d", {"0": {"axes": "tp", "segments": [4, 2, 2]}})]
        files = self.cut(model, 2, *rules)
        self.assertEqual([[row // 2 for row in map(int, file["in_proj"].numbers()[::2])] for file in files],
                         [[0, 1, 4, 5, 8, 10, 12, 13], [2, 3, 6, 7, 9, 11, 14, 15]])
        self.assertEqual([file["conv1d"].numbers() for file in files], [(0, 1, 4, 6), (2, 3, 5, 7)])
        self.assertEqual(self.joined(files, *rules), model)

    def test_segments_with_units_and_repeats_of_their_own(self):
        w = iota(12, 1)
        rule = ("qkv", {"0": {"axes": "tp", "unit": 2, "segments": [8, {"size": 2, "fallback": "repeat"}, {"size": 2, "fallback": "repeat"}]}})
        files = self.cut({"qkv": w}, 4, rule)
        self.assertEqual([file["qkv"].numbers() for file in files], [(2 * r, 2 * r + 1, 8, 9, 10, 11) for r in range(4)])
        self.assertEqual(self.joined(files, rule), {"qkv": w})


class Replicas(Layouts):
    def test_REP_1(self):
        """A row-parallel bias was summed, averaged or sliced."""
        weight, bias = iota(4, 8), tensor("F32", (4,), (1, 2, 3, 4))
        rules = [("proj.weight", {"1": "tp"}), ("proj.bias", None)]
        files = [{"proj.weight": half, "proj.bias": bias} for half in even(weight, 1, 2)]
        self.assertEqual(self.joined(files, *rules), {"proj.weight": weight, "proj.bias": bias})
        self.assertEqual(self.cut({"proj.weight": weight, "proj.bias": bias}, 4, *rules), [{"proj.weight": part, "proj.bias": bias} for part in even(weight, 1, 4)])

    def test_REP_1_as_a_projection(self):
        weight, bias = iota(4, 8), tensor("F32", (4,), (1, 2, 3, 4))
        def side(size):
            return {"axes": [f"tp={size}"]}
        rule = {"match": "proj", "projection": "row"}
        files = [{"proj.weight": half, "proj.bias": bias} for half in even(weight, 1, 2)]
        target = self.convert_everywhere(self.plan({"reshard": 1, "source": side(2), "target": side(1), "tensors": [rule]}), self.ranks(files))
        self.assert_full(target, {"proj.weight": weight, "proj.bias": bias})

    def test_REP_2(self):
        """Which of the context parallel copies is read, which is written?"""
        w = iota(4, 2)
        files = [{"w": half} for half in even(w, 0, 2) for _ in range(4)]
        source = self.ranks(files)
        mesh = {"axes": ["tp=2", "cp=4"]}
        rule = {"match": "w", "shard": {"0": "tp"}}
        def plan(target):
            return self.plan({"reshard": 1, "source": mesh, "target": target, "tensors": [rule]})
        self.assert_full(self.convert_everywhere(plan({"axes": []}), source), {"w": w})
        self.assert_files(self.convert_everywhere(plan({"axes": ["tp=4", "cp=2"]}), source), [{"w": quarter} for quarter in even(w, 0, 4) for _ in range(2)])
        once = self.convert_everywhere(plan({"axes": ["tp=2", "cp=3"], "files": "tp{tp}.safetensors"}), source)
        self.assert_files(once, [{"w": half} for half in even(w, 0, 2)], "tp{}.safetensors")
        result = self.run_plan(plan({"axes": []}), source, "--transport", "mpi", "--report", "json", np=2)
        self.assertEqual(sum(result.json()["bytes_read"]), 32)
        changed = dict(files[6])
        changed["w"] = Tensor("F32", (2, 2), bytes([files[6]["w"].data[0] ^ 1]) + files[6]["w"].data[1:])
        files[6] = changed
        result = self.run_plan(plan({"axes": []}), self.ranks(files, name="changed"), "--check-replicas", np=2)
        self.assert_exit(result, 4)
        self.assert_error_lines(result, "E_REPLICA")
        self.assertIn("rank-00006.safetensors", result.err)

    def test_TIE_2(self):
        """The output of a tied model gained a head."""
        embed, norm = iota(4, 2), iota(2)
        files = [{"embed": half, "norm": norm} for half in even(embed, 0, 2)]
        joined = self.joined(files, ("embed", {"0": "tp"}), ("norm", None))
        self.assertEqual(joined, {"embed": embed, "norm": norm})
        self.assertEqual(sum(len(value.data) for value in joined.values()), 40)


class Order(Layouts):
    def test_ORD_1(self):
        """Shard files sorted as text put rank 10 before rank 2."""
        w = iota(12, 1)
        source = self.ranks([{"w": row} for row in even(w, 0, 12)], template="mp_rank_{}.safetensors")
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=12"], "files": "mp_rank_{tp}.safetensors"}, "target": {"axes": []},
                          "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        self.assert_full(self.convert_everywhere(plan, source), {"w": w})

    def test_ORD_2(self):
        """Work was split by the order of the directory listing."""
        tensors = {f"t{i:02}": noise(f"t{i}", 20, 3) for i in range(40)}
        files = [{name: even(value, 0, 20)[rank] for name, value in tensors.items()} for rank in range(20)]
        plan = self.tp_plan(20, 3, *((name, {"0": {"axes": "tp", "split": "balanced"}}) for name in tensors))
        orders = {"forward": list(range(20)), "reverse": list(range(19, -1, -1)), "shuffled": [i * 7 % 20 for i in range(20)]}
        seen = None
        for name, order in orders.items():
            for rank in order:
                write_safetensors(self.dir / name / f"rank-{rank:05}.safetensors", files[rank])
            for np in (1, 2, 3, 5):
                result = snapshot(self.convert(plan, self.dir / name, np=np))
                seen = seen or result
                self.assertEqual(result, seen, (name, np))

    def test_ORD_3(self):
        """A rank offset forgot the context parallel axis."""
        layers = [iota(4, 1), iota(4, 1, first=10)]
        def source(order, name):
            files = []
            for outer in (0, 1):
                for middle in (0, 1):
                    for tp in (0, 1):
                        pp = outer if order == ["pp", "cp"] else middle
                        files.append({f"layers.{pp}.w": even(layers[pp], 0, 2)[tp]})
            return self.ranks(files, name=name)
        def plan(order):
            return self.plan({"reshard": 1, "source": {"axes": [f"{axis}=2" for axis in (*order, "tp")]}, "target": {"axes": []},
                              "tensors": [{"match": "layers.*.w", "owner": {"pp": "$1/2"}, "shard": {"0": "tp"}}]})
        for order, name in ((["pp", "cp"], "pp-cp"), (["cp", "pp"], "cp-pp")):
            self.assert_full(self.convert_everywhere(plan(order), source(order, name)), {"layers.0.w": layers[0], "layers.1.w": layers[1]})
        self.refuse(plan(["cp", "pp"]), self.dir / "pp-cp", 4, "E_MISSING", words=("layers.",))

    def test_ORD_4(self):
        """Tensor parallel cut first, FSDP second on the same dim: gathering in mesh order permutes."""
        for w, lengths in ((iota(6), (2, 1, 2, 1)), (iota(10), (3, 2, 3, 2))):
            tp0dp0, tp0dp1, tp1dp0, tp1dp1 = pieces(w, 0, lengths)
            source = self.ranks([{"w": value} for value in (tp0dp0, tp1dp0, tp0dp1, tp1dp1)], name=f"source-{len(w.data)}")
            plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2", "tp=2"]}, "target": {"axes": []},
                              "tensors": [{"match": "w", "shard": {"0": {"axes": ["tp", {"axis": "dp", "split": "chunk"}]}}}]})
            self.assert_full(self.convert_everywhere(plan, source), {"w": w})


class Uneven(Layouts):
    def test_UNE_1(self):
        """Six rows over four ranks: the empty rank was left out."""
        w = iota(6)
        rule = ("w", {"0": {"axes": "tp", "split": "chunk"}})
        files = self.cut({"w": w}, 4, rule)
        self.assertEqual(files, [{"w": piece} for piece in pieces(w, 0, [2, 2, 2, 0])])
        self.assertEqual(self.joined(files, rule), {"w": w})

    def test_UNE_2(self):
        """Ceil-sized pieces and balanced pieces were mixed up."""
        w = iota(10)
        cuts = {"chunk": [3, 3, 3, 1], "balanced": [3, 3, 2, 2]}
        for first, second in (("chunk", "balanced"), ("balanced", "chunk")):
            source = self.ranks([{"w": piece} for piece in pieces(w, 0, cuts[first])], name=first)
            plan = self.plan({"reshard": 1, "source": {"axes": ["tp=4"]}, "target": {"axes": ["tp=4"]}, "tensors": [
                {"match": "w", "shard": {"0": {"axes": "tp", "split": first}}, "target": {"shard": {"0": {"split": second}}}}]})
            self.assert_files(self.convert_everywhere(plan, source), [{"w": piece} for piece in pieces(w, 0, cuts[second])])
            wrong = self.plan({"reshard": 1, "source": {"axes": ["tp=4"]}, "target": {"axes": []}, "tensors": [
                {"match": "w", "shard": {"0": {"axes": "tp", "split": second}}}]})
            self.refuse(wrong, source, 4, "E_SHAPE", words=("'w'",))

    def test_shares(self):
        w = iota(12, 2)
        rule = ("w", {"0": {"axes": "tp", "split": [1, 2, 3], "unit": 2}})
        files = self.cut({"w": w}, 3, rule)
        self.assertEqual(files, [{"w": piece} for piece in pieces(w, 0, [2, 4, 6])])
        self.assertEqual(self.joined(files, rule), {"w": w})


class Padding(Layouts):
    def test_VOC_1(self):
        """The padded vocabulary depends on the tensor parallel size."""
        embed = iota(10, 2)
        rule = ("embed", {"0": {"axes": "tp", "size": 10, "pad_total": 4}})
        def padded(ranks, fill):
            total = -(-10 // (4 * ranks)) * 4 * ranks
            rows = Tensor("F32", (total, 2), embed.data + tensor("F32", (total - 10, 2), [fill] * (total - 10) * 2).data)
            return [{"embed": part} for part in even(rows, 0, ranks)]
        self.assertEqual(self.joined(padded(2, -999), rule, size=4), padded(4, 0))
        one = self.joined(padded(2, -999), rule)
        self.assertEqual([one], padded(1, 0))
        self.assertEqual(self.cut(padded(1, -999)[0], 2, rule), padded(2, 0))

    def test_VOC_2(self):
        """The output kept the padding, so that the plain model could not load it."""
        model = {"embed": noise("embed", 7, 2, dtype="BF16"), "lm_head": noise("head", 7, 2, dtype="BF16")}
        files = [{name: part for name, part in zip(model, parts)} for parts in
                 zip(*(even(Tensor("BF16", (8, 2), value.data + b"\xaa" * 4), 0, 2) for value in model.values()))]
        self.assertEqual(self.joined(files, ("*", {"0": {"axes": "tp", "size": 7, "pad_total": 1}})), model)


class Optimizer(Layouts):
    def test_OPT_3(self):
        """Moments of replicated norms were counted once per rank."""
        norm, w = iota(4), iota(3, 6)
        names = ("", "exp_avg.", "exp_avg_sq.")
        files = [{prefix + "norm": norm for prefix in names} | {prefix + "w": half for prefix in names} for half in even(w, 1, 2)]
        joined = self.joined(files, ("**norm", None), ("**w", {"1": "tp"}))
        self.assertEqual(joined, {prefix + "norm": norm for prefix in names} | {prefix + "w": w for prefix in names})

    def test_OPT_5(self):
        """Optimizer entries did not follow the order of the fused weight."""
        labels = ["g0", "g1", "g2", "g3", "u0", "u1", "u2", "u3"]
        full = labelled_rows(labels, 2)
        rows = by_segments([4, 4], 2)
        files = [{"fc1.weight": take(full, part), "exp_avg.fc1.weight": take(full, part)} for part in rows]
        rule = ("**fc1.weight", {"0": {"axes": "tp", "segments": [4, 4]}})
        self.assertEqual(self.joined(files, rule), {"fc1.weight": full, "exp_avg.fc1.weight": full})
        files[0]["other"] = files[1]["other"] = iota(2)
        self.refuse(self.tp_plan(2, 0, rule), self.ranks(files), 4, "E_TENSOR_UNMATCHED", words=("'other'",))
