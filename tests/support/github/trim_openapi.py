#!/usr/bin/env python3
"""Makes tests/fixtures/github-openapi.json from GitHub's own description of its REST API.

    trim_openapi.py FULL.json > tests/fixtures/github-openapi.json
    trim_openapi.py FULL.json webhooks > tests/fixtures/github-webhooks.json

FULL.json is https://github.com/github/rest-api-description, `api.github.com.json`. Kept are the
paths below, every component they reach, and from each schema what can be checked; prose, examples
and vendor extensions go. The test server reads the result (`openapi.rs`), and so do its webhook
payloads (`events.rs`).
"""

import json
import re
import sys

KEEP = re.compile(
    r"""^(
    / | /meta | /rate_limit | /user | /users/\{username\}(/repos|/installation)?
    | /orgs/\{org\}(/repos|/installation)?
    | /installation/(repositories|token) | /user/repos
    | /app | /app/installations(/\{installation_id\}(/access_tokens)?)?
    | /app/hook/(config|deliveries(/\{delivery_id\}(/attempts)?)?)
    | /orgs/\{org\}/hooks/\{hook_id\}/deliveries(/\{delivery_id\}(/attempts)?)?
    | /search/(issues|repositories|code)
    | /repos/\{owner\}/\{repo\}
    | /repos/\{owner\}/\{repo\}/(
        issues | issues/\{issue_number\} | issues/\{issue_number\}/(comments|labels|labels/\{name\}
          |reactions|reactions/\{reaction_id\}|assignees|lock|events|timeline)
        | issues/comments | issues/comments/\{comment_id\}(/reactions(/\{reaction_id\})?)?
        | labels | labels/\{name\} | milestones | assignees | collaborators | collaborators/\{username\}
        | collaborators/\{username\}/permission
        | pulls | pulls/\{pull_number\} | pulls/\{pull_number\}/(files|commits|merge|requested_reviewers
          |reviews|reviews/\{review_id\}|reviews/\{review_id\}/(comments|dismissals|events)
          |comments|comments/\{comment_id\}/replies|update-branch)
        | pulls/comments/\{comment_id\}(/reactions(/\{reaction_id\})?)?
        | branches | branches/\{branch\} | commits | commits/\{ref\} | commits/\{ref\}/(check-runs|status)
        | commits/\{commit_sha\}/pulls | compare/\{basehead\} | contents/\{path\}
        | git/(blobs|commits|refs|trees) | git/(blobs/\{file_sha\}|commits/\{commit_sha\}|ref/\{ref\}
          |refs/\{ref\}|matching-refs/\{ref\}|trees/\{tree_sha\})
        | rules/branches/\{branch\} | rulesets/\{ruleset_id\}
        | check-runs | check-runs/\{check_run_id\}(/annotations)? | statuses/\{sha\}
        | actions/jobs/\{job_id\}(/logs)? | actions/runs/\{run_id\}/jobs
        | actions/runs | actions/runs/\{run_id\} | dispatches | forks | merge-upstream | topics | installation
        | hooks | hooks/\{hook_id\}(/deliveries(/\{delivery_id\}(/attempts)?)?)?
    ))$""",
    re.X,
)
WEBHOOKS = ["pull-request-opened", "pull-request-synchronize", "pull-request-labeled",
            "pull-request-ready-for-review", "pull-request-reopened", "issue-comment-created",
            "pull-request-review-comment-created", "pull-request-review-submitted",
            "workflow-run-completed", "check-suite-completed",
            "issues-opened", "issues-labeled"]
DROP = {"description", "example", "examples", "externalDocs", "operationId", "tags", "summary", "title",
        "deprecated", "default"}


def strip(node, inside_properties=False):
    if isinstance(node, list):
        return [strip(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for key, value in node.items():
        if not inside_properties and (key in DROP or key.startswith("x-")):
            continue
        kept[key] = strip(value, key in ("properties", "schemas") and not inside_properties)
    return kept


def references(node, found):
    if isinstance(node, list):
        for item in node:
            references(item, found)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            found.add(node["$ref"])
        for item in node.values():
            references(item, found)


def main():
    full = json.load(open(sys.argv[1]))
    webhooks = sys.argv[2:] == ["webhooks"]
    paths = {path: strip(item) for path, item in full["paths"].items() if KEEP.match(path) and not webhooks}
    components, todo, done = {}, set(), set()
    references(paths, todo)
    if webhooks:
        todo |= {f"#/components/schemas/webhook-{name}" for name in WEBHOOKS}
    while todo:
        reference = todo.pop()
        done.add(reference)
        _, _, kind, name = reference.split("/")
        value = strip(full["components"][kind][name])
        components.setdefault(kind, {})[name] = value
        found = set()
        references(value, found)
        todo |= found - done
    components = {kind: dict(sorted(items.items())) for kind, items in sorted(components.items())}
    title = "GitHub webhooks, trimmed" if webhooks else "GitHub REST API, trimmed"
    json.dump({"openapi": full["openapi"], "info": {"title": title, "version": full["info"]["version"]},
               "paths": paths, "components": components}, sys.stdout, separators=(",", ":"), sort_keys=False)


main()
