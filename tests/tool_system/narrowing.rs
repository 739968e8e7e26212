//! The sections `tools`, `mcp` and `network.allow`: what they may say, and how a repository narrows them.

use expect_test::expect;
use patchwright_config::{Config, file, merge};

fn trouble(text: &str) -> String {
    let Err(failure) = file::parse("config.yml", text) else { return "fine".to_owned() };
    let cause = failure.cause.map(|cause| cause.to_string()).unwrap_or_default();
    cause.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn what_is_wrong_with_a_configuration_of_tools_is_said() {
    let said: String = [
        "tools: { disabled: [\"a[\"] }",
        "tools: { untruncated: [\"\"] }",
        "tools: { search-above: 5000 }",
        "tools: { custom: { 9lives: { description: d, command: c } } }",
        "tools: { custom: { \"a b\": { description: d, command: c } } }",
        "tools: { custom: { mcp__a__b: { description: d, command: c } } }",
        "tools: { custom: { a: { description: \"\", command: c } } }",
        "tools: { custom: { a: { description: d, command: \" \" } } }",
        "tools: { custom: { a: { description: d, command: c, parameters: { type: string } } } }",
        "tools: { custom: { a: { description: d, command: c, parameters: { type: object, properties: { x: { type: 5 } } } } } }",
        "tools: { custom: { a: { description: d, command: c, parameters: { type: object, properties: { x: { $ref: \"http://127.0.0.1:1/\" } } } } } }",
        "tools: { custom: { a: { description: d, command: c, parameters: { type: object, properties: { a-b: {}, a_b: {} } } } } }",
        "tools: { custom: { a: { description: d, command: c, timeout-seconds: 0 } } }",
        "tools: { hooks: [{ when: before, command: c, timeout-seconds: 5000 }] }",
        "tools: { hooks: [{ when: before, command: c, tools: [\"{\"] }] }",
        "tools: { shell-env: { \"A-B\": x } }",
        "tools: { agents: 100 }",
        "mcp: { \"a b\": { command: [x] } }",
        "mcp: { a: { command: [x], url: \"http://x\" } }",
        "mcp: { a: { command: [x], tools: [\"[\"] } }",
        "network: { allow: [\"https://docs.rs\"] }",
        "network: { allow: [\"*\"] }",
        "network: { allow: [\"*.docs.rs\", \"x:8443\"] }",
    ]
    .iter()
    .map(|text| trouble(text) + "\n")
    .collect();
    expect![[r#"
        `a[` in `tools.disabled` is not a valid pattern: error parsing glob 'a[': unclosed character class; missing ']'
        an entry of `tools.untruncated` is empty, longer than 400 bytes, or not one line
        `tools.search-above` must be from 0 to 1000: 5000
        `tools.custom.9lives`: the name of a tool has 1 to 64 letters, digits, `_` and `-`, and starts with a letter
        `tools.custom.a b`: the name of a tool has 1 to 64 letters, digits, `_` and `-`, and starts with a letter
        `tools.custom.mcp__a__b`: names that start with `mcp__` are those of MCP servers
        `tools.custom.a.description` must have 1 to 4000 bytes
        `tools.custom.a.command` must have 1 to 65536 bytes
        `tools.custom.a.parameters` must be a JSON Schema with `type: object`
        `tools.custom.a.parameters` is not a usable JSON Schema: 5 is not valid under any of the schemas listed in the 'anyOf' keyword
        `tools.custom.a.parameters` is not a usable JSON Schema: Resource 'http://127.0.0.1:1/' is not present in a registry and retrieving it failed: `http://127.0.0.1:1/` is not looked up
        `tools.custom.a.parameters`: the argument `a_b` has the variable of another one
        `tools.custom.a.timeout-seconds` must be from 1 to 86400: 0
        `tools.hooks.timeout-seconds` must be from 1 to 600: 5000
        `{` in `tools.hooks.tools` is not a valid pattern: error parsing glob '{': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
        `A-B` in `tools.shell-env` is no name of a variable
        `tools.agents` must be from 0 to 64: 100
        `mcp.a b`: the name of a server has 1 to 64 letters, digits, `_` and `-`, and starts with a letter
        `mcp.a` has both `command` and `url`; a server has one of them
        `[` in `mcp.a.tools` is not a valid pattern: error parsing glob '[': unclosed character class; missing ']'
        `https://docs.rs` in `network.allow` is no host; write its name, such as `docs.rs`, or `*.docs.rs` for everything below it
        `*` in `network.allow` is no host; write its name, such as `docs.rs`, or `*.docs.rs` for everything below it
        fine
    "#]].assert_eq(&said);
}

fn narrowed(operator: &str, repository: &str) -> Config {
    let common = patchwright_config::flags::Common::default();
    let mut config = merge::resolve(Some(("config.yml", operator)), &common).unwrap();
    merge::tighten(&mut config, file::parse(file::REPOSITORY_FILE, repository).unwrap());
    config
}

const OPERATOR: &str = r#"
tools: { disabled: [view_image], custom: { a: { description: d, command: c } } }
mcp:
  docs: { command: [docs], tools: ["get_*", search] }
  hub: { url: "https://hub.example/", headers: { X: y } }
  spare: { command: [spare] }
network: { allow: ["*.docs.rs", hub.example] }
"#;

#[test]
fn a_repository_only_narrows() {
    let config = narrowed(
        OPERATOR,
        r#"
tools: { disabled: [update_plan, view_image] }
mcp: { docs: { tools: [search, get_page] }, hub: {} }
network: { allow: [a.docs.rs] }
"#,
    );
    assert_eq!(config.notes, Vec::<String>::new());
    assert_eq!(config.tools.disabled, ["view_image", "update_plan"]);
    assert_eq!(config.tools.custom.len(), 1);
    assert_eq!(config.mcp.keys().collect::<Vec<_>>(), ["docs", "hub"]);
    assert_eq!(config.mcp["docs"].tools, ["search", "get_page"]);
    assert_eq!(config.mcp["docs"].command, ["docs"]);
    assert_eq!(config.mcp["hub"].headers.len(), 1);
    assert_eq!(config.allow_hosts, ["a.docs.rs"]);

    let untouched = narrowed(OPERATOR, "verify: [a]\n");
    assert_eq!(untouched.mcp.len(), 3);
    assert_eq!(untouched.allow_hosts, ["*.docs.rs", "hub.example"]);
    assert_eq!(narrowed(OPERATOR, "network: { allow: [] }\n").allow_hosts, Vec::<String>::new());
}

#[test]
fn a_repository_gets_nothing_more() {
    let config = narrowed(
        OPERATOR,
        r#"
tools:
  untruncated: ["*"]
  search-above: 0
  custom: { a: { description: mine, command: evil }, b: { description: d, command: evil } }
  hooks: [{ when: before, command: evil }]
  shell-env: { PATH: /evil }
  agents: 8
  js-repl: true
mcp:
  docs: { command: [evil], tools: ["*"] }
  hub: { url: "https://evil.example/", tools: [x] }
  own: { command: [evil] }
network: { allow: [evil.example, "*.docs.rs:22", "hub.example=10.0.0.1"], setup-allow: [evil.example] }
"#,
    );
    let said = config.notes.join("\n");
    expect![[r#"
        `mcp.docs` in `.github/patchwright.yml` was refused: it may have `tools` only; the rest is the operator's
        `mcp.hub` in `.github/patchwright.yml` was refused: it may have `tools` only; the rest is the operator's
        `mcp.own` in `.github/patchwright.yml` was refused: the operator has no such server. Of the operator's, those that this file does not name are not offered either: `spare`
        `mcp.docs.tools: *` in `.github/patchwright.yml` was refused: it is not within the operator's list
        `network.allow: evil.example` in `.github/patchwright.yml` was refused: the operator does not allow it
        `network.allow: *.docs.rs:22` in `.github/patchwright.yml` was refused: the operator does not allow it
        `network.allow: hub.example=10.0.0.1` in `.github/patchwright.yml` was refused: the operator does not allow it
        `network.setup-allow` in `.github/patchwright.yml` was refused: only the operator may set it
        `tools.untruncated` in `.github/patchwright.yml` was refused: only the operator may set it
        `tools.search-above` in `.github/patchwright.yml` was refused: only the operator may set it
        `tools.custom` in `.github/patchwright.yml` was refused: only the operator may set it
        `tools.hooks` in `.github/patchwright.yml` was refused: only the operator may set it
        `tools.shell-env` in `.github/patchwright.yml` was refused: only the operator may set it
        `tools.agents` in `.github/patchwright.yml` was refused: only the operator may set it
        `tools.js-repl` in `.github/patchwright.yml` was refused: only the operator may set it"#]].assert_eq(&said);
    assert_eq!(config.tools.custom["a"].command, "c");
    assert_eq!(config.tools.custom.len(), 1);
    assert_eq!(config.mcp.keys().collect::<Vec<_>>(), ["hub"]);
    assert_eq!(config.mcp["hub"].url.as_deref(), Some("https://hub.example/"));
    assert_eq!(config.allow_hosts, Vec::<String>::new());
    assert!(!format!("{config:?}").replace(&said, "").contains("evil") || said.contains("evil"));
}
