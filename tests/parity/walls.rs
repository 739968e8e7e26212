//! What commands are kept from, and what they keep: each attempt is made in both sandboxes and, as a control,
//! without one, where it must succeed. The table in `docs/sandbox.md` is made of the same list.
#![expect(clippy::disallowed_methods, reason = "makes the same attempts without a sandbox")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};

use super::{Place, limits};

/// One row: what is tried, in Python, and where it is possible.
struct Wall {
    what: &'static str,
    attempt: &'static str,
    in_docker: bool,
    in_local: bool,
    /// The control works for root only.
    takes_root: bool,
}

const fn held(what: &'static str, attempt: &'static str) -> Wall {
    Wall { what, attempt, in_docker: false, in_local: false, takes_root: false }
}

const fn held_from_root(what: &'static str, attempt: &'static str) -> Wall {
    Wall { takes_root: true, ..held(what, attempt) }
}

const fn free(what: &'static str, attempt: &'static str) -> Wall {
    Wall { in_docker: true, in_local: true, ..held(what, attempt) }
}

const fn only_docker(what: &'static str, attempt: &'static str) -> Wall {
    Wall { in_docker: true, ..held(what, attempt) }
}

/// `@name` is something of the machine's: see [`Outside`].
const WALLS: &[Wall] = &[
    free(
        "write to its workspace, its home folder and `/tmp`",
        "[open(os.path.join(at, f'x{os.getpid()}'), 'w').close() or os.remove(os.path.join(at, f'x{os.getpid()}')) for at in (os.getcwd(), os.environ['HOME'], '/tmp')]",
    ),
    free("open terminals of its own", "import pty; os.ttyname(pty.openpty()[1])"),
    held("read a file of the caller's", "open('@folder/file').read()"),
    held("see that it is there", "os.stat('@folder/file')"),
    held("write to it", "open('@folder/file', 'a').close()"),
    held("truncate it", "os.truncate('@folder/file', 0)"),
    held(
        "change its mode, owner or times",
        "os.chmod('@folder/file', 0o600); os.utime('@folder/file'); os.chown('@folder/file', os.getuid(), os.getgid())",
    ),
    held("give it attributes", "os.setxattr('@folder/file', 'user.patchwright', b'x')"),
    held("watch its folder", "answer(libc.inotify_add_watch(libc.inotify_init(), b'@folder', 2))"),
    held_from_root(
        "change the mode of a file of the system",
        "fd = os.open('/etc/passwd', os.O_PATH); os.chmod('/proc/self/fd/%d' % fd, os.stat('/etc/passwd').st_mode & 0o7777)",
    ),
    held_from_root("read what is not everybody's below `/opt`", "open('@private').read()"),
    held_from_root("read `/etc/shadow`", "open('/etc/shadow').read()"),
    held(
        "open a terminal of the caller's",
        "os.close(os.open('@terminal', os.O_RDWR | os.O_NOCTTY))",
    ),
    held("signal a program of the caller's", "os.kill(@pid, 0)"),
    held(
        "set its limits",
        "import resource as r; r.prlimit(@pid, r.RLIMIT_NOFILE, r.prlimit(@pid, r.RLIMIT_NOFILE))",
    ),
    held(
        "set limits or the priority of the guest",
        "import resource as r; r.prlimit(@parent, r.RLIMIT_NOFILE, r.prlimit(@parent, r.RLIMIT_NOFILE)); os.setpriority(os.PRIO_PROCESS, @parent, os.getpriority(os.PRIO_PROCESS, @parent))",
    ),
    held("find a message queue of other programs", "answer(libc.msgget(@queue, 0))"),
    held("connect to a server of the machine", "socket.create_connection(('127.0.0.1', @port), 5)"),
    held(
        "connect to a local socket of the machine",
        "socket.socket(socket.AF_UNIX).connect('\\0@socket')",
    ),
    held("make namespaces", "answer(libc.unshare(0x10000000))"),
    free(
        "start a server on `127.0.0.1` for itself, and connect to it",
        "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)",
    ),
    only_docker(
        "start a server on a local socket for itself",
        "import tempfile; socket.socket(socket.AF_UNIX).bind(tempfile.mktemp())",
    ),
    only_docker("trace a process of its own", "answer(libc.ptrace(0, 0, 0, 0))"),
];

/// Around an attempt. What is not an error of the kernel's is a defect of the attempt, and shows.
const ATTEMPT: &str = "\
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def answer(value):
    if value == -1: raise OSError(ctypes.get_errno(), 'no')
try:
    @attempt
    print('possible')
except OSError: print('held')
";

const POSSIBLE: &str = "possible";
const HELD: &str = "held";

fn word(possible: bool) -> &'static str {
    if possible { POSSIBLE } else { HELD }
}

