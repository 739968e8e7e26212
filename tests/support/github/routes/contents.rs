//! Files and folders of a branch or commit.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Answer, Repository, Request, Value, git, json};
use crate::support::git_quick::{self, Entry};

pub(super) fn answer(request: &Request, repository: &Repository, path: &str) -> Option<Answer> {
    if git_quick::is_empty(&repository.path) {
        return Some(Answer::problem(404, "This repository is empty."));
    }
    let named = request.query("ref");
    let branch = named.unwrap_or(&repository.default_branch);
    let Some(commit) = git::commit(&repository.path, branch.trim_start_matches("refs/heads/"))
    else {
        return Some(Answer::problem(404, &format!("No commit found for the ref {branch}")));
    };
    let path = path.trim_matches('/');
    if let Some(entries) = git_quick::folder(&repository.path, &format!("{commit}:{path}")) {
        let items = entries.iter().map(|entry| item(request, repository, branch, path, entry));
        return Some(Answer::new(200, items.collect()));
    }
    if request.accept.contains("raw") {
        let found = git_quick::object(&repository.path, &format!("{commit}:{path}"))?;
        return Some(Answer::text(200, &String::from_utf8_lossy(&found.content)));
    }
    Some(Answer::new(200, file(request, repository, branch, path)?))
}

/// A file with its content.
pub(super) fn file(
    request: &Request,
    repository: &Repository,
    branch: &str,
    path: &str,
) -> Option<Value> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let entries = git_quick::folder(&repository.path, &format!("{branch}:{folder}"))?;
    let entry = entries.iter().find(|entry| entry.name == name)?;
    let mut value = item(request, repository, branch, folder, entry);
    let found = git_quick::object(&repository.path, &entry.id);
    match (value["type"].as_str().unwrap_or_default(), found) {
        ("file", Some(found)) if found.content.len() <= 1 << 20 => {
            // A line is broken after sixty characters.
            let text = BASE64_STANDARD.encode(&found.content);
            let lines = text.as_bytes().chunks(60).map(String::from_utf8_lossy);
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            value["content"] = json!(text);
            value["encoding"] = json!("base64");
        }
        ("file", _) => {
            value["content"] = json!("");
            value["encoding"] = json!("none");
        }
        ("symlink", Some(found)) => {
            value["target"] = json!(String::from_utf8_lossy(&found.content));
        }
        _ => value["submodule_git_url"] = json!("https://example.com/"),
    }
    Some(value)
}

fn item(
    request: &Request,
    repository: &Repository,
    branch: &str,
    folder: &str,
    entry: &Entry,
) -> Value {
    let kind = match entry.mode {
        0o040_000 => "dir",
        0o120_000 => "symlink",
        0o160_000 => "submodule",
        _ => "file",
    };
    let name = repository.full_name();
    let path =
        if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
    let escaped: Vec<String> = path
        .split('/')
        .map(|part| {
            url::form_urlencoded::byte_serialize(part.as_bytes())
                .collect::<String>()
                .replace('+', "%20")
        })
        .collect();
    let escaped = escaped.join("/");
    let url = request.base.api(&format!("repos/{name}/contents/{escaped}?ref={branch}"));
    let git = request.base.api(&format!("repos/{name}/git/blobs/{}", entry.id));
    let html = format!("{}/{name}/blob/{branch}/{escaped}", request.base.server);
    let download = format!("{}/{name}/raw/{branch}/{escaped}", request.base.server);
    json!({
        "type": kind, "size": entry.size, "name": entry.name, "path": path, "sha": entry.id,
        "url": url, "git_url": git, "html_url": html,
        "download_url": if kind == "file" { json!(download) } else { Value::Null },
        "_links": {"self": url, "git": git, "html": html},
    })
}
