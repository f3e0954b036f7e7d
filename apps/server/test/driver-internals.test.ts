// The private parts of `pg` on a real connection. The tests fail if a new version changes one of them.
import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import {
  backendOf,
  fromDriver,
  isDriverConnectionLoss,
  onCommandTag,
  onMessage,
  runScript,
  singleStatement,
  socketOf,
} from '#src/kernel/postgres/driver-internals.ts'
import { requestCancel } from '#src/kernel/postgres/wire/handshake.ts'
import { testServer } from './harness.ts'

const moved = (what: string) =>
  `this version of pg has moved ${what}: adapt kernel/postgres/driver-internals.ts`

let client: pg.Client
async function connected(): Promise<pg.Client> {
  const { host, port, user, password } = testServer()
  const opened = new pg.Client({ host, port, user, password, database: 'postgres' })
  opened.on('error', () => {})
  await opened.connect()
  return opened
}
before(async () => {
  client = await connected()
})
after(() => client.end())

/** The error of the work. Without one, `what` has changed in `pg`. */
const failure = async (work: Promise<unknown>, what: string): Promise<Error> => {
  const error = await work.then(
    () => undefined,
    (reason: Error) => reason,
  )
  assert.ok(error, moved(what))
  return error
}

it('driver: the socket of a client counts the bytes read', async () => {
  const socket = socketOf(client)
  assert.ok(socket instanceof Socket, moved('client.connection.stream'))
  const before = socket.bytesRead
  await client.query('select 1')
  assert.ok(socket.bytesRead > before, moved('the socket that it reads from'))
})

it('driver: the process id and the secret key of a client cancel its statement', async () => {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  const backend = backendOf(client)
  assert.equal(backend.processId, rows[0]!.pid, moved('client.processID'))
  const sleeping = failure(client.query('select pg_sleep(30)'), 'client.secretKey')
  const seen = await connected()
  try {
    const active = `select from pg_stat_activity where pid = ${backend.processId} and wait_event = 'PgSleep'`
    while ((await seen.query(active)).rowCount === 0);
  } finally {
    await seen.end()
  }
  await requestCancel(testServer(), backend)
  const error = fromDriver(await sleeping)
  assert.ok(error instanceof DatabaseError && error.code === '57014', moved('client.secretKey'))
})

it('driver: messages and command tags are reported as they arrive', async () => {
  const own = await connected()
  let messages = 0
  const tags: string[] = []
  onMessage(own, () => messages++)
  onCommandTag(own, tag => tags.push(tag))
  await own.query('create temporary table kept (n int); insert into kept values (1), (2)')
  await own.end()
  assert.deepEqual(tags, ['CREATE TABLE', 'INSERT 0 2'], moved('the event commandComplete of a connection'))
  assert.ok(messages > tags.length, moved('the event message of a connection'))
})

it('driver: singleStatement rejects two statements', async () => {
  const error = fromDriver(
    await failure(client.query(singleStatement('select 1; select 2', [])), 'queryMode'),
  )
  assert.ok(error instanceof DatabaseError && error.code === '42601', moved('queryMode'))
})

it('driver: a script reports columns, rows and its error', async () => {
  const calls: unknown[] = []
  const reader = {
    begin: (columns: unknown) => calls.push(columns),
    row: (values: unknown) => calls.push(values),
  }
  await runScript(client, `select 1 as a, null as b; set work_mem = '4MB'; select 2 as c; ;`, reader)
  assert.deepEqual(
    calls,
    [
      [
        { name: 'a', type: 23 },
        { name: 'b', type: 25 },
      ],
      ['1', null],
      [],
      [{ name: 'c', type: 23 }],
      ['2'],
    ],
    moved('the methods that a client calls on its query object'),
  )
  const error = fromDriver(await failure(runScript(client, 'select 1/0'), 'handleError'))
  assert.ok(error instanceof DatabaseError && error.code === '22012', moved('handleError'))
})

it('driver: COPY FROM STDIN in a script fails and leaves the connection usable', async () => {
  const copy = 'create temporary table copied (n int); copy copied from stdin'
  const error = fromDriver(await failure(runScript(client, copy), 'sendCopyFail'))
  assert.ok(error instanceof DatabaseError && error.code === '57014', moved('sendCopyFail'))
  assert.equal((await client.query('select 1')).rowCount, 1)
})

it('driver: an error thrown by the reader rejects the script and closes the connection', async () => {
  const own = await connected()
  const thrown = new Error('enough')
  const reader = {
    begin() {},
    row() {
      throw thrown
    },
  }
  const script = 'select generate_series(1, 100000)'
  assert.equal(await failure(runScript(own, script, reader), 'handleDataRow'), thrown)
  assert.ok(socketOf(own).destroyed)
})

it('driver: an error has every field that Postgres reports', async () => {
  await client.query('create temporary table unique_ids (id int constraint unique_id primary key)')
  const statement = 'insert into unique_ids values (1), (1)'
  const error = fromDriver(await failure(client.query(statement), 'handleError'))
  assert.ok(error instanceof DatabaseError, moved('its class DatabaseError'))
  const { code, severity, detail, table, constraint, routine, schema } = error
  assert.deepEqual(
    { code, severity, detail, table, constraint },
    {
      code: '23505',
      severity: 'ERROR',
      detail: 'Key (id)=(1) already exists.',
      table: 'unique_ids',
      constraint: 'unique_id',
    },
    moved('fields of DatabaseError'),
  )
  assert.ok(schema?.startsWith('pg_temp'), moved('schema of DatabaseError'))
  assert.ok(routine, moved('routine of DatabaseError'))
  const misspelt = fromDriver(await failure(client.query('select nothing'), 'handleError'))
  assert.equal((misspelt as DatabaseError).position, 8, moved('position of DatabaseError'))
})

it('driver: a lost connection is recognised by the text of its error, during and after a statement', async () => {
  const own = await connected()
  const running = failure(own.query('select pg_sleep(30)'), 'client.connection.stream')
  socketOf(own).destroy()
  const lost = await running
  assert.ok(isDriverConnectionLoss(lost), moved(`the text of a lost connection ("${lost.message}")`))
  const later = await failure(own.query('select 1'), 'client.connection.stream')
  assert.ok(isDriverConnectionLoss(later), moved(`the text of a statement after that ("${later.message}")`))
  const ended = await connected()
  await ended.end()
  const closed = await failure(ended.query('select 1'), 'client.end')
  assert.ok(isDriverConnectionLoss(closed), moved(`the text of a statement after end ("${closed.message}")`))
})
