//! Code mode: scripts that call the other tools. The scripts run in a real guest; what they must not be
//! able to do is tried.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchwright_config::Mode;
use patchwright_config::tools::{CustomTool, Tools};
use patchwright_journal::Entry;
use patchwright_provider::catalogue::{Model, ToolMode};
use patchwright_provider::item::{Content, Item, Payload, Wire};
use patchwright_provider::{Request, ToolChoice, ToolForm, wire};
use patchwright_tools::custom as own_tools;
use patchwright_tools::offer::{Search, SearchForm};
use patchwright_tools::registry::ToolSet;
use serde_json::{Value, json};

use crate::support::model::{Turn, call, custom, item, say};
use crate::support::tool_desk::{ToolDesk, model, shown};
use crate::support::transcript::without_times;
use crate::support::world::{TestWorld, github};

const SOL: &str = "gpt-6.1-sol";

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==";

async fn desk() -> ToolDesk {
    let desk = ToolDesk::new(SOL).await;
    desk.write("a.txt", "alpha\nbeta\n");
    desk
}

/// What a script shows, after the head of its output.
async fn script(desk: &ToolDesk, source: &str) -> (bool, String) {
    let output = desk.free("exec", source).await;
    let text = without_times(&shown(&output));
    (output.success, text)
}

/// Scripts and the end of what each is answered with.
async fn check(desk: &ToolDesk, cases: &[(&str, bool, &str)]) {
    for (source, success, expected) in cases {
        let (ok, text) = script(desk, source).await;
        let head = if *success { "Script completed\n" } else { "Script failed\n" };
        assert!(
            text.starts_with(head) && text.contains(expected) && ok == *success,
            "{source}\n{text}"
        );
    }
}

fn body(model: &Model, tools: &ToolSet, history: &[Item]) -> Value {
    let request = Request {
        model,
        instructions: "be good",
        tools: tools.declarations(),
        history,
        effort: Some("medium"),
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run",
        previous: None,
    };
    serde_json::from_slice(&wire::encode(model.wire, &request)).unwrap()
}

#[test]
fn the_newest_models_are_given_scripts_in_the_first_item() {
    let model = model(SOL);
    let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
    let body = body(&model, &tools, &[]);
    assert!(body.get("tools").is_none());
    assert_eq!(body["parallel_tool_calls"], false);
    assert_eq!(body["tool_choice"], "auto");
    assert_eq!(body["reasoning"], json!({"effort": "medium", "context": "all_turns"}));
    let first = &body["input"][0];
    assert_eq!((&first["type"], &first["role"]), (&json!("additional_tools"), &json!("developer")));
    let space = &first["tools"][0];
    assert_eq!((&space["type"], &space["name"]), (&json!("namespace"), &json!("functions")));
    assert_eq!(space["description"], "");
    let [exec, wait] = space["tools"].as_array().unwrap().as_slice() else { panic!("{space}") };
    assert_eq!((&exec["type"], &exec["name"]), (&json!("custom"), &json!("exec")));
    assert_eq!(exec["format"]["syntax"], "lark");
    assert_eq!((&wait["type"], &wait["name"]), (&json!("function"), &json!("wait")));
    assert_eq!(wait["strict"], false);
    let about = exec["description"].as_str().unwrap();
    for name in ["apply_patch(text: string)", "update_plan(args: {", "exec_command(args: {"] {
        assert!(about.contains(&format!("### `tools.{name}")), "{name}: {about}");
    }
    assert!(!about.contains("tools.exec(") && !about.contains("tools.wait("));
}

#[test]
fn elsewhere_scripts_are_declared_as_any_other_tool() {
    // Other services of the same protocol, and other protocols.
    for slug in ["bedrock/openai.gpt-5.6-sol", "azure/gpt-6.1-sol"] {
        let model = model(slug);
        let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
        let body = body(&model, &tools, &[]);
        assert_eq!(body["tools"][0]["type"], "custom", "{slug}");
        assert_eq!(body["tools"][1]["name"], "wait", "{slug}");
        assert!(body["reasoning"].get("context").is_none(), "{slug}: {}", body["reasoning"]);
        assert_eq!(body["input"], json!([]), "{slug}");
    }
    let chat = Model { wire: Wire::Chat, ..model(SOL) };
    let tools = ToolSet::for_run(&chat, Mode::Execute, &[]).unwrap();
    let ToolForm::Function { schema, .. } = &tools.declarations()[0].form else { panic!() };
    assert!(schema["properties"]["code"].is_object(), "{schema}");
    assert_eq!(body(&chat, &tools, &[])["tools"][0]["function"]["name"], "exec");
}

