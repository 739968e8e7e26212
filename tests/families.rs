//! Every model family in the situations in which runs have gone wrong: the real program from the prompt to
//! its results, each family with its own tools and its own protocol. What is asserted is what people and
//! the model see: the exit code, `result.json`, the patch, and the requests.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::git_repo::git;
use crate::support::model::{ModelServer, Turn, call, custom, say};
use crate::support::scenario::{Action, Family as Speech, called};
use crate::support::world::{FILES, KEY, Output, TestWorld};

/// A model of a family, as users name it, and how it calls its tools.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    model: &'static str,
    speech: Speech,
}

const CLAUDE: Family = Family { name: "claude", model: "claude-sonnet-5", speech: Speech::Claude };

const FAMILIES: [Family; 6] = [
    Family { name: "codex", model: "gpt-5.3-codex", speech: Speech::Sessions },
    Family { name: "gpt", model: "gpt-6.1-sol", speech: Speech::Scripts },
    CLAUDE,
    Family { name: "gemini", model: "gemini-3.5-flash", speech: Speech::Gemini },
    Family { name: "generic", model: "chat/any", speech: Speech::Generic },
    Family { name: "text", model: "chat/any", speech: Speech::Text },
];

/// Waits for a session until it has ended.
const WAITS: &str = "while (r.session_id) {\n  r = await tools.write_stdin({session_id: r.session_id, yield_time_ms: 300000});\n  text(r.output);\n}\n";

impl Family {
    /// A command, to its end.
    fn run(self, command: &str) -> Turn {
        called(&Action::Run(command.to_owned()), self.speech)
    }

    /// Exchanges lines of a file with the family's own editor.
    fn edit(self, path: &str, old: &str, new: &str) -> Turn {
        let (old, new) = (format!("{old}\n"), format!("{new}\n"));
        called(&Action::Edit { path: path.to_owned(), old, new }, self.speech)
    }

    /// Repairs the project.
    fn repair(self) -> Turn {
        self.edit("calc.sh", "  echo $(($1 - $2))", "  echo $(($1 + $2))")
    }

    /// A change that has nothing to do with what fails.
    fn useless(self) -> Turn {
        self.edit("README.md", "# calc", "# calculator")
    }

    /// A command that takes minutes, as the family waits for one.
    fn run_long(self, command: &str) -> Vec<Turn> {
        let args = json!({"cmd": command, "yield_time_ms": 30_000});
        match self.speech {
            Speech::Sessions => {
                let wait = json!({"session_id": 1, "yield_time_ms": 300_000});
                vec![call("exec_command", args), call("write_stdin", wait)]
            }
            Speech::Scripts => {
                let script = format!("let r = await tools.exec_command({args});\n{WAITS}");
                let wait = json!({"cell_id": "1", "yield_time_ms": 400_000});
                vec![custom("exec", &script), call("wait", wait)]
            }
            _ => vec![self.run(command)],
        }
    }

    /// A server that is left in the background.
    fn serve(self, command: &str) -> Turn {
        let args = json!({"cmd": command, "yield_time_ms": 300});
        match self.speech {
            Speech::Sessions => call("exec_command", args),
            Speech::Scripts => custom("exec", &format!("text(await tools.exec_command({args}))")),
            _ => self.run(&format!("({command}) &")),
        }
    }

    /// Reads what the server has written since; `told` is what the model has been told by now.
    fn read_log(self, told: &str) -> Turn {
        let args = json!({"session_id": 1});
        match self.speech {
            Speech::Sessions => call("write_stdin", args),
            Speech::Scripts => custom("exec", &format!("text(await tools.write_stdin({args}))")),
            _ => {
                let (_, path) = told.rsplit_once("from now on is in ").unwrap_or_default();
                let end = path.find(|c: char| c.is_whitespace() || "\"\\<".contains(c));
                let path = path[..end.unwrap_or_default()].trim_end_matches('.');
                self.run(&format!("cat {path}"))
            }
        }
    }

