//! What a campaign may say, beyond what its types say. Each mistake names its key, what is wrong, and
//! what is allowed.

use std::fmt::Display;

use globset::Glob;

use super::campaign::{Campaign, CampaignMode, Wave, WaveSize, Window};
use super::cron::Crontab;
use super::reader::SpecError;
use super::{template, window};
use patchwright_base::duration::parse_duration;
use patchwright_config::{MOST_ATTEMPTS, output_schema};
use patchwright_forge::RepositoryId;

const MOST_NAME: usize = 50;
/// GitHub's longest search, title and label.
const LONGEST_SEARCH: usize = 256;
const LONGEST_TITLE: usize = 256;
const LONGEST_LABEL: usize = 50;
const LONGEST_BODY: usize = 20_000;
const MOST_LABELS: usize = 50;
const MOST_FILES: usize = 10;
const MOST_WAVES: usize = 50;

/// All that is wrong, in no particular order.
pub(super) fn check(campaign: &Campaign) -> Vec<SpecError> {
    let mut found = SpecErrors(Vec::new());
    if !is_name(&campaign.name) {
        found.say(
            "name",
            "must be lower-case letters, digits and hyphens, at most 50, and begin \
                           and end with a letter or digit",
        );
    }
    if let Some(schema) = &campaign.output_schema {
        if campaign.mode != CampaignMode::Report {
            found.say("output-schema", "needs `mode: report`: only answers can be JSON");
        }
        if let Err(why) = output_schema::check(schema) {
            found.say("output-schema", why);
        }
    }
    found.select(campaign);
    found.task(campaign);
    found.work(campaign);
    found.publish(campaign);
    found.waves(&campaign.waves);
    found.limits(campaign);
    for (at, window) in campaign.windows.iter().enumerate() {
        found.window(&format!("windows.{at}"), window);
    }
    if let Some(schedule) = &campaign.schedule {
        let zone = schedule.timezone.as_deref();
        found.zone("schedule.timezone", zone);
        // A wrong time zone was reported above; parsing with it would report it again.
        let zone = zone.filter(|zone| window::zone(Some(zone)).is_some());
        if let Err(failure) = Crontab::parse(&schedule.cron, zone) {
            let hint = failure.hints.first().map(|hint| format!("; {hint}")).unwrap_or_default();
            found.say("schedule.cron", format!("{}{hint}", failure.message));
        }
    }
    if let Some(Err(why)) = campaign.tracking_issue.as_ref().map(|it| it.parse::<RepositoryId>()) {
        found.say("tracking-issue", why);
    }
    found.0
}

/// What is wrong with the templates; the prompt is the one that the file has or names.
pub(super) fn templates(campaign: &Campaign) -> Vec<SpecError> {
    let mut found = SpecErrors(Vec::new());
    let variables = campaign.variables_for("owner/name", "main");
    // Mistakes in a prompt file were reported with the lines of that file.
    let prompt = campaign.task.prompt.as_ref().filter(|_| campaign.task.prompt_file.is_none());
    for (key, text) in [
        ("task.prompt", prompt),
        ("publish.title", campaign.publish.title.as_ref()),
        ("publish.body", campaign.publish.body.as_ref()),
    ] {
        if let Some((_, why)) = text.and_then(|text| template::check(text, &variables)) {
            found.say(key, why);
        }
    }
    found.0
}

struct SpecErrors(Vec<SpecError>);

impl SpecErrors {
    fn say(&mut self, key: &str, why: impl Into<String>) {
        self.0.push(SpecError { key: key.to_owned(), why: why.into() });
    }

    fn select(&mut self, campaign: &Campaign) {
        let select = &campaign.select;
        if select.repositories.is_empty()
            && select.organizations.is_empty()
            && select.search.is_none()
        {
            self.say(
                "select",
                "selects nothing; it needs `repositories`, `organizations` or \
                               `search`",
            );
        }
        for (at, name) in select.repositories.iter().enumerate() {
            if let Err(why) = name.parse::<RepositoryId>() {
                self.say(&format!("select.repositories.{at}"), why);
            }
        }
        for (at, name) in select.organizations.iter().enumerate() {
            if !is_login(name) {
                let why = format!("is `{name}`; it must be the name of an organisation or user");
                self.say(&format!("select.organizations.{at}"), why);
            }
        }
        if let Some(search) = &select.search {
            let length = search.chars().count();
            if search.trim().is_empty() || length > LONGEST_SEARCH || search.contains('\n') {
                self.say(
                    "select.search",
                    "must be one line of 1 to 256 characters, for example \
                                          `org:acme language:rust`",
                );
            }
        }
        for (at, topic) in select.topics.iter().enumerate() {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if topic.is_empty() || topic.len() > 50 || !topic.chars().all(plain) {
                let why = "must be lower-case letters, digits and hyphens, at most 50";
                self.say(&format!("select.topics.{at}"), why);
            }
        }
        if select.files.len() > MOST_FILES {
            self.say("select.files", format!("has more than {MOST_FILES} entries"));
        }
        for (at, file) in select.files.iter().enumerate() {
            let fine = |part: &str| !part.is_empty() && part != "." && part != "..";
            if !file.split('/').all(fine) || file.chars().any(char::is_control) {
                let why = "must be a path from the repository's root, such as `src/main.rs`";
                self.say(&format!("select.files.{at}"), why);
            }
        }
        for (at, glob) in select.exclude.iter().enumerate() {
            self.glob(&format!("select.exclude.{at}"), glob);
        }
    }

