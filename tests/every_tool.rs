//! Every tool that a profile declares, called by a scripted model over every wire on which the profile
//! can be spoken: whole processes. What the next request says about the call is in the provider's own
//! shape, and what the tool did is in the change.
//!
//! The rows are found by the declarations: a newly declared tool without one fails the tests.

mod answers;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::item::Wire;
use patchwright_provider::{ToolDeclaration, ToolForm, wire};
use patchwright_tools::alias;
use patchwright_tools::profile::{Profile, Setting};
use patchwright_tools::registry::ToolSet;
use serde_json::Value;

use self::answers::{Answer, answers};
use self::rows::{ELSEWHERE, ROWS, Row};
use crate::support::git_repo::git;
use crate::support::model::{Turn, call, custom, item, say};
use crate::support::world::{KEY, TestWorld};

/// A model for each wire, as users name it.
const MODELS: [(Wire, &str); 4] = [
    (Wire::Responses, "gpt-5.3-codex"),
    (Wire::Chat, "chat/some-model"),
    (Wire::Messages, "claude-sonnet-5"),
    (Wire::Gemini, "gemini-3.5-flash"),
];

/// A way to declare a profile's tools.
struct Variant {
    profile: Profile,
    shell: Option<String>,
    patch: Option<String>,
    declared: Vec<ToolDeclaration>,
}

/// The words that the catalogue has for a field of a profile, from the program's own hint.
fn words(profile: Profile, setting: Setting<'_>) -> Vec<String> {
    let Err(failure) = profile.tools(&setting) else { return Vec::new() };
    let hint = failure.hints.join(" ");
    let Some((_, words)) = hint.split_once("can be ") else { return Vec::new() };
    words.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every way in which a profile can be declared on a wire, those with the same bytes once.
fn variants(profile: Profile, wire: Wire) -> Vec<Variant> {
    let plain = Setting::plain(wire);
    let shells = words(profile, Setting { shell: Some("?"), ..plain });
    let patches = words(profile, Setting { patch: Some("?"), ..plain });
    let mut choices: Vec<(Option<String>, Option<String>)> = vec![(None, None)];
    choices.extend(shells.into_iter().map(|word| (Some(word), None)));
    choices.extend(patches.into_iter().map(|word| (None, Some(word))));
    let mut seen = BTreeSet::new();
    let mut variants = Vec::new();
    for (shell, patch) in choices {
        let setting = Setting { shell: shell.as_deref(), patch: patch.as_deref(), ..plain };
        let Ok(tools) = ToolSet::with(profile, &setting) else { continue };
        let declared = tools.declarations().to_vec();
        if !declared.is_empty() && seen.insert(format!("{declared:?}")) {
            variants.push(Variant { profile, shell, patch, declared });
        }
    }
    variants
}

/// A call of a declared tool with what its row says, in the form in which it is declared.
fn turn(tool: &ToolDeclaration, row: &Row, args: &Value) -> Turn {
    match &tool.form {
        ToolForm::Freeform { .. } => custom(&tool.name, args[row.freeform].as_str().unwrap()),
        ToolForm::Function { schema, .. } => call(&tool.name, fitted(schema, args)),
        ToolForm::Native { value } => match value["type"].as_str().unwrap() {
            // Anthropic's come as ordinary calls.
            kind if kind.starts_with("bash_") || kind.starts_with("text_editor_") => {
                call(&tool.name, args.clone())
            }
            kind => item(rows::native(kind, args)),
        },
    }
}

/// Arguments under the names that the schema has for them.
fn fitted(schema: &Value, args: &Value) -> Value {
    let declared = schema["properties"].as_object().unwrap();
    let mut renamed = serde_json::Map::new();
    for (name, value) in args.as_object().unwrap() {
        let others = rows::SAME.iter().find(|names| names.contains(&name.as_str()));
        let names = others.copied().unwrap_or(&[]);
        let theirs = std::iter::once(name.as_str()).chain(names.iter().copied());
        let theirs = theirs.into_iter().find(|it| declared.contains_key(*it));
        let theirs = theirs.unwrap_or_else(|| panic!("no argument like `{name}` in {schema}"));
        let value = match (value, &declared[theirs]["items"]["properties"]) {
            (Value::Array(items), Value::Object(_)) => {
                items.iter().map(|item| fitted(&declared[theirs]["items"], item)).collect()
            }
            _ => value.clone(),
        };
        renamed.insert(theirs.to_owned(), value);
    }
    Value::Object(renamed)
}

fn row(name: &str, wire: Wire, form: &ToolForm) -> &'static Row {
    let hosted = matches!(form, ToolForm::Native { .. }) && wire == Wire::Responses;
    let found = ROWS.iter().find(|row| row.tool == name && row.is_hosted == hosted);
    found.or_else(|| ROWS.iter().find(|row| row.tool == name)).unwrap_or_else(|| {
        panic!("no row for the tool `{name}` in tests/every_tool/rows.rs: what does it do, and how does it fail?")
    })
}

