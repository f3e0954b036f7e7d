// Sequences of a project that was made after the last checkpoint, whose first numbers come from the template.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { startPlatform } from './harness.ts'
import { startOwnServer } from './own-server.ts'
import { webhookProject } from './webhook-project.ts'

test('projects: a crash of Postgres right after the creation of a project repeats no number of its sequences', async t => {
  const server = await startOwnServer({ full_page_writes: 'on' })
  const platform = await startPlatform({ server })
  t.after(async () => {
    await platform.stop()
    await server.stop()
  })
  const project = await webhookProject(platform)
  for (let n = 0; n < 3; n++) await project.sql(`create table before${n} (n int)`)
  await server.crash()
  // Right after a crash a statement may fail because its connection was lost.
  let tries = 0
  for (let created = 0; created < 10; created++)
    await eventually(async () => {
      const done = await project.sql(`create table after${tries++} (n int)`).catch((error: Error) => error)
      if (done instanceof Error) assert.doesNotMatch(done.message, /duplicate key/)
      return !(done instanceof Error)
    }, 'a table is created')
})
