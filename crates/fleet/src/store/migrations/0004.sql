-- What a claim reads: the first queued job of each group, without a look at those behind it.
-- Partial, so that ended jobs, of which there are many, are not in them. `campaign` and `lane` may be
-- absent; PostgreSQL keeps the order of an index behind an equation, but not behind IS NULL.
CREATE INDEX jobs_next
    ON jobs ((COALESCE(campaign, '')), kind, priority, run_at, id) WHERE state = 'queued';
-- The same for groups that one full organisation or one busy lane holds back as a whole.
CREATE INDEX jobs_next_apart
    ON jobs ((COALESCE(campaign, '')), kind,
        (CASE kind WHEN 'publish' THEN COALESCE(lane, '') ELSE COALESCE(organization, '') END),
        priority, run_at, id)
    WHERE state = 'queued';
-- Whether a budget pays for any of them.
CREATE INDEX jobs_cheapest ON jobs ((COALESCE(campaign, '')), kind, reserve_usd)
    WHERE state = 'queued';
-- Jobs that were queued by a clock that went ahead.
CREATE INDEX jobs_queued_ahead ON jobs (updated_at) WHERE state = 'queued';
-- What runs, and what was left behind.
CREATE INDEX jobs_running ON jobs (kind, campaign, organization) WHERE state = 'running';
