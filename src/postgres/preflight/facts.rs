//! What the server says of itself, of the role and of a table.

use std::time::Duration;

use tokio_postgres::Client;

use crate::postgres::PostgresError;
use crate::postgres::table::OutboxTable;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// `server_version_num`
    pub version: u32,
    pub version_text: String,
    pub database: String,
    pub in_recovery: bool,
    pub wal_level: String,
    pub max_replication_slots: i64,
    pub used_replication_slots: i64,
    pub max_wal_senders: i64,
    pub used_wal_senders: i64,
    /// Megabytes; -1 without a limit.
    pub max_slot_wal_keep_size_mb: i64,
    /// PostgreSQL 17 and later: what the server sends to no relay before these standbys have it.
    pub synchronized_standby_slots: Option<String>,
    /// PostgreSQL 17 and later: what this server would do as a standby.
    pub sync_replication_slots: Option<bool>,
    pub role: String,
    pub superuser: bool,
    pub replication: bool,
    /// A member of the role that a managed service gives instead of the attribute.
    pub managed_replication: bool,
    /// CREATE on the database: needed for a publication.
    pub may_create: bool,
    /// The oldest transaction with an id of its own: a new slot waits for its end.
    pub oldest_transaction: Option<OpenTransaction>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    pub pid: i32,
    pub age: Duration,
    pub application: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// SELECT on the table and USAGE on its schema.
    pub readable: bool,
    /// The role may act as its owner.
    pub owned: bool,
    /// Policies apply to this role.
    pub row_security: bool,
}

/// Roles that carry the right to replicate where the attribute cannot be had: Amazon RDS, Azure
/// and Google Cloud SQL name theirs so.
const FACTS: &str = "
    SELECT current_setting('server_version_num')::int4 AS version,
           current_setting('server_version') AS version_text,
           current_database()::text AS database, pg_is_in_recovery() AS in_recovery,
           current_setting('wal_level') AS wal_level,
           current_setting('max_replication_slots')::bigint AS max_slots,
           (SELECT count(*) FROM pg_replication_slots) AS used_slots,
           current_setting('max_wal_senders')::bigint AS max_senders,
           (SELECT count(*) FROM pg_stat_replication) AS used_senders,
           (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size')
               AS keep_mb,
           current_setting('synchronized_standby_slots', true) AS synchronized_standbys,
           current_setting('sync_replication_slots', true)::bool AS syncs_slots,
           r.rolname::text AS role, r.rolsuper, r.rolreplication,
           EXISTS (SELECT FROM pg_roles m
                    WHERE m.rolname IN ('rds_replication', 'azure_pg_admin', 'cloudsqlsuperuser')
                      AND pg_has_role(r.oid, m.oid, 'MEMBER')) AS managed_replication,
           has_database_privilege(current_database(), 'CREATE') AS may_create
      FROM pg_roles r
     WHERE r.rolname = current_user";

const OLDEST: &str = "
    SELECT pid, coalesce(application_name, '') AS application,
           extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age_s
      FROM pg_stat_activity
     WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
     ORDER BY xact_start LIMIT 1";

impl ServerFacts {
    pub async fn read(client: &Client) -> Result<Self, PostgresError> {
        let row = client.query_one(FACTS, &[]).await?;
        let oldest = client.query_opt(OLDEST, &[]).await?;
        Ok(Self {
            version: u32::try_from(row.try_get::<_, i32>("version")?).unwrap_or(0),
            version_text: row.try_get("version_text")?,
            database: row.try_get("database")?,
            in_recovery: row.try_get("in_recovery")?,
            wal_level: row.try_get("wal_level")?,
            max_replication_slots: row.try_get("max_slots")?,
            used_replication_slots: row.try_get("used_slots")?,
            max_wal_senders: row.try_get("max_senders")?,
            used_wal_senders: row.try_get("used_senders")?,
            max_slot_wal_keep_size_mb: row.try_get::<_, Option<i64>>("keep_mb")?.unwrap_or(-1),
            synchronized_standby_slots: row.try_get("synchronized_standbys")?,
            sync_replication_slots: row.try_get("syncs_slots")?,
            role: row.try_get("role")?,
            superuser: row.try_get("rolsuper")?,
            replication: row.try_get("rolreplication")?,
            managed_replication: row.try_get("managed_replication")?,
            may_create: row.try_get("may_create")?,
            oldest_transaction: match oldest {
                Some(row) => Some(OpenTransaction {
                    pid: row.try_get("pid")?,
                    age: Duration::try_from_secs_f64(row.try_get("age_s")?).unwrap_or_default(),
                    application: row.try_get("application")?,
                }),
                None => None,
            },
        })
    }
}

impl TableFacts {
    pub async fn read(client: &Client, table: &OutboxTable) -> Result<Self, PostgresError> {
        let row = client
            .query_one(
                "SELECT has_schema_privilege(c.relnamespace, 'USAGE')
                            AND has_table_privilege(c.oid, 'SELECT') AS readable,
                        pg_has_role(c.relowner, 'USAGE') AS owned,
                        row_security_active(c.oid) AS row_security
                   FROM pg_class c WHERE c.oid = $1",
                &[&table.oid],
            )
            .await?;
        Ok(Self {
            readable: row.try_get("readable")?,
            owned: row.try_get("owned")?,
            row_security: row.try_get("row_security")?,
        })
    }
}
