//! What GitHub tells a workflow: the payload files of events, made of the world as it is. Every field
//! that the description of webhooks requires is there.
//!
//! ```ignore
//! let event = github.pull_request_event("opened", 5, "bob");
//! let path = event.write(folder);   // GITHUB_EVENT_PATH; event.name is GITHUB_EVENT_NAME
//! ```

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::openapi::webhooks;
use super::server::Server;
use super::shape::{self, Base, time};
use super::shape_review;
use super::world::{Repository, World};

/// An event as a workflow gets it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// `pull_request`, `issue_comment`, …
    pub(crate) name: &'static str,
    pub(crate) payload: Value,
}

impl Event {
    /// Writes the payload to `event.json` in a folder.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("event.json");
        fs_err::write(&path, self.payload.to_string()).unwrap();
        path
    }

    /// This payload under another name, as `pull_request_target` has that of `pull_request`.
    pub(crate) fn named(self, name: &'static str) -> Event {
        Event { name, ..self }
    }

    /// With something changed by hand.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Value)) -> Event {
        change(&mut self.payload);
        self
    }
}

/// A payload with what all have.
fn payload(world: &World, base: &Base, schema: &str, sender: &str, fields: Value) -> Value {
    payload_of(world, base, &world.repositories[0], schema, sender, fields)
}

fn payload_of(
    world: &World,
    base: &Base,
    repository: &Repository,
    schema: &str,
    sender: &str,
    fields: Value,
) -> Value {
    let mut value = fields;
    value["repository"] = shape::repository(world, base, repository, "full-repository");
    value["sender"] = shape::user(world, Some(sender));
    webhooks().complete(&format!("webhook-{schema}"), &mut value);
    value
}

/// As in the answers of the API, before anybody asked whether it can be merged.
fn pull(world: &World, base: &Base, number: u64) -> Value {
    let repository = &world.repositories[0];
    let mut value = shape::pull(world, base, repository, number, "pull-request");
    value["mergeable"] = Value::Null;
    value["mergeable_state"] = json!("unknown");
    value
}

fn author(repository: &Repository, number: u64) -> String {
    repository.issues[&number].author.clone().unwrap_or_default()
}

impl Server {
    fn told<T>(&self, sender: &str, tell: impl FnOnce(&World, &Base) -> T) -> T {
        let viewer = super::world::Token::default();
        let base = Base { server: self.server_url(), prefix: String::new(), viewer };
        let mut world = self.world();
        world.sync_pulls();
        if !sender.is_empty() {
            world.add_user(sender);
        }
        tell(&world, &base)
    }

    /// `pull_request`: `opened`, `reopened`, `ready_for_review`, `closed`, `edited`, …
    pub(crate) fn pull_request_event(&self, action: &str, number: u64, sender: &str) -> Event {
        let payload = self.told(sender, |world, base| {
            let schema = match action {
                "reopened" => "pull-request-reopened",
                "ready_for_review" => "pull-request-ready-for-review",
                _ => "pull-request-opened",
            };
            let pull = pull(world, base, number);
            let fields = json!({"action": action, "number": number, "pull_request": pull});
            payload(world, base, schema, sender, fields)
        });
        Event { name: "pull_request", payload }
    }

    /// `pull_request` `labeled`, with this label.
    pub(crate) fn pull_labeled_event(&self, number: u64, label: &str, sender: &str) -> Event {
        let payload = self.told(sender, |world, base| {
            let fields = json!({
                "action": "labeled", "number": number, "pull_request": pull(world, base, number),
                "label": shape::label(label),
            });
            payload(world, base, "pull-request-labeled", sender, fields)
        });
        Event { name: "pull_request", payload }
    }

    /// `pull_request` `synchronize`, after a push that left `before`.
    pub(crate) fn synchronize_event(&self, number: u64, before: &str, sender: &str) -> Event {
        let payload = self.told(sender, |world, base| {
            let fields = json!({
                "action": "synchronize", "number": number, "before": before,
                "after": world.pull(0, number).last_head, "pull_request": pull(world, base, number),
            });
            payload(world, base, "pull-request-synchronize", sender, fields)
        });
        Event { name: "pull_request", payload }
    }

    /// `issues` `opened` or `labeled` in any repository. When an issue is opened with a label, both come.
    pub(crate) fn issue_event(
        &self,
        repository: &str,
        number: u64,
        label: Option<&str>,
        sender: &str,
    ) -> Event {
        let payload = self.told(sender, |world, base| {
            let place = world.place(repository).expect("a repository");
            let repository = &world.repositories[place];
            let issue = shape::issue(world, base, repository, &repository.issues[&number]);
            let mut fields = json!({"action": "opened", "issue": issue});
            if let Some(label) = label {
                fields["action"] = json!("labeled");
                fields["label"] = shape::label(label);
            }
            let schema = if label.is_some() { "issues-labeled" } else { "issues-opened" };
            payload_of(world, base, repository, schema, sender, fields)
        });
        Event { name: "issues", payload }
    }

