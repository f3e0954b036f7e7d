// The database is not there for a moment: channels stay, subscribers are told that something may be missing, and
// changes flow again.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { type Engine, startEngine } from '#src/kernel/postgres/engine/start.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from '../harness.ts'
import { type Ear, until } from './realtime-ear.ts'
import { hangUp, newest } from './realtime-shapes.ts'
import { ada, ear, rows, type Stage, setStage, topic } from './realtime-stage.ts'

const lost = /^Changes may have been lost/
const quiet = { info() {}, warn() {}, error() {} }

/** A Postgres of its own: nobody else's is crashed. */
export function databaseFaultTests(): void {
  describe('with a database that fails', () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'plinth-realtime-'))
    let engine: Engine
    let platform: TestPlatform
    let stage: Stage
    before(async () => {
      chmodSync(dataDir, 0o711)
      const superuserPassword = randomBytes(16).toString('hex')
      engine = await startEngine({ dataDir, superuserPassword, settings: { fsync: 'off' }, log: quiet })
      const { socketDir: host, port, user } = engine
      const address = { host, port, user, password: superuserPassword, tls: undefined }
      platform = await startPlatform({ address })
      stage = await setStage(platform, newest)
    })
    afterEach(hangUp)
    after(async () => {
      await platform?.stop()
      await engine?.stop()
      for (const path of [...engineFiles(dataDir).remove, dataDir])
        rmSync(path, { recursive: true, force: true })
    })

    /** Every connection the platform has to the project's database. */
    const backends = async () =>
      (
        await platform.asSuperuser('postgres', session =>
          session.rows<{ pid: number }>(
            raw(
              `select pid from pg_stat_activity where datname = '${stage.ref}' and backend_type = 'client backend'`,
            ),
          ),
        )
      ).map(({ pid }) => pid)

    /** Writes one row after the other until one is heard by all. */
    async function flowsAgain(name: string, listeners: Ear[]): Promise<void> {
      let id = 1000
      const hasAll = () => listeners.every(each => each.ids().some(heard => heard > 1000))
      await until(async () => {
        // The pool may still have to learn that its connections are gone.
        await stage.sql(`insert into ${name} (id, owner) values (${++id}, '${ada}')`).catch(() => {})
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
          // The others are ended by Postgres itself, before it recovers.
          await until(async () => !(await backends().catch(() => [pid!])).includes(pid!), 'recovery')
        },
      ],
    ]
    for (const [what, strike] of faults)
      test(`subscribers of a database ${what} are told of a loss, and hear again`, async () => {
        const name = await stage.table(undefined, 'using (owner = auth.uid())')
        const listeners = await Promise.all([
          rows(stage.service(), { table: name }),
          rows(await stage.user(ada), { table: name }),
        ])
        const aside = await ear(stage.anon(), topic('aside'), { broadcast: { self: true } }).join()
        await stage.sql(`insert into ${name} (id, owner) values (1, '${ada}')`)
        for (const each of listeners) await each.hears(1)
        await strike()
        for (const each of listeners) {
          const { extension, status } = await each.isTold(lost)
          assert.deepEqual([extension, status], ['postgres_changes', 'error'])
        }
        await flowsAgain(name, listeners)
        // Who asked for no rows has nothing to be told.
        await aside.channel.send({ type: 'broadcast', event: 'end' })
        await aside.hearsOf('end')
        assert.deepEqual(aside.system, [])
        for (const each of [...listeners, aside]) assert.deepEqual(each.statuses, ['SUBSCRIBED'])
        for (const each of listeners) assert.equal(new Set(each.ids()).size, each.ids().length, 'none twice')
      })
  })
}
