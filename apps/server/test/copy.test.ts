// COPY in both directions over a connection of its own, with and without TLS.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { discard } from '#src/kernel/byte-source.ts'
import { type CopySession, dumpSettings, withCopySession } from '#src/kernel/postgres/copy.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { isUnavailable } from '#src/kernel/postgres/unavailable.ts'
import { hashed, largeRow, megabyte, smallRows } from './copy-rows.ts'
import { eventually } from './eventually.ts'
import { testServer } from './harness.ts'
import { heldMemory } from './held-memory.ts'
import { openTlsRelay } from './tls-relay.ts'

const endless =
  'copy (select g, md5(g::text) from (select generate_series(1, 2000000000) as g) numbers) to stdout'

let relay: Awaited<ReturnType<typeof openTlsRelay>>
before(async () => {
  relay = await openTlsRelay(testServer())
})
after(() => relay.close())

const onServer = <T>(work: (session: CopySession) => Promise<T>) =>
  withCopySession(testServer(), 'postgres', { settings: {} }, work)

async function sha256Of(session: CopySession, statement: string): Promise<string> {
  const hash = createHash('sha256')
  await session.copyOut(statement, chunk => void hash.update(chunk))
  return hash.digest('hex')
}

const backendOf = async (session: CopySession): Promise<string> =>
  (await session.rows<{ pid: string }>('select pg_backend_pid() as pid'))[0]!.pid

const isRunning = async (pid: string): Promise<boolean> =>
  (await onServer(session => session.rows(`select 1 from pg_stat_activity where pid = ${pid}`))).length > 0

const isSleeping = async (pid: string): Promise<boolean> => {
  const sleeping = `select 1 from pg_stat_activity where pid = ${pid} and wait_event = 'PgSleep'`
  return (await onServer(session => session.rows(sleeping))).length > 0
}

const openSockets = () =>
  process.getActiveResourcesInfo().filter(name => /^(Pipe|TCPSocket|TLS)Wrap$/.test(name)).length

/** Runs the work, which must fail. Afterwards the session on the server and the socket have ended. */
async function failing(
  address: ReturnType<typeof testServer>,
  work: (session: CopySession, pid: string) => Promise<unknown>,
  signal?: AbortSignal,
): Promise<unknown> {
  const sockets = openSockets()
  let pid = ''
  const error = await withCopySession(address, 'postgres', { settings: {}, signal }, async session => {
    pid = await backendOf(session)
    return work(session, pid)
  }).then(
    () => assert.fail('it did not fail'),
    (reason: unknown) => reason,
  )
  await eventually(async () => !(await isRunning(pid)), 'the session on the server ends')
  await eventually(() => openSockets() <= sockets, 'no socket is left')
  return error
}

const terminate = (pid: string) => onServer(session => session.run(`select pg_terminate_backend(${pid})`))
const forever = new Promise<void>(() => {})

