// Functions on two nodes of one platform: each has its own workers, and both serve the same versions.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type FunctionsApi, functionsOf, saying } from '../../../conformance/functions.ts'
import { assertDataError, assertManagementError, type Reply } from '../../../conformance/wire.ts'
import { eventually } from './eventually.ts'
import { type FunctionsPlatform, startFunctionsPlatform } from './functions-platform.ts'

let here: FunctionsPlatform
let there: FunctionsPlatform
before(async () => {
  here = await startFunctionsPlatform()
  there = await startFunctionsPlatform({}, { beside: here.platform })
})
after(async () => {
  await there?.stop()
  await here?.stop()
})

/** A project as each of the nodes serves it. */
async function createProject(): Promise<[FunctionsApi, FunctionsApi]> {
  const own = await here.createProject()
  return [own, functionsOf(there, own.project)]
}

/** Repeats the call until it has this text, and then checks that it stays. */
async function untilText(own: FunctionsApi, name: string, text: string): Promise<void> {
  await eventually(async () => (await own.call(name)).text === text, `the answer is ${text}`)
  for (let call = 0; call < 20; call++) assert.equal((await own.call(name)).text, text)
}

const statusesOf = (replies: readonly Reply[]) => replies.map(({ status }) => status)

test('functions, nodes: the first call of a function may be on another node than its deployment', async () => {
  const [own, elsewhere] = await createProject()
  const created = await own.deploy('first', saying('from there'))
  assert.equal((await elsewhere.call('first')).text, 'from there')
  const read = await elsewhere.manage('GET', '/first')
  assert.deepEqual([read.body.version, read.body.code], [created.version, saying('from there')])
  assert.deepEqual((await elsewhere.manage('GET', '')).body.functions, [created])
})

test('functions, nodes: a node that has said that a function does not exist serves it soon after its deployment', async () => {
  const [own, elsewhere] = await createProject()
  assertDataError(await elsewhere.call('late'), 'NOT_FOUND')
  await own.deploy('late', saying('here it is'))
  assert.equal((await own.call('late')).text, 'here it is')
  await untilText(elsewhere, 'late', 'here it is')
})

test('functions, nodes: a new version, a rollback and a changed flag apply on the other node', async () => {
  const [own, elsewhere] = await createProject()
  await own.deploy('changing', { code: saying('one'), verify_jwt: false })
  assert.equal((await elsewhere.call('changing')).text, 'one')
  await own.deploy('changing', saying('two'))
  assert.equal((await own.call('changing')).text, 'two')
  await untilText(elsewhere, 'changing', 'two')
  await elsewhere.manage('POST', '/changing/rollback', { version: 1 })
  assert.equal((await elsewhere.call('changing')).text, 'one')
  await untilText(own, 'changing', 'one')
  assert.equal((await elsewhere.callOpen('changing')).status, 200)
  await own.manage('PUT', '/changing', { verify_jwt: true })
  await eventually(
    async () => (await elsewhere.callOpen('changing')).status === 401,
    'a credential is needed',
  )
})

test('functions, nodes: a changed secret applies on the other node', async () => {
  const [own, elsewhere] = await createProject()
  const set = (value: string) =>
    here.manage('POST', `/projects/${own.project.id}/secrets`, { name: 'WORD', value })
  await set('one')
  await own.deploy('telling', `Deno.serve(() => new Response(Deno.env.get('WORD') ?? 'nothing'))`)
  assert.equal((await elsewhere.call('telling')).text, 'one')
  await set('two')
  assert.equal((await own.call('telling')).text, 'two')
  await untilText(elsewhere, 'telling', 'two')
  await there.manage('DELETE', `/projects/${own.project.id}/secrets/WORD`)
  assert.equal((await elsewhere.call('telling')).text, 'nothing')
  await untilText(own, 'telling', 'nothing')
})

test('functions, nodes: a deleted function is gone on the other node, and a new one with its name is another', async () => {
  const [own, elsewhere] = await createProject()
  const old = await own.deploy('gone', saying('old'))
  assert.equal((await elsewhere.call('gone')).text, 'old')
  assert.equal((await own.manage('DELETE', '/gone')).status, 204)
  assertDataError(await own.call('gone'), 'NOT_FOUND')
  assertManagementError(await elsewhere.manage('GET', '/gone'), 'function_not_found')
  const refused = await eventually(async () => {
    const reply = await elsewhere.call('gone')
    return reply.status === 200 ? undefined : reply
  }, 'the function is gone')
  assertDataError(refused, 'NOT_FOUND')
  const created = await elsewhere.deploy('gone', saying('new'))
  assert.notEqual(created.id, old.id)
  assert.equal(created.version, 1)
  assert.equal((await elsewhere.call('gone')).text, 'new')
  await untilText(own, 'gone', 'new')
})

