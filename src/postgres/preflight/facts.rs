//! What the server says of itself, of the role and of a table.

use tokio_postgres::{Client, Row};

use super::service::{ALL, Service};
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
    pub service: Service,
    /// What the service's own parameter for `wal_level` says.
    pub logical_parameter: Option<String>,
    pub max_replication_slots: i64,
    pub used_replication_slots: i64,
    pub max_wal_senders: i64,
    pub used_wal_senders: i64,
    /// PostgreSQL 17 and later: what the server sends to no relay before these standbys have it.
    pub synchronized_standby_slots: Option<String>,
    /// PostgreSQL 17 and later: what this server would do as a standby.
    pub sync_replication_slots: Option<bool>,
    pub role: String,
    pub superuser: bool,
    pub replication: bool,
    /// A member of `rds_replication`, which stands for the attribute on Amazon's services.
    pub managed_replication: bool,
    /// CREATE on the database: needed for a publication.
    pub may_create: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// SELECT on the table and USAGE on its schema.
    pub readable: bool,
    /// The same with DELETE.
    pub deletable: bool,
    /// The role may act as its owner.
    pub owned: bool,
    /// Policies apply to this role.
    pub row_security: bool,
}

const FACTS: &str = "
    SELECT current_setting('server_version_num')::int4 AS version,
           current_setting('server_version') AS version_text,
           current_database()::text AS database, pg_is_in_recovery() AS in_recovery,
           current_setting('wal_level') AS wal_level,
           current_setting('max_replication_slots')::bigint AS max_slots,
           (SELECT count(*) FROM pg_replication_slots) AS used_slots,
           current_setting('max_wal_senders')::bigint AS max_senders,
           (SELECT count(*) FROM pg_stat_replication) AS used_senders,
           ARRAY(SELECT rolname::text FROM pg_roles) AS roles,
           ARRAY(SELECT proname::text FROM pg_proc WHERE proname = 'aurora_version') AS functions,
           current_setting('rds.logical_replication', true) AS rds,
           current_setting('cloudsql.logical_decoding', true) AS cloudsql,
           current_setting('alloydb.logical_decoding', true) AS alloydb,
           current_setting('synchronized_standby_slots', true) AS synchronized_standbys,
           current_setting('sync_replication_slots', true)::bool AS syncs_slots,
           r.rolname::text AS role, r.rolsuper, r.rolreplication,
           EXISTS (SELECT FROM pg_roles m
                    WHERE m.rolname = 'rds_replication'
                      AND pg_has_role(r.oid, m.oid, 'MEMBER')) AS managed_replication,
           has_database_privilege(current_database(), 'CREATE') AS may_create
      FROM pg_roles r
     WHERE r.rolname = current_user";

impl ServerFacts {
    pub async fn read(client: &Client) -> Result<Self, PostgresError> {
        let row = client.query_one(FACTS, &[]).await?;
        let service = service(&row)?;
        Ok(Self {
            version: u32::try_from(row.try_get::<_, i32>("version")?).unwrap_or(0),
            version_text: row.try_get("version_text")?,
            database: row.try_get("database")?,
            in_recovery: row.try_get("in_recovery")?,
            wal_level: row.try_get("wal_level")?,
            service,
            logical_parameter: match service {
                Service::AmazonRds | Service::AmazonAurora => row.try_get("rds")?,
                Service::CloudSql => row.try_get("cloudsql")?,
                Service::AlloyDb => row.try_get("alloydb")?,
                Service::Own | Service::Azure => None,
            },
            max_replication_slots: row.try_get("max_slots")?,
            used_replication_slots: row.try_get("used_slots")?,
            max_wal_senders: row.try_get("max_senders")?,
            used_wal_senders: row.try_get("used_senders")?,
            synchronized_standby_slots: row.try_get("synchronized_standbys")?,
            sync_replication_slots: row.try_get("syncs_slots")?,
            role: row.try_get("role")?,
            superuser: row.try_get("rolsuper")?,
            replication: row.try_get("rolreplication")?,
            managed_replication: row.try_get("managed_replication")?,
            may_create: row.try_get("may_create")?,
        })
    }
}

/// The first whose role or function exists.
fn service(row: &Row) -> Result<Service, PostgresError> {
    let roles: Vec<&str> = row.try_get("roles")?;
    let functions: Vec<&str> = row.try_get("functions")?;
    let is_here = |service: &Service| match (service.function(), service.role()) {
        (Some(function), _) => functions.contains(&function),
        (None, Some(role)) => roles.contains(&role),
        (None, None) => false,
    };
    Ok(ALL.into_iter().find(is_here).unwrap_or_default())
}

impl TableFacts {
    pub async fn read(client: &Client, table: &OutboxTable) -> Result<Self, PostgresError> {
        let row = client
            .query_one(
                "SELECT has_schema_privilege(c.relnamespace, 'USAGE')
                            AND has_table_privilege(c.oid, 'SELECT') AS readable,
                        has_schema_privilege(c.relnamespace, 'USAGE')
                            AND has_table_privilege(c.oid, 'SELECT')
                            AND has_table_privilege(c.oid, 'DELETE') AS deletable,
                        pg_has_role(c.relowner, 'USAGE') AS owned,
                        row_security_active(c.oid) AS row_security
                   FROM pg_class c WHERE c.oid = $1",
                &[&table.oid],
            )
            .await?;
        Ok(Self {
            readable: row.try_get("readable")?,
            deletable: row.try_get("deletable")?,
            owned: row.try_get("owned")?,
            row_security: row.try_get("row_security")?,
        })
    }
}
