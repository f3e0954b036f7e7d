-- The number of the current schema. Statements made from a remembered catalogue name the number they were made
-- for and end by comparing it: whatever raced with a change of the schema is undone and made anew.

create table platform.catalog_version (version bigint primary key);
create sequence platform.catalog_versions;
insert into platform.catalog_version values (nextval('platform.catalog_versions'));

-- One row per transaction that changes the schema; its deferred trigger counts up at commit, so that two such
-- transactions never wait for each other longer than a commit takes.
create table platform.catalog_change (xid xid8 primary key);
grant select on platform.catalog_version, platform.catalog_change to public;

-- Without figures the planner would take the one row for thousands.
analyze platform.catalog_version;
