//! Payloads of webhooks. What is taken as about our repository is about it, and no reading depends on
//! anything but the bytes.

use patchwright_task::event::payload::{ActionEnv, parse};
use patchwright_task::event::{Event, mention};

const NAMES: &[&str] = &[
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
    "check_suite",
    "check_run",
    "merge_group",
    "workflow_run",
    "repository_dispatch",
    "workflow_dispatch",
    "push",
];

/// Checks all of it for one input, as the payload of each event.
pub fn check(data: &[u8]) {
    for name in NAMES {
        let anywhere = parse(name, data, &ActionEnv::default());
        let env = ActionEnv { repository: Some("acme/app".to_owned()), ..ActionEnv::default() };
        let here = parse(name, data, &env);
        if let Ok(event) = &here
            && let Some(repository) = repository(event)
        {
            assert!(
                repository.eq_ignore_ascii_case("acme/app"),
                "{name}: {repository} is not ours"
            );
        }
        if let Ok(event) = &anywhere {
            let again = parse(name, data, &ActionEnv::default());
            assert_eq!(again.ok().as_ref(), Some(event), "{name}: the same payload twice");
        }
    }
    let text = String::from_utf8_lossy(data);
    let _ = mention::parse(&text, "@patchwright");
}

fn repository(event: &Event) -> Option<String> {
    match event {
        Event::IssueLabeled(event) => Some(event.repository.to_string()),
        Event::IssueOpened(event) => Some(event.repository.to_string()),
        Event::IssueAssigned(event) => Some(event.repository.to_string()),
        Event::PullRequest(event) => Some(event.repository.to_string()),
        Event::Commented(event) => Some(event.repository.to_string()),
        Event::Checked(event) => Some(event.repository.to_string()),
        Event::Rerequested(event) => Some(event.repository.to_string()),
        Event::Queued(event) => Some(event.repository.to_string()),
        Event::Dispatch(event) => Some(event.repository.to_string()),
        Event::Other { .. } => None,
    }
}
