//! The file system that commands of the local sandbox see: a tree of its own, made of what they may use.
//!
//! [`enter`] puts it together in memory and makes it the root of this process: folders of the system, a list
//! of `/etc`, devices, terminals of its own, workspace, home and temporary files, at the same places as in a
//! container. All but what commands write to is read-only ([`super::read_only`]), and what is not everybody's
//! is closed ([`super::private`]). Nothing else of the machine has a name in it, so that nobody can open,
//! watch or change it, not even its mode, owner or times. It needs the right to
//! mount, and does it in a mount namespace that it makes for itself.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use super::confine::Bounds;
use super::{private, programs, read_only};
use crate::enforced::{Enforced, Home};

/// The workspace, as commands see it.
pub const WORKSPACE: &str = "/pw/workspace";
/// The home folder.
pub const HOME: &str = "/home/agent";
/// The folder of temporary files.
pub const TMP: &str = "/tmp";
/// The guest, and the folder with the names of its programs beside it.
pub const GUEST: &str = "/pw/patchwright-guest";
/// What stands in the place of files that commands find empty.
const EMPTY_FILE: &str = "/pw/empty";

pub(super) const SHARED_MEMORY: &str = "/dev/shm";
pub(super) const TERMINALS: &str = "/dev/pts";
/// Bytes of [`SHARED_MEMORY`].
const SHARED_BYTES: u64 = 64 << 20;
/// Inodes of the folders for temporary files, each.
const TMP_INODES: u32 = 200_000;
/// Bytes and inodes of the tree itself, which has nothing but folders and links in it.
const TREE: &str = "size=16m,nr_inodes=100000,mode=755";

/// Folders of the system that commands read and execute. The home folders, `/run` and `/var` are not among
/// them: credentials and sockets live there.
pub(super) const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/proc", "/sys",
];

/// What programs find to be there, empty.
const EMPTY: &[&str] = &["/root", "/run", "/var", "/srv", "/mnt", "/media"];

/// What commands see of `/etc`: what the loader, the C library, interpreters and compilers read. An entry
/// that ends with `*` is a beginning of names. Files in which credentials of registries are kept (`npmrc`,
/// `pip.conf`) are not on it.
const ETC: &[&str] = &[
    "alternatives",
    "apache-maven*",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "ethertypes",
    "fonts",
    "gai.conf",
    "gitconfig",
    "gprofng.rc",
    "gradle",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "issue",
    "java*",
    "jvm*",
    "ld.so.*",
    "ld-musl-*",
    "locale*",
    "login.defs",
    "lsb-release",
    "magic*",
    "mailcap",
    "manpath.config",
    "maven*",
    "mime.types",
    "mono",
    "mtab",
    "nanorc",
    "networks",
    "nsswitch.conf",
    "openssl*",
    "opt",
    "os-release",
    "passwd",
    "perl*",
    "php*",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "python*",
    "R",
    "resolv.conf",
    "rpc",
    "ruby*",
    "sensors3.conf",
    "services",
    "sgml",
    "shells",
    "skel",
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
    "ssl1.1",
    "system-release",
    "terminfo",
    "texmf",
    "timezone",
    "vim",
    "xattr.conf",
    "xdg",
    "xml",
    "zsh",
    "zshrc",
    "alpine-release",
    "centos-release",
    "fedora-release",
    "redhat-release",
];

