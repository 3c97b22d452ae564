"""Pipes, sockets, devices and directories where a file, or a checkpoint, is named: no command waits for ever, whatever it is given."""

import json
import os
import socket
import subprocess

from support import Case, command, environment, execute, needs_h5py, snapshot
from tensors import iota

SECONDS = 20


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_folder(path):
    path.mkdir()


def make_link_to(place):
    return lambda path: path.symlink_to(place)


KINDS = {"fifo": make_fifo, "socket": make_socket, "folder": make_folder, "null": make_link_to("/dev/null"), "zero": make_link_to("/dev/zero")}


class Odd(Case):
    def setUp(self):
        super().setUp()
        self.source = self.full({"w": iota(64, 64)})
        self.plan_file = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        self.target = self.dir / "target"

    def words(self, **changed):
        places = {"plan": self.plan_file, "source": self.source, "target": self.target, **changed}
        return ("run", places["plan"], "--source", places["source"], "--target", places["target"], "--quiet")

    def each_kind(self, path, but=()):
        """Makes each kind at the path, one after the other."""
        for kind in KINDS.keys() - set(but):
            KINDS[kind](path)
            yield kind
            self.remove(path)

    def remove(self, path):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def assert_fails(self, words, codes, word, np=1):
        """In time, with one of the exit codes and a message that has the word."""
        result = self.reshard(*words, np=np, timeout=SECONDS)
        self.assertIn(result.code, codes, str(result))
        self.assertIn(str(word), result.err)
        return result


