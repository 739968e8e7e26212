//! Many repositories: lists, what each says about itself, and one query about many.

use patchwright_forge::Role;
use serde_json::{Value, json};

use super::{get, post};
use crate::support::git_http;
use crate::support::github::{GitHub, Server, fleet_name};

fn names(body: &Value) -> Vec<String> {
    let items = body.as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["full_name"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn graphql(github: &Server, query: &str) -> Value {
    let answer = post(github, "/graphql", json!({"query": query})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_repositories_are_listed_page_by_page_and_cloned() {
    let github = GitHub::new()
        .repositories(200, |number| {
            [("README.md", format!("# {number}\n")), ("run.sh", "#!/bin/sh\n".to_owned())]
        })
        .start();
    let mut path = "/orgs/acme/repos?per_page=90".to_owned();
    let mut found = Vec::new();
    let mut links = Vec::new();
    loop {
        let answer = get(&github, &path).await;
        found.extend(names(&answer.json()));
        let link = answer.headers["link"].to_str().unwrap();
        let next = link.split(", ").find(|link| link.ends_with("rel=\"next\""));
        let Some(next) = next else { break };
        let next = next[1..].split('>').next().unwrap().replace(&github.api_url(), "");
        assert!(next.starts_with("/organizations/"), "{next}");
        links.push(link.to_owned());
        path = next;
    }
    assert_eq!(links.len(), 2);
    let all: Vec<String> = (1..=200).map(fleet_name).collect();
    found.sort();
    assert_eq!(found, all);

    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}/{}.git", github.server_url(), fleet_name(117));
    git_http::git(folder.path(), &["clone", "--quiet", &url, "clone"]);
    let text = fs_err::read_to_string(folder.path().join("clone/README.md")).unwrap();
    assert_eq!(text, "# 117\n");
    let listed = git_http::git(&folder.path().join("clone"), &["ls-files", "--stage", "run.sh"]);
    assert!(listed.starts_with("100755"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_are_organizations_or_people_and_private_repositories_are_for_those_with_a_role() {
    let github = GitHub::new()
        .repository("acme/one", &[])
        .repository("acme/secret", &[])
        .private()
        .our_role(Role::None)
        .repository("acme/ours", &[])
        .private()
        .repository("rita/two", &[])
        .person("rita")
        .start();
    let answer = get(&github, "/orgs/acme/repos?type=all&sort=full_name").await;
    assert_eq!(names(&answer.json()), ["acme/one", "acme/ours"]);
    assert_eq!(names(&get(&github, "/users/acme/repos").await.json()).len(), 2);
    assert_eq!(names(&get(&github, "/users/rita/repos").await.json()), ["rita/two"]);
    for path in
        ["/orgs/rita/repos", "/orgs/nobody/repos", "/users/nobody/repos", "/repos/acme/secret"]
    {
        assert_eq!(get(&github, path).await.status, 404, "{path}");
    }
    let answer = get(&github, "/installation/repositories").await;
    assert!(answer.problem().starts_with("403 You must authenticate with an installation"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_repository_says_what_it_is() {
    let github = GitHub::new()
        .repository("acme/plain", &[("a", "a")])
        .topics(&["cli", "rust"])
        .language("Rust")
        .repository("acme/old", &[("a", "a")])
        .archived()
        .repository("acme/down", &[("a", "a")])
        .disabled()
        .repository("acme/mould", &[("a", "a")])
        .template()
        .repository("acme/read", &[("a", "a")])
        .our_role(Role::Read)
        .repository("acme/now", &[("a", "a")])
        .renamed_from("acme/then")
        .start();
    let plain = get(&github, "/repos/acme/plain").await.json();
    assert_eq!((&plain["topics"], &plain["language"]), (&json!(["cli", "rust"]), &json!("Rust")));
    assert_eq!(plain["permissions"]["push"], json!(true));
    assert_eq!(
        get(&github, "/repos/acme/plain/topics").await.json(),
        json!({"names": ["cli", "rust"]})
    );
    assert_eq!(get(&github, "/repos/acme/old").await.json()["archived"], json!(true));
    assert_eq!(get(&github, "/repos/acme/mould").await.json()["is_template"], json!(true));
    let read = get(&github, "/repos/acme/read").await.json();
    assert_eq!(
        (&read["permissions"]["push"], &read["permissions"]["pull"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(get(&github, "/repos/acme/down").await.problem(), "403 Repository access blocked");
    let moved = get(&github, "/repos/acme/then").await;
    assert_eq!(moved.status, 301);
    let to = moved.headers["location"].to_str().unwrap().replace(&github.api_url(), "");
    assert_eq!(get(&github, &to).await.json()["full_name"], json!("acme/now"));
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}/acme/then.git", github.server_url());
    git_http::git(folder.path(), &["clone", "--quiet", &url, "clone"]);

    let push = |name: &str| {
        let auth = format!("http://x-access-token:{}@", github.token());
        let url = format!("{}/acme/{name}.git", github.server_url().replace("http://", &auth));
        let clone = folder.path().join(name);
        git_http::git(folder.path(), &["clone", "--quiet", &url, name]);
        let output =
            git_http::command(&clone, &["push", "--quiet", "origin", "HEAD:topic"]).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { "pushed".to_owned() } else { said }
    };
    assert_eq!(push("plain"), "pushed");
    assert!(push("read").contains("403"));
    assert!(push("old").contains("403"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_apps_are_told_of_no_permissions_though_they_may_push() {
    let github = GitHub::new()
        .repository("acme/app", &[("a", "a")])
        .token_of("patchwright[bot]")
        .repository("acme/other", &[("a", "a")])
        .start();
    let answer = get(&github, "/installation/repositories").await.json();
    assert_eq!(answer["total_count"], json!(2));
    assert_eq!(answer["repositories"][0]["permissions"]["push"], json!(false));
    let query = "{ repository(owner: \"acme\", name: \"app\") { viewerPermission } }";
    let answer = graphql(&github, query).await;
    assert_eq!(answer["data"]["repository"]["viewerPermission"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_query_asks_about_many_repositories_and_those_that_are_gone_do_not_spoil_it() {
    let github = GitHub::new()
        .repository("acme/app", &[("src/lib.rs", "pub fn f() {}\n")])
        .topics(&["cli"])
        .pull(4, "Old", "patchwright/tidy", &[("b", "b")])
        .branch("other", &[])
        .pull(5, "New", "patchwright/tidy-2", &[("c", "c")])
        .draft()
        .repository("acme/empty", &[])
        .repository("acme/new", &[("a", "a")])
        .renamed_from("acme/old")
        .start();
    github.set_open(4, false);
    let query = "query Many {
      r0: repository(owner: \"acme\", name: \"app\") { ...Facts
        pullRequests(headRefName: \"patchwright/tidy\", states: [OPEN, CLOSED, MERGED], first: 5, orderBy: {field: CREATED_AT, direction: DESC}) {
          totalCount nodes { number state isDraft merged headRefOid headRefName body closedAt }
        }
        file: object(expression: \"HEAD:src/lib.rs\") { __typename oid ... on Blob { byteSize text isBinary } }
        none: object(expression: \"HEAD:Cargo.toml\") { oid }
        there: ref(qualifiedName: \"refs/heads/other\") { name target { oid } }
        gone: ref(qualifiedName: \"refs/heads/gone\") { name }
      }
      r1: repository(owner: \"acme\", name: \"nothing\") { ...Facts }
      r2: repository(owner: \"acme\", name: \"empty\") { ...Facts }
      r3: repository(owner: \"acme\", name: \"old\") { ...Facts }
    }
    fragment Facts on Repository {
      id nameWithOwner isArchived isDisabled isFork isTemplate isEmpty isPrivate viewerPermission
      defaultBranchRef { name target { oid } }
      repositoryTopics(first: 20) { nodes { topic { name } } }
    }";
    let answer = graphql(&github, query).await;
    let data = &answer["data"];
    assert_eq!(data["r0"]["nameWithOwner"], json!("acme/app"));
    assert_eq!(data["r0"]["viewerPermission"], json!("WRITE"));
    let tip = git_http::git(&github.repository_path(), &["rev-parse", "main"]);
    assert_eq!(
        data["r0"]["defaultBranchRef"],
        json!({"name": "main", "target": {"oid": tip.trim()}})
    );
    assert_eq!(data["r0"]["there"]["target"]["oid"], json!(tip.trim()));
    assert_eq!((&data["r0"]["none"], &data["r0"]["gone"]), (&Value::Null, &Value::Null));
    assert_eq!(data["r0"]["file"]["text"], json!("pub fn f() {}\n"));
    assert_eq!(data["r0"]["file"]["__typename"], json!("Blob"));
    assert_eq!(data["r0"]["repositoryTopics"]["nodes"][0]["topic"]["name"], json!("cli"));
    let pulls = &data["r0"]["pullRequests"];
    assert_eq!((&pulls["totalCount"], &pulls["nodes"][0]["state"]), (&json!(1), &json!("CLOSED")));
    assert_eq!((&data["r1"], &data["r2"]["isEmpty"]), (&Value::Null, &json!(true)));
    assert_eq!(data["r2"]["defaultBranchRef"], Value::Null);
    assert_eq!(data["r3"]["nameWithOwner"], json!("acme/new"));
    let errors = answer["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1);
    assert_eq!((&errors[0]["type"], &errors[0]["path"]), (&json!("NOT_FOUND"), &json!(["r1"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_there_or_not() {
    let long: String = "x".repeat(100);
    let github = GitHub::new()
        .repository("acme/app", &[("a b/c#d.txt", &long), ("top", "t")])
        .branch("other", &[("only here", "o")])
        .repository("acme/empty", &[])
        .start();
    let file = get(&github, "/repos/acme/app/contents/a%20b/c%23d.txt").await.json();
    assert_eq!(
        (&file["type"], &file["path"], &file["size"]),
        (&json!("file"), &json!("a b/c#d.txt"), &json!(100))
    );
    let lines: Vec<usize> = file["content"].as_str().unwrap().lines().map(str::len).collect();
    assert_eq!(lines, [60, 60, 16]);
    let folder = get(&github, "/repos/acme/app/contents/a%20b").await.json();
    assert_eq!(folder.as_array().unwrap().len(), 1);
    assert_eq!(get(&github, "/repos/acme/app/contents/only%20here?ref=other").await.status, 200);
    let answer = get(&github, "/repos/acme/app/contents/only%20here").await;
    assert_eq!(answer.problem(), "404 Not Found");
    let answer = get(&github, "/repos/acme/app/contents/top?ref=gone").await;
    assert_eq!(answer.problem(), "404 No commit found for the ref gone");
    let answer = get(&github, "/repos/acme/empty/contents/top").await;
    assert_eq!(answer.problem(), "404 This repository is empty.");
}
