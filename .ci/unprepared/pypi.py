"""PyPI: archives of releases, wheels of what they depend on, and a simple index of both."""

import hashlib
import html
import re
import shutil
import tomllib

from cases import REGISTRY, lay_out, name_of, run


def sections(text):
    """`[name]`, and the requirements below."""
    found = {}
    for line in text.splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = current = []
        elif line.strip() and not line.startswith("#"):
            current.append(line)
    return found


def make(folder, work, rows, sections):
    venv = work / "venv"
    run(["/usr/bin/python3", "-m", "venv", venv])
    pip = [venv / "bin/pip", "--quiet", "--disable-pip-version-check"]
    files = folder / "registry/files"
    files.mkdir(parents=True)
    for name, requirements in sections.items():
        target = work / "tools" if name == "tools" else files
        download(pip, target, requirements)
    # pip asks each archive for its metadata, with the backends that were just downloaded.
    run([*pip, "install", "--no-index", "--find-links", files, *sections["common"]])
    run([*pip, "install", "--no-deps", "--target", folder / "tools/poetry", "--no-compile",
         *(file for file in (work / "tools").iterdir() if not file.name.startswith("pip-"))])
    run([*pip, "install", "--no-deps", "--target", folder / "tools/pip", "--no-compile", *(work / "tools").glob("pip-*")])
    for row in rows:
        old, new = (release(pip, work, row["name"], row[key]) for key in ("from", "to"))
        base = lay_out(folder, row, old, new)
        if row.get("prepare") == "poetry lock":
            poetry_lock(folder, pip, base, work)
        elif row.get("prepare") == "uv lock":
            uv_lock(folder, pip, base, venv)
    index(folder / "registry")


def download(pip, target, requirements, *options):
    run([*pip, "download", "--no-deps", "--dest", target, *(options or ["--only-binary", ":all:"]),
         *requirements])


def release(pip, work, name, version):
    """The unpacked archive, without what was made for it."""
    folder = work / "releases" / f"{name}-{version}"
    if folder.is_dir():
        return next(folder.iterdir())
    run([*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", folder,
         f"{name}=={version}"])
    archive = next(folder.iterdir())
    run(["tar", "-xf", archive, "-C", folder])
    archive.unlink()
    tree = next(folder.iterdir())
    (tree / "PKG-INFO").unlink(missing_ok=True)
    for info in tree.rglob("*.egg-info"):
        shutil.rmtree(info)
    return tree


def poetry_lock(folder, pip, base, work):
    """As developers of the project lock it, from the index that pip uses; what this Python installs of it is
    downloaded. With the mirror's plugin poetry asks for no more than pip does."""
    asking = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    simple = run([pip[0].parent / "python", "-c", asking]).strip() + "/"
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from poetry.console.application import main; sys.exit(main())"
    run(["/usr/bin/python3", "-I", "-c", program, folder / "tools/poetry", "lock", "--no-interaction"], base,
        {"POETRY_CACHE_DIR": work / "poetry-cache", "POETRY_CONFIG_DIR": work / "poetry-config",
         "POETRY_PYPI_MIRROR_URL": simple})
    packages = tomllib.loads((base / "poetry.lock").read_text())["package"]
    wheels, archives = [], []
    for package in packages:
        # Others are left out by pip itself, for this Python.
        markers = package.get("markers", "")
        if isinstance(markers, dict):
            markers = " or ".join(f"({marker})" for marker in markers.values())
        line = f"{package['name']}=={package['version']}" + (f" ; {markers}" if markers else "")
        has_wheel = any(file["file"].endswith(".whl") for file in package["files"])
        (wheels if has_wheel else archives).append(line)
    download(pip, folder / "registry/files", wheels)
    if archives:
        download(pip, folder / "registry/files", archives, "--no-build-isolation")


def uv_lock(folder, pip, base, venv):
    """The same with uv, whose lock file says where each file is: on the registry of the tests."""
    env = {"UV_PYTHON": "/usr/bin/python3", "UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": folder / "work/uv",
           # The version comes from git, where there is no tag yet.
           "SETUPTOOLS_SCM_PRETEND_VERSION": "0"}
    run([venv / "bin/uv", "lock"], base, env)
    lines = run([venv / "bin/uv", "export", "--quiet", "--frozen", "--no-hashes", "--all-extras", "--all-groups",
                 "--no-emit-project"], base, env).splitlines()
    download(pip, folder / "registry/files", [line for line in lines if line and line[0] not in "# -"])
    lock = (base / "uv.lock").read_text()
    lock = re.sub(r'registry = "[^"]*"', f'registry = "{REGISTRY}/simple"', lock)
    lock = re.sub(r'url = "[^"]*/([^"/]+)"', rf'url = "{REGISTRY}/files/\1"', lock)
    (base / "uv.lock").write_text(lock)


def index(registry):
    names = {}
    for file in sorted((registry / "files").iterdir()):
        name = file.name.split("-")[0] if file.suffix == ".whl" else file.name.rsplit("-", 1)[0]
        names.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(file)
    for name, files in names.items():
        lines = ["<!DOCTYPE html>"]
        for file in files:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines.append(f'<a href="/files/{html.escape(file.name)}#sha256={digest}">{html.escape(file.name)}</a>')
        page = registry / "simple" / name
        page.mkdir(parents=True)
        (page / "index.html").write_text("\n".join(lines) + "\n")
