// kill -9 of the platform and of Postgres: what a reader has seen in the log of a project stays, and ids go on ascending.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogEntry } from '@plinth/contract/logs.ts'
import { postmasterPid } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { crash, manage, platformProcesses, type RunningPlatform, whoami } from './platform-process.ts'

const { start, existingProject, dataDirWithProject } = platformProcesses()

async function logOf(platform: RunningPlatform, count: number): Promise<LogEntry[]> {
  const { id } = await existingProject()
  return eventually(async () => {
    const { status, body } = await manage(platform, 'GET', `/projects/${id}/logs`)
    return status === 200 && body.logs.length >= count ? body.logs : undefined
  }, `${count} entries`)
}

test('crash: after kill -9 of the platform the log has what was written before', async () => {
  const dataDir = await dataDirWithProject('logs, node killed')
  const project = await existingProject()
  const killed = await start({ dataDir })
  await whoami(killed, project)
  const before = await logOf(killed, 1)
  await crash(killed)
  const platform = await start({ dataDir })
  await whoami(platform, project)
  const [later, ...earlier] = await logOf(platform, before.length + 1)
  assert.deepEqual(earlier, before)
  assert.ok(later!.id > before[0]!.id)
})

test('crash: while Postgres is down entries wait, and ids go on ascending although commits were lost', async () => {
  const dataDir = await dataDirWithProject('logs, postgres killed')
  const project = await existingProject()
  const platform = await start({ dataDir })
  await whoami(platform, project)
  const [seen] = await logOf(platform, 1)
  process.kill(postmasterPid(dataDir), 'SIGKILL')
  const answered = new Set<string>()
  const ask = async () => {
    const { status, headers } = await whoami(platform, project)
    answered.add(headers.get('x-request-id')!)
    return status
  }
  await eventually(async () => (await ask()) === 200, 'it is served again')
  const logs = await eventually(async () => {
    // The entry of an earlier answer may be among the lost commits.
    await ask()
    const found = await logOf(platform, 1)
    const ids = new Set(found.map(entry => entry.request_id))
    return [...answered].some(id => ids.has(id)) ? found : undefined
  }, 'a later entry is written')
  for (const entry of logs)
    if (answered.has(entry.request_id!)) assert.ok(Number(entry.id) > Number(seen!.id))
})
