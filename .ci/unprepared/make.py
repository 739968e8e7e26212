"""Makes the folder of `.ci/packages`: a registry of files and a repository for each case of `cases.toml`.

    cases/NAME/base        the repository, without git
    cases/NAME/fix.patch   what mends it
    registry/simple/...    PyPI's simple index, registry/files the wheels and archives
    registry/npm/NAME      npm's documents, registry/npm/-/ the archives
    registry/crates/...    the sparse index of crates, registry/crates/-/ the archives
    tools/                 poetry, which images have and nobody installs
"""

import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tomllib

import cases
import crates
import npm
import pypi


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / "work"
    work.mkdir(parents=True)
    here = pathlib.Path(__file__).parent
    rows = tomllib.loads((here / "cases.toml").read_text())["case"]
    sections = pypi.sections((here / "python.txt").read_text())

    def of(kind):
        return [row for row in rows if row["kind"] == kind]

    makers = {"pypi": lambda rows: pypi.make(folder, work, rows, sections),
              "npm": lambda rows: npm.make(folder, work, rows),
              "crates": lambda rows: crates.make(folder, work, rows)}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = [pool.submit(make, of(kind)) for kind, make in makers.items()]
        for future in done:
            future.result()
    for row in rows:
        cases.check(folder, row)
    shutil.rmtree(work)


try:
    main()
except subprocess.CalledProcessError as error:
    sys.exit(f"{' '.join(map(str, error.cmd))[:300]} failed:\n{error.output or ''}")
