//! Check runs, commit statuses, and the jobs and logs of GitHub Actions.

use super::{Answer, Repository, Request, Value, World, json, shape};
use crate::support::github::git;
use crate::support::github::shape::time;
use crate::support::github::shape_review::{app_id, check_run, minimal, pulls_at};
use crate::support::github::world::{CheckRun, Status, TokenKind};

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    let repository = &world.repositories[place];
    match (request.method.as_str(), rest) {
        ("POST", ["check-runs"]) => Some(create(world, request, place)),
        ("PATCH", ["check-runs", id]) => edit(world, request, place, id.parse().ok()?),
        ("GET", ["check-runs", id]) => {
            let check = find(repository, id)?;
            Some(Answer::new(200, check_run(world, &request.base, repository, check)))
        }
        ("GET", ["check-runs", id, "annotations"]) => {
            let check = find(repository, id)?;
            let items = check.annotations.iter().map(|sent| {
                let mut value = json!({
                    "start_column": null, "end_column": null, "title": null, "raw_details": null,
                    "blob_href": request.base.api("blob"),
                });
                for (key, sent) in sent.as_object().into_iter().flatten() {
                    value[key] = sent.clone();
                }
                value
            });
            Some(request.page(Some(repository), items.collect()))
        }
        ("GET", ["commits", name, "check-runs"]) => {
            let sha = git::commit(&repository.path, name)?;
            Some(list(world, request, place, &sha))
        }
        ("GET", ["commits", name, "status"]) => combined(world, request, place, name),
        ("POST", ["statuses", sha]) => Some(status(world, request, place, sha)),
        ("GET", ["actions", "jobs", id]) => {
            let check = find(repository, id).filter(|check| check.app == "github-actions")?;
            Some(Answer::new(200, job(request, repository, check)))
        }
        ("GET", ["actions", "jobs", id, "logs"]) => {
            let check = find(repository, id).filter(|check| check.app == "github-actions")?;
            check.log.as_ref()?;
            let to = format!("http://{}/storage/logs/{}", world.logs_address?, check.id);
            Some(Answer::text(302, "").header("location", format!("{to}?sig=once&se=soon")))
        }
        ("GET", ["actions", "runs"]) => Some(runs(world, request, place)),
        ("GET", ["actions", "runs", id]) => {
            let id: u64 = id.parse().ok()?;
            let check = repository.check_runs.iter().find(|check| check.run == id)?;
            Some(Answer::new(200, run(world, request, repository, check)))
        }
        ("GET", ["actions", "runs", id, "jobs"]) => {
            let id: u64 = id.parse().ok()?;
            let jobs = repository.check_runs.iter().filter(|check| check.run == id);
            let items = jobs.map(|check| job(request, repository, check)).collect();
            Some(request.page_of(repository, "jobs", items))
        }
        _ => None,
    }
}

fn find<'a>(repository: &'a Repository, id: &str) -> Option<&'a CheckRun> {
    let id: u64 = id.parse().ok()?;
    repository.check_runs.iter().find(|check| check.id == id)
}

/// The slug of the app whose token asks; none for a person's.
fn app(request: &Request) -> Result<String, Answer> {
    match request.token.kind() {
        TokenKind::App | TokenKind::Actions => {
            Ok(request.login.trim_end_matches("[bot]").to_owned())
        }
        _ => Err(Answer::problem(403, "You must authenticate via a GitHub App.")),
    }
}

fn create(world: &mut World, request: &Request, place: usize) -> Answer {
    let app = match app(request) {
        Ok(app) => app,
        Err(answer) => return answer,
    };
    let sha = request.text("head_sha");
    if git::commit(&world.repositories[place].path, &sha).as_ref() != Some(&sha) {
        return Answer::problem(422, &format!("No commit found for SHA: {sha}"));
    }
    let (id, run, started) = (world.id(), world.id(), world.tick());
    let mut check = CheckRun {
        id,
        run,
        sha,
        name: request.text("name"),
        app,
        status: "queued".to_owned(),
        conclusion: None,
        title: None,
        summary: None,
        text: None,
        annotations: Vec::new(),
        details_url: None,
        external_id: None,
        started,
        log: None,
    };
    apply(&mut check, request);
    world.repositories[place].check_runs.push(check);
    let repository = &world.repositories[place];
    let check = repository.check_runs.last().unwrap();
    Answer::new(201, check_run(world, &request.base, repository, check))
}