for (const [how, address] of [
  ['without TLS', () => testServer()],
  ['with TLS', () => relay.address],
] as const)
  describe(`copy ${how}`, () => {
    const withSession = <T>(work: (session: CopySession) => Promise<T>) =>
      withCopySession(address(), 'postgres', { settings: {} }, work)

    it('keeps the order and the bytes of a million small rows', () =>
      withSession(async session => {
        await session.run('create temporary table small (id int, word text)')
        const { source, sha256 } = hashed(smallRows(1_000_000))
        await session.copyIn('copy small from stdin', source)
        assert.equal(await sha256Of(session, 'copy small to stdout'), sha256())
      }))

    it('passes a row of 200 MB with little memory', () =>
      withSession(async session => {
        const hash = createHash('sha256')
        const before = heldMemory().arrayBuffers
        let most = 0
        let bytes = 0
        await session.copyOut(`copy (select repeat('x', ${200 * megabyte})) to stdout`, chunk => {
          if (bytes % (20 * megabyte) < chunk.length)
            most = Math.max(most, heldMemory().arrayBuffers - before)
          bytes += chunk.length
          hash.update(chunk)
          assert.ok(chunk.length <= 256 * 1024)
          discard(chunk)
        })
        assert.ok(most < 50 * megabyte, `${most / megabyte} MB`)
        const sent = createHash('sha256')
        for (const part of largeRow(200 * megabyte)) sent.update(part)
        assert.equal(hash.digest('hex'), sent.digest('hex'))
      }))

    it('sends a row that is larger than a message', () =>
      withSession(async session => {
        await session.run('create temporary table large (word text)')
        const { source, sha256 } = hashed(largeRow(9_999_999))
        await session.copyIn('copy large from stdin', source)
        assert.equal(await sha256Of(session, 'copy large to stdout'), sha256())
      }))

    it('stops the server while the sink is busy', () =>
      withSession(async session => {
        const pid = await backendOf(session)
        const { promise, resolve } = Promise.withResolvers<void>()
        let chunks = 0
        const copying = session.copyOut('copy (select generate_series(1, 2000000)) to stdout', async () => {
          if (chunks++ === 0) await promise
        })
        const isWaiting = `select 1 from pg_stat_activity where pid = ${pid} and wait_event = 'ClientWrite'`
        await eventually(
          async () => (await onServer(other => other.rows(isWaiting))).length > 0,
          'the server waits',
        )
        assert.equal(chunks, 1)
        resolve()
        await copying
        assert.ok(chunks > 50)
      }))

    it('undoes the statement and throws the error if the source fails', () =>
      withSession(async session => {
        await session.run('create temporary table undone (id int, word text)')
        const broken = new Error('no more')
        async function* source() {
          yield* smallRows(50_000)
          throw broken
        }
        await assert.rejects(session.copyIn('copy undone from stdin', source()), error => error === broken)
        assert.deepEqual(await session.rows('select count(*) as rows from undone'), [{ rows: '0' }])
        await session.copyIn('copy undone from stdin', hashed(smallRows(10)).source)
        assert.deepEqual(await session.rows('select count(*) as rows from undone'), [{ rows: '10' }])
      }))

    it('throws the error of the server, closes the source and stays usable', () =>
      withSession(async session => {
        await session.run('create temporary table numbers (id int)')
        let isClosed = false
        async function* source() {
          try {
            for (;;) yield Buffer.from('1\nnot a number\n'.repeat(10_000))
          } finally {
            isClosed = true
          }
        }
        const hasCode = (code: string) => (error: unknown) =>
          error instanceof DatabaseError && error.code === code
        await assert.rejects(session.copyIn('copy numbers from stdin', source()), hasCode('22P02'))
        await eventually(() => isClosed, 'the source is closed')
        await assert.rejects(
          session.copyOut(
            'copy (select 1 / (g - 300000) from generate_series(1, 1000000) g) to stdout',
            () => {},
          ),
          hasCode('22012'),
        )
        assert.equal(
          await sha256Of(session, `copy (select 'x') to stdout`),
          createHash('sha256').update('x\n').digest('hex'),
        )
      }))

    it('rejects a text that is not the right COPY and stays usable', () =>
      withSession(async session => {
        await session.run('create temporary table one (id int)')
        const none = hashed([]).source
        await assert.rejects(
          session.copyOut('select 1', () => {}),
          /not COPY TO STDOUT/,
        )
        await assert.rejects(session.copyIn('select 1', none), /not COPY FROM STDIN/)
        await assert.rejects(session.copyIn('copy one to stdout', none), /not COPY FROM STDIN/)
        await assert.rejects(
          session.copyOut('copy one from stdin', () => {}),
          /asks for data/,
        )
        await assert.rejects(session.run('copy one from stdin'), /asks for data/)
        const sleeping = session.run('select pg_sleep(0.01)')
        await assert.rejects(session.run('select 1'), /still running/)
        await sleeping
        assert.deepEqual(await session.rows('select 1 as a; select null as b, $$x$$ as "__proto__"'), [
          JSON.parse('{"b": null, "__proto__": "x"}'),
        ])
      }))

    it('ends with the error of the sink', async () => {
      const broken = new Error('full')
      const sinks = [
        () => {
          throw broken
        },
        () => Promise.reject(broken),
      ]
      for (const sink of sinks)
        assert.equal(await failing(address(), session => session.copyOut(endless, sink)), broken)
    })

    it('ends when the server ends the session', async () => {
      // A server that cannot send closes the connection without an error.
      const isLost = (error: unknown) => assert.ok(isUnavailable(error), String(error))
      isLost(
        await failing(address(), async (session, pid) => {
          let chunks = 0
          await session.copyOut(endless, async () => {
            if (++chunks === 10) await terminate(pid)
          })
        }),
      )
      isLost(
        await failing(address(), async (session, pid) => {
          await session.run('create temporary table waiting (id int)')
          async function* source() {
            yield Buffer.from('1\n')
            await terminate(pid)
            await forever
          }
          await session.copyIn('copy waiting from stdin', source())
        }),
      )
      isLost(
        await failing(address(), async (session, pid) => {
          await terminate(pid)
          await eventually(async () => !(await isRunning(pid)), 'the idle session ends')
          await eventually(
            () =>
              session.run('select 1').then(
                () => false,
                () => true,
              ),
            'it rejects',
          )
          await session.run('select 1')
        }),
      )
    })

    it('ends at once when the signal aborts', async () => {
      const works: ((session: CopySession, abort: () => void) => Promise<unknown>)[] = [
        session => session.run('select pg_sleep(3600)'),
        (session, abort) =>
          session.copyOut(endless, () => {
            abort()
            return forever
          }),
        async (session, abort) => {
          await session.run('create temporary table waiting (id int)')
          async function* source() {
            yield Buffer.from('1\n')
            abort()
            await forever
          }
          await session.copyIn('copy waiting from stdin', source())
        },
        async (session, abort) => {
          abort()
          await session.run('select 1')
          await session.run('select 1')
        },
      ]
      for (const work of works) {
        const controller = new AbortController()
        const reason = new Error('stop')
        const abort = () => controller.abort(reason)
        const error = await failing(
          address(),
          session => {
            const done = work(session, abort)
            if (work === works[0]) setImmediate(abort)
            return done
          },
          controller.signal,
        )
        assert.equal(error, reason)
        const again = withCopySession(
          address(),
          'postgres',
          { settings: {}, signal: controller.signal },
          async () => {},
        )
        await assert.rejects(again, thrown => thrown === reason)
      }
    })

    it('cancels a statement that the work has left running', async () => {
      let pid = ''
      let left: Promise<unknown> | undefined
      await withSession(async session => {
        pid = await backendOf(session)
        left = assert.rejects(session.run('select pg_sleep(3600)'))
      })
      await left
      await eventually(async () => !(await isRunning(pid)), 'the session on the server ends')
    })
  })

