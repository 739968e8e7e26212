//! `GET /runs/ID/report.html`: the report of a run of this machine. It was made of what a model and a
//! repository said, so it gets an origin of its own and may do nothing.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path as FilePath;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::{ServerState, dashboard};

/// Bytes of the largest report that is served.
const LARGEST: u64 = 64 << 20;
const LONGEST_ID: usize = 64;
const FILE: &str = "report.html";
/// `sandbox` alone takes scripts, forms and the origin of the dashboard (and with it the visitor's cookie)
/// from the page, whatever is in it. Its own policy allows its one style by a hash.
const POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An id as runs have them: nothing that could lead out of the folder.
pub(super) fn is_id(run: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !run.is_empty() && run.len() <= LONGEST_ID && run.chars().all(is_plain)
}

/// This machine has the report of that run.
pub fn is_here(state: &FilePath, run: &str) -> bool {
    let path = state.join("runs").join(run).join(FILE);
    is_id(run) && fs_err::symlink_metadata(path).is_ok_and(|data| data.is_file())
}

/// The addresses of those reports of these runs that this machine has, by the run's id.
pub(super) async fn here(state: &FilePath, runs: Vec<String>) -> BTreeMap<String, String> {
    let state = state.to_owned();
    let look = move || {
        let here = runs.into_iter().filter(|run| is_here(&state, run));
        here.map(|run| (run.clone(), format!("/runs/{run}/report.html"))).collect()
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

pub(super) async fn report(
    State(shared): State<Arc<ServerState>>,
    Path(run): Path<String>,
) -> Response {
    let none = || (StatusCode::NOT_FOUND, "this machine has no report of such a run\n");
    if !is_id(&run) {
        return none().into_response();
    }
    let state = shared.fleet.state.clone();
    let read = tokio::task::spawn_blocking(move || read(&state, &run)).await;
    match read {
        Ok(Some(html)) => dashboard::page_response(&shared, &html, POLICY),
        Ok(None) | Err(_) => none().into_response(),
    }
}

/// The report, if it is a regular file in this folder. Symbolic links are not followed.
fn read(state: &FilePath, run: &str) -> Option<String> {
    let folder = state.join("runs").join(run);
    if !fs_err::symlink_metadata(&folder).ok()?.is_dir() {
        return None;
    }
    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).ok()?;
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(no_link).open(folder.join(FILE)).ok()?;
    let data = file.metadata().ok()?;
    if !data.is_file() || data.len() > LARGEST {
        return None;
    }
    let mut html = String::new();
    file.take(LARGEST).read_to_string(&mut html).ok()?;
    Some(html)
}
