// A schema dump that fails says why, and leaves no thread, connection or session.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { failureOf, useDumpedDatabase } from './dumped-database.ts'
import { eventually } from './eventually.ts'
import { testServer } from './harness.ts'

const { dump, asSuperuser, name } = useDumpedDatabase(testServer)

/** What keeps the process running, other than timers of the test runner. */
const handles = () =>
  process.getActiveResourcesInfo().filter(kind => !['Timeout', 'Immediate'].includes(kind))

/** The message of the failure. Afterwards the process has the same threads and connections as before. */
async function messageOf(start: () => Promise<unknown>): Promise<string> {
  // Connections that the test has closed are gone after a few turns of the event loop.
  for (let turn = 0; turn < 20; turn++) await setImmediate()
  const before = handles()
  const { message } = await failureOf(start())
  await eventually(() => handles() <= before, 'nothing is left')
  return message
}

interface Waiting {
  pid: number
}
/** Sessions that wait for a lock of the table. */
const waiting = () =>
  asSuperuser(session =>
    session.rows<Waiting>(
      sql`select pid from pg_stat_activity where datname = ${name} and wait_event_type = 'Lock'`,
    ),
  )

/** Locks a table, so that a dump waits in the middle. */
const whileTableIsLocked = (work: () => Promise<void>) =>
  asSuperuser(async session => {
    await session.script('begin; lock table public.people in access exclusive mode')
    await work()
    await session.script('rollback')
  })

/** A proxy to the Postgres of this run that changes what the server sends. */
async function withRelay(
  change: (bytes: Buffer) => Buffer,
  work: (address: ServerAddress, cut: () => void) => Promise<void>,
): Promise<void> {
  const { host, port, ...login } = testServer()
  const open = new Set<Socket>()
  const cut = () => {
    for (const socket of open) socket.destroy()
  }
  const relay = createServer(client => {
    const server = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    for (const socket of [client, server])
      open.add(socket.on('error', () => {}).on('close', () => open.delete(socket)))
    client.on('data', bytes => server.write(bytes)).on('close', () => server.destroy())
    server.on('data', bytes => client.write(change(bytes))).on('close', () => client.destroy())
  })
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  try {
    await work(
      { ...login, host: '127.0.0.1', port: (relay.address() as AddressInfo).port, tls: undefined },
      cut,
    )
  } finally {
    cut()
    await new Promise(resolve => relay.close(resolve))
    await eventually(() => open.size === 0, 'the sockets of the relay are closed')
  }
}

test('schema dump: a wrong password is reported', async () => {
  const address = { ...testServer(), password: 'wrong' }
  assert.match(await messageOf(() => dump({ address })), /FATAL: +password authentication failed for user/)
})

test('schema dump: an unknown database and an unknown snapshot are reported', async () => {
  assert.match(
    await messageOf(() => dump({ database: "no 'such' = one" })),
    /"no 'such' = one" does not exist/,
  )
  assert.match(await messageOf(() => dump({ snapshot: '00000003-0000001B-1' })), /snapshot/)
})

test('schema dump: a server that cannot be reached is reported', async () => {
  const address = { ...testServer(), host: '/nowhere' }
  assert.match(await messageOf(() => dump({ address })), /^Cannot connect to the database server: .*ENOENT/)
})

test('schema dump: an aborted one ends at once, with its session', async () => {
  await whileTableIsLocked(async () => {
    const controller = new AbortController()
    const message = messageOf(() => dump({ signal: controller.signal }))
    await eventually(async () => (await waiting()).length === 1, 'the dump waits for the lock')
    controller.abort()
    assert.equal(await message, 'The dump was cancelled.')
    await eventually(async () => (await waiting()).length === 0, 'the session has ended')
  })
  assert.equal(await messageOf(() => dump({ signal: AbortSignal.abort() })), 'The dump was cancelled.')
})

test('schema dump: a backend that is terminated is reported', async () => {
  await whileTableIsLocked(async () => {
    const message = messageOf(() => dump())
    const { pid } = await eventually(async () => (await waiting())[0], 'the dump waits for the lock')
    await asSuperuser(session => session.run(sql`select pg_terminate_backend(${pid})`))
    assert.match(await message, /terminating connection due to administrator command/)
  })
})

test('schema dump: a connection that breaks is reported', async () => {
  await withRelay(
    bytes => bytes,
    async (address, cut) => {
      await whileTableIsLocked(async () => {
        const message = failureOf(dump({ address }))
        await eventually(async () => (await waiting()).length === 1, 'the dump waits for the lock')
        cut()
        assert.match((await message).message, /server closed the connection unexpectedly/)
      })
    },
  )
})

test('schema dump: one that is too large fails', async () => {
  const message = await messageOf(() => dump({ maxBytes: 1_000_000 }))
  assert.equal(message, 'The dump is larger than 1 MB.')
})

test('schema dump: one that needs too much memory fails', async () => {
  await asSuperuser(session =>
    session.script(`
      create schema commented;
      do $$ begin
        for n in 1..270 loop
          execute format('create table commented.t%s ()', n);
          execute format('comment on table commented.t%s is %L', n, repeat('x', 1000000));
        end loop;
      end $$`),
  )
  const message = await messageOf(() => dump())
  await asSuperuser(session => session.script('drop schema commented cascade'))
  assert.equal(message, 'Reading the schema needs more than 256 MiB of memory.')
})

/** The same number of bytes, so that the length of the message stays correct. */
function asVersion99(bytes: Buffer): Buffer {
  const at = bytes.indexOf('server_version\0')
  if (at >= 0) bytes.write('99', at + 'server_version\0'.length, 'latin1')
  return bytes
}

test('schema dump: a newer server needs an installed pg_dump', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'plinth-programs-'))
  try {
    await withRelay(asVersion99, async address => {
      const options = { address, searchPath: directory, snapshot: 'a-b' }
      assert.match((await failureOf(dump(options))).message, /newer than Postgres 18\. Install pg_dump/)

      const script = (text: string) =>
        writeFileSync(join(directory, 'pg_dump'), `#!/bin/sh\n${text}\n`, { mode: 0o700 })
      script('echo "$PGPASSWORD"; for each in "$@"; do echo "$each"; done')
      const [password, ...args] = (await dump(options)).toString().split('\n')
      assert.equal(password, address.password)
      assert.ok(args.includes('--schema-only') && args.includes('--snapshot=a-b'), args.join(' '))
      assert.ok(args.some(arg => arg.includes(`port='${address.port}'`)))

      script('echo "pg_dump: error: it is broken" >&2; exit 1')
      assert.match((await failureOf(dump(options))).message, /it is broken/)
      script('while :; do echo more; done')
      assert.match((await failureOf(dump({ ...options, maxBytes: 1000 }))).message, /larger than/)
    })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})
