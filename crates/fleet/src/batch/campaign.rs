//! A campaign file: which repositories, what to do in each, how to publish it, how fast.
//!
//! YAML with kebab-case keys; unknown keys are errors. [`parse`] is the only way in. The types are the
//! resolved form, too: defaults are filled in here and nowhere else. The file is an operator's: it is
//! trusted as far as `--config` is. What it means for one repository is in [`super::overlay`].

use std::collections::BTreeMap;
use std::path::Path;

use globset::GlobBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{reader, template};
use patchwright_base::error::Result;
use patchwright_config::publish::MergeMethod;

/// A campaign: one change, review or question for many repositories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Campaign {
    /// Lower-case letters, digits and hyphens; part of branch names (`patchwright/NAME`).
    #[schemars(regex(pattern = r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$"))]
    pub name: String,
    /// What it is for, shown on its page and in its tracking issue.
    #[serde(default)]
    pub description: Option<String>,
    pub select: Select,
    /// Needed but for reviews, to which a prompt adds what to look at.
    #[serde(default)]
    pub task: CampaignTask,
    #[serde(default)]
    pub mode: CampaignMode,
    /// With `mode: report`: the JSON Schema that each answer has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    #[serde(default)]
    pub agent: AgentLimits,
    #[serde(default)]
    pub environment: Environment,
    /// Commands that must pass, run before and after. Empty: as the repository's own configuration says,
    /// or as its kind suggests.
    #[serde(default)]
    pub verify: Vec<String>,
    #[serde(default)]
    pub publish: Publish,
    /// Empty: everything at once.
    #[serde(default)]
    pub waves: Vec<Wave>,
    #[serde(default)]
    pub limits: CampaignLimits,
    /// When anything may be published; empty: always.
    #[serde(default)]
    pub windows: Vec<Window>,
    /// When `patchwright schedule` runs it.
    #[serde(default)]
    pub schedule: Option<Schedule>,
    /// What happens to a repository that is finished when its base branch has moved since.
    #[serde(default)]
    pub repeat: Option<Repeat>,
    /// Repository in which one issue about the campaign is kept up to date, as `OWNER/REPO`.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"))]
    pub tracking_issue: Option<String>,
    /// The id under which the store has it, where that is another one than [`Campaign::id`] would make: in earlier
    /// versions the limits of runs were a part of it.
    #[serde(skip)]
    pub(super) stored_as: Option<String>,
}

/// Which repositories. What is listed, found by owner or found by search is taken together, then
/// narrowed by `topics`, `files` and `exclude`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Select {
    /// `OWNER/REPO` each. Waves take them first, in this order.
    #[schemars(inner(regex(pattern = r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")))]
    pub repositories: Vec<String>,
    /// All repositories of these organisations or users.
    pub organizations: Vec<String>,
    /// GitHub's repository search, for example `org:acme language:rust`. More than the 1,000 results that
    /// GitHub gives are found by splitting it, unless it has `created:` in it.
    pub search: Option<String>,
    /// Only repositories that have one of these topics.
    pub topics: Vec<String>,
    /// Only repositories whose base branch has all of these files.
    pub files: Vec<String>,
    /// Globs of `OWNER/REPO` to leave out.
    pub exclude: Vec<String>,
    /// Forks too.
    pub forks: bool,
    /// Templates too.
    pub templates: bool,
}

/// What is done in each repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CampaignTask {
    /// The prompt; `{{ name }}` is replaced by a variable, or by `repository`, `owner`, `name`,
    /// `base_branch`.
    pub prompt: Option<String>,
    /// A file with the prompt, relative to the campaign file.
    pub prompt_file: Option<String>,
    pub variables: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignMode {
    /// A pull request for each repository.
    #[default]
    Pr,
    /// A review of each open pull request that has none of ours at its head yet.
    Review,
    /// An answer for each repository, on the campaign's page; nothing is written to it.
    Report,
}

