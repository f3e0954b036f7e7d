// Recovery to a time: inserts while WAL is archived, against the same without, and the recovery of a small project beside a
// large neighbour. Options: --rounds, --seconds, --patience, --megabytes of the neighbour.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { client } from '@plinth/contract/client.ts'
import { pitrApi } from '@plinth/contract/pitr.ts'
import { openDirectoryPieces } from '../apps/server/src/kernel/objects/filesystem.ts'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { dropArchiveSlot } from '../apps/server/src/kernel/postgres/recovery/replication-slot.ts'
import { readSystemId, startWalArchive } from '../apps/server/src/kernel/postgres/recovery/wal-archive.ts'
import { sql } from '../apps/server/src/kernel/postgres/sql.ts'
import { requestCutover } from '../apps/server/src/services/pitr/cutover-request.ts'
import { controlSettings } from '../apps/server/src/tenancy/cluster.ts'
import { compare, interleave, report, type Sample } from './measure.ts'
import { pgbench } from './pgbench.ts'
import { engineIn, onStage, projectsAt, refOf, type Stage, startMain } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '5' },
    patience: { type: 'string', default: '5' },
    megabytes: { type: 'string', default: '1024' },
  },
})
const silent = { info() {}, warn() {}, error() {} }
const clients = 8

await onStage(async stage => {
  await measureWrites(stage)
  await measureRecovery(stage)
})

async function measureWrites(stage: Stage): Promise<void> {
  const { address, postmaster } = await stage.engine()
  await withClient(address, 'postgres', guardedSettings, session =>
    session.script(
      'create table public.entries (id bigint generated always as identity primary key, body text)',
    ),
  )
  const archiveDir = stage.dataDir('archive')
  const store = {
    pieces: await openDirectoryPieces(join(archiveDir, 'pieces')),
    dataKey: randomBytes(32),
    systemId: await readSystemId(address),
    spoolDir: join(archiveDir, 'spool'),
  }
  const inserts = (): Promise<Sample> =>
    pgbench(
      { address, database: 'postgres', postmaster },
      {
        file: join(archiveDir, 'inserts.sql'),
        unit: [`insert into public.entries (body) values (repeat('of some length ', 20))`],
        values: {},
        depth: 1,
        clients,
        seconds: Number(given.seconds),
        settings: { role: address.user },
      },
    )
  const archived = async (): Promise<Sample> => {
    const archive = startWalArchive({ address, store, log: silent })
    await archive.catchUp()
    const sample = await inserts()
    await archive.catchUp()
    await archive.stop()
    await dropArchiveSlot(address)
    return sample
  }
  await inserts()
  const samples = await interleave(
    Number(given.rounds),
    { archived, plain: inserts },
    Number(given.patience) * 1000,
  )
  const { ratio, range, measured, reference, rounds } = compare(
    samples.archived,
    samples.plain,
    each => each['per_second']!,
  )
  report({
    bench: 'pitr',
    subject: 'inserts while WAL is archived',
    target: { atLeast: 0.85 },
    measured: ratio,
    unit: 'of the throughput without an archive',
    range,
    ours: measured,
    reference,
    rounds,
  })
}

async function measureRecovery(stage: Stage): Promise<void> {
  const dataDir = stage.dataDir('platform')
  const first = await startMain(stage, { RUNTIME_PORT: '0' }, dataDir)
  const { address, adminToken } = engineIn(dataDir)
  const projects = projectsAt(first.url, adminToken)
  const small = await projects.create({ body: { name: 'small' } })
  const large = await projects.create({ body: { name: 'large' } })
  const smallRef = await refOf(address, small.id)
  await withClient(address, await refOf(address, large.id), guardedSettings, session =>
    session.script(`create table public.filler as
      select n, md5(n::text) || repeat(md5((n + 1)::text), 30) as body from generate_series(1, ${Number(given.megabytes) * 1000}) n`),
  )
  await withClient(address, smallRef, guardedSettings, session =>
    session.script('create table public.notes as select n from generate_series(1, 1000) n'),
  )
  await first.stop()
  const platform = await startMain(stage, { RUNTIME_PORT: '0', PLATFORM_PITR: 'on' }, dataDir)
  const pitr = client(pitrApi, { baseUrl: platform.url, token: adminToken })
  const params = { id: small.id }
  while (!(await pitr.restorePoints({ params })).window) await sleep(200)
  const target = new Date().toISOString()
  await sleep(10)
  await withClient(engineIn(dataDir).address, smallRef, guardedSettings, session =>
    session.script('delete from public.notes'),
  )
  const untilOver = async (id: string) => {
    for (;;) {
      const { jobs } = await pitr.jobs({ params, query: {} })
      const job = jobs.find(each => each.id === id)!
      if (job.progress === null) return job
      await sleep(20)
    }
  }
  const since = performance.now()
  const { job } = await pitr.restore({ params, body: { target_time: target } })
  const prepared = await untilOver(job.id)
  const preparedSeconds = (performance.now() - since) / 1000
  if (prepared.status !== 'prepared') throw new Error(`not prepared: ${prepared.error}`)
  const requested = performance.now()
  await withClient(engineIn(dataDir).address, 'plinth', controlSettings, session =>
    requestCutover(session, job.id),
  )
  const done = await untilOver(job.id)
  const cutoverSeconds = (performance.now() - requested) / 1000
  if (done.status !== 'done') throw new Error(`not cut over: ${done.error}`)
  const [left] = await withClient(engineIn(dataDir).address, smallRef, guardedSettings, session =>
    session.rows<{ count: number }>(sql`select count(*)::int as count from public.notes`),
  )
  if (left!.count !== 1000) throw new Error(`${left!.count} rows instead of 1000`)
  report({
    bench: 'pitr',
    subject: `recovery of a small project beside a neighbour of ${given.megabytes} MB, until it is verified`,
    target: { atMost: 10 },
    measured: preparedSeconds,
    unit: 'seconds',
    cutover_seconds: cutoverSeconds,
  })
}
