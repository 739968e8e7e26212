//! The table of settings, walked: what each source says about each key is applied or refused by name,
//! and a repository's file tightens and never loosens.

use std::collections::BTreeSet;

use clap::Parser;
use patchwright_config::flags::{Common, PublishFlags};
use patchwright_config::rules::Repository;
use patchwright_config::settings::settings;
use patchwright_config::table::{self, Setting};
use patchwright_config::{Config, Setup, Source, document, file, merge};
use patchwright_fleet::batch::campaign;
use serde_json::Value;

/// Values of every kind that a key can have. Those that do not fit a key are refused by its type.
const VALUES: &[&str] = &[
    "1",
    "3",
    "7",
    "64",
    "0.5",
    "12000000000",
    "1m",
    "20h",
    "64k",
    "true",
    "false",
    "text",
    "plan",
    "friendly",
    "chat",
    "ssh",
    "github",
    "squash",
    "rebase",
    "conventional",
    "[conventional, 'prefix:fix']",
    "['prefix:patchwright/']",
    "[requester]",
    "['A B <a@b.example>']",
    "request-changes",
    "approve",
    "[text]",
    "[a.example]",
    "[a.example, b.example]",
    "[{type: web_search}]",
    "[{paths: [a], text: b}]",
    "[{paths: [c], text: d}]",
    "[{when: before, command: c}]",
    "{m: {}}",
    "{m: {headers: {a: b}}}",
    "{provider: true}",
    "{engine: brave}",
    "{m: {command: [a]}}",
    "{m: {command: [a]}, n: {command: [a]}}",
    "{m: {description: d, command: c}}",
    "{A: b}",
    "{db: {image: a}}",
    "{db: {image: b}, cache: {image: c}}",
    "{\"type\": \"object\"}",
    "{\"type\": \"object\", \"title\": \"a\"}",
];

fn value(config: &Config, setting: &Setting) -> Value {
    table::value(config, setting).unwrap_or_else(|| panic!("no field `{}`", setting.field))
}

/// A file with one key.
fn file_with(key: &str, value: &str) -> String {
    match key.split_once('.') {
        Some((section, key)) => format!("{section}: {{{key}: {value}}}\n"),
        None => format!("{key}: {value}\n"),
    }
}

/// The configuration by an operator's file alone.
fn operators(text: &str) -> Option<Config> {
    merge::resolve(Some(("operator.yml", text)), &Common::default()).ok()
}

/// The values that fit a key, and what the key is when an operator's file says them.
fn fitting(setting: &Setting) -> Vec<(&'static str, Value)> {
    let said = |text: &&'static str| {
        let config = operators(&file_with(&setting.key, text))?;
        assert_eq!(config.sources.get(&setting.key), Some(&Source::OperatorFile));
        assert_eq!(config.notes, Vec::<String>::new());
        Some((*text, value(&config, setting)))
    };
    VALUES.iter().filter_map(said).collect()
}

/// A note that begins with this key, or with something in it.
fn names(note: &str, key: &str) -> bool {
    let rest = note.strip_prefix('`').and_then(|note| note.strip_prefix(key));
    rest.is_some_and(|rest| rest.starts_with(['`', ':', '.'])) && note.contains(" was ")
}

fn in_files() -> impl Iterator<Item = Setting> {
    settings().into_iter().filter(|setting| setting.is_in_files)
}

#[test]
fn a_flag_is_no_key_of_a_file() {
    for setting in settings().into_iter().filter(|setting| !setting.is_in_files) {
        let failure = file::parse("f.yml", &file_with(&setting.key, "true")).unwrap_err();
        assert!(failure.to_string().contains("unknown key"), "{failure}");
    }
}

/// What a repository's file may do, as facts about the value before and after it.
fn is_tightened(setting: &Setting, before: &Value, after: &Value, was_set: bool) -> bool {
    let number = |value: &Value| value["secs"].as_f64().or(value.as_f64());
    let entries = |value: &Value| -> BTreeSet<String> {
        match value {
            Value::Object(fields) => fields.keys().cloned().collect(),
            other => other.as_array().unwrap().iter().map(Value::to_string).collect(),
        }
    };
    match setting.repository {
        Repository::No => before == after,
        Repository::Lower => number(after) <= number(before),
        Repository::Choose => before == after || !was_set,
        Repository::Add => entries(after).is_superset(&entries(before)),
        Repository::On => after == before || *after == Value::Bool(true),
        Repository::Off => after == before || *after == Value::Bool(false),
        Repository::Fewer => entries(after).is_subset(&entries(before)),
    }
}

