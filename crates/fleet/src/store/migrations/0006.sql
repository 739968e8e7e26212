-- GitHub's node id of the repository, the same whatever it is called and whoever owns it.
ALTER TABLE targets ADD COLUMN repository_id TEXT;
-- When the publisher took it up last, and when it was done with it.
ALTER TABLE targets ADD COLUMN publishing_at BIGINT;
ALTER TABLE targets ADD COLUMN published_at BIGINT;
-- When its pull request was merged or closed.
ALTER TABLE targets ADD COLUMN closed_at BIGINT;
-- What publishing it has written on GitHub.
ALTER TABLE targets ADD COLUMN writes BIGINT NOT NULL DEFAULT 0;
-- When `batch close` began to close its pull request, until nothing is left to do there.
ALTER TABLE targets ADD COLUMN closing_at BIGINT;

-- A repository that was renamed is the same, and one that took over a name is another.
DROP INDEX targets_once;
CREATE UNIQUE INDEX targets_once ON targets
    (campaign, (COALESCE(repository_id, lower(repository))), (COALESCE(number, 0)), base_sha);
CREATE INDEX targets_by_id ON targets (repository_id, campaign);
-- Whether a campaign has anything of a state, without reading its targets.
CREATE INDEX targets_by_state ON targets (campaign, state, wave);
CREATE INDEX targets_misconfigured ON targets (campaign) WHERE class = 'configuration';

-- The end of a run was overwritten when its pull request was opened, merged or closed. The events still say
-- when each of these was.
UPDATE targets SET
    ended_at = COALESCE(told.made, targets.ended_at),
    publishing_at = told.publishing,
    published_at = told.opened,
    closed_at = CASE WHEN targets.state IN ('merged', 'closed') THEN told.closed END
FROM (
    SELECT e.target AS target,
        MIN(CASE WHEN e.kind IN ('ready', 'held') THEN e.at END) AS made,
        MAX(CASE WHEN e.kind = 'publishing' THEN e.at END) AS publishing,
        MIN(CASE WHEN e.kind IN ('open', 'draft') THEN e.at END) AS opened,
        MAX(CASE WHEN e.kind IN ('merged', 'closed') THEN e.at END) AS closed
    FROM events e JOIN targets t ON t.id = e.target AND e.at >= t.started_at
    GROUP BY e.target
) told
WHERE told.target = targets.id AND targets.ended_at IS NOT NULL;
