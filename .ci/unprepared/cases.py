"""A case: the tree of one release with the tests of the next one, and the fix between them."""

import os
import shutil
import subprocess

# Where the sandboxes find the registry; the tests' server listens there (tests/support/packages.rs).
REGISTRY = "http://packages.test:8099"


def run(command, cwd=None, env=None):
    """Runs a program; its output belongs to its failure."""
    environment = dict(os.environ, **{key: str(value) for key, value in (env or {}).items()})
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


def name_of(row):
    return row.get("folder", row["name"])


def put(source, target):
    """Copies a file or a folder over what is there."""
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def lay_out(folder, row, old, new, inside="."):
    """Makes the tree of a case from two releases, and returns it; `inside` is the package's place in it."""
    case = folder / "cases" / name_of(row)
    base = case / "base"
    package = base / inside
    shutil.copytree(old, package)
    for path in row.get("drop", []):
        (package / path).unlink()
    for path in row["tests"]:
        put(new / path, package / path)
    write_fix(case, base, package, [(new / path, path) for path in row["fix"]])
    return base


def write_fix(case, base, package, files):
    """The difference that the files make, as git writes it."""
    git = ["git", "-c", "core.autocrlf=false", "-c", "user.name=x", "-c", "user.email=x@example.com",
           "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main"]
    run([*git, "init", "--quiet"], base)
    run([*git, "add", "--all", "--force"], base)
    run([*git, "commit", "--quiet", "--message", "base"], base)
    for source, path in files:
        put(source, package / path)
    patch = run([*git, "diff", "--no-color", "--no-ext-diff"], base)
    (case / "fix.patch").write_text(patch)
    run([*git, "checkout", "--quiet", "--", "."], base)
    shutil.rmtree(base / ".git")


def check(folder, row):
    patch = folder / "cases" / name_of(row) / "fix.patch"
    changed = patch.read_text().count("diff --git ")
    if changed != len(row["fix"]):
        sys_exit = f"{name_of(row)}: {changed} of {len(row['fix'])} files of the fix differ"
        raise SystemExit(sys_exit)