/// The model, and the bounds of one run. Absent: as the operator's configuration and flags say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct AgentLimits {
    pub model: Option<String>,
    /// Models that go on when that one is out, limited, out of quota or refuses, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// Attempts at the work in each repository, of which the best by the checks is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub attempts: Option<u32>,
    /// Their models, in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempt_models: Vec<String>,
    /// How many are worked on at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub attempts_at_once: Option<u32>,
    /// The model that compares attempts which are equal by their checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_model: Option<String>,
    pub effort: Option<String>,
    #[schemars(range(min = 1))]
    pub max_turns: Option<u32>,
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    #[schemars(range(min = 0))]
    pub max_cost_usd: Option<f64>,
    /// Such as `45m`.
    #[schemars(regex(pattern = r"^([0-9]+[smh])+$"))]
    pub timeout: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Environment {
    pub image: Option<String>,
    /// Commands that prepare the image, run once as root without secrets, or `none`. Empty: what the
    /// repository's files ask for.
    pub setup: Vec<String>,
    /// A command of setup that fails ends the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_required: Option<bool>,
    /// The model may ask for setup again after it has changed a manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_again: Option<bool>,
    /// Hosts that setup may reach; `registries` for those of the package registries, `none` for none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup_allow: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Publish {
    /// `patchwright/NAME` when absent.
    pub branch: Option<String>,
    /// The branch to start from and merge into; the default branch when absent.
    pub base: Option<String>,
    /// With the variables of the prompt; the agent's own words when absent.
    pub title: Option<String>,
    /// Text put above what the agent and the harness say, with the variables of the prompt.
    pub body: Option<String>,
    pub labels: Vec<String>,
    /// Logins.
    pub reviewers: Vec<String>,
    /// Most owners of the changed files, by the repository's `CODEOWNERS`, who are asked for a review too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_owners: Option<usize>,
    /// Logins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assignees: Vec<String>,
    /// The title of an open milestone; a repository without one does without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milestone: Option<String>,
    /// GitHub merges what is no draft and has passed its checks, where the repository allows that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_merge: Option<bool>,
    /// `merge` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = r"^(merge|squash|rebase)$"))]
    pub merge_method: Option<MergeMethod>,
    /// How pull requests are opened; the first rule that matches decides, and without one they are
    /// ready for review.
    pub published: Vec<PublishRule>,
    pub conflict: Conflict,
}

/// How the pull requests of some repositories are opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PublishRule {
    /// Glob of `OWNER/REPO`.
    pub repositories: String,
    #[serde(rename = "as")]
    pub how: PublishAs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PublishAs {
    #[default]
    Ready,
    Draft,
    /// The change is stored only.
    Held,
}

/// What to do when the branch is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Conflict {
    /// Replace the branch when all its commits are ours; otherwise leave it and say so.
    #[default]
    Replace,
    /// Leave it.
    Skip,
}

/// A part of the repositories, and what has to be true before the next part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Wave {
    /// How many repositories have been taken once this wave is open, those of the waves before it
    /// included: a number, or `25%`, or `all`. What is left after the last wave comes as one more.
    pub size: WaveSize,
    /// Share of the wave's ended targets that must have succeeded before the next wave opens, 0 to 1.
    #[serde(default = "default_success")]
    #[schemars(range(min = 0, max = 1))]
    pub min_success: f64,
    /// The next wave does not open while more pull requests of the campaign are open.
    #[serde(default)]
    pub max_open_pull_requests: Option<u32>,
    /// How long to wait after the wave has ended, such as `2h`.
    #[serde(default)]
    #[schemars(regex(pattern = r"^([0-9]+[smh])+$"))]
    pub soak: Option<String>,
}

