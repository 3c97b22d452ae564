"""Runs one file of command-line tests: `run.py THEME [unittest's arguments]` runs THEME_test.py.

Tests of HDF5 files need h5py. Where this Python has none and the system's Python has, the latter runs the tests.
"""

import importlib.util
import os
import pathlib
import sys
import unittest

SYSTEM_PYTHON = "/usr/bin/python3"


def main():
    if importlib.util.find_spec("h5py") is None and os.environ.get("RESHARD_TEST_PYTHON") is None:
        os.environ["RESHARD_TEST_PYTHON"] = SYSTEM_PYTHON
        if os.access(SYSTEM_PYTHON, os.X_OK):
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    unittest.main(module=f"{sys.argv[1]}_test", argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)


if __name__ == "__main__":
    main()
