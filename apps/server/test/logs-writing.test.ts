// How log entries reach the control database: from several nodes, while writes fail, and when a node stops.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { readLogs, readWholeLog } from './logs-reading.ts'

let here: TestPlatform
let there: TestPlatform
const settings = { PLATFORM_RATE_LIMIT_ANON: '0' }
before(async () => {
  here = await startPlatform({ settings })
  there = await startPlatform({ beside: here, settings })
})
after(async () => {
  await there.stop()
  await here.stop()
})

/** Returns the request id. */
async function whoami(node: TestPlatform, { id, anon_key }: CreatedProject): Promise<string> {
  const reply = await node.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
  assert.equal(reply.status, 200)
  return reply.headers.get('x-request-id')!
}

const idsOf = (logs: readonly { request_id: string | null }[]) => logs.map(each => each.request_id)

/** Calls both nodes until it is stopped, and returns the request ids. */
function callBoth(project: CreatedProject): { stop(): Promise<string[]> } {
  let isStopped = false
  const ids: string[] = []
  const callers = [here, there].map(async node => {
    while (!isStopped) ids.push(await whoami(node, project))
  })
  return {
    async stop() {
      isStopped = true
      await Promise.all(callers)
      return ids
    },
  }
}

test('logs: pages read while two nodes write have every earlier entry once', async () => {
  const project = await here.createProject()
  const calls = callBoth(project)
  await eventually(
    async () => (await readWholeLog(here, project.id, 'limit=500')).length > 60,
    'both nodes have written',
  )
  for (let round = 0; round < 3; round++) {
    const known = await readLogs(here, project.id, 'limit=500')
    const expected = [...known.logs]
    if (known.next_before)
      expected.push(...(await readWholeLog(there, project.id, `limit=500&before=${known.next_before}`)))
    const paged = await readWholeLog(there, project.id, 'limit=7')
    const ids = paged.map(each => each.id)
    assert.equal(new Set(ids).size, ids.length, 'nothing is repeated')
    assert.deepEqual(ids, ids.toSorted().reverse(), 'the order is that of the ids')
    assert.deepEqual(
      ids.filter(id => id <= expected[0]!.id),
      expected.map(each => each.id),
      'nothing is skipped',
    )
  }
  await calls.stop()
})

test('logs: a client that follows two nodes sees every entry once', async () => {
  const project = await here.createProject()
  const calls = callBoth(project)
  const seen: (string | null)[] = []
  let latest = '0'
  const poll = async () => {
    const logs = await readWholeLog(here, project.id, `limit=20&after=${latest}`)
    seen.push(...idsOf(logs).reverse())
    latest = logs[0]?.id ?? latest
  }
  while (seen.length < 200) await poll()
  const ids = await calls.stop()
  await eventually(async () => {
    await poll()
    return seen.length >= ids.length
  }, 'the last entries are written')
  assert.equal(new Set(seen).size, seen.length)
  assert.deepEqual(seen.toSorted(), ids.toSorted())
})

test('logs: a project whose log is locked delays no other one, and keeps its entries', async () => {
  const [locked, other] = [await here.createProject(), await here.createProject()]
  const first = await whoami(here, locked)
  const logged = (project: CreatedProject, count: number) =>
    eventually(async () => {
      const ids = idsOf(await readWholeLog(here, project.id))
      return ids.length >= count ? ids : undefined
    }, `${count} entries`)
  await logged(locked, 1)
  const more: string[] = []
  await here.asSuperuser(here.control, async session => {
    await session.script('begin')
    await session.run(sql`select from public.project_log_state where project_id = ${locked.id} for update`)
    more.push(await whoami(here, locked))
    // Longer than a writer waits for the lock.
    for (let count = 0; count < 3; count++) {
      await whoami(here, other)
      await logged(other, count + 1)
    }
    await eventually(
      () => here.logged.some(line => line.includes('write the logs of projects')),
      'the write has failed',
    )
    more.push(await whoami(here, locked))
    await session.script('rollback')
  })
  assert.deepEqual(await logged(locked, 3), [...more.reverse(), first])
})

test('logs: entries that cannot be written stay waiting', async () => {
  const project = await here.createProject()
  const rename = (from: string, to: string) =>
    here.asSuperuser(here.control, session => session.script(`alter function public.${from} rename to ${to}`))
  await rename('append_project_logs', 'hidden_append')
  const ids: string[] = []
  try {
    const failures = here.logged.length
    ids.push(await whoami(here, project))
    await eventually(
      () => here.logged.slice(failures).some(line => line.includes('a chore failed')),
      'a write has failed',
    )
    ids.push(await whoami(here, project))
  } finally {
    await rename('hidden_append', 'append_project_logs')
  }
  const logs = await eventually(async () => {
    const found = await readWholeLog(here, project.id)
    return found.length === 2 ? found : undefined
  }, 'both are written')
  assert.deepEqual(idsOf(logs), ids.reverse())
})

test('logs: a clean stop writes all entries', async () => {
  const project = await here.createProject()
  const node = await startPlatform({ beside: here, settings })
  const ids: string[] = []
  for (let count = 0; count < 5; count++) ids.unshift(await whoami(node, project))
  await node.stop()
  assert.deepEqual(idsOf(await readWholeLog(here, project.id)), ids)
})

/** Waits until a statement like this waits for a lock. */
const untilWaiting = (query: string) =>
  eventually(
    () =>
      here.asSuperuser(here.control, session =>
        session.row(sql`
          select from pg_stat_activity
           where datname = ${here.control} and wait_event_type = 'Lock' and query like ${query}`),
      ),
    `a statement waits: ${query}`,
  )

for (const first of ['write', 'deletion'])
  test(`logs: a deleted project leaves no entries if a write waits beside, the ${first} first`, async () => {
    const project = await here.createProject()
    await whoami(here, project)
    await eventually(async () => (await readWholeLog(here, project.id)).length === 1, 'it is written')
    await here.asSuperuser(here.control, async session => {
      await session.script('begin')
      await session.run(sql`select from public.project_log_state where project_id = ${project.id} for update`)
      // Directly, because requests are refused once the deletion has begun.
      // On a slow machine it may give up waiting. Then it has written nothing.
      const write = () =>
        here.app.control
          .run(sql`select append_project_logs(${project.id}, 1, null, '{}', now(), now())`)
          .catch(() => 0)
      let writing = Promise.resolve(0)
      if (first === 'write') {
        writing = write()
        await untilWaiting('%append_project_logs%')
      }
      const removal = here.projects.remove({ params: { id: project.id } })
      await untilWaiting('%update projects%')
      if (first === 'deletion') {
        writing = write()
        await untilWaiting('%append_project_logs%')
      }
      await session.script('rollback')
      await Promise.all([writing, removal])
    })
    const other = await here.createProject()
    await whoami(here, other)
    await eventually(
      async () => (await readWholeLog(here, other.id)).length === 1,
      'later entries are written',
    )
    const left = await here.app.control.rows(sql`
      select from project_log_state where project_id = ${project.id}
      union all select from access_log_blocks where project_id = ${project.id}`)
    assert.equal(left.length, 0)
  })
