"""scripts/check_layers on small trees: what it must find, and what it must leave alone."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers"


def check(files):
    """The exit code and lines of check_layers on a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            target = pathlib.Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        result = subprocess.run([sys.executable, SCRIPT, "--root", folder], stdout=subprocess.PIPE, text=True, check=False)
        return result.returncode, result.stdout.splitlines()


class Found(unittest.TestCase):
    def assert_one(self, path, text, line, *words):
        code, lines = check({path: text})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertTrue(lines[0].startswith(f"{path}:{line}: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_lower_room_that_includes_a_higher_one(self):
        self.assert_one("lib/reshard/layout/cut.cpp", '#include <vector>\n#include "reshard/plan/plan.hpp"\n', 2, "layout", "plan")

    def test_format_knows_no_planner(self):
        self.assert_one("lib/reshard/format/hdf5/reader.cpp", '#include "reshard/planner/catalog.hpp"\n', 1, "planner")

    def test_planner_may_include_one_header_of_format_only(self):
        self.assert_one("lib/reshard/planner/bind.cpp",
                        '#include "reshard/format/format.hpp"\n#include "reshard/format/hdf5/reader.hpp"\n', 2, "hdf5")

    def test_an_unknown_room(self):
        self.assert_one("lib/reshard/util/misc.hpp", "#pragma once\n", 1, "util")

    def test_third_party_headers_outside_their_room(self):
        for path, header in (("lib/reshard/base/file.cpp", "nlohmann/json.hpp"), ("lib/reshard/format/hdf5/a.cpp", "mpi.h"),
                             ("lib/reshard/pipeline/a.cpp", "hdf5.h"), ("lib/reshard/base/a.cpp", "yaml-cpp/yaml.h"),
                             ("lib/reshard/layout/a.cpp", "re2/re2.h"), ("lib/reshard/plan/a.cpp", "isa-l/crc64.h"),
                             ("lib/reshard/exchange/mpi/a.cpp", "cuda_runtime.h"), ("lib/reshard/exchange/cuda/a.cpp", "nccl.h"),
                             ("lib/reshard/exchange/a.cu", "cuda_runtime_api.h"), ("lib/reshard/exchange/cuda/a.cu", "nccl.h"),
                             ("lib/reshard/report/a.cpp", "CLI/CLI.hpp"), ("lib/reshard/base/a.hpp", "fmt/format.h"),
                             ("apps/reshard/a.cpp", "boost/mpi.hpp"), ("lib/reshard/base/a.cpp", "doctest/doctest.h")):
            with self.subTest(header=header):
                self.assert_one(path, f"#include <{header}>\n", 1, header)

    def test_third_party_types_in_headers(self):
        for path, text in (("lib/reshard/base/json.hpp", "nlohmann::json parse();"), ("lib/reshard/base/a.hpp", "RE2 pattern;"),
                           ("lib/reshard/pipeline/a.hpp", "MPI_Comm comm;"), ("lib/reshard/format/a.hpp", "hid_t file;"),
                           ("lib/reshard/exchange/device.hpp", "cudaStream_t stream;"), ("lib/reshard/exchange/a.cuh", "__global__ void f();"),
                           ("lib/reshard/exchange/cuda/a.hpp", "ncclComm_t comm;")):
            with self.subTest(path=path):
                self.assert_one(path, text + "\n", 1)

    def test_environment_variables_below_apps(self):
        self.assert_one("lib/reshard/base/log.cpp", "#include <cstdlib>\n\nauto x = std::getenv(\"HOME\");\n", 3, "apps")


class LeftAlone(unittest.TestCase):
    def assert_clean(self, files):
        code, lines = check(files)
        self.assertEqual(code, 0, lines)

    def test_allowed_includes(self):
        self.assert_clean({
            "lib/reshard/base/json.cpp": "#include <nlohmann/json.hpp>\n#include <fmt/format.h>\n#include <sys/stat.h>\n",
            "lib/reshard/planner/bind.cpp": '#include "reshard/layout/cut.hpp"\n#include "reshard/plan/plan.hpp"\n',
            "lib/reshard/exchange/mpi/communicator.cpp": "#include <mpi.h>\n",
            "lib/reshard/exchange/cuda/copy.cu": '#include <cuda_runtime_api.h>\n#include "reshard/exchange/cuda/copy.hpp"\n',
            "lib/reshard/exchange/cuda/copy.hpp": "#include <cuda_runtime_api.h>\ncudaError_t launch(cudaStream_t stream);\n",
            "lib/reshard/exchange/nccl/device.hpp": "#include <cuda_runtime_api.h>\n#include <nccl.h>\nncclComm_t comm;\ncudaEvent_t e;\n",
            "lib/reshard/format/hdf5/handle.hpp": "#include <hdf5.h>\nhid_t id;\n",
            "apps/reshard/main.cpp": '#include <mpi.h>\n#include <CLI/CLI.hpp>\n#include "commands.hpp"\nauto x = std::getenv("A");\n',
        })

    def test_comments_and_strings(self):
        self.assert_clean({
            "lib/reshard/exchange/communicator.hpp": '// MPI_Comm belongs elsewhere\n/* nlohmann::json\n   hid_t */\nauto x = "MPI_Init";\n',
            "lib/reshard/base/a.cpp": "// getenv is for apps\nint big = 1'000'000; // environ\n",
        })


if __name__ == "__main__":
    unittest.main()
