// Closing a pool while its server shuts down. The relay can hold the data of the client, so that the order of Terminate and
// the end of the session does not depend on the speed of the machine.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { guardedSettings, openDatabase, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { testServer } from './harness.ts'

interface Relay {
  address: ServerAddress
  /** Stops forwarding data of the client. */
  hold(): void
  release(): void
  close(): Promise<unknown>
}

async function openRelay({ host, port, ...login }: ServerAddress): Promise<Relay> {
  const pairs: { client: Socket; server: Socket }[] = []
  const relay = createServer(client => {
    const server = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    for (const socket of [client, server]) socket.on('error', () => {})
    client.pipe(server)
    server.pipe(client)
    pairs.push({ client, server })
  })
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  return {
    address: { ...login, host: '127.0.0.1', port: (relay.address() as AddressInfo).port },
    hold() {
      for (const { client, server } of pairs) client.unpipe(server).pause()
    },
    release() {
      for (const { client, server } of pairs) client.pipe(server)
    },
    close() {
      for (const { client, server } of pairs) {
        client.destroy()
        server.destroy()
      }
      return new Promise(resolve => relay.close(resolve))
    },
  }
}

let relay: Relay
before(async () => {
  relay = await openRelay(testServer())
})
after(() => relay.close())

const pidOf = async (database: ReturnType<typeof openDatabase>) =>
  (await database.row<{ pid: number }>(sql`select pg_backend_pid() as pid`))!.pid
const asSuperuser = <T>(text: ReturnType<typeof sql>) =>
  withClient(testServer(), 'postgres', guardedSettings, session => session.rows<T>(text))

it('pool: a session that the server terminates while the pool closes is not reported', async () => {
  const errors: Error[] = []
  const database = openDatabase(relay.address, 'postgres', guardedSettings, error => errors.push(error))
  const pid = await pidOf(database)
  relay.hold()
  const closed = database.close()
  await asSuperuser(sql`select pg_terminate_backend(${pid}, 5000)`)
  relay.release()
  await closed
  assert.deepEqual(errors, [])
})

it('pool: a session that the server terminates before the pool closes is reported', async () => {
  const { promise: reported, resolve } = Promise.withResolvers<unknown>()
  const database = openDatabase(relay.address, 'postgres', guardedSettings, resolve)
  const pid = await pidOf(database)
  await asSuperuser(sql`select pg_terminate_backend(${pid}, 5000)`)
  assert.equal(sqlState(await reported), '57P01')
  await database.close()
})

it('pool: close waits for the end of the sessions', async () => {
  const database = openDatabase(relay.address, 'postgres', guardedSettings, () => {})
  await pidOf(database)
  relay.hold()
  let isClosed = false
  const closed = database.close().then(() => {
    isClosed = true
  })
  await sleep(50)
  assert.equal(isClosed, false)
  relay.release()
  await closed
})

it('pool: close ends even if the server does not respond', async () => {
  const database = openDatabase(relay.address, 'postgres', guardedSettings, () => {})
  await pidOf(database)
  relay.hold()
  await database.close()
})
