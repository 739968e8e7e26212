//! What a simulation found, for people and as JSON. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use patchwright_base::duration::format_duration;
use patchwright_fleet::batch::campaign::Campaign;
use patchwright_fleet::batch::simulate::{Profile, Simulation, SimulationReport};

/// Waves that are listed.
const MOST_WAVES: usize = 20;

/// The rounds by how long they took; the first is the shortest.
fn ordered(simulation: &Simulation) -> Vec<&SimulationReport> {
    let mut courses: Vec<&SimulationReport> = simulation.courses.iter().collect();
    courses.sort_by_key(|course| course.seconds);
    courses
}

/// The value below which so many of a hundred are.
fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last * percent).div_ceil(100)).copied()
}

fn spread(values: impl Iterator<Item = f64>) -> Option<(f64, f64, f64)> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    Some((*values.first()?, percentile(&values, 50)?, *values.last()?))
}

pub(super) fn json(campaign: &Campaign, simulation: &Simulation) -> Value {
    let seconds: Vec<i64> = ordered(simulation).iter().map(|course| course.seconds).collect();
    let mut line = json!({
        "is": "simulation", "campaign": campaign.id(), "name": campaign.name,
        "seconds": {
            "p10": percentile(&seconds, 10), "p50": percentile(&seconds, 50),
            "p90": percentile(&seconds, 90),
        },
    });
    let rest = serde_json::to_value(simulation).unwrap_or_default();
    if let (Some(line), Some(rest)) = (line.as_object_mut(), rest.as_object()) {
        line.extend(rest.clone());
    }
    line
}

pub(super) fn table(campaign: &Campaign, simulation: &Simulation, profile: &Profile) -> String {
    let mut text = String::new();
    let options = &simulation.options;
    let _ = writeln!(
        text,
        "campaign {}: {} repositories, {} workers, {}; simulated {}",
        campaign.name,
        options.repositories,
        options.workers,
        count(options.tokens, "token"),
        if options.rounds == 1 { "once".to_owned() } else { format!("{} times", options.rounds) },
    );
    let _ = writeln!(text, "runs:        {}", runs(profile));
    for outage in &options.outages {
        let _ = writeln!(text, "outage:      {outage}");
    }
    whole(&mut text, simulation);
    if let Some(course) = middle(simulation) {
        waves(&mut text, course);
        course_words(&mut text, simulation, course);
    }
    limits(&mut text, simulation);
    check(&mut text, simulation);
    text
}

/// The round in the middle.
fn middle(simulation: &Simulation) -> Option<&SimulationReport> {
    percentile(&ordered(simulation), 50)
}

fn runs(profile: &Profile) -> String {
    match profile {
        Profile::Measured { of, runs, .. } => {
            format!("drawn from {} of campaign `{of}`", count(runs.len(), "ended run"))
        }
        Profile::Assumed(assumed) => format!(
            "not measured; assumed: half are shorter than {}, ${:.2} for one of that length, {:.0} % fail",
            duration(assumed.median / 1_000),
            assumed.cost_usd,
            assumed.failing * 100.0,
        ),
    }
}

fn whole(text: &mut String, simulation: &Simulation) {
    let seconds: Vec<i64> = ordered(simulation).iter().map(|course| course.seconds).collect();
    let at = |percent| percentile(&seconds, percent).map(duration).unwrap_or_default();
    let _ = writeln!(text, "\nends after:  {} (p10 {}, p90 {})", at(50), at(10), at(90));
    if let Some((least, middle, most)) = spread(simulation.courses.iter().map(|one| one.cost_usd)) {
        let _ = writeln!(text, "cost:        ${middle:.2} (${least:.2} to ${most:.2})");
    }
    let stopped: Vec<&SimulationReport> =
        simulation.courses.iter().filter(|course| !course.done).collect();
    if let Some(why) = stopped.first().and_then(|course| course.stopped.as_ref()) {
        let (some, all) = (stopped.len(), simulation.courses.len());
        let _ = writeln!(text, "stops early: in {some} of {all} rounds: {why}");
    }
}

fn waves(text: &mut String, course: &SimulationReport) {
    if course.waves.len() < 2 {
        return;
    }
    let time = |at: Option<i64>| at.map_or("never".to_owned(), duration);
    for (number, wave) in course.waves.iter().enumerate().take(MOST_WAVES) {
        let _ = writeln!(
            text,
            "wave {:<8}{} repositories: begins after {}, ended after {}",
            format!("{}:", number + 1),
            wave.targets,
            time(wave.began),
            time(wave.ended)
        );
    }
    if course.waves.len() > MOST_WAVES {
        let _ = writeln!(text, "… and {} waves more", course.waves.len() - MOST_WAVES);
    }
}

fn course_words(text: &mut String, simulation: &Simulation, course: &SimulationReport) {
    let states: Vec<String> =
        course.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let _ = writeln!(text, "targets:     {}", states.join(", "));
    let pulls: u64 = course.pulls_by_day.iter().map(|pulls| u64::from(*pulls)).sum();
    if let Some(most) = course.pulls_by_day.iter().max() {
        let days = course.pulls_by_day.len();
        let _ = writeln!(text, "pulls:       {pulls} in {days} days, at most {most} a day");
    }
    let found = &simulation.discovery;
    let _ = writeln!(
        text,
        "requests:    {} REST and {} GraphQL ({} points) to find the repositories; {} REST ({} of them \
         and of git's are writes, at most {} REST in an hour with one token) and {} of git after that",
        found.rest,
        found.graphql,
        found.points,
        course.rest,
        course.writes,
        course.most_in_an_hour,
        course.git
    );
    let _ = writeln!(
        text,
        "busy:        workers {:.0} % of the time, publishing {:.0} %; {} runs, {} cut off, {} put back",
        course.workers_busy * 100.0,
        course.publishers_busy * 100.0,
        course.runs,
        course.cut_off,
        course.put_back
    );
}

fn limits(text: &mut String, simulation: &Simulation) {
    let Some(first) = simulation.courses.first() else { return };
    if simulation.what_if.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nwith the same draws ({}):", ending(first.seconds, first.done));
    for answer in &simulation.what_if {
        let _ = writeln!(text, "  {:<32}{}", answer.change, ending(answer.seconds, answer.done));
    }
    let half = match simulation.tokens_for_half {
        Some(tokens) => format!("{tokens} tokens with the same workers would halve the time"),
        None => "no number of tokens would halve the time".to_owned(),
    };
    let _ = writeln!(text, "  {half}");
}

fn ending(seconds: i64, done: bool) -> String {
    let time = duration(seconds);
    if done { time } else { format!("stops after {time}") }
}

fn check(text: &mut String, simulation: &Simulation) {
    let Some(check) = &simulation.check else { return };
    let how = if check.same { "the same end" } else { "another end" };
    let _ = writeln!(
        text,
        "\nthrough a real database, {} repositories: {how}, after {} (in memory {})",
        check.repositories,
        duration(check.seconds_in_store),
        duration(check.seconds_in_memory)
    );
    let rows: f64 = check.rows.values().sum();
    let tables: Vec<String> =
        check.rows.iter().map(|(table, rows)| format!("{rows:.1} {table}")).collect();
    let _ = writeln!(
        text,
        "  a repository leaves {rows:.1} rows ({}) and {:.1} KB",
        tables.join(", "),
        check.bytes / 1e3
    );
}

fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn duration(seconds: i64) -> String {
    format_duration(Duration::from_secs(seconds.max(0).unsigned_abs()))
}
