-- Where its base branch was when its open pull request was last seen to fit there, other than where it was made.
ALTER TABLE targets ADD COLUMN fits_sha TEXT;
-- What the checks of the last run said of its change, whether a command of its setup failed, and how long it took with
-- what it had taken before it was interrupted.
ALTER TABLE targets ADD COLUMN checks TEXT;
ALTER TABLE targets ADD COLUMN setup_failed BIGINT;
ALTER TABLE targets ADD COLUMN run_ms BIGINT;
