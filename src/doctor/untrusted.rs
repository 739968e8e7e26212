//! What strangers bring into a workflow: their code, where it would run beside secrets, and their words, where they would
//! become part of a script. Looked for in the parsed steps; `env` is followed, and so are outputs of Patchwright, whose model has
//! read what strangers wrote; outputs of other steps are not.

use serde_json::Value;

use super::Finding;
use super::workflow::{Workflow, runs_patchwright};

/// Events that strangers can cause and whose jobs have secrets and a token that writes.
const PRIVILEGED: &[&str] = &["pull_request_target", "workflow_run", "issue_comment"];
/// What names the other side of a pull request, in expressions.
const HEADS: &[&str] = &[
    "head.sha",
    "head.ref",
    "head.label",
    "head.repo.",
    "head_ref",
    "head_sha",
    "head_branch",
    "head_commit",
    "head_repository",
    "merge_commit_sha",
];
/// Commands of a script that bring in what they are told to.
const FETCHING: &[&str] = &[
    "git checkout",
    "git switch",
    "git fetch",
    "git pull",
    "git clone",
    "git reset",
    "git merge ",
    "git worktree",
];

/// What in an event has fields that strangers write.
const OBJECTS: &[&str] = &[
    "issue",
    "pull_request",
    "comment",
    "review",
    "discussion",
    "workflow_run",
    "head_commit",
    "commits",
    "pages",
    "changes",
];
/// How the paths of those fields end.
const FIELDS: &[&str] = &[
    ".title",
    ".body",
    ".from",
    ".message",
    ".page_name",
    ".display_title",
    ".email",
    ".author.name",
    ".committer.name",
    ".head.ref",
    ".head.label",
    ".head_branch",
    ".head.repo.default_branch",
    ".head.repo.description",
    ".head.repo.homepage",
    ".head_repository.description",
];
/// Outputs of Patchwright that have words of its model in them.
const SAID: &[&str] = &["final-message", "output", "findings"];
/// Inputs of actions that are scripts, as of `actions/github-script` and `azure/cli`.
const SCRIPTS: &[&str] = &["script", "inlineScript"];

/// One step and the variables that it sees.
struct Step<'a> {
    keys: &'a Value,
    env: [&'a Value; 3],
    /// The ids of the job's steps that run Patchwright, in lower case.
    ours: Vec<String>,
}

pub(super) fn check(name: &str, workflow: &Workflow) -> Vec<Finding> {
    let steps: Vec<Step> = workflow.jobs.values().flat_map(|job| steps(workflow, job)).collect();
    let privileged = PRIVILEGED.iter().find(|event| workflow.has_event(event));
    let privileged = privileged.filter(|_| steps.iter().any(Step::brings_head));
    let mut findings = Vec::new();
    findings.extend(privileged.map(|event| {
        Finding::broken(
            name,
            format!("`{event}` runs with secrets and checks out code of the pull request"),
            "check out the base only, or use `pull_request` without secrets",
        )
    }));
    let mut said: Vec<String> = steps.iter().flat_map(Step::words_in_scripts).collect();
    said.sort();
    said.dedup();
    findings.extend(said.into_iter().map(|path| {
        Finding::broken(
            name,
            format!("`{path}` stands in a script, so whoever writes it chooses what runs"),
            "give it to the step as a variable: `env: { TEXT: ${{ … }} }`, and `\"$TEXT\"` in the script",
        )
    }));
    let mut said: Vec<String> = steps.iter().flat_map(Step::words_in_prompts).collect();
    said.sort();
    said.dedup();
    findings.extend(said.into_iter().map(|path| {
        Finding::broken(
            name,
            format!("`{path}` stands in a prompt, so what others write is an order"),
            "take it out: an event of its own (a label, a mention) brings that text in as data",
        )
    }));
    findings
}

