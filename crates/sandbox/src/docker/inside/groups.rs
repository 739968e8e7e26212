//! Limits of the control group that a container is in, of version 1 or 2, as it sees them itself. Pure.

use std::collections::BTreeMap;

use bollard::models::HostConfig;

/// What is not bounded as asked for.
pub(super) fn differences(host: &HostConfig, groups: &BTreeMap<String, String>) -> Vec<String> {
    let number = |name: &str| groups.get(name).and_then(|value| value.parse::<i64>().ok());
    let memory = host.memory.unwrap_or(0);
    let whole = host.memory_swap.unwrap_or(memory);
    let pids = host.pids_limit.unwrap_or(0);
    let has_two = groups.contains_key("memory.max");
    let (memory_is, swap_is, pids_is) = if has_two {
        // Version 2 counts swap alone, version 1 with the memory.
        let swap = number("memory.swap.max").map(|swap| swap.saturating_add(memory));
        (number("memory.max"), swap, number("pids.max"))
    } else {
        let name = |name: &str| number(&format!("memory/memory.{name}"));
        (name("limit_in_bytes"), name("memsw.limit_in_bytes"), number("pids/pids.max"))
    };
    let mut found = Vec::new();
    for (what, wanted, is) in [
        ("memory", memory, memory_is),
        ("memory with swap", whole, swap_is),
        ("processes", pids, pids_is),
    ] {
        if is.is_none_or(|is| is > wanted) {
            found.push(unbounded(what, is));
        }
    }
    let cpus = if has_two { quota(groups) } else { quota_of_one(groups) };
    let wanted = host.nano_cpus.unwrap_or(0);
    // Engines round to whole microseconds of a period.
    if cpus.is_none_or(|cpus| cpus > wanted.saturating_add(ROUNDING)) {
        found.push(unbounded("cpus", cpus));
    }
    found
}

/// A hundredth of a processor, in thousand-millionths.
const ROUNDING: i64 = 10_000_000;
const NANO: i64 = 1_000_000_000;

/// `max 100000` or `50000 100000`, in microseconds.
fn quota(groups: &BTreeMap<String, String>) -> Option<i64> {
    let (quota, period) = groups.get("cpu.max")?.split_once(' ')?;
    nano(quota.parse().ok()?, period.parse().ok()?)
}

/// No quota is -1.
fn quota_of_one(groups: &BTreeMap<String, String>) -> Option<i64> {
    let number = |name: &str| groups.get(&format!("cpu/cpu.cfs_{name}_us"))?.parse::<i64>().ok();
    nano(number("quota")?, number("period")?)
}

fn nano(quota: i64, period: i64) -> Option<i64> {
    if quota <= 0 {
        return None;
    }
    quota.checked_mul(NANO)?.checked_div(period)
}

fn unbounded(what: &str, is: Option<i64>) -> String {
    match is {
        Some(is) => {
            format!("the engine does not bound {what} as asked: the container's limit is {is}")
        }
        None => format!("the engine does not bound {what}: the container shows no limit of it"),
    }
}

#[cfg(test)]
mod tests {
    use crate::docker::inside::groups::*;

    fn host() -> HostConfig {
        HostConfig {
            memory: Some(1000),
            memory_swap: Some(1000),
            pids_limit: Some(64),
            nano_cpus: Some(NANO / 2),
            ..HostConfig::default()
        }
    }

    fn check(groups: &[(&str, &str)]) -> String {
        let groups = groups.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        differences(&host(), &groups.collect()).join("; ")
    }

    const TWO: [(&str, &str); 4] = [
        ("memory.max", "1000"),
        ("memory.swap.max", "0"),
        ("pids.max", "64"),
        ("cpu.max", "50000 100000"),
    ];
    const ONE: [(&str, &str); 5] = [
        ("memory/memory.limit_in_bytes", "1000"),
        ("memory/memory.memsw.limit_in_bytes", "1000"),
        ("pids/pids.max", "64"),
        ("cpu/cpu.cfs_quota_us", "50000"),
        ("cpu/cpu.cfs_period_us", "100000"),
    ];

    #[test]
    fn both_versions_of_control_groups_are_read() {
        assert_eq!(check(&TWO), "");
        assert_eq!(check(&ONE), "");
    }

    #[test]
    fn a_limit_that_is_higher_or_missing_is_named() {
        for (name, value, what) in [
            ("memory.max", "1001", "memory as asked"),
            ("memory.max", "max", "memory: the container shows no limit"),
            ("memory.swap.max", "1", "memory with swap as asked"),
            ("memory.swap.max", "max", "memory with swap: "),
            ("pids.max", "65", "processes as asked"),
            ("pids.max", "max", "processes: "),
            ("cpu.max", "60000 100000", "cpus as asked"),
            ("cpu.max", "max 100000", "cpus: "),
            ("cpu.max", "50000 0", "cpus: "),
        ] {
            let groups =
                TWO.map(|(key, as_asked)| (key, if key == name { value } else { as_asked }));
            let found = check(&groups);
            assert!(found.starts_with(&format!("the engine does not bound {what}")), "{found}");
            assert!(!found.contains("; "), "{found}");
        }
        for (name, value) in [
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/memory.memsw.limit_in_bytes", "9223372036854771712"),
            ("pids/pids.max", "max"),
            ("cpu/cpu.cfs_quota_us", "-1"),
        ] {
            let groups =
                ONE.map(|(key, as_asked)| (key, if key == name { value } else { as_asked }));
            assert!(check(&groups).starts_with("the engine does not bound"), "{name}");
        }
        assert_eq!(check(&[]).matches("shows no limit").count(), 4, "nothing is to be seen");
    }
}
