//! `js_repl`: cells in a Node process of the sandbox.

use std::path::Path;
use std::sync::atomic::Ordering;

use patchwright_config::Mode;
use patchwright_journal as journal;
use patchwright_provider::item::{Content, Payload};
use patchwright_tools::registry::ToolSet;
use patchwright_tools::requirement::Available;
use patchwright_tools::services::Services;
use serde_json::json;

use crate::support::bench::Bench;
use crate::support::docker::is_required;
use crate::support::model::{custom, say};
use crate::support::outside;
use crate::support::tool_desk::{ToolDesk, model, shown};
use crate::support::world::{TestWorld, github};

fn present(node: bool, js_repl: bool) -> Available {
    let programs = if node { vec!["node".to_owned()] } else { Vec::new() };
    Available { programs, js_repl, ..Available::default() }
}

/// `./test` installs Node; without it nothing can be said about cells.
fn has_node() -> bool {
    let there = Path::new("/usr/bin/node").exists() || Path::new("/usr/local/bin/node").exists();
    assert!(there || !is_required(), "there is no Node");
    there
}

async fn desk(slug: &str) -> ToolDesk {
    let model = model(slug);
    let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
    let tools = tools.with_optional(&model, &present(true, true)).unwrap();
    let desk = ToolDesk::with(model, tools, Services::default()).await;
    desk.write("lib.cjs", "module.exports = { three: 3 };\n");
    desk.write("mod.mjs", "export const four = 4;\nexport default 'four';\n");
    let package = r#"{"name": "pkg", "type": "module", "exports": {"import": "./i.js"}}"#;
    desk.write("node_modules/pkg/package.json", package);
    desk.write("node_modules/pkg/i.js", "export const name = 'pkg';\n");
    desk
}

/// Cells in a row, each with whether it succeeds and what its output contains.
async fn check(desk: &ToolDesk, cells: &[(&str, bool, &str)]) {
    for (code, success, expected) in cells {
        let output = desk.free("js_repl", code).await;
        let text = shown(&output);
        assert!(text.contains(expected) && output.success == *success, "{code}\n{text}");
    }
}

#[test]
fn it_is_offered_only_where_it_was_asked_for_and_can_work() {
    let model = model("gpt-5.3-codex");
    for (node, asked, offered) in [(true, true, true), (true, false, false), (false, true, false)] {
        let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
        let tools = tools.with_optional(&model, &present(node, asked)).unwrap();
        let is_there = tools.declarations().iter().any(|it| it.name == "js_repl");
        assert_eq!(is_there, offered, "{node} {asked}");
        assert_eq!(tools.find("js_repl_reset").is_ok(), offered);
    }
}

#[tokio::test]
async fn bindings_stay_and_may_be_declared_again() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    check(
        &desk,
        &[
            ("let n = 0\nconst inc = () => { n++ }\nfunction twice(x) { return x * 2 }\nclass A { n() { return n } }", true, "(no output)"),
            ("inc(); inc(); n", true, "2"),
            ("const n = 10; new A().n() + twice(4)", true, "18"),
            ("const {a, b: [c, ...d], ...rest} = {a: 1, b: [2, 3], e: 5}", true, ""),
            ("[a, c, d, rest]", true, "[ 1, 2, [ 3 ], { e: 5 } ]"),
            ("const late = await Promise.resolve('later')\nlate", true, "later"),
            ("console.log('one', {two: 2}); console.error('err'); 'value'", true, "one { two: 2 }\nerr\nvalue"),
            ("require('./lib.cjs').three", true, "3"),
            ("import word, { four } from './mod.mjs'; [word, four]", true, "[ 'four', 4 ]"),
            ("(await import('pkg')).name", true, "pkg"),
            ("require('fs').writeFileSync('made.txt', 'by node')", true, ""),
            ("for (const x of [1]) { var inner = x }", true, ""),
            ("// codex-js-repl: timeout_ms=9000\n1 + 1", true, "2"),
        ],
    )
    .await;
    assert_eq!(desk.file("made.txt"), "by node");
    let reset = desk.json("js_repl_reset", json!({})).await;
    assert!(reset.success);
    check(&desk, &[("typeof inc", true, "undefined")]).await;
}

