"""npm: archives of releases, and documents of what they depend on, from the cache that npm itself filled."""

import base64
import json
import shutil
import tarfile

from cases import REGISTRY, lay_out, name_of, run

PNPM = "pnpm@9.15.9"


def make(folder, work, rows):
    cache = work / "npm-cache"
    npm = ["npm", "--cache", cache, "--no-audit", "--no-fund", "--silent", "--ignore-scripts"]
    # A manager of its own, as it is installed where it is missing.
    tools = work / "npm-tools"
    tools.mkdir()
    run([*npm, "install", "--prefix", tools, PNPM])
    for row in rows:
        old, new = (release(npm, work, row["name"], row[key]) for key in ("from", "to"))
        inside = "." if "members" not in row else f"packages/{row['name']}"
        base = lay_out(folder, row, old, new, inside)
        for member in row.get("members", []):
            name, version = member.rsplit("@", 1)
            shutil.copytree(release(npm, work, name, version), base / "packages" / name)
        fill(npm, work, base)
        if row.get("prepare") == "npm lock":
            # Without addresses, so that it says nothing of where it was made.
            run([*npm, "install", "--package-lock-only", "--omit-lockfile-registry-resolved"], base)
        elif row.get("prepare") == "pnpm workspace":
            root = {"name": "workspace", "private": True, "packageManager": PNPM, "scripts": {"test": "pnpm -r test"}}
            (base / "package.json").write_text(json.dumps(root, indent=2) + "\n")
            (base / "pnpm-workspace.yaml").write_text("packages:\n  - packages/*\n")
            run([tools / "node_modules/.bin/pnpm", "install", "--lockfile-only", "--ignore-scripts"], base,
                {"npm_config_cache": cache, "XDG_CACHE_HOME": work / "pnpm"})
    documents(cache / "_cacache", folder / "registry/npm")


def release(npm, work, name, version):
    folder = work / "npm-releases" / f"{name}-{version}"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        archive = run([*npm, "pack", "--pack-destination", folder, f"{name}@{version}"]).split()[-1]
        run(["tar", "-xf", folder / archive, "-C", folder])
    return folder / "package"


def fill(npm, work, base):
    """Installs what the packages of a tree ask for, elsewhere: the archives stay in the cache."""
    for number, manifest in enumerate(sorted(base.rglob("package.json"))):
        elsewhere = work / "npm-fill" / base.parent.name / str(number)
        elsewhere.mkdir(parents=True)
        shutil.copyfile(manifest, elsewhere / "package.json")
        run([*npm, "install"], elsewhere)


def documents(cacache, target):
    """One document a package, with the versions that were downloaded."""
    archives = target / "-"
    archives.mkdir(parents=True)
    found = {}
    for bucket in (path for path in (cacache / "index-v5").rglob("*") if path.is_file()):
        for line in bucket.read_text().splitlines():
            entry = json.loads(line.split("\t", 1)[1]) if "\t" in line else {}
            integrity = entry.get("integrity") or ""
            if not entry.get("key", "").endswith(".tgz") or not integrity.startswith("sha512-"):
                continue
            digest = base64.b64decode(integrity.split("-", 1)[1].split()[0]).hex()
            content = cacache / "content-v2/sha512" / digest[:2] / digest[2:4] / digest[4:]
            manifest = manifest_of(content)
            name, version = manifest["name"], manifest["version"]
            file = f"{name.replace('/', '-')}-{version}.tgz"
            shutil.copyfile(content, archives / file)
            manifest["dist"] = {"tarball": f"{REGISTRY}/npm/-/{file}", "integrity": integrity}
            found.setdefault(name, {})[version] = manifest
    for name, versions in found.items():
        latest = max(versions, key=lambda version: [int(part) for part in version.split("-")[0].split(".")])
        document = {"name": name, "dist-tags": {"latest": latest}, "versions": versions}
        (target / name.replace("/", "%2f")).write_text(json.dumps(document))


def manifest_of(archive):
    with tarfile.open(archive) as tar:
        member = next(member for member in tar if member.name.count("/") == 1 and member.name.endswith("/package.json"))
        manifest = json.load(tar.extractfile(member))
    # What the registry says of a package is little of what its manifest says.
    keys = ["name", "version", "dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta",
            "bin", "engines", "os", "cpu", "bundleDependencies"]
    return {key: manifest[key] for key in keys if key in manifest}
