//! Marker lines: `<!-- patchwright:<purpose> run=<id> v=1 -->` on a line of its own finds what we
//! wrote again, whichever run wrote it.

/// A line of `body` is the marker, or one of the same purpose from another run.
pub(super) fn carries(body: &str, marker: &str) -> bool {
    body.lines().any(|line| is_marker(line, marker))
}

/// The line is `marker`, or one of the same purpose.
pub(super) fn is_marker(line: &str, marker: &str) -> bool {
    let (line, marker) = (line.trim(), marker.trim());
    line == marker || (purpose(line).is_some() && purpose(line) == purpose(marker))
}

/// The word after `patchwright:`; `None` when the line is no marker.
fn purpose(line: &str) -> Option<&str> {
    let inside = line.strip_prefix("<!-- patchwright:")?.strip_suffix("-->")?;
    inside.split_whitespace().next()
}

/// The body with the marker in it.
pub(super) fn marked(body: &str, marker: &str) -> String {
    if carries(body, marker) { body.to_owned() } else { format!("{body}\n\n{marker}") }
}

#[cfg(test)]
mod tests {
    use super::carries;

    #[test]
    fn a_marker_of_another_run_is_found_and_a_quoted_or_foreign_one_is_not() {
        let marker = "<!-- patchwright:progress run=b v=1 -->";
        for (body, found) in [
            ("x\n<!-- patchwright:progress run=a v=1 -->\ny", true),
            ("  <!-- patchwright:progress run=b v=1 -->  ", true),
            ("<!-- patchwright:pull-request run=b v=1 -->", false),
            ("> <!-- patchwright:progress run=b v=1 -->", false),
            ("<!-- patchwright:progress run=b v=1", false),
            ("", false),
        ] {
            assert_eq!(carries(body, marker), found, "{body}");
        }
    }
}