    /// A world in which this family works, on a folder with these files.
    fn world(self, files: &[(&str, &str)], model: ModelServer) -> TestWorld {
        let world = TestWorld::asking(crate::support::github::GitHub::new(), model);
        let project = world.path("project");
        fs_err::create_dir(&project).unwrap();
        for (name, content) in files {
            fs_err::write(project.join(name), content).unwrap();
        }
        git(&project, &["init", "--quiet", "--initial-branch", "main"]);
        git(&project, &["add", "."]);
        git(&project, &["commit", "--quiet", "--message", "First"]);
        let root = world.model.root();
        let world = world
            .unset("GITHUB_TOKEN")
            .set("PATCHWRIGHT_MODEL", self.model)
            .set("ANTHROPIC_BASE_URL", &root)
            .set("ANTHROPIC_API_KEY", KEY)
            .set("GOOGLE_GEMINI_BASE_URL", &root)
            .set("GEMINI_API_KEY", KEY);
        match self.speech {
            Speech::Text => world.set("PATCHWRIGHT_PROFILE", "text"),
            _ => world,
        }
    }

    /// A run on the project with these replies.
    fn plays(self, turns: Vec<Turn>, flags: &[&str]) -> Played {
        self.works(self.world(FILES, ModelServer::start(turns)), flags)
    }

    fn works(self, world: TestWorld, flags: &[&str]) -> Played {
        let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
        let output = world.run(&[&args[..], flags].concat());
        Played { family: self.name, world, output }
    }
}

/// A run that has ended.
struct Played {
    family: &'static str,
    world: TestWorld,
    output: Output,
}

impl Played {
    /// Fails with all that is known unless it ended like this, after so many requests.
    #[track_caller]
    fn ended(&self, code: i32, conclusion: &str, requests: usize) -> Value {
        let seen = format!("{}: {}", self.family, self.output.text());
        assert_eq!(self.output.code, code, "{seen}");
        let result: Value = serde_json::from_str(&self.out("result.json")).unwrap();
        assert_eq!(result["conclusion"], conclusion, "{seen}");
        assert_eq!(self.world.model.requests().len(), requests, "{seen}");
        result
    }

    /// A file of the results folder; empty when the file does not exist.
    fn out(&self, name: &str) -> String {
        fs_err::read_to_string(self.world.path("out").join(name)).unwrap_or_default()
    }

    /// The request with this number, from one, as text.
    fn request(&self, number: usize) -> String {
        self.world.model.requests()[number - 1].body.to_string()
    }

    /// How often the conversation has a text after so many requests.
    fn count(&self, number: usize, text: &str) -> usize {
        self.request(number).matches(text).count()
    }

    #[track_caller]
    fn says(&self, text: &str, what: &str) {
        assert!(text.contains(what), "{}: no {what:?} in {text}", self.family);
    }

    /// The project is repaired by the patch.
    #[track_caller]
    fn is_repaired(&self) {
        self.says(&self.out("change.patch"), "\n-  echo $(($1 - $2))\n+  echo $(($1 + $2))\n");
    }
}

/// Does something in every family, a few at a time: each is a process with a sandbox.
fn in_every_family(at_a_time: usize, act: impl Fn(Family) + Sync) {
    for few in FAMILIES.chunks(at_a_time) {
        std::thread::scope(|scope| {
            let runs: Vec<_> = few.iter().map(|family| scope.spawn(|| act(*family))).collect();
            let ended: Vec<_> = runs.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            assert!(ended.iter().all(Result::is_ok), "some of the families failed");
        });
    }
}

/// Runs a command of five minutes to its end.
fn sleeps(family: Family, place: impl Fn(TestWorld) -> TestWorld) {
    let mut turns = family.run_long("sleep 301; echo done");
    turns.push(say("It takes five minutes."));
    let requests = turns.len();
    let world = place(family.world(&[("README.md", "# app\n")], ModelServer::start(turns)));
    fs_err::write(world.path("config.yml"), "limits: { command-timeout: 10m }\n").unwrap();
    let began = Instant::now();
    let played = family.works(world, &["--config", "config.yml"]);
    let took = began.elapsed();
    played.ended(0, "done", requests);
    assert!(took >= Duration::from_secs(301), "{}: {took:?}", family.name);
    // What the command printed, besides the command itself.
    let printed = |number| played.count(number, "done") - played.count(number, "echo done");
    assert_eq!(printed(requests), printed(requests - 1) + 1, "{}", played.request(requests));
    assert_eq!(
        played.count(requests, "timed out"),
        played.count(1, "timed out"),
        "{}",
        family.name
    );
}

