-- Campaigns, their targets and changes, jobs with leases, events, the pace of writes.
-- {id} and {bytes} are the two types whose names differ between SQLite and PostgreSQL.
CREATE TABLE campaigns (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    spec_hash TEXT NOT NULL,
    spec TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    wave BIGINT NOT NULL,
    concurrency BIGINT,
    per_organization BIGINT,
    budget_usd DOUBLE PRECISION,
    spent_usd DOUBLE PRECISION NOT NULL,
    tracking_issue TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX campaigns_by_name ON campaigns (name, created_at);

CREATE TABLE targets (
    id {id},
    campaign TEXT NOT NULL REFERENCES campaigns (id),
    repository TEXT NOT NULL,
    number BIGINT,
    base_branch TEXT NOT NULL,
    base_sha TEXT NOT NULL,
    wave BIGINT NOT NULL,
    state TEXT NOT NULL,
    class TEXT,
    reason TEXT,
    run TEXT,
    attempts BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    tokens BIGINT NOT NULL,
    pull_request BIGINT,
    url TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT
);
CREATE UNIQUE INDEX targets_once
    ON targets (campaign, (lower(repository)), (COALESCE(number, 0)), base_sha);
CREATE INDEX targets_by_repository ON targets ((lower(repository)), campaign);

CREATE TABLE changesets (
    target BIGINT PRIMARY KEY REFERENCES targets (id),
    repository TEXT NOT NULL,
    base_branch TEXT NOT NULL,
    base_sha TEXT NOT NULL,
    branch TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    tree TEXT NOT NULL,
    pack {bytes} NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    marker TEXT NOT NULL,
    draft BIGINT NOT NULL,
    labels TEXT NOT NULL,
    reviewers TEXT NOT NULL,
    change_id TEXT NOT NULL,
    files BIGINT NOT NULL,
    lines_added BIGINT NOT NULL,
    lines_removed BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX changesets_by_change ON changesets (change_id);

CREATE TABLE jobs (
    id {id},
    kind TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    campaign TEXT,
    subject TEXT NOT NULL,
    lane TEXT,
    organization TEXT,
    priority BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    reserve_usd DOUBLE PRECISION NOT NULL,
    run_at BIGINT NOT NULL,
    state TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    owner TEXT,
    lease_until BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL,
    why TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, kind, run_at);
CREATE INDEX jobs_by_lane ON jobs (lane, state);
CREATE INDEX jobs_by_campaign ON jobs (campaign, state);

CREATE TABLE events (
    id {id},
    at BIGINT NOT NULL,
    campaign TEXT NOT NULL,
    target BIGINT,
    repository TEXT,
    kind TEXT NOT NULL,
    text TEXT
);
CREATE INDEX events_by_campaign ON events (campaign, id);

CREATE TABLE pace (
    token TEXT PRIMARY KEY,
    closed_until BIGINT NOT NULL,
    recent TEXT NOT NULL
);

CREATE TABLE kept (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
