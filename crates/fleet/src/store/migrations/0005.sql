-- Services that fail for every task, by name; the model's by campaign, because campaigns have different
-- ones ('' is of deliveries, and of services that all share). A row stays when the service works again.
CREATE TABLE outages (
    service TEXT NOT NULL,
    campaign TEXT NOT NULL,
    -- Ids of the jobs that it cut off since it worked last, with commas between them.
    jobs TEXT NOT NULL,
    -- When it began; absent while the service works.
    since BIGINT,
    -- How often nothing was begun for a while; 0 while there is only a suspicion.
    pauses BIGINT NOT NULL,
    -- Nothing that needs it is begun before this.
    until_at BIGINT NOT NULL,
    -- The job that was let through to see whether it works again.
    probe BIGINT,
    -- When it was last seen to work after an outage.
    worked_at BIGINT NOT NULL,
    why TEXT,
    PRIMARY KEY (service, campaign)
);
-- When an outage cut the job off last.
ALTER TABLE jobs ADD COLUMN cut_at BIGINT;
