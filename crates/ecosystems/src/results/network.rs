//! Tests that fail because the sandbox of the checks has no network: by what resolvers and sockets of each language say
//! then.

/// What is said where no name can be resolved or no host be reached. A server that is down, or that refuses, says
/// something else.
const SIGNS: [&str; 21] = [
    // The C library, by `EAI_AGAIN`, `EAI_NONAME` and `EAI_NODATA`, and with it Python, Ruby, PHP, .NET and Rust.
    "Temporary failure in name resolution",
    "Name or service not known",
    "No address associated with hostname",
    "nodename nor servname provided",
    "failed to lookup address information",
    "php_network_getaddresses",
    "NameResolutionError",
    // musl.
    "Name does not resolve",
    "Try again (os error",
    // Node.js.
    "getaddrinfo EAI_AGAIN",
    "getaddrinfo ENOTFOUND",
    "ENETUNREACH",
    "queryA ECONNREFUSED",
    // Go: its resolver, and one that asks a name server which is not there.
    ": no such host",
    "dial tcp: lookup ",
    // Java, Elixir.
    "UnknownHostException",
    ":nxdomain",
    // curl and git.
    "Could not resolve host",
    "Couldn't resolve host",
    // Sockets.
    "Network is unreachable",
    "network is unreachable",
];

/// What is kept of a failure says that there was no network.
pub(super) fn is_missing(detail: &str) -> bool {
    SIGNS.iter().any(|sign| detail.contains(sign))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::super::{Runner, compare, parse};

    fn pytest(tests: &[(&str, &str)]) -> super::super::TestResults {
        let lines: Vec<String> = tests
            .iter()
            .map(|(name, why)| format!("FAILED tests/test_client.py::{name} - {why}\n"))
            .collect();
        let output = format!(
            "=========================== short test summary info ============================\n{}{} failed, 90 passed in 2.04s\n",
            lines.concat(),
            tests.len()
        );
        parse(Some(Runner::Pytest), &output, &[])
    }

    const AWAY: &str = "httpx.ConnectError: [Errno -3] Temporary failure in name resolution";

    #[test]
    fn what_fails_for_want_of_a_network_on_both_sides_is_told_apart() {
        let base = pytest(&[("test_proxy", AWAY), ("test_sum", "assert 1 == 2")]);
        let found = compare(from_ref(&base), from_ref(&base));
        assert_eq!(found.without_network.names, ["tests/test_client.py::test_proxy"]);
        assert_eq!(found.still_failing.names, ["tests/test_client.py::test_sum"]);
        let line =
            "fixed 0 · broke 0 · 1 fails as before · 1 fails for want of a network, as before";
        assert_eq!(found.line(), line);
    }

    #[test]
    fn one_that_failed_otherwise_before_or_now_is_like_the_others() {
        let (away, wrong) =
            (pytest(&[("test_proxy", AWAY)]), pytest(&[("test_proxy", "assert 1 == 2")]));
        let sides = [
            (vec![away.clone()], vec![wrong.clone()]),
            (vec![wrong.clone()], vec![away.clone()]),
            (vec![away.clone(), wrong.clone()], vec![away.clone()]),
            (vec![away.clone()], vec![away.clone(), wrong]),
        ];
        for (base, head) in sides {
            let found = compare(&base, &head);
            let counts = (found.without_network.count, found.still_failing.count);
            assert_eq!(counts, (0, 1), "{base:?}, {head:?}");
        }
        // It passed before: the change broke it, whatever it says.
        let found = compare(&[pytest(&[("test_other", "no")])], &[away]);
        assert_eq!(found.without_network.count, 0);
    }
}
