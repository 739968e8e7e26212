//! The documents say what the program does: generated references are up to date, and tables that
//! people write agree with the code. `UPDATE=1 cargo test --test main docs` writes the generated ones
//! anew.

mod named; // flags, variables and defaults
mod site; // pages, links, blocks of YAML, commands, the tutorial, the site

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{ArgAction, CommandFactory};
use patchwright::cli::{Cli, action};
use patchwright_base::error::FailureKind;
use patchwright_config::settings::settings;
use patchwright_config::{document, file};
use patchwright_provider::catalogue::{Catalogue, Model, Price};
use patchwright_provider::wire;
use serde_json::Value;

fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs_err::read_to_string(path(name)).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Compares a generated document with what it should be, or writes it.
#[expect(clippy::disallowed_methods, reason = "tests read the environment of the test run")]
fn generated(name: &str, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(path(name), text).unwrap();
    }
    let there = fs_err::read_to_string(path(name)).unwrap_or_default();
    let mut lines = there.lines().zip(text.lines());
    let first = lines.find(|(is, should)| is != should);
    assert!(there == text, "{name} is out of date: run `just docs`; first difference: {first:?}");
}

/// The command line, without what differs from machine to machine.
fn command() -> clap::Command {
    fn plain(command: clap::Command) -> clap::Command {
        command
            .disable_help_subcommand(true)
            .term_width(100)
            .mut_args(|arg| arg.hide_env_values(true))
            .mut_subcommands(plain)
    }
    let mut command = plain(Cli::command());
    command.build();
    command
}

#[test]
fn the_command_line_reference_is_the_help_of_the_program() {
    let mut command = command();
    let mut text = "# Command line\n\nGenerated from the program's own help (`just docs`).\n\n\
                    Exit codes are in [exit-codes.md](exit-codes.md), configuration files in \
                    [configuration.md](configuration.md).\n"
        .to_owned();
    let mut section = |title: &str, command: &mut clap::Command| {
        let help = command.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        write!(text, "\n## {title}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()).unwrap();
    };
    section("patchwright", &mut command);
    for sub in command.get_subcommands_mut() {
        let name = format!("patchwright {}", sub.get_name());
        section(&name, sub);
        for inner in sub.get_subcommands_mut() {
            section(&format!("{name} {}", inner.get_name()), inner);
        }
    }
    generated("docs/cli.md", &text);
}

#[test]
fn the_schema_of_campaigns_is_that_of_the_program() {
    let schema =
        serde_json::to_string_pretty(&patchwright_fleet::batch::campaign::schema()).unwrap();
    generated("docs/campaign.schema.json", &format!("{schema}\n"));
}

#[test]
fn the_schema_of_events_is_that_of_the_program() {
    let schema = serde_json::to_string_pretty(&patchwright_types::events::schema()).unwrap();
    generated("docs/events.schema.json", &format!("{schema}\n"));
}

#[test]
fn every_flag_has_a_variable() {
    let mut flags = 0;
    for command in command().get_subcommands() {
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let answers = matches!(
                arg.get_action(),
                ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
            );
            // `-v` counts; the log that it turns on has `RUST_LOG`.
            // What is hidden is said by this program to itself.
            if answers || long == "verbose" || arg.is_hide_set() {
                continue;
            }
            flags += 1;
            let name = command.get_name();
            let variable = arg.get_env().map(|variable| variable.to_string_lossy().into_owned());
            assert!(
                variable.as_deref().is_some_and(|it| it.starts_with("PATCHWRIGHT_")),
                "`{name} --{long}` has the variable {variable:?}"
            );
        }
    }
    assert!(flags > 50, "{flags}");
}

