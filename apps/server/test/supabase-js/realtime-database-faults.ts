// The database is down for a moment: channels stay open, subscribers get a loss notice, and changes are delivered again.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { type Engine, startEngine } from '#src/kernel/postgres/engine/start.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { eventually } from '../eventually.ts'
import { startPlatform, type TestPlatform } from '../harness.ts'
import { ada, createFixture, type Fixture, newSubscriber, rows, topic } from './realtime-fixture.ts'
import { disconnectAll, newest } from './realtime-shapes.ts'
import type { Subscriber } from './realtime-subscriber.ts'

const lost = /^Changes may have been lost/
const quiet = { info() {}, warn() {}, error() {} }

/** Uses its own Postgres, because the tests crash it. */
export function databaseFaultTests(): void {
  describe('database faults', () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'plinth-realtime-'))
    let engine: Engine
    let platform: TestPlatform
    let fixture: Fixture
    before(async () => {
      chmodSync(dataDir, 0o711)
      const superuserPassword = randomBytes(16).toString('hex')
      engine = await startEngine({ dataDir, superuserPassword, settings: { fsync: 'off' }, log: quiet })
      const { socketDir: host, port, user } = engine
      const address = { host, port, user, password: superuserPassword, tls: undefined }
      platform = await startPlatform({ address })
      fixture = await createFixture(platform, newest)
    })
    afterEach(disconnectAll)
    after(async () => {
      await platform?.stop()
      await engine?.stop()
      for (const path of [...engineFiles(dataDir).remove, dataDir])
        rmSync(path, { recursive: true, force: true })
    })

    /** Process ids of all connections to the project's database. */
    const backends = async () =>
      (
        await platform.asSuperuser('postgres', session =>
          session.rows<{ pid: number }>(
            raw(
              `select pid from pg_stat_activity where datname = '${fixture.ref}' and backend_type = 'client backend'`,
            ),
          ),
        )
      ).map(({ pid }) => pid)

    /** Writes rows until all subscribers receive one. */
    async function deliversAgain(name: string, subscribers: Subscriber[]): Promise<void> {
      let id = 1000
      const hasAll = () => subscribers.every(each => each.ids().some(received => received > 1000))
      await eventually(async () => {
        // The pool may not have noticed yet that its connections are closed.
        await fixture.sql(`insert into ${name} (id, owner) values (${++id}, '${ada}')`).catch(() => {})
        return hasAll()
      }, 'changes flow again')
    }

    const faults: [string, () => Promise<void>][] = [
      [
        'whose connections are ended',
        async () => {
          const pids = await backends()
          assert.ok(pids.length > 0)
          await platform.asSuperuser('postgres', session =>
            session.rows(raw(`select pg_terminate_backend(pid) from unnest('{${pids}}'::int[]) pid`)),
          )
        },
      ],
      [
        'that crashes and recovers',
        async () => {
          const [pid] = await backends()
          process.kill(pid!, 'SIGKILL')
          // Postgres terminates the other backends itself before it recovers.
          await eventually(async () => !(await backends().catch(() => [pid!])).includes(pid!), 'recovery')
        },
      ],
    ]
    for (const [what, strike] of faults)
      test(`database faults: subscribers of a database ${what} get a loss notice, and then changes again`, async () => {
        const name = await fixture.table(undefined, 'using (owner = auth.uid())')
        const subscribers = await Promise.all([
          rows(fixture.service(), { table: name }),
          rows(await fixture.user(ada), { table: name }),
        ])
        const aside = await newSubscriber(fixture.anon(), topic('aside'), {
          broadcast: { self: true },
        }).join()
        await fixture.sql(`insert into ${name} (id, owner) values (1, '${ada}')`)
        for (const each of subscribers) await each.receivesChanges(1)
        await strike()
        for (const each of subscribers) {
          const { extension, status } = await each.receivesSystem(lost)
          assert.deepEqual([extension, status], ['postgres_changes', 'error'])
        }
        await deliversAgain(name, subscribers)
        // A channel without bindings gets no notice.
        await aside.channel.send({ type: 'broadcast', event: 'end' })
        await aside.receivesBroadcast('end')
        assert.deepEqual(aside.system, [])
        for (const each of [...subscribers, aside]) assert.deepEqual(each.statuses, ['SUBSCRIBED'])
        for (const each of subscribers)
          assert.equal(new Set(each.ids()).size, each.ids().length, 'no change arrives twice')
      })
  })
}