#[test]
fn an_operators_file_sets_every_key_and_a_repositorys_is_applied_or_named_and_never_loosens() {
    let defaults = merge::defaults().unwrap();
    for setting in in_files() {
        let key = &setting.key;
        let (mut tightened, mut refused) = (0, 0);
        // Reading files is what takes the time here, so each is read once.
        let values = fitting(&setting);
        let unset = value(&defaults, &setting);
        assert!(values.iter().any(|(_, set)| *set != unset), "`{key}` is not applied: {values:?}");
        let wishes: Vec<file::File> = values
            .iter()
            .map(|(wish, _)| file::parse(file::REPOSITORY_FILE, &file_with(key, wish)).unwrap())
            .collect();
        let operators_values = values.iter().map(|(value, _)| file_with(key, value));
        for operator in std::iter::once(String::new()).chain(operators_values) {
            let operators_own = operators(&operator).unwrap();
            let before = value(&operators_own, &setting);
            for (at, (wish, alone)) in values.iter().enumerate() {
                let mut config = operators_own.clone();
                merge::tighten(&mut config, wishes[at].clone());
                let after = value(&config, &setting);
                let case = format!("`{key}`: {operator:?} + {wish}: {before} → {after}");
                assert!(
                    is_tightened(&setting, &before, &after, !operator.is_empty()),
                    "loosened: {case}"
                );
                let is_named = config.notes.iter().any(|note| names(note, key));
                assert_eq!(is_named, !config.notes.is_empty(), "{case}: {:?}", config.notes);
                // Unchanged without a note: the wish is what there was already.
                let is_the_same = *alone == before
                    || matches!(setting.repository, Repository::Add | Repository::Fewer);
                assert!(after != before || is_named || is_the_same, "dropped: {case}");
                tightened += usize::from(after != before);
                refused += usize::from(is_named);
            }
        }
        let (can_tighten, can_refuse) = match setting.repository {
            Repository::No => (false, true),
            Repository::Add => (true, false),
            Repository::Lower
            | Repository::Choose
            | Repository::On
            | Repository::Off
            | Repository::Fewer => (true, true),
        };
        assert_eq!(tightened > 0, can_tighten, "`{key}` tightens {tightened} times");
        assert_eq!(refused > 0, can_refuse, "`{key}` is refused {refused} times");
    }
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    publish: PublishFlags,
}

/// Texts of every kind that a flag or an input can have.
fn texts() -> impl Iterator<Item = &'static str> {
    VALUES.iter().copied().chain(["local"])
}

#[test]
fn every_flag_is_applied_over_every_file_and_has_a_variable() {
    let mut variables = BTreeSet::new();
    let mut flags = 0;
    for setting in settings() {
        let Some(arg) = document::arg(&setting) else { continue };
        flags += 1;
        let variable = arg.get_env().unwrap().to_string_lossy().into_owned();
        assert!(variables.insert(variable), "{:?} stands for two settings", arg.get_env());
        let flag = arg.get_long().unwrap();
        let lines: Vec<String> = if arg.get_action().takes_values() {
            texts().map(|text| format!("--{flag}={text}")).collect()
        } else {
            vec![format!("--{flag}")]
        };
        let set = lines.iter().filter(|line| {
            let Ok(given) = Flags::try_parse_from(["patchwright", line]) else { return false };
            let Ok(mut config) = merge::resolve(None, &given.common) else { return false };
            let before = value(&config, &setting);
            given.publish.overlay(&mut config);
            let is_applied = config.sources.get(&setting.key) == Some(&Source::Flag);
            is_applied
                && (before != value(&config, &setting)
                    || before != value(&merge::defaults().unwrap(), &setting))
        });
        assert!(set.count() > 0, "`--{flag}` is not applied");
    }
    let all = [document::flags_of::<Common>(), document::flags_of::<PublishFlags>()].concat();
    // Where to find things, and how much to say: no settings.
    let of_the_process = ["config", "state_dir", "json", "quiet", "verbose"];
    assert_eq!(flags, all.len() - of_the_process.len(), "{all:?}");
}

#[test]
fn every_input_is_applied_over_every_file() {
    let defaults = merge::defaults().unwrap();
    for setting in settings() {
        let Some(input) = setting.input else { continue };
        let set = texts().filter(|text| {
            let mut said = file::File::default();
            if (input.read)(&mut said, text).is_err() {
                return false;
            }
            let mut config = defaults.clone();
            config.sources.insert(setting.key.clone(), Source::OperatorFile);
            merge::lay(&mut config, said, Source::Flag);
            config.sources.get(&setting.key) == Some(&Source::Flag)
                && value(&config, &setting) != value(&defaults, &setting)
        });
        assert!(set.count() > 0, "the input `{}` is not applied", input.name);
    }
}

#[test]
fn every_key_of_a_campaign_is_applied_below_flags() {
    for setting in settings() {
        let Some(key) = setting.campaign else { continue };
        // Only answers can be JSON.
        let mode = if key == "output-schema" { "mode: report\n" } else { "" };
        let set = VALUES.iter().filter(|text| {
            let text = format!(
                "name: x\nselect: {{repositories: [a/b]}}\ntask: {{prompt: p}}\n{mode}{}",
                file_with(key, text)
            );
            let Ok(campaign) = campaign::parse("c.yml", &text, None) else { return false };
            let mut flagged = merge::defaults().unwrap();
            flagged.sources.insert(setting.key.clone(), Source::Flag);
            let before = value(&flagged, &setting);
            let after = campaign.overlay(flagged, "a/b", "main").unwrap();
            assert_eq!(value(&after, &setting), before, "`{key}` has replaced a flag");
            let file = merge::defaults().unwrap();
            let after = campaign.overlay(file, "a/b", "main").unwrap();
            after.sources.get(&setting.key) == Some(&Source::Campaign)
                && value(&after, &setting) != before
        });
        assert!(set.count() > 0, "`{key}` of a campaign is not applied");
    }
}

