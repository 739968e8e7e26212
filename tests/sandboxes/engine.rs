//! Engines that are not as they should be: they offer an image without end, or apply no seccomp profile.
//! A socket that answers as Docker's API describes stands for them.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use patchwright_sandbox::docker::DockerSandbox;
use patchwright_sandbox::image::NamedBy;
use patchwright_sandbox::{ImageSpec, Sandbox, SandboxError};
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::spec;

/// The image's name in these tests.
const NAME: &str = "registry.example/huge:1";

/// What the engine has and does.
#[derive(Clone, Default)]
struct Engine {
    /// `SecurityOptions` of its information.
    security: Vec<&'static str>,
    /// Lines that a pull prints.
    progress: Vec<String>,
    /// The pull goes on without end after them.
    is_endless: bool,
    /// Bytes of the image that is there, or after a pull.
    image: Option<i64>,
    /// A label of the image.
    label: Option<&'static str>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Methods and paths, without the API's version.
    calls: Mutex<Vec<String>>,
    /// Containers that were asked for.
    asked: Mutex<Vec<Value>>,
    /// The image is there.
    has_image: AtomicBool,
    /// The client went away while it pulled.
    was_dropped: AtomicBool,
}

/// Notes that a pull's answer is not read any more.
struct Pull(Arc<Seen>);

impl Drop for Pull {
    fn drop(&mut self) {
        self.0.was_dropped.store(true, Ordering::SeqCst);
    }
}

