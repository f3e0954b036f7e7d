// Statements that read and write a project database for an archive. They run in sessions that find nothing of the tenant
// by name (search_path is empty), so every name has its schema.
import { guardedSettings, type Session } from '#src/kernel/postgres/database.ts'
import { identifier, literal, sql } from '#src/kernel/postgres/sql.ts'
import type { CopiedTable, LargeObject, LargeObjectRight, Sequence } from './manifest.ts'
import { holdNames } from './sequences-store.ts'

/** What a backup may contain. Its lists are in memory, and pg_dump locks every relation. */
export const mostObjects = {
  relations: 10_000,
  columns: 100_000,
  largeObjects: 10_000,
  commentBytes: 1024 * 1024,
  textBytes: 32 * 1024 * 1024,
}

/** Texts of the catalogue that pg_dump has in memory. Compressed, they can be short on the disk. */
const schemaTexts = `
  select pg_catalog.octet_length(description) from pg_catalog.pg_description
  union all select pg_catalog.octet_length(label) from pg_catalog.pg_seclabel
  union all select pg_catalog.octet_length(prosrc) from pg_catalog.pg_proc where oid >= 16384
  union all select pg_catalog.octet_length(pg_catalog.array_to_string(proconfig, ' ')) from pg_catalog.pg_proc where oid >= 16384
  union all select pg_catalog.octet_length(enumlabel::pg_catalog.text) from pg_catalog.pg_enum
  union all select pg_catalog.octet_length(tgargs) from pg_catalog.pg_trigger
  union all select pg_catalog.octet_length(dictinitoption) from pg_catalog.pg_ts_dict`

/** One snapshot for all sessions of a backup. */
export const beginSnapshot =
  // A tenant may hold a lock on its tables for as long as it likes.
  "set lock_timeout = '60s'; begin isolation level repeatable read read only"
export const exportSnapshot = 'select pg_catalog.pg_export_snapshot() as snapshot'
export const useSnapshot = (snapshot: string) => `${beginSnapshot}; set transaction snapshot '${snapshot}'`

export const selectExtent = `
  select count(distinct c.oid) filter (where c.relkind <> 'c') as relations, count(a.attnum) as columns,
         (select count(*) from (
           select from pg_catalog.pg_largeobject_metadata limit ${mostObjects.largeObjects + 1}) found) as "largeObjects",
         (select coalesce(sum(pg_catalog.octet_length(description)), 0) from pg_catalog.pg_description
           where classoid = 'pg_catalog.pg_largeobject'::pg_catalog.regclass) as "commentBytes",
         (select coalesce(sum(bytes), 0) from (${schemaTexts}) texts (bytes)) as "textBytes"
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0
   where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S', 'c') and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'`

export const selectServer = `select pg_catalog.current_setting('server_version') as version`

/**
 * Types whose values COPY reads and writes faster in binary. Only built-in ones whose binary form is the same in every
 * database and version, and the same again after a restore. Others contain numbers of types or relations, which a restored
 * database has not. An array remembers that it once had nulls, and forgets it in a restore.
 */
const binaryTypes = `
  bool int2 int4 int8 float4 float8 numeric text varchar bpchar bytea uuid json jsonb
  date time timetz timestamp timestamptz interval inet cidr tsvector`
  .trim()
  .split(/\s+/)
  .map(name => `pg_catalog.${name}`)

/** Tables with rows of their own, the largest first. Of tables of extensions only those that the extension wants dumped. */
export const selectTables = `
  select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, pg_catalog.pg_get_userbyid(c.relowner) as owner,
         x.condition, d.objid is not null as is_of_extension,
         (select pg_catalog.json_agg(pg_catalog.quote_ident(a.attname) order by a.attnum) from pg_catalog.pg_attribute a
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
         not exists (
           select from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and t.typtype <> 'e'
              and t.oid <> all ('{${binaryTypes.join(',')}}'::pg_catalog.regtype[])) as can_be_binary
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join pg_catalog.pg_depend d
      on d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype = 'e'
    left join lateral (
      select e.extcondition[pg_catalog.array_position(e.extconfig, c.oid)] as condition
        from pg_catalog.pg_extension e where c.oid = any(e.extconfig)) x on true
   where c.relkind = 'r' and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
     and (d.objid is null or x.condition is not null)
   order by c.relpages desc, 1`

export const selectExtensions = `
  select e.extname as name, pg_catalog.pg_get_userbyid(e.extowner) as owner
    from pg_catalog.pg_extension e where e.extname <> 'plpgsql' order by 1`

/** In the order of their creation, so that each comes after those it reads. */
export const selectMaterialized = `
  select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, pg_catalog.pg_get_userbyid(c.relowner) as owner
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where c.relkind = 'm' and c.relispopulated order by c.oid`

