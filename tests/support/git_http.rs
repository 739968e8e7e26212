//! A git server like GitHub's: smart HTTP by the real `git http-backend` over a folder of bare
//! repositories, with tokens, private repositories, renames, refusing hooks, faults and a request
//! log. Mount [`router`] beside other routes, or [`serve`] it alone on a free port.
#![expect(clippy::disallowed_methods, reason = "the server runs the real git")]
#![allow(dead_code, reason = "each test uses a part")]

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[allow(unused_imports, reason = "whoever has the server also wants these")]
pub(crate) use super::git_repo::{
    Entry, command, commit, deleted, executable, file, git, git_with_input, renamed, submodule,
    symlink,
};

use super::git_quick;
use super::git_repo::sealed;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `info/refs` of `git-upload-pack`.
    Advertise,
    /// `info/refs` of `git-receive-pack`.
    AdvertiseForPush,
    Fetch,
    Push,
}

/// Something that goes wrong once.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Answers with this status without doing anything.
    Status(u16),
    /// Answers with this status without doing anything, from the first such request on for so long.
    DownFor(u16, Duration),
    /// Answers with this status without doing anything, until then.
    DownUntil(u16, Instant),
    /// Answers with this status, these headers and this body without doing anything.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Answers a fetch with this body in the place of git.
    Body(Vec<u8>),
    /// Answers a fetch with the first, and then with the second again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// Answers a request for a list of refs with the first, and then with the second again and again.
    Refs(Vec<u8>, Vec<u8>),
    /// Does it so much later, also when nobody waits for the answer any more.
    Late(Duration),
    /// Cuts the connection after this many bytes of the answer's body.
    CutAfter(usize),
    /// Waits first.
    Slow(Duration),
    /// Redirects to this URL.
    RedirectTo(String),
    /// Somebody else moves a branch first: repository, branch, commit.
    MoveFirst(String, String, String),
}

/// One request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// The `Authorization` header.
    pub(crate) authorization: Option<String>,
    pub(crate) body_bytes: usize,
}

/// The server's repositories, tokens and troubles. Names are `owner/name`.
pub(crate) struct GitState {
    root: PathBuf,
    tokens: Mutex<BTreeMap<String, Access>>,
    /// Token and repository of which it may read only.
    read_only: Mutex<BTreeSet<(String, String)>>,
    private: Mutex<BTreeSet<String>>,
    archived: Mutex<BTreeSet<String>>,
    renamed: Mutex<BTreeMap<String, String>>,
    /// Answers to everything that is asked about a repository.
    closed: Mutex<BTreeMap<String, (u16, String)>>,
    /// With the repository that they are for, if it is not any.
    faults: Mutex<Vec<(Option<String>, Step, Fault)>>,
    log: Mutex<Vec<Logged>>,
    clock: AtomicU64,
    is_down: std::sync::atomic::AtomicBool,
    is_old: std::sync::atomic::AtomicBool,
}

impl GitState {
    /// A server over an empty folder.
    pub(crate) fn new(root: &Path) -> Arc<GitState> {
        git_quick::name_helper();
        std::fs::create_dir_all(root).unwrap();
        Arc::new(GitState {
            root: root.to_owned(),
            tokens: Mutex::default(),
            read_only: Mutex::default(),
            private: Mutex::default(),
            archived: Mutex::default(),
            renamed: Mutex::default(),
            closed: Mutex::default(),
            faults: Mutex::default(),
            log: Mutex::default(),
            clock: AtomicU64::new(1_700_000_000),
            is_down: false.into(),
            is_old: false.into(),
        })
    }

    pub(crate) fn allow(&self, token: &str, access: Access) {
        self.tokens.lock().insert(token.to_owned(), access);
    }

    /// The token is worth nothing any more.
    pub(crate) fn forbid(&self, token: &str) {
        self.tokens.lock().remove(token);
    }

    /// Whether a token that may write may do so in this repository.
    pub(crate) fn allow_in(&self, token: &str, repository: &str, writes: bool) {
        let place = (token.to_owned(), repository.to_owned());
        let mut read_only = self.read_only.lock();
        if writes {
            read_only.remove(&place);
        } else {
            read_only.insert(place);
        }
    }

    /// Only tokens see it from now on.
    pub(crate) fn make_private(&self, repository: &str) {
        self.private.lock().insert(repository.to_owned());
    }

    pub(crate) fn archive(&self, repository: &str) {
        self.archived.lock().insert(repository.to_owned());
    }