/// What the machine has, for as long as a test lasts.
struct Outside {
    folder: tempfile::TempDir,
    program: Child,
    #[expect(dead_code, reason = "they are there until they are dropped")]
    kept: (std::os::fd::OwnedFd, std::net::TcpListener, UnixListener),
    private: Option<PathBuf>,
    queue: u32,
    names: Vec<(&'static str, String)>,
}

impl Outside {
    fn make() -> Outside {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs_err::write(folder.path().join("file"), "secret").unwrap();
        let program = Command::new("sleep").arg("600").spawn().unwrap();
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = format!("patchwright-test-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(&socket).unwrap();
        let local = UnixListener::bind_addr(&address).unwrap();
        // No other test has this number.
        let queue = 0x7077_0000 + program.id();
        let is_root = rustix::process::geteuid().is_root();
        let private = is_root.then(|| {
            let path = PathBuf::from(format!("/opt/patchwright-test-{}", program.id()));
            fs_err::create_dir(&path).unwrap();
            let key = path.join("key");
            fs_err::write(&key, "secret").unwrap();
            let mode: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs_err::set_permissions(key, mode).unwrap();
            path
        });
        let key =
            private.as_deref().map_or_else(String::new, |it| it.join("key").display().to_string());
        let names = vec![
            ("@folder", folder.path().display().to_string()),
            ("@pid", program.id().to_string()),
            ("@terminal", name),
            ("@port", server.local_addr().unwrap().port().to_string()),
            ("@socket", socket),
            ("@private", key),
            ("@queue", queue.to_string()),
        ];
        let kept = (terminal, server, local);
        let outside = Outside { folder, program, kept, private, queue, names };
        assert_eq!(outside.alone(&format!("answer(libc.msgget({queue}, 0o1600))")), POSSIBLE);
        outside
    }

    /// The program that makes an attempt. `parent` is what stands above it.
    fn code(&self, attempt: &str, parent: &str) -> String {
        let code = ATTEMPT.replace("@attempt", attempt).replace("@parent", parent);
        self.names.iter().fold(code, |code, (name, value)| code.replace(name, value))
    }

    /// What comes of an attempt without a sandbox.
    fn alone(&self, attempt: &str) -> String {
        let code = self.code(attempt, "os.getppid()");
        let out = Command::new("python3")
            .args(["-c", &code])
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .output()
            .unwrap();
        let text = [out.stdout, out.stderr].concat();
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    async fn within(&self, place: &Place, attempt: &str) -> String {
        let guest = place.running.client.hello().pid;
        let env = BTreeMap::from([("ATTEMPT".to_owned(), self.code(attempt, &guest.to_string()))]);
        let argv = ["sh", "-c", "exec python3 -c \"$ATTEMPT\""].map(str::to_owned).to_vec();
        place.exec_as(argv, env, 60_000).await.unwrap().output.trim().to_owned()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let remove = format!("answer(libc.msgctl(libc.msgget({}, 0), 0, 0))", self.queue);
        self.alone(&remove);
        let _ = self.program.kill();
        let _ = self.program.wait();
        if let Some(path) = &self.private {
            let _ = fs_err::remove_dir_all(path);
        }
    }
}

async fn as_the_table_says(place: &Place, outside: &Outside) {
    let mut wrong = Vec::new();
    for wall in WALLS {
        let expected = word(if place.is_docker() { wall.in_docker } else { wall.in_local });
        let found = outside.within(place, wall.attempt).await;
        if found != expected {
            wrong.push(format!("{}: {found:?} instead of {expected}", wall.what));
        }
        // After it, so that an attempt that came through would have something to come to.
        if !wall.takes_root || rustix::process::geteuid().is_root() {
            let control = outside.alone(wall.attempt);
            if control != POSSIBLE {
                wrong.push(format!("{}: without a sandbox {control:?}", wall.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The machine's things are there before the sandbox is: private files are looked for when it starts.
#[tokio::test]
async fn walls_are_as_documented_in_docker() {
    let outside = Outside::make();
    let Some(place) = Place::docker(limits()).await else { return };
    as_the_table_says(&place, &outside).await;
    place.finish().await;
}

#[tokio::test]
async fn walls_are_as_documented_in_the_local_sandbox() {
    let outside = Outside::make();
    let place = Place::local(limits()).await;
    as_the_table_says(&place, &outside).await;
    place.finish().await;
}

#[test]
fn the_table_of_walls_is_what_is_tried() {
    const BEGIN: &str = "<!-- walls: made by `UPDATE=1 cargo test --test main walls` -->\n";
    const END: &str = "<!-- end of walls -->";
    let mut table = "\n| A command tries to | Docker | local |\n|---|---|---|\n".to_owned();
    for wall in WALLS {
        let (docker, local) = (word(wall.in_docker), word(wall.in_local));
        writeln!(table, "| {} | {docker} | {local} |", wall.what).unwrap();
    }
    table.push('\n');
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/sandbox.md");
    let text = fs_err::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table has a beginning");
    let (there, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(there, table, "docs/sandbox.md is out of date: run this test with UPDATE=1");
    }
}
