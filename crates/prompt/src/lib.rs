//! Every word that a model reads besides the task's own data: the files in `prompts/`, embedded.
//!
//! Fixed texts come from [`text`], templates from [`render`]; a variable that a template does not get
//! is an error. A system prompt ([`system`]) is the text of a model's family with the parts that all
//! families share in it; what it says of tools depends on the tools that are declared, so it names no
//! other. `docs/prompts.md` has the layers. What goes into a template must be clean already (see `context`); this file only
//! decides where it stands and between which tags.

mod checks;
mod earlier_pull;
mod issue_news;
mod judge;
mod learn;
mod mcp;
mod output;
mod review;
mod reviewed;
pub mod session;
mod tag;
mod title;
mod triage;
mod unpublishable;
mod verdict;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, Value, context, syntax::SyntaxConfig};

use patchwright_base::error::{Failure, Result};
use patchwright_config::{Mode, Personality};
use patchwright_provider::ToolDeclaration;
use patchwright_provider::catalogue::Model;

pub use checks::{FailedCheck, baseline, check_failed};
pub use earlier_pull::{EarlierPullTask, earlier_pull};
pub use issue_news::{IssueNews, PullNews, issue_news, pull_news};
pub use judge::{JudgedAttempt, judge};
pub use learn::{MaintainerRemark, learn};
pub use mcp::{mcp_instructions, mcp_prompt, tools_changed};
pub use output::{output, output_ahead};
pub use review::{QuestionedFinding, ReviewCheck, ReviewTask, review_task, second_look};
pub use reviewed::{ReviewRemark, reviewed};
pub use tag::{fresh_tag, tag_of};
pub use title::{TitleRequest, title};
pub use triage::{TriageCandidate, TriageTask, triage_task};
pub use unpublishable::{UnpublishableChange, unpublishable};
pub use verdict::{VerdictRequest, verdict};

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../prompts/", $name)))),*]
    };
}

/// Every file in `prompts/`, by its path there.
pub const FILES: &[(&str, &str)] = embedded![
    "apply_patch.lark",
    "context/agent.md",
    "context/baseline.md",
    "context/mcp_instructions.md",
    "context/mcp_prompt.md",
    "context/skills.md",
    "context/standing.md",
    "exec.lark",
    "js_repl.lark",
    "mode/answer.md",
    "mode/describe.md",
    "mode/plan.md",
    "mode/report.md",
    "mode/triage.md",
    "system/agent.md",
    "system/claude.md",
    "system/codex.md",
    "system/edit/search_replace.md",
    "system/edit/unified_diff.md",
    "system/edit/whole_file.md",
    "system/gemini.md",
    "system/generic.md",
    "system/gpt.md",
    "system/part/outside.md",
    "system/part/personality.md",
    "system/part/place.md",
    "system/part/plan.md",
    "system/part/report.md",
    "system/part/tools.md",
    "system/part/verify.md",
    "system/part/work.md",
    "system/review.md",
    "system/text.md",
    "task/agent_limits.md",
    "task/ask.md",
    "task/asked.md",
    "task/campaign.md",
    "task/check_failed.md",
    "task/compact.md",
    "task/cut_reply.md",
    "task/describe.md",
    "task/dropped.md",
    "task/earlier_pull.md",
    "task/empty_reply.md",
    "task/exec.md",
    "task/failed_edits.md",
    "task/fix.md",
    "task/fix_ci.md",
    "task/handover.md",
    "task/instance.md",
    "task/issue.md",
    "task/issue_news.md",
    "task/judge.md",
    "task/judge_system.md",
    "task/learn.md",
    "task/learn_system.md",
    "task/limit_near.md",
    "task/limit_near_review.md",
    "task/nudge.md",
    "task/output.md",
    "task/output_ahead.md",
    "task/picture_refused.md",
    "task/plan.md",
    "task/pull_news.md",
    "task/push_refused.md",
    "task/rebase.md",
    "task/review.md",
    "task/reviewed.md",
    "task/second_look.md",
    "task/session.md",
    "task/title.md",
    "task/tools_changed.md",
    "task/triage.md",
    "task/unchanged.md",
    "task/unfinished_reply.md",
    "task/unpublishable.md",
    "task/verdict.md",
    "task/wrap_up.md",
    "task/wrap_up_review.md",
    "tools/apply_patch.md",
    "tools/apply_patch_function.md",
    "tools/bash.md",
    "tools/call_tool.md",
    "tools/close_agent.md",
    "tools/confirm_finding.md",
    "tools/exec.md",
    "tools/exec_command.md",
    "tools/exec_wait.md",
    "tools/glob.md",
    "tools/grep_files.md",
    "tools/install_dependencies.md",
    "tools/js_repl.md",
    "tools/js_repl_reset.md",
    "tools/list_dir.md",
    "tools/list_mcp_resource_templates.md",
    "tools/list_mcp_resources.md",
    "tools/pictures.md",
    "tools/read_diff.md",
    "tools/read_file.md",
    "tools/read_lines.md",
    "tools/read_many_files.md",
    "tools/read_mcp_resource.md",
    "tools/read_text.md",
    "tools/replace.md",
    "tools/report_finding.md",
    "tools/resume_agent.md",
    "tools/run_check.md",
    "tools/search_lines.md",
    "tools/send_input.md",
    "tools/shell_command.md",
    "tools/spawn_agent.md",
    "tools/text_editor.md",
    "tools/tool_search.md",
    "tools/update_plan.md",
    "tools/view_image.md",
    "tools/wait.md",
    "tools/web_fetch.md",
    "tools/web_search.md",
    "tools/withdraw_finding.md",
    "tools/write_file.md",
    "tools/write_stdin.md",
];