impl Engine {
    /// Answers at a socket; what the sandbox makes of it.
    async fn serve(&self) -> (DockerSandbox, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let engine = self.clone();
        let router = Router::new().fallback(move |request: Request| {
            let engine = engine.clone();
            async move {
                let (head, body) = request.into_parts();
                if head.uri.path().ends_with("/containers/create") {
                    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                    let asked = serde_json::from_slice(&body).unwrap();
                    engine.seen.asked.lock().push(asked);
                }
                engine.answer(&Request::from_parts(head, Body::empty()))
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        let host = format!("unix://{}", path.display());
        (DockerSandbox::connect(Some(&host)).await.unwrap(), folder)
    }

    fn answer(&self, request: &Request) -> Response {
        let path = request.uri().path();
        let path = path
            .strip_prefix("/v1.")
            .and_then(|rest| rest.split_once('/'))
            .map_or_else(|| path.trim_start_matches('/').to_owned(), |(_, rest)| rest.to_owned());
        let json = |value: Value| axum::Json(value).into_response();
        self.seen.calls.lock().push(format!("{} {path}", request.method()));
        match (request.method(), path.as_str()) {
            (_, "version") => json(json!({ "Version": "20.10.24", "ApiVersion": "1.41" })),
            (_, "info") => json(json!({ "NCPU": 2, "SecurityOptions": self.security })),
            (&Method::POST, "images/create") => self.pull(),
            (&Method::POST, "volumes/create") => json(json!({
                "Name": "v", "Driver": "local", "Mountpoint": "/v", "Scope": "local",
                "Labels": {}, "Options": {},
            })),
            (&Method::DELETE, path) if path.starts_with("images/") => {
                self.seen.has_image.store(false, Ordering::SeqCst);
                json(json!([{ "Untagged": NAME }]))
            }
            (&Method::GET, path) if path.starts_with("images/") && path.ends_with("/json") => {
                if self.seen.has_image.load(Ordering::SeqCst) {
                    let id = format!("sha256:{}", "0".repeat(64));
                    let labels = self.label.map(|label| json!({ label: "1" }));
                    let config = json!({ "Labels": labels });
                    json(json!({ "Id": id, "Size": self.image, "Config": config }))
                } else {
                    let message = json!({ "message": format!("No such image: {NAME}") });
                    (StatusCode::NOT_FOUND, axum::Json(message)).into_response()
                }
            }
            (_, path) => {
                let message = json!({ "message": format!("not answered: {path}") });
                (StatusCode::NOT_IMPLEMENTED, axum::Json(message)).into_response()
            }
        }
    }

    fn pull(&self) -> Response {
        let lines: Vec<String> = self.progress.iter().map(|line| format!("{line}\r\n")).collect();
        if !self.is_endless {
            self.seen.has_image.store(self.image.is_some(), Ordering::SeqCst);
            return Body::from(lines.concat()).into_response();
        }
        let pull = Pull(Arc::clone(&self.seen));
        let going_on = stream::unfold((pull, lines.into_iter()), |(pull, mut lines)| async move {
            let line = match lines.next() {
                Some(line) => line,
                None => std::future::pending().await,
            };
            Some((Ok::<_, std::convert::Infallible>(Bytes::from(line)), (pull, lines)))
        });
        Body::from_stream(going_on).into_response()
    }

    fn calls(&self, start: &str) -> usize {
        let calls = self.seen.calls.lock();
        calls.iter().filter(|call| call.starts_with(start)).count()
    }
}

/// A layer on its way: `total` bytes, hardly any of them there.
fn downloading(id: &str, total: u64) -> String {
    let detail = json!({ "current": 1024, "total": total });
    json!({ "status": "Downloading", "progressDetail": detail, "id": id }).to_string()
}

const GIB: u64 = 1 << 30;

fn engine() -> Engine {
    Engine { security: vec!["name=seccomp,profile=default"], ..Engine::default() }
}

async fn prepared(sandbox: &DockerSandbox) -> Result<String, SandboxError> {
    prepared_for(sandbox, NamedBy::Operator).await
}

async fn prepared_for(sandbox: &DockerSandbox, named_by: NamedBy) -> Result<String, SandboxError> {
    let plain = ImageSpec::plain("acme/app".to_owned(), Some(NAME), "r1");
    let spec = ImageSpec { named_by, ..plain };
    Ok(sandbox.prepare(&spec).await?.reference)
}

#[track_caller]
fn assert_too_large(result: Result<String, SandboxError>) {
    let Err(SandboxError::NoImage { image, message }) = result else { panic!("{result:?}") };
    assert_eq!(image, NAME);
    assert!(message.contains("more than 20 GiB"), "{message}");
}

#[tokio::test]
async fn a_pull_without_end_is_given_up() {
    let engine = Engine {
        progress: vec![
            json!({ "status": "Pulling from huge", "id": "1" }).to_string(),
            json!({ "status": "Pulling fs layer", "progressDetail": {}, "id": "a" }).to_string(),
            downloading("a", 12 * GIB),
            downloading("b", 7 * GIB),
            downloading("a", 12 * GIB),
            downloading("c", 2 * GIB),
        ],
        is_endless: true,
        ..engine()
    };
    let (sandbox, _folder) = engine.serve().await;
    assert_too_large(prepared(&sandbox).await);
    assert_eq!(engine.calls("POST images/create"), 1, "it was asked for again");
    // The engine ends a pull when its client goes away.
    for _ in 0..1200 {
        if engine.seen.was_dropped.load(Ordering::SeqCst) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the pull goes on");
}

#[tokio::test]
async fn an_image_that_unpacks_to_too_much_is_removed_again() {
    let progress = vec![downloading("a", GIB)];
    let huge = Engine { progress: progress.clone(), image: Some(21 << 30), ..engine() };
    let (sandbox, _folder) = huge.serve().await;
    assert_too_large(prepared(&sandbox).await);
    assert!(!huge.seen.has_image.load(Ordering::SeqCst), "it was left");
    assert_eq!(huge.calls("DELETE images/"), 1);

    // One of an ordinary size is used, and so is any size that the engine had before.
    let usual = Engine { progress, image: Some(2 << 30), ..engine() };
    let (sandbox, _folder) = usual.serve().await;
    assert!(prepared(&sandbox).await.unwrap().starts_with("sha256:"));
    let there = Engine { image: Some(90 << 30), ..engine() };
    there.seen.has_image.store(true, Ordering::SeqCst);
    let (sandbox, _folder) = there.serve().await;
    assert!(prepared(&sandbox).await.is_ok());
    for engine in [usual, there] {
        assert_eq!(engine.calls("DELETE"), 0);
    }
}

#[tokio::test]
async fn an_image_that_was_pulled_for_one_repository_is_not_another_ones() {
    let message = "pull access denied for registry.example/huge";
    let denied = json!({ "errorDetail": { "message": message }, "error": message }).to_string();
    let here = Engine { progress: vec![denied], image: Some(2 << 30), ..engine() };
    here.seen.has_image.store(true, Ordering::SeqCst);
    let (sandbox, _folder) = here.serve().await;
    for named_by in [NamedBy::Operator, NamedBy::Repository] {
        assert!(prepared_for(&sandbox, named_by).await.is_ok(), "{named_by:?}");
    }
    assert_eq!(here.calls("POST images/create"), 0);
    let refused = prepared_for(&sandbox, NamedBy::OneOfMany).await;
    assert!(matches!(&refused, Err(SandboxError::NoImage { .. })), "{refused:?}");

    // What its registry gives to anybody is used, however large it is, and asked for once.
    let progress = vec![downloading("a", GIB)];
    let public = Engine { progress, image: Some(90 << 30), ..engine() };
    public.seen.has_image.store(true, Ordering::SeqCst);
    let (sandbox, _folder) = public.serve().await;
    for _ in 0..3 {
        assert!(prepared_for(&sandbox, NamedBy::OneOfMany).await.is_ok());
    }
    assert_eq!((public.calls("POST images/create"), public.calls("DELETE")), (1, 0));
}

#[tokio::test]
async fn what_setup_left_is_no_image_to_name() {
    let label = Some("patchwright.setup");
    let cached = Engine { image: Some(2 << 30), label, ..engine() };
    cached.seen.has_image.store(true, Ordering::SeqCst);
    let (sandbox, _folder) = cached.serve().await;
    for named_by in [NamedBy::Operator, NamedBy::Repository, NamedBy::OneOfMany] {
        let Err(SandboxError::NoImage { message, .. }) = prepared_for(&sandbox, named_by).await
        else {
            panic!("{named_by:?}")
        };
        assert!(message.contains("what setup left"), "{message}");
    }
}

#[tokio::test]
async fn without_a_seccomp_profile_no_container_is_made() {
    for (security, is_refused) in [
        ("name=seccomp,profile=unconfined", false),
        ("name=apparmor", true),
        ("name=seccomp,profile=builtin", false),
    ] {
        let engine = Engine { security: vec![security], image: Some(1 << 30), ..engine() };
        engine.seen.has_image.store(true, Ordering::SeqCst);
        let (sandbox, _folder) = engine.serve().await;
        let err = sandbox.start(&spec("r1", NAME)).await.err().unwrap();
        let is_looser =
            matches!(&err, SandboxError::HardeningMismatch(why) if why.contains("seccomp"));
        assert_eq!(is_looser, is_refused, "{security}: {err}");
        // The other one is asked for its container, and has none to give.
        assert_eq!(engine.calls("POST containers/create") > 0, !is_refused, "{security}: {err}");
        // Where the daemon applies no profile, the engine's own is asked for.
        for asked in engine.seen.asked.lock().iter() {
            let mut expected = vec!["no-new-privileges"];
            expected.extend(security.ends_with("unconfined").then_some("seccomp=builtin"));
            assert_eq!(asked["HostConfig"]["SecurityOpt"], json!(expected), "{security}");
        }
    }
}