    /// The old name redirects to the new one.
    pub(crate) fn rename(&self, old: &str, new: &str) {
        std::fs::create_dir_all(self.path(new).parent().unwrap()).unwrap();
        std::fs::rename(self.path(old), self.path(new)).unwrap();
        let mut renamed = self.renamed.lock();
        renamed.insert(old.to_owned(), new.to_owned());
        // Who takes a name ends the redirect from it.
        renamed.remove(new);
    }

    /// A former name redirects to this one.
    pub(crate) fn redirect(&self, old: &str, new: &str) {
        self.renamed.lock().insert(old.to_owned(), new.to_owned());
    }

    /// Everything about this repository is answered so.
    pub(crate) fn close(&self, repository: &str, status: u16, words: &str) {
        self.closed.lock().insert(repository.to_owned(), (status, words.to_owned()));
    }

    /// Seconds of the next commit.
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(60, Ordering::Relaxed)
    }

    /// A fault that is not over, in front of all others.
    fn put_fault(&self, repository: &str, step: Step, fault: Fault) {
        self.faults.lock().insert(0, (Some(repository.to_owned()), step, fault));
    }

    /// The next request of this kind fails so; faults queue up.
    pub(crate) fn fault(&self, step: Step, fault: Fault) {
        self.faults.lock().push((None, step, fault));
    }

    /// The next request of this kind for one repository fails so; faults queue up.
    pub(crate) fn fault_in(&self, repository: &str, step: Step, fault: Fault) {
        self.faults.lock().push((Some(repository.to_owned()), step, fault));
    }

    /// Every request is answered with 502.
    pub(crate) fn is_down(&self, is_down: bool) {
        self.is_down.store(is_down, std::sync::atomic::Ordering::SeqCst);
    }

    /// It speaks the oldest version of the protocol alone.
    pub(crate) fn is_old(&self, is_old: bool) {
        self.is_old.store(is_old, std::sync::atomic::Ordering::SeqCst);
    }

    pub(crate) fn requests(&self) -> Vec<Logged> {
        self.log.lock().clone()
    }

    /// The bare repository on disk.
    pub(crate) fn path(&self, repository: &str) -> PathBuf {
        self.root.join(format!("{repository}.git"))
    }

    /// Creates a bare repository without commits.
    pub(crate) fn create(&self, repository: &str) {
        git_quick::create(&self.path(repository));
        // Who takes a name ends the redirect from it.
        self.renamed.lock().remove(repository);
    }

    /// Adds a commit with these files on top of a branch and returns its id. Files that are not
    /// named stay.
    pub(crate) fn commit(
        &self,
        repository: &str,
        branch: &str,
        message: &str,
        files: &[Entry],
    ) -> String {
        let now = self.clock.fetch_add(60, Ordering::Relaxed);
        commit(&self.path(repository), branch, message, now, files)
    }

    /// What a branch points to.
    pub(crate) fn tip(&self, repository: &str, branch: &str) -> Option<String> {
        let reference = format!("refs/heads/{branch}");
        let format = "--format=%(objectname)";
        let found = git(&self.path(repository), &["for-each-ref", format, &reference]);
        Some(found.trim().to_owned()).filter(|tip| !tip.is_empty())
    }

    /// Refuses updates of refs that match the shell pattern, with these words on standard error.
    pub(crate) fn refuse(&self, repository: &str, pattern: &str, words: &str) {
        let words = words.replace('\'', "'\\''");
        let script =
            format!("#!/bin/sh\ncase \"$1\" in {pattern}) echo '{words}' >&2; exit 1;; esac\n");
        self.hook(repository, "update", &script);
    }

    /// A protected branch, in GitHub's words.
    pub(crate) fn protect(&self, repository: &str, branch: &str) {
        let reference = format!("refs/heads/{branch}");
        let words = format!("error: GH006: Protected branch update failed for {reference}.");
        self.refuse(repository, &reference, &words);
    }

    /// Commits that touch `.github/workflows` need a permission that nobody here has.
    pub(crate) fn refuse_workflow_changes(&self, repository: &str) {
        let script = "#!/bin/sh\n\
            git diff --name-only \"$(git merge-base \"$3\" main)\" \"$3\" | grep -q '^.github/workflows/' || exit 0\n\
            echo 'refusing to allow a GitHub App to create or update workflow without `workflows` permission' >&2\n\
            exit 1\n";
        self.hook(repository, "update", script);
    }

    /// Installs a server-side hook.
    pub(crate) fn hook(&self, repository: &str, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(repository).join("hooks").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn take_fault(&self, repository: &str, step: Step) -> Option<Fault> {
        let mut faults = self.faults.lock();
        let at = faults.iter().position(|(place, when, _)| {
            *when == step && place.as_deref().is_none_or(|place| place == repository)
        })?;
        Some(faults.remove(at).2)
    }

    /// Like GitHub: a bad token is never welcome, strangers may read what is public.
    fn refusal(&self, repository: &str, wanted: Access, headers: &HeaderMap) -> Option<Response> {
        let token = token(headers);
        let access = match &token {
            Some(token) => match self.tokens.lock().get(token) {
                Some(access) => Some(*access),
                None => return Some(unauthorized()),
            },
            None => None,
        };
        let public = !self.private.lock().contains(repository);
        if access.is_none() && (wanted == Access::Write || !public) {
            return Some(unauthorized());
        }
        if !self.path(repository).is_dir() {
            return Some((StatusCode::NOT_FOUND, "Repository not found.").into_response());
        }
        if wanted == Access::Write && self.archived.lock().contains(repository) {
            let words = "remote: This repository was archived so it is read-only.";
            return Some((StatusCode::FORBIDDEN, words).into_response());
        }
        let place = (token.unwrap_or_default(), repository.to_owned());
        let denied = self.read_only.lock().contains(&place);
        if wanted == Access::Write && (access < Some(Access::Write) || denied) {
            let words = format!("remote: Permission to {repository}.git denied to test.");
            return Some((StatusCode::FORBIDDEN, words).into_response());
        }
        None
    }
}

