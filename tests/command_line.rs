//! What the command line makes of variables that are empty or off, of addresses on other servers, and of output that
//! cannot be written.

use std::collections::BTreeMap;
use std::process::Stdio;

use clap::{Command, CommandFactory};
use patchwright::cli::Cli;
use patchwright_base::panics;
use patchwright_base::redact::Redactor;
use patchwright_base::telemetry::{self, Format};
use patchwright_base::ui::Ui;
use secrecy::SecretString;
use serde_json::Value;

use crate::exec::project;
use crate::install::{init, repository};
use crate::support::model::say;
use crate::support::world::{TestWorld, fix, github};

/// The variables of a command, `batch plan`, and the flags that have them.
fn variables(name: &str) -> BTreeMap<String, String> {
    let cli = Cli::command();
    let command = name.split(' ').fold(&cli, |command: &Command, sub| {
        command.find_subcommand(sub).unwrap_or_else(|| panic!("`{sub}` of `{name}`"))
    });
    let named = command.get_arguments().filter_map(|arg| {
        let variable = arg.get_env()?.to_str()?.to_owned();
        Some((variable, arg.get_id().to_string()))
    });
    named.collect()
}

#[test]
fn empty_variables_say_nothing() {
    let cases: &[(&str, &[&str], i32)] = &[
        ("exec", &["It is called?", "--repo", "project", "--sandbox", "local"], 0),
        ("issue", &["acme/app#7"], 60),
        ("review", &["acme/app#7"], 60),
        ("respond", &["acme/app#7", "fix", "it"], 60),
        ("triage", &["acme/app#7"], 60),
        ("learn", &["acme/app"], 60),
        ("batch plan", &["none.yml"], 2),
        ("batch run", &["none.yml"], 2),
        ("serve", &[], 2),
        ("init", &["--check"], 2),
        ("watch", &["none"], 2),
    ];
    for (name, args, code) in cases {
        let mut world = TestWorld::local([say("It is called calc.")]);
        project(&world);
        for variable in variables(name).keys() {
            world = world.set(variable, "");
        }
        let args: Vec<&str> = name.split(' ').chain(args.iter().copied()).collect();
        let output = world.run(&args);
        for words in ["a value is required", "invalid value", "cannot be used with", "panicked"] {
            assert!(!output.stderr.contains(words), "{name}: {}", output.text());
        }
        assert_eq!(output.code, *code, "{name}: {}", output.text());
    }
}

#[test]
fn switches_that_are_off_stand_in_nobodys_way() {
    let world = repository().set("PATCHWRIGHT_FORCE", "false").set("PATCHWRIGHT_QUIET", "false");
    let output = init(&world, "app", &["--check"]);
    assert!(output.stdout.starts_with("absent "), "{}", output.text());

    let off = [
        ("PATCHWRIGHT_QUIET", &["exec", "Say", "--repo", "none", "-v"][..]),
        ("PATCHWRIGHT_MATRIX", &["batch", "plan", "none.yml", "--json"]),
        ("PATCHWRIGHT_HOLD", &["batch", "run", "none.yml", "--publish-from", "none"]),
        ("PATCHWRIGHT_DRY_RUN", &["batch", "run", "none.yml", "--publish-from", "none"]),
        ("PATCHWRIGHT_DRY_RUN", &["review", "acme/app#7", "--post-from", "none"]),
        ("PATCHWRIGHT_REFRESH", &["batch", "status"]),
    ];
    for (name, args) in off {
        let on = TestWorld::local([]).set(name, "true").run(args);
        assert!(is_refused_by_the_parser(&on.stderr), "{name} is one of them: {}", on.text());
        let off = TestWorld::local([]).set(name, "false").run(args);
        assert!(!is_refused_by_the_parser(&off.stderr), "{name}: {}", off.text());
    }
}

/// Of its own mistakes the parser says the usage.
fn is_refused_by_the_parser(said: &str) -> bool {
    said.contains("cannot be used with") || said.contains("required arguments")
}

#[test]
fn the_number_of_shards_is_for_a_matrix_only() {
    let args = ["batch", "plan", "none.yml"];
    let world = TestWorld::local([]).set("PATCHWRIGHT_SHARDS", "4");
    let output = world.run(&args);
    assert!(!is_refused_by_the_parser(&output.stderr), "{}", output.text());
    let output = world.set("PATCHWRIGHT_SHARDS", "many").run(&[&args[..], &["--matrix"]].concat());
    assert!(output.stderr.contains("'many'"), "with it, it counts: {}", output.text());
    let output = TestWorld::local([]).run(&[&args[..], &["--shards", "4"]].concat());
    assert!(is_refused_by_the_parser(&output.stderr), "{}", output.text());
}

