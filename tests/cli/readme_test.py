"""Every command of README.md runs, in order, in a scratch directory; every plan in configs/ is checked."""

import os
import pathlib
import re
import shlex
import shutil

from support import BINARY, MPIEXEC, REPOSITORY, Case, environment, execute


class Readme(Case):
    def test_every_command_of_the_readme(self):
        text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)
        self.assertGreaterEqual(len(blocks), 8)
        for name in ("scripts", "configs"):
            (self.dir / name).symlink_to(REPOSITORY / name)
        programs = self.dir / "programs"
        programs.mkdir()
        (programs / "reshard").symlink_to(pathlib.Path(BINARY).resolve())
        # The launcher of the MPI that the binary is built with, whatever its name.
        (programs / "mpirun").write_text(f'#!/bin/sh\nexec {shlex.quote(shutil.which(MPIEXEC))} "$@"\n', encoding="utf-8")
        (programs / "mpirun").chmod(0o755)
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        for block in blocks:
            with self.subTest(block=block.splitlines()[0]):
                result = execute(["sh", "-eu", "-c", block], cwd=self.dir, env=environment(PATH=path, PYTHONDONTWRITEBYTECODE="1"))
                self.assert_exit(result, 0)


class Configs(Case):
    def test_every_plan_is_right_on_its_own(self):
        plans = sorted(path for path in (REPOSITORY / "configs").iterdir() if path.suffix in (".yaml", ".json") and "schema" not in path.name)
        self.assertGreaterEqual(len(plans), 2)
        for plan in plans:
            with self.subTest(plan=plan.name):
                self.assert_exit(self.reshard("plan", plan, "--check"), 0)