/// The git routes: `/{owner}/{name}[.git]/…`.
pub(crate) fn router(state: Arc<GitState>) -> Router {
    Router::new()
        .route("/{owner}/{name}/info/refs", get(answer))
        .route("/{owner}/{name}/git-upload-pack", post(answer))
        .route("/{owner}/{name}/git-receive-pack", post(answer))
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
}

/// Serves the repositories on a free port of the loopback; returns `http://127.0.0.1:PORT`.
pub(crate) async fn serve(state: Arc<GitState>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router(state)).await });
    format!("http://{address}")
}

impl GitState {
    /// Lets a fault happen; what it answers in the place of git.
    async fn answer_of(&self, fault: &Fault, repository: &str, step: Step) -> Option<Response> {
        match fault {
            Fault::Status(status) => {
                return Some(StatusCode::from_u16(*status).unwrap().into_response());
            }
            Fault::DownFor(status, time) => {
                self.put_fault(repository, step, Fault::DownUntil(*status, Instant::now() + *time));
                return Some(StatusCode::from_u16(*status).unwrap().into_response());
            }
            Fault::DownUntil(status, until) if Instant::now() < *until => {
                self.put_fault(repository, step, Fault::DownUntil(*status, *until));
                return Some(StatusCode::from_u16(*status).unwrap().into_response());
            }
            Fault::Answer(status, headers, body) => {
                let status = StatusCode::from_u16(*status).unwrap();
                let mut answer = (status, body.clone()).into_response();
                for (name, value) in headers {
                    answer.headers_mut().insert(*name, value.parse().unwrap());
                }
                return Some(answer);
            }
            Fault::Body(body) => return Some(spoken("result", Body::from(body.clone()))),
            Fault::Endless(first, again) => return Some(spoken("result", endless(first, again))),
            Fault::Refs(first, again) => {
                return Some(spoken("advertisement", endless(first, again)));
            }
            Fault::RedirectTo(url) => return Some(moved(url)),
            Fault::Slow(wait) => tokio::time::sleep(*wait).await,
            Fault::MoveFirst(repository, branch, commit) => {
                let reference = format!("refs/heads/{branch}");
                git(&self.path(repository), &["update-ref", &reference, commit]);
            }
            Fault::CutAfter(_) | Fault::Late(_) | Fault::DownUntil(..) => {}
        }
        None
    }

    fn note(&self, head: &Parts, body_bytes: usize) {
        let authorization = head.headers.get(header::AUTHORIZATION);
        self.log.lock().push(Logged {
            method: head.method.to_string(),
            target: head.uri.path_and_query().unwrap().to_string(),
            authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
            body_bytes,
        });
    }
}