#[test]
fn output_on_a_full_disk_is_lost_with_an_error() {
    let world = repository();
    project(&world);
    let tools = ["tools", "--model", "gpt-5.3-codex"];
    for args in [
        &["completions", "bash"][..],
        &["--version"],
        &["--version", "--json"],
        &["--help"],
        &["exec", "--help"],
        &tools,
    ] {
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = world.command(args);
        let output = world.wait(command.stdout(full.into_parts().0).spawn().unwrap());
        assert_eq!(output.code, 1, "{args:?}: {}", output.text());
        let said = "error: cannot write all of the output: No space left on device";
        assert!(output.stderr.contains(said), "{args:?}: {}", output.text());
    }
    let world = TestWorld::local([say("It is called calc.")]);
    project(&world);
    let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = world.command(&[
        "exec",
        "What is it called?",
        "--repo",
        "project",
        "--out",
        "out",
        "--json",
    ]);
    let output = world.wait(command.stdout(full.into_parts().0).spawn().unwrap());
    assert_eq!(output.code, 1, "{}", output.text());
    assert_eq!(output.stderr.matches("cannot write all").count(), 1, "{}", output.text());
    assert!(world.path("out/result.json").is_file(), "the run came to its end");
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let world = TestWorld::local([]);
    let mut child = world.command(&["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = world.wait(child);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
}

#[test]
fn addresses_of_other_servers_are_refused() {
    let comment = "https://gitlab.example/acme/app/pull/8#issuecomment-1";
    for args in [
        ["issue", "https://gitlab.example/acme/app/issues/7"],
        ["triage", "https://gitlab.example/acme/app/issues/7"],
        ["review", "https://gitlab.example/acme/app/pull/7"],
        ["respond", comment],
    ] {
        let world = TestWorld::new(github(), []);
        let output = world.run(&args).expect(2);
        let said =
            "error: the address is of `gitlab.example`, and the GitHub that is asked is `GITHUB`";
        assert!(output.text().contains(said), "{}", output.text());
        assert!(output.stderr.contains("`GITHUB_SERVER_URL`"), "{}", output.text());
    }
    // Its own pages are asked for: there is no such issue.
    let world = TestWorld::new(github(), []);
    let address = format!("{}/acme/app/issues/70", world.github.server_url());
    let output = world.run(&["issue", &address]).expect(60);
    assert!(output.stderr.contains("acme/app#70"), "{}", output.text());
}

/// Whoever reads the log looks for what is bad by its level.
#[test]
fn a_log_of_json_lines_has_nothing_else_and_says_how_bad_a_line_is() {
    let world = TestWorld::new(github(), []).set("PATCHWRIGHT_LOG_FORMAT", "json");
    let nowhere = world.path("nowhere.yml").display().to_string();
    for (args, code, level, said) in [
        (&["serve", "--nope"][..], 2, "ERROR", "error: unexpected argument '--nope' found"),
        (&["exec", "x", "--config", &nowhere][..], 2, "ERROR", "error: "),
        (&["issue", "acme/app#99"][..], 60, "ERROR", "error: "),
    ] {
        let output = world.run(args).expect(code);
        let lines: Vec<serde_json::Value> =
            output.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let bad = |line: &&serde_json::Value| line["message"].as_str().unwrap().starts_with(said);
        let line = lines.iter().find(bad).unwrap_or_else(|| panic!("{}", output.text()));
        assert_eq!((&line["level"], &line["target"]), (&level.into(), &"patchwright".into()));
    }
    let warned = world.set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    let warned = warned.set("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let output = warned.run(&["issue", "acme/app#99"]).expect(60);
    assert!(output.stderr.contains(r#""level":"WARN""#), "{}", output.text());
    let text = warned.set("PATCHWRIGHT_LOG_FORMAT", "text");
    let output = text.run(&["serve", "--nope"]).expect(2);
    assert!(output.stderr.starts_with("error: unexpected argument"), "{}", output.text());
    let output = text.set("PATCHWRIGHT_LOG_FORMAT", "xml").run(&["tools"]).expect(2);
    assert!(output.stderr.contains("`PATCHWRIGHT_LOG_FORMAT` is `xml`"), "{}", output.text());
    assert!(output.stderr.contains("hint: set it to `text` or `json`"), "{}", output.text());
}

/// What `GITHUB_API_URL` and `GITHUB_SERVER_URL` are set to, by the double's own addresses; `None` is not set at all.
fn addressed(api: Option<&str>, server: Option<&str>) -> TestWorld {
    let mut world = TestWorld::new(github(), fix());
    for (name, value) in [("GITHUB_API_URL", api), ("GITHUB_SERVER_URL", server)] {
        let value = value.map(|value| {
            let (own, enterprise) = (world.github.server_url(), world.github.enterprise_api_url());
            value.replace("ENTERPRISE", &enterprise).replace("OWN", &own)
        });
        world = match value {
            Some(value) => world.set(name, value),
            None => world.unset(name),
        };
    }
    world
}

#[test]
fn one_address_of_a_server_is_enough_where_the_other_follows_from_it() {
    for (api, server) in
        [(Some("ENTERPRISE"), None), (Some("ENTERPRISE/"), Some("")), (None, Some("OWN"))]
    {
        let world = addressed(api, server);
        let output = world.issue().expect(0);
        assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
    }
}

#[test]
fn a_token_is_not_sent_to_two_githubs() {
    for (api, server, said) in [
        (Some("OWN"), None, "`GITHUB_API_URL` is set and `GITHUB_SERVER_URL` is not"),
        (Some("OWN"), Some(""), "`GITHUB_API_URL` is set and `GITHUB_SERVER_URL` is not"),
        (None, Some("OWN/pages"), "`GITHUB_SERVER_URL` is set and `GITHUB_API_URL` is not"),
        (Some("ENTERPRISE"), Some("https://github.com"), "one token cannot be for both"),
        (Some("https://api.github.com"), Some("OWN"), "one token cannot be for both"),
    ] {
        let world = addressed(api, server)
            .set("PATCHWRIGHT_WEBHOOK_SECRET", "webhook-secret-5b1f0a7c93de4d2a")
            .set("DOCKER_HOST", "unix:///nowhere/docker.sock");
        for args in [
            &["issue", "acme/app#7"][..],
            &["review", "acme/app#7"],
            &["serve", "--listen", "127.0.0.1:0", "--repository", "all"],
            &["exec", "--repo", "https://github.com/acme/app", "Do it."],
        ] {
            let output = world.run(args).expect(2);
            assert!(output.stderr.contains(said), "{args:?}: {}", output.text());
        }
        let output = world.run(&["doctor", "acme/app"]);
        assert!(output.stdout.contains(said), "{}", output.text());
        assert_ne!(output.code, 0);
        assert!(world.github.requests().is_empty(), "{:?}", world.github.requests());
    }
}

/// Set where the next test is to panic: the hook is one for the whole process, so it has one of its own.
const PANICS: &str = "PATCHWRIGHT_TEST_PANICS";

#[test]
#[expect(clippy::disallowed_methods, reason = "this program, and a variable for it alone")]
fn a_panic_is_one_line_of_a_log_of_json_lines() {
    if std::env::var_os(PANICS).is_some() {
        panics_with_a_secret();
    }
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "command_line::a_panic_is_one_line_of_a_log_of_json_lines";
    program.args(["--exact", name, "--nocapture"]).env(PANICS, "yes");
    let output = program.env_remove("RUST_BACKTRACE").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> = said.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let [line] = lines.as_slice() else { panic!("{said}") };
    assert_eq!((&line["level"], &line["target"]), (&"ERROR".into(), &"patchwright".into()));
    assert!(line["timestamp"].is_string());
    let message = line["message"].as_str().unwrap();
    assert!(message.contains("panicked at ") && message.contains("the key is ***"), "{said}");
}

fn panics_with_a_secret() {
    const SECRET: &str = "hunter2-of-the-panic";
    let secrets = [("a key", SecretString::from(SECRET))];
    let redactor: &'static Redactor = Box::leak(Box::new(Redactor::new(secrets)));
    telemetry::set_format(Format::Json);
    panics::tell(Ui { secrets: Some(redactor), ..Ui::plain() });
    panic!("the key is {SECRET}");
}
