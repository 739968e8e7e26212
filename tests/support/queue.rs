//! A long queue in a database of the store's: ten thousand jobs that wait and two hundred that run, in
//! campaigns with every limit.
#![allow(dead_code, reason = "each user needs a part")]

pub(crate) const CAMPAIGNS: [&str; 3] = ["tidy-a", "tidy-b", "tidy-c"];

/// Fills a database whose schema is there, in the database's own words.
pub(crate) async fn fill(url: &str) {
    sqlx::any::install_default_drivers();
    let pool = sqlx::any::AnyPoolOptions::new().max_connections(1).connect(url).await.unwrap();
    let now = if url.starts_with("sqlite") {
        "CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)"
    } else {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
    let mut statements: Vec<String> = CAMPAIGNS
        .iter()
        .map(|id| {
            format!(
                "INSERT INTO campaigns (id, name, spec_hash, spec, state, wave, concurrency,
                    per_organization, budget_usd, spent_usd, created_at, updated_at)
                 VALUES ('{id}', '{id}', 'h', '{{}}', 'running', 0, 5000, 2000, 100000.0, 5.0, 1, 1)"
            )
        })
        .collect();
    let mut rows = |from: i64, to: i64, state: &str, lease: &str| {
        let campaigns = CAMPAIGNS.len();
        statements.push(format!(
            "INSERT INTO jobs (kind, key, campaign, subject, lane, organization, priority, max_attempts,
                reserve_usd, run_at, state, attempt, epoch, owner, lease_until, lease_ms, created_at,
                updated_at)
             WITH RECURSIVE n (i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})
             SELECT 'target', 'target:' || i, CASE i % {campaigns} WHEN 0 THEN '{}' WHEN 1 THEN '{}'
                    ELSE '{}' END, CAST(i AS TEXT), 'repository:acme/' || i, 'org' || (i % 7), 0, 3,
                1.0, i, '{state}', 0, 0, 'w', {lease}, 3600000, i, 1 FROM n",
            CAMPAIGNS[0], CAMPAIGNS[1], CAMPAIGNS[2],
        ));
    };
    rows(1, 10_000, "queued", "0");
    rows(10_001, 10_200, "running", &format!("{now} + 3600000"));
    // Of which there are the most in a database of some age.
    rows(10_201, 40_000, "done", "0");
    // What one of them may touch: twenty thousand names and ids.
    let id = CAMPAIGNS[0];
    statements
        .push(format!("INSERT INTO selections (campaign, digest, has_ids) VALUES ('{id}', '', 1)"));
    statements.push(format!(
        "INSERT INTO selected (campaign, name)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         SELECT '{id}', 'acme/app-' || i FROM n UNION ALL SELECT '{id}', 'id:R_' || i FROM n"
    ));
    if !url.starts_with("sqlite") {
        // As its autovacuum does after a while. SQLite counts nothing by itself.
        statements.push("ANALYZE".to_owned());
    }
    for text in statements {
        sqlx::query(sqlx::AssertSqlSafe(text)).execute(&pool).await.unwrap();
    }
    pool.close().await;
}