    /// `issue_comment` `created`, on an issue or a pull request, by the comment's author.
    pub(crate) fn issue_comment_event(&self, comment: u64) -> Event {
        let payload = self.told("", |world, base| {
            let repository = &world.repositories[0];
            let comment = repository.comments.iter().find(|c| c.id == comment).unwrap();
            let issue = &repository.issues[&comment.issue];
            let sender = comment.author.clone().unwrap_or_default();
            let fields = json!({
                "action": "created", "issue": shape::issue(world, base, repository, issue),
                "comment": shape::comment(world, base, repository, comment),
            });
            payload(world, base, "issue-comment-created", &sender, fields)
        });
        Event { name: "issue_comment", payload }
    }

    /// `pull_request_review_comment` `created`, by the comment's author.
    pub(crate) fn review_comment_event(&self, comment: u64) -> Event {
        let payload = self.told("", |world, base| {
            let (number, thread, at) = world.find_review_comment(0, comment).unwrap();
            let comment = &thread.comments[at];
            let sender = comment.author.clone().unwrap_or_default();
            let shown = shape_review::review_comment(world, base, 0, number, thread, comment, true);
            let fields = json!({
                "action": "created", "comment": shown, "pull_request": pull(world, base, number),
            });
            payload(world, base, "pull-request-review-comment-created", &sender, fields)
        });
        Event { name: "pull_request_review_comment", payload }
    }

    /// `pull_request_review` `submitted`, by the review's author. Webhooks have the state in small
    /// letters.
    pub(crate) fn review_event(&self, number: u64, review: u64) -> Event {
        let payload = self.told("", |world, base| {
            let reviews = &world.pull(0, number).reviews;
            let review = reviews.iter().find(|other| other.id == review).unwrap();
            let sender = review.author.clone().unwrap_or_default();
            let mut shown = shape_review::review(world, base, 0, number, review);
            shown["state"] = json!(review.state.to_lowercase());
            if review.body.is_empty() {
                shown["body"] = Value::Null;
            }
            let fields = json!({
                "action": "submitted", "review": shown, "pull_request": pull(world, base, number),
            });
            payload(world, base, "pull-request-review-submitted", &sender, fields)
        });
        Event { name: "pull_request_review", payload }
    }

    /// `workflow_run` `completed` of a workflow that ran on the head of a pull request. For forks it
    /// names no pull request.
    pub(crate) fn workflow_run_event(
        &self,
        number: u64,
        workflow: &str,
        conclusion: &str,
    ) -> Event {
        let payload = self.told("", |world, base| {
            let (repository, pull) = (&world.repositories[0], world.pull(0, number));
            let sender = author(repository, number);
            let from = world.place(&pull.head_repository).map(|place| &world.repositories[place]);
            let path = format!(".github/workflows/{workflow}.yml");
            let url = base.api(&format!("repos/{}/actions/runs/{}", repository.full_name(), 9000 + number));
            let here = shape_review::minimal(world, base, repository);
            let there = from.map_or(Value::Null, |from| shape_review::minimal(world, base, from));
            let person = shape::user(world, Some(&sender));
            let fields = json!({
                "action": "completed",
                "workflow": {"name": workflow, "path": path, "state": "active", "id": 77},
                "workflow_run": {
                    "id": 9000 + number, "name": workflow, "workflow_id": 77, "path": path,
                    "event": "pull_request", "status": "completed", "conclusion": conclusion,
                    "head_branch": pull.head, "head_sha": pull.last_head,
                    "run_number": 1, "run_attempt": 1, "display_title": repository.issues[&number].title,
                    "actor": person, "triggering_actor": person,
                    "repository": here, "head_repository": there,
                    "pull_requests": shape_review::pulls_at(base, repository, &pull.last_head),
                    "url": url, "jobs_url": format!("{url}/jobs"), "logs_url": format!("{url}/logs"),
                    "artifacts_url": format!("{url}/artifacts"),
                    "html_url": format!("{}/{}/actions/runs/{}", base.server, repository.full_name(), 9000 + number),
                    "created_at": time(100), "updated_at": time(200), "run_started_at": time(100),
                },
            });
            payload(world, base, "workflow-run-completed", &sender, fields)
        });
        Event { name: "workflow_run", payload }
    }

    /// `check_suite` `completed` of an app on the head of a pull request. For forks it names no pull
    /// request.
    pub(crate) fn check_suite_event(&self, number: u64, app: &str, conclusion: &str) -> Event {
        let payload = self.told(&format!("{app}[bot]"), |world, base| {
            let (repository, pull) = (&world.repositories[0], world.pull(0, number));
            let fields = json!({
                "action": "completed",
                "check_suite": {
                    "id": 8000 + number, "head_branch": pull.head, "head_sha": pull.last_head,
                    "status": "completed", "conclusion": conclusion,
                    "before": pull.base_sha, "after": pull.last_head,
                    "app": {"id": shape_review::app_id(app), "slug": app, "name": app},
                    "pull_requests": shape_review::pulls_at(base, repository, &pull.last_head),
                    "created_at": time(100), "updated_at": time(200), "latest_check_runs_count": 1,
                },
            });
            payload(world, base, "check-suite-completed", &format!("{app}[bot]"), fields)
        });
        Event { name: "check_suite", payload }
    }
}
