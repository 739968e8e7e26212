//! What package managers and runners say when packages are not there and cannot be had: with that a check says nothing about
//! the code, where setup has failed. Only words of the programs themselves are listed, none that code under test prints of a
//! missing module: whether that one is missing or misspelt nobody can tell.

/// Parts of one line, all of them.
const SAID: &[&[&str]] = &[
    // Maven.
    &["[ERROR]", "Could not resolve dependencies for project"],
    &["[ERROR]", "Non-resolvable parent POM"],
    &["[ERROR]", "Non-resolvable import POM"],
    &["[ERROR]", "Unresolveable build extension"],
    &["[ERROR]", "or one of its dependencies could not be resolved"],
    &["[ERROR]", "Error resolving version for plugin"],
    &["[ERROR]", "No plugin found for prefix"],
    // Gradle, and the script that downloads it.
    &["Could not resolve all ", " for configuration '"],
    &["Plugin [id: '", "was not found in any of the following sources"],
    &["java.net.UnknownHostException: services.gradle.org"],
    // Go.
    &["module lookup disabled by GOPROXY=off"],
    &["go: ", "requires go >= ", "GOTOOLCHAIN=local"],
    // Cargo.
    &["attempting to make an HTTP request, but --offline was specified"],
    &["As a reminder, you're using offline mode (--offline)"],
    &["you are in the offline mode (--offline)"],
    // rustup, where `rust-toolchain.toml` asks for what is not installed.
    &["error: could not download file from 'https://static.rust-lang.org/"],
    &["error: could not create temp file ", "/.rustup/tmp/"],
    // npm, Corepack and yarn.
    &["npm ", "cache mode is 'only-if-cached' but no cached response is available"],
    &["Network access disabled by the environment; can't reach https://"],
    &["Usage Error: ", "running an install there might help"],
    &["Couldn't find the node_modules state file - running an install might help"],
    // uv, pip, poetry and pipenv.
    &["Network connectivity is disabled, but the requested data wasn't found in the cache"],
    &["ackages were unavailable because the network was disabled"],
    &["ERROR: No matching distribution found for "],
    &["Command not found: "],
    &["Error: the command ", "could not be found within PATH or Pipfile's [scripts]."],
    // Bundler.
    &["Could not find ", "in locally installed gems"],
    &["Run `bundle install` to install missing gems"],
    // Composer.
    &["Failed opening required ", "vendor/autoload.php"],
    &["Could not open input file: vendor/"],
    // .NET.
    &["error NU1101: "],
    &["error NU1301: "],
    &["error NETSDK1004: "],
    // Mix.
    &["Unchecked dependencies for environment "],
    &["Could not find Hex, which is needed to build dependency"],
    &["** (Mix) Can't continue due to errors on dependencies"],
    // Deno.
    &["npm package not found in cache: "],
    &["Specifier not found in cache: "],
];

/// Parts of lines of Cargo that only explain the error above them.
const EXPLAINS: &[&str] = &["offline mode (--offline)", "but --offline was specified"];
/// Lines above such a line that are looked at.
const ABOVE: usize = 12;

/// The first line of an output by which a program says that packages are not there and cannot be had; where that only
/// explains an error, the line of the error.
pub fn absent_packages(output: &str) -> Option<&str> {
    let says = |line: &str| SAID.iter().any(|all| all.iter().all(|part| line.contains(part)));
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| says(line))?;
    let line = lines[at];
    if !EXPLAINS.iter().any(|part| line.contains(part)) {
        return Some(line);
    }
    let mut above = lines[at.saturating_sub(ABOVE)..at].iter().rev();
    Some(above.find(|line| line.starts_with("error: ")).unwrap_or(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_that_packages_cannot_be_had_in_words_of_their_own() {
        let maven = "[ERROR]     Unresolveable build extension: Plugin org.sonatype.central:x:0.11.0 or one of its \
                     dependencies could not be resolved: Unknown host repo.maven.apache.org";
        for line in [
            maven,
            "a.go:3:8: github.com/x/y@v1.0.0: module lookup disabled by GOPROXY=off",
            "go: go.mod requires go >= 1.26 (running go 1.24.1; GOTOOLCHAIN=local)",
            "  attempting to make an HTTP request, but --offline was specified",
            "> Could not resolve all files for configuration ':testCompileClasspath'.",
            "Could not find rake-13.0.6 in locally installed gems",
            "PHP Fatal error:  Uncaught Error: Failed opening required '/pw/workspace/vendor/autoload.php'",
            "/app/a.csproj : error NU1301: Unable to load the service index for source https://api.nuget.org/v3/index.json.",
            "Command not found: pytest",
            "error: could not create temp file /home/ann/.rustup/tmp/x_file: Read-only file system (os error 30)",
        ] {
            let output = format!("building\n{line}\nmore\n");
            assert_eq!(absent_packages(&output), Some(line.trim()));
        }
        // What explains an error says less than the error.
        let error = "error: no matching package named `proc-macro2` found";
        let told = "As a reminder, you're using offline mode (--offline) which can sometimes cause surprising \
                    resolution failures, if this error is too confusing you may wish to retry";
        let output = format!(
            "{error}\nlocation searched: crates.io index\nrequired by package `serde_derive v1.0.228`\n{told}\n"
        );
        assert_eq!(absent_packages(&output), Some(error));
        assert_eq!(absent_packages(told), Some(told));
        // Of a module that code asks for, and of a host, nobody knows whose fault it is.
        for line in [
            "Error: Cannot find module 'lodash'",
            "ModuleNotFoundError: No module named 'requests'",
            "main.go:4:2: package app/missing is not in std",
            "curl: (6) Could not resolve host: example.com",
            "assertion failed: Could not resolve dependencies for project",
            "error[E0432]: unresolved import `serde`",
        ] {
            assert_eq!(absent_packages(line), None, "{line}");
        }
    }
}
