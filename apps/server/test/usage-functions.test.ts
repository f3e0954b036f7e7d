// Calls of edge functions in the usage of their project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { saying } from '../../../conformance/functions.ts'
import { eventually } from './eventually.ts'
import { type FunctionsPlatform, startFunctionsPlatform } from './functions-platform.ts'
import { total, usageOf } from './usage-project.ts'

let it: FunctionsPlatform
before(async () => {
  it = await startFunctionsPlatform()
})
after(() => it.stop())

test('usage: calls of functions count, also failed ones, and calls of unknown functions do not', async () => {
  const { project, deploy, call } = await it.createProject()
  await deploy('hello', saying('hello'))
  await deploy('broken', `Deno.serve(() => { throw new Error('broken') })`)
  for (let sent = 0; sent < 3; sent++) assert.equal((await call('hello')).status, 200)
  assert.equal((await call('broken')).status, 500)
  assert.equal((await call('nothing')).status, 404)
  await eventually(async () => total(await usageOf(it, project.id), 'requests') === 5, 'all are counted')
  assert.equal(total(await usageOf(it, project.id), 'function_invocations'), 4)
})
