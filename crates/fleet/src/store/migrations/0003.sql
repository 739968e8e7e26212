-- What runs came to, for the dashboard: one row for each, and sums by day, so that no chart counts rows.
CREATE TABLE runs (
    id {id},
    at BIGINT NOT NULL,
    run TEXT,
    about TEXT NOT NULL,
    repository TEXT NOT NULL,
    number BIGINT,
    conclusion TEXT NOT NULL,
    text TEXT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    milliseconds BIGINT NOT NULL
);
CREATE INDEX runs_by_repository ON runs ((lower(repository)), id);
CREATE INDEX runs_by_number ON runs (number, id);
CREATE INDEX runs_by_conclusion ON runs (conclusion, id);
CREATE INDEX runs_by_time ON runs (at);

CREATE TABLE run_days (
    day BIGINT NOT NULL,
    conclusion TEXT NOT NULL,
    runs BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    milliseconds BIGINT NOT NULL,
    PRIMARY KEY (day, conclusion)
);

CREATE INDEX jobs_by_age ON jobs (state, created_at);