fn names(action: &Value, key: &str) -> BTreeSet<String> {
    action[key].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_action_passes_on_what_the_program_writes() {
    let action = yaml(&read("action.yml"));
    let source =
        include_str!("../crates/report/src/outputs.rs").split("\n#[cfg(test)]").next().unwrap();
    let written = source.split("        (\"").skip(1).map(|part| part.split('"').next().unwrap());
    let written: BTreeSet<String> = written.map(str::to_owned).collect();
    assert!(written.contains("conclusion") && written.contains("cost-usd"), "{written:?}");
    assert_eq!(names(&action, "outputs"), written);
    for name in &written {
        let value = format!("${{{{ steps.run.outputs.{name} }}}}");
        assert_eq!(action["outputs"][name]["value"], Value::String(value));
    }
}

/// Fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let open = format!("```{language}\n");
    let parts = text.split(&open).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// Everything that `part` says, `whole` says too; a condition may be one of several.
fn assert_within(part: &Value, whole: &Value, at: &str) {
    match (part, whole) {
        (Value::Object(fields), Value::Object(all)) => {
            for (name, field) in fields {
                let there = all.get(name).unwrap_or_else(|| panic!("{at}.{name} is not there"));
                assert_within(field, there, &format!("{at}.{name}"));
            }
        }
        (Value::Array(items), Value::Array(all)) => {
            assert_eq!(items.len(), all.len(), "{at}");
            items.iter().zip(all).for_each(|(item, other)| assert_within(item, other, at));
        }
        (Value::String(text), Value::String(all)) if at.ends_with(".if") => {
            assert!(all.split(" || ").any(|one| one == text), "{at}: {text} is not in {all}");
        }
        _ => assert_eq!(part, whole, "{at}"),
    }
}

#[test]
fn the_workflow_to_paste_is_short_and_says_nothing_that_the_shipped_one_does_not() {
    let readme = read("README.md");
    let block = blocks(&readme, "yaml").remove(0);
    assert!(block.lines().count() <= 15, "{block}");
    let mut workflow = yaml(&block);
    let shipped = yaml(&read("workflows/issue-to-pr.yml"));
    // The job to paste says for itself what the shipped file says once for all of its jobs.
    let group = workflow["jobs"]["fix"].as_object_mut().unwrap().remove("concurrency").unwrap();
    let number = "github.event.issue.number";
    assert!(group.as_str().unwrap().contains(number), "{group}");
    assert!(shipped["concurrency"]["group"].as_str().unwrap().contains(number));
    assert_within(&workflow, &shipped, "workflow");
    let permissions = workflow["jobs"]["fix"]["permissions"].as_object().unwrap();
    assert_eq!(permissions.len(), 3, "permissions are spelled out");
}

/// Compares a part of a document with what it should be, or writes it. The part stands between the line
/// `begin` and the line `end`.
fn generated_part(name: &str, begin: &str, end: &str, part: &str) {
    let text = read(name);
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{name}: no {begin:?}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("{name}: no {end:?}"));
    generated(name, &format!("{before}{begin}{part}{end}{after}"));
}

#[test]
fn the_tables_of_settings_are_those_of_the_program() {
    let end = "<!-- end of what is generated -->";
    for (begin, table) in [
        ("<!-- generated: keys -->\n", document::keys().unwrap()),
        ("<!-- generated: names -->\n", document::names()),
    ] {
        generated_part("docs/configuration.md", begin, end, &format!("{table}\n"));
    }
    let mut inputs = "| input | meaning |\n|---|---|\n".to_owned();
    for (name, meaning) in action::inputs() {
        writeln!(inputs, "| `{name}` | {meaning} |").unwrap();
    }
    let begin = "<!-- generated: inputs -->\n";
    generated_part("docs/github-action.md", begin, end, &format!("{inputs}\n"));
}

