// The wire protocol to Postgres, with and without TLS. Read buffers are reused at once.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { pipeline } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { Connection } from '#src/kernel/postgres/wire/connection.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/unit.ts'
import { eventually } from './eventually.ts'
import { testServer } from './harness.ts'
import { openTlsRelay } from './tls-relay.ts'

const hooks = { onIdle() {}, onLost() {} }
const megabytes = 2 ** 20

const run = (connection: Connection, steps: Step[], isLone = false): Promise<Answer> =>
  new Promise((resolve, reject) =>
    connection.send({ steps, answering: steps.length - 1, isLone, resolve, reject }),
  )
const tooLarge = `select repeat('x', 70000000)`
const step = (sql: string, ...values: string[]): Step => ({ key: sql, sql, values })

let relay: Awaited<ReturnType<typeof openTlsRelay>>
before(async () => {
  relay = await openTlsRelay(testServer())
})
after(() => relay.close())

// This test is first, because a garbage collection would change the measured memory.
it('wire: a row over the limit is not kept in memory', async () => {
  const connection = await Connection.open(testServer(), 'postgres', {}, hooks)
  const before = process.memoryUsage().arrayBuffers
  await run(connection, [step(tooLarge)]).catch(() => {})
  const held = process.memoryUsage().arrayBuffers - before
  connection.close()
  assert.ok(held < 40 * megabytes, `${held / megabytes} MB`)
})

/** Passes bytes on, and counts the packets to the server. */
async function openCounter({ host, port, ...address }: ServerAddress) {
  let packets = 0
  const server = createServer(client => {
    const upstream = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port })
    client.on('data', () => packets++)
    pipeline(client, upstream, () => {})
    pipeline(upstream, client, () => {})
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port: own } = server.address() as AddressInfo
  return {
    address: { ...address, host: '127.0.0.1', port: own },
    packets: () => packets,
    close: () => void server.close(),
  }
}

it('wire: units that would only wait for others are written together', async () => {
  const counter = await openCounter({ ...testServer(), tls: undefined })
  const { host, port, user, password } = testServer()
  const holding = new pg.Client({ host, port, user, password, database: 'postgres' })
  await holding.connect()
  const connection = await Connection.open(counter.address, 'postgres', {}, hooks)
  try {
    await holding.query('select pg_advisory_lock(20260119)')
    const first = [run(connection, [step('select pg_advisory_xact_lock(20260119)')])]
    for (const number of ['2', '3']) first.push(run(connection, [step('select $1::text', number)]))
    await eventually(async () => {
      const waiting = `select from pg_locks where locktype = 'advisory' and objid = 20260119 and not granted`
      return (await holding.query(waiting)).rows.length > 0
    }, 'the first unit waits')

    const before = counter.packets()
    const more: Promise<Answer>[] = []
    const sendOne = async () => {
      more.push(run(connection, [step('select $1::text', String(more.length))]))
      await sleep(5)
    }
    for (let count = 0; count < 7; count++) await sendOne()
    assert.equal(counter.packets(), before)
    await sendOne()
    await eventually(() => counter.packets() > before, 'eight are written')
    await sendOne()
    await holding.query('select pg_advisory_unlock(20260119)')
    await Promise.all(first)
    const answers = (await Promise.all(more)).map(({ rows }) => String(rows[0]![0]))
    assert.deepEqual(answers, ['0', '1', '2', '3', '4', '5', '6', '7', '8'])
  } finally {
    connection.close()
    await holding.end()
    counter.close()
  }
})

for (const [how, address] of [
  ['without TLS', () => testServer()],
  ['with TLS', () => relay.address],
] as const)
  describe(`wire: connections ${how}`, () => {
    const opened: Connection[] = []
    const open = async () => {
      const connection = await Connection.open(address(), 'postgres', {}, hooks)
      opened.push(connection)
      return connection
    }
    after(() => {
      for (const connection of opened) connection.close()
    })

    it('do not change a result while later ones arrive on the same and on other connections', async () => {
      const connections = await Promise.all([open(), open(), open()])
      // Some rows are larger than the read buffer.
      const sizes = [0, 1, 5, 300, 4000, 30_000, 65_530, 65_536, 65_537, 200_000, 3_000_000]
      const sql = `select repeat($1, $2::int), null, g::text, repeat($1, $2::int % 1000) from generate_series(1, 3) g`
      const requests = Array.from({ length: 90 }, (_, turn) => ({
        letter: String.fromCharCode(97 + (turn % 26)),
        size: sizes[turn % sizes.length]!,
        connection: connections[turn % 3]!,
      }))
      const answers = await Promise.all(
        requests.map(({ connection, letter, size }) => run(connection, [step(sql, letter, String(size))])),
      )
      for (const [turn, { letter, size }] of requests.entries()) {
        const row = (number: number) => [
          letter.repeat(size),
          null,
          String(number),
          letter.repeat(size % 1000),
        ]
        const found = answers[turn]!.rows.map(cells => cells.map(cell => cell?.toString() ?? null))
        assert.ok(
          JSON.stringify(found) === JSON.stringify([row(1), row(2), row(3)]),
          `answer ${turn} of ${size}`,
        )
      }
    })

    it('reject a row over the limit and stay usable', async () => {
      const connection = await open()
      const error = await run(connection, [step(tooLarge)]).catch(error => error as DatabaseError)
      assert.ok('code' in error && error.code === '54000')
      assert.equal(String((await run(connection, [step('select 1')])).rows[0]![0]), '1')
    })

    it('truncate a large error and stay usable', async () => {
      const connection = await open()
      const raise = `do $$ begin raise exception '%', repeat('x', 70000000) using errcode = 'P0007'; end $$`
      const error = (await run(connection, [step(raise)], true).catch(error => error)) as DatabaseError
      assert.equal(error.code, 'P0007')
      assert.match(error.message, /^x{1000,70000}$/)
      assert.equal(String((await run(connection, [step('select 1')], true)).rows[0]![0]), '1')
    })

    it('reject pending statements when the server terminates them', async () => {
      const connection = await open()
      const error = await run(connection, [step('select pg_terminate_backend(pg_backend_pid())')]).catch(
        error => error as DatabaseError,
      )
      assert.ok(error instanceof Error && connection.isLost)
    })
  })