#[test]
fn who_only_plans_or_reviews_and_who_is_told_so_calls_tools_directly() {
    let sol = model(SOL);
    let names = |tools: &ToolSet| -> Vec<String> {
        tools.declarations().iter().map(|it| it.name.clone()).collect()
    };
    let plan = names(&ToolSet::for_run(&sol, Mode::Plan, &[]).unwrap());
    assert!(
        plan.contains(&"read_file".to_owned()) && !plan.contains(&"exec".to_owned()),
        "{plan:?}"
    );
    let direct = Model { tool_mode: ToolMode::Direct, ..sol };
    let direct = names(&ToolSet::for_run(&direct, Mode::Execute, &[]).unwrap());
    assert!(direct.contains(&"apply_patch".to_owned()), "{direct:?}");
}

#[test]
fn other_tools_give_way_and_scripts_can_be_switched_off() {
    let model = model(SOL);
    let tool = |description: &str| CustomTool {
        description: description.to_owned(),
        command: "true".to_owned(),
        parameters: None,
        reads: true,
        timeout_seconds: None,
    };
    let own = ["exec", "look-up", "wait"].map(|name| (name.to_owned(), tool(name)));
    let config = Tools { custom: own.into_iter().collect(), ..Tools::default() };
    let search = Search { above: 30, form: SearchForm::of(&model) };
    let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
    let tools = tools.with_extras(own_tools::tools(&config), search).unwrap();
    let names: Vec<&str> = tools.declarations().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["exec", "wait"]);
    let about = &tools.declarations()[0].description;
    for name in ["exec_agent()", "look-up()", "wait_agent()"] {
        assert!(about.contains(&format!("`tools.{name}`")), "{name}: {about}");
    }
    assert!(tools.find("exec").unwrap().is_script() && tools.find("wait").unwrap().is_script());
    let part = tools.keeping(|known| known.name == "look-up");
    assert_eq!(part.declarations().len(), 2);
    assert!(!part.declarations()[0].description.contains("apply_patch("));
    let off = tools.without(&["exec".to_owned()]);
    assert!(off.declarations().iter().any(|it| it.name == "apply_patch"));
}

#[tokio::test]
async fn scripts_call_tools_and_show_what_they_choose() {
    let desk = desk().await;
    check(
        &desk,
        &[
            (
                "const r = await tools.exec_command({cmd: 'echo out; exit 3'});\ntext(r.output); text(r.exit_code)",
                true,
                "Output:\n\nout\n\n3",
            ),
            (
                "const all = await Promise.all([1, 2, 3].map(n => tools.exec_command({cmd: `echo ${n}`})));\n\
                 text(all.map(r => r.output.trim()).join('-'))",
                true,
                "1-2-3",
            ),
            ("console.log('a', {b: [1]}, null)", true, "a {\"b\":[1]} null"),
            // Whatever is started is waited for.
            ("tools.exec_command({cmd: 'echo late'}).then(r => text(r.output))", true, "late"),
            ("text((await tools.exec_command({cmd: 'cat a.txt'})).output)", true, "alpha"),
            ("return text('from a function')", true, "from a function"),
            ("text(typeof require + typeof process + typeof fetch + typeof std)", true, "undefinedundefined"),
            ("setTimeout(() => text('later'), 20); text('now')", true, "now\nlater"),
            ("text('before'); exit(); text('after')", true, "before"),
            ("store('k', {n: 1})", true, ""),
            ("text(load('k').n + 1)", true, "2"),
            ("text(ALL_TOOLS.some(t => t.name == 'apply_patch'))", true, "true"),
            // What is kept always fits into the line that the next script begins with.
            ("store('k'.repeat(2000), 1); for (let i = 0; i < 20; i++) store('q' + i, '\"'.repeat(4e5))", true, ""),
            ("text(typeof load('k'.repeat(2000))); text(load('q0').length)", true, "undefined\n400000"),
        ],
    )
    .await;
}

