//! Servers that send what no server should, and the process that reads it.

use std::os::fd::AsRawFd;
use std::time::Instant;

use patchwright_git::helper;
use patchwright_git::stop::Stop;

use super::*;

/// A body of `git-upload-pack` without history to cut: no common commit, then this pack.
fn answer(pack: &[u8]) -> Vec<u8> {
    let mut body = b"0008NAK\n".to_vec();
    body.extend(bands(pack));
    body.extend(b"0000");
    body
}

/// On the band of packs.
fn bands(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in bytes.chunks(60_000) {
        out.extend(format!("{:04x}\u{1}", piece.len() + 5).into_bytes());
        out.extend(piece);
    }
    out
}

const COMMIT: u8 = 1;
const TREE: u8 = 2;
const BLOB: u8 = 3;
const REF_DELTA: u8 = 7;

/// Kind and size in front of an object, as packs have them.
fn head(kind: u8, mut size: u64) -> Vec<u8> {
    let mut byte = (kind << 4) | u8::try_from(size & 15).unwrap();
    size >>= 4;
    let mut out = Vec::new();
    while size > 0 {
        out.push(byte | 0x80);
        byte = u8::try_from(size & 0x7f).unwrap();
        size >>= 7;
    }
    out.push(byte);
    out
}

/// A size in a delta.
fn number(mut size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while size > 0x7f {
        out.push(u8::try_from(size & 0x7f).unwrap() | 0x80);
        size >>= 7;
    }
    out.push(u8::try_from(size).unwrap());
    out
}

/// The stream that zlib would make if it compressed nothing, without the end when `is_open`.
fn stored(content: &[u8], is_open: bool) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let last = content.chunks(0xffff).count().max(1) - 1;
    let pieces: Vec<&[u8]> =
        if content.is_empty() { vec![&[]] } else { content.chunks(0xffff).collect() };
    for (at, piece) in pieces.into_iter().enumerate() {
        let length = u16::try_from(piece.len()).unwrap();
        out.push(u8::from(at == last && !is_open));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(piece);
    }
    if !is_open {
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in content {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        out.extend(((b << 16) | a).to_be_bytes());
    }
    out
}

fn object(kind: u8, content: &[u8]) -> Vec<u8> {
    [head(kind, content.len() as u64), stored(content, false)].concat()
}

/// An object that is another one with changes.
fn delta(base: git2::Oid, changes: &[u8]) -> Vec<u8> {
    let head = head(REF_DELTA, changes.len() as u64);
    [head, base.as_bytes().to_vec(), stored(changes, false)].concat()
}

/// A whole pack with its checksum.
fn pack(objects: &[Vec<u8>]) -> Vec<u8> {
    use sha1::Digest;
    let mut out = b"PACK".to_vec();
    out.extend(2_u32.to_be_bytes());
    out.extend(u32::try_from(objects.len()).unwrap().to_be_bytes());
    out.extend(objects.concat());
    let sum = sha1::Sha1::digest(&out);
    out.extend(sum);
    out
}

/// What the server has, as objects of a pack.
fn honest(world: &World) -> Vec<Vec<u8>> {
    let path = world.server.path(REPOSITORY);
    let read = |what: &str, kind: &str| {
        crate::support::git_repo::git_bytes(&path, &["cat-file", kind, what])
    };
    vec![
        object(COMMIT, &read("main", "commit")),
        object(TREE, &read("main^{tree}", "tree")),
        object(BLOB, &read("main:a", "blob")),
    ]
}

fn tight() -> Limits {
    Limits {
        bytes: 8 << 20,
        memory: 256 << 20,
        object: 1 << 20,
        idle: Duration::from_secs(20),
        tries: 1,
        ..Limits::default()
    }
}