#[tokio::test]
async fn what_goes_wrong_is_told_with_the_lines_of_the_cell() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    check(
        &desk,
        &[
            ("const q = ;", false, "SyntaxError: Unexpected token ';'"),
            ("let kept = 1;\nmissing()", false, "ReferenceError: missing is not defined\n    at cell_2.js:2:"),
            ("kept", true, "1"),
            ("function f() {\n  throw new TypeError('deep')\n}\nf()", false, "at f (cell_4.js:2:"),
            ("throw 5", false, "Uncaught 5"),
            ("process.exit(3)", false, "does not end the kernel"),
            ("Promise.reject(new Error('lost')); 1", true, "Unhandled rejection: Error: lost"),
            ("setTimeout(() => { throw new Error('behind') }, 1); await new Promise(r => setTimeout(r, 50))", true, "Error: behind"),
            ("console.log('x'.repeat(3e6))", true, "left out here"),
            ("require('child_process').execSync('echo child', {stdio: 'inherit'}); 1", true, "child"),
            ("JSON.stringify = null; Object.keys = null; Array.prototype.map = null; 7", true, "7"),
        ],
    )
    .await;
    let wrong = desk.free("js_repl", "// codex-js-repl: forever\n1").await;
    assert!(
        !wrong.success && shown(&wrong).contains("timeout_ms=MILLISECONDS"),
        "{}",
        shown(&wrong)
    );
}

#[tokio::test]
async fn a_process_that_hangs_or_dies_is_replaced() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    check(
        &desk,
        &[
            ("let x = 1", true, ""),
            (
                "// codex-js-repl: timeout_ms=300\nconsole.log('begun'); for (;;) {}",
                false,
                "took longer than 300 ms",
            ),
            ("typeof x", true, "the process was started anew)\nundefined"),
            ("// codex-js-repl: timeout_ms=300\nawait new Promise(() => {})", false, "took longer"),
            (
                "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})",
                false,
                "ended with code 137",
            ),
            ("process.reallyExit(4)", false, "ended with code 4"),
            ("5 + 5", true, "10"),
        ],
    )
    .await;
}

#[tokio::test]
async fn cells_call_tools_and_show_pictures() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==";
    check(
        &desk,
        &[
            ("(await codex.tool('read_file', {file_path: 'lib.cjs'})).output", true, "three: 3"),
            (
                "await codex.tool('read_file', {file_path: 'x'.repeat(2e6)})",
                false,
                "arguments of at most 1048576 bytes",
            ),
            (
                "const reads = Array(40).fill().map(() => codex.tool('read_file', {file_path: 'lib.cjs'}))\n\
                 const all = await Promise.all(reads)\nall.length",
                true,
                "40",
            ),
            ("// Nobody waits for it.\ncodex.tool('read_file', {file_path: 'lib.cjs'}); 1", true, "1"),
            (
                "await codex.tool('nothing_like_it', {})",
                false,
                "there is no tool `nothing_like_it`",
            ),
        ],
    )
    .await;
    let code = format!("await codex.emitImage(Buffer.from('{pixel}', 'base64')); 'seen'");
    let output = desk.free("js_repl", &code).await;
    assert!(matches!(output.content.as_slice(), [_, Content::Image { .. }]), "{}", shown(&output));
}

#[tokio::test]
async fn cells_do_not_call_what_would_wait_for_them() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    let refused = "`js_repl` cannot be called from a cell";
    check(
        &desk,
        &[
            ("await codex.tool('js_repl', {code: '1'})", false, refused),
            ("await codex.tool('JS_REPL', {code: '1'})", false, refused),
            ("await codex.tool('functions.js_repl', '1')", false, refused),
            (
                "await codex.tool('call_tool', {name: 'Js_Repl', arguments: {code: '1'}})",
                false,
                refused,
            ),
            (
                "await codex.tool('call_tool', JSON.stringify({name: 'js_repl'}))",
                false,
                "takes an object",
            ),
            ("1 + 1", true, "2"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_cell_and_a_reset_of_one_reply_come_to_an_end() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    let code = "(await codex.tool('read_file', {file_path: 'lib.cjs'})).output";
    let cell = || desk.call("js_repl", Payload::Freeform(code.to_owned()));
    let reset = || desk.call("js_repl_reset", Payload::Json("{}".to_owned()));
    for calls in [vec![cell(), reset()], vec![reset(), cell()]] {
        let outputs = desk.run_all(calls).await;
        let texts: Vec<String> = outputs.iter().map(shown).collect();
        assert!(outputs.iter().all(|output| output.success), "{texts:?}");
        assert!(texts.concat().contains("three: 3"), "{texts:?}");
    }
}

#[tokio::test]
async fn a_cell_that_floods_its_output_ends_at_its_time_limit() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    let flood = "// codex-js-repl: timeout_ms=300\n\
                 require('child_process').spawnSync('yes', {stdio: ['ignore', 'inherit', 'ignore']})";
    check(&desk, &[(flood, false, "took longer than 300 ms"), ("1 + 1", true, "2")]).await;
}

#[tokio::test]
async fn cells_of_one_reply_run_in_order() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-5.3-codex").await;
    let code = ["var order = []", "await 0; order.push(1)", "order.push(2)", "order.join()"];
    let calls = code.map(|code| desk.call("js_repl", Payload::Freeform(code.to_owned())));
    let outputs = desk.run_all(calls.to_vec()).await;
    assert_eq!(shown(&outputs[3]), "1,2");
}

