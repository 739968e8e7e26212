-- When the pause that ends at `until_at` began; 0 where a version before wrote it. What began later than now was written by a
-- clock that has been set back since, and its end is no more to be believed.
ALTER TABLE outages ADD COLUMN paused_at BIGINT NOT NULL DEFAULT 0;
