// kill -9 of the platform loses only the usage that was not written yet.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adminToken } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { crash, platformProcesses, type RunningPlatform, stop, whoami } from './platform-process.ts'
import { total, usageOf } from './usage-project.ts'

const { start, existingProject, dataDirWithProject } = platformProcesses()

test('usage: after kill -9 everything that was written is there once, and a clean stop loses nothing', async () => {
  const dataDir = await dataDirWithProject('usage')
  const project = await existingProject()
  const counted = async ({ url }: RunningPlatform) =>
    total(await usageOf({ url, adminToken: adminToken(dataDir)! }, project.id), 'requests')
  const send = async (platform: RunningPlatform, count: number) => {
    for (let sent = 0; sent < count; sent++) assert.equal((await whoami(platform, project)).status, 200)
  }

  const first = await start({ dataDir })
  const before = await counted(first)
  await send(first, 20)
  await eventually(async () => (await counted(first)) === before + 20, 'the requests are counted')
  await send(first, 5)
  await crash(first)

  const second = await start({ dataDir })
  const afterCrash = await counted(second)
  assert.ok(afterCrash >= before + 20 && afterCrash <= before + 25, `${afterCrash - before} are counted`)
  await send(second, 5)
  await stop(second)

  const third = await start({ dataDir })
  assert.equal(await counted(third), afterCrash + 5)
  await stop(third)
})
