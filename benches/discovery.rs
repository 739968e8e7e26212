//! A hundred thousand repositories of an organisation are found and planned: requests, time, and how much
//! memory `patchwright batch plan` takes for it. `cargo bench --bench discovery`.
//!
//! GitHub is this process, which makes its answers when it is asked; the program is one of its own, so that
//! only its memory and CPU are counted.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::disallowed_methods, reason = "it starts processes")]
#![allow(clippy::zombie_processes, reason = "wait4 reaps the child by its process id")]
#![allow(unsafe_code, reason = "wait4 is the only way to a child's own resource usage")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::collections::HashMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

const COUNTS: [usize; 3] = [1_000, 10_000, 100_000];
const PAGE: usize = 100;
const CAMPAIGN: &str =
    "name: many\nselect:\n  organizations: [acme]\ntask:\n  prompt: Make it add.\n";

/// A GitHub with so many repositories.
struct Many {
    count: usize,
    address: String,
    pages: AtomicUsize,
    questions: AtomicUsize,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    for count in COUNTS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (pages, questions) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let many = Arc::new(Many { count, address, pages, questions });
        let router = Router::new()
            .route("/orgs/acme/repos", get(repositories))
            .route("/user", get(async || Json(json!({"login": "us", "id": 1, "type": "User"}))))
            .route("/graphql", post(graphql))
            .with_state(Arc::clone(&many));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let plan = Arc::clone(&many);
        tokio::task::spawn_blocking(move || measure(&plan)).await.unwrap();
        server.abort();
    }
}

fn measure(many: &Many) {
    let folder = tempfile::tempdir().unwrap();
    let campaign = folder.path().join("campaign.yml");
    std::fs::write(&campaign, CAMPAIGN).unwrap();
    let begun = Instant::now();
    let mut plan = Command::new(env!("CARGO_BIN_EXE_patchwright"))
        .args(["batch", "plan", "--json"])
        .arg(&campaign)
        .env_clear()
        .env("HOME", folder.path())
        .env("PATCHWRIGHT_STATE_DIR", folder.path().join("state"))
        .env("GITHUB_API_URL", &many.address)
        .env("GITHUB_SERVER_URL", &many.address)
        .env("GITHUB_GRAPHQL_URL", format!("{}/graphql", many.address))
        .env("GITHUB_TOKEN", "token")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    plan.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let (status, cpu, rss) = wait(&plan);
    assert_eq!(status, 0, "{said}");
    println!(
        "{}: {} pages, {} questions, {:.1} s, {cpu:.1} s of CPU, {rss} MB at most\n  {}",
        many.count,
        many.pages.load(Ordering::Relaxed),
        many.questions.load(Ordering::Relaxed),
        begun.elapsed().as_secs_f64(),
        said.trim(),
    );
}

/// Its exit status, seconds of CPU, and the most megabytes that it had.
fn wait(child: &Child) -> (i32, f64, i64) {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live values that `wait4` fills.
    let usage = unsafe {
        libc::wait4(child.id().cast_signed(), &raw mut status, 0, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (status, seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss / 1_024)
}

fn name(number: usize) -> String {
    format!("repository-with-a-name-{number:06}")
}

async fn repositories(
    State(many): State<Arc<Many>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    many.pages.fetch_add(1, Ordering::Relaxed);
    let page: usize = asked.get("page").map_or(1, |page| page.parse().unwrap());
    let (from, to) = ((page - 1) * PAGE, (page * PAGE).min(many.count));
    // As much as GitHub tells of each, which is a few kilobytes.
    let one = |number| {
        let name = name(number);
        json!({"full_name": format!("acme/{name}"), "name": name, "description": "x".repeat(3_000)})
    };
    let found: Vec<Value> = (from..to).map(one).collect();
    let address = &many.address;
    let to_page = |page: usize, rel: &str| {
        format!("<{address}/orgs/acme/repos?type=all&per_page=100&page={page}>; rel=\"{rel}\"")
    };
    let mut headers = HeaderMap::new();
    if to < many.count {
        let links =
            [to_page(page + 1, "next"), to_page(many.count.div_ceil(PAGE), "last")].join(", ");
        headers.insert("link", links.parse().unwrap());
    }
    (headers, Json(found)).into_response()
}

/// The facts of each repository that is asked for by its alias.
async fn graphql(State(many): State<Arc<Many>>, Json(question): Json<Value>) -> Json<Value> {
    many.questions.fetch_add(1, Ordering::Relaxed);
    let variables = question["variables"].as_object().unwrap();
    if !variables.contains_key("n0") {
        return Json(json!({"data": {"viewer": {"login": "us", "databaseId": 1}}}));
    }
    let mut data = Map::new();
    for at in 0.. {
        let Some(name) = variables.get(&format!("n{at}")).and_then(Value::as_str) else { break };
        let node = json!({
            "id": format!("R_{name}"), "nameWithOwner": format!("acme/{name}"),
            "isArchived": false, "isDisabled": false, "isFork": false, "isTemplate": false,
            "isPrivate": true, "viewerPermission": "WRITE",
            "defaultBranchRef": {"name": "main", "target": {"oid": "0123456789abcdef0123456789abcdef01234567"}},
            "repositoryTopics": {"nodes": [{"topic": {"name": "service"}}]},
            "pullRequests": {"pageInfo": {"hasNextPage": false, "endCursor": null}, "nodes": []},
        });
        data.insert(format!("r{at}"), node);
    }
    Json(json!({"data": data}))
}
