// What hostile subscribers and hostile owners of a project do with live changes: to hear what is not theirs, to make others
// hear nothing, to break writes, to stop the platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { until } from '#test/cache-project.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { behind, everybodyStops, hears, isTold, listen } from '#test/realtime-listener.ts'
import { RawSocket } from '#test/realtime-raw.ts'

let platform: TestPlatform

before(async () => {
  platform = await startPlatform()
})
after(async () => {
  await everybodyStops()
  await platform.stop()
})

async function projectWith(script = '') {
  const project = await platform.createProject()
  const database = await behind(platform, project)
  await database.run(`
    create table notes (id int primary key, text text);
    create policy everybody on notes for select using (true);
    ${script}`)
  return { project, database }
}

/** Somebody who asks for whatever he likes. */
async function intruder(project: CreatedProject, wishes: object[], topic = 'realtime:intruder') {
  const socket = await RawSocket.open(platform, project)
  const ref = socket.push(topic, 'phx_join', { config: { postgres_changes: wishes } })
  return { socket, ref, topic }
}

const wish = (more: object) => ({ event: '*', schema: 'public', ...more })

for (const [what, name] of Object.entries({ 'a NUL': 'a\0b', 'half of a pair': 'a\ud800' }))
  for (const field of ['table', 'schema', 'filter'])
    test(`${what} in the name of a ${field} costs nobody else anything`, async () => {
      const { project, database } = await projectWith()
      const good = await listen(platform, project, { table: 'notes' })
      const { socket } = await intruder(project, [wish({ table: 'notes', filter: 'text=eq.a', [field]: name })])
      await new Promise(resolve => setTimeout(resolve, 500))
      await database.run('insert into notes values (1)')
      await hears(good, 'INSERT 1')
      const late = await listen(platform, project, { table: 'notes' })
      await database.run('insert into notes values (2)')
      await hears(late, 'INSERT 2')
      await hears(good, 'INSERT 2')
      assert.deepEqual(good.told.filter(each => each.startsWith('error')), [])
      await socket.close()
      await good.leave()
      await late.leave()
    })