export const selectLargeObjects = `
  select m.oid::pg_catalog.text as oid, pg_catalog.pg_get_userbyid(m.lomowner) as owner,
         pg_catalog.obj_description(m.oid, 'pg_largeobject') as comment,
         case when m.lomacl is not null then (
           select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
                    'grantor', pg_catalog.pg_get_userbyid(a.grantor),
                    'grantee', case when a.grantee <> 0 then pg_catalog.pg_get_userbyid(a.grantee) end,
                    'right', a.privilege_type, 'grantable', a.is_grantable)
                    order by a.grantor <> m.lomowner, pg_catalog.pg_get_userbyid(a.grantor),
                             pg_catalog.pg_get_userbyid(a.grantee), a.privilege_type), '[]')
             from pg_catalog.aclexplode(m.lomacl) a)::pg_catalog.text end as rights
    from pg_catalog.pg_largeobject_metadata m order by m.oid`
export const copyLargeObjects =
  'copy (select loid, pageno, data from pg_catalog.pg_largeobject order by 1, 2) to stdout'

/** Tables that refer to relations by number, which differs in every database. */
export const namedTables = [
  'platform.seen',
  'platform.realtime_tables',
  'platform.webhook_attachments',
] as const
/** An older release has not all of them. */
export const selectNamedTables = `
  select name from pg_catalog.unnest(array[${namedTables.map(literal).join(', ')}]) as name
   where pg_catalog.to_regclass(name) is not null`
/** As one JSON text, because a cell has only text. */
export const selectNamed = (table: string) => `
  select coalesce(pg_catalog.json_agg(
           pg_catalog.to_jsonb(t) - 'relid' || pg_catalog.jsonb_build_object('name', t.relid::pg_catalog.regclass)), '[]') as rows
    from ${table} t join pg_catalog.pg_class c on c.oid = t.relid`
export const insertNamed = (table: string, rows: string) => `
  insert into ${table}
  select r.* from pg_catalog.jsonb_array_elements(${literal(rows)}::pg_catalog.jsonb) as x
   cross join lateral pg_catalog.jsonb_populate_record(null::${table},
     x || pg_catalog.jsonb_build_object('relid', pg_catalog.to_regclass(x ->> 'name')::pg_catalog.oid)) as r
   where pg_catalog.to_regclass(x ->> 'name') is not null`

/** What concerns only the running database: changes that wait for their readers, who listens, the age of the catalogue. */
export const forgottenTables: readonly string[] = [
  'platform.changes',
  'platform.webhook_changes',
  'platform.listening',
  'platform.catalog_change',
  ...namedTables,
]
/** Counts changes of the catalogue, of which a restore makes some itself. */
export const uncompared: readonly string[] = ['platform.catalog_version', 'platform.catalog_versions']
/** Columns with transaction numbers, which mean nothing in another server. Their default is a new one. */
export const renewedColumns: Readonly<Record<string, readonly string[]>> = {
  'auth.revocations': ['xid'],
  'platform.events': ['xid'],
}

export const isOfPlatform = (name: string) => name.startsWith('platform.')
/** Tables whose rows describe the schema: applied migrations, queues and buckets. */
export const isNeededWithoutRows = (name: string) =>
  (isOfPlatform(name) && name !== 'platform.events') ||
  name.startsWith('supabase_migrations.') ||
  name === 'pgmq.meta' ||
  name === 'storage.buckets'

/** A binary copy without rows is a header of 19 bytes and an end of 2. In text it is empty. */
export const emptyBinaryBytes = 21
const format = (isBinary: boolean) => (isBinary ? ' (format binary)' : '')
const list = (columns: readonly string[]) => (columns.length > 0 ? ` (${columns.join(', ')})` : '')

/** COPY of a table is not planned and calls no casts, so it is safe whatever has the name. */
export const copyTable = ({ name, columns, condition, isBinary = false }: CopiedTable) =>
  condition
    ? `copy (select ${columns.join(', ')} from ${name} ${condition}) to stdout${format(isBinary)}`
    : `copy ${name}${list(columns)} to stdout${format(isBinary)}`
/**
 * A condition is planned. So the table must be that of the superuser, to which the tenant can add nothing. Its name must not
 * go to another relation before it is read.
 */
export const holdTable = (name: string) =>
  holdNames(
    [name],
    `lock table ${name} in access share mode`,
    `select c.relkind = 'r' and r.rolsuper from pg_catalog.pg_class c join pg_catalog.pg_roles r on r.oid = c.relowner
      where c.oid = pg_catalog.to_regclass(given.name)`,
  )
export const fillTable = ({ name, columns, isBinary = false }: CopiedTable) =>
  `copy ${name}${list(columns)} from stdin${format(isBinary)}`

// Into an empty database

/** Connection limit 0 rejects logins until CONNECT is revoked from PUBLIC. */
export const createEmpty = (database: string) =>
  `create database ${identifier(database)} template template0 encoding 'UTF8' connection limit 0`
export const closeToOthers = (database: string) =>
  `revoke all on database ${identifier(database)} from public`
