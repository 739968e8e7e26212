//! Tools that only one run has, from Rust: calls from inside a call, schemas that are
//! not ours.

use parking_lot::Mutex;
use std::net::TcpListener;
use std::sync::Arc;

use async_trait::async_trait;
use patchwright_config::Mode;
use patchwright_config::tools::{Hook, Tools, When};
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_journal::{Entry, Journal};
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::{CallOutput, Content, Payload, ToolCall, Wire};
use patchwright_tools::dispatch::{Dispatch, DispatchContext};
use patchwright_tools::dynamic::DynamicTool;
use patchwright_tools::host::HostCall;
use patchwright_tools::progress::AgentEvent;
use patchwright_tools::registry::ToolSet;
use patchwright_tools::requirement::Available;
use patchwright_tools::services::Services;
use patchwright_types::plan::Plan;
use patchwright_types::task::Limits;
use serde_json::{Value, json};

use crate::support::bench::{Bench, clock, no_redaction};
use crate::support::guest::Guest;

/// Calls the tools that its arguments name.
struct Several {
    schema: Value,
}

#[async_trait]
impl DynamicTool for Several {
    fn name(&self) -> &'static str {
        "several"
    }

    fn description(&self) -> &'static str {
        "Makes calls."
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }

    fn origin(&self) -> &'static str {
        "test"
    }

    fn takes_gate(&self) -> bool {
        false
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let mut said = Vec::new();
        for one in args["calls"].as_array().into_iter().flatten() {
            let name = one["tool"].as_str().unwrap();
            said.push(match ctx.nested.call(name, one["args"].clone()).await {
                Ok(output) => match output.command {
                    Some(command) => format!("{}{}", command.output, output.text),
                    None => output.text,
                },
                Err(err) => format!("error: {err}"),
            });
        }
        Ok(ToolOutput::text(said.join("§")))
    }
}

struct ReviewContext {
    guest: Guest,
    model: Model,
    tools: ToolSet,
    journal: Journal,
    limits: Limits,
    services: Services,
    /// Calls that have started, each with whether another call made it.
    started: Mutex<Vec<(String, bool)>>,
}

impl ReviewContext {
    async fn new(extra: Several, config: Tools) -> ReviewContext {
        let guest = Guest::start().await;
        let journal = Journal::create(&guest.folder.path().join("run"), clock(), no_redaction());
        let Bench { model, limits, .. } = Bench::new();
        let model = Model { wire: Wire::Responses, ..model };
        let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
        let extras: Vec<Arc<dyn DynamicTool>> = vec![Arc::new(extra)];
        let tools = tools.offered(&model, &config, &Available::default(), extras).unwrap();
        let services = Services { config, ..Services::default() };
        let started = Mutex::default();
        ReviewContext { guest, model, tools, journal: journal.unwrap(), limits, services, started }
    }

    async fn with<T>(&self, work: impl AsyncFnOnce(&Dispatch<'_>) -> T) -> T {
        let context = DispatchContext {
            client: &self.guest.client,
            tools: &self.tools,
            model: &self.model,
            limits: &self.limits,
            journal: &self.journal,
            clock: clock(),
            progress: &|what: AgentEvent<'_>| {
                if let AgentEvent::CallStarted { call, is_nested } = what {
                    self.started.lock().push((call.id.clone(), is_nested));
                }
            },
            services: &self.services,
        };
        let plan = Mutex::new(Plan::default());
        work(&Dispatch::new(context, &plan, &Mutex::default())).await
    }