/// Nothing of what was refused is in the mirror.
fn assert_clean(world: &World) {
    let left: Vec<PathBuf> = walk(&world.state())
        .into_iter()
        .filter(|path| {
            let path = path.to_string_lossy();
            path.contains("incoming-") || path.contains("/pack/") || path.contains("/heads/")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_that_are_traps_are_refused_and_leave_nothing() {
    let world = World::with(&[file("a", "1\n")]).await;
    let good = pack(&honest(&world));
    let blob = git2::Oid::hash_object(git2::ObjectType::Blob, b"1\n").unwrap();
    let with = |more: Vec<u8>| pack(&[honest(&world), vec![more]].concat());
    // A copy of the whole base, so many times.
    let wide = noise(60_000);
    let wide_id = git2::Oid::hash_object(git2::ObjectType::Blob, &wide).unwrap();
    let copies = |count: u64| {
        let copy = [0b1011_0000, 0x60, 0xea];
        let sizes = [number(60_000), number(60_000 * count)].concat();
        [sizes, copy.repeat(usize::try_from(count).unwrap())].concat()
    };
    let grown = |count| {
        let more = vec![object(BLOB, &wide), delta(wide_id, &copies(count))];
        pack(&[honest(&world), more].concat())
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("half a pack", good[..good.len() / 2].to_vec(), ""),
        ("a changed byte", [&good[..good.len() - 30], &noise(30)].concat(), ""),
        ("no pack", b"PACK".to_vec(), ""),
        (
            "an object that says it is huge",
            with([head(BLOB, 1 << 45), stored(b"x", false)].concat()),
            "",
        ),
        (
            "a delta that says it becomes huge",
            with(delta(blob, &[number(2), number(1 << 40), vec![0x90, 2]].concat())),
            "overly large object",
        ),
        ("a delta that becomes huge", grown(8_000), "more than 256 MiB of memory"),
        ("a delta that becomes large", grown(100), "6000000 bytes, and 1048576 are the most"),
        ("a large file", with(object(BLOB, &noise(2 << 20))), "2097152 bytes, and 1048576 are"),
        ("a delta of nothing", with(delta(git2::Oid::ZERO_SHA1, &copies(1))), ""),
    ];
    for (what, pack, expected) in cases {
        world.server.fault(Step::Fetch, Fault::Body(answer(&pack)));
        let error = world.fetch(world.remote().limited(tight()), &["main"], 0).await;
        let error = error.err().unwrap_or_else(|| panic!("{what} was taken")).to_string();
        assert!(error.contains(expected), "{what}: {error}");
        assert_clean(&world);
    }
    world.server.fault(Step::Fetch, Fault::Body(answer(&good)));
    let repo = world.fetch(world.remote().limited(tight()), &["main"], 0).await.unwrap();
    git(repo.path(), &["fsck", "--strict"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_without_end_is_cut_at_its_limit() {
    let world = World::with(&[file("a", "1\n")]).await;
    let begin = [b"PACK".to_vec(), vec![0, 0, 0, 2, 0, 0, 0, 1], head(BLOB, 1 << 45)].concat();
    let begin = [begin, stored(&[], true)].concat();
    let again = stored(&vec![0; 0xffff], true)[2..].to_vec();
    let endless = Fault::Endless([b"0008NAK\n".to_vec(), bands(&begin)].concat(), bands(&again));
    world.server.fault(Step::Fetch, endless);
    let error = world.fetch(world.remote().limited(tight()), &["main"], 0).await.unwrap_err();
    assert!(error.to_string().contains("sent more than 8388608 bytes"), "{error}");
    assert!(matches!(error, GitError::Unacceptable(_)), "{error:?}");
    assert_clean(&world);

    // Nor is a server listened to that lists refs without end.
    let line = "003e0123456789012345678901234567890123456789 refs/heads/abcde\n";
    assert_eq!(line.len(), 0x3e);
    let head = b"001e# service=git-upload-pack\n0000".to_vec();
    let refs = Fault::Refs(head, line.repeat(1000).into_bytes());
    world.server.fault(Step::Advertise, refs);
    let error = world.fetch(world.remote().limited(tight()), &["main"], 0).await.unwrap_err();
    assert!(error.to_string().contains("sent more than 8388608 bytes"), "{error}");
}

/// The helper that this process has started, once it is there.
fn helper_of_ours() -> Option<PathBuf> {
    let parent = format!("PPid:\t{}\n", std::process::id());
    fs_err::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).find(|process| {
        let read = |name: &str| fs_err::read_to_string(process.join(name)).unwrap_or_default();
        read("cmdline").contains("__git-helper") && read("status").contains(&parent)
    })
}

/// The helper's folder in `/proc`, when the server has got its request for a pack.
async fn find_helper(world: &World, requests_before: usize) -> PathBuf {
    let started = Instant::now();
    loop {
        if world.server.requests().len() >= requests_before + 2
            && let Some(found) = helper_of_ours()
        {
            return found;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "no helper was started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn line_of(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line[name.len()..].split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_reads_packs_has_no_key_and_little_else() {
    let world = World::with(&[file("a", "1\n")]).await;
    world.server.fault(Step::Fetch, Fault::Slow(Duration::from_secs(3)));
    // Open files of whoever started us, as a shell or a service leaves them.
    let open = fs_err::File::open("/etc/hostname").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let number = open.as_raw_fd();
    let (remote, url, state) = (world.remote(), world.clone_url(), world.state());
    let fetched = tokio::spawn(blocking(move || {
        let repo = mirror(&state, &url)?;
        fetch(&repo, &remote, &["main".to_owned()], 1)?;
        Ok(repo)
    }));
    // It waits for the server: the walls are up.
    let process = find_helper(&world, 0).await;
    let read = |name: &str| fs_err::read_to_string(process.join(name)).unwrap();
    assert_eq!(read("environ"), "");
    assert!(!read("cmdline").contains(TOKEN));
    let status = read("status");
    for (name, value) in
        [("Seccomp:", "2"), ("NoNewPrivs:", "1"), ("Threads:", "1"), ("CoreDumping:", "0")]
    {
        assert_eq!(line_of(&status, name), value, "{name}");
    }
    let limits = read("limits");
    for (name, value) in [
        ("Max core file size", "0 0 bytes"),
        ("Max data size", "2147483648 2147483648 bytes"),
        ("Max address space", "8589934592 8589934592 bytes"),
        ("Max file size", "5368709120 5368709120 bytes"),
        ("Max cpu time", "900 900 seconds"),
    ] {
        assert_eq!(line_of(&limits, name), value, "{name}");
    }
    let mut files: Vec<_> = fs_err::read_dir(process.join("fd")).unwrap().flatten().collect();
    files.retain(|file| {
        let target = fs_err::read_link(file.path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        assert!(!target.contains("hostname") && !target.contains("socket:"), "{target}");
        !target.starts_with("pipe:") && target != "/dev/null" && !target.contains("/incoming-")
    });
    assert!(files.is_empty(), "{files:?}; ours was {number}");
    // It never got the token.
    assert!(memory_without(&process, TOKEN.as_bytes()), "the token is in its memory");
    drop(open);
    let repo = fetched.await.unwrap().unwrap();
    assert!(repo.resolve("main").is_ok());
    assert_eq!(helper_of_ours(), None);
}

/// Looks through all of a process's memory that can be read.
fn memory_without(process: &Path, secret: &[u8]) -> bool {
    use std::os::unix::fs::FileExt;
    let maps = fs_err::read_to_string(process.join("maps")).unwrap();
    let memory = std::fs::File::open(process.join("mem")).unwrap();
    let mut seen = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        let Ok(()) = memory.read_exact_at(&mut bytes, start) else { continue };
        seen += bytes.len();
        if bytes.windows(secret.len()).any(|part| part == secret) {
            return false;
        }
    }
    assert!(seen > 100_000, "only {seen} bytes could be read");
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_packs_ends_with_the_run_that_needs_it() {
    let world = World::with(&[file("a", "1\n")]).await;
    // A deadline.
    world.server.fault(Step::Fetch, Fault::Slow(Duration::from_mins(10)));
    let stop = Stop { deadline: Some(Instant::now() + Duration::from_secs(10)), ..Stop::default() };
    let remote = world.remote().limited(tight()).until(stop);
    world.fetch(remote, &["main"], 1).await.unwrap_err();
    assert_eq!(helper_of_ours(), None);
    // Somebody gives up.
    world.server.fault(Step::Fetch, Fault::Slow(Duration::from_mins(10)));
    let stop = Stop::default();
    let cancel = stop.cancel.clone();
    let remote = world.remote().limited(Limits { idle: Duration::from_mins(10), ..tight() });
    let before = world.server.requests().len();
    let ended = async {
        find_helper(&world, before).await;
        cancel.cancel();
    };
    let (fetched, ()) = tokio::join!(world.fetch(remote.until(stop), &["main"], 1), ended);
    let error = fetched.unwrap_err();
    assert!(matches!(error, GitError::Machine(_)), "{error:?}");
    assert_eq!(helper_of_ours(), None);
    // It is killed by the system.
    world.server.fault(Step::Fetch, Fault::Slow(Duration::from_secs(2)));
    let before = world.server.requests().len();
    let killed = async {
        let process = find_helper(&world, before).await;
        let number = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let process = rustix::process::Pid::from_raw(number).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    };
    let (fetched, ()) =
        tokio::join!(world.fetch(world.remote().limited(tight()), &["main"], 1), killed);
    let error = fetched.unwrap_err();
    assert!(error.to_string().contains("git's helper was killed"), "{error}");
    assert_clean(&world);
    world.fetch(world.remote().limited(tight()), &["main"], 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_ten_million_files_is_fetched_and_refused_in_little_memory() {
    let world = World::with(&[file("a", "1\n")]).await;
    let path = world.server.path(REPOSITORY);
    {
        let server = git2::Repository::open_bare(&path).unwrap();
        let tip = server.refname_to_id("refs/heads/main").unwrap();
        let (mut id, mut mode) = (server.blob(b"x\n").unwrap(), 0o100_644);
        for _ in 0..7 {
            let mut tree = server.treebuilder(None).unwrap();
            for name in 0..10 {
                tree.insert(format!("{name}"), id, mode).unwrap();
            }
            (id, mode) = (tree.write().unwrap(), 0o040_000);
        }
        let who = git2::Signature::new("A", "a@example.com", &git2::Time::new(0, 0)).unwrap();
        let (tree, tip) = (server.find_tree(id).unwrap(), server.find_commit(tip).unwrap());
        let bomb = server.commit(None, &who, &who, "Bomb", &tree, &[&tip]).unwrap();
        server.reference("refs/heads/bomb", bomb, true, "bomb").unwrap();
    }
    let repo = world.fetch(world.remote(), &["main", "bomb"], 50).await.unwrap();
    let tree = |name: &str| tree_of(&repo, repo.resolve(name).unwrap()).unwrap();
    let (old, new) = (tree("main"), tree("bomb"));
    let kept = repo.clone();
    // A whole difference takes 1.7 GB.
    let within = Limits { memory: 200 << 20, ..Limits::default() };
    let compared =
        blocking(move || helper::compare_within(&kept, old, new, &Stop::default(), within));
    let error = compared.await.unwrap_err();
    assert_eq!(error.to_string(), "there are more than 20000 files");
    let workspace = Workspace::pin(repo, "bomb", 5).await.unwrap();
    let error =
        workspace.pack(&ContainerLimits::default(), Additions::default()).await.unwrap_err();
    assert!(error.to_string().contains("more than 1000000 files"), "{error}");
}

/// The kernel ends a confined helper with the thread that has started it.
#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_was_ready_does_its_job_when_whoever_asked_for_it_is_gone() {
    let world = World::with(&[file("a", "1\n")]).await;
    let id = world.server.tip(REPOSITORY, "main").unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let asking = std::thread::spawn(move || {
        patchwright_git::helper::make_ready();
        let _ = wait.recv();
    });
    let started = Instant::now();
    let ready = loop {
        if let Some(ready) = helper_of_ours() {
            break ready;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "no helper was started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    world.server.fault(Step::Fetch, Fault::Slow(Duration::from_secs(2)));
    let meanwhile = async {
        while world.server.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(ready.exists(), "another one has the job");
        drop(go);
        asking.join().unwrap();
    };
    let refs = [id.as_str()];
    let (fetched, ()) = tokio::join!(world.fetch(world.remote(), &refs, 1), meanwhile);
    assert_eq!(fetched.unwrap().resolve(&id).unwrap().to_string(), id);
}