#[test]
fn a_command_of_five_minutes_is_not_cut_short() {
    std::thread::scope(|scope| {
        let docker = scope.spawn(|| sleeps(CLAUDE, TestWorld::in_docker));
        in_every_family(FAMILIES.len(), |family| sleeps(family, |world| world));
        assert!(docker.join().is_ok(), "it failed in Docker");
    });
}

/// A server, and what asks it.
struct Service {
    serve: &'static str,
    ask: &'static str,
    logs: &'static str,
}

const HTTP: Service = Service {
    serve: "mkdir -p /tmp/site; echo hello $((6 * 7)) > /tmp/site/asked; cd /tmp/site; exec python3 -u -m http.server 8123",
    ask: "for i in $(seq 200); do python3 -c 'import urllib.request as r; print(r.urlopen(\"http://127.0.0.1:8123/asked\").read())' && break; sleep 0.1; done",
    logs: "GET /asked HTTP/1.1",
};

/// Leaves a server running, asks it with the next command, and reads its log.
fn serves(family: Family, service: &'static Service, place: impl Fn(TestWorld) -> TestWorld) {
    let model = ModelServer::conversations(move |said| {
        let told = String::from_utf8_lossy(&said.request.raw).into_owned();
        vec![
            family.serve(service.serve),
            family.run(service.ask),
            family.read_log(&told),
            say("The server answers."),
        ]
    });
    let played = family.works(place(family.world(&[("README.md", "# app\n")], model)), &[]);
    played.ended(0, "done", 4);
    let (asked, read) = (played.request(3), played.request(4));
    played.says(&asked, "hello 42");
    assert_eq!(asked.matches(service.logs).count(), 0, "{}: {asked}", family.name);
    played.says(&read, service.logs);
    assert_eq!(played.out("change.patch"), "", "{}", family.name);
}

/// A command of the model and a check need more memory than there is: the kernel ends a process of each, and leaves the
/// rest to find out why.
#[test]
fn memory_that_runs_out_is_called_by_its_name() {
    let hog = "python3 -c 'x = bytearray(1 << 30)'";
    in_every_family(3, |family| {
        let turns = vec![family.run(hog), family.run("echo on"), family.repair(), say("Add")];
        let world = family.world(FILES, ModelServer::start(turns)).in_docker();
        let checks = json!([format!("{hog} || exit 3")]);
        let config = format!(
            "container: {{ memory: 256m }}\nverify: {checks}\nlimits: {{ verify-rounds: 0 }}\n"
        );
        fs_err::write(world.path("config.yml"), config).unwrap();
        let played = family.works(world, &["--config", "config.yml"]);
        let result = played.ended(20, "partial", 4);
        let because = "because the memory of the sandbox (256 MiB) ran out";
        let (first, second) = (played.request(1), played.request(2));
        played.says(&first, "<memory>256 MiB for all that runs and for files in /tmp together</");
        played.says(&second, &format!("Killed, {because}. Use less at a time: "));
        assert_eq!(played.count(3, "Killed, because"), 1, "{}: only of its own", family.name);
        let note = format!("1 process was killed, {because}; `container.memory` is the limit");
        for side in ["base", "head"] {
            assert_eq!(result["evidence"]["rows"][0][side]["note"], note, "{}", family.name);
        }
    });
}

/// The limit of setup is not that of the run.
#[test]
fn setup_says_that_memory_ran_out() {
    let hog = "python3 -c 'x = bytearray(8 << 30)'";
    let world = CLAUDE.world(FILES, ModelServer::start(vec![CLAUDE.repair(), say("Add")]));
    let played = CLAUDE.works(world.in_docker(), &["--setup", hog]);
    played.ended(0, "done", 2);
    let verdict =
        "failed with exit code 137: killed, because the memory of the sandbox (4096 MiB) ran out";
    played.says(&played.output.stderr, &format!("setup: `{hog}` {verdict}"));
    played.says(&played.request(1), verdict);
}

/// How many bytes two texts begin with alike.
fn common(one: &str, other: &str) -> usize {
    let alike = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    alike.map(|(c, _)| c.len_utf8()).sum()
}

#[test]
fn a_server_in_the_background_answers_a_later_command() {
    in_every_family(3, |family| serves(family, &HTTP, |world| world));
}

#[test]
fn a_server_in_the_background_answers_a_later_command_in_docker() {
    serves(CLAUDE, &HTTP, TestWorld::in_docker);
}

