"""Runs a command and writes what it read and wrote (Linux: /proc/PID/io) as JSON into $COUNT_IO_FOLDER, one file per process.

usage: count_io.py COMMAND...
"""

import json
import os
import pathlib
import subprocess
import sys


def main():
    process = subprocess.Popen(sys.argv[1:], close_fds=False)  # launchers talk to their processes through open files
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, not yet reaped: its counters can still be read
    lines = pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines()
    counters = {key: int(number) for key, number in (line.split(": ") for line in lines)}
    pathlib.Path(os.environ["COUNT_IO_FOLDER"], f"{process.pid}.json").write_text(json.dumps(counters))
    sys.exit(process.wait())


if __name__ == "__main__":
    main()
