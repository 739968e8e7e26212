//! A change into a working folder.

use patchwright_git::apply::{is_in_working_folder, to_working_folder};

use super::*;

/// The files of the commit, a working folder with them, and the change that is to be written.
struct Applying {
    _world: World,
    repo: Repo,
    folder: TempDir,
    change: Change,
}

impl Applying {
    async fn new(files: &[Entry], now: &[CollectedFile], deleted: &[&str]) -> Applying {
        let world = World::with(files).await;
        let repo = world.fetched().await;
        let base = repo.resolve("main").unwrap();
        let folder = unpacked(&repo, base, 1);
        let change = build(&repo, base, &collected(now, deleted)).unwrap();
        Applying { _world: world, repo, folder, change }
    }

    fn write(&self) -> Result<(), String> {
        let written = to_working_folder(self.folder.path(), &self.repo, &self.change);
        let is_there = is_in_working_folder(self.folder.path(), &self.repo, &self.change.files);
        assert_eq!(written.is_ok(), is_there);
        written.map_err(|err| format!("{err:#}"))
    }

    fn read(&self, path: &str) -> String {
        fs_err::read_to_string(self.folder.path().join(path)).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_makes_folders_and_puts_files_and_folders_in_each_others_place() {
    let files = [file("f", "f\n"), file("d/e/a", "a\n"), file("d/b", "b\n")];
    let now = [added("n/m/w", "x\n"), added("f/x/y", "y\n"), added("d", "d\n")];
    let applying = Applying::new(&files, &now, &["f", "d/e/a", "d/b"]).await;
    applying.write().unwrap();
    let contents = [applying.read("n/m/w"), applying.read("f/x/y"), applying.read("d")];
    assert_eq!(contents, ["x\n", "y\n", "d\n"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_keeps_the_permissions_that_its_owner_gave_it() {
    use std::os::unix::fs::PermissionsExt;

    let files =
        [file("secret", "1\n"), file("tool", "1\n"), file("made", "1\n"), executable("run", "1\n")];
    let run = CollectedFile {
        path: "made".to_owned(),
        kind: CollectedKind::File { executable: true, content: "2\n".into() },
    };
    let now = [added("secret", "2\n"), added("tool", "2\n"), run, added("run", "2\n")];
    let applying = Applying::new(&files, &now, &[]).await;
    let path = |name: &str| applying.folder.path().join(name);
    for (name, mode) in [("secret", 0o600), ("tool", 0o755), ("made", 0o640), ("run", 0o700)] {
        fs_err::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    applying.write().unwrap();
    // Only what the change says of them is another one.
    for (name, mode) in [("secret", 0o600), ("tool", 0o755), ("made", 0o750), ("run", 0o600)] {
        let found = fs_err::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((found, applying.read(name).as_str()), (mode, "2\n"), "{name}");
    }
}

/// Only root can give files away, and only what root writes has another owner.
#[tokio::test(flavor = "multi_thread")]
async fn what_root_writes_belongs_to_whom_the_checkout_does() {
    use std::os::unix::fs::{MetadataExt, chown};

    if !rustix::process::geteuid().is_root() {
        return;
    }
    let files = [file("kept", "1\n"), file("shared", "1\n")];
    let now = [added("kept", "2\n"), added("shared", "2\n"), added("new/deep/file", "3\n")];
    let applying = Applying::new(&files, &now, &[]).await;
    let path = |name: &str| applying.folder.path().join(name);
    for (name, owner, group) in [("", 4711, 4712), ("kept", 4711, 4712), ("shared", 4713, 4714)] {
        chown(path(name), Some(owner), Some(group)).unwrap();
    }
    applying.write().unwrap();
    for (name, owner, group) in [
        ("kept", 4711, 4712),
        ("shared", 4713, 4714),
        ("new", 4711, 4712),
        ("new/deep", 4711, 4712),
        ("new/deep/file", 4711, 4712),
    ] {
        let found = fs_err::metadata(path(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (owner, group), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_of_a_change_is_named_and_nothing_is_written() {
    let files = [file("d/a", "a\n")];
    let now = [added("d", "d\n"), added("n/w", "x\n")];
    let applying = Applying::new(&files, &now, &["d/a"]).await;
    let mine = applying.folder.path().join("d/mine");
    fs_err::write(&mine, "mine\n").unwrap();
    let told = applying.write().unwrap_err();
    assert!(told.contains("`d/mine` is in the way"), "{told}");
    fs_err::remove_file(mine).unwrap();
    fs_err::write(applying.folder.path().join("n"), "mine\n").unwrap();
    let told = applying.write().unwrap_err();
    assert!(told.contains("`n` is in the way"), "{told}");
    assert_eq!((applying.read("d/a"), applying.read("n")), ("a\n".into(), "mine\n".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_where_git_ends_lines_with_crlf_is_not_edited() {
    let files = [file("a", "1\n2\n"), file("b", "1\n")];
    let applying = Applying::new(&files, &[added("a", "1\n3\n")], &["b"]).await;
    let put = |path: &str, text: &str| {
        fs_err::write(applying.folder.path().join(path), text).unwrap();
    };
    put("a", "1\r\n2\n");
    let told = applying.write().unwrap_err();
    assert!(told.contains("`a` was edited since the base commit"), "{told}");
    put("a", "1\r\n2\r\n");
    put("b", "1\r\n");
    applying.write().unwrap();
    assert_eq!(applying.read("a"), "1\r\n3\r\n");
    assert!(!applying.folder.path().join("b").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_taken_away_where_it_still_leads_where_it_did() {
    let files = [symlink("to", "f"), symlink("gone", "/nowhere"), file("f", "f\n")];
    let applying = Applying::new(&files, &[added("to", "t\n")], &["gone"]).await;
    let gone = applying.folder.path().join("gone");
    fs_err::remove_file(&gone).unwrap();
    std::os::unix::fs::symlink("/elsewhere", &gone).unwrap();
    let told = applying.write().unwrap_err();
    assert!(told.contains("`gone` was edited since the base commit"), "{told}");
    fs_err::remove_file(&gone).unwrap();
    std::os::unix::fs::symlink("/nowhere", &gone).unwrap();
    applying.write().unwrap();
    assert_eq!((applying.read("to"), applying.read("f")), ("t\n".into(), "f\n".into()));
    assert!(fs_err::symlink_metadata(gone).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_the_folder_in_the_place_of_a_file_is_named() {
    let applying = Applying::new(&[file("f", "f\n")], &[added("f", "g\n")], &[]).await;
    let path = applying.folder.path().join("f");
    fs_err::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    let told = applying.write().unwrap_err();
    assert!(told.contains("`f`: it is a link, which it was not in the base commit"), "{told}");
}
