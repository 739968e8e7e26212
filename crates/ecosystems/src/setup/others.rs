//! Ecosystems with one package manager.

use serde_json::Value;

use super::{Package, Step};
use crate::files::join;
use crate::registries::Ecosystem;
use crate::{packages, read};

/// Runs a command that keeps to the lock file; where the lock file lies, the command without it, after
/// which the lock file is as it was.
fn with_lock(lock: &str, frozen: &str, free: &str) -> String {
    format!(
        "{frozen} && exit 0\necho 'the lock file does not fit; installing without it' >&2\n\
         saved=$(mktemp) && cp {lock} \"$saved\"\n{free}\nstatus=$?\ncp \"$saved\" {lock}\nexit $status"
    )
}

pub(super) fn cargo(package: &Package<'_>) -> Vec<Step> {
    let is_wanted = |text: String| package.folder.is_empty() || !packages::is_fuzzed(&text);
    if !package.text("Cargo.toml").is_some_and(is_wanted) {
        return Vec::new();
    }
    let step = |file, command| package.step(Ecosystem::Rust, file, "cargo fetch", command);
    if package.has("Cargo.lock") {
        let command = with_lock("Cargo.lock", "cargo fetch --locked", "cargo fetch");
        return vec![step("Cargo.lock", command)];
    }
    vec![step("Cargo.toml", "cargo fetch".to_owned())]
}

pub(super) fn go(package: &Package<'_>) -> Vec<Step> {
    if !package.has("go.mod") && !package.has("go.work") {
        return Vec::new();
    }
    if package.files.has_file(&package.path("vendor/modules.txt")) {
        package.note("vendor/modules.txt", "Go modules are in the tree; nothing is downloaded");
        return Vec::new();
    }
    let file = if package.has("go.work") { "go.work" } else { "go.mod" };
    vec![package.step(Ecosystem::Go, file, "go mod download", "go mod download".to_owned())]
}

pub(super) fn bundler(package: &Package<'_>) -> Vec<Step> {
    if !package.has("Gemfile") {
        return Vec::new();
    }
    let get = "command -v bundle >/dev/null || gem install --no-document bundler || exit\n";
    let path = match package.has(".bundle/config") {
        // Its own settings say where gems go.
        true => "",
        false => "bundle config set --local path vendor/bundle\n",
    };
    let (file, install) = match package.has("Gemfile.lock") {
        true => (
            "Gemfile.lock",
            with_lock(
                "Gemfile.lock",
                "BUNDLE_FROZEN=true bundle install --jobs 4",
                "bundle install --jobs 4",
            ),
        ),
        false => ("Gemfile", "bundle install --jobs 4".to_owned()),
    };
    vec![package.step(Ecosystem::Ruby, file, "bundle install", format!("{get}{path}{install}"))]
}

pub(super) fn composer(package: &Package<'_>) -> Vec<Step> {
    if !package.has("composer.json") || is_replaced(package) {
        return Vec::new();
    }
    let file = if package.has("composer.lock") { "composer.lock" } else { "composer.json" };
    let command = "composer install --no-interaction --no-progress --prefer-dist";
    vec![package.step(Ecosystem::Php, file, "composer install", command.to_owned())]
}

/// A package above has this one in it, which it says with `replace`: with its own packages this one is installed as well.
fn is_replaced(package: &Package<'_>) -> bool {
    let json = |path: &str| package.files.text(path).and_then(|text| read::json(&text).ok());
    let Some(own) = json(&package.path("composer.json")) else { return false };
    let Some(name) = own.get("name").and_then(Value::as_str) else { return false };
    let mut above = package.folder;
    while !above.is_empty() {
        above = above.rsplit_once('/').map_or("", |(parent, _)| parent);
        let manifest = json(&join(above, "composer.json"));
        if manifest.is_some_and(|it| it.get("replace").is_some_and(|all| all.get(name).is_some())) {
            return true;
        }
    }
    false
}

/// The goal that lists dependencies does not find what the test plugin loads when it runs, so that
/// plugin runs once, for a test that is not there.
pub(super) fn maven(package: &Package<'_>) -> Vec<Step> {
    if !package.has("pom.xml") {
        return Vec::new();
    }
    let program = if package.has("mvnw") { "sh ./mvnw" } else { "mvn" };
    let command = format!(
        "{program} -q -B -ntp dependency:go-offline\n\
         {program} -q -B -ntp test -Dtest=NoSuchTest -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false"
    );
    vec![package.step(Ecosystem::Jvm, "pom.xml", "dependency:go-offline", command)]
}

pub(super) fn gradle(package: &Package<'_>) -> Vec<Step> {
    let builds = ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    let Some(file) = builds.into_iter().find(|name| package.has(name)) else { return Vec::new() };
    let has_script = package.has("gradlew");
    let mut texts = builds.iter().filter_map(|name| package.text(name));
    if !has_script && texts.any(|text| packages::is_for_android(&text)) {
        return Vec::new();
    }
    let program = if has_script { "sh ./gradlew" } else { "gradle" };
    let command = format!(
        "{program} --no-daemon --console=plain testClasses || exit 1\n\
         {program} --no-daemon --console=plain --continue test --tests NoSuchTest >/dev/null 2>&1 || true"
    );
    vec![package.step(Ecosystem::Jvm, file, "gradle testClasses", command)]
}

pub(super) fn dotnet(package: &Package<'_>) -> Vec<Step> {
    let names = package.files.files(package.folder);
    let ending =
        |ends: &[&str]| names.iter().find(|name| ends.iter().any(|end| name.ends_with(end)));
    let is_of_dotnet = |name: &&String| {
        packages::is_solution(name)
            && package.text(name).is_some_and(|it| packages::is_of_dotnet(&it))
    };
    let solution = names.iter().find(is_of_dotnet);
    // Projects below a solution are in it.
    let has_solution = packages::has_solution_above(package.files, package.folder);
    let project = || ending(&[".csproj", ".fsproj", ".vbproj"]).filter(|_| !has_solution);
    let Some(file) = solution.or_else(project) else { return Vec::new() };
    let command = match package.has("packages.lock.json") {
        true => "dotnet restore --locked-mode || dotnet restore",
        false => "dotnet restore",
    };
    vec![package.step(Ecosystem::Dotnet, file, "dotnet restore", command.to_owned())]
}

pub(super) fn mix(package: &Package<'_>) -> Vec<Step> {
    if !package.has("mix.exs") {
        return Vec::new();
    }
    let file = if package.has("mix.lock") { "mix.lock" } else { "mix.exs" };
    let get = match package.has("mix.lock") {
        true => with_lock(
            "mix.lock",
            "mix deps.get --check-locked && mix deps.compile",
            "mix deps.get && mix deps.compile",
        ),
        false => "mix deps.get && mix deps.compile".to_owned(),
    };
    let command = format!(
        "export MIX_ENV=test\nmix local.hex --force --if-missing && mix local.rebar --force --if-missing\n{get}"
    );
    vec![package.step(Ecosystem::Elixir, file, "mix deps.get", command)]
}

pub(super) fn deno(package: &Package<'_>) -> Vec<Step> {
    let file = ["deno.json", "deno.jsonc"].into_iter().find(|name| package.has(name));
    let Some(file) = file.filter(|_| !package.has("package.json")) else { return Vec::new() };
    let command = match package.has("deno.lock") {
        true => "deno install --frozen || deno install --no-lock",
        false => "deno install --no-lock",
    };
    vec![package.step(Ecosystem::Deno, file, "deno install", command.to_owned())]
}