    fn glob(&mut self, key: &str, glob: &str) {
        if let Err(err) = Glob::new(glob) {
            self.say(key, format!("is no pattern: {}", err.kind()));
        // A glob without a slash matches no `owner/name`, which looks like an empty selection.
        } else if glob.matches('/').count() != 1 && !glob.contains("**") {
            self.say(
                key,
                format!(
                    "is `{glob}`; it must be a pattern of `OWNER/REPO`, such as \
                                   `acme/*`"
                ),
            );
        }
    }

    fn task(&mut self, campaign: &Campaign) {
        let task = &campaign.task;
        match (&task.prompt, &task.prompt_file) {
            (Some(_), Some(_)) => {
                self.say("task", "has both `prompt` and `prompt-file`; it takes one of them");
            }
            (None, None) if campaign.mode != CampaignMode::Review => {
                self.say("task", "needs `prompt` or `prompt-file`");
            }
            (Some(prompt), None) if prompt.trim().is_empty() => {
                self.say("task.prompt", "is empty");
            }
            _ => {}
        }
        for name in task.variables.keys() {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_word = name.chars().all(plain) && !name.starts_with(|c: char| c.is_numeric());
            let key = format!("task.variables.{name}");
            if name.is_empty() || !is_word {
                self.say(&key, "must be named by letters, digits and underscores");
            } else if template::GIVEN.contains(&name.as_str()) {
                self.say(&key, "is defined already, by the repository");
            }
        }
    }

    /// Agent, environment, checks.
    fn work(&mut self, campaign: &Campaign) {
        let agent = &campaign.agent;
        self.filled("agent.model", agent.model.as_deref());
        self.filled("agent.effort", agent.effort.as_deref());
        self.filled("agent.judge-model", agent.judge_model.as_deref());
        for (key, count) in
            [("agent.attempts", agent.attempts), ("agent.attempts-at-once", agent.attempts_at_once)]
        {
            if count.is_some_and(|count| !(1..=MOST_ATTEMPTS).contains(&count)) {
                self.say(key, format!("must be from 1 to {MOST_ATTEMPTS}"));
            }
        }
        self.at_least("agent.max-turns", agent.max_turns, &1);
        self.at_least("agent.max-tokens", agent.max_tokens, &1);
        self.dollars("agent.max-cost-usd", agent.max_cost_usd);
        self.duration("agent.timeout", agent.timeout.as_deref(), 1);
        let environment = &campaign.environment;
        self.filled("environment.image", environment.image.as_deref());
        for (list, commands) in [
            ("environment.setup", &environment.setup),
            ("environment.setup-allow", &environment.setup_allow),
            ("verify", &campaign.verify),
        ] {
            for (at, command) in commands.iter().enumerate() {
                self.filled(&format!("{list}.{at}"), Some(command));
            }
        }
    }

    fn publish(&mut self, campaign: &Campaign) {
        let publish = &campaign.publish;
        for (key, branch) in [("publish.branch", &publish.branch), ("publish.base", &publish.base)]
        {
            if branch.as_ref().is_some_and(|branch| !is_branch(branch)) {
                self.say(key, "is no name of a branch");
            }
        }
        if publish.branch.is_some() && publish.branch == publish.base {
            self.say("publish.branch", "is the branch to merge into");
        }
        if let Some(title) = &publish.title
            && (title.trim().is_empty() || title.contains('\n') || too_long(title, LONGEST_TITLE))
        {
            self.say("publish.title", "must be one line of 1 to 256 characters");
        }
        if publish.body.as_ref().is_some_and(|body| too_long(body, LONGEST_BODY)) {
            self.say("publish.body", format!("has more than {LONGEST_BODY} characters"));
        }
        if publish.labels.len() > MOST_LABELS {
            self.say("publish.labels", format!("has more than {MOST_LABELS} entries"));
        }
        for (at, label) in publish.labels.iter().enumerate() {
            // Flags and inputs separate labels with commas.
            if label.trim().is_empty() || too_long(label, LONGEST_LABEL) || label.contains(',') {
                let why = "must have 1 to 50 characters, without commas";
                self.say(&format!("publish.labels.{at}"), why);
            }
        }
        for (list, logins) in [("reviewers", &publish.reviewers), ("assignees", &publish.assignees)]
        {
            for (at, login) in logins.iter().enumerate() {
                if !is_login(login.strip_prefix('@').unwrap_or(login)) {
                    let why = format!("is `{login}`; it must be a login, such as `octocat`");
                    self.say(&format!("publish.{list}.{at}"), why);
                }
            }
        }
        if publish.milestone.as_ref().is_some_and(|title| title.trim().is_empty()) {
            self.say("publish.milestone", "is empty; leave it out for none");
        }
        for (at, rule) in publish.published.iter().enumerate() {
            self.glob(&format!("publish.published.{at}.repositories"), &rule.repositories);
        }
    }

