// The parent of a branch is served while the branch is copied.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { createRequestHolds } from '#src/tenancy/request-holds.ts'
import { createTemplateCopies, usualHoldMs } from '#src/tenancy/template-copy.ts'
import { backedUpProject } from './backup-project.ts'
import { anyHoldMs, branchesOf, ownerSession } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { subscribe, unsubscribeAll } from './realtime-subscriber.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(async () => {
  await unsubscribeAll()
  await platform.stop()
})

test('branch: reads, writes, sign-ins and row changes of the parent wait during the copy, and none fails', async () => {
  const parent = await backedUpProject(platform)
  await parent.sql('create table notes (id bigint generated always as identity primary key, text text)')
  const subscription = await subscribe(platform, parent, {
    table: 'notes',
    apikey: parent.service_role_key,
  })
  let isOver = false
  let writes = 0
  const failed: string[] = []
  const loop = async (act: () => Promise<{ status: number; body: unknown }>) => {
    while (!isOver) {
      const { status, body } = await act()
      if (status >= 300) failed.push(`${status} ${JSON.stringify(body)}`)
    }
  }
  const rest = `/v1/${parent.id}/rest/v1/notes`
  const read = () => platform.call('GET', `${rest}?limit=1`, { apikey: parent.service_role_key })
  const write = async () => {
    const reply = await platform.call('POST', rest, {
      apikey: parent.service_role_key,
      body: { text: `note ${writes}` },
    })
    writes++
    return reply
  }
  await parent.signUp('someone@example.test')
  const signIn = () => parent.signIn('someone@example.test')
  const loops = [read, read, write, write, signIn].map(loop)
  const branches = branchesOf(platform, parent.id)
  const methods = []
  for (const name of ['first', 'second', 'third']) {
    await branches.create({ name })
    methods.push((await branches.read(name)).method)
  }
  isOver = true
  await Promise.all(loops)
  assert.deepEqual(failed, [])
  assert.ok(!methods.includes('logical'), methods.join())
  await eventually(() => subscription.changes.length >= writes, 'every change is delivered')
  assert.equal(subscription.changes.length, writes)
  assert.deepEqual(
    subscription.statuses.filter(each => each.startsWith('error')),
    [],
  )
})

test('branch: an open transaction of the owner is not disturbed, and the branch has what was committed', async () => {
  const parent = await backedUpProject(platform)
  await parent.sql(`create table notes (id int primary key); insert into notes values (1)`)
  const session = await ownerSession(platform, parent.id)
  await session.query('begin; insert into notes values (2)')
  const branches = branchesOf(platform, parent.id)
  const branch = await branches.create({ name: 'beside' })
  assert.equal((await branches.read('beside')).method, 'logical')
  await session.query('commit')
  await session.end()
  const { body } = await platform.call('GET', `/v1/${branch.id}/rest/v1/notes`, {
    apikey: branch.service_role_key,
  })
  assert.deepEqual(body, [{ id: 1 }])
})

test('template copy: gives up after the longest hold, and lets requests go', async () => {
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const holds = createRequestHolds()
  const copies = createTemplateCopies(platform.app.cluster, holds, {
    clusterDir: undefined,
    isArchived: false,
    longestHoldMs: 250,
  })
  const copyOf = () => copies.copy({ id, ref }, `${ref}_copy`, AbortSignal.timeout(60_000))
  // A session of another node, which has the same application name.
  const held = await ownerSession(platform, id)
  await held.query(`set application_name = 'plinth'`)
  const copied = await copyOf()
  assert.ok('refused' in copied)
  assert.equal(await holds.pass(ref, async () => 'at once'), 'at once')
  await held.end()
  const exists = sql`select from pg_database where datname = ${`${ref}_copy`}`
  assert.equal(await platform.app.control.row(exists), undefined)
})