fn default_success() -> f64 {
    0.8
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WaveSizeText", into = "WaveSizeText")]
#[schemars(with = "WaveSizeText")]
pub enum WaveSize {
    Count(u32),
    /// 0 to 100.
    Percent(f64),
    All,
}

/// As it is written: a number, or a text.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a wave's size is a number, `25%` or `all`")]
pub enum WaveSizeText {
    Number(#[schemars(range(min = 1))] u32),
    Text(#[schemars(regex(pattern = r"^(all|[0-9]+(\.[0-9]+)? ?%)$"))] String),
}

impl TryFrom<WaveSizeText> for WaveSize {
    type Error = String;

    fn try_from(text: WaveSizeText) -> Result<WaveSize, String> {
        let mistake = |text: &str| format!("`{text}` is no wave size; write `5`, `25%` or `all`");
        match text {
            WaveSizeText::Number(count) if count > 0 => Ok(WaveSize::Count(count)),
            WaveSizeText::Number(count) => Err(mistake(&count.to_string())),
            WaveSizeText::Text(text) if text == "all" => Ok(WaveSize::All),
            WaveSizeText::Text(text) => {
                let percent = text.strip_suffix('%').and_then(|text| text.trim().parse().ok());
                let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
                percent.map(WaveSize::Percent).ok_or_else(|| mistake(&text))
            }
        }
    }
}

impl From<WaveSize> for WaveSizeText {
    fn from(size: WaveSize) -> WaveSizeText {
        match size {
            WaveSize::Count(count) => WaveSizeText::Number(count),
            WaveSize::Percent(percent) => WaveSizeText::Text(format!("{percent}%")),
            WaveSize::All => WaveSizeText::Text("all".to_owned()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CampaignLimits {
    /// Runs at once, over all workers.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
    /// Runs at once in repositories of one owner.
    #[schemars(range(min = 1))]
    pub per_organization: Option<u32>,
    /// Runs at once in one repository: 1, always. For files that want to say so.
    #[schemars(range(min = 1, max = 1))]
    pub per_repository: Option<u32>,
    /// Things created on GitHub in an hour (pull requests, comments, labels); at most 500.
    #[schemars(range(min = 1, max = 500))]
    pub creations_per_hour: Option<u32>,
    /// Open pull requests of the campaign at any time; more are not published until some are closed.
    #[schemars(range(min = 1))]
    pub max_open_pull_requests: Option<u32>,
    /// Dollars for all runs together.
    #[schemars(range(min = 0))]
    pub budget_usd: Option<f64>,
    /// Share of failed targets, once ten have ended, at which the campaign pauses, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub max_failure_rate: Option<f64>,
    /// Attempts at a target that fails for a reason that may pass; 3 when absent, at most 20.
    #[schemars(range(min = 1, max = 20))]
    pub max_attempts: Option<u32>,
}

/// A time of the week.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Window {
    /// `mon` … `sun`; empty: every day. A window over midnight belongs to the day on which it begins.
    #[serde(default)]
    pub days: Vec<Weekday>,
    /// `HH:MM`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub from: String,
    /// `HH:MM`; not later than `from`: on the next day. `24:00` is the end of the day.
    #[schemars(regex(pattern = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"))]
    pub to: String,
    /// Such as `Europe/Berlin`; UTC when absent.
    #[serde(default)]
    pub timezone: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Schedule {
    /// Five fields as in crontab: minute, hour, day of the month, month, day of the week (0 and 7 are
    /// Sunday).
    pub cron: String,
    /// Such as `Europe/Berlin`; UTC when absent.
    #[serde(default)]
    pub timezone: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// A repository is done once; the default without a schedule.
    Never,
    /// Again when its base branch has moved; the default with a schedule. The pull request that is open is
    /// brought up to date where something that it touches has changed, and left as it is where not; one that was
    /// closed unmerged is not opened again.
    WhenMoved,
    /// As `when-moved`, but the pull request that is open is made anew whatever has changed: for changes that depend
    /// on files that they do not touch, such as generated ones.
    EveryMove,
}

impl Campaign {
    /// `when-moved` with a schedule, else `never`, unless the file says.
    pub fn repeats(&self) -> Repeat {
        let usual = if self.schedule.is_some() { Repeat::WhenMoved } else { Repeat::Never };
        self.repeat.unwrap_or(usual)
    }

    /// The branch that its pull requests come from.
    pub fn branch(&self) -> String {
        self.publish.branch.clone().unwrap_or_else(|| format!("patchwright/{}", self.name))
    }

    /// How the pull request of a repository is opened: the first rule that matches decides.
    pub fn published(&self, repository: &str) -> PublishAs {
        let rules = self.publish.published.iter();
        let mut fitting = rules.filter(|rule| matches(&rule.repositories, repository));
        fitting.next().map(|rule| rule.how).unwrap_or_default()
    }

    /// A glob of `select.exclude` that leaves the repository out.
    pub fn excluded_by(&self, repository: &str) -> Option<&str> {
        let globs = self.select.exclude.iter();
        globs.map(String::as_str).find(|glob| matches(glob, repository))
    }

    /// SHA-256 in hex of what decides about the work: task, mode, model, environment, checks, base. Not
    /// of what decides about limits, pace, order and words, so that those can be changed on the way.
    pub fn spec_hash(&self) -> String {
        let AgentLimits { model, effort, .. } = self.agent.clone();
        // The limits are there without a value: a campaign without them keeps the hash that it had when they counted.
        let agent = AgentLimits { model, effort, ..AgentLimits::default() };
        let mut spec = json!({
            "prompt": self.task.prompt, "variables": self.task.variables, "mode": self.mode,
            "agent": agent, "environment": self.environment, "verify": self.verify,
            "base": self.publish.base,
        });
        // A campaign without one keeps the hash that it had before there were any.
        if let Some(schema) = &self.output_schema {
            spec["output-schema"] = schema.clone();
        }
        hex::encode(Sha256::digest(spec.to_string().as_bytes()))
    }

    /// `<name>-<first 12 hex digits of the hash>`.
    pub fn id(&self) -> String {
        if let Some(id) = &self.stored_as {
            return id.clone();
        }
        let hash = self.spec_hash();
        format!("{}-{}", self.name, hash.get(..12).unwrap_or(&hash))
    }

    /// The prompt for one repository; empty for reviews without one.
    ///
    /// # Errors
    /// When it uses what is not defined, which [`parse`] refuses.
    pub fn prompt_for(&self, repository: &str, base_branch: &str) -> Result<String> {
        let prompt = self.task.prompt.as_deref().unwrap_or_default();
        template::fill("task.prompt", prompt, &self.variables_for(repository, base_branch))
    }

    /// The title of the pull request, when the campaign has one.
    ///
    /// # Errors
    /// As [`Campaign::prompt_for`].
    pub fn title_for(&self, repository: &str, base_branch: &str) -> Result<Option<String>> {
        let variables = self.variables_for(repository, base_branch);
        let title = self.publish.title.as_deref();
        title.map(|title| template::fill("publish.title", title, &variables)).transpose()
    }

    /// What stands above the description of the pull request, when the campaign has something to say.
    ///
    /// # Errors
    /// As [`Campaign::prompt_for`].
    pub fn body_for(&self, repository: &str, base_branch: &str) -> Result<Option<String>> {
        let variables = self.variables_for(repository, base_branch);
        let body = self.publish.body.as_deref();
        body.map(|body| template::fill("publish.body", body, &variables)).transpose()
    }

    /// What templates can use: the file's own variables, and those of every template.
    pub(super) fn variables_for(
        &self,
        repository: &str,
        base_branch: &str,
    ) -> BTreeMap<String, String> {
        let (owner, name) = repository.split_once('/').unwrap_or(("", repository));
        let given = [repository, owner, name, base_branch].map(str::to_owned);
        let given = template::GIVEN.iter().map(|name| (*name).to_owned()).zip(given);
        self.task.variables.clone().into_iter().chain(given).collect()
    }
}

/// Whether a glob of `OWNER/REPO` is about this repository. `*` stays within owner or name; case does
/// not matter, as on GitHub.
fn matches(glob: &str, repository: &str) -> bool {
    let glob = GlobBuilder::new(glob).literal_separator(true).case_insensitive(true).build();
    glob.is_ok_and(|glob| glob.compile_matcher().is_match(repository))
}

/// Reads a campaign file and the prompt file that it names.
///
/// # Errors
/// With file, line, what is wrong and what is allowed.
pub fn load(path: &Path) -> Result<Campaign> {
    let text = patchwright_config::file::read_file(path, "campaign")?;
    parse(&path.display().to_string(), &text, path.parent())
}

/// Reads a campaign from text. `folder` is where `prompt-file` is relative to; afterwards `task.prompt` is set and
/// `task.prompt_file` is not.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str, folder: Option<&Path>) -> Result<Campaign> {
    reader::read(name, text, folder)
}

/// The JSON Schema of campaign files, as shipped in `docs/campaign.schema.json`. What it cannot say
/// (either a prompt or a prompt file, time zones, globs, …) only [`parse`] checks.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Campaign).to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("title".to_owned(), json!("Patchwright campaign"));
    }
    schema
}