#[tokio::test]
async fn scripts_change_files_and_every_call_is_on_record() {
    let desk = desk().await;
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-beta\n+gamma\n*** End Patch\n";
    let source = format!(
        "text(await tools.apply_patch({}));\nawait tools.update_plan({{plan: [{{step: 'do', status: 'completed'}}]}});",
        json!(patch)
    );
    let (ok, text) = script(&desk, &source).await;
    assert!(ok && text.contains("M a.txt"), "{text}");
    assert_eq!(desk.file("a.txt"), "alpha\ngamma\n");
    let lines = desk.journal();
    let nested: Vec<(&str, &str, bool)> = lines
        .iter()
        .filter_map(|line| match &line.entry {
            Entry::NestedStarted { outer, name, writes, .. } => {
                Some((outer.as_str(), name.as_str(), *writes))
            }
            _ => None,
        })
        .collect();
    assert_eq!(nested.len(), 2, "{nested:?}");
    assert_eq!(nested[0], ("call_1", "apply_patch", true));
}

/// As the description of scripts says it.
#[tokio::test]
async fn a_patch_in_raw_text_keeps_its_backslashes_and_backticks() {
    let desk = desk().await;
    let script = "text((await tools.apply_patch(String.raw`*** Begin Patch
*** Add File: b.go
+re := \"\\d\\t\" // ${'`'}a${'`'} ${'$'}{b}
*** End Patch`)).output)";
    check(&desk, &[(script, true, "A b.go")]).await;
    assert_eq!(desk.file("b.go"), "re := \"\\d\\t\" // `a` ${b}\n");
}

#[tokio::test]
async fn what_goes_wrong_is_told_and_the_next_script_runs() {
    let desk = desk().await;
    let deep = "const f = () => f() + 1; f()";
    let many = "for (let i = 0; i < 3000; i++) tools.update_plan({plan: []})";
    check(
        &desk,
        &[
            ("let a = 1;\nlet b = ;", false, "Script error:\nSyntaxError: unexpected token"),
            ("let a = 1;\nlet b = ;", false, "exec:2:"),
            ("let a = 1;\nnothing.at(1)", false, "ReferenceError: nothing is not defined"),
            ("throw {code: 7}", false, "Uncaught {\"code\":7}"),
            ("await tools.apply_patch('no patch')", false, "Script error:\nError: "),
            ("try { await tools.apply_patch('no patch') } catch (e) { text('caught') }", true, "caught"),
            ("tools.apply_patch('no patch')", false, "nothing awaited it"),
            ("await tools.exec_command({})", false, "missing: `cmd`"),
            ("await tools.wget({url: 'x'})", false, "There is no tool `wget`"),
            ("await tools.exec('1')", false, "There is no tool `exec`"),
            ("import fs from 'fs'", false, "SyntaxError"),
            ("await tools.apply_patch(`*** Begin Patch\n+use `a`\n*** End Patch`)", false, "as String.raw`…` with ${'`'}"),
            ("await import('fs')", false, "Scripts have no modules"),
            ("await new Promise(() => {})", false, "nothing can settle"),
            (deep, false, "Maximum call stack size exceeded"),
            ("const a = []; for (;;) a.push('x'.repeat(1e6) + a.length)", false, "out of memory"),
            (many, false, "a script can make 1000 calls"),
            ("text('x'.repeat(3e6))", true, "left out here"),
            ("Promise.prototype.then = null; Array.prototype.push = null; JSON.parse = null; tools = 1; text(1)", true, "1"),
            ("text(await {then(done) { done('thenable') }})", true, "thenable"),
            ("const o = {}; o.o = o; text(o); text({toJSON() { throw 1 }})", true, "[object Object]"),
        ],
    )
    .await;
    let refused = desk.free("exec", "// @exec: {\"nope\": 1}\ntext(1)").await;
    assert!(!refused.success && shown(&refused).contains("yield_time_ms"), "{}", shown(&refused));
    let empty = desk.free("exec", "  ").await;
    assert!(shown(&empty).contains("the script is empty"));
    check(&desk, &[("text('still here')", true, "still here")]).await;
}

