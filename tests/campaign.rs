//! Campaign files: what they may say, what is said about wrong ones, and the pure decisions that are made
//! of them: waves, windows, prompts, the configuration of one repository.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, Utc};
use expect_test::{Expect, expect};
use patchwright_config::flags::Common;
use patchwright_config::{Source, merge};
use patchwright_fleet::batch::campaign::{self, Campaign, PublishAs, Window};
use patchwright_fleet::batch::plan::shard_of;
use patchwright_fleet::batch::waves::{self, WaveStep};
use patchwright_fleet::batch::window::closed_until;
use patchwright_types::campaign::{CampaignRow, CampaignView, ErrorClass, Target, TargetState};
use patchwright_types::run_facts::RunFacts;
use serde_json::Value;

/// The least that a campaign can be.
const LEAST: &str = "name: x\nselect:\n  repositories: [acme/app]\ntask:\n  prompt: Fix it.\n";

fn read(text: &str) -> Campaign {
    campaign::parse("c.yml", text, None).unwrap_or_else(|failure| panic!("{text}\n{failure}"))
}

/// The least campaign with more in it.
fn with(more: &str) -> Campaign {
    read(&format!("{LEAST}{more}"))
}

#[track_caller]
fn refused(text: &str, expected: &Expect) {
    let failure = campaign::parse("c.yml", text, None).expect_err(text);
    assert_eq!(failure.kind.exit_code(), 2);
    let said = failure.to_string();
    let said = said.strip_prefix("error: campaign `c.yml` is not valid\n").unwrap_or(&said);
    let said = said.replace("\nhint: every key is described in `docs/campaigns.md`", "");
    let lines = said.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
    expected.assert_eq(lines.collect::<Vec<_>>().join("\n").trim_end());
}

#[test]
fn the_least_campaign_has_the_documented_defaults() {
    let campaign = read(LEAST);
    assert_eq!(campaign.branch(), "patchwright/x");
    assert_eq!(campaign.published("acme/app"), PublishAs::Ready);
    assert_eq!(campaign.prompt_for("acme/app", "main").unwrap(), "Fix it.");
    assert_eq!(campaign.id(), format!("x-{}", &campaign.spec_hash()[..12]));
    assert_eq!(campaign.title_for("acme/app", "main").unwrap(), None);
    assert_eq!(campaign.spec_hash().len(), 64);
}

#[test]
fn mistakes_of_form_are_told_with_line_and_what_is_allowed() {
    refused("", &expect!["cause: it is empty; a campaign has `name`, `select` and `task`"]);
    refused(
        &format!("{LEAST}wave: []\n"),
        &expect!["cause: line 6: unknown key `wave`; did you mean `waves`?"],
    );
    refused(
        &format!("{LEAST}limits:\n  creations-per-hours: 5\n"),
        &expect![
            "cause: line 7: unknown key `creations-per-hours`; did you mean `creations-per-hour`?"
        ],
    );
    refused(
        &format!("{LEAST}mode: prs\n"),
        &expect!["cause: line 6: unknown value `prs`, expected one of pr, review, report"],
    );
    refused(
        &format!("{LEAST}verify: make\n"),
        &expect!["cause: line 6: a list is expected here, such as `[a, b]`"],
    );
    refused(
        &format!("{LEAST}waves:\n  - size: many\n"),
        &expect!["cause: line 7: `many` is no wave size; write `5`, `25%` or `all`"],
    );
    refused(
        &format!("{LEAST}waves:\n  - size: 0\n"),
        &expect!["cause: line 7: `0` is no wave size; write `5`, `25%` or `all`"],
    );
    refused(
        &format!("{LEAST}waves:\n  - min-success: 1\n"),
        &expect!["cause: line 7: missing field `size`"],
    );
    refused(
        &format!("{LEAST}limits:\n  concurrency: -1\n"),
        &expect!["cause: line 7: a whole number is expected here, 0 or more"],
    );
    refused(
        &format!("{LEAST}limits:\n  budget-usd: .nan\n"),
        &expect!["cause: line 7: `limits.budget-usd` must be a number of dollars, 0 or more"],
    );
    refused(
        &format!("{LEAST}waves:\n  - size: [1]\n"),
        &expect!["cause: line 7: a wave's size is a number, `25%` or `all`"],
    );
    refused(
        &format!("{LEAST}---\nname: y\n"),
        &expect![
            "cause: line 7: another document begins here; a file is a single one, without `---`"
        ],
    );
    refused("name: x\n", &expect!["cause: line 1: missing field `select`"]);
    refused("name: [x\n", &expect!["cause: line 1: a text is expected here"]);
    refused("- name: x\n", &expect!["cause: line 1: keys with values are expected here"]);
    refused(&format!("{LEAST}name: y\n"), &expect!["cause: line 6: `name` is there twice"]);
}