/// Files that the calls find.
fn project(world: &TestWorld) {
    let path = world.path("project");
    fs_err::create_dir(&path).unwrap();
    for (name, content) in rows::FILES {
        fs_err::write(path.join(name), content).unwrap();
    }
    for row in ROWS {
        fs_err::write(path.join(format!("edit-{}.txt", row.tool)), "before\n").unwrap();
    }
    git(&path, &["init", "--quiet", "--initial-branch", "main"]);
    git(&path, &["add", "."]);
    git(&path, &["commit", "--quiet", "--message", "First"]);
}

/// One run in which every declared tool is called twice: with success, and with an error. Returns what is wrong.
fn speak(wire: Wire, model: &str, variant: &Variant) -> Vec<String> {
    let mut wrong = Vec::new();
    let rows: Vec<&Row> =
        variant.declared.iter().map(|tool| row(&tool.name, wire, &tool.form)).collect();
    let mut turns = Vec::new();
    for (tool, row) in variant.declared.iter().zip(&rows) {
        turns.push(turn(tool, row, &(row.good)()));
        turns.push(turn(tool, row, &(row.bad)()));
    }
    let asked = turns.len() + 1;
    let world = TestWorld::local(turns.into_iter().chain([say("Called everything")]));
    project(&world);
    let root = world.model.root();
    let config = config(model, variant);
    fs_err::write(world.path("config.yml"), config).unwrap();
    let world = world
        .set("ANTHROPIC_BASE_URL", &root)
        .set("ANTHROPIC_API_KEY", KEY)
        .set("GOOGLE_GEMINI_BASE_URL", &root)
        .set("GEMINI_API_KEY", KEY);
    let mut args = vec!["exec", "Call everything", "--repo", "project", "--out", "out"];
    args.extend(["--config", "config.yml", "--model", model]);
    let output = world.run(&args);
    let name = format!("{} on {} {:?}", variant.profile.name(), wire::word(wire), variant.names());
    let requests = world.model.requests();
    assert_eq!(requests.len(), asked, "{name}: {}", output.text());
    output.expect(0);
    let change = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    for (at, (tool, row)) in variant.declared.iter().zip(&rows).enumerate() {
        for (index, outcome) in [(2 * at + 1, &row.shows), (2 * at + 2, &row.says)] {
            let answer = answers(wire, &requests[index].body);
            let [answer] = answer.as_slice() else {
                panic!("{name}: `{}` has {} answers", tool.name, answer.len())
            };
            let is_good = index == 2 * at + 1 && !row.needs_more;
            if let Err(why) = check(answer, tool, outcome, is_good) {
                wrong.push(format!("{name}: `{}`: {why}: {answer:?}", tool.name));
            }
        }
        if let Some(line) = row.leaves {
            let line = line.replace("NAME", row.tool);
            if !change.lines().any(|it| it == line) {
                wrong.push(format!("{name}: no {line:?} in the change"));
            }
        }
    }
    wrong
}