/// What the request says; annotations are added to those that are there.
fn apply(check: &mut CheckRun, request: &Request) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let output = request.field("output");
    check.status = text(request.field("status")).unwrap_or(check.status.clone());
    if let Some(conclusion) = text(request.field("conclusion")) {
        (check.conclusion, check.status) = (Some(conclusion), "completed".to_owned());
    } else if check.status != "completed" {
        check.conclusion = None;
    }
    check.name = text(request.field("name")).unwrap_or(check.name.clone());
    check.details_url = text(request.field("details_url")).or(check.details_url.take());
    check.external_id = text(request.field("external_id")).or(check.external_id.take());
    check.title = text(&output["title"]).or(check.title.take());
    check.summary = text(&output["summary"]).or(check.summary.take());
    check.text = text(&output["text"]).or(check.text.take());
    check.annotations.extend(output["annotations"].as_array().cloned().unwrap_or_default());
}

fn edit(world: &mut World, request: &Request, place: usize, id: u64) -> Option<Answer> {
    let app = match app(request) {
        Ok(app) => app,
        Err(answer) => return Some(answer),
    };
    let checks = &mut world.repositories[place].check_runs;
    let check = checks.iter_mut().find(|check| check.id == id)?;
    if check.app != app {
        let text = format!(
            "Invalid app_id `{}` - check run can only be modified by the GitHub App that created it.",
            app_id(&app)
        );
        return Some(Answer::problem(403, &text));
    }
    apply(check, request);
    let repository = &world.repositories[place];
    let check = repository.check_runs.iter().find(|check| check.id == id)?;
    Some(Answer::new(200, check_run(world, &request.base, repository, check)))
}

fn list(world: &World, request: &Request, place: usize, sha: &str) -> Answer {
    let repository = &world.repositories[place];
    let mut shown: Vec<&CheckRun> = Vec::new();
    for check in repository.check_runs.iter().rev().filter(|check| check.sha == sha) {
        let wanted = |name: &str, value: &str| request.query(name).is_none_or(|q| q == value);
        let app = request.query("app_id").is_none_or(|id| id == app_id(&check.app).to_string());
        // The latest of each name and app, unless all are asked for.
        let older = request.query("filter") != Some("all")
            && shown.iter().any(|newer| newer.name == check.name && newer.app == check.app);
        if wanted("check_name", &check.name) && wanted("status", &check.status) && app && !older {
            shown.push(check);
        }
    }
    let items =
        shown.into_iter().map(|check| check_run(world, &request.base, repository, check)).collect();
    request.page_of(repository, "check_runs", items)
}

fn status_shape(world: &World, request: &Request, repository: &Repository, of: &Status) -> Value {
    let url = format!("repos/{}/statuses/{}", repository.full_name(), of.sha);
    json!({
        "id": of.id, "node_id": format!("SC_{}", of.id), "url": request.base.api(&url),
        "avatar_url": "https://example.com/", "state": of.state, "description": of.description,
        "target_url": of.target_url, "context": of.context, "created_at": time(of.created),
        "updated_at": time(of.created), "creator": shape::user(world, Some(&of.creator)),
    })
}

fn status(world: &mut World, request: &Request, place: usize, sha: &str) -> Answer {
    if git::commit(&world.repositories[place].path, sha).as_deref() != Some(sha) {
        return Answer::problem(422, &format!("No commit found for SHA: {sha}"));
    }
    let text = |name: &str| request.field(name).as_str().map(str::to_owned);
    let description = text("description");
    if description.as_ref().is_some_and(|text| text.chars().count() > 140) {
        let message = "description is too long (maximum is 140 characters)";
        let error = json!({"code": "custom", "field": "description", "message": message});
        return Answer::invalid("Status", &[error]);
    }
    let status = Status {
        id: world.id(),
        sha: sha.to_owned(),
        context: text("context").unwrap_or_else(|| "default".to_owned()),
        state: request.text("state"),
        description,
        target_url: text("target_url"),
        creator: request.login.clone(),
        created: world.tick(),
    };
    world.repositories[place].statuses.push(status.clone());
    let repository = &world.repositories[place];
    Answer::new(201, status_shape(world, request, repository, &status))
}