fn steps<'a>(workflow: &'a Workflow, job: &'a Value) -> impl Iterator<Item = Step<'a>> {
    let steps = job["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = steps.iter().filter(|step| runs_patchwright(step));
    let ours: Vec<String> =
        ours.filter_map(|step| step["id"].as_str()).map(str::to_lowercase).collect();
    steps.iter().map(move |step| Step {
        keys: step,
        env: [&step["env"], &job["env"], &workflow.env],
        ours: ours.clone(),
    })
}

impl<'a> Step<'a> {
    /// Whether it brings in what the other side of a pull request has pushed.
    fn brings_head(&self) -> bool {
        let action = self.keys["uses"].as_str().unwrap_or_default().to_lowercase();
        if action.split('@').next().is_some_and(|action| action.contains("checkout")) {
            let with = &self.keys["with"];
            let named = [with["ref"].as_str(), with["repository"].as_str()];
            return named.into_iter().flatten().any(|text| is_pull(text) || self.names_head(text));
        }
        let Some(script) = self.keys["run"].as_str() else { return false };
        let fetches = FETCHING.iter().any(|command| script.contains(command));
        let of_head = || {
            let values = self.keys["env"].as_object().into_iter().flat_map(|env| env.values());
            let mut texts = values.filter_map(Value::as_str).chain([script]);
            texts.any(|text| self.names_head(text)) || self.uses_head_variable(script)
        };
        // The branch that is checked out for a comment is that of the pull request, whatever names it.
        script.contains("gh pr checkout") || (fetches && (is_pull(script) || of_head()))
    }

    /// Whether an expression in a text names the other side.
    fn names_head(&self, text: &str) -> bool {
        self.expressions(text)
            .iter()
            .any(|expression| HEADS.iter().any(|head| expression.contains(head)))
    }

    /// Whether a script has a variable of the job or the workflow whose value names the other side.
    fn uses_head_variable(&self, script: &str) -> bool {
        let all = self.env.into_iter().filter_map(Value::as_object).flatten();
        let is_used = |name: &str| {
            [format!("${name}"), format!("${{{name}")].iter().any(|it| script.contains(it))
        };
        let mut used = all.filter(|(name, _)| is_used(name));
        used.any(|(_, value)| value.as_str().is_some_and(|text| self.names_head(text)))
    }

    /// The fields that strangers write and that become part of this step's scripts.
    fn words_in_scripts(&self) -> Vec<String> {
        let inputs = SCRIPTS.iter().map(|input| &self.keys["with"][*input]);
        let scripts = inputs.chain([&self.keys["run"]]).filter_map(Value::as_str);
        let expressions = scripts.flat_map(|script| self.expressions(script));
        let found = expressions.flat_map(|expression| {
            let said = paths(&expression).into_iter().filter(|path| self.is_said_by_us(path));
            words_of_strangers(&expression).into_iter().chain(said).collect::<Vec<_>>()
        });
        found.collect()
    }

    /// An output of Patchwright with words of its model.
    fn is_said_by_us(&self, path: &str) -> bool {
        let Some((step, output)) =
            path.strip_prefix("steps.").and_then(|path| path.split_once(".outputs."))
        else {
            return false;
        };
        self.ours.iter().any(|id| id == step) && SAID.contains(&output)
    }

    /// The fields that strangers write and that become part of what Patchwright is told to do.
    fn words_in_prompts(&self) -> Vec<String> {
        let action = self.keys["uses"].as_str().unwrap_or_default().to_lowercase();
        if !action.contains("patchwright") {
            return Vec::new();
        }
        let texts = ["prompt", "instructions"].map(|input| self.keys["with"][input].as_str());
        let expressions = texts.into_iter().flatten().flat_map(|text| self.expressions(text));
        expressions.flat_map(|expression| words_of_strangers(&expression)).collect()
    }

    /// The expressions in a text in lower case, with those of the variables that they name.
    fn expressions(&self, text: &str) -> Vec<String> {
        let mut found = expressions(text);
        let named: Vec<String> = found.iter().flat_map(|expression| paths(expression)).collect();
        for variable in named.iter().filter_map(|path| path.strip_prefix("env.")) {
            let is_it = |(name, _): &(&'a String, &Value)| name.eq_ignore_ascii_case(variable);
            let all = self.env.into_iter().filter_map(Value::as_object).flatten();
            let values = all.filter(is_it).filter_map(|(_, value)| value.as_str());
            found.extend(values.flat_map(expressions));
        }
        found
    }
}

/// `refs/pull/7/head`, with or without `refs/`; the address of a page is none.
fn is_pull(text: &str) -> bool {
    text.match_indices("pull/").any(|(at, _)| {
        let begins = text[..at].chars().next_back().is_none_or(|c| " /'\"+:\n".contains(c));
        let line = text[at..].lines().next().unwrap_or_default();
        begins && (line.contains("/head") || line.contains("/merge"))
    })
}

/// What stands between `${{` and `}}`, in lower case: the names in expressions have no case.
fn expressions(text: &str) -> Vec<String> {
    let inside = text.split("${{").skip(1).map(|rest| rest.split("}}").next().unwrap_or(rest));
    inside.map(str::to_lowercase).collect()
}

/// The paths of an expression whose value can become part of a text: what is only compared cannot.
fn paths(expression: &str) -> Vec<String> {
    let expression = without_questions(expression);
    let is_part = |c: char| c.is_alphanumeric() || "._-*[]'\"".contains(c);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = expression[from..].find(is_part).map(|at| from + at) {
        let end =
            expression[start..].find(|c| !is_part(c)).map_or(expression.len(), |at| start + at);
        let (before, after) = (expression[..start].trim_end(), expression[end..].trim_start());
        let is_compared = |text: &str| text.starts_with("==") || text.starts_with("!=");
        let follows = before.ends_with("==") || before.ends_with("!=");
        if !is_compared(after) && !follows {
            found.push(plain(&expression[start..end]));
        }
        from = end;
    }
    found
}

/// Without calls that answer yes or no.
fn without_questions(expression: &str) -> String {
    let mut text = expression.to_owned();
    for name in ["contains(", "startswith(", "endswith("] {
        while let Some(start) = text.find(name) {
            let mut depth = 0_usize;
            let end = text[start..].char_indices().find_map(|(at, c)| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                (c == ')' && depth == 0).then_some(start + at + 1)
            });
            text.replace_range(start..end.unwrap_or(text.len()), "true");
        }
    }
    text
}

/// `github.event.commits[0]['message']` as `github.event.commits.message`.
fn plain(path: &str) -> String {
    let parts = path.split(['.', '[', ']', '\'', '"']);
    let is_name = |part: &&str| !part.is_empty() && *part != "*" && part.parse::<u64>().is_err();
    parts.filter(is_name).collect::<Vec<_>>().join(".")
}

/// The fields of an expression that strangers write.
fn words_of_strangers(expression: &str) -> Vec<String> {
    let whole = expression.contains("tojson(");
    let is_theirs = |path: &String| {
        let Some(path) = path.strip_prefix("github") else { return false };
        let Some(field) = path.strip_prefix(".event") else {
            return path == ".head_ref" || (whole && path.is_empty());
        };
        let object = field.trim_start_matches('.').split('.').next().unwrap_or_default();
        let is_whole = whole && (field.is_empty() || field.trim_start_matches('.') == object);
        let is_object = field.is_empty() || OBJECTS.contains(&object);
        let is_field = FIELDS.iter().any(|end| field.ends_with(end));
        is_object && (is_whole || (is_field && !field.contains(".milestone.")))
    };
    paths(expression).into_iter().filter(is_theirs).collect()
}

#[cfg(test)]
mod tests {
    use crate::doctor::workflow::check;

    const BROUGHT: &[(&str, &str)] = &[
        (
            "pull_request_target",
            "{ uses: actions/checkout@v4, with: { ref: '${{ github.event.pull_request.head.ref }}', repository: '${{ github.event.pull_request.head.repo.full_name }}' } }",
        ),
        (
            "pull_request_target",
            "{ uses: actions/checkout@v4, with: { repository: '${{ github.event.pull_request.head.repo.full_name }}' } }",
        ),
        (
            "pull_request_target",
            "{ uses: Actions/Checkout@v4, with: { ref: '${{ github.head_ref }}' } }",
        ),
        ("pull_request_target", "{ uses: actions/checkout@v4, with: { ref: '${{ env.HEAD }}' } }"),
        (
            "pull_request_target",
            "{ uses: actions/checkout@v4, with: { ref: 'refs/pull/${{ github.event.number }}/merge' } }",
        ),
        ("pull_request_target", "{ run: 'gh pr checkout ${{ github.event.number }} && make' }"),
        (
            "pull_request_target",
            "{ run: 'git fetch origin pull/${{ github.event.number }}/head:it && git switch it' }",
        ),
        ("pull_request_target", "{ run: 'git checkout \"$HEAD\"' }"),
        (
            "pull_request_target",
            "{ run: 'git checkout \"$SHA\"', env: { SHA: '${{ github.event.pull_request.head.sha }}' } }",
        ),
        (
            "workflow_run",
            "{ uses: actions/checkout@v4, with: { ref: '${{ github.event.workflow_run.head_sha }}' } }",
        ),
        (
            "workflow_run",
            "{ uses: actions/checkout@v4, with: { ref: '${{ github.event.workflow_run.head_branch }}' } }",
        ),
        (
            "issue_comment",
            "{ uses: actions/checkout@v4, with: { ref: 'refs/pull/${{ github.event.issue.number }}/head' } }",
        ),
        ("issue_comment", "{ run: 'gh pr checkout \"$NUMBER\"' }"),
    ];

    const PATHS: &[&str] = &[
        "github.event.issue.title",
        "github.event.issue.body",
        "github.event.pull_request.title",
        "github.event.pull_request.body",
        "github.event.pull_request.head.ref",
        "github.event.pull_request.head.label",
        "github.event.pull_request.head.repo.default_branch",
        "github.event.comment.body",
        "github.event.review.body",
        "github.event.discussion.title",
        "github.event.commits[0].message",
        "github.event.commits.*.author.email",
        "github.event.commits[0]['author'].name",
        "github.event.head_commit.message",
        "github.event.head_commit.committer.email",
        "github.event.pages[0].page_name",
        "github.event.workflow_run.head_branch",
        "github.event.workflow_run.head_commit.message",
        "github.event.changes.title.from",
        "github.head_ref || github.ref_name",
        "GitHub.Event.Issue.Title",
        "toJSON(github.event)",
        "toJSON(github.event.comment)",
        "format('{0}', github.event.issue.title)",
        "github.event_name == 'push' && github.event.head_commit.message || ''",
        "env.NAME",
    ];

    fn said(text: &str) -> Vec<String> {
        check("w.yml", text).into_iter().map(|found| found.message).collect()
    }

    /// A workflow on this event with this step.
    fn step(event: &str, step: &str) -> Vec<String> {
        said(&format!(
            "on: {event}\nenv: {{ HEAD: '${{{{ github.event.pull_request.head.sha }}}}', NAME: '${{{{ \
             github.event.issue.title }}}}' }}\njobs:\n  a:\n    steps:\n      - {step}\n"
        ))
    }

    #[test]
    fn code_of_strangers_is_found_however_it_comes() {
        for (event, text) in BROUGHT {
            let said = step(event, text);
            let words =
                format!("`{event}` runs with secrets and checks out code of the pull request");
            assert!(said.contains(&words), "{text}: {said:?}");
            let unprivileged = step("pull_request", text);
            assert!(!unprivileged.iter().any(|it| it.contains("runs with secrets")), "{text}");
        }
        for text in [
            "{ uses: actions/checkout@v4 }",
            "{ uses: actions/checkout@v4, with: { ref: '${{ github.event.pull_request.base.sha }}' } }",
            "{ uses: actions/checkout@v4, with: { ref: '${{ github.sha }}', path: pull/base } }",
            "{ run: 'gh api \"repos/o/r/statuses/$HEAD\"' }",
            "{ run: 'git fetch origin main && git checkout main' }",
            "{ run: 'git fetch https://github.com/o/pull' }",
            "{ run: 'git fetch origin main # https://github.com/o/r/pull/7' }",
            "{ run: 'git fetch origin main && git merge-base HEAD origin/main' }",
        ] {
            let said = step("pull_request_target", text);
            assert!(!said.iter().any(|it| it.contains("runs with secrets")), "{text}: {said:?}");
        }
    }

    #[test]
    fn words_of_strangers_are_found_in_scripts() {
        for path in PATHS {
            for script in [
                "run: 'echo \"${{ IT }}\"'",
                "uses: actions/github-script@v7\n        with: { script: 'log(`${{ IT }}`)' }",
            ] {
                let script = script.replace("IT", &path.replace('\'', "''"));
                let said = step("push", &script);
                assert!(
                    said.iter().any(|it| it.contains("stands in a script")),
                    "{path}: {said:?}"
                );
            }
        }
        for path in [
            "github.event.issue.number",
            "github.event.pull_request.head.sha",
            "github.event.pull_request.base.ref",
            "github.event.issue.milestone.title",
            "github.sha",
            "contains(github.event.comment.body, 'go')",
            "github.event.comment.body == 'go' && 'a' || 'b'",
            "'push' == github.head_ref",
            "toJSON(github.event.issue.number)",
            "inputs.title",
            "secrets.body",
        ] {
            let said =
                step("push", &format!("run: 'echo ${{{{ {} }}}}'", path.replace('\'', "''")));
            assert!(!said.iter().any(|it| it.contains("stands in a script")), "{path}: {said:?}");
        }
        // As a variable it is a text.
        let said = step(
            "push",
            "{ run: 'echo \"$TITLE\"', env: { TITLE: '${{ github.event.issue.title }}' } }",
        );
        assert!(!said.iter().any(|it| it.contains("stands in a script")), "{said:?}");
    }

    #[test]
    fn what_the_model_said_is_found_in_scripts_too() {
        let with = |script: &str| {
            said(&format!(
                "on: push\njobs:\n  a:\n    steps:\n      - {{ id: It, uses: patchwright/patchwright@v1 }}\n      - {{ id: other, run: make }}\n      - {script}\n"
            ))
        };
        for script in [
            "run: 'gh issue comment 1 --body \"${{ steps.it.outputs.final-message }}\"'",
            "{ run: 'echo ${{ fromJSON(steps.It.outputs.output).title }}' }",
            "{ uses: actions/github-script@v7, with: { script: 'log(`${{ steps.it.outputs.output }}`)' } }",
        ] {
            let said = with(script);
            assert!(said.iter().any(|it| it.contains("stands in a script")), "{script}: {said:?}");
        }
        for script in [
            "run: 'echo ${{ steps.it.outputs.pull-request-number }}'",
            "run: 'echo ${{ steps.other.outputs.output }}'",
            "{ run: 'echo \"$TEXT\"', env: { TEXT: '${{ steps.it.outputs.final-message }}' } }",
        ] {
            let said = with(script);
            assert!(!said.iter().any(|it| it.contains("stands in a script")), "{script}: {said:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_workflow_is_not_called_one() {
        for (text, words) in [
            ("hello: world\n", "is no workflow: it has no `on` and no `jobs`"),
            ("", "is no workflow"),
            ("# nothing\n", "is no workflow"),
            ("on: push\n", "is no workflow: it has no `jobs`"),
            ("jobs: { a: { steps: [] } }\n", "is no workflow: it has no `on`"),
            ("- a\n- b\n", "is no workflow"),
            ("hello\n", "is no workflow"),
        ] {
            let said = said(text);
            assert!(said.len() == 1 && said[0].starts_with(words), "{text}: {said:?}");
        }
    }
}