/// The system prompt of a model family that has none of its own.
const DEFAULT_SYSTEM: &str = "generic";
/// The system prompt for models without tool calls.
const TEXT_SYSTEM: &str = "text";
/// The system prompt for reviews.
const REVIEW_SYSTEM: &str = "system/review.md";
/// The system prompt for sub-agents.
const AGENT_SYSTEM: &str = "system/agent.md";
/// Where the parts are that system prompts share.
const PARTS: &str = "system/part/";

/// What a system prompt depends on.
#[derive(Clone, Copy, Debug)]
pub struct SystemPrompt<'a> {
    pub model: &'a Model,
    /// What the model can call; nothing means that it works by blocks of text.
    pub tools: &'a [ToolDeclaration],
    pub personality: Personality,
}

/// What the model is told about an issue.
#[derive(Clone, Copy, Debug)]
pub struct IssueTask<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub number: u64,
    /// Title, body and comments, sanitised, between tags that the text cannot close: what
    /// `context::thread` makes.
    pub thread: &'a str,
    /// Commands that are run afterwards.
    pub checks: &'a [String],
    /// Nothing is changed: a plan is the answer.
    pub plans: bool,
}

/// What a sub-agent may use, in turns and dollars, where it is told the run's limits as well; without dollars, where
/// what is used cannot be counted in them.
pub fn agent_limits(turns: u32, dollars: Option<f64>) -> Result<String> {
    let dollars = dollars.map(|dollars| format!("{dollars:.2}"));
    render("task/agent_limits.md", context! { turns, dollars })
}

/// A fixed text or the source of a template.
pub fn text(name: &str) -> Result<&'static str> {
    let file = FILES.iter().find(|(file, _)| *file == name);
    let text = file.map(|(_, text)| text.trim_end_matches('\n'));
    text.ok_or_else(|| Failure::internal(format!("there is no prompt `{name}`")))
}

/// The system prompt of a model's family, for the tools that it has.
pub fn system(wanted: &SystemPrompt<'_>) -> Result<String> {
    system_file(wanted, &family_file(wanted.model, wanted.tools.is_empty()))
}

/// The system prompt of a reviewer, of whatever family.
pub fn review_system(wanted: &SystemPrompt<'_>) -> Result<String> {
    system_file(wanted, REVIEW_SYSTEM)
}

/// The system prompt of a sub-agent, of whatever family.
pub fn agent_system(wanted: &SystemPrompt<'_>) -> Result<String> {
    system_file(wanted, AGENT_SYSTEM)
}

