//! What a review that was handed over says of itself: the run that wrote it was the pull request's.

use serde_json::{Value, json};

use super::{adds, handed_over, post_from, sticky};

#[test]
fn its_figures_are_bounded_and_its_checks_are_not_vouched_for() {
    let (world, folder) = handed_over([adds(3, 1)]);
    let path = folder.join("review.json");
    let mut bad: Value = serde_json::from_str(&fs_err::read_to_string(&path).unwrap()).unwrap();
    let reviewed = &mut bad["reviewed"];
    let most = u64::MAX;
    let usage = json!({
        "input": most, "cached_input": most, "cache_write": most, "output": most, "reasoning": most,
        "estimated": false,
    });
    let model =
        json!({"model": "m".repeat(5000), "turns": u32::MAX, "usage": usage, "cost_usd": 1e308});
    reviewed["spending"] = json!({
        "turns": u32::MAX, "usage": usage, "cost_usd": 1e308, "cost_is_estimate": false,
        "wall_seconds": 1e300, "models": [model, model],
    });
    let skipped = json!({"path": "p".repeat(5000), "lines": most, "why": "not_text"});
    reviewed["coverage"] = json!({
        "files": most, "lines": most, "read_files": most, "read_lines": most,
        "skipped": [skipped, skipped],
    });
    for count in ["below", "dropped", "withdrawn"] {
        reviewed[count] = json!(most);
    }
    let passed = json!({
        "command": "make test", "exit_code": 0, "timed_out": false, "duration_ms": 1, "tail": "fine\n",
    });
    reviewed["evidence"] = json!({
        "source": "the configuration of the operator",
        "rows": [{"command": "make test", "base": passed, "head": passed, "found": "ci.yml"}],
    });
    fs_err::write(&path, bad.to_string()).unwrap();
    let output = post_from(&world, &folder, &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let review = world.github.reviews(3).remove(0).body;
    let check = world.github.check_runs().remove(0);
    let check = check.summary.unwrap_or_default() + &check.text.unwrap_or_default();
    let all = [sticky(&world), review, check].join("\n");
    assert!(all.contains("make test"), "{all}");
    assert!(all.contains("As the workflow run of the pull request reported them"), "{all}");
    for claim in ["Run by Patchwright", "the configuration of the operator"] {
        assert!(!all.contains(claim), "{claim}: {all}");
    }
    // No figure is longer than a run of ours could have.
    let visible = all.lines().filter(|line| !line.starts_with("<!--") && !line.starts_with("[//]"));
    let figures = visible.flat_map(|line| line.split(|c: char| !c.is_ascii_digit()));
    let long: Vec<&str> = figures.filter(|figure| figure.len() > 15).collect();
    assert_eq!(long, Vec::<&str>::new(), "{all}");
}
