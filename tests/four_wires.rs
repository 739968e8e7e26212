//! One piece of work over each of the four protocols and without tool calls: issue to pull request with
//! the model's own wire, tools and names. The model server checks every request by the provider's
//! schema and rules.

mod compaction;
mod fallbacks;
mod switched;

use crate::support::git_repo::git;
use crate::support::model::{Turn, fail};
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

/// This world with a configuration of its operator.
fn configured(world: TestWorld, config: &str) -> TestWorld {
    let path = world.path("config.yml");
    fs_err::write(&path, config).unwrap();
    world.set("PATCHWRIGHT_CONFIG", path.display().to_string())
}

/// Runs a scenario from the issue to the pull request; the world afterwards.
fn check(name: &str, voice: &Voice) -> TestWorld {
    let turns = scenario(name, voice.family);
    completes(world(voice, turns), voice)
}

/// Works off all turns that the model has.
fn completes(world: TestWorld, voice: &Voice) -> TestWorld {
    let asked = world.model.unused();
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
    world
}

/// A file of the branch that was pushed.
fn committed(world: &TestWorld, path: &str) -> String {
    let place = format!("patchwright/issue-7:{path}");
    git(&world.github.repository_path(), &["show", &place])
}

fn fixes(voice: &Voice) {
    let world = check("fix", voice);
    let plan = world.result("plan.md");
    assert!(plan.contains("- [x] Find the bug\n- [x] Fix it\n"), "{plan}");
    // The bug is in one file, and so is the change.
    let patch = world.result("change.patch");
    assert_eq!(patch.matches("diff --git").count(), 1, "{patch}");
    assert!(patch.contains("+++ b/calc.sh"), "{patch}");
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

/// With the tool for pictures of the codex models, on every wire whose models take them.
fn looks_at_a_picture(voice: &Voice, form: &str) {
    let voice = Voice { profile: Some("codex"), family: Family::Codex, ..*voice };
    shows(&check("picture", &voice), form);
}

/// With the family's own tool for files, which shows pictures too.
fn looks_natively(voice: &Voice, images: bool) -> TestWorld {
    let world = world(voice, scenario("picture", voice.family));
    let config = format!("models:\n  {}: {{images: {images}}}\n", voice.model);
    completes(configured(world, &config), voice)
}

/// The picture is there from the third request on.
#[track_caller]
fn shows(world: &TestWorld, form: &str) {
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

#[test]
fn looks_at_a_picture_with_the_text_editor_over_messages() {
    let world = looks_natively(&MESSAGES, true);
    shows(&world, "\"media_type\":\"image/png\"");
    shows(&world, "shot.png: image/png, 1 × 1 pixels, ");
}

#[test]
fn looks_at_a_picture_with_read_file_over_gemini() {
    shows(&looks_natively(&GEMINI, true), "\"mimeType\":\"image/png\"");
}

#[test]
fn looks_at_a_picture_with_read_file_over_chat() {
    shows(&looks_natively(&CHAT, true), "\"url\":\"data:image/png;base64,iVBORw0K");
}

/// The code and the words of each API.
const UNREADABLE: [(&str, &str); 3] = [
    ("invalid_value", "The image data you provided does not represent a valid image."),
    (
        "invalid_request_error",
        "messages.4.content.0.tool_result.content.0.image.source.base64: Could not process image",
    ),
    ("INVALID_ARGUMENT", "Unable to process input image. Please retry or report in"),
];

#[test]
fn a_picture_that_the_api_cannot_read_is_left_out_and_the_work_goes_on() {
    let natively = [RESPONSES, MESSAGES, GEMINI].into_iter().zip(UNREADABLE);
    for (voice, (code, message)) in natively {
        let voice = Voice { profile: Some("codex"), family: Family::Codex, ..voice };
        let mut turns = scenario("picture", voice.family);
        turns.insert(2, fail(400, code, message));
        let mut world = world(&voice, turns);
        world.model = world.model.allow_rewrites();
        let world = completes(world, &voice);
        let requests = world.model.requests();
        // In front of it, where the command that made it has its text.
        let pictures = |index: usize| {
            let body = requests[index].body.to_string();
            let forms =
                ["\"input_image\"", "\"media_type\":\"image/png\"", "\"mimeType\":\"image/png\""];
            let has = forms.iter().any(|form| body.contains(form));
            (has, body.contains("the model's API could not read it"))
        };
        assert_eq!(pictures(2), (true, false));
        assert_eq!([3, 4].map(pictures), [(false, true); 2]);
        let journal = world.result("journal.jsonl");
        assert!(journal.contains("\"pictures_refused\"") && journal.contains(message), "{journal}");
    }
}

#[test]
fn a_model_that_takes_no_pictures_is_told_what_they_are() {
    for voice in [&CHAT, &MESSAGES, &GEMINI] {
        let world = looks_natively(voice, false);
        shows(&world, "shot.png: image/png, 1 × 1 pixels, ");
        shows(&world, "this model takes no pictures");
        let requests = world.model.requests();
        let declared = requests[0].body["tools"].to_string();
        assert!(!declared.contains("as a picture"), "{declared}");
        // The command that made it has the same text, without the line's end.
        assert!(!world.told().contains("base64,iVBORw0K"));
    }
}

/// Without tool calls by the operator's catalogue, with an edit that misses once.
#[test]
fn edits_as_text_where_the_configuration_says_so() {
    let plain = Voice { profile: None, ..TEXT };
    let world = world(&plain, scenario("trouble", Family::Text));
    let world = configured(world, "models:\n  chat/some-model: {profile: text}\n");
    let world = completes(world, &plain);
    for request in world.model.requests() {
        assert!(request.body.get("tools").is_none() && request.body.get("tool_choice").is_none());
    }
    let told = world.told();
    assert!(told.contains("`calc.sh` was not changed: the 1 line of SEARCH is not in the file."));
    assert!(told.contains("`calc.sh` was changed"), "{told}");
}
