//! A LiteLLM proxy between us and a model that speaks Chat Completions: the same work through each of
//! its four fronts. The proxy is the real one, which `./test` installs into `target/litellm`; the
//! model is ours, and checks what the proxy makes of our requests.
#![expect(clippy::disallowed_methods, reason = "starts the proxy, and asks whether CI is watching")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::exec::project;
use crate::support::model::{Turn, limited, overflow, say};
use crate::support::scenario::{Family, scenario};
use crate::support::world::{KEY, TestWorld};

/// A front of the proxy, and models that we ask there.
struct Front {
    name: &'static str,
    /// For the work that a rate limit interrupts, and for the one that grows too long.
    models: [&'static str; 2],
    profile: Option<&'static str>,
    family: Family,
}

/// Claude's own tools are unknown to a model behind Chat, so Messages goes with plain functions.
const FRONTS: [Front; 4] = [
    Front {
        name: "responses",
        models: ["gpt-5.3-codex", "gpt-5.4"],
        profile: None,
        family: Family::Codex,
    },
    Front {
        name: "chat",
        models: ["chat/some-model", "chat/other-model"],
        profile: None,
        family: Family::Generic,
    },
    Front {
        name: "messages",
        models: ["claude-sonnet-5", "claude-opus-5"],
        profile: Some("generic"),
        family: Family::Generic,
    },
    Front {
        name: "gemini",
        models: ["gemini-3.5-flash", "gemini-3.6-flash"],
        profile: None,
        family: Family::Gemini,
    },
];

/// The proxy, which ends with this value: also when the test panics, and with the test's own process
/// group when the runner kills that.
struct Proxy {
    child: Child,
    root: String,
    log: PathBuf,
}

impl Proxy {
    /// Starts it with a configuration. A second try is for the case that somebody else took the port.
    fn start(program: &Path, folder: &Path, config: &Value) -> Proxy {
        let path = folder.join("litellm.yaml");
        // JSON is YAML.
        fs_err::write(&path, config.to_string()).unwrap();
        Proxy::spawn(program, folder, &path)
            .or_else(|_| Proxy::spawn(program, folder, &path))
            .unwrap_or_else(|log| panic!("LiteLLM does not start:\n{log}"))
    }

    fn spawn(program: &Path, folder: &Path, config: &Path) -> Result<Proxy, String> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = folder.join("litellm.log");
        let out = fs_err::File::create(&log).unwrap().into_parts().0;
        let child = Command::new(program)
            .arg("--config")
            .arg(config)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .current_dir(folder)
            .env_clear()
            .env("HOME", folder)
            .env("PATH", "/usr/bin:/bin")
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("LITELLM_TELEMETRY", "False")
            // Nothing but this machine can be reached.
            .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, "http://127.0.0.1:9")))
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        let mut proxy = Proxy { child, root: format!("http://127.0.0.1:{port}"), log };
        let patience = Instant::now() + Duration::from_mins(4);
        while !is_ready(port) {
            let has_ended = proxy.child.try_wait().unwrap().is_some();
            if has_ended || Instant::now() > patience {
                return Err(proxy.log());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(proxy)
    }

    /// The end of what it printed.
    fn log(&self) -> String {
        let text = fs_err::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(6000)..]).into_owned()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /health/readiness HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}

/// The installed proxy. Without it there is nothing to run, which CI does not accept.
fn installed() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/litellm/bin/litellm");
    let is_there = program.is_file();
    let required = std::env::var_os("CI").is_some();
    assert!(is_there || !required, "LiteLLM must be installed in CI; run ./test");
    if !is_there {
        eprintln!("skipped: `target/litellm` is absent; `.ci/litellm` installs it");
    }
    is_there.then_some(program)
}

/// The proxy's configuration: each model's requests go to the model server of its world as Chat.
/// Faults are passed on, not retried there, and settings that the upstream does not take are dropped.
fn config<'a>(worlds: impl Iterator<Item = (&'a str, &'a TestWorld)>) -> Value {
    let models: Vec<Value> = worlds
        .map(|(model, world)| {
            json!({
                "model_name": model.trim_start_matches("chat/"),
                "litellm_params": {
                    "model": "lm_studio/scripted", "api_base": world.model.url(),
                    "api_key": "none", "max_retries": 0,
                },
            })
        })
        .collect();
    json!({
        "model_list": models,
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"drop_params": true, "telemetry": false},
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
    })
}

/// A world whose model is asked through the proxy, once that is known.
fn world(front: &Front, turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::local(turns);
    project(&world);
    // Chat goes through as it is, and is held to all rules of the API. What the proxy makes of the
    // other protocols has marks of its own: `thinking_blocks`, calls with an `index`, and on the
    // Gemini front ids made of the tool's name.
    if front.name != "chat" {
        world.model.expect_a_proxy();
    }
    match front.profile {
        Some(profile) => world.set("PATCHWRIGHT_PROFILE", profile),
        None => world,
    }
}

