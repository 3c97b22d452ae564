"""What the command-line tests share: a small safetensors reader and writer, a naive slicer, CRC-64, and a test case that runs
the executable alone or under mpirun. Python's standard library only; nothing here knows how reshard works inside.

RESHARD_BINARY names the executable, RESHARD_MPIEXEC the launcher, RESHARD_SANITIZED is 1 for a sanitizer build.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import schemas

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

ELEMENT_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2, "I16": 2, "U16": 2,
                 "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1}
NUMBERS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "U64": "Q", "I32": "i", "U32": "I", "I16": "h", "U16": "H",
           "BF16": "H", "I8": "b", "U8": "B", "BOOL": "B", "F8_E4M3": "B", "F8_E5M2": "B", "F8_E8M0": "B"}


# Tensors

@dataclasses.dataclass(frozen=True)
class Tensor:
    """`data`: the elements, row-major, little-endian."""
    dtype: str
    shape: tuple
    data: bytes

    def __repr__(self):
        numbers = list(self.numbers()[:32])
        return f"{self.dtype}{list(self.shape)} {numbers}{'...' if len(numbers) == 32 else ''}"

    def numbers(self):
        """Elements as numbers; BF16 and 8-bit floats as raw words."""
        return struct.unpack(f"<{len(self.data) // ELEMENT_BYTES[self.dtype]}{NUMBERS[self.dtype]}", self.data)


def count(shape):
    product = 1
    for length in shape:
        product *= length
    return product


def tensor(dtype, shape, numbers):
    return Tensor(dtype, tuple(shape), struct.pack(f"<{count(shape)}{NUMBERS[dtype]}", *numbers))


def iota(*shape, dtype="F32", first=0):
    """Each element its row-major position (raw words where the dtype cannot hold numbers)."""
    return tensor(dtype, shape, range(first, first + count(shape)))


def noise(name, *shape, dtype="F32"):
    """Bytes that follow from the name and never repeat in a pattern."""
    return Tensor(dtype, tuple(shape), random.Random(name).randbytes(count(shape) * ELEMENT_BYTES[dtype]))


def labelled_rows(labels, width, dtype="F32"):
    """A matrix whose row i is `width` times a number that stands for labels[i]: 'g3' is 103, 'u3' 203."""
    base = {letter: (index + 1) * 100 for index, letter in enumerate("guqkvzxbcd")}
    numbers = [base[label[0]] + int(label[1:]) for label in labels]
    return tensor(dtype, (len(labels), width), [number for number in numbers for _ in range(width)])


PAD = object()  # in place of an index: an element of zero bytes


def take(source, *chosen):
    """The elements at the product of the chosen indices, one list per dim; None or nothing: all of a dim."""
    rank = len(source.shape)
    lists = [range(n) if c is None else list(c) for n, c in zip(source.shape, (*chosen, *([None] * (rank - len(chosen)))))]
    shape = tuple(len(indices) for indices in lists)
    strides, block = [], ELEMENT_BYTES[source.dtype]
    for length in reversed(source.shape):
        strides.insert(0, block)
        block *= length
    while lists and isinstance(lists[-1], range):  # dims taken whole at the end are one block
        lists.pop()
    if not lists:
        return source
    *outer, last = lists
    block = strides[len(outer)]
    runs = []  # (first index or PAD, length) along the last dim that is not whole
    for index in last:
        first, length = runs[-1] if runs else (None, 0)
        if runs and (index is PAD if first is PAD else index is not PAD and index == first + length):
            runs[-1] = (first, length + 1)
        else:
            runs.append((index, 1))
    data = bytearray()
    for index in itertools.product(*outer):
        base = None if PAD in index else sum(i * stride for i, stride in zip(index, strides))
        for first, length in runs:
            if base is None or first is PAD:
                data += bytes(length * block)
            else:
                data += source.data[base + first * block:base + (first + length) * block]
    return Tensor(source.dtype, shape, bytes(data))


def even(source, dim, parts):
    """`parts` equal consecutive pieces along `dim`."""
    width = source.shape[dim] // parts
    return [take(source, *([None] * dim), list(range(p * width, (p + 1) * width))) for p in range(parts)]


def pieces(source, dim, lengths):
    """Consecutive pieces of the given lengths along `dim`."""
    ends = list(itertools.accumulate(lengths))
    return [take(source, *([None] * dim), list(range(end - length, end))) for end, length in zip(ends, lengths)]


def by_segments(length_of_segments, parts):
    """Index lists, one per part, of a dim whose segments are each cut evenly."""
    starts = [0, *itertools.accumulate(length_of_segments)]
    return [[start + i for start, length in zip(starts, length_of_segments)
             for i in range(p * length // parts, (p + 1) * length // parts)] for p in range(parts)]


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
    an error, the launcher does not wait a second between telling the others to end and ending them; of the ways to pass
    messages, the one that is chosen on one machine is not sought for."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_pml": "ob1",
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


def exits_of_aborted_job(code, mpiexec=MPIEXEC):
    """What the launcher may end with after MPI_Abort(code): MPICH's kills all processes, and may be ahead of the one that called it."""
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    return {code, int(signal.SIGKILL)} if "HYDRA" in version else {code}


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


def descendants(pid):
    """The processes below `pid`, itself included, launcher first."""
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue  # ended meanwhile
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found


def workers(pid, binary=BINARY):
    """The processes of `reshard run` among the descendants, neither launchers nor children that read HDF5, in order of their ids."""
    found = []
    for candidate in descendants(pid):
        with contextlib.suppress(OSError):
            is_run = pathlib.Path(f"/proc/{candidate}/cmdline").read_bytes().split(b"\0")[1:2] == [b"run"]
            if is_run and os.path.samefile(f"/proc/{candidate}/exe", shutil.which(binary)):
                found.append(candidate)
    return sorted(found)


class Stopped:
    """A run of 150 MB under a small memory bound, stopped (SIGSTOP) as soon as it has begun to write; a context manager.

    `plan`, `source`, `expected`: what it runs and the files that must come out.
    """

    def __init__(self, case, target, processes=1, size=150_000_000, options=()):
        self.case, self.target, self.processes = case, target, processes
        self.source = case.dir / "large"
        value = noise("large", 3, size // 3, dtype="U8")
        self.expected = [{"w": part} for part in even(value, 0, 3)]
        if not self.source.exists():
            case.full({"w": value}, name="large")
        self.plan = case.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=3"]},
                               "tensors": [{"match": "w", "shard": {"0": "tp"}}]}, "large.json")
        self.words = ["run", self.plan, "--source", self.source, "--target", target, "--memory", "16MiB", "--threads", "1"]
        self.options = options

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in command(*self.words, *self.options, np=self.processes)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True)
        partial = pathlib.Path(f"{self.target}.partial")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None and not any(partial.glob("*.safetensors")):
            time.sleep(0.002)
        self.signal_all(signal.SIGSTOP)
        if self.process.poll() is not None:
            raise AssertionError(f"the run ended before it could be stopped: {self.process.communicate()}")
        return self

    def workers(self):
        return workers(self.process.pid)

    def signal_all(self, number):
        for pid in descendants(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def go_on(self, timeout=60):
        """Continues every process and waits for the end."""
        start = time.monotonic()
        self.signal_all(signal.SIGCONT)
        out, err = self.process.communicate(timeout=timeout)
        return Result(self.process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - start)

    def again(self, *options):
        return self.case.reshard(*self.words, *self.options, *options, np=self.processes)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.signal_all(signal.SIGKILL)
            self.process.communicate()