/// What a kind of agent is told about its work: the text of its file, clean.
pub fn agent_role(name: &str, text: &str) -> Result<String> {
    render("context/agent.md", context! { name, text })
}

fn system_file(wanted: &SystemPrompt<'_>, file: &str) -> Result<String> {
    let SystemPrompt { model, tools, personality } = *wanted;
    let names: Vec<Value> = tools.iter().map(|tool| Value::from(tool.name.as_str())).collect();
    let variables = context! { tools => names, personality => personality.word() };
    // Parts are rendered with the same variables first, so that a family's text can place them
    // anywhere.
    let mut part = BTreeMap::new();
    for (name, _) in FILES {
        if let Some(short) = name.strip_prefix(PARTS) {
            part.insert(short.trim_end_matches(".md"), render(name, variables.clone())?);
        }
    }
    let edit = text(edit_format(model))?;
    render(file, context! { part, edit, ..variables })
}

/// The file of a model's family.
fn family_file(model: &Model, is_without_tools: bool) -> String {
    let file = |family: &str| format!("system/{family}.md");
    let own = file(&model.prompt);
    // `prompt` of a catalogue entry names a file; these three are not families.
    let is_other = own == REVIEW_SYSTEM || own == AGENT_SYSTEM || model.prompt == TEXT_SYSTEM;
    let is_known = FILES.iter().any(|(name, _)| *name == own) && !is_other;
    match (is_without_tools, is_known) {
        (true, _) => file(TEXT_SYSTEM),
        (false, true) => own,
        (false, false) => file(DEFAULT_SYSTEM),
    }
}

/// How a model without tool calls writes edits.
fn edit_format(model: &Model) -> &'static str {
    match model.patch.as_deref() {
        Some("unified-diff") => "system/edit/unified_diff.md",
        Some("whole-file") => "system/edit/whole_file.md",
        _ => "system/edit/search_replace.md",
    }
}

/// The text about the mode; nothing for the default mode, which system prompts expect.
pub fn mode(mode: Mode) -> Result<Option<&'static str>> {
    match mode {
        // A review has a system prompt of its own.
        Mode::Execute | Mode::Review => Ok(None),
        Mode::Plan => text("mode/plan.md").map(Some),
    }
}

/// The task: solve this issue.
pub fn issue_task(task: &IssueTask<'_>) -> Result<String> {
    let IssueTask { repository, number, thread, checks, plans } = *task;
    let checks = list(checks);
    render("task/issue.md", context! { repository, number, thread, checks, plans })
}

/// What the model is told about a comment that asks for something.
#[derive(Clone, Copy, Debug)]
pub struct CommentTask<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub number: u64,
    pub is_pull_request: bool,
    /// Title, body and comments, from `context::thread`.
    pub conversation: &'a str,
    /// The threads on the diff: those in which it was asked, or all that are not resolved.
    pub threads: &'a str,
    /// What reviewers said in the reviews themselves.
    pub reviews: &'a str,
    /// It was asked in these threads.
    pub is_in_thread: bool,
    /// The files that the pull request changes, and since which commit; empty where that is not known.
    pub changed: &'a str,
    pub base: &'a str,
    /// As much of their difference as fits, for those who cannot run git.
    pub difference: &'a str,
    /// How the checks of the pull request went on the forge, a line each; empty where that is not known.
    pub on_forge: &'a str,
    /// What was asked, clean; empty when the conversation says it.
    pub words: &'a str,
    /// Failing checks with their logs, from `context::log`; empty when it is not about them.
    pub failures: &'a str,
    /// Files in conflict and how each is left, one a line; empty when nothing is rebased.
    pub conflicts: &'a str,
    /// The branch that the pull request goes to; empty for issues.
    pub base_branch: &'a str,
    /// Commands that are run afterwards.
    pub checks: &'a [String],
}