/** The owner connects with its own login. In one transaction with the end of the limit. */
export const openToOwner = (database: string, owner: string) =>
  `grant connect, create, temporary on database ${identifier(database)} to ${identifier(owner)};
   alter database ${identifier(database)} connection limit 30`
export const closeToOwner = (database: string, owner: string) =>
  `revoke connect on database ${identifier(database)} from ${identifier(owner)}`
export const ownPid = 'select pg_catalog.pg_backend_pid() as pid'
/** Ends the sessions of the database that are not of a superuser, but for the given one, and returns them. */
export const endOtherSessions = (kept: string) => `
  select a.pid, pg_catalog.pg_terminate_backend(a.pid, 5000) as has_ended
    from pg_catalog.pg_stat_activity a join pg_catalog.pg_roles r on r.oid = a.usesysid
   where a.datname = pg_catalog.current_database() and not r.rolsuper and a.pid <> ${Number(kept)}`
export const findTable = (name: string) =>
  `select pg_catalog.to_regclass(${literal(name)}) is not null as is_there`
export const lendTable = (name: string, owner: string) => `grant insert on ${name} to ${identifier(owner)}`
export const takeBackTable = (name: string, owner: string) =>
  `revoke insert on ${name} from ${identifier(owner)}`
export const ownSchema = (schema: string, owner: string) =>
  `alter schema ${identifier(schema)} owner to ${identifier(owner)}`
export const lendSchemas = (used: readonly string[], homes: readonly string[], owner: string) =>
  [...used.map(each => ['usage', each]), ...homes.map(each => ['create', each])]
    .map(([right, each]) => `grant ${right} on schema ${identifier(each!)} to ${identifier(owner)}`)
    .join(';')
export const takeBackSchemas = (schemas: readonly string[], owner: string) =>
  `revoke create, usage on schema ${schemas.map(identifier).join(', ')} from ${identifier(owner)}`
export const giveObject = (subject: string, owner: string) => `alter ${subject} owner to ${identifier(owner)}`
export const setSequence = ({ name, value, is_called: isCalled }: Sequence) =>
  `select pg_catalog.setval(${literal(name)}, ${literal(value)}::pg_catalog.int8, ${literal(isCalled)}::pg_catalog.bool)`
export const refresh = (name: string) => `refresh materialized view ${name}`
export const makeLargeObjects = (objects: readonly LargeObject[]) => objects.map(makeLargeObject).join('\n')
function makeLargeObject({ oid, owner, rights, comment }: LargeObject): string {
  const object = `large object ${Number(oid)}`
  return [
    `select pg_catalog.lo_create(${literal(oid)}::pg_catalog.oid);`,
    `alter ${object} owner to ${identifier(owner)};`,
    ...(comment ? [`comment on ${object} is ${literal(comment)};`] : []),
    ...(rights ? [`revoke all on ${object} from ${identifier(owner)};`] : []),
    ...(JSON.parse(rights ?? '[]') as LargeObjectRight[]).map(each => grantRight(object, owner, each)),
  ].join('\n')
}
/** The superuser grants as the owner. To grant runs no code of the tenant. */
function grantRight(object: string, owner: string, { grantor, grantee, right, grantable }: LargeObjectRight) {
  const to = grantee === null ? 'public' : identifier(grantee)
  const grant = `grant ${right} on ${object} to ${to}${grantable ? ' with grant option' : ''};`
  return grantor === owner ? grant : `set role ${identifier(grantor)}; ${grant} reset role;`
}
export const pageTable = 'create temporary table pages (loid oid, pageno int, data bytea)'
export const fillPages = 'copy pg_temp.pages from stdin'
export const putPages =
  'select pg_catalog.lo_put(loid, pageno::pg_catalog.int8 * 2048, data) from pg_temp.pages'
export const analyze = 'analyze'

// Before a restored database becomes that of the project

export const restoredSettings = { ...guardedSettings, search_path: 'pg_catalog' }

export const readCatalogVersion = async (session: Session) =>
  (await session.row<{ version: string }>(
    sql`select max(version)::text as version from platform.catalog_version`,
  ))!.version

/** What a copy of the files contains and an archive does not. */
export const forgetRunning = (session: Session) =>
  session.script('truncate platform.changes, platform.webhook_changes, platform.listening')

/** Changes of the schema meanwhile take numbers, too. */
const skippedNumbers = 1000

/** Events that wait to be handled were handled after the backup, or are out of date. */
export async function finishRestored(session: Session, liveVersion: string): Promise<void> {
  await session.run(sql`
    with latest as (select max(version) as version from platform.catalog_version),
         removed as (delete from platform.catalog_version)
    insert into platform.catalog_version
    select setval('platform.catalog_versions', greatest(${liveVersion}::int8, version) + ${skippedNumbers}) from latest`)
  await session.run(sql`delete from platform.events where is_due`)
}