#[tokio::test]
async fn scripts_that_compute_for_ever_are_ended_and_can_be_paused_meanwhile() {
    let desk = desk().await;
    let output = desk.free("exec", "// @exec: {\"yield_time_ms\": 50}\nfor (;;) {}").await;
    assert!(shown(&output).starts_with("Script running with cell ID 1\n"), "{}", shown(&output));
    let ended = desk.json("wait", json!({"cell_id": "1", "terminate": true})).await;
    assert_eq!(shown(&ended), "Script terminated\n");
    let gone = desk.json("wait", json!({"cell_id": "1"})).await;
    assert!(!gone.success && shown(&gone).contains("no script is paused"), "{}", shown(&gone));
}

#[tokio::test]
async fn a_paused_script_goes_on_with_wait() {
    let desk = desk().await;
    let source = "text('one'); yield_control(); await tools.exec_command({cmd: 'echo x > made'});\n\
                  text('two'); yield_control(); text('three')";
    let one = desk.free("exec", source).await;
    let text = without_times(&shown(&one));
    assert!(text.starts_with("Script running with cell ID 1\n") && text.contains("one"), "{text}");
    let mut seen = text;
    // Where exactly it pauses is a matter of timing; that everything comes, once and in order, is not.
    for _ in 0..10 {
        if seen.contains("Script completed") {
            break;
        }
        let next = desk.json("wait", json!({"cell_id": 1, "yield_time_ms": 20_000})).await;
        seen.push_str(&shown(&next));
    }
    assert!(seen.contains("Script completed"), "{seen}");
    let places: Vec<_> = ["one", "two", "three"].iter().map(|it| seen.find(it).unwrap()).collect();
    assert!(places.is_sorted(), "{seen}");
    assert_eq!(desk.file("made"), "x\n");
}

#[tokio::test]
async fn pictures_of_tools_and_scripts_are_shown_as_pictures() {
    let desk = desk().await;
    let bytes = STANDARD.decode(PIXEL).unwrap();
    fs_err::write(desk.guest.workspace().join("p.png"), bytes).unwrap();
    let source = format!(
        "image(await tools.view_image({{path: 'p.png'}})); text('and'); image('data:image/png;base64,{PIXEL}');\n\
         image('data:image/png;base64,%%%')"
    );
    let output = desk.free("exec", &source).await;
    let text = shown(&output);
    let parts: Vec<&str> = text.lines().skip(4).collect();
    assert_eq!(parts[..3], ["<image/png>", "and", "<image/png>"], "{text}");
    assert!(parts[3].contains("cannot be shown"), "{text}");
    assert!(matches!(output.content[1], Content::Image { .. }));
    let bad = desk.free("exec", "image('http://x/y.png')").await;
    assert!(shown(&bad).contains("image() takes a data URL"), "{}", shown(&bad));
}

#[tokio::test]
async fn code_may_come_wrapped() {
    let desk = desk().await;
    for text in ["{\"code\": \"text(40 + 2)\"}", "```js\ntext(40 + 2)\n```", "text(40 + 2)"] {
        let output = desk.free("exec", text).await;
        assert!(output.success && shown(&output).ends_with("42"), "{text}: {}", shown(&output));
        let call = desk.call("functions.exec", Payload::Json(json!({"code": text}).to_string()));
        let output = desk.run_all(vec![call]).await.remove(0);
        assert!(output.success && shown(&output).ends_with("42"), "{text}: {}", shown(&output));
    }
}

#[tokio::test]
async fn a_budget_for_the_output_is_kept() {
    let desk = desk().await;
    let source =
        "// @exec: {\"max_output_tokens\": 100}\nfor (let i = 0; i < 1000; i++) text('line ' + i)";
    let text = shown(&desk.free("exec", source).await);
    assert!(text.len() < 800 && text.contains("left out") && text.contains("line 999"), "{text}");
}

#[tokio::test]
async fn several_scripts_of_one_reply_run_side_by_side_and_answer_in_order() {
    let desk = desk().await;
    let calls = (0..6).map(|n| {
        let source = format!(
            "for (let i = 0; i < 5; i++) await tools.exec_command({{cmd: 'echo {n} >> log'}}); text('s{n}')"
        );
        desk.call("exec", Payload::Freeform(source))
    });
    let outputs = desk.run_all(calls.collect()).await;
    for (n, output) in outputs.iter().enumerate() {
        assert!(shown(output).ends_with(&format!("s{n}")), "{}", shown(output));
    }
    assert_eq!(desk.file("log").lines().count(), 30);
}

