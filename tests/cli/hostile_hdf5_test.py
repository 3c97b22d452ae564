"""Broken and hostile HDF5 files: links out of the folder, huge datasets, unknown filters, files cut short or with a bit changed."""

import random
import shutil
import subprocess

from bounded import Bounded
from support import environment, h5py, needs_h5py, read_safetensors


class Hdf5Files(Bounded):
    PLAN = (("**", None),)

    def source_file(self):
        folder = self.dir / f"source-{self.targets}"
        folder.mkdir()
        return folder / "model.h5"

    def refused(self, path, codes="E_", words=(), exit_codes=(4, 5)):
        for np in (1, 2):
            result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent, np=np)
            self.assertIn(result.code, exit_codes, str(result))
            self.assert_error_lines(result, codes)
            for word in ("model.h5", *words):
                self.assertIn(word, result.err)
            self.assertFalse(self.target.exists())

    @needs_h5py
    def test_BI_27_links_out_of_the_folder(self):
        outside = self.dir / "outside.h5"
        with h5py.File(outside, "w") as file:
            file["w"] = [1.0, 2.0]
        for kind in ("external link", "external storage", "virtual"):
            with self.subTest(kind=kind):
                path = self.source_file()
                with h5py.File(path, "w") as file:
                    file["good"] = [1.0]
                    if kind == "external link":
                        file["w"] = h5py.ExternalLink("../outside.h5", "/w")
                    elif kind == "external storage":
                        file.create_dataset("w", (2,), "f8", external=[("../outside.h5", 0, 16)])
                    else:
                        layout = h5py.VirtualLayout((2,), "f8")
                        layout[:] = h5py.VirtualSource("../outside.h5", "w", (2,))
                        file.create_virtual_dataset("w", layout)
                self.refused(path, "E_LINK|E_UNSUPPORTED", words=("w",), exit_codes=(4,))
                # --allow-external follows links inside the source directory only.
                result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent, "--allow-external")
                self.assert_refused(result, 4, "E_LINK")

    @needs_h5py
    def test_BI_27_links_inside_the_folder(self):
        """Refused as they are, followed with --allow-external; a soft link is a name inside the file."""
        for kind in ("external link", "external storage", "virtual", "soft"):
            with self.subTest(kind=kind):
                path = self.source_file()
                with h5py.File(path.with_name("part.h5"), "w") as file:
                    file["w"] = [1.0, 2.0]
                    offset = file["w"].id.get_offset()
                with h5py.File(path, "w") as file:
                    if kind == "external link":
                        file["w"] = h5py.ExternalLink("part.h5", "/w")
                    elif kind == "external storage":
                        file.create_dataset("w", (2,), "f8", external=[("part.h5", offset, 16)])
                    elif kind == "soft":
                        file["v"] = [1.0, 2.0]
                        file["w"] = h5py.SoftLink("/v")
                    else:
                        layout = h5py.VirtualLayout((2,), "f8")
                        layout[:] = h5py.VirtualSource("part.h5", "w", (2,))
                        file.create_virtual_dataset("w", layout)
                plan = self.tp_plan(0, 1, ("w", None), unmatched="drop")
                if kind != "soft":
                    self.assert_refused(self.run_plan(plan, path), 4, "E_LINK", words=("'w'", "--allow-external"))
                for np in (1, 2) if kind == "virtual" else (1,):
                    result = self.run_plan(plan, path, "--allow-external", "--target-format", "safetensors", np=np)
                    self.assert_exit(result, 0)
                    self.assertEqual(read_safetensors(self.target / "model.safetensors")["w"].numbers(), (1.0, 2.0))

    @needs_h5py
    def test_BI_27_soft_links_that_lead_nowhere_or_round(self):
        for target in ("/nothing", "/w", "../../outside"):
            path = self.source_file()
            with h5py.File(path, "w") as file:
                file["good"] = [1.0]
                file["w"] = h5py.SoftLink(target)
            self.refused(path, "E_LINK", words=("'w'",), exit_codes=(4,))

    @needs_h5py
    def test_BI_27_a_virtual_dataset_with_a_missing_member(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:
            layout = h5py.VirtualLayout((4, 2), "f4")
            for i in (0, 1):
                layout[2 * i:2 * i + 2] = h5py.VirtualSource(f"p{i}.h5", "w", (2, 2))
            file.create_virtual_dataset("w", layout)
        with h5py.File(path.parent / "p0.h5", "w") as file:
            file["w"] = [[1.0, 2.0], [3.0, 4.0]]
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path, "--allow-external")
        self.assert_exit(result, 4)
        self.assertIn("p1.h5", result.err)

    @needs_h5py
    def test_BI_28_a_huge_dataset_that_was_never_written(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:
            file.create_dataset("w", (10**6, 10**6, 10**6), "f4", chunks=(64, 64, 64), compression="gzip")
        self.refused(path, words=("w",))
        self.assert_exit(self.inspect_in_little_memory(path.parent), 0)

    @needs_h5py
    def test_BI_28_an_unknown_filter_and_no_plugins(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((4,))
            plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
            dataset = h5py.h5d.create(file.id, b"w", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((8,)), plist)
            for offset in (0, 4):
                dataset.write_direct_chunk((offset,), bytes(16), 0)
        plugins = self.dir / "plugins"
        plugins.mkdir()
        # A library that leaves a file when it is loaded.
        trace = self.dir / "loaded"
        source = self.dir / "plugin.c"
        source.write_text(f'#include <stdio.h>\n__attribute__((constructor)) static void load(void) {{ FILE *f = fopen("{trace}", "w"); if (f) fclose(f); }}\n')
        if shutil.which("cc"):
            subprocess.run(["cc", "-shared", "-fPIC", "-o", plugins / "libplugin.so", source], check=True)
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent, env=environment(HDF5_PLUGIN_PATH=str(plugins)))
        self.assert_refused(result, 4, "E_UNSUPPORTED", words=("32015",))
        self.assertFalse(trace.exists())

    @needs_h5py
    def test_BI_29_a_file_cut_short_or_left_open_or_flipped(self):
        path = self.source_file()
        with h5py.File(path, "w", libver="latest") as file:
            for i in range(20):
                file.create_dataset(f"group/{i}", data=[float(i)] * 500, chunks=(100,), compression="gzip")
        content = path.read_bytes()
        path.write_bytes(content[:len(content) * 6 // 10])
        self.refused(path)
        # The writer's status flag, as a killed writer leaves it: superblock version 2 or 3, byte 11.
        path.write_bytes(content[:11] + b"\x05" + content[12:])
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent)
        self.assertIn(result.code, (4, 5), str(result))
        # Random flips: an error or a result, never a crash.
        for seed in range(20):
            flipped = bytearray(content)
            generator = random.Random(seed)
            for _ in range(8):
                flipped[generator.randrange(min(len(flipped), 65536))] ^= 1 << generator.randrange(8)
            path.write_bytes(flipped)
            result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent)
            self.assertIn(result.code, (0, 4, 5), f"seed {seed}\n{result}")

    @needs_h5py
    def test_BI_29_one_bit_of_the_first_64_KiB(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:  # the oldest format: no checksums, symbol tables, B-trees
            for i in range(8):
                file.create_dataset(f"group/{i}", data=[float(i)] * 300, chunks=(100,), compression="gzip")
                file[f"plain/{i}"] = [float(i)] * 4
                file[f"plain/{i}"].attrs["name"] = "a" * i
        content = path.read_bytes()
        generator = random.Random(29)
        for number in range(250):
            flipped = bytearray(content)
            at = generator.randrange(min(len(content), 65536))
            flipped[at] ^= 1 << generator.randrange(8)
            path.write_bytes(flipped)
            result = self.reshard("inspect", path.parent, timeout=20)
            self.assertIn(result.code, (0, 4), f"byte {at}\n{result}")
            if result.code:
                self.assert_error_lines(result, "E_FORMAT|E_UNSUPPORTED|E_LINK|E_DTYPE|E_OVERFLOW|E_SHAPE")

    def test_what_only_looks_like_hdf5(self):
        path = self.source_file()
        for content in (b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(2000), b"not hdf5 at all" * 50):
            path.write_bytes(content)
            self.refused(path)