async fn answer(State(state): State<Arc<GitState>>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    state.note(&head, body.len());

    let mut parts = head.uri.path().trim_start_matches('/').splitn(3, '/');
    let (owner, name, rest) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let repository = format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(name));
    let query = head.uri.query().unwrap_or_default();
    let pushes = rest == "git-receive-pack" || query == "service=git-receive-pack";
    let step = match rest {
        "info/refs" if pushes => Step::AdvertiseForPush,
        "info/refs" => Step::Advertise,
        "git-upload-pack" => Step::Fetch,
        _ => Step::Push,
    };

    if state.is_down.load(std::sync::atomic::Ordering::SeqCst) {
        return (StatusCode::BAD_GATEWAY, "502 Bad Gateway").into_response();
    }
    let fault = state.take_fault(&repository, step);
    if let Some(fault) = &fault
        && let Some(answer) = state.answer_of(fault, &repository, step).await
    {
        return answer;
    }
    let renamed = state.renamed.lock().get(&repository).cloned();
    if let Some(new) = renamed {
        return moved(&format!("/{new}.git/{rest}?{query}"));
    }
    let closed = state.closed.lock().get(&repository).cloned();
    if let Some((status, words)) = closed {
        return (StatusCode::from_u16(status).unwrap(), words).into_response();
    }
    let wanted = if pushes { Access::Write } else { Access::Read };
    if let Some(refusal) = state.refusal(&repository, wanted, &head.headers) {
        return refusal;
    }
    let path_info = format!("/{repository}.git/{rest}");
    let late = match &fault {
        Some(Fault::Late(wait)) => *wait,
        _ => Duration::ZERO,
    };
    let (root, query) = (state.root.clone(), query.to_owned());
    if state.is_old.load(std::sync::atomic::Ordering::SeqCst) {
        head.headers.remove("git-protocol");
    }
    // A task of its own goes on when the client is gone.
    let work = tokio::spawn(async move {
        tokio::time::sleep(late).await;
        backend(&root, &head.method, &path_info, &query, &head.headers, body).await
    });
    let output = work.await.unwrap();
    let cut = match fault {
        Some(Fault::CutAfter(bytes)) => Some(bytes),
        _ => None,
    };
    from_cgi(&output, cut)
}

fn spoken(part: &str, body: Body) -> Response {
    ([(header::CONTENT_TYPE, format!("application/x-git-upload-pack-{part}"))], body)
        .into_response()
}

fn endless(first: &[u8], again: &[u8]) -> Body {
    let pieces = std::iter::once(first.to_vec()).chain(std::iter::repeat(again.to_vec()));
    Body::from_stream(futures_util::stream::iter(pieces.map(Ok::<_, std::io::Error>)))
}

fn moved(url: &str) -> Response {
    (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, url.to_owned())]).into_response()
}

fn unauthorized() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"GitHub\"")];
    (StatusCode::UNAUTHORIZED, challenge, "Bad credentials").into_response()
}

/// The password of Basic, which is where git clients put the token.
fn token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let decoded = BASE64_STANDARD.decode(value.strip_prefix("Basic ")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    Some(text.split_once(':')?.1.to_owned())
}

async fn backend(
    root: &Path,
    method: &axum::http::Method,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> Vec<u8> {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env_clear()
        .envs(sealed(root))
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "test")
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("REQUEST_METHOD", method.as_str())
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut output = Vec::new();
    let write = async move {
        let _ = stdin.write_all(&body).await;
    };
    let ((), read) = tokio::join!(write, stdout.read_to_end(&mut output));
    read.unwrap();
    child.wait().await.unwrap();
    output
}

/// Turns CGI output into a response, whole or cut.
fn from_cgi(output: &[u8], cut: Option<usize>) -> Response {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(output.len());
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").unwrap();
        if name.eq_ignore_ascii_case("status") {
            response = response.status(value[..3].parse::<u16>().unwrap());
        } else {
            response = response.header(name, value);
        }
    }
    let body = Bytes::copy_from_slice(output.get(end + 4..).unwrap_or_default());
    let body = match cut {
        None => Body::from(body),
        Some(bytes) => {
            let part = body.slice(..bytes.min(body.len()));
            // The pause lets the first part leave before the connection breaks.
            let then_break = futures_util::stream::unfold(0, move |at| {
                let part = part.clone();
                async move {
                    if at == 0 {
                        return Some((Ok(part), 1));
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some((Err(std::io::Error::other("cut")), 2))
                }
            });
            Body::from_stream(then_break)
        }
    };
    response.body(body).unwrap()
}
