// kill -9 of the platform while a branch is created and reset. For deletions see project-crash.test.ts.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { crashCreation, crashReset, objectSteps, resetSteps, wholeSteps } from './branch-crash-steps.ts'
import { CrashParent } from './crash-parent.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

const control = `t_branch_${randomBytes(5).toString('hex')}`
const adminToken = randomBytes(24).toString('hex')
const dataDir = fs.mkdtempSync(join(tmpdir(), 'plinth-branch-crash-'))
const controlPlaneSecret = randomBytes(24).toString('hex')

let server: OwnServer
let child: ChildProcess | undefined
let url: string
let parent: CrashParent

async function start(): Promise<void> {
  const { address } = server
  const beside = { address, control, adminToken, controlPlaneSecret, config: { dataDir } }
  const program = join(import.meta.dirname, 'branch-node.ts')
  const node = spawn(process.execPath, [program, JSON.stringify(beside)], {
    env: process.env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child = node
  let output = ''
  node.stdout.setEncoding('utf8').on('data', text => (output += text))
  await eventually(() => output.includes('\n') || node.exitCode !== null, 'the platform starts')
  url = /running at (\S+)/.exec(output)?.[1] ?? assert.fail('the platform did not start')
}

async function kill(): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

/** Otherwise the next node would wait for the end of the lease. */
async function startAgain(): Promise<void> {
  await parent.look('update branch_tasks set leased_until = now() where leased_until is not null')
  await start()
}

/** What clears up after resets runs at each start. */
async function restart(): Promise<void> {
  await kill()
  await start()
  await eventually(async () => (await parent.namesOf(parent.branchRef)).length === 5, 'one database is left')
}

before(async () => {
  server = await startOwnServer()
  await start()
  const stage = {
    url: () => url,
    manage: (method: string, path: string, body?: unknown) =>
      call(`${url}/api/v1${path}`, method, { token: adminToken, body }),
    address: server.address,
    control,
    dataDir,
    kill,
    revive: startAgain,
  }
  parent = new CrashParent(stage, restart)
  await parent.create()
})
after(async () => {
  await parent?.close()
  await kill()
  await server?.stop()
  fs.rmSync(dataDir, { recursive: true, force: true })
})

for (const [name, steps] of Object.entries({ 'as a whole': wholeSteps, 'by objects': objectSteps }))
  for (const [step, found] of Object.entries(steps))
    test(`branch: kill -9 of the platform when ${step}, copied ${name}`, () =>
      crashCreation(parent, `${step} ${name}`.slice(0, 50), found, name === 'as a whole'))

test('branch reset: kill -9 of the platform at each step', async t => {
  await parent.createBranch('reset')
  await parent.assertComplete()
  for (const [step, found] of Object.entries(resetSteps))
    await t.test(`branch reset: kill -9 of the platform when ${step}`, () => crashReset(parent, found))
  // A deletion while a reset runs.
  const lock = await parent.holdRows()
  const other = await parent.connect(parent.ref)
  await parent.ask('POST', '/branches/reset/reset')
  await lock.untilAwaited()
  await parent.deleteBranch()
  await lock.release()
  await other.end()
})

for (const isKilled of [false, true])
  test(`branch: no code of functions is left of one that is deleted ${isKilled ? 'after kill -9 during its creation' : 'while it is created'}`, async () => {
    const holder = await parent.lock(parent.ref, 'lock table public.things in access exclusive mode')
    await parent.createBranch(isKilled ? 'killed and deleted' : 'deleted')
    await holder.untilAwaited()
    const copied = await parent.codeOfBranch()
    assert.ok(copied.length > 0)
    for (const folder of copied) assert.ok(parent.hasFolder(folder), 'files were copied before the dump')
    if (isKilled) {
      await kill()
      await start()
    }
    await parent.ask('DELETE', `/branches/${parent.branch.slug}`)
    await holder.release()
    await parent.look('update branch_tasks set leased_until = now() where branch_id = $1', [parent.branch.id])
    await parent.assertRemoved()
  })