#[tokio::test]
async fn a_script_of_code_mode_can_use_it() {
    if !has_node() {
        return;
    }
    let desk = desk("gpt-6.1-sol").await;
    let names: Vec<&str> = desk.tools.declarations().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["exec", "wait"]);
    let output = desk.free("exec", "text(await tools.js_repl('[1, 2].length'))").await;
    assert!(shown(&output).ends_with('2'), "{}", shown(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cell_inside_a_script_did_is_there_when_the_run_goes_on() {
    if !has_node() {
        return;
    }
    let script = r#"
- calls:
    - tool: exec
      input: |
        const code = "await codex.tool('shell_command', {command: 'echo 1 >> calc.sh'})";
        await tools.js_repl(code);
- text: Done
"#;
    let mut bench = Bench::new();
    bench.tools = bench.tools.clone().with_optional(&bench.model, &present(true, true)).unwrap();
    bench.run(script).await;
    let tree = bench.file("calc.sh");
    let journal = fs_err::read_to_string(bench.run_folder().join(journal::FILE)).unwrap();
    assert!(tree.ends_with("}\n1\n"), "{tree}\n{journal}");
    let inner = |line: &&str| line.contains("\"by\":1") && line.contains("\"shell_command\"");
    assert_eq!(journal.lines().filter(inner).count(), 1, "{journal}");
    let resumed = bench.go_on(script, &journal).await;
    assert_eq!(bench.file("calc.sh"), tree);
    assert_eq!(resumed.ended.stopped.notes, Vec::<String>::new());
    // As older versions wrote it.
    let before = journal.replace(",\"by\":1", "").replace("\"by\":1,", "");
    assert!(before.len() < journal.len());
    assert_eq!(bench.go_on(script, &before).await.ended.stopped.reason.word(), "finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_has_ended_is_not_run_again() {
    if !has_node() {
        return;
    }
    let script = r"
- calls:
    - tool: js_repl
      input: |
        const sh = command => codex.tool('shell_command', {command});
        await sh('echo 1 >> calc.sh');
        await codex.tool('update_plan', {plan: [{step: 'do', status: 'pending'}]});
        const first = JSON.stringify(await codex.tool('outside', {})).includes('call 1');
        await sh('echo ' + first + ' >> calc.sh');
- calls: [{ tool: update_plan, args: { plan: [{ step: do, status: completed }] } }]
- text: Done
";
    let mut bench = Bench::new();
    let calls = outside::added_to(&mut bench);
    let whole = bench.run(script).await;
    let tree = bench.file("calc.sh");
    assert!(tree.ends_with("}\n1\ntrue\n"), "{tree}");
    let journal = fs_err::read_to_string(bench.run_folder().join(journal::FILE)).unwrap();
    let resumed = bench.go_on(script, &journal).await;
    assert_eq!(bench.file("calc.sh"), tree);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(resumed.ended.stopped.notes, Vec::<String>::new());
    assert_eq!(resumed.ended.stopped.plan, whole.stopped.plan);
    assert_eq!(resumed.journal.matches("\"is\":\"plan_updated\"").count(), 2);
}

#[test]
fn a_run_uses_it_when_its_configuration_says_so() {
    if !has_node() {
        return;
    }
    let turns = [
        custom("js_repl", "let n = 20"),
        custom("js_repl", "n + 22"),
        say("Nothing to do."),
        say("Nothing."),
    ];
    let world = TestWorld::new(github(), turns);
    let path = world.path("config.yml");
    fs_err::write(&path, "tools:\n  js-repl: true\n").unwrap();
    let world = world.set("PATCHWRIGHT_CONFIG", path.display().to_string());
    let output = world.issue();
    assert!(world.told().contains("42"), "{}", output.text());
    let tools = &world.model.requests()[0].body["tools"];
    let js_repl = tools.as_array().unwrap().iter().find(|it| it["name"] == "js_repl").unwrap();
    assert_eq!(
        (&js_repl["type"], &js_repl["format"]["type"]),
        (&json!("custom"), &json!("grammar"))
    );
}