class Inputs(Odd):
    def test_as_a_plan(self):
        path = self.dir / "odd.yaml"
        for _ in self.each_kind(path):
            for words in (self.words(plan=path), ("plan", path, "--check"), ("compare", self.source, self.source, "--plan", path)):
                for np in (1, 2):
                    self.assert_fails(words, {2}, path, np)
        for name in ("/dev/stdin", "/dev/tty"):
            self.assert_fails(self.words(plan=name), {2}, name)
        self.assertFalse(self.target.exists())

    def test_a_plan_from_standard_input(self):
        """Where that is a file; a pipe is none."""
        words = command(*self.words(plan="/dev/stdin"))
        result = execute(["sh", "-c", 'cat "$PLAN" | "$@"', "sh", *words], env=environment(PLAN=str(self.plan_file)), timeout=SECONDS)
        self.assert_refused(result, 2, "E_USAGE", words=("/dev/stdin", "FIFO"))
        result = execute(["sh", "-c", '"$@" <"$PLAN"', "sh", *words], env=environment(PLAN=str(self.plan_file)), timeout=SECONDS)
        self.assert_exit(result, 0)

    def test_as_a_checkpoint(self):
        path = self.dir / "odd"
        for _ in self.each_kind(path):
            for words in (self.words(source=path), ("inspect", path), ("verify", path), ("compare", path, self.source), ("compare", self.source, path),
                          ("plan", self.plan_file, "--source", path)):
                self.assert_fails(words, {2, 4}, path)

    def test_as_a_file_of_a_checkpoint(self):
        for name in ("model.safetensors", "model.h5", "reshard.json", "model.safetensors.index.json"):
            folder = self.dir / "odd"
            folder.mkdir()
            for _ in self.each_kind(folder / name):
                for words in (self.words(source=folder), ("inspect", folder), ("compare", folder, self.source), ("verify", folder)):
                    self.assert_fails(words, {2, 4}, folder)
            folder.rmdir()

    def test_as_a_side_file(self):
        """Left alone."""
        for _ in self.each_kind(self.source / "config.json"):
            target = self.new_target()
            result = self.reshard(*self.words(target=target), "--copy-side-files", timeout=SECONDS)
            self.assert_exit(result, 0)
            self.assertEqual(set(os.listdir(target)), {"rank-00000.safetensors", "rank-00001.safetensors", "reshard.json"})

    def test_as_a_target(self):
        for _ in self.each_kind(self.target, but=("folder",)):
            for options in ((), ("--overwrite",), ("--resume",), ("--resume", "--overwrite")):
                self.assert_fails((*self.words(), *options), {2}, self.target.resolve())
                self.assertTrue(os.path.lexists(self.target))

    def test_in_a_finished_target(self):
        self.assert_exit(self.reshard(*self.words()), 0)
        for name in ("reshard.json", "rank-00001.safetensors"):
            (self.target / name).rename(self.dir / "kept")
            for _ in self.each_kind(self.target / name):
                self.assert_fails(("verify", self.target), {1, 4}, "" if name.startswith("rank") else self.target)
                self.assert_fails((*self.words(), "--resume"), {2}, self.target)
            (self.dir / "kept").rename(self.target / name)

    def test_at_the_staging_directory_and_in_it(self):
        partial, old, record = (self.dir / f"target.{ending}" for ending in ("partial", "old", "replacing"))
        for _ in self.each_kind(partial, but=("folder",)):
            for options in ((), ("--resume",), ("--overwrite",)):
                self.assert_fails((*self.words(), *options), {2}, partial)
        for path in (old, record):
            for _ in self.each_kind(path):
                self.assert_exit(self.reshard(*self.words(), "--overwrite", timeout=SECONDS), 0)
                self.assertTrue(os.path.lexists(path))
        for name in ("journal", "journal.1", "reshard.json", "rank-00001.safetensors"):
            self.leave()
            self.remove(partial / name)
            for kind in self.each_kind(partial / name):
                result = self.reshard(*self.words(), "--resume", "--overwrite", timeout=SECONDS)
                self.assertIn(result.code, (0, 2), str(result))
                if result.code == 0:
                    self.assert_files(self.target, [{"w": value} for value in self.halves()])
                    self.leave()
                    self.remove(partial / name)
                    KINDS[kind](partial / name)
            self.assert_exit(self.reshard(*self.words(), "--overwrite"), 0)

    def leave(self):
        self.assertNotEqual(self.reshard(*self.words(), "--overwrite", env=environment(RESHARD_TEST_SIGNAL="9:flush:0")).code, 0)

    def halves(self):
        whole = iota(64, 64)
        return [whole.__class__(whole.dtype, (32, 64), whole.data[i * len(whole.data) // 2:(i + 1) * len(whole.data) // 2]) for i in range(2)]

    @needs_h5py
    def test_where_hdf5_names_another_file(self):
        import h5py
        folder = self.dir / "linked"
        folder.mkdir()
        with h5py.File(folder / "model.h5", "w") as file:
            file["w"] = h5py.ExternalLink("other.h5", "/w")
        for _ in self.each_kind(folder / "other.h5"):
            for options in ((), ("--allow-external",)):
                self.assert_fails((*self.words(source=folder), "--target-format", "hdf5", *options), {2, 4, 5}, folder)


class Reports(Odd):
    def test_to_a_pipe_that_nobody_reads(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        for words in (("inspect", self.source), ("plan", self.plan_file, "--source", self.source), self.words()):
            result = self.assert_fails((*words, "--report", "json", "--output", pipe), {5}, pipe)
            self.assert_error_lines(result, "E_IO")
        (self.dir / "bad.yaml").write_text("reshard: [")
        self.assert_fails(("plan", self.dir / "bad.yaml", "--check", "--report", "json", "--output", pipe), {3}, pipe)

    def test_to_a_pipe_whose_reader_comes_late(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        words = command("inspect", self.source, "--report", "json", "--output", pipe)
        process = subprocess.Popen([str(word) for word in words], env=environment())
        try:
            result = execute(["sh", "-c", 'sleep 1; exec cat "$0"', pipe], timeout=SECONDS)
            self.assertEqual(json.loads(result.out)["schema"], "reshard.inspect")
            self.assertEqual(process.wait(timeout=SECONDS), 0)
        finally:
            process.kill()

    def test_more_than_a_pipe_holds(self):
        """The reader takes it in its time: no byte is lost."""
        source = self.full({f"tensor.{i}": iota(1) for i in range(4000)}, name="many")
        expected = self.reshard("inspect", source, "--report", "json").out
        self.assertGreater(len(expected), 1 << 17)
        for shell in ('"$@" --output /dev/stdout | (sleep 1; cat)', 'mkfifo "$FIFO"; (sleep 1; cat "$FIFO") & "$@" --output "$FIFO"; wait'):
            result = execute(["sh", "-c", shell, "sh", *command("inspect", source, "--report", "json")], timeout=SECONDS,
                             env=environment(FIFO=str(self.dir / "slow")))
            self.assertEqual(result.out, expected)

    def test_to_a_socket_or_a_folder(self):
        path = self.dir / "odd"
        for _ in self.each_kind(path, but=("fifo", "null", "zero")):
            self.assert_fails(("inspect", self.source, "--output", path), {2, 5}, path)

    def test_into_a_finished_target_or_a_staging_directory(self):
        """Also where the plan cannot be read, which alone says where the target is."""
        bad = self.dir / "bad.yaml"
        bad.write_text(f"reshard: 1\ntarget: {{path: {self.target}\n")
        self.assert_exit(self.reshard(*self.words()), 0)
        partial = self.dir / "next.partial"
        self.assertNotEqual(self.reshard(*self.words(target=self.dir / "next"), env=environment(RESHARD_TEST_SIGNAL="9:flush:0")).code, 0)
        complete = self.dir / "complete.partial"
        self.assert_exit(self.reshard(*self.words(target=complete)), 0)
        (self.target / "folder").mkdir()
        for folder in (self.target, self.target / "folder", partial, complete):
            before = snapshot(folder)
            for np in (1, 2):
                for words in (("run", bad, "--source", self.source), ("plan", bad), ("plan", bad, "--check"), ("inspect", self.source)):
                    result = self.assert_fails((*words, "--report", "json", "--output", folder / "report.json"), {2}, folder, np)
                    self.assertIn("E_USAGE", result.err)
                    self.assertEqual(snapshot(folder), before)
        for words in (("run", bad, "--source", self.source), ("plan", bad)):
            result = self.assert_fails((*words, "--report", "json", "--output", self.dir / "report.json"), {3}, bad)
            self.assertEqual(json.loads((self.dir / "report.json").read_text())["schema"], "reshard.error")