#[test]
fn the_action_declares_the_inputs_of_the_program_and_passes_them_on() {
    let (mut declared, mut passed) = (String::new(), String::new());
    for (name, meaning) in action::inputs() {
        let meaning = serde_json::to_string(meaning).unwrap();
        writeln!(declared, "  {name}:\n    description: {meaning}").unwrap();
        let variable = name.to_ascii_uppercase().replace('-', "_");
        let source = match name {
            // Without a folder of the user's own there is one that the action keeps.
            "state-dir" => "steps.install.outputs.state".to_owned(),
            name => format!("inputs.{name}"),
        };
        writeln!(passed, "        INPUT_{variable}: ${{{{ {source} }}}}").unwrap();
    }
    generated_part("action.yml", "\ninputs:\n", "\noutputs:\n", &declared);
    for (now, former) in action::former_inputs() {
        let name = former.name();
        let told = former.warning(name, now);
        let told = serde_json::to_string(&told).unwrap();
        writeln!(declared, "  {name}:\n    description: {told}\n    deprecationMessage: {told}")
            .unwrap();
        let variable = name.to_ascii_uppercase().replace('-', "_");
        writeln!(passed, "        INPUT_{variable}: ${{{{ inputs.{name} }}}}").unwrap();
    }
    let begin = "        GITHUB_TOKEN: ${{ env.GITHUB_TOKEN || github.token }}\n";
    let end = "      # No value of an input ever stands in this script";
    generated_part("action.yml", begin, end, &passed);
}

#[test]
fn flags_that_one_command_has_for_a_setting_are_flags() {
    let command = command();
    let mut flags = 0;
    for setting in settings() {
        for flag in setting.own_flags {
            let (name, flag) = flag.split_once(" --").unwrap();
            let command = command.find_subcommand(name).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).unwrap();
            assert_eq!(arg.get_env().unwrap().to_str(), setting.own_variable, "{name} {flag}");
            flags += 1;
        }
    }
    assert!(flags > 2);
}

/// Keys of configuration files.
fn keys_in_code() -> BTreeSet<String> {
    settings().into_iter().filter(|it| it.is_in_files).map(|it| it.key).collect()
}

/// Keys in the first column of the table of `docs/configuration.md`; `.cpus` continues the one before.
fn keys_in_document(text: &str) -> BTreeSet<String> {
    let table = text.split("| key |").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut keys = BTreeSet::new();
    for row in table.lines().skip(2) {
        let cell = row.split('|').nth(1).unwrap();
        let mut section = String::new();
        for key in cell.split('`').skip(1).step_by(2) {
            let key = match key.strip_prefix('.') {
                Some(rest) => format!("{section}.{rest}"),
                None => key.to_owned(),
            };
            section = key.split('.').next().unwrap().to_owned();
            keys.insert(key);
        }
    }
    keys
}

#[test]
fn every_configuration_key_is_documented_and_every_documented_key_exists() {
    let text = read("docs/configuration.md");
    assert_eq!(keys_in_document(&text), keys_in_code());
    for document in ["README.md", "docs/configuration.md"] {
        for block in blocks(&read(document), "yaml") {
            let is_configuration = !block.contains("uses:") && !block.contains("jobs:");
            if is_configuration {
                let parsed = file::parse(document, &block).unwrap_or_else(|err| panic!("{err}"));
                assert_ne!(parsed, file::File::default(), "{block}");
            }
        }
    }
}

/// Names in backquotes in the first column of the table below this head.
fn first_column<'a>(text: &'a str, head: &str) -> BTreeSet<&'a str> {
    let table = text.split(head).nth(1).unwrap().split("\n\n").next().unwrap();
    let cells = table.lines().skip(2).filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_field_of_a_model_is_documented() {
    let source = include_str!("../crates/provider/src/catalogue/fields.rs");
    let fields = source.split("pub struct Fields {").nth(1).unwrap().split("\n}").next().unwrap();
    let fields =
        fields.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
    let names = fields.map(|(name, _)| name.replace('_', "-"));
    let names: BTreeSet<String> =
        names.filter(|name| !matches!(name.as_str(), "slug" | "prefixes")).collect();
    let text = read("docs/endpoints.md");
    let documented = first_column(&text, "| field |");
    assert_eq!(names.iter().map(String::as_str).collect::<BTreeSet<_>>(), documented);
}

