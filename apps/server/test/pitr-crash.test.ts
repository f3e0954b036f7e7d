// kill -9 of the platform, of Postgres and of the second server while a copy is prepared and put in place.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { postmasterPid } from './data-dir.ts'
import { eventually } from './eventually.ts'
import {
  assertEnded,
  assertLeft,
  cutOver,
  endLease,
  type HeldProject,
  heldProject,
  holdExchange,
  holdRows,
  holdSecondServer,
  letRowsIn,
  lock,
  queueForLock,
  secondServers,
  untilEnded,
  untilRowsWait,
} from './pitr-holds.ts'
import { ask, jobOf, now, request, rest } from './pitr-host.ts'
import { crash, platformProcesses, type RunningPlatform, stop } from './platform-process.ts'

const { start, dataDirWithProject } = platformProcesses()
const env = { PLATFORM_PITR: 'on' }

async function insert(platform: RunningPlatform, project: HeldProject, n: number): Promise<void> {
  assert.equal((await rest(platform, project, 'POST', 'notes', { n })).status, 201)
}

test('pitr: after kill -9 of the platform at later steps, a copy is prepared and put in place, and nothing else is left', async () => {
  const dataDir = await dataDirWithProject('pitr-crash')
  let platform = await start({ dataDir, env })
  const project = await heldProject(platform, 'crash')
  await insert(platform, project, 1)
  const target = await now(dataDir)
  await insert(platform, project, 2)
  async function restart(): Promise<void> {
    await crash(platform)
    platform = await start({ dataDir, env })
    await endLease(dataDir)
  }

  // While rows come in, and while the copy is compared.
  await holdRows(dataDir, project)
  const first = await request(platform, project, target)
  await untilRowsWait(dataDir, project)
  await restart()
  await untilRowsWait(dataDir, project)
  const compared = await lock(dataDir, `${project.ref}_recovered`, 'lock table public.shown')
  await letRowsIn(dataDir, project)
  await compared.untilAwaited()
  await restart()
  await compared.release()
  await assertEnded(platform, project, first, 'prepared')
  await assertLeft(platform, project, {
    databases: ['', '_recovered'],
    archiveOf: first,
    numbers: [1, 2],
  })

  // At the exchange.
  const exchange = await holdExchange(dataDir, project)
  await cutOver(dataDir, first)
  await exchange.untilAwaited()
  await restart()
  await exchange.release()
  await assertEnded(platform, project, first, 'done')
  await assertLeft(platform, project, { databases: ['', '_before'], numbers: [1] })

  // Right after it, before the database that was kept of the first cutover is dropped.
  const second = await request(platform, project, await now(dataDir))
  await assertEnded(platform, project, second, 'prepared')
  await insert(platform, project, 3)
  const early = await holdExchange(dataDir, project)
  await cutOver(dataDir, second)
  await early.untilAwaited()
  const late = await queueForLock(dataDir, 'plinth', 'lock table pg_database in share mode')
  await early.release()
  await late.untilAwaited('drop database')
  assert.equal((await jobOf(platform, project, second)).status, 'done')
  await crash(platform)
  const left = `select from pg_database where datname = '${project.ref}_recovered'`
  assert.equal((await ask(dataDir, 'plinth', left)).length, 1)
  platform = await start({ dataDir, env })
  await late.release()
  await assertEnded(platform, project, second, 'done')
  await assertLeft(platform, project, { databases: ['', '_before'], numbers: [1] })
  await stop(platform)
})

test('pitr: after kill -9 of Postgres or of the second server, a copy is prepared and put in place, and nothing else is left', async () => {
  const dataDir = await dataDirWithProject('pitr-postgres-crash')
  const platform = await start({ dataDir, env })
  const project = await heldProject(platform, 'crash')
  await insert(platform, project, 1)
  const target = await now(dataDir)
  await insert(platform, project, 2)
  const killPostgres = () => process.kill(postmasterPid(dataDir), 'SIGKILL')

  // Postgres, while rows come in, and while rights are given in the copy, whose errors name the object.
  await holdRows(dataDir, project)
  let id = await request(platform, project, target)
  await untilRowsWait(dataDir, project)
  killPostgres()
  await eventually(
    () =>
      untilRowsWait(dataDir, project)
        .then(() => true)
        .catch(() => false),
    'Postgres is back',
  )
  const compared = await lock(dataDir, `${project.ref}_recovered`, 'lock table public.shown')
  await letRowsIn(dataDir, project)
  await compared.untilAwaited()
  killPostgres()
  await assertEnded(platform, project, id, 'prepared')
  await assertLeft(platform, project, {
    databases: ['', '_recovered'],
    archiveOf: id,
    numbers: [1, 2],
  })

  // The second server, while the project is read from it. A job may be over before its table is locked.
  do {
    id = await request(platform, project, target)
  } while (!(await holdSecondServer(platform, project, id)))
  for (const pid of secondServers(dataDir)) process.kill(pid, 'SIGKILL')
  await assertEnded(platform, project, id, 'prepared')
  await assertLeft(platform, project, {
    databases: ['', '_recovered'],
    archiveOf: id,
    numbers: [1, 2],
  })

  // Postgres, at the exchange.
  const exchange = await holdExchange(dataDir, project)
  await cutOver(dataDir, id)
  await exchange.untilAwaited()
  killPostgres()
  await assertEnded(platform, project, id, 'done')
  await assertLeft(platform, project, { databases: ['', '_before'], numbers: [1] })

  // The second server, while it replays.
  id = await request(platform, project, target)
  await eventually(() => secondServers(dataDir).length > 0, 'the second server runs')
  for (const pid of secondServers(dataDir)) process.kill(pid, 'SIGKILL')
  // It is killed in its first or second start, or between them.
  const { status, error } = await untilEnded(platform, project, id)
  if (status === 'failed') {
    assert.match(error!, /^The second server could not replay the changes/)
    await assertLeft(platform, project, { databases: ['', '_before'], numbers: [1] })
  } else {
    assert.deepEqual([error, status], [null, 'prepared'])
    await assertLeft(platform, project, {
      databases: ['', '_before', '_recovered'],
      archiveOf: id,
      numbers: [1],
    })
  }
  await stop(platform)
})