    fn waves(&mut self, waves: &[Wave]) {
        if waves.len() > MOST_WAVES {
            self.say("waves", format!("has more than {MOST_WAVES} entries"));
        }
        for (at, wave) in waves.iter().enumerate() {
            let key = |name: &str| format!("waves.{at}.{name}");
            self.share(&key("min-success"), Some(wave.min_success));
            self.duration(&key("soak"), wave.soak.as_deref(), 0);
            let before = at.checked_sub(1).and_then(|before| waves.get(before));
            let Some(before) = before else { continue };
            let shrinks = match (&before.size, &wave.size) {
                (WaveSize::Count(before), WaveSize::Count(now)) => now <= before,
                (WaveSize::Percent(before), WaveSize::Percent(now)) => now <= before,
                (WaveSize::All, _) => true,
                _ => false,
            };
            if shrinks {
                self.say(
                    &key("size"),
                    "must be more than in the wave before it: sizes count all \
                                        repositories so far",
                );
            }
        }
    }

    fn limits(&mut self, campaign: &Campaign) {
        let limits = &campaign.limits;
        self.at_least("limits.concurrency", limits.concurrency, &1);
        self.at_least("limits.per-organization", limits.per_organization, &1);
        if limits.per_repository.is_some_and(|count| count != 1) {
            self.say(
                "limits.per-repository",
                "is 1, always: two runs in one repository would \
                                              work on the same branch",
            );
        }
        if limits.creations_per_hour.is_some_and(|count| !(1..=500).contains(&count)) {
            self.say(
                "limits.creations-per-hour",
                "must be from 1 to 500, which is what GitHub \
                                                  takes from one account",
            );
        }
        self.dollars("limits.budget-usd", limits.budget_usd);
        self.share("limits.max-failure-rate", limits.max_failure_rate);
        if limits.max_attempts.is_some_and(|count| !(1..=20).contains(&count)) {
            self.say("limits.max-attempts", "must be from 1 to 20");
        }
        self.at_least("limits.max-open-pull-requests", limits.max_open_pull_requests, &1);
    }

    fn window(&mut self, key: &str, window: &Window) {
        if window::minutes(&window.from).is_none_or(|from| from == 24 * 60) {
            let why = format!("is `{}`; it must be a time such as `22:00`", window.from);
            self.say(&format!("{key}.from"), why);
        }
        if window::minutes(&window.to).is_none() {
            let why = format!("is `{}`; it must be a time such as `06:00`", window.to);
            self.say(&format!("{key}.to"), why);
        }
        self.zone(&format!("{key}.timezone"), window.timezone.as_deref());
    }

    fn zone(&mut self, key: &str, name: Option<&str>) {
        if let Some(name) = name
            && window::zone(Some(name)).is_none()
        {
            let why = format!("is `{name}`; it must be a time zone such as `Europe/Berlin`");
            self.say(key, why);
        }
    }

    fn filled(&mut self, key: &str, text: Option<&str>) {
        if text.is_some_and(|text| text.trim().is_empty()) {
            self.say(key, "is empty");
        }
    }

    fn at_least<T: PartialOrd + Display>(&mut self, key: &str, value: Option<T>, least: &T) {
        if value.is_some_and(|value| value < *least) {
            self.say(key, format!("must be at least {least}"));
        }
    }

    fn dollars(&mut self, key: &str, value: Option<f64>) {
        if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
            self.say(key, "must be a number of dollars, 0 or more");
        }
    }

    fn share(&mut self, key: &str, value: Option<f64>) {
        if value.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
            self.say(key, "must be a share from 0 to 1, such as `0.8`");
        }
    }

    fn duration(&mut self, key: &str, text: Option<&str>, least: u64) {
        match text.map(parse_duration) {
            Some(Err(why)) => self.say(key, format!("is no duration: {why}")),
            Some(Ok(duration)) if duration.as_secs() < least => {
                self.say(key, format!("must be at least `{least}s`"));
            }
            _ => {}
        }
    }
}

fn too_long(text: &str, most: usize) -> bool {
    text.chars().count() > most
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_end = |c: Option<char>| c.is_some_and(|c| c != '-');
    name.len() <= MOST_NAME
        && name.chars().all(plain)
        && is_end(name.chars().next())
        && is_end(name.chars().last())
}

fn is_login(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 100 && name.chars().all(plain)
}

/// The rules of `git check-ref-format`, for a branch.
fn is_branch(name: &str) -> bool {
    let is_odd = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let fine = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.to_ascii_lowercase().ends_with(".lock")
    };
    name.len() <= 200
        && name != "@"
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(is_odd)
        && name.split('/').all(fine)
}