/// Runs the work through the proxy; the world afterwards, and what was printed on the way.
fn run(world: TestWorld, model: &str, proxy: &Proxy) -> (TestWorld, String) {
    let world = world
        .set("PATCHWRIGHT_MODEL", model)
        .set("OPENAI_BASE_URL", format!("{}/v1", proxy.root))
        .set("ANTHROPIC_BASE_URL", &proxy.root)
        .set("ANTHROPIC_API_KEY", KEY)
        .set("GOOGLE_GEMINI_BASE_URL", &proxy.root)
        .set("GEMINI_API_KEY", KEY);
    let output = world.run(&["exec", "Make add add", "--repo", "project", "--out", "out"]);
    // The proxy leaves out a content of null.
    let mut violations = world.model.take_violations();
    violations.retain(|broken| !broken.ends_with("].content is not what the server had sent"));
    let violations = violations.join("\n");
    let text = format!("{model}\n{}\n{violations}\n{}", output.text(), proxy.log());
    assert_eq!((output.code, violations.as_str()), (0, ""), "{text}");
    assert_eq!(world.model.unused(), 0, "{text}");
    assert!(world.model.requests().iter().all(|asked| asked.path == "/v1/chat/completions"));
    let told = world.told();
    assert!(!told.contains(KEY), "the proxy's key went upstream");
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    assert!(patch.contains("\n-  echo $(($1 - $2))\n+  echo $(($1 + $2))\n"), "{text}\n{patch}");
    assert!(patch.contains("+`add 2 2` prints 4 – \"always\".\n"), "{text}\n{patch}");
    assert!(output.stderr.contains("check on head: `sh ./test.sh` passed"), "{text}");
    (world, output.stderr)
}

type Pairs = Vec<(String, String)>;

/// Ids and names of the calls in a Chat request, and the outputs by the ids that they answer.
fn calls_and_outputs(request: &Value) -> (Pairs, Pairs) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    // The Gemini front passes the response's object on as JSON.
    let output = |value: &Value| {
        let text = text(value);
        let inside = serde_json::from_str::<Value>(&text).unwrap_or_default();
        inside["output"].as_str().map(str::to_owned).unwrap_or(text)
    };
    let messages = request["messages"].as_array().unwrap();
    let calls = messages
        .iter()
        .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
        .map(|call| (text(&call["id"]), text(&call["function"]["name"])))
        .collect();
    let outputs = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| (text(&message["tool_call_id"]), output(&message["content"])))
        .collect();
    (calls, outputs)
}

/// Several calls in each reply, and a rate limit between two of them.
fn works_through_a_rate_limit(front: &Front, world: TestWorld, proxy: &Proxy) {
    let (world, said) = run(world, front.models[0], proxy);
    let requests = world.model.requests();
    assert_eq!(requests.len(), 4, "{said}");
    assert!(said.contains("retry 2 in "), "the limit was ours to wait for: {said}");
    assert_eq!(requests[1].body, requests[2].body);
    // Every output answers its own call: the ids are in order, also where the proxy gives one twice.
    let (calls, outputs) = calls_and_outputs(&requests[3].body);
    let ids = |pairs: &[(String, String)]| -> Vec<String> {
        pairs.iter().map(|(id, _)| id.clone()).collect()
    };
    assert_eq!((calls.len(), ids(&outputs)), (6, ids(&calls)), "{}", front.name);
    for (at, needle) in [(0, "echo $(($1 - $2))"), (1, "= 4 ]"), (2, "näive \"quotes\"")] {
        assert!(outputs[at].1.contains(needle), "{}: {outputs:?}", front.name);
    }
    // The proxy keeps what prompt caches live by: a request begins with the one before.
    let before = requests[2].body["messages"].as_array().unwrap();
    let after = requests[3].body["messages"].as_array().unwrap();
    assert_eq!(before[..], after[..before.len()], "{}", front.name);
}

/// The upstream says that the conversation is too long, and the proxy says so in its own words.
fn shortens_what_is_too_long(front: &Front, world: TestWorld, proxy: &Proxy) {
    let (world, said) = run(world, front.models[1], proxy);
    assert!(said.contains("compacted the conversation from about "), "{said}");
    let requests = world.model.requests();
    assert_eq!(requests.len(), 5, "{said}");
    assert!(requests[2].body.to_string().contains("is about to be shortened"));
    assert!(requests[3].body.to_string().contains("The sign in calc.sh is wrong."));
}

/// The turns of the work, with others after the first.
fn turns(family: Family, between: Vec<Turn>) -> Vec<Turn> {
    let mut turns = scenario("parallel", family);
    turns.splice(1..1, between);
    turns
}

#[test]
fn a_litellm_proxy_works_through_each_of_its_fronts() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let worlds: Vec<[TestWorld; 2]> = FRONTS
        .iter()
        .map(|front| {
            let notes = say("The sign in calc.sh is wrong.");
            let mut worlds = [vec![limited(1)], vec![overflow(), notes]]
                .map(|between| world(front, turns(front.family, between)));
            // The second one rewrites its history.
            let [_, second] = &mut worlds;
            second.model.may_rewrite();
            worlds
        })
        .collect();
    let named =
        FRONTS.iter().zip(&worlds).flat_map(|(front, worlds)| front.models.into_iter().zip(worlds));
    let proxy = Proxy::start(&program, folder.path(), &config(named));
    std::thread::scope(|scope| {
        for (front, [limited, long]) in FRONTS.iter().zip(worlds) {
            let proxy = &proxy;
            scope.spawn(move || {
                works_through_a_rate_limit(front, limited, proxy);
                shortens_what_is_too_long(front, long, proxy);
            });
        }
    });
}