#[test]
fn an_announcement_in_the_middle_is_answered_once_and_the_work_goes_on() {
    in_every_family(3, |family| {
        let turns = vec![
            family.run("sh test.sh"),
            say("Let me look at `calc.sh` and change the sign."),
            family.repair(),
            say("Add instead of subtracting"),
        ];
        let played = family.plays(turns, &[]);
        let result = played.ended(0, "done", 4);
        assert_eq!(result["checks"], "passed", "{}", family.name);
        let remark = "Your last reply did nothing";
        let said = [2, 3, 4].map(|number| played.count(number, remark));
        assert_eq!(said, [0, 1, 1], "{}", family.name);
        played.is_repaired();
        assert_eq!(played.output.stdout, "Add instead of subtracting\n", "{}", family.name);
    });
}

#[test]
fn a_limit_in_the_middle_keeps_the_work_and_asks_once_for_last_words() {
    in_every_family(3, |family| {
        let turns = vec![
            family.repair(),
            family.run("cat calc.sh"),
            say("The sign is changed; the tests are not run yet."),
            say("late"),
        ];
        let played = family.plays(turns, &["--max-turns", "2"]);
        let result = played.ended(40, "budget_exhausted", 3);
        played.is_repaired();
        let words = result["final_message"].as_str().unwrap_or_default();
        assert_eq!(words, "The sign is changed; the tests are not run yet.", "{}", family.name);
        let asked =
            [1, 2, 3].map(|number| played.count(number, "Write the final message for it now"));
        assert_eq!(asked, [0, 0, 1], "{}: {}", family.name, played.request(3));
    });
}

/// Fails until so many seconds after the change, and does not come back before that.
const WARMS_UP: &str = "[ -f started ] || exit 0\nuntil=$(($(cat started) + 15))\n[ $(date +%s) -ge $until ] && exit 0\nwhile [ $(date +%s) -lt $until ]; do sleep 0.2; done\necho not ready\nexit 1\n";

#[test]
fn a_flaky_check_is_said_and_not_held_against_the_change() {
    in_every_family(FAMILIES.len(), |family| {
        let files = [FILES, &[("check.sh", WARMS_UP)]].concat();
        let turns = vec![
            family.repair(),
            family.run("date +%s > started"),
            say("Add instead of subtracting"),
        ];
        let world = family.world(&files, ModelServer::start(turns));
        let played = family.works(world, &["--verify", "sh ./check.sh"]);
        let result = played.ended(0, "done", 3);
        let head = &result["evidence"]["rows"][0]["head"];
        let codes = (&head["exit_code"], &head["again"]["exit_code"]);
        assert_eq!(codes, (&json!(1), &json!(0)), "{}: {head:#}", family.name);
        played.says(&played.out("report.html"), "flaky: failed (1), passed when run once more");
        played.is_repaired();
    });
}

/// A test of the project, and one that no change to it can repair.
const RED: &str = "echo running 2 tests\necho test adds ... ok\necho test reaches_host ... FAILED\necho\necho failures:\necho\necho '---- reaches_host stdout ----'\necho no route to host\necho\necho 'test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out'\nexit 101\n";

#[test]
fn a_check_that_fails_before_and_after_goes_back_and_the_run_is_partly_done() {
    in_every_family(3, |family| {
        let files = [FILES, &[("check.sh", RED)]].concat();
        let turns = vec![family.useless(), say("All is well."), say("It needs another machine.")];
        let world = family.world(&files, ModelServer::start(turns));
        let played = family.works(world, &["--verify", "sh ./check.sh"]);
        let result = played.ended(20, "partial", 3);
        assert_eq!(result["checks"], "failed", "{}", family.name);
        played.says(&played.request(1), "<baseline>");
        played.says(&played.request(1), "reaches_host");
        let feedback = &played.request(3)[common(&played.request(2), &played.request(3))..];
        played.says(feedback, "it failed before your change too");
        played.says(feedback, "reaches_host");
        let tests = &result["evidence"]["rows"][0]["tests"];
        assert_eq!(tests["still_failing"]["names"], json!(["reaches_host"]), "{tests:#}");
        let report = played.out("report.html");
        let (_, listed) = report.split_once("Fail as before").unwrap_or_default();
        played.says(listed, "reaches_host");
        played.says(&played.out("change.patch"), "\n+# calculator\n");
    });
}
