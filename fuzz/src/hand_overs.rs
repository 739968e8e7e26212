//! Reviews that a workflow without rights has left for one that may write. What is posted is about our
//! pull request and within bounds, whatever was left.

use std::path::PathBuf;
use std::sync::LazyLock;

use patchwright_forge::RepositoryId;
use patchwright_task::review::hand_over::{Expected, FILE, read};

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    static FOLDER: LazyLock<PathBuf> =
        LazyLock::new(|| tempfile::tempdir().expect("a folder").keep());
    std::fs::write(FOLDER.join(FILE), data).expect("space for it");
    let repository = RepositoryId { owner: "acme".to_owned(), name: "app".to_owned() };
    let expected = Expected { repository, number: Some(7), head: None, source: None };
    let Ok(reviewed) = read(&FOLDER, &expected) else { return };
    assert_eq!(reviewed.number, 7);
    assert!(reviewed.repository.to_string().eq_ignore_ascii_case("acme/app"));
    assert!(reviewed.findings.len() <= 500 && reviewed.summary.len() <= 20_010);
    assert!(reviewed.provenance.run_url.is_none(), "a link of theirs");
    for found in &reviewed.findings {
        let finding = &found.finding;
        assert!(finding.title.len() <= 310 && finding.body.len() <= 20_010);
        assert!(finding.confidence.is_finite());
        assert_eq!(found.fingerprint.len(), 16, "{:?}", found.fingerprint);
    }
    serde_json::to_string(&reviewed).expect("it can be written again");
}