/// The task: do what a comment asks for. `template` is one of `task/{ask,describe,fix,fix_ci,plan,rebase}.md`.
pub fn comment_task(template: &str, task: &CommentTask<'_>) -> Result<String> {
    let CommentTask { repository, number, is_pull_request, conversation, threads, .. } = *task;
    let CommentTask { words, failures, checks, is_in_thread, .. } = *task;
    let CommentTask { changed, base, difference, on_forge, .. } = *task;
    let CommentTask { conflicts, base_branch, reviews, .. } = *task;
    let tag = tag_of(&[words, changed, difference, on_forge, conflicts]);
    let (checks, kind) = (list(checks), if is_pull_request { "pull request" } else { "issue" });
    render(
        template,
        context! {
            repository, number, is_pull_request, conversation, threads, words, failures, checks, kind, tag,
            is_in_thread, changed, base, difference, on_forge, conflicts, base_branch,
            reviews
        },
    )
}

/// What was asked for beside what an issue says.
pub fn asked(words: &str) -> Result<String> {
    render("task/asked.md", context! { words, tag => tag_of(&[words]) })
}

/// What the server said when it refused the push of what an earlier run had made of the issue.
pub fn push_refused(words: &str) -> Result<String> {
    render("task/push_refused.md", context! { words, tag => tag_of(&[words]) })
}

/// A skill in the words of the repository, for [`skills`].
#[derive(Clone, Copy, Debug)]
pub struct Skill<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub path: &'a str,
    pub body: &'a str,
}

/// The repository's skills: `listed` by name, `used` with their text. Both are clean already.
pub fn skills(listed: &[Skill<'_>], used: &[Skill<'_>]) -> Result<String> {
    let values = |skills: &[Skill<'_>]| -> Vec<Value> {
        let value = |skill: &Skill<'_>| {
            let Skill { name, description, path, body } = *skill;
            context! { name, description, path, body }
        };
        skills.iter().map(value).collect()
    };
    render("context/skills.md", context! { listed => values(listed), used => values(used) })
}

/// What the operator wants of every run.
pub fn standing(text: &str) -> Result<String> {
    render("context/standing.md", context! { text })
}

/// The task: follow this prompt.
pub fn exec_task(prompt: &str, checks: &[String]) -> Result<String> {
    render("task/exec.md", context! { prompt, checks => list(checks) })
}

/// The task of an evaluation: an issue whose right solution is known by tests that are not shown.
pub fn instance(statement: &str) -> Result<String> {
    render("task/instance.md", context! { statement })
}

/// What the model is told about a campaign's work in one repository.
#[derive(Clone, Copy, Debug)]
pub struct CampaignTask<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub base_branch: &'a str,
    /// The operator's words, with their variables filled in.
    pub prompt: &'a str,
    /// Commands that are run afterwards.
    pub checks: &'a [String],
}

/// The task: do in this repository what is done in many.
pub fn campaign_task(task: &CampaignTask<'_>) -> Result<String> {
    let CampaignTask { repository, base_branch, prompt, checks } = *task;
    render("task/campaign.md", context! { repository, base_branch, prompt, checks => list(checks) })
}

fn list(texts: &[String]) -> Value {
    texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<Value>>().into()
}

/// Fills a template.
///
/// # Errors
/// When there is no such template, or it uses a variable that is not given: a defect either way.
pub fn render(name: &str, variables: Value) -> Result<String> {
    let broken = |err| Failure::internal(format!("prompt `{name}` is broken")).caused_by(err);
    let templates = if name.starts_with("task/") { &TEMPLATES } else { &BLOCKS };
    let template = templates.get_template(name).map_err(broken)?;
    template.render(variables).map(|text| text.trim().to_owned()).map_err(broken)
}

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = strict();
    add_templates(&mut environment, &["task/"]);
    environment
});

/// Templates in which a line with nothing but a `{% … %}` leaves no line behind.
static BLOCKS: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = strict();
    // The default delimiters always build.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    add_templates(&mut environment, &["system/", "context/"]);
    environment
});

fn strict() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Prompts are plain text; escaping HTML would change the code in them.
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment
}

fn add_templates(environment: &mut Environment<'static>, folders: &[&str]) {
    for (name, text) in FILES {
        // A template that does not parse is missing, and using it fails; a test renders each.
        if folders.iter().any(|folder| name.starts_with(folder)) {
            environment.add_template(name, text).ok();
        }
    }
}
