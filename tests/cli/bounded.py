"""A test case that holds `inspect` to a bound of memory."""

import sys

from support import SANITIZED, Case, command, execute

# Runs a command and writes the most KiB that it or a child of it had resident.
MEASURED = """
import pathlib, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
pathlib.Path(sys.argv[1]).write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


class Bounded(Case):
    def inspect_in_little_memory(self, source, *options, **how):
        """`inspect`, which must do with the size of the input and 256 MiB."""
        measure = self.dir / "kib"
        result = execute([sys.executable, "-c", MEASURED, measure, *command("inspect", source, *options)], **how)
        if not SANITIZED:
            size = sum(path.stat().st_size for path in (source.rglob("*") if source.is_dir() else [source]) if path.is_file())
            self.assertLess(int(measure.read_text()) * 1024, size + (256 << 20), "bytes of resident memory")
        return result