/// Keys of the campaign that are named as settings are, and those of the sections that hold nothing else,
/// are settings.
#[test]
fn no_key_of_a_campaign_is_a_setting_that_the_table_does_not_know() {
    let schema = campaign::schema();
    let known: BTreeSet<&str> = settings().iter().filter_map(|setting| setting.campaign).collect();
    let keys = |definition: &str| -> Vec<String> {
        let properties = schema["$defs"][definition]["properties"].as_object();
        properties.unwrap_or_else(|| panic!("{definition}: {schema:#}")).keys().cloned().collect()
    };
    let mut held: BTreeSet<String> = ["verify", "output-schema"].map(str::to_owned).into();
    held.extend(keys("AgentLimits").iter().map(|key| format!("agent.{key}")));
    held.extend(keys("Environment").iter().map(|key| format!("environment.{key}")));
    let named: BTreeSet<String> = settings().into_iter().map(|setting| setting.key).collect();
    let published = keys("Publish").into_iter().map(|key| format!("publish.{key}"));
    held.extend(published.filter(|key| named.contains(key)));
    assert_eq!(held.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
}

/// The leaves of a configuration, as far as settings are about them.
fn fields(at: &str, value: &Value, known: &BTreeSet<&str>, unknown: &mut Vec<String>) {
    if known.contains(at) {
        return;
    }
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields_below) => {
            for (name, value) in fields_below {
                let name = name.replace('-', "_");
                let at = if at.is_empty() { name } else { format!("{at}.{name}") };
                fields(&at, value, known, unknown);
            }
        }
        None => unknown.push(at.to_owned()),
    }
}

#[test]
fn every_field_of_the_configuration_has_a_setting() {
    let table = settings();
    let known: BTreeSet<&str> = table.iter().map(|setting| setting.field).collect();
    assert_eq!(known.len(), table.len(), "two settings have one field");
    let mut unknown = Vec::new();
    let whole = serde_json::to_value(merge::defaults().unwrap()).unwrap();
    fields("", &whole, &known, &mut unknown);
    unknown.sort();
    // What commands say of themselves, and what is written down on the way.
    assert_eq!(unknown, ["notes", "sources", "tenants"]);
}

#[test]
fn each_name_stands_for_one_setting() {
    let table = settings();
    let all = |names: Vec<String>| {
        let once: BTreeSet<&String> = names.iter().collect();
        assert_eq!(once.len(), names.len(), "{names:?}");
    };
    all(table.iter().map(|setting| setting.key.clone()).collect());
    all(table.iter().filter_map(|it| it.input).map(|input| input.name.to_owned()).collect());
    all(table.iter().filter_map(|it| it.campaign).map(str::to_owned).collect());
}

#[test]
fn setup_is_found_configured_or_switched_off() {
    let commands = ["make".to_owned()];
    for (operator, repository, expected) in [
        ("", "", Setup::Detected),
        ("", "setup: [make]\n", Setup::Commands(&commands)),
        ("", "setup: make\n", Setup::Commands(&commands)),
        ("", "setup: none\n", Setup::None),
        ("", "setup: []\n", Setup::None),
        ("setup: none\n", "", Setup::None),
        ("setup: none\n", "setup: [make]\n", Setup::None),
        ("setup: []\n", "", Setup::None),
        ("setup: []\n", "setup: [make]\n", Setup::Commands(&commands)),
    ] {
        let mut config = operators(operator).unwrap();
        merge::tighten(&mut config, file::parse(file::REPOSITORY_FILE, repository).unwrap());
        assert_eq!(config.setup(), expected, "{operator:?} {repository:?}");
    }
}

#[test]
fn the_preset_of_setup_stands_for_the_hosts_of_registries() {
    let hosts = |text: &str| operators(text).unwrap().setup_hosts();
    let all = hosts("");
    assert!(all.contains(&"pypi.org".to_owned()) && all.len() > 25, "{all:?}");
    let with = |list: &str| hosts(&format!("network: {{setup-allow: {list}}}\n"));
    assert_eq!(with("none"), Vec::<String>::new());
    assert_eq!(with("[]"), Vec::<String>::new());
    assert_eq!(with("[registries, '*']"), ["*"]);
    assert_eq!(with("[pypi.corp]"), ["pypi.corp"]);
    // A mirror under the name of a registry stands in its place.
    let mirrored = with("[registries, 'pypi.org=10.0.0.5']");
    assert!(mirrored.contains(&"pypi.org=10.0.0.5".to_owned()), "{mirrored:?}");
    assert!(!mirrored.contains(&"pypi.org".to_owned()), "{mirrored:?}");
    let mut config = operators("").unwrap();
    let asked = "network: {setup-allow: '*'}\n";
    merge::tighten(&mut config, file::parse(file::REPOSITORY_FILE, asked).unwrap());
    assert_eq!(config.setup_hosts(), all, "only the operator says it");
}