/// The fix of the small repository, by scripts.
fn turns() -> Vec<Turn> {
    let patch = "*** Begin Patch\n*** Update File: calc.sh\n@@\n add() {\n-  echo $(($1 - $2))\n+  echo $(($1 + $2))\n }\n*** End Patch\n";
    let look = "const [a, b] = await Promise.all([tools.exec_command({cmd: 'cat calc.sh'}), tools.exec_command({cmd: 'sh ./test.sh'})]);\ntext(a.output); text(b.exit_code)";
    let edit = format!("text(await tools.apply_patch({}))", json!(patch));
    vec![
        custom("exec", look),
        custom("exec", &edit),
        custom("exec", "text((await tools.exec_command({cmd: 'sh ./test.sh'})).exit_code)"),
        say("# Add instead of subtracting\n\nFixed the sign."),
    ]
}

fn fixes(world: TestWorld) -> TestWorld {
    let output = world.issue().expect(0);
    assert_eq!(world.model.unused(), 0, "{}", output.text());
    assert_eq!(world.github.pulls().len(), 1);
    let place = "patchwright/issue-7:calc.sh";
    let fixed = crate::support::git_repo::git(&world.github.repository_path(), &["show", place]);
    assert!(fixed.contains("$1 + $2"), "{fixed}");
    world
}

#[test]
fn an_issue_is_fixed_by_scripts() {
    let world = TestWorld::new(github(), turns()).set("PATCHWRIGHT_MODEL", SOL);
    let world = fixes(world);
    let requests = world.model.requests();
    for request in &requests {
        assert!(request.body.get("tools").is_none());
        assert_eq!(request.body["input"][0], requests[0].body["input"][0]);
        assert_eq!(request.header("x-openai-internal-codex-responses-lite"), "");
    }
    let items = requests[3].body["input"].as_array().unwrap();
    let outputs: Vec<&Value> =
        items.iter().filter(|item| item["type"] == "custom_tool_call_output").collect();
    let list = outputs[0]["output"].as_array().unwrap();
    assert_eq!(list[0]["type"], "input_text");
    let head = list[0]["text"].as_str().unwrap();
    assert!(
        head.starts_with("Script completed\nWall time ") && head.ends_with(" seconds\nOutput:\n")
    );
    assert_eq!(list[2], json!({"type": "input_text", "text": "1"}));
}

#[test]
fn an_issue_is_fixed_by_scripts_over_chat() {
    let world = TestWorld::new(github(), turns())
        .set("PATCHWRIGHT_MODEL", SOL)
        .set("PATCHWRIGHT_WIRE", "chat");
    let world = fixes(world);
    let first = &world.model.requests()[0].body;
    assert_eq!(first["tools"][0]["function"]["name"], "exec");
}

#[test]
fn a_call_in_the_namespace_is_understood_and_goes_back_as_it_was() {
    let input = "text('hello')";
    let call_item = json!({
        "type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "exec",
        "namespace": "functions", "input": input, "status": "completed",
    });
    let world = TestWorld::new(
        github(),
        [
            item(call_item),
            call("wait", json!({"cell_id": "5"})),
            say("Nothing to do."),
            say("Nothing."),
        ],
    )
    .set("PATCHWRIGHT_MODEL", SOL);
    world.issue();
    let requests = world.model.requests();
    let echoed = requests[1].body["input"].as_array().unwrap();
    let echoed = echoed.iter().find(|item| item["type"] == "custom_tool_call").unwrap();
    assert_eq!((&echoed["namespace"], &echoed["name"]), (&json!("functions"), &json!("exec")));
    assert!(world.told().contains("hello") && world.told().contains("no script is paused"));
}

#[test]
fn the_header_is_for_those_who_ask_for_it() {
    let world = TestWorld::new(github(), [say("Nothing to do."), say("Nothing.")])
        .set("PATCHWRIGHT_MODEL", SOL);
    let path = world.path("config.yml");
    fs_err::write(&path, "models:\n  gpt-6.1-sol: {responses-lite: true}\n").unwrap();
    let world = world.set("PATCHWRIGHT_CONFIG", path.display().to_string());
    world.issue();
    let first = &world.model.requests()[0];
    assert_eq!(first.header("x-openai-internal-codex-responses-lite"), "true");
    assert!(first.raw.len() < 16 << 10, "{} bytes", first.raw.len());
}
