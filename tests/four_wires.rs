//! The same work over each of the four protocols and without tool calls: issue to pull request with
//! the model's own wire, tools and names. The model server checks every request by the provider's
//! schema and rules.

mod compaction;
mod switched;

use crate::support::git_repo::git;
use crate::support::model::{Recorded, Turn};
use crate::support::scenario::{Family, scenario};
use crate::support::world::{KEY, TestWorld, github};

/// A model, as users name it, and what it speaks.
struct Voice {
    model: &'static str,
    profile: Option<&'static str>,
    family: Family,
    path: &'static str,
}

const RESPONSES: Voice =
    Voice { model: "gpt-5.3-codex", profile: None, family: Family::Codex, path: "/v1/responses" };
const CHAT: Voice = Voice {
    model: "chat/some-model",
    profile: None,
    family: Family::Generic,
    path: "/v1/chat/completions",
};
const MESSAGES: Voice =
    Voice { model: "claude-sonnet-5", profile: None, family: Family::Claude, path: "/v1/messages" };
const GEMINI: Voice = Voice {
    model: "gemini-3.5-flash",
    profile: None,
    family: Family::Gemini,
    path: "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse",
};
const TEXT: Voice = Voice {
    model: "chat/some-model",
    profile: Some("text"),
    family: Family::Text,
    path: "/v1/chat/completions",
};

/// A world in which a model speaks like this, by the environment alone.
fn world(voice: &Voice, turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::new(github(), turns);
    let root = world.model.root();
    let world = world
        .set("PATCHWRIGHT_MODEL", voice.model)
        .set("ANTHROPIC_BASE_URL", &root)
        .set("ANTHROPIC_API_KEY", KEY)
        .set("GOOGLE_GEMINI_BASE_URL", &root)
        .set("GEMINI_API_KEY", KEY);
    match voice.profile {
        Some(profile) => world.set("PATCHWRIGHT_PROFILE", profile),
        None => world,
    }
}

/// Runs a scenario from the issue to the pull request; the world afterwards.
fn check(name: &str, voice: &Voice) -> TestWorld {
    let turns = scenario(name, voice.family);
    let asked = turns.len();
    let world = world(voice, turns);
    let output = world.issue().expect(0);
    let requests = world.model.requests();
    assert_eq!((requests.len(), world.model.unused()), (asked, 0), "{}", output.text());
    for request in &requests {
        assert_eq!(request.path, voice.path);
        assert!(!request.path.contains(KEY), "the key is in an address");
    }
    let pulls = world.github.pulls();
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].title, "Add instead of subtracting");
    assert!(pulls[0].body.contains("| `sh ./test.sh` | ❌ failed (1) | ✅ passed |"));
    assert_eq!(committed(&world, "calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n");
    // To read what was said, as a person would: see `Recorded`.
    if let Ok(folder) = std::env::var("PATCHWRIGHT_TEST_DUMP") {
        dump(&std::path::Path::new(&folder).join(format!("{name}-{:?}", voice.family)), &requests);
    }
    world
}

/// Writes requests into a folder, to be read by people.
fn dump(folder: &std::path::Path, requests: &[Recorded]) {
    fs_err::create_dir_all(folder).unwrap();
    for (index, request) in requests.iter().enumerate() {
        let text = serde_json::to_string_pretty(&request.body).unwrap();
        let headers = format!("{:#?}", request.headers);
        fs_err::write(folder.join(format!("{index}.json")), text).unwrap();
        fs_err::write(folder.join(format!("{index}.headers")), headers).unwrap();
    }
}

/// A file of the branch that was pushed.
fn committed(world: &TestWorld, path: &str) -> String {
    let place = format!("patchwright/issue-7:{path}");
    git(&world.github.repository_path(), &["show", &place])
}

fn fixes(voice: &Voice) {
    let world = check("fix", voice);
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("- [x] Find the bug\n- [x] Fix it\n"), "{body}");
    // The bug is in one file, and so is the change.
    assert!(body.contains("| `calc.sh` | changed | +1 −1 |"), "{body}");
}

fn runs_parallel_calls(voice: &Voice) {
    let world = check("parallel", voice);
    let page = committed(&world, "docs/calc.md");
    assert_eq!(page, "# calc\n\n`add 2 2` prints 4 – \"always\".\n");
    let told = world.told();
    assert!(told.contains("[ \\\"$(add 2 2)\\\" = 4 ]"), "the model has seen test.sh");
    assert!(told.contains("näive"), "the model has seen the output");
}

fn survives_trouble(voice: &Voice) {
    check("trouble", voice);
}

/// With the one profile that has a tool for pictures, on every wire whose models take them.
fn looks_at_a_picture(voice: &Voice, form: &str) {
    let voice = Voice { profile: Some("codex"), family: Family::Codex, ..*voice };
    let world = check("picture", &voice);
    let requests = world.model.requests();
    let shows = |index: usize| requests[index].body.to_string().contains(form);
    let seen = &requests[2].raw[requests[1].raw.len() - 2..];
    let seen = String::from_utf8_lossy(seen);
    assert!(!shows(1) && shows(2) && shows(3), "no picture, or too early: {seen}");
}

#[test]
fn fixes_an_issue_over_responses() {
    fixes(&RESPONSES);
}

#[test]
fn fixes_an_issue_over_chat() {
    fixes(&CHAT);
}

#[test]
fn fixes_an_issue_over_messages() {
    fixes(&MESSAGES);
}

#[test]
fn fixes_an_issue_over_gemini() {
    fixes(&GEMINI);
}

#[test]
fn fixes_an_issue_over_text() {
    fixes(&TEXT);
}

#[test]
fn runs_parallel_calls_over_responses() {
    runs_parallel_calls(&RESPONSES);
}

#[test]
fn runs_parallel_calls_over_chat() {
    runs_parallel_calls(&CHAT);
}

#[test]
fn runs_parallel_calls_over_messages() {
    runs_parallel_calls(&MESSAGES);
}

#[test]
fn runs_parallel_calls_over_gemini() {
    runs_parallel_calls(&GEMINI);
}

#[test]
fn runs_several_blocks_of_text() {
    runs_parallel_calls(&TEXT);
}

#[test]
fn survives_trouble_over_responses() {
    survives_trouble(&RESPONSES);
}

#[test]
fn survives_trouble_over_chat() {
    survives_trouble(&CHAT);
}

#[test]
fn survives_trouble_over_messages() {
    survives_trouble(&MESSAGES);
}

#[test]
fn survives_trouble_over_gemini() {
    survives_trouble(&GEMINI);
}

#[test]
fn survives_trouble_over_text() {
    survives_trouble(&TEXT);
}

#[test]
fn looks_at_a_picture_over_responses() {
    looks_at_a_picture(&RESPONSES, "\"image_url\":\"data:image/png;base64,iVBORw0K");
}

#[test]
fn looks_at_a_picture_over_messages() {
    looks_at_a_picture(&MESSAGES, "\"media_type\":\"image/png\"");
}

#[test]
fn looks_at_a_picture_over_gemini() {
    looks_at_a_picture(&GEMINI, "\"mimeType\":\"image/png\"");
}