test('functions, nodes: the worker of a suspended or deleted project is stopped on the other node', async () => {
  const [own, elsewhere] = await createProject()
  const { id, name } = own.project
  const workersThere = async () => ((await there.health()).projects as string[]).includes(id)
  await own.deploy('served', saying('served'))
  assert.equal((await elsewhere.call('served')).text, 'served')
  assert.equal(await workersThere(), true)
  assert.equal((await here.manage('POST', `/projects/${id}/suspend`)).status, 200)
  await eventually(async () => !(await workersThere()), 'the worker of the suspended project is stopped')
  assertDataError(await elsewhere.call('served'), 'project_suspended')
  assert.equal((await here.manage('POST', `/projects/${id}/resume`)).status, 200)
  await untilText(elsewhere, 'served', 'served')
  assert.equal((await here.manage('DELETE', `/projects/${id}`, { confirm: name })).status, 204)
  await eventually(async () => !(await workersThere()), 'the worker of the deleted project is stopped')
  await eventually(async () => (await elsewhere.call('served')).status === 401, 'the project is unknown')
})

test('functions, nodes: of two creations at once on both nodes, one is a conflict', async () => {
  const both = await createProject()
  for (let round = 0; round < 3; round++) {
    const name = `created-${round}`
    const replies = await Promise.all(
      both.map((own, node) => own.manage('POST', '', { name, code: saying(`node ${node}`) })),
    )
    assert.deepEqual(statusesOf(replies).sort(), [201, 409])
    assertManagementError(replies.find(({ status }) => status === 409)!, 'function_exists')
    const winner = statusesOf(replies).indexOf(201)
    for (const own of both) await untilText(own, name, `node ${winner}`)
  }
})

test('functions, nodes: deployments at once on both nodes give consecutive versions, and both nodes end with the last', async () => {
  const both = await createProject()
  await both[0].deploy('busy', saying('first'))
  const perNode = 4
  const replies = await Promise.all(
    Array.from({ length: 2 * perNode }, (_, number) =>
      both[number % 2]!.manage('PUT', '/busy', { code: saying(`deployment ${number}`) }),
    ),
  )
  assert.deepEqual(new Set(statusesOf(replies)), new Set([200]), replies.map(({ text }) => text).join())
  const numbers = replies.map(({ body }) => body.version as number)
  assert.deepEqual(
    numbers.toSorted((a, b) => a - b),
    Array.from({ length: 2 * perNode }, (_, index) => index + 2),
  )
  const last = numbers.indexOf(2 * perNode + 1)
  for (const own of both) {
    await untilText(own, 'busy', `deployment ${last}`)
    const { body } = await own.manage('GET', '/busy')
    assert.deepEqual([body.version, body.code], [2 * perNode + 1, saying(`deployment ${last}`)])
    assert.deepEqual(
      body.versions.map(({ version }: { version: number }) => version),
      Array.from({ length: 2 * perNode + 1 }, (_, index) => 2 * perNode + 1 - index),
    )
  }
})

test('functions, nodes: a deletion and deployments at once leave one consistent state', async () => {
  const both = await createProject()
  for (let round = 0; round < 3; round++) {
    await both[0].deploy('contested', saying('before'))
    const [deleted, updated] = await Promise.all([
      both[0].manage('DELETE', '/contested'),
      both[1].manage('PUT', '/contested', { code: saying('after') }),
    ])
    assert.equal(deleted.status, 204, deleted.text)
    assert.ok([200, 404].includes(updated.status), updated.text)
    for (const own of both) {
      assertManagementError(await own.manage('GET', '/contested'), 'function_not_found')
      await eventually(async () => (await own.call('contested')).status === 404, 'the function is gone')
    }
  }
})

test('functions, nodes: the log has the calls of both nodes, whichever is asked', async () => {
  const both = await createProject()
  await both[0].deploy(
    'logging',
    `Deno.serve(async req => { console.log(await req.text()); return new Response() })`,
  )
  const ids: (string | null)[] = []
  for (const [node, own] of both.entries())
    ids.push((await own.call('logging', { body: `called on node ${node}` })).headers.get('x-request-id'))
  for (const own of both) {
    for (const [node, id] of ids.entries()) {
      const line = await own.untilLogged('logging', new RegExp(`called on node ${node}`))
      assert.equal(line.request_id, id)
    }
    const events = await eventually(async () => {
      const lines = await own.logs('logging')
      return lines.filter(({ event }) => event === 'end').length === 2 ? lines : undefined
    }, 'both calls have ended')
    assert.equal(events.filter(({ event }) => event === 'start').length, 2)
    const positions = events.map(({ id }) => BigInt(id))
    assert.deepEqual(
      positions,
      positions.toSorted((a, b) => (a < b ? -1 : 1)),
    )
  }
})
