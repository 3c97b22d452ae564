"""What the command-line tests share: a small safetensors reader and writer, CRC-64, and a test case that runs the executable
alone or under mpirun. Python's standard library only; nothing here knows how reshard works inside.

RESHARD_BINARY names the executable, RESHARD_MPIEXEC the launcher, RESHARD_SANITIZED is 1 for a sanitizer build.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import schemas
from tensors import ELEMENT_BYTES, Tensor, count

try:
    import h5py
except ImportError:
    h5py = None

BINARY = os.environ.get("RESHARD_BINARY", "reshard")
MPIEXEC = os.environ.get("RESHARD_MPIEXEC", "mpirun")
SANITIZED = os.environ.get("RESHARD_SANITIZED", "0") == "1"
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

needs_h5py = unittest.skipUnless(h5py, "h5py is not installed")
needs_plain_build = unittest.skipIf(SANITIZED, "a sanitizer build needs address space and memory of its own")


# Files

def safetensors_bytes(tensors, metadata=None, header=None):
    """A safetensors file with the tensors in the given order; `header` in place of the one that fits."""
    entries, body = {}, bytearray()
    if metadata is not None:
        entries["__metadata__"] = metadata
    for name, value in tensors.items():
        entries[name] = {"dtype": value.dtype, "shape": list(value.shape),
                         "data_offsets": [len(body), len(body) + len(value.data)]}
        body += value.data
    if header is None:
        header = json.dumps(entries, ensure_ascii=False).encode()
        header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + bytes(body)


def write_safetensors(path, tensors, metadata=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(safetensors_bytes(tensors, metadata))


def read_header(path):
    """The JSON header and the offset of the data."""
    content = path.read_bytes()
    length, = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + length]), 8 + length


def read_safetensors(path):
    """Tensors by name. Asserts what the format demands: no hole, no overlap, nothing behind the last tensor."""
    header, start = read_header(path)
    header.pop("__metadata__", None)
    body = path.read_bytes()[start:]
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        assert first == end, f"{path}: '{name}' begins at {first}, the one before it ends at {end}"
        assert last - first == count(entry["shape"]) * ELEMENT_BYTES[entry["dtype"]], f"{path}: '{name}': {entry}"
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), body[first:last])
        end = last
    assert end == len(body), f"{path}: {len(body) - end} bytes behind the last tensor"
    return tensors


def read_metadata(path):
    return read_header(path)[0].get("__metadata__")


def read_hdf5(path):
    """Tensors by name, from the raw bytes of the file: our own HDF5 files are contiguous."""
    tensors, content = {}, path.read_bytes()

    def visit(address, item):
        if not isinstance(item, h5py.Dataset):
            return
        name = item.attrs.get("name", address)
        name = name.decode() if isinstance(name, bytes) else name
        dtype = item.attrs["dtype"]
        dtype = (dtype.decode() if isinstance(dtype, bytes) else dtype).upper()
        size = count(item.shape) * ELEMENT_BYTES[dtype]
        offset = item.id.get_offset()
        assert size == 0 or offset is not None, f"{path}: '{address}' is not contiguous"
        tensors[name] = Tensor(dtype, tuple(item.shape), content[offset:offset + size] if size else b"")

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return tensors


def snapshot(folder):
    """Every path below the folder with the hash of its bytes (or where a link points, or 'folder')."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def crc64(data):
    """CRC-64/XZ as 16 hex digits."""
    register = 0xFFFFFFFFFFFFFFFF
    for byte in data:
        register = _CRC_TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    return f"{register ^ 0xFFFFFFFFFFFFFFFF:016x}"


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0xC96C5795D7870F42 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC_TABLE = _crc_table()


# Running

@dataclasses.dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str
    seconds: float

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"exit {self.code} after {self.seconds:.1f} s\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def environment(**changes):
    """The environment of every run. With Open MPI: root, and more processes than cores, are fine; where one process has ended with
    an error, the launcher does not wait a second between telling the others to end and ending them."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            "OMPI_MCA_odls_base_sigkill_timeout": "0", **changes}


def execute(command, timeout=60, cwd=None, env=None, preexec=None):
    """Runs a command without input; one that does not end in time is killed with all its children and fails the test."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, cwd=cwd, env=env or environment(), start_new_session=True,
                               preexec_fn=preexec)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"did not end within {timeout} s: {command}\n{out.decode(errors='replace')}\n"
                             f"{err.decode(errors='replace')}") from None
    return Result(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - start)


def command(*words, np=1):
    launcher = [MPIEXEC, "-n", str(np)] if np > 1 else []
    return [*launcher, BINARY, *words]


def is_hydra(mpiexec=MPIEXEC):
    """Whether the launcher is MPICH's."""
    return "HYDRA" in subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout


def exits_of_aborted_job(code, mpiexec=MPIEXEC):
    """What the launcher may end with after MPI_Abort(code): MPICH's kills all processes, and may be ahead of the one that called it."""
    return {code, int(signal.SIGKILL)} if is_hydra(mpiexec) else {code}


# How a case runs unless it says otherwise: number of processes and transport.
RUNS = ((1, "direct"), (2, "mpi"), (3, "direct"), (3, "mpi"))


