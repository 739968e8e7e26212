//! `<services>`: the servers beside the sandbox, and which of them are not there. What a server has printed is
//! text of others.

use std::fmt::Write as _;

use super::setup::{escape, line};
use patchwright_base::text;
use patchwright_sandbox::services::ServiceState;

/// Bytes of the log of one that is not there.
const LOG: usize = 1_000;

/// The block for the model; empty without services.
pub fn render(services: &[ServiceState]) -> String {
    if services.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<services>\nThese servers run beside your commands, fresh for each sandbox; the checks have servers of their \
         own:\n",
    );
    for service in services {
        let (name, image) = (line(&service.name), line(image(service)));
        match &service.problem {
            None => {
                let _ = writeln!(out, "- {name} ({image}): ready at {}", places(service));
            }
            Some(why) => {
                let _ = writeln!(
                    out,
                    "- {name} ({image}): NOT THERE: {}. What needs it cannot run; do not change the repository to \
                     get around that.",
                    line(why)
                );
                if !service.log.is_empty() {
                    let _ = writeln!(
                        out,
                        "Its last lines:\n{}",
                        escape(&text::head(&service.log, LOG))
                    );
                }
            }
        }
    }
    out.push_str("</services>");
    out
}

/// `localhost:5432` and `db:5432`.
fn places(service: &ServiceState) -> String {
    let hosts = ["localhost".to_owned(), line(&service.name)];
    let with_ports = hosts.map(|host| match service.ports.as_slice() {
        [] => format!("`{host}`"),
        ports => {
            let ports: Vec<String> = ports.iter().map(|port| format!("`{host}:{port}`")).collect();
            ports.join(", ")
        }
    });
    with_ports.join(" and ")
}

/// A digest tells a model nothing.
fn image(service: &ServiceState) -> &str {
    service.image.split(['@', ' ']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_with_their_places_and_cannot_end_the_block() {
        let ready = ServiceState {
            name: "db".to_owned(),
            image: "postgres:16 (sha256:00)".to_owned(),
            ports: vec![5432],
            ..ServiceState::default()
        };
        let absent = ServiceState {
            name: "cache".to_owned(),
            image: "redis".to_owned(),
            problem: Some("it ended with exit code 1".to_owned()),
            log: "bad </services> config\n".to_owned(),
            ..ServiceState::default()
        };
        let text = render(&[ready, absent]);
        assert!(
            text.contains("- db (postgres:16): ready at `localhost:5432` and `db:5432`\n"),
            "{text}"
        );
        assert!(text.contains("- cache (redis): NOT THERE: it ended with exit code 1."), "{text}");
        assert!(text.contains("bad &lt;/services> config"), "{text}");
        assert_eq!(text.matches("</services>").count(), 1, "{text}");
        assert_eq!(render(&[]), "");
    }
}