/** Accepts connections and never answers. */
async function openSilentServer() {
  const open: Socket[] = []
  const server = createServer(socket => void open.push(socket.on('error', () => {})))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  let seen = 0
  return {
    address: { ...testServer(), host: '127.0.0.1', port },
    accepted: () => eventually(() => open.length > seen && ++seen, 'a connection'),
    close: () => {
      for (const socket of open) socket.destroy()
      return new Promise(resolve => server.close(resolve))
    },
  }
}

it('copy: a dropped connection ends the statement, on the server too', async () => {
  const dropped = await openTlsRelay(testServer())
  let pid = ''
  const work = withCopySession(dropped.address, 'postgres', { settings: {} }, async session => {
    pid = await backendOf(session)
    const sleeping = assert.rejects(session.run('select pg_sleep(3600)'), { name: 'ConnectionLost' })
    await eventually(() => isSleeping(pid), 'the statement runs')
    await dropped.close()
    await sleeping
  })
  await work
  await eventually(async () => !(await isRunning(pid)), 'the session on the server ends')
})

it('copy: a login that gets no answer ends when the signal aborts', async () => {
  const silent = await openSilentServer()
  for (const tls of [undefined, relay.address.tls]) {
    const controller = new AbortController()
    const reason = new Error('stop')
    const signal = controller.signal
    const opening = withCopySession(
      { ...silent.address, tls },
      'postgres',
      { settings: {}, signal },
      async () => {},
    )
    await silent.accepted()
    controller.abort(reason)
    await assert.rejects(opening, error => error === reason)
  }
  await silent.close()
})

it('copy: values of a dump have one form, whatever the database has set', async () => {
  const database = `copy_settings_${process.pid}`
  await onServer(session => session.run(`create database ${database}`))
  try {
    const settings = [
      'datestyle = german',
      `intervalstyle = iso_8601`,
      `timezone = 'Asia/Tokyo'`,
      'bytea_output = escape',
    ]
    for (const setting of [
      ...settings,
      'extra_float_digits = 0',
      'search_path = public',
      'transaction_timeout = 1000',
    ])
      await onServer(session => session.run(`alter database ${database} set ${setting}`))
    await withCopySession(testServer(), database, { settings: dumpSettings }, async session => {
      const chunks: Buffer[] = []
      await session.copyOut(
        `copy (select timestamptz '2026-01-02 03:04:05+00', interval '1 day 2 hours', '\\x01ff'::bytea, 0.1::float4 + 0.2::float8, 5::money) to stdout`,
        chunk => void chunks.push(chunk),
      )
      assert.equal(
        Buffer.concat(chunks).toString(),
        '2026-01-02 03:04:05+00\t1 day 02:00:00\t\\\\x01ff\t0.30000000149011613\t$5.00\n',
      )
      for (const [name, value] of [
        ['search_path', ''],
        ['transaction_timeout', '0'],
        ['restrict_nonsystem_relation_kind', 'view, foreign-table'],
      ])
        assert.deepEqual(await session.rows(`show ${name}`), [{ [name!]: value }])
    })
  } finally {
    await onServer(session => session.run(`drop database ${database} with (force)`))
  }
})