    async fn say(&self, call: &ToolCall) -> (CallOutput, String) {
        let calls = [(0, call.clone())];
        let done = self.with(async |it: &Dispatch<'_>| it.run_all(1, &calls).await).await;
        let Entry::CallEnded { output, .. } = done.unwrap().remove(0).entry else { panic!() };
        let text = Content::texts(&output.content);
        (output, text)
    }

    fn entries(&self) -> Vec<Entry> {
        let lines = patchwright_journal::read(self.journal.path()).unwrap();
        lines.into_iter().map(|line| line.entry).collect()
    }

    fn file(&self, name: &str) -> String {
        fs_err::read_to_string(self.guest.workspace().join(name)).unwrap_or_default()
    }
}

fn calling(args: &Value) -> ToolCall {
    let payload = Payload::Json(args.to_string());
    ToolCall { id: "outer".to_owned(), name: "several".to_owned(), payload, native: None }
}

fn object() -> Value {
    json!({"type": "object"})
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_inside_a_call_take_the_same_steps_and_are_journalled() {
    let hook = |when, tool: &str, command: &str| Hook {
        when,
        tools: vec![tool.to_owned()],
        command: command.to_owned(),
        timeout_seconds: None,
    };
    let config = Tools {
        hooks: vec![
            hook(When::Before, "list_dir", r#"echo '{"deny":"not there"}'"#),
            hook(When::After, "shell_command", r#"echo '{"note":"noted"}'"#),
        ],
        ..Tools::default()
    };
    let desk = ReviewContext::new(Several { schema: object() }, config).await;
    let args = json!({"calls": [
        {"tool": "shell_command", "args": {"command": "echo one >> log; cat log"}},
        {"tool": "list_dir", "args": {"dir_path": "."}},
        {"tool": "nothing", "args": {}},
        {"tool": "read_file", "args": {"file_path": 5}},
        {"tool": "apply_patch", "args": "*** Begin Patch\n*** Add File: new\n+line\n*** End Patch\n"},
    ]});
    let (output, text) = desk.say(&calling(&args)).await;
    assert!(output.success);
    let parts: Vec<&str> = text.split('§').collect();
    assert_eq!(parts[0], "one\n\nNote: noted");
    assert!(parts[1].contains("not run, by a rule of this run: not there"), "{text}");
    assert!(parts[2].contains("there is no tool `nothing`"), "{text}");
    assert!(parts[3].contains("wrong type in `file_path`"), "{text}");
    assert!(parts[4].contains("A new"), "{text}");
    assert_eq!(desk.file("new"), "line\n");
    let nested: Vec<String> = desk
        .entries()
        .iter()
        .filter_map(|entry| match entry {
            Entry::NestedStarted { outer, number, name, writes, .. } => {
                Some(format!("{outer} {number} {name} {writes}"))
            }
            Entry::NestedEnded { number, success, .. } => Some(format!("{number} ended {success}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        nested,
        ["outer 1 shell_command true", "1 ended true", "outer 5 apply_patch true", "5 ended true"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_the_model_is_one_whatever_its_id_looks_like() {
    let desk = ReviewContext::new(Several { schema: object() }, Tools::default()).await;
    let args = json!({"calls": [{"tool": "list_dir", "args": {"dir_path": "."}}]});
    desk.say(&ToolCall { id: "outer#1".to_owned(), ..calling(&args) }).await;
    let started = desk.started.lock().clone();
    assert_eq!(started, [("outer#1".to_owned(), false), ("outer#1#1".to_owned(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_that_are_not_ours_are_checked_where_they_can_be_and_never_looked_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("http://{}/schema.json", listener.local_addr().unwrap());
    for (schema, args, told) in [
        (json!({"$ref": address}), json!({"calls": []}), ""),
        (json!({"$ref": address}), json!([1]), "they must be a JSON object, and are: array"),
        (json!({"type": "object", "properties": {"calls": {"$ref": address}}}), json!({}), ""),
        (json!({"$schema": address, "type": "object"}), json!({}), ""),
        (json!({"type": 7}), json!({}), ""),
        (json!({"type": "object", "properties": {"x": {"pattern": "("}}}), json!({"x": "y"}), ""),
        (
            json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "^a+$"}}}),
            json!({"x": "b"}),
            "`pattern` is not met in `x`",
        ),
        (
            json!({"type": "object", "$defs": {"n": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/n"}}}),
            json!({"x": "b"}),
            "wrong type in `x`: string",
        ),
        (
            json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            "`oneOf` is not met",
        ),
    ] {
        let several = Several { schema: schema.clone() };
        let desk = ReviewContext::new(several, Tools::default()).await;
        let (output, text) = desk.say(&calling(&args)).await;
        assert_eq!(output.success, told.is_empty(), "{schema}: {text}");
        assert!(text.contains(told), "{schema}: {text}");
        let declared = desk.tools.declarations().last().unwrap();
        let patchwright_provider::ToolForm::Function { schema: shown, .. } = &declared.form else {
            panic!("{declared:?}")
        };
        assert_eq!(shown["type"], "object", "{shown}");
        assert!(shown.get("oneOf").is_none() && shown.get("$schema").is_none(), "{shown}");
    }
    assert!(listener.accept().is_err(), "somebody asked for the schema");
}