fn combined(world: &World, request: &Request, place: usize, name: &str) -> Option<Answer> {
    let repository = &world.repositories[place];
    let sha = git::commit(&repository.path, name)?;
    let mut latest: Vec<&Status> = Vec::new();
    for status in repository.statuses.iter().rev().filter(|status| status.sha == sha) {
        if !latest.iter().any(|newer| newer.context == status.context) {
            latest.push(status);
        }
    }
    let any = |state: &str| latest.iter().any(|status| status.state == state);
    let state = if any("failure") || any("error") {
        "failure"
    } else if latest.is_empty() || any("pending") {
        "pending"
    } else {
        "success"
    };
    let url = |path: &str| request.base.api(&format!("repos/{}/{path}", repository.full_name()));
    let shown = latest.iter().map(|status| {
        let mut shown = status_shape(world, request, repository, status);
        shown.as_object_mut().unwrap().remove("creator");
        shown
    });
    let shown: Vec<Value> = shown.collect();
    Some(Answer::new(
        200,
        json!({
            "state": state, "sha": sha, "total_count": shown.len(), "statuses": shown,
            "repository": minimal(world, &request.base, repository),
            "commit_url": url(&format!("commits/{sha}")),
            "url": url(&format!("commits/{sha}/status")),
        }),
    ))
}

fn job(request: &Request, repository: &Repository, check: &CheckRun) -> Value {
    let url = |path: String| request.base.api(&format!("repos/{}/{path}", repository.full_name()));
    shape::made_of(
        "job",
        json!({
            "id": check.id, "run_id": check.run, "head_sha": check.sha, "name": check.name,
            "run_url": url(format!("actions/runs/{}", check.run)),
            "url": url(format!("actions/jobs/{}", check.id)),
            "check_run_url": url(format!("check-runs/{}", check.id)),
            "status": check.status, "conclusion": check.conclusion, "workflow_name": "CI",
            "started_at": time(check.started), "created_at": time(check.started),
            "completed_at": time(check.started + 60),
            "steps": [{"name": "Run", "status": check.status, "conclusion": check.conclusion, "number": 1}],
        }),
    )
}

fn run(world: &World, request: &Request, repository: &Repository, check: &CheckRun) -> Value {
    let url =
        request.base.api(&format!("repos/{}/actions/runs/{}", repository.full_name(), check.run));
    let pull = repository.pulls.values().find(|pull| pull.last_head == check.sha);
    shape::made_of(
        "workflow-run",
        json!({
            "id": check.run, "head_sha": check.sha, "name": "CI", "display_title": "CI",
            "head_branch": pull.map(|pull| pull.head.clone()), "event": "pull_request",
            "status": check.status, "conclusion": check.conclusion, "url": url,
            "path": ".github/workflows/ci.yml", "run_number": 1, "run_attempt": 1,
            "html_url": format!("{}/{}/actions/runs/{}", request.base.server, repository.full_name(), check.run),
            "jobs_url": format!("{url}/jobs"), "logs_url": format!("{url}/logs"),
            "created_at": time(check.started), "updated_at": time(check.started),
            "pull_requests": pulls_at(&request.base, repository, &check.sha),
            "repository": minimal(world, &request.base, repository),
            "head_repository": minimal(world, &request.base, repository),
        }),
    )
}

fn runs(world: &World, request: &Request, place: usize) -> Answer {
    let repository = &world.repositories[place];
    let wanted = request.query("head_sha");
    let checks = repository.check_runs.iter().rev().filter(|check| check.app == "github-actions");
    let items = checks
        .filter(|check| wanted.is_none_or(|sha| check.sha == sha))
        .map(|check| run(world, request, repository, check));
    request.page_of(repository, "workflow_runs", items.collect())
}
