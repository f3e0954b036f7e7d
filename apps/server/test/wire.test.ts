// The wire to Postgres itself: what arrives lies in memory that is read into again at once, with TLS or without.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { TLSSocket } from 'node:tls'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { Connection } from '#src/kernel/postgres/wire/connection.ts'
import type { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/unit.ts'
import { testServer } from './harness.ts'

const pem = (name: string) => readFileSync(join(import.meta.dirname, 'mail', `${name}.pem`), 'utf8')
const hooks = { onIdle() {}, onLost() {} }
const megabytes = 2 ** 20

const run = (connection: Connection, steps: Step[], isLone = false): Promise<Answer> =>
  new Promise((resolve, reject) =>
    connection.send({ steps, answering: steps.length - 1, isLone, resolve, reject }),
  )
const tooLarge = `select repeat('x', 70000000)`
const step = (sql: string, ...values: string[]): Step => ({ key: sql, sql, values })

/** Speaks TLS on one side and to the Postgres of the run on the other. */
async function openTlsRelay({ host, port, ...login }: ServerAddress) {
  const open = new Set<Socket>()
  const keep = <S extends Socket>(socket: S): S => {
    open.add(socket.on('error', () => {}).on('close', () => open.delete(socket)))
    return socket
  }
  const relay = createServer(client => {
    keep(client).once('data', () => {
      client.write('S')
      const secure = keep(
        new TLSSocket(client, { isServer: true, key: pem('localhost'), cert: pem('localhost') }),
      )
      const postgres = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
      secure.pipe(keep(postgres)).pipe(secure)
    })
  })
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  const address: ServerAddress = {
    ...login,
    host: '127.0.0.1',
    port: (relay.address() as AddressInfo).port,
    tls: { rejectUnauthorized: true, ca: pem('authority') },
  }
  const close = () => {
    for (const socket of open) socket.destroy()
    return new Promise(resolve => relay.close(resolve))
  }
  return { address, close }
}

let relay: Awaited<ReturnType<typeof openTlsRelay>>
before(async () => {
  relay = await openTlsRelay(testServer())
})
after(() => relay.close())

// First, while there is no garbage that could be collected meanwhile.
it('a row that is too large is not gathered in memory', async () => {
  const connection = await Connection.open(testServer(), 'postgres', {}, hooks)
  const before = process.memoryUsage().arrayBuffers
  await run(connection, [step(tooLarge)]).catch(() => {})
  const held = process.memoryUsage().arrayBuffers - before
  connection.close()
  assert.ok(held < 40 * megabytes, `it held ${held / megabytes} MB`)
})

for (const [how, address] of [
  ['without TLS', () => testServer()],
  ['with TLS', () => relay.address],
] as const)
  describe(`connections ${how}`, () => {
    const opened: Connection[] = []
    const open = async () => {
      const connection = await Connection.open(address(), 'postgres', {}, hooks)
      opened.push(connection)
      return connection
    }
    after(() => {
      for (const connection of opened) connection.close()
    })

    it('keep every answer as it was while the next ones arrive on the same and on others', async () => {
      const connections = await Promise.all([open(), open(), open()])
      // Rows of no, few and many bytes, some larger than what is read at once.
      const sizes = [0, 1, 5, 300, 4000, 30_000, 65_530, 65_536, 65_537, 200_000, 3_000_000]
      const sql = `select repeat($1, $2::int), null, g::text, repeat($1, $2::int % 1000) from generate_series(1, 3) g`
      const asked = Array.from({ length: 90 }, (_, turn) => ({
        letter: String.fromCharCode(97 + (turn % 26)),
        size: sizes[turn % sizes.length]!,
        connection: connections[turn % 3]!,
      }))
      const answers = await Promise.all(
        asked.map(({ connection, letter, size }) => run(connection, [step(sql, letter, String(size))])),
      )
      for (const [turn, { letter, size }] of asked.entries()) {
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

    it('refuse a row that is too large, and go on', async () => {
      const connection = await open()
      const error = await run(connection, [step(tooLarge)]).catch(error => error as DatabaseError)
      assert.ok('code' in error && error.code === '54000')
      assert.equal(String((await run(connection, [step('select 1')])).rows[0]![0]), '1')
    })

    it('cut an error that is too large, and go on', async () => {
      const connection = await open()
      const raise = `do $$ begin raise exception '%', repeat('x', 70000000) using errcode = 'P0007'; end $$`
      const error = (await run(connection, [step(raise)], true).catch(error => error)) as DatabaseError
      assert.equal(error.code, 'P0007')
      assert.match(error.message, /^x{1000,70000}$/)
      assert.equal(String((await run(connection, [step('select 1')], true)).rows[0]![0]), '1')
    })

    it('end their units when the server ends them', async () => {
      const connection = await open()
      const error = await run(connection, [step('select pg_terminate_backend(pg_backend_pid())')]).catch(
        error => error as DatabaseError,
      )
      assert.ok(error instanceof Error && connection.isLost)
    })
  })
