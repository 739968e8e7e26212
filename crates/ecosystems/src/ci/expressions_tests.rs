//! Expressions of workflows: what they come to, and whether a condition holds for a pull request.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn known() -> ExpressionValues {
    let job = json!({"strategy": {"matrix": {
        "os": ["ubuntu-latest"],
        "python": ["3.12"],
        "target": [{"name": "linux", "flags": "-O2"}],
        "shard": "${{ fromJSON(needs.plan.outputs.shards) }}",
        "node": "${{ fromJSON('[18, 22]') }}",
    }}});
    let one = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let inputs = [("suite", Some(json!("unit"))), ("coverage", Some(json!(false))), ("from", None)];
    ExpressionValues {
        matrix: MatrixEntry::all_of(&job, &ExpressionValues::default()).remove(0),
        inputs: inputs.map(|(name, value)| (name.to_owned(), value)).into(),
        environment: one("DIR", "src"),
        outputs: one("names.build-dir", "./build"),
        skipped: ["docs".to_owned()].into(),
        needs: one("plan.suite", "[\"unit\"]"),
        action_folder: Some(".github/actions/test".to_owned()),
        is_push_only: false,
    }
}

#[test]
fn what_is_known_is_put_in_and_the_rest_is_named() {
    let rows = [
        ("py ${{ matrix.python }} in ${{env.DIR}}", Ok("py 3.12 in src")),
        ("${{ matrix.extra }}x", Ok("x")),
        ("${{ matrix.target.flags }} ${{ matrix['target']['name'] }}", Ok("-O2 linux")),
        ("${{ matrix.shard }}", Err("depends on `matrix.shard`")),
        ("node ${{ matrix.node }}", Ok("node 22")),
        ("${{ secrets.TOKEN }}", Err("uses a secret")),
        ("${{ github.token }}", Err("uses a secret")),
        ("${{ env.DIR || secrets.DIR }}", Err("uses a secret")),
        ("${{ steps.a.outputs.b }}", Err("depends on `steps.a.outputs.b`")),
        ("${{ steps.names.outputs.build-dir }}", Ok("./build")),
        ("${{ open", Ok("${{ open")),
        ("${{ steps.docs.outputs.folder || 'none' }}", Ok("none")),
        ("${{ fromJSON(needs.plan.outputs.suite)[0] }}", Ok("unit")),
        ("${{ needs.plan.outputs.other }}", Err("depends on `needs.plan.outputs.other`")),
        ("at ${{ job.services.db.ports['5432'] }}", Ok("at 5432")),
        ("${{job.services.db.ports[80]}}", Ok("80")),
        ("${{ job.services.db.id }}", Err("depends on `job.services.db.id`")),
        ("npm run ${{ inputs.suite }}", Ok("npm run unit")),
        ("x ${{ inputs.coverage && '--cov' || '' }}", Ok("x ")),
        ("${{ inputs.from || 'a' }}", Err("depends on `inputs.from`")),
        ("${{ matrix.os == 'ubuntu-latest' && 'sudo' || '' }} make", Ok("sudo make")),
        ("${{ format('{0}-{1}', matrix.python, '}}') }}", Ok("3.12-}}")),
        ("${{ github.action_path }}/run.sh", Ok(".github/actions/test/run.sh")),
        // Right for some runs only.
        ("${{ github.event_name }}", Err("depends on `github.event_name`")),
        ("${{ hashFiles('a') }}", Err("depends on `hashFiles('a')`")),
        ("${{ toJSON(matrix.target) }}", Err("depends on `toJSON(matrix.target)`")),
        ("${{ matrix.target }}", Err("depends on `matrix.target`")),
        ("${{ 1 + }}", Err("depends on `1 +`")),
    ];
    for (text, expected) in rows {
        let found = resolve(text, &known());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

#[test]
fn a_condition_holds_as_on_an_ordinary_pull_request() {
    let rows = [
        ("matrix.os == 'ubuntu-latest'", true),
        ("${{ matrix.os == 'windows-latest' }}", false),
        ("${{ matrix.os }} == 'windows-latest'", false),
        ("runner.os == 'Linux' && matrix.python == '3.12'", true),
        ("github.event_name == 'push'", false),
        ("github.event_name == 'pull_request'", true),
        ("github.ref == 'refs/heads/main'", false),
        ("startsWith(matrix.os, 'ubuntu')", true),
        ("startsWith(github.ref, 'refs/tags/')", false),
        ("contains(fromJSON('[\"schedule\", \"push\"]'), github.event_name)", false),
        ("matrix.os != 'macos-latest'", true),
        ("failure()", false),
        ("always()", true),
        ("(!cancelled() && !failure())", true),
        ("(!cancelled() && failure())", false),
        ("matrix.coverage", false),
        ("!matrix.coverage", true),
        ("inputs.coverage", false),
        ("inputs.suite == 'unit'", true),
        ("github.event.pull_request.draft == false", true),
        ("!contains(github.event.pull_request.labels.*.name, 'skip-tests')", true),
        ("contains(github.event.pull_request.labels.*.name, 'full-ci')", false),
        ("!contains(github.event.head_commit.message, '[skip ci]')", true),
        ("github.actor != 'dependabot[bot]'", true),
        ("needs.build.result == 'success'", true),
        ("vars.RUN_SLOW_TESTS == 'true'", false),
        // What only a run tells may hold.
        ("needs.changes.outputs.code == 'true'", true),
        ("needs.changed.outputs.should_skip != 'true'", true),
        ("needs.changes.outputs.code == 'true' && github.event_name == 'push'", false),
        ("github.repository == 'acme/app'", true),
        ("steps.cache.outputs.cache-hit != 'true'", true),
        (
            "github.event_name == 'push' || github.event.pull_request.head.repo.full_name != github.repository",
            true,
        ),
        ("not an expression", true),
    ];
    for (condition, expected) in rows {
        assert_eq!(runs(Some(condition), &known()), expected, "{condition}");
    }
    let pushed = ExpressionValues { is_push_only: true, ..known() };
    assert!(runs(Some("github.event_name == 'push'"), &pushed));
    // Whether a step may fail has to be sure.
    for (text, expected) in
        [("true", true), ("${{ matrix.experimental }}", false), ("${{ inputs.from }}", false)]
    {
        assert_eq!(is_true(text, &known()), expected, "{text}");
    }
}

#[test]
fn an_expression_cannot_grow_without_end() {
    let mut doubled = "'x'".to_owned();
    for _ in 0..30 {
        doubled = format!("format('{{0}}{{0}}', {doubled})");
    }
    let found = resolve(&format!("${{{{ {doubled} }}}}"), &known());
    assert!(found.unwrap_err().starts_with("depends on `format("));
    let long = vec!["a.b == 'c'"; 20_000].join(" || ");
    assert!(
        runs(Some(&long), &known()) && resolve(&format!("${{{{ {long} }}}}"), &known()).is_err()
    );
    let indexed = format!("a{}", "[0]".repeat(50_000));
    assert!(runs(Some(&indexed), &known()));
    let negated = format!("{}a", "!".repeat(50_000));
    assert!(runs(Some(&negated), &known()));
    let deep = format!("{}true{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(
        runs(Some(&deep), &known()) && resolve(&format!("${{{{ {deep} }}}}"), &known()).is_err()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_expression_makes_it_fail(
        text in "\\PC{0,80}|([a-zé0-9.,'{}()\\[\\]*!=<>|& ]{0,80})|((format|join|contains|fromJSON|toJSON|case)\\(('[é{}0-9]{0,9}'|matrix.os|matrix)(, ?('[é{}0-9]{0,9}'|1|null|matrix.target)){0,3}\\))"
    ) {
        let _ = runs(Some(&text), &known());
        let _ = resolve(&format!("a ${{{{ {text} }}}} b"), &known());
        let _ = resolve(&text, &known());
    }
}
