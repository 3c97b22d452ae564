"""scripts/mutants: what it changes and what it leaves alone; the explanations of survivors belong to the sources as they are."""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "mutants"
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("mutants", str(SCRIPT))
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", LOADER))
LOADER.exec_module(mutants)


class Masking(unittest.TestCase):
    def test_comments_literals_and_words_of_refusals_are_blank_and_nothing_moves(self):
        text = 'a < b;  // c < d\nfail(fmt::format("{} < {}",\n  x - 1, y));\nreturn "m < n";\n'
        masked = mutants.masked(text)
        self.assertEqual(len(masked), len(text))
        self.assertEqual(masked.count("<"), 1)
        self.assertNotIn("x - 1", masked)
        self.assertEqual(masked.count("\n"), text.count("\n"))


class Drawing(unittest.TestCase):
    def test_the_same_seed_draws_the_same_mutants_of_all_rooms_one_a_line(self):
        first, _ = mutants.draw(80, 1, "")
        second, _ = mutants.draw(80, 1, "")
        other, _ = mutants.draw(80, 2, "")
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)
        self.assertGreaterEqual(len(first), 60)
        self.assertEqual(len({(m["file"], m["line"]) for m in first}), len(first))
        for room, (nouns, _) in mutants.ROOMS.items():
            self.assertEqual({m["file"] for m in first if m["file"].startswith(room)}, {f"{room}/{noun}.cpp" for noun in nouns})

    def test_a_mutant_is_another_line_than_the_one_that_stands_there(self):
        for mutant in mutants.draw(80, 1, "")[0]:
            lines = (mutants.ROOT / mutant["file"]).read_text(encoding="utf-8").splitlines()
            self.assertEqual(lines[mutant["line"] - 1], mutant["was"])
            self.assertNotEqual(mutant["becomes"], mutant["was"])


class Resuming(unittest.TestCase):
    def test_killed_ones_are_settled_survivors_are_judged_again_last(self):
        chosen, reserve = mutants.draw(80, 1, "layout")
        outcomes = [(chosen[0], "survived"), (chosen[1], "killed"), (chosen[2], "no program"), (reserve[0], "killed"),
                    (reserve[1], "survived")]
        earlier = [dict(mutant, outcome=outcome, by="") for mutant, outcome in outcomes]
        elsewhere = dict(chosen[3], line=chosen[3]["line"] + 1, outcome="killed", by="")
        settled, left, left_in_reserve = mutants.resumed(chosen, reserve, earlier + [elsewhere])
        self.assertEqual(settled, earlier[1:4])
        self.assertEqual(left, chosen[3:] + [chosen[0], reserve[1]])
        self.assertEqual(left_in_reserve, reserve[2:])


class Explanations(unittest.TestCase):
    def test_explained_mutants_are_ones_that_can_be_drawn(self):
        for entry in json.loads(mutants.EXPLAINED.read_text(encoding="utf-8")):
            with self.subTest(**entry):
                possible = {(m["was"].strip(), m["becomes"].strip()) for m in mutants.candidates(entry["file"])}
                self.assertIn((entry["was"], entry["becomes"]), possible)
                self.assertGreater(len(entry["reason"]), 20)


if __name__ == "__main__":
    unittest.main()
