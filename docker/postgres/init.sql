-- What a service and its relay need; `outboxd setup` prints the same for your own configuration.
CREATE TABLE outbox (
    id            uuid   PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregatetype text   NOT NULL,
    aggregateid   text   NOT NULL,
    seq           bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    type          text   NOT NULL,
    payload       jsonb
);
CREATE ROLE outboxd LOGIN REPLICATION PASSWORD 'outboxd';
GRANT SELECT ON outbox TO outboxd;
CREATE PUBLICATION outbox FOR TABLE outbox
    WITH (publish = 'insert, update', publish_via_partition_root = true);