#[test]
fn mistakes_of_meaning_are_told_all_at_once() {
    refused(
        r#"name: Big_Change
select:
  repositories: [acme/app, acme]
  organizations: ["a b"]
  topics: [Rust]
  files: [/etc/passwd, ../x]
  exclude: ["acme/[", "acme"]
task:
  prompt: "{{ repository }} {{ verison }}"
  prompt-file: x.md
  variables:
    version: "4"
    name: taken
agent:
  max-turns: 0
  max-cost-usd: -1
  timeout: soon
"#,
        &expect![[r#"
              cause: line 1: `name` must be lower-case letters, digits and hyphens, at most 50, and begin and end with a letter or digit
                     line 3: `select.repositories.1` `acme` is not a repository; write it as `OWNER/REPO`
                     line 4: `select.organizations.0` is `a b`; it must be the name of an organisation or user
                     line 5: `select.topics.0` must be lower-case letters, digits and hyphens, at most 50
                     line 6: `select.files.0` must be a path from the repository's root, such as `src/main.rs`
                     line 6: `select.files.1` must be a path from the repository's root, such as `src/main.rs`
                     line 7: `select.exclude.0` is no pattern: unclosed character class; missing ']'
                     line 7: `select.exclude.1` is `acme`; it must be a pattern of `OWNER/REPO`, such as `acme/*`
                     line 9: `task` has both `prompt` and `prompt-file`; it takes one of them
                     line 13: `task.variables.name` is defined already, by the repository
                     and 3 more"#]],
    );
    refused(
        &format!(
            r#"{LEAST}environment:
  image: ""
verify: [make, " "]
publish:
  branch: "a..b"
  base: "x y"
  title: "{{{{ titel }}}}"
  labels: [""]
  reviewers: ["a b"]
  published:
    - repositories: "acme"
      as: draft
waves:
  - size: 5
  - size: 3
  - size: all
    soak: 2d
  - size: 50%
    min-success: 80
"#
        ),
        &expect![[r#"
              cause: line 7: `environment.image` is empty
                     line 8: `verify.1` is empty
                     line 10: `publish.branch` is no name of a branch
                     line 11: `publish.base` is no name of a branch
                     line 12: `publish.title` uses `titel`, which is not defined; there are `base_branch`, `name`, `owner`, `repository`
                     line 13: `publish.labels.0` must have 1 to 50 characters, without commas
                     line 14: `publish.reviewers.0` is `a b`; it must be a login, such as `octocat`
                     line 16: `publish.published.0.repositories` is `acme`; it must be a pattern of `OWNER/REPO`, such as `acme/*`
                     line 20: `waves.1.size` must be more than in the wave before it: sizes count all repositories so far
                     line 22: `waves.2.soak` is no duration: `2d` is not a duration; write for example `90s`, `5m` or `1h`
                     and 2 more"#]],
    );
    refused(
        &format!(
            r#"{LEAST}limits:
  concurrency: 0
  per-repository: 2
  creations-per-hour: 501
  budget-usd: -5
  max-failure-rate: 30
  max-attempts: 0
windows:
  - from: "25:00"
    to: "6"
    timezone: Berlin
schedule:
  cron: "0 2 * *"
  timezone: Mars/Olympus
tracking-issue: acme
"#
        ),
        &expect![[r#"
            cause: line 7: `limits.concurrency` must be at least 1
                   line 8: `limits.per-repository` is 1, always: two runs in one repository would work on the same branch
                   line 9: `limits.creations-per-hour` must be from 1 to 500, which is what GitHub takes from one account
                   line 10: `limits.budget-usd` must be a number of dollars, 0 or more
                   line 11: `limits.max-failure-rate` must be a share from 0 to 1, such as `0.8`
                   line 12: `limits.max-attempts` must be from 1 to 20
                   line 14: `windows.0.from` is `25:00`; it must be a time such as `22:00`
                   line 15: `windows.0.to` is `6`; it must be a time such as `06:00`
                   line 16: `windows.0.timezone` is `Berlin`; it must be a time zone such as `Europe/Berlin`
                   line 18: `schedule.cron` the cron line `0 2 * *` has 4 fields; it has five: minute, hour, day of the month, month, day of the week; write `0 2 * * *`
                   and 2 more"#]],
    );
}

#[test]
fn a_prompt_is_given_once_and_uses_what_is_defined() {
    let head = "name: x\nselect:\n  repositories: [acme/app]\n";
    refused(
        &format!("{head}task: {{}}\n"),
        &expect!["cause: line 4: `task` needs `prompt` or `prompt-file`"],
    );
    refused(head, &expect!["cause: line 1: `task` needs `prompt` or `prompt-file`"]);
    refused(
        &format!("{head}task:\n  prompt: \" \"\n"),
        &expect!["cause: line 5: `task.prompt` is empty"],
    );
    refused(
        &format!("{head}task:\n  prompt: \"{{% if x\"\n"),
        &expect![
            "cause: line 5: `task.prompt` is no template: unexpected end of input, expected end of block"
        ],
    );
    refused(
        &format!("{head}task:\n  prompt: \"{{{{ name | shout }}}}\"\n"),
        &expect!["cause: line 5: `task.prompt` cannot be filled in: filter shout is unknown"],
    );
    refused(
        &format!("{head}task:\n  prompt-file: /no/such/file.md\n"),
        &expect![
            "cause: line 5: `task.prompt-file` names `/no/such/file.md`, which cannot be read: entity not found"
        ],
    );
    refused(
        "name: x\nselect: {}\ntask:\n  prompt: y\n",
        &expect![
            "cause: line 2: `select` selects nothing; it needs `repositories`, `organizations` or `search`"
        ],
    );
    // A review needs none.
    assert_eq!(read(&format!("{head}mode: review\n")).prompt_for("a/b", "main").unwrap(), "");
}

#[test]
fn a_prompt_file_is_read_beside_the_campaign_and_anywhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs_err::create_dir(&inner).unwrap();
    fs_err::write(folder.path().join("p.md"), "Work on {{ repository }}@{{ base_branch }}.\n")
        .unwrap();
    let text = "name: x\nselect:\n  repositories: [a/b]\ntask:\n  prompt-file: ../p.md\n";
    fs_err::write(inner.join("c.yml"), text).unwrap();
    let campaign = campaign::load(&inner.join("c.yml")).unwrap();
    assert_eq!(campaign.prompt_for("a/b", "dev").unwrap(), "Work on a/b@dev.");
    assert_eq!(campaign.task.prompt_file, None, "the stored form needs no file");
    let again: Campaign = serde_json::from_value(serde_json::to_value(&campaign).unwrap()).unwrap();
    assert_eq!((again.id(), &again), (campaign.id(), &campaign));

    fs_err::write(folder.path().join("p.md"), "One\n{{ two }}\n").unwrap();
    let failure = campaign::load(&inner.join("c.yml")).unwrap_err().to_string();
    assert!(failure.contains("uses `two`, which is not defined"), "{failure}");
    assert!(failure.contains("line 5: `task.prompt-file`"), "{failure}");
    assert!(failure.contains("(line 2 of it)"), "{failure}");
    fs_err::write(folder.path().join("p.md"), b"\xff\xfe").unwrap();
    assert!(campaign::load(&inner.join("c.yml")).is_err());
    let failure = campaign::load(Path::new("/no/such.yml")).unwrap_err().to_string();
    assert!(failure.contains("cannot read the campaign `/no/such.yml`"), "{failure}");
}

#[test]
fn the_specification_is_what_decides_about_the_work() {
    let plain = read(LEAST).spec_hash();
    for same in [
        "waves:\n  - size: 1\n",
        "limits:\n  budget-usd: 5\n",
        "windows:\n  - {from: \"20:00\", to: \"22:00\"}\n",
        "publish:\n  labels: [x]\n  title: y\n",
        "description: z\n",
        "agent:\n  timeout: 25m\n  max-cost-usd: 2\n  max-turns: 9\n  max-tokens: 1000\n",
    ] {
        assert_eq!(with(same).spec_hash(), plain, "{same}");
    }
    for other in [
        "agent:\n  model: y\n",
        "mode: report\n",
        "verify: [make]\n",
        "environment:\n  image: y\n",
        "publish:\n  base: dev\n",
    ] {
        assert_ne!(with(other).spec_hash(), plain, "{other}");
    }
    assert_ne!(read(&LEAST.replace("Fix it", "Break it")).spec_hash(), plain);
}

#[test]
fn the_first_rule_that_matches_decides_how_a_pull_request_is_opened() {
    let campaign = with(
        "publish:\n  published:\n    - {repositories: acme/pay-*, as: draft}\n    \
         - {repositories: \"*/secret\", as: held}\n    - {repositories: acme/*, as: ready}\n",
    );
    for (repository, how) in [
        ("acme/pay-in", PublishAs::Draft),
        ("ACME/Pay-out", PublishAs::Draft),
        ("acme/secret", PublishAs::Held),
        ("other/secret", PublishAs::Held),
        ("acme/app", PublishAs::Ready),
        ("other/app", PublishAs::Ready),
    ] {
        assert_eq!(campaign.published(repository), how, "{repository}");
    }
}

#[test]
fn flags_win_over_the_campaign_and_the_campaign_over_the_operators_file() {
    let campaign = with(
        "agent: {model: from-campaign, max-turns: 7, timeout: 90s}\nverify: [make check]\n\
         environment: {image: img, setup: [prepare]}\n\
         publish: {labels: [l], reviewers: [\"@rita\"], published: [{repositories: a/*, as: draft}]}\n",
    );
    let file = "model: from-file\nimage: other\nlimits: {max-tokens: 9, max-turns: 3}\n";
    let flags = Common { max_turns: Some(2), ..Common::default() };
    let config = merge::resolve(Some(("f.yml", file)), &flags).unwrap();
    let ours = campaign.overlay(config.clone(), "a/b", "main").unwrap();
    assert_eq!((ours.model.as_str(), ours.limits.max_turns), ("from-campaign", 2));
    assert_eq!((ours.limits.max_tokens, ours.limits.timeout.as_secs()), (9, 90));
    assert_eq!((ours.image.as_deref(), ours.setup), (Some("img"), vec!["prepare".to_owned()]));
    assert_eq!(ours.verify, ["make check"]);
    assert_eq!(ours.publish.branch.as_deref(), Some("patchwright/x"));
    assert_eq!((ours.publish.draft, ours.publish.reviewers), (true, vec!["rita".to_owned()]));
    assert_eq!(ours.sources["model"], Source::Campaign);
    assert_eq!(ours.sources["limits.max-turns"], Source::Flag);
    assert!(!campaign.overlay(config, "other/b", "main").unwrap().publish.draft);
    let review = read(
        "name: x\nselect: {repositories: [a/b]}\nmode: review\ntask: {prompt: \"See {{ name }}.\"}\n",
    );
    let config = review.overlay(merge::defaults().unwrap(), "a/b", "main").unwrap();
    assert_eq!(config.review.instructions_for(&["src/x.rs"]), ["See b."]);
}

/// The examples of the documentation.
fn examples() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/campaigns.md");
    let text = fs_err::read_to_string(path).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_documented_examples_are_valid_for_parser_and_schema() {
    let schema = campaign::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir(folder.path().join("prompts")).unwrap();
    fs_err::write(folder.path().join("prompts/drop-python-38.md"), "Drop it.").unwrap();
    let examples = examples();
    assert!(examples.len() >= 4, "{}", examples.len());
    for text in examples.iter().map(String::as_str).chain([LEAST]) {
        let campaign = campaign::parse("example.yml", text, Some(folder.path()));
        campaign.unwrap_or_else(|failure| panic!("{text}\n{failure}"));
        let value: Value = serde_saphyr::from_str(text).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|err| err.to_string()).collect();
        assert!(errors.is_empty(), "{text}\n{errors:?}");
    }
}

#[test]
fn the_schema_knows_most_mistakes() {
    let validator = jsonschema::validator_for(&campaign::schema()).unwrap();
    for wrong in [
        "wave: []",
        "mode: prs",
        "limits: {creations-per-hour: 501}",
        "limits: {creations-per-hour: 0}",
        "limits: {per-repository: 2}",
        "limits: {max-failure-rate: 30}",
        "limits: {budget-usd: -1}",
        "limits: {concurrence: 3}",
        "waves: [{size: many}]",
        "waves: [{size: 0}]",
        "waves: [{size: 5, min-success: 80}]",
        "waves: [{soak: 2h}]",
        "windows: [{from: \"25:00\", to: \"06:00\"}]",
        "windows: [{from: \"22:00\", to: \"06:00\", days: [monday]}]",
        "agent: {timeout: soon}",
        "agent: {max-turns: 0}",
        "tracking-issue: acme",
        "publish: {published: [{repositories: a/*, as: open}]}",
        "verify: make",
        "schedule: {timezone: Europe/Berlin}",
    ] {
        let text = format!("{LEAST}{wrong}\n");
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert!(!validator.is_valid(&value), "{wrong}");
        assert!(campaign::parse("c.yml", &text, None).is_err(), "{wrong}");
    }
    let value: Value = serde_saphyr::from_str(&LEAST.replace("name: x", "name: Big X")).unwrap();
    assert!(!validator.is_valid(&value));
}

fn at(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

fn windows(text: &str) -> Vec<Window> {
    with(&format!("windows: {text}\n")).windows
}

#[test]
fn windows_are_open_when_their_local_clock_says_so() {
    let night = "[{days: [mon, fri], from: \"22:00\", to: \"06:00\", timezone: Europe/Berlin}]";
    let day = "[{from: \"09:00\", to: \"17:00\"}, {days: [sun], from: \"00:00\", to: \"24:00\"}]";
    let gap = "[{from: \"02:30\", to: \"04:00\", timezone: Europe/Berlin}]";
    let whole = "[{days: [tue], from: \"06:00\", to: \"06:00\"}]";
    for (windows_text, now, expected) in [
        ("[]", "2026-06-01T12:00:00Z", None),
        // Friday evening in Berlin is 20:00 UTC in summer; it lasts into Saturday.
        (night, "2026-06-05T19:59:59Z", Some("2026-06-05T20:00:00Z")),
        (night, "2026-06-05T20:00:00Z", None),
        (night, "2026-06-06T03:59:59Z", None),
        (night, "2026-06-06T04:00:00Z", Some("2026-06-08T20:00:00Z")),
        // Winter: one hour later in UTC.
        (night, "2026-12-04T20:30:00Z", Some("2026-12-04T21:00:00Z")),
        // The night in which clocks go back lasts an hour longer; forward, one shorter.
        (night, "2026-10-24T03:30:00Z", None),
        (day, "2026-06-03T08:59:00Z", Some("2026-06-03T09:00:00Z")),
        (day, "2026-06-03T16:59:59Z", None),
        (day, "2026-06-03T17:00:00Z", Some("2026-06-04T09:00:00Z")),
        (day, "2026-06-06T23:00:00Z", Some("2026-06-07T00:00:00Z")),
        (day, "2026-06-07T23:59:59Z", None),
        // 02:30 does not exist on 29 March 2026 in Berlin; the gap ends at 01:00 UTC.
        (gap, "2026-03-29T00:59:00Z", Some("2026-03-29T01:00:00Z")),
        (gap, "2026-03-29T01:00:00Z", None),
        (gap, "2026-03-29T02:00:00Z", Some("2026-03-30T00:30:00Z")),
        // 02:30 comes twice on 25 October 2026; the first counts, and 04:00 once.
        (gap, "2026-10-25T00:29:00Z", Some("2026-10-25T00:30:00Z")),
        (gap, "2026-10-25T01:30:00Z", None),
        (gap, "2026-10-25T02:59:59Z", None),
        (gap, "2026-10-25T03:00:00Z", Some("2026-10-26T01:30:00Z")),
        // From one moment to the same: a whole day.
        (whole, "2026-06-02T05:00:00Z", Some("2026-06-02T06:00:00Z")),
        (whole, "2026-06-03T05:59:59Z", None),
        (whole, "2026-06-03T06:00:00Z", Some("2026-06-09T06:00:00Z")),
    ] {
        let until = closed_until(&windows(windows_text), at(now));
        assert_eq!(until, expected.map(at), "{windows_text} at {now}");
    }
}

#[test]
fn waves_take_their_share_and_what_is_left_comes_last() {
    let sizes = |text: &str, count: usize| -> String {
        let waves = waves::assign(&with(&format!("waves: [{text}]\n")), count);
        let mut counts = Vec::new();
        for wave in waves {
            let wave = usize::try_from(wave).unwrap();
            counts.resize(counts.len().max(wave + 1), 0);
            counts[wave] += 1;
        }
        counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let usual = "{size: 1}, {size: 5%}, {size: 25%}, {size: all}";
    assert_eq!(sizes(usual, 200), "1 9 40 150");
    assert_eq!(sizes(usual, 20), "1 0 4 15");
    assert_eq!(sizes(usual, 3), "1 0 0 2");
    assert_eq!(sizes(usual, 1), "1");
    assert_eq!(sizes(usual, 0), "");
    assert_eq!(sizes("{size: 2}, {size: 10%}", 50), "2 3 45");
    assert_eq!(sizes("{size: 500}", 5), "5");
    assert_eq!(sizes("{size: 0.1%}, {size: all}", 10), "1 9");
    assert_eq!(waves::assign(&read(LEAST), 3), [0, 0, 0]);
}

fn target(number: i64, wave: i64, state: TargetState) -> Target {
    Target {
        id: number,
        campaign: "x-1".to_owned(),
        repository: format!("acme/app-{number}"),
        repository_id: None,
        number: None,
        base_branch: "main".to_owned(),
        base_sha: "a".repeat(40),
        wave,
        state,
        class: None,
        reason: None,
        run: None,
        attempts: 1,
        cost_usd: 1.0,
        tokens: 1,
        pull_request: None,
        url: None,
        created_at: 0,
        updated_at: 0,
        started_at: Some(0),
        ended_at: state.is_settled().then_some(600_000),
        publishing_at: None,
        published_at: None,
        closed_at: None,
        writes: 0,
        closing_at: None,
        fits_sha: None,
        facts: RunFacts::default(),
    }
}

/// How a campaign stands: the open wave, what was spent, and targets as `wave state × count`.
fn view(open: i64, spent_usd: f64, parts: &[(i64, TargetState, i64)]) -> CampaignView {
    let mut targets = Vec::new();
    for (wave, state, count) in parts {
        for _ in 0..*count {
            let number = i64::try_from(targets.len()).unwrap();
            targets.push(target(number, *wave, *state));
        }
    }
    let campaign = CampaignRow {
        wave: open,
        spent_usd,
        ..CampaignRow::started("x-1".to_owned(), "x".to_owned(), String::new(), String::new())
    };
    CampaignView {
        campaign,
        targets,
        outages: Vec::new(),
        interrupted: BTreeSet::new(),
        now: 660_000,
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn the_next_wave_opens_when_its_gate_lets_it() {
    use TargetState::{
        Draft, Failed, Merged, Open, Publishing, Queued, Ready, Running, Skipped, Unchanged,
        Waiting,
    };
    let two = with("waves: [{size: 2}, {size: all}]\n");
    let check = |campaign: &Campaign, view: &CampaignView, expected: &str| {
        let said = match waves::next(campaign, view) {
            WaveStep::Open(wave) => format!("open {wave}"),
            WaveStep::Wait(why) => format!("wait {why}"),
            WaveStep::Pause(why) => format!("pause {why}"),
            WaveStep::Done => "done".to_owned(),
        };
        assert!(said.starts_with(expected), "{said}\nis not {expected}");
    };
    check(&two, &view(0, 0.0, &[(0, Waiting, 2), (1, Waiting, 5)]), "open 0");
    check(&two, &view(0, 0.0, &[(0, Running, 1), (0, Open, 1), (1, Waiting, 5)]), "wait wave 1: 1");
    check(&two, &view(0, 0.0, &[(0, Ready, 2), (1, Waiting, 5)]), "wait wave 1: 2 targets to go");
    check(&two, &view(0, 0.0, &[(0, Open, 2), (1, Waiting, 5)]), "open 1");
    check(&two, &view(0, 0.0, &[(0, Unchanged, 1), (0, Merged, 1), (1, Waiting, 5)]), "open 1");
    // Skipped ones neither succeed nor fail.
    check(&two, &view(0, 0.0, &[(0, Skipped, 5), (0, Open, 2), (1, Waiting, 5)]), "open 1");
    check(&two, &view(0, 0.0, &[(0, Skipped, 2), (1, Waiting, 5)]), "open 1");
    check(
        &two,
        &view(0, 0.0, &[(0, Failed, 1), (0, Open, 1), (1, Waiting, 5)]),
        "pause wave 1: 1 of 2 targets succeeded, and the next wave takes 80 %",
    );
    // One that came late joins its wave at once.
    check(&two, &view(1, 0.0, &[(0, Open, 2), (0, Waiting, 1), (1, Running, 5)]), "open 0");
    check(&two, &view(1, 0.0, &[(0, Open, 2), (1, Publishing, 1)]), "wait 1 target to go");
    check(&two, &view(1, 0.0, &[(0, Open, 2), (1, Failed, 5)]), "done");
    // Taken over from another database, whose waves were open.
    check(&two, &view(0, 0.0, &[(0, Open, 2), (1, Ready, 5)]), "wait 5 targets to go");
    check(&two, &view(0, 0.0, &[]), "done");

    let soak = with("waves: [{size: 2, soak: 10m}, {size: all}]\n");
    // Ended a minute ago.
    check(
        &soak,
        &view(0, 0.0, &[(0, Open, 2), (1, Waiting, 5)]),
        "wait wave 1 has ended; the next one opens in 9 minutes",
    );
    let mut jumped = view(0, 0.0, &[(0, Open, 2), (1, Waiting, 5)]);
    jumped.targets[0].ended_at = Some(i64::MAX / 2);
    check(&soak, &jumped, "wait wave 1 has ended; the next one opens in 10 minutes");
    // Merged in the middle of its soak, which that does not begin anew: its work ended before.
    let mut merged = view(0, 0.0, &[(0, Merged, 2), (1, Waiting, 5)]);
    for target in merged.targets.iter_mut().filter(|target| target.state == Merged) {
        target.ended_at = Some(10_000);
        target.published_at = Some(30_000);
        target.closed_at = Some(659_000);
    }
    check(&soak, &merged, "open 1");
    // A change that was published long after its run.
    merged.targets[0].published_at = Some(600_000);
    check(&soak, &merged, "wait wave 1 has ended; the next one opens in 9 minutes");
    let mut damaged = soak;
    damaged.waves[0].soak = Some("soon".to_owned());
    check(
        &damaged,
        &view(0, 0.0, &[(0, Open, 2), (1, Waiting, 5)]),
        "pause wave 1: its `soak` is `soon`, which is no duration",
    );

    let few = with("waves: [{size: 3, max-open-pull-requests: 2}, {size: all}]\n");
    check(
        &few,
        &view(0, 0.0, &[(0, Open, 2), (0, Draft, 1), (1, Waiting, 5)]),
        "wait 3 pull requests are open",
    );
    check(&few, &view(0, 0.0, &[(0, Open, 2), (0, Merged, 1), (1, Waiting, 5)]), "open 1");

    let rate = with("limits: {max-failure-rate: 0.3}\n");
    check(&rate, &view(0, 0.0, &[(0, Failed, 3), (0, Open, 6), (0, Queued, 5)]), "wait");
    check(
        &rate,
        &view(0, 0.0, &[(0, Failed, 3), (0, Open, 7), (0, Queued, 5)]),
        "pause 3 of 10 targets failed, and `limits.max-failure-rate` is 30 %",
    );
    // Runs whose change is stored have succeeded, though nothing is published yet.
    check(&rate, &view(0, 0.0, &[(0, Failed, 10), (0, Ready, 28), (0, Queued, 5)]), "wait");
    check(
        &rate,
        &view(0, 0.0, &[(0, Failed, 6), (0, Ready, 6), (0, Queued, 5)]),
        "pause 6 of 12 targets failed, and `limits.max-failure-rate` is 30 %",
    );
    check(&rate, &view(0, 0.0, &[(0, Failed, 10)]), "done");
    let plain = read(LEAST);
    let mut wrong = view(0, 0.0, &[(0, Failed, 1), (0, Queued, 5)]);
    wrong.targets[0].class = Some(ErrorClass::Configuration);
    wrong.targets[0].reason = Some("no key".to_owned());
    check(&plain, &wrong, "pause acme/app-0: no key; it would fail everywhere");

    let money = with("limits: {budget-usd: 10}\nagent: {max-cost-usd: 2}\n");
    check(&money, &view(0, 8.0, &[(0, Open, 4), (0, Queued, 1)]), "wait");
    check(&money, &view(0, 8.5, &[(0, Open, 4), (0, Running, 1), (0, Queued, 1)]), "wait");
    check(
        &money,
        &view(0, 8.5, &[(0, Open, 4), (0, Queued, 1)]),
        "pause $8.50 of the budget of $10.00",
    );
    check(&money, &view(0, 12.0, &[(0, Open, 4)]), "done");
}

#[test]
fn a_repository_is_always_in_the_same_shard() {
    let mut counts = [0; 8];
    for number in 0..800 {
        let name = format!("acme/app-{number}");
        let shard = shard_of(&name, 8);
        assert_eq!(shard, shard_of(&name.to_uppercase(), 8));
        counts[shard - 1] += 1;
    }
    assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
    assert_eq!(shard_of("acme/app", 1), 1);
    assert_eq!(shard_of("acme/app", 0), 1);
}