fn check(answer: &Answer, tool: &ToolDeclaration, text: &str, is_good: bool) -> Result<(), String> {
    // The other protocols have one kind of answer.
    if let Some(kind) = answer.kind.as_deref()
        && kind != answers::kind(&tool.form)
    {
        return Err(format!("is a {kind}"));
    }
    if !answer.is_matched {
        return Err("does not name its call".to_owned());
    }
    if answer.failed.is_some_and(|failed| failed == is_good) {
        return Err(format!("failed: {:?}", answer.failed));
    }
    if answer.text.contains(text) { Ok(()) } else { Err(format!("does not say {text:?}")) }
}

impl Variant {
    fn names(&self) -> Vec<&str> {
        self.shell.iter().chain(&self.patch).map(String::as_str).collect()
    }
}

/// The operator's configuration that makes a model speak like this.
fn config(model: &str, variant: &Variant) -> String {
    let setting = Setting::plain(Wire::Responses);
    let field = |name: &str, own: &Option<String>, words: Vec<String>| {
        // What the catalogue says of the model may not fit another profile.
        let word = own.clone().or_else(|| words.first().cloned());
        word.map(|word| format!(", {name}: {word}")).unwrap_or_default()
    };
    let profile = variant.profile;
    let shell =
        field("shell", &variant.shell, words(profile, Setting { shell: Some("?"), ..setting }));
    let patch =
        field("patch", &variant.patch, words(profile, Setting { patch: Some("?"), ..setting }));
    let profile = profile.name();
    format!("models:\n  {model}: {{profile: {profile}, images: true{shell}{patch}}}\n")
}

fn speak_all(wire: Wire) {
    let (_, model) = MODELS.into_iter().find(|(it, _)| *it == wire).unwrap();
    let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
    let known: Model = catalogue.resolve(model, None).unwrap();
    assert_eq!(known.wire, wire);
    let all: Vec<Variant> =
        Profile::ALL.iter().flat_map(|profile| variants(*profile, wire)).collect();
    assert!(all.len() >= 4, "{}", all.len());
    // A few at a time: each is a process with a sandbox.
    let mut wrong = Vec::new();
    for few in all.chunks(3) {
        std::thread::scope(|scope| {
            let runs: Vec<_> =
                few.iter().map(|variant| scope.spawn(|| speak(wire, model, variant))).collect();
            wrong.extend(runs.into_iter().flat_map(|run| run.join().unwrap()));
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_tool_is_called_over_responses() {
    speak_all(Wire::Responses);
}

#[test]
fn every_tool_is_called_over_chat() {
    speak_all(Wire::Chat);
}

#[test]
fn every_tool_is_called_over_messages() {
    speak_all(Wire::Messages);
}

#[test]
fn every_tool_is_called_over_gemini() {
    speak_all(Wire::Gemini);
}

/// Rows for everything that may be declared, and no row for what is not.
#[test]
fn every_declared_tool_has_a_row() {
    let mut declared = BTreeSet::new();
    for (wire, _) in MODELS {
        for profile in Profile::ALL {
            for variant in variants(*profile, wire) {
                declared.extend(variant.declared.into_iter().map(|tool| tool.name));
            }
        }
    }
    let with_row: BTreeSet<String> = ROWS.iter().map(|row| row.tool.to_owned()).collect();
    let missing: Vec<&String> = declared.difference(&with_row).collect();
    assert!(missing.is_empty(), "declared, and no row in tests/every_tool/rows.rs: {missing:?}");
}

/// Tools that only some runs have are called in files of their own, which are named.
#[test]
fn every_optional_tool_is_called_somewhere() {
    for alias in alias::OPTIONAL {
        let found = ELSEWHERE.iter().find(|(name, _)| *name == alias.name);
        let (_, file) = found.unwrap_or_else(|| {
            panic!("no line for the optional tool `{}` in tests/every_tool/rows.rs", alias.name)
        });
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = fs_err::read_to_string(path).unwrap();
        assert!(
            text.contains(&format!("\"{}\"", alias.name)),
            "`{file}` calls no `{}`",
            alias.name
        );
    }
}