/// Devices that commands may write to, besides terminals.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Where the kernel has a link in every system, and what it leads to.
const LINKS: &[(&str, &str)] = &[
    ("/dev/ptmx", "pts/ptmx"),
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// What commands write to.
pub(super) fn writable() -> [&'static str; 5] {
    [WORKSPACE, HOME, TMP, SHARED_MEMORY, TERMINALS]
}

/// Makes the tree and enters it; the working folder is then the workspace.
///
/// # Errors
/// When a part of it cannot be had: nothing less keeps files outside as they are.
pub fn enter(bounds: &Bounds) -> Result<Vec<Enforced>, String> {
    // Asked while this file and the root are in one mount namespace: in a changed root (`chroot`), the kernel would name it
    // by its path outside of that root afterwards.
    let guest =
        fs_err::read_link("/proc/self/exe").map_err(|err| failed(Path::new(GUEST), &err))?;
    separate().map_err(|err| format!("cannot have mounts of its own: {err}"))?;
    let tree = Tree { root: bounds.root.clone(), guest };
    let closed = tree.furnish(bounds)?;
    let enter = || -> std::io::Result<()> {
        rustix::process::chdir(&tree.root)?;
        // The old root is then above the new one, and taken away with everything below it.
        rustix::process::pivot_root(".", ".")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")?;
        Ok(())
    };
    enter().map_err(|err| format!("cannot enter a file system of its own: {err}"))?;
    read_only::all_but(&writable())?;
    rustix::process::chdir(WORKSPACE)
        .map_err(|err| format!("cannot enter the workspace: {err}"))?;
    let home = if bounds.home_is_bounded { Home::InMemory } else { Home::OnDisk };
    let temporary = Enforced::TemporaryFiles { mib: bounds.tmp_bytes >> 20, home };
    Ok(vec![Enforced::FileTree, closed, temporary, Enforced::Terminals])
}

/// A mount namespace that nobody else is in, and from which nothing comes back to others: whoever starts this
/// program, with whatever rights, keeps what is mounted and what its root is.
fn separate() -> Result<(), String> {
    unshare_mounts().map_err(|err| err.to_string())?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(|err| match err {
        // Without this, what is mounted here would be mounted for everybody, and the mount that the root belongs to has no
        // name inside of it.
        rustix::io::Errno::INVAL => {
            "the root is a folder that `chroot` was told, and not a mount: \
             `mount --bind` it onto itself before"
                .to_owned()
        }
        err => err.to_string(),
    })
}

#[expect(unsafe_code, reason = "the same call also takes flags that would be unsafe")]
fn unshare_mounts() -> rustix::io::Result<()> {
    // SAFETY: unsafe is what unshares open files; this does not.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
}

/// The tree on its way.
struct Tree {
    root: PathBuf,
    /// The file of this program.
    guest: PathBuf,
}

impl Tree {
    fn furnish(&self, bounds: &Bounds) -> Result<Enforced, String> {
        mount("tmpfs", &self.root, TREE, MountFlags::NOSUID | MountFlags::NODEV)?;
        for path in SYSTEM.iter().map(Path::new) {
            self.same(path)?;
        }
        for path in EMPTY {
            self.folder(Path::new(path))?;
        }
        self.etc()?;
        self.devices()?;
        self.memory(TMP, bounds.tmp_bytes, 0o1777)?;
        if bounds.home_is_bounded {
            self.memory(HOME, bounds.tmp_bytes, 0o700)?;
        } else {
            self.bind(&bounds.home, Path::new(HOME))?;
        }
        self.bind(&bounds.workspace, Path::new(WORKSPACE))?;
        self.guest()?;
        for path in bounds.read.iter().chain(&bounds.programs) {
            self.same(path)?;
            // Some programs know where they are by their real path only.
            if let Some(real) = fs_err::canonicalize(path).ok().filter(|real| real != path) {
                self.same(&real)?;
            }
        }
        self.empty(&bounds.emptied)?;
        private::close(&self.root, &self.places_of(&bounds.programs))
    }

    /// Puts an empty file over each of these.
    fn empty(&self, files: &[PathBuf]) -> Result<(), String> {
        let nothing = self.place(Path::new(EMPTY_FILE));
        for path in files {
            // A link would lead out of the tree, and its target is there under its own name.
            let real = fs_err::canonicalize(path).map(|real| self.place(&real));
            let Some(place) = real.ok().filter(|place| place.is_file()) else { continue };
            fs_err::File::create(&nothing)
                .and_then(|_| Ok(rustix::mount::mount_bind(&nothing, &place)?))
                .map_err(|err| failed(path, &err))?;
        }
        Ok(())
    }

    /// Where folders of programs are in the new tree, under each name that they have there.
    fn places_of(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let real = folders.iter().filter_map(|path| fs_err::canonicalize(path).ok());
        let named = folders.iter().filter(|path| !path.is_symlink()).cloned();
        let mut places: Vec<PathBuf> = named.chain(real).map(|path| self.place(&path)).collect();
        places.sort();
        places.dedup();
        places
    }

    /// Where a path of the new tree is until then.
    fn place(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn folder(&self, path: &Path) -> Result<PathBuf, String> {
        let place = self.place(path);
        fs_err::create_dir_all(&place).map_err(|err| failed(path, &err))?;
        Ok(place)
    }

    /// A file or folder of the machine, at a place of the new tree.
    fn bind(&self, from: &Path, to: &Path) -> Result<(), String> {
        let place = if from.is_dir() {
            self.folder(to)?
        } else {
            self.folder(to.parent().unwrap_or(Path::new("/")))?;
            let place = self.place(to);
            fs_err::File::create(&place).map_err(|err| failed(to, &err))?;
            place
        };
        rustix::mount::mount_bind_recursive(from, &place).map_err(|err| failed(to, &err.into()))
    }

    /// What the machine has there, at the same place: links as links. What is not there is no error, and
    /// neither is what is there already, as a part of something else.
    fn same(&self, path: &Path) -> Result<(), String> {
        let Ok(found) = fs_err::symlink_metadata(path) else { return Ok(()) };
        let place = self.place(path);
        if fs_err::symlink_metadata(&place).is_ok() {
            return Ok(());
        }
        if !found.is_symlink() {
            return self.bind(path, path);
        }
        self.folder(path.parent().unwrap_or(Path::new("/")))?;
        let made = fs_err::read_link(path).and_then(|target| symlink(target, &place));
        made.map_err(|err| failed(path, &err))
    }

    fn etc(&self) -> Result<(), String> {
        let names = fs_err::read_dir("/etc").into_iter().flatten().flatten();
        let names: Vec<String> =
            names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        self.folder(Path::new("/etc"))?;
        for entry in ETC {
            let matching: Vec<&str> = match entry.strip_suffix('*') {
                Some(start) => names
                    .iter()
                    .map(String::as_str)
                    .filter(|name| name.starts_with(start))
                    .collect(),
                None => vec![entry],
            };
            for name in matching {
                self.same(&Path::new("/etc").join(name))?;
            }
        }
        Ok(())
    }

    fn devices(&self) -> Result<(), String> {
        for device in DEVICES {
            self.same(Path::new(device))?;
        }
        for (link, target) in LINKS {
            symlink(target, self.place(Path::new(link)))
                .map_err(|err| failed(Path::new(link), &err))?;
        }
        let terminals = self.folder(Path::new(TERMINALS))?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("devpts", &terminals, "newinstance,ptmxmode=0666,mode=0600", flags)?;
        self.memory(SHARED_MEMORY, SHARED_BYTES, 0o1777)
    }

    /// The guest and its programs.
    fn guest(&self) -> Result<(), String> {
        let guest = Path::new(GUEST);
        self.bind(&self.guest, guest)?;
        let programs = self.folder(&guest.with_file_name(programs::FOLDER))?;
        for name in programs::NAMES {
            symlink(Path::new("..").join("patchwright-guest"), programs.join(name))
                .map_err(|err| failed(&programs.join(name), &err))?;
        }
        Ok(())
    }

    /// An empty folder in memory.
    fn memory(&self, path: &str, bytes: u64, mode: u32) -> Result<(), String> {
        let place = self.folder(Path::new(path))?;
        let options = format!("size={bytes},nr_inodes={TMP_INODES},mode={mode:o}");
        mount("tmpfs", &place, &options, MountFlags::NOSUID | MountFlags::NODEV)
    }
}

fn mount(kind: &str, path: &Path, options: &str, flags: MountFlags) -> Result<(), String> {
    let options = std::ffi::CString::new(options).map_err(|err| err.to_string())?;
    rustix::mount::mount(kind, path, kind, flags, options.as_c_str())
        .map_err(|err| failed(path, &err.into()))
}

fn failed(path: &Path, err: &std::io::Error) -> String {
    format!("cannot make `{}` for commands: {err}", path.display())
}