#[test]
fn the_table_of_exit_codes_is_the_programs() {
    let kinds = [
        FailureKind::Usage,
        FailureKind::NothingToDo,
        FailureKind::Partial,
        FailureKind::Refused,
        FailureKind::Budget,
        FailureKind::Provider,
        FailureKind::Forge,
        FailureKind::Sandbox,
        FailureKind::Machine,
        FailureKind::Signal(2),
        FailureKind::Signal(15),
        FailureKind::Internal,
    ];
    let text = read("docs/exit-codes.md");
    let mut documented: BTreeSet<u8> = BTreeSet::new();
    let mut rows: Vec<(Vec<u8>, &str)> = Vec::new();
    for row in text.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let codes = cells[0].trim_start_matches("| ").split(", ");
        let codes: Vec<u8> = codes.map(|code| code.parse().unwrap()).collect();
        documented.extend(&codes);
        rows.push((codes, cells[1]));
    }
    let mut used = BTreeSet::from([0]);
    for kind in kinds {
        let code = kind.exit_code();
        used.insert(code);
        let (_, words) = rows.iter().find(|(codes, _)| codes.contains(&code)).unwrap();
        let word = kind.conclusion();
        assert!(words.contains(&format!("`{word}`")), "{word} is not in the row of {code}");
    }
    assert_eq!(documented, used);
}

#[test]
fn the_table_of_models_is_the_catalogue() {
    let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
    let mut text = "# Models\n\nGenerated from the catalogue, `crates/provider/src/models.toml` (`just docs`). \
        Prices are dollars per million tokens: input, output, input from the cache; where a request with more input than so many tokens costs more, \
        all of it, the higher price follows. The default effort is bold.\n\nThe same models on Azure, Bedrock and Vertex AI, the variables with addresses and keys, and how \
        to change or add entries: [endpoints.md](endpoints.md).\n\n\
        Any other model: `openai/NAME` for a newer one of OpenAI, `chat/NAME` with `--base-url` for \
        whatever speaks Chat Completions. What is not known about it is assumed to be small; nothing is made \
        up about its price.\n\n| `--model` | provider | wire | tools | context | output | price | effort |\n\
        |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut rows = 0;
    for slug in catalogue.slugs() {
        text.push_str(&row(slug, &catalogue.resolve(slug, None).unwrap()));
        rows += 1;
    }
    assert!(rows > 10, "{rows}");
    generated("docs/models.md", &text);
}

fn row(name: &str, model: &Model) -> String {
    let price = model.price.map_or("unknown".to_owned(), |price| {
        let shown = |price: Price| {
            // Products of decimal figures, without the digits that binary ones add.
            let digits = |dollars: f64| (dollars * 1e6).round() / 1e6;
            let [input, output, read] = [price.input, price.output, price.cache_read].map(digits);
            format!("{input} / {output} / {read}")
        };
        let steps = model.price_above.iter();
        let steps = steps.map(|step| format!("; above {}: {}", step.tokens, shown(price.at(step))));
        shown(price) + &steps.collect::<String>()
    });
    let efforts = model.efforts.iter().map(|effort| {
        if Some(effort) == model.default_effort.as_ref() {
            format!("**{effort}**")
        } else {
            effort.clone()
        }
    });
    let efforts: Vec<String> = efforts.collect();
    let ends = model.ends.as_ref().map_or_else(String::new, |day| format!(" (ends {day})"));
    format!(
        "| `{}`{ends} | {} | {} | {} | {} | {} | {price} | {} |\n",
        name,
        model.provider,
        wire::word(model.wire),
        model.profile,
        model.context_window,
        model.max_output,
        if efforts.is_empty() { "–".to_owned() } else { efforts.join(", ") },
    )
}
