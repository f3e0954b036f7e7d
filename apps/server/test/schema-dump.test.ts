// The schema of a database as pg_dump reads it.
import assert from 'node:assert/strict'
import { chownSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type DumpedObject, readContents } from '#src/kernel/postgres/dump/contents.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { certificateFor } from './certificate.ts'
import { longText, useDumpedDatabase } from './dumped-database.ts'
import { eventually } from './eventually.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

// Its own server, because the shared one has no TLS.
let server: OwnServer
before(async () => {
  server = await startOwnServer()
})
const database = useDumpedDatabase(() => server.address)
const { dump, asSuperuser, owner, reader } = database
// Hooks run in the order of their registration: the database is dropped before.
after(() => server.stop())

const find = (objects: DumpedObject[], kind: string, tag: string): DumpedObject => {
  const found = objects.find(each => each.kind === kind && each.tag === tag)
  assert.ok(found, `${kind} ${tag}`)
  return found
}

test('schema dump: each object has its owner, schema, section and statements', async () => {
  const objects = readContents(await dump())
  const expected: [kind: string, tag: string, section: string, sql: RegExp][] = [
    ['TYPE', 'mood', 'pre', /AS ENUM \(\s+'calm',\s+'glad'\s+\);/],
    ['DOMAIN', 'percent', 'pre', /CHECK/],
    ['FUNCTION', 'twice(integer)', 'pre', /RETURN \(\$1 \* 2\)/],
    ['OPERATOR', '=~=', 'pre', /FUNCTION = public\.is_near/],
    ['TABLE', 'people', 'pre', /doubled integer GENERATED ALWAYS AS \(public\.twice\(.*\) STORED/],
    ['TABLE', 'people', 'pre', /length integer GENERATED ALWAYS AS \(length\(name\)\)[,\n]/],
    ['TABLE', 'people', 'pre', /DEFAULT 'Zoë'::text/],
    ['COMMENT', 'TABLE people', 'none', /IS 'People; with -- and ''quotes''';/],
    ['ACL', 'COLUMN people.name', 'none', new RegExp(`GRANT SELECT\\(name\\) .* TO ${reader};`)],
    ['VIEW', 'glad_people', 'pre', /CREATE VIEW/],
    ['SEQUENCE', 'people_id_seq', 'pre', /GENERATED ALWAYS AS IDENTITY/],
    ['TABLE', 'visits', 'pre', /PARTITION BY RANGE \(at\)/],
    ['TABLE ATTACH', 'visits_2026', 'pre', /FOR VALUES FROM \('2026-01-01'\) TO \('2027-01-01'\)/],
    ['CONSTRAINT', 'people people_pkey', 'post', /PRIMARY KEY/],
    ['INDEX', 'people_name', 'post', /lower\(name\)/],
    ['TRIGGER', 'people stamp', 'post', /EXECUTE FUNCTION public\.stamp/],
    ['FK CONSTRAINT', 'visits visits_id_fkey', 'post', /REFERENCES public\.people/],
    ['POLICY', 'people own', 'post', /CREATE POLICY own/],
    ['ROW SECURITY', 'people', 'post', /ENABLE ROW LEVEL SECURITY/],
  ]
  for (const [kind, tag, section, statement] of expected) {
    const { sql, ...found } = find(objects, kind, tag)
    assert.deepEqual(
      { schema: found.schema, owner: found.owner, section: found.section },
      { schema: 'public', owner, section },
      `${kind} ${tag}`,
    )
    assert.match(sql, statement)
  }
  assert.match(find(objects, 'TABLE', 'people').drop, /^DROP TABLE public\.people;/)
  const publication = find(objects, 'PUBLICATION', 'changes')
  assert.deepEqual([publication.schema, publication.owner], [undefined, server.address.user])
  assert.ok(find(objects, 'FUNCTION', 'long_text()').sql.includes(longText))
})

test('schema dump: the given snapshot decides which objects there are', async () => {
  await asSuperuser(async session => {
    await session.script('begin isolation level repeatable read read only')
    const { snapshot } = (await session.row<{ snapshot: string }>(
      sql`select pg_export_snapshot() as snapshot`,
    ))!
    await asSuperuser(other => other.script('create table public.later ()'))
    const tables = async (options: { snapshot?: string }) =>
      readContents(await dump(options)).filter(({ kind, tag }) => kind === 'TABLE' && tag === 'later').length
    assert.equal(await tables({ snapshot }), 0)
    assert.equal(await tables({}), 1)
    await session.script('commit')
  })
  await asSuperuser(session => session.script('drop table public.later'))
})

test('schema dump: settings of the database do not change the statements', async () => {
  const statements = async () =>
    readContents(await dump())
      .filter(({ kind }) => kind !== 'DATABASE PROPERTIES')
      .map(({ sql }) => sql)
  const expected = await statements()
  const settings = {
    timezone: 'Asia/Tokyo',
    bytea_output: 'escape',
    quote_all_identifiers: 'on',
    search_path: 'public',
    statement_timeout: '1',
  }
  // In another database: the statement would be under the settings that it removes.
  const change = (words: string) =>
    database.asSuperuserIn('postgres', session => session.script(`alter database ${database.name} ${words}`))
  for (const [name, value] of Object.entries(settings)) await change(`set ${name} = '${value}'`)
  try {
    assert.deepEqual(await statements(), expected)
  } finally {
    await change('reset all')
  }
})

test('schema dump: dumps at the same time share one copy of the module, and replace a damaged one', async () => {
  const file = join(database.dataDir, 'pg-dump', readdirSync(join(database.dataDir, 'pg-dump'))[0]!)
  const content = readFileSync(file, 'utf8')
  writeFileSync(file, content.slice(0, 1000))
  const [one, other] = await Promise.all([dump(), dump()])
  assert.deepEqual(readContents(one), readContents(other))
  assert.equal(readFileSync(file, 'utf8'), content)
  assert.equal(readdirSync(join(database.dataDir, 'pg-dump')).length, 1)
})

describe('schema dump: over TCP', () => {
  const { key, cert } = certificateFor('localhost')
  const tcp = (tls: ServerAddress['tls']): ServerAddress => ({ ...server.address, host: '127.0.0.1', tls })

  before(async () => {
    const { uid, gid } = statSync(server.clusterDir)
    for (const [name, content] of Object.entries({ 'server.key': key, 'server.crt': cert })) {
      const file = join(server.clusterDir, name)
      writeFileSync(file, content, { mode: 0o600 })
      chownSync(file, uid, gid)
    }
    await asSuperuser(session => session.run(sql`alter system set ssl = on`))
    await asSuperuser(session => session.run(sql`select pg_reload_conf()`))
    await eventually(
      () => asSuperuser(async session => (await session.row<{ ssl: string }>(sql`show ssl`))!.ssl === 'on'),
      'the server has TLS',
    )
  })

  for (const [how, tls] of Object.entries({
    'without TLS': undefined,
    'with TLS': { rejectUnauthorized: true, servername: 'localhost', ca: cert },
  }))
    test(`schema dump: ${how}`, async () => {
      const objects = readContents(await dump({ address: tcp(tls) }))
      assert.equal(find(objects, 'TABLE', 'people').owner, owner)
    })

  test('schema dump: a certificate of another authority is refused', async () => {
    const tls = { rejectUnauthorized: true, servername: 'localhost', ca: certificateFor('localhost').cert }
    await assert.rejects(dump({ address: tcp(tls) }), {
      name: 'DumpFailed',
      message: /^Cannot connect to the database server: .*(certificate|signature)/,
    })
  })
})
