// The wire protocol to Postgres, with and without TLS. Read buffers are reused at once.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { Connection } from '#src/kernel/postgres/wire/connection.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/unit.ts'
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