test('template copy: requests go on after the longest hold although the copy could not end', async () => {
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const holds = createRequestHolds()
  const copies = createTemplateCopies(platform.app.cluster, holds, {
    clusterDir: undefined,
    isArchived: false,
    longestHoldMs: 5000,
  })
  let isHeld = false
  const [hold, heldOnce] = [holds.hold, Promise.withResolvers<void>()]
  holds.hold = project => {
    const taken = hold(project)
    isHeld = true
    heldOnce.resolve()
    return taken
  }
  await platform.asSuperuser('postgres', async other => {
    // The copy waits for this transaction, which ends after the request was let go.
    await other.script(`begin; comment on database ${identifier(ref)} is 'held'`)
    const copied = copies.copy({ id, ref }, `${ref}_copy`, AbortSignal.timeout(100_000))
    await Promise.race([heldOnce.promise, copied])
    assert.ok(isHeld, JSON.stringify(await Promise.race([copied, undefined])))
    assert.equal(await holds.pass(ref, async () => 'let go'), 'let go')
    assert.ok('refused' in (await copied))
    await other.script('rollback')
  })
})

/** Copies a project, and counts how often its requests were held. */
async function countHolds(longestHoldMs: number) {
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const holds = createRequestHolds()
  let held = 0
  const { hold } = holds
  holds.hold = project => {
    held++
    return hold(project)
  }
  const copies = createTemplateCopies(platform.app.cluster, holds, {
    clusterDir: undefined,
    isArchived: false,
    longestHoldMs,
  })
  const copied = await copies.copy({ id, ref }, `${ref}_reset`, AbortSignal.timeout(60_000))
  return { held, copied }
}

test('template copy: holds requests for 250 ms at most by default', () => {
  assert.equal(usualHoldMs, 250)
})

test('template copy: holds no requests if the estimate is longer than the longest hold', async () => {
  const { held, copied } = await countHolds(1)
  assert.deepEqual(copied, { refused: 'the copy would take too long' })
  assert.equal(held, 0)
  // A project of the same size is held if there is time.
  assert.ok((await countHolds(anyHoldMs)).held > 0)
})

test('branch: is copied object by object, and the parent is never held, if the estimate is longer than the longest hold', async t => {
  const hasty = await startPlatform({ branchHoldMs: 1 })
  t.after(() => hasty.stop())
  const parent = await hasty.createProject()
  const branches = branchesOf(hasty, parent.id)
  await branches.create({ name: 'not held' })
  assert.equal((await branches.read('not-held')).method, 'logical')
  assert.ok(hasty.logged.some(line => line.includes('the copy would take too long')))
})

test('template copy: copies no files while WAL is archived, because a recovery would copy them again', async () => {
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const copies = createTemplateCopies(platform.app.cluster, createRequestHolds(), {
    clusterDir: undefined,
    isArchived: true,
    longestHoldMs: 60_000,
  })
  const copied = await copies.copy({ id, ref }, `${ref}_reset`, AbortSignal.timeout(60_000))
  assert.ok('strategy' in copied)
  assert.equal(copied.strategy, 'wal_log')
})

test('request holds: requests wait in order, and continue after the release', async () => {
  const holds = createRequestHolds()
  const project = { id: 'a', ref: 'p_a' }
  assert.equal(await holds.pass('p_a', async () => 1), 1)
  const hold = holds.hold(project)!
  assert.equal(holds.hold(project), undefined)
  const order: number[] = []
  const waiting = Array.from({ length: 100 }, (_, number) =>
    holds.pass('p_a', async () => {
      order.push(number)
      await sleep(1)
      if (number === 50) throw new Error('fails')
      return number
    }),
  )
  assert.equal(await holds.pass('p_b', async () => 'another project'), 'another project')
  assert.equal(order.length, 0)
  hold.release()
  const settled = await Promise.allSettled(waiting)
  assert.equal(settled.filter(({ status }) => status === 'rejected').length, 1)
  assert.deepEqual(
    order,
    Array.from({ length: 100 }, (_, number) => number),
  )
})

test('request holds: statements that do not end delay no others after the release', async () => {
  const holds = createRequestHolds()
  const project = { id: 'a', ref: 'p_a' }
  const hold = holds.hold(project)!
  const slow = Promise.withResolvers<string>()
  const slowOnes = Array.from({ length: 50 }, () => holds.pass('p_a', () => slow.promise))
  const behind = holds.pass('p_a', async () => 'held behind them')
  hold.release()
  assert.equal(await holds.pass('p_a', async () => 'arrived later'), 'arrived later')
  assert.equal(holds.hold(project), undefined, 'no hold while requests are let go')
  assert.equal(await behind, 'held behind them')
  slow.resolve('slow')
  assert.equal((await Promise.all(slowOnes)).length, 50)
  holds.hold(project)!.release()
})
