-- Webhook deliveries, and what schedules have fired.
CREATE TABLE deliveries (
    guid TEXT PRIMARY KEY,
    event TEXT NOT NULL,
    action TEXT,
    repository TEXT,
    number BIGINT,
    installation BIGINT,
    body TEXT NOT NULL,
    received_at BIGINT NOT NULL
);

CREATE TABLE fired (
    id {id},
    schedule TEXT NOT NULL,
    moment TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE UNIQUE INDEX fired_once ON fired (schedule, moment);
