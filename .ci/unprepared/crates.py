"""Crates: archives of releases and of what they depend on, with the lines of the index, as cargo keeps them."""

import json
import re
import shutil

from cases import REGISTRY, lay_out, run


def make(folder, work, rows):
    home = work / "cargo"
    for row in rows:
        old, new = (release(work, home, row["name"], row[key]) for key in ("from", "to"))
        if "members" in row:
            base = workspace(folder, work, home, row, old, new)
        else:
            base = lay_out(folder, row, old, new)
        # What it needs is resolved elsewhere, and downloaded.
        elsewhere = work / "crates-fill" / base.parent.name
        shutil.copytree(base, elsewhere)
        # Folders of this repository have a workspace above them.
        if "members" not in row:
            with (elsewhere / "Cargo.toml").open("a") as manifest:
                manifest.write("\n[workspace]\n")
        cargo(home, ["fetch"], elsewhere)
        if row.get("prepare") == "cargo workspace":
            shutil.copyfile(elsewhere / "Cargo.lock", base / "Cargo.lock")
    registry(home, folder / "registry/crates")


def cargo(home, arguments, cwd):
    return run(["cargo", *arguments], cwd, {"CARGO_HOME": home})


def release(work, home, name, version):
    """The unpacked archive with the manifest that its authors wrote; cargo downloads for a package only."""
    asking = work / "crates-asking" / f"{name}-{version}"
    (asking / "src").mkdir(parents=True)
    (asking / "src/lib.rs").touch()
    (asking / "Cargo.toml").write_text(
        f'[package]\nname = "asking"\nversion = "1.0.0"\nedition = "2021"\n[workspace]\n'
        f'[dependencies]\n{name} = "={version}"\n')
    cargo(home, ["fetch"], asking)
    archive = next(home.glob(f"registry/cache/*/{name}-{version}.crate"))
    run(["tar", "-xf", archive, "-C", asking])
    tree = asking / f"{name}-{version}"
    (tree / ".cargo_vcs_info.json").unlink(missing_ok=True)
    # Benchmarks stay at home, and with them what only they need.
    manifest = (tree / "Cargo.toml.orig").read_text()
    (tree / "Cargo.toml.orig").unlink()
    if not (tree / "benches").is_dir():
        manifest = re.sub(r"\[\[bench\]\]\n(?:[^\[\n].*\n|\n)*", "", manifest)
    (tree / "Cargo.toml").write_text(manifest)
    return tree


def workspace(folder, work, home, row, old, new):
    """Releases are of single crates: the folders and the manifest above them are as in their repository."""
    base = lay_out(folder, row, old, new, row["name"])
    members = [row["name"]]
    for member in row["members"]:
        name, version = member.split("@")
        members.append(name.replace("-", "_"))
        shutil.copytree(release(work, home, name, version), base / members[-1])
    listed = ", ".join(f'"{member}"' for member in members)
    (base / "Cargo.toml").write_text(f'[workspace]\nmembers = [{listed}]\nresolver = "2"\n')
    (base / ".gitignore").write_text("target\n")
    return base


def registry(home, target):
    """The lines of the index for what was downloaded, and the archives."""
    archives = target / "-"
    archives.mkdir(parents=True)
    for archive in home.glob("registry/cache/*/*.crate"):
        shutil.copyfile(archive, archives / archive.name)
    config = f'{{"dl": "{REGISTRY}/crates/-/{{crate}}-{{version}}.crate"}}'
    (target / "config.json").write_text(config)
    for cached in (path for path in home.glob("registry/index/*/.cache/**/*") if path.is_file()):
        # Versions and lines take turns, with a NUL after each.
        lines = [part for part in cached.read_bytes().split(b"\0") if part.startswith(b"{")]
        kept = []
        for line in lines:
            entry = json.loads(line)
            if (archives / f"{entry['name']}-{entry['vers']}.crate").exists():
                kept.append(line)
        if kept:
            path = target / cached.relative_to(next(home.glob("registry/index/*/.cache")))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\n".join(kept) + b"\n")
