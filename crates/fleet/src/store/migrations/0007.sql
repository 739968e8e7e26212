-- What a campaign may touch: names of repositories in lower case, and GitHub's ids of them after `id:`.
CREATE TABLE selected (
    campaign TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (campaign, name)
);
-- That somebody has looked, and by what a selection is known to be the same as before.
CREATE TABLE selections (
    campaign TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    has_ids BIGINT NOT NULL
);
