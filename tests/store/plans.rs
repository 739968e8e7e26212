//! How the databases answer what workers ask all the time, with a long queue: by an index, never by reading
//! all jobs. The statements are the product's own.

use patchwright_fleet::store::{HotStatement, Parameter};
use sqlx::{AssertSqlSafe, Connection, Row};

use super::Db;
use crate::support::postgres::postgres;
use crate::support::queue::{CAMPAIGNS, fill};

/// A value of the long queue for each thing that a statement is bound to.
fn value(bound: Parameter) -> String {
    match bound {
        Parameter::Now => "1790000000000".to_owned(),
        Parameter::Campaign => format!("'{}'", CAMPAIGNS[0]),
        Parameter::Kind => "'target'".to_owned(),
        Parameter::Priority => "0".to_owned(),
        Parameter::Part => "'org3'".to_owned(),
        Parameter::Job => "777".to_owned(),
        Parameter::Epoch | Parameter::Attempt => "1".to_owned(),
        Parameter::Owner => "'w'".to_owned(),
        Parameter::Lane => "'repository:acme/777'".to_owned(),
        Parameter::Length => "60000".to_owned(),
        Parameter::Repository => "'acme/app-777'".to_owned(),
    }
}

fn values(statement: &HotStatement) -> String {
    let values: Vec<String> = statement.bound.iter().map(|bound| value(*bound)).collect();
    values.join(", ")
}

/// The statement with the values in it.
fn filled(statement: &HotStatement) -> String {
    let mut text = statement.sql.clone();
    for (index, bound) in statement.bound.iter().enumerate() {
        text = text.replace(&format!("${}", index + 1), &value(*bound));
    }
    text
}

async fn long_queue(db: &Db) -> Vec<HotStatement> {
    db.open().await.close().await;
    fill(&db.url).await;
    let store = db.open().await;
    let statements = store.hot_statements();
    store.close().await;
    assert!(statements.len() > 10, "claims, renewals, releases, room");
    statements
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_reads_all_jobs_for_none_of_them() {
    let Some(server) = postgres().await else { return };
    let db = Db::postgres(&server).await;
    let statements = long_queue(&db).await;
    let mut connection = sqlx::PgConnection::connect(&db.url).await.unwrap();
    let generic = "SET plan_cache_mode = force_generic_plan";
    sqlx::raw_sql(generic).execute(&mut connection).await.unwrap();
    for (number, statement) in statements.iter().enumerate() {
        // With the values known, and for any values, as a prepared statement is planned after a while.
        let prepare = format!("PREPARE hot{number} AS {}", statement.sql);
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut connection).await.unwrap();
        let known = format!("EXPLAIN {}", filled(statement));
        let any = format!("EXPLAIN EXECUTE hot{number}({})", values(statement));
        for text in [known, any] {
            let begin = statement.begin.unwrap_or("BEGIN");
            sqlx::raw_sql(begin).execute(&mut connection).await.unwrap();
            let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut connection).await.unwrap();
            let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let plan = lines.join("\n");
            sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.unwrap();
            for table in ["jobs", "selected"] {
                let scan = format!("Seq Scan on {table}");
                assert!(!plan.contains(&scan), "{}:\n{plan}", statement.name);
            }
            // Compiling the plan takes a hundred times as long as carrying it out.
            assert!(!plan.contains("JIT:"), "{}:\n{plan}", statement.name);
        }
    }
}

/// Rows that each step of a plan gave on, and those that it looked at for nothing.
fn rows_touched(plan: &str) -> u64 {
    let number = |text: &str| -> u64 {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    let given = plan.split("actual time=").skip(1).map(|step| {
        let (rows, loops) = step.split_once(" rows=").unwrap().1.split_once(" loops=").unwrap();
        number(rows) * number(loops)
    });
    let in_vain = plan.split("Rows Removed by Filter: ").skip(1).map(number);
    given.chain(in_vain).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whether_one_of_ten_thousand_repositories_is_selected_is_asked_of_a_few_rows() {
    let Some(server) = postgres().await else { return };
    let db = Db::postgres(&server).await;
    let statements = long_queue(&db).await;
    let selected = statements.iter().find(|statement| statement.name == "selected").unwrap();
    let mut connection = sqlx::PgConnection::connect(&db.url).await.unwrap();
    let text = format!("EXPLAIN (ANALYZE) {}", filled(selected));
    let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut connection).await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let plan = lines.join("\n");
    // Counted by the server, of twenty thousand: the selection's own row, and one for the name.
    assert!((1..10).contains(&rows_touched(&plan)), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_reads_all_jobs_for_none_of_them() {
    let db = Db::sqlite();
    let statements = long_queue(&db).await;
    let path = db.url.trim_start_matches("sqlite:");
    let mut connection =
        sqlx::SqliteConnection::connect(&format!("sqlite://{path}")).await.unwrap();
    for statement in &statements {
        let text = format!("EXPLAIN QUERY PLAN {}", filled(statement));
        let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(&mut connection).await.unwrap();
        let lines: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        // What a wrong clock has queued is looked for among all that is queued.
        let is_ahead =
            statement.sql.contains("j.state = 'queued' AND j.updated_at > $1 + 60000 AND");
        let by_time = lines.iter().any(|line| line.contains("jobs_queued_ahead (updated_at>?)"));
        assert_eq!(is_ahead, by_time, "{}: {lines:#?}", statement.name);
        for line in lines {
            // The names that the statements give to the table of jobs. A scan is of all rows, with or
            // without an index; a search is not.
            let whole = ["jobs", "j", "o", "q", "n"].iter().any(|table| {
                line == format!("SCAN {table}") || line.starts_with(&format!("SCAN {table} "))
            });
            assert!(!whole, "{}: {line}\n{}", statement.name, statement.sql);
            // What is queued is `q`: found by an index of queued jobs that names all that is asked.
            let slow = line.starts_with("SEARCH q") && line.contains("jobs_by_");
            assert!(!slow, "{}: {line}\n{}", statement.name, statement.sql);
        }
    }
}