class Case(unittest.TestCase):
    """A scratch folder per test, and what a test says about runs."""
    maxDiff = 8000

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="reshard-test-"))
        self.addCleanup(self.remove_scratch)
        self.targets = 0

    def remove_scratch(self):
        for path in self.dir.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(self.dir)

    # Arranging

    def ranks(self, files, name="source", template="rank-{:05}.safetensors", metadata=None):
        """A source of one file per rank."""
        folder = self.dir / name
        folder.mkdir(exist_ok=True)
        for rank, tensors in enumerate(files):
            write_safetensors(folder / template.format(rank), tensors, metadata)
        return folder

    def full(self, tensors, name="source", metadata=None):
        """A source of one file."""
        folder = self.dir / name
        write_safetensors(folder / "model.safetensors", tensors, metadata)
        return folder

    def hub(self, files, name="source", total_size=None, weight_map=None):
        """A Hugging Face directory: {file name: tensors} and the index."""
        folder = self.dir / name
        for file, tensors in files.items():
            write_safetensors(folder / file, tensors, {"format": "pt"})
        if total_size is None:
            total_size = sum(len(t.data) for tensors in files.values() for t in tensors.values())
        if weight_map is None:
            weight_map = {tensor: file for file, tensors in files.items() for tensor in tensors}
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": total_size}, "weight_map": weight_map}))
        return folder

    def plan(self, content, name=None):
        """A plan file: text is YAML, a dict is written as JSON."""
        path = self.dir / (name or ("plan.yaml" if isinstance(content, str) else "plan.json"))
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def tp_plan(self, source, target, *rules, **top):
        """A plan that goes from tp=source to tp=target; 0: no axes at all. Rules are (match, shard or None, further keys)."""
        def side(size):
            return {"axes": [f"tp={size}"] if size else []}
        written = []
        for match, shard, *further in rules:
            rule = {"match": match, **(further[0] if further else {})}
            if shard is not None:
                rule["shard"] = shard
            written.append(rule)
        return self.plan({"reshard": 1, "source": side(source), "target": side(target), "tensors": written, **top})

    # Acting

    def reshard(self, *words, np=1, timeout=60, **options):
        return execute(command(*words, np=np), timeout=timeout, **options)

    def new_target(self):
        self.targets += 1
        return self.dir / f"target-{self.targets}"

    def run_plan(self, plan, source, *options, np=1, target=None, **how):
        """`reshard run` into a new target (or the one given)."""
        self.target = target or self.new_target()
        return self.reshard("run", plan, "--source", source, "--target", self.target, *options, np=np, **how)

    # Asserting

    def assert_exit(self, result, code):
        self.assertEqual(result.code, code, str(result))

    def convert(self, plan, source, *options, np=1, **how):
        """A run that must succeed; gives the target folder. Its plan and manifest fit their schemas."""
        result = self.run_plan(plan, source, *options, np=np, **how)
        self.assert_exit(result, 0)
        self.assertFalse(pathlib.Path(f"{self.target}.partial").exists())
        if schemas.available:
            self.assertEqual(schemas.problems_of_text("plan", pathlib.Path(plan).read_text(encoding="utf-8")), ())
            self.assertEqual(schemas.problems_of_text("manifest", (self.target / "reshard.json").read_text(encoding="utf-8")), ())
        return self.target

    def convert_everywhere(self, plan, source, *options):
        """The same at several numbers of processes and over every transport: equal bytes each time."""
        first = None
        for np, transport in RUNS:
            target = self.convert(plan, source, "--transport", transport, *options, np=np)
            first = first or target
            self.assertEqual(snapshot(target), snapshot(first), f"{np} processes over {transport}")
        return first

    def files(self, folder, template="rank-{:05}.safetensors"):
        """The tensors of every rank file, by rank."""
        found = []
        while (folder / template.format(len(found))).exists():
            found.append(read_safetensors(folder / template.format(len(found))))
        return found

    def assert_files(self, folder, expected, template="rank-{:05}.safetensors"):
        """The folder holds these tensors by rank, the manifest, and nothing else."""
        names = {template.format(rank) for rank in range(len(expected))} | {"reshard.json"}
        self.assertEqual(set(os.listdir(folder)), names)
        self.assertEqual(self.files(folder, template), expected)

    def assert_full(self, folder, expected):
        self.assertEqual(set(os.listdir(folder)), {"model.safetensors", "reshard.json"})
        self.assertEqual(read_safetensors(folder / "model.safetensors"), expected)

    def assert_error_lines(self, result, *codes):
        """One line of standard error begins with each code (after a program name or process)."""
        for code in codes:
            lines = [line for line in result.err.splitlines() if re.search(rf"\b(?:{code})\w*: ", line)]
            self.assertTrue(lines, f"no line with {code}\n{result}")

    def assert_refused(self, result, exit_code, *codes, words=(), target=None):
        """The exit code, a line per code, all words in the message, and nothing left behind."""
        self.assert_exit(result, exit_code)
        self.assert_error_lines(result, *codes)
        for word in words:
            self.assertIn(str(word), result.err, str(result))
        self.assertNotIn("Sanitizer", result.err)
        target = target or getattr(self, "target", None)
        if target is not None:
            self.assertFalse(os.path.lexists(target), f"{target} was left behind")
            self.assertFalse(os.path.lexists(f"{target}.partial"), f"{target}.partial was left behind")

    def refuse(self, plan, source, exit_code, *codes, words=(), options=(), np=1):
        """A run that must be refused before any byte moves."""
        result = self.run_plan(plan, source, *options, np=np)
        self.assert_refused(result, exit_code, *codes, words=words)
        return result
