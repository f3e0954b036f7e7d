// kill -9 of Postgres while a branch is created, reset and deleted.
import { after, before, test } from 'node:test'
import { dropLeft } from '#src/services/branches/left-databases.ts'
import { dropCopy } from '#src/tenancy/provision.ts'
import {
  crashCreation,
  crashDeletion,
  crashReset,
  deletionSteps,
  objectSteps,
  resetSteps,
  wholeSteps,
} from './branch-crash-steps.ts'
import { anyHoldMs } from './branch-project.ts'
import { CrashParent } from './crash-parent.ts'
import { stageOf } from './crash-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

let server: OwnServer
let platform: TestPlatform
let parent: CrashParent
before(async () => {
  server = await startOwnServer()
  platform = await startPlatform({ server, branchHoldMs: anyHoldMs })
  const { cluster } = platform.app
  // It is started again by itself.
  const stage = { ...stageOf(platform), kill: () => server.kill() }
  parent = new CrashParent(stage, () =>
    dropLeft({ cluster, dropCopy: database => dropCopy(cluster, database) }, AbortSignal.timeout(60_000)),
  )
  await parent.create()
})
after(async () => {
  await parent?.close()
  await platform?.stop()
  await server?.stop()
})

const creations = {
  'as a whole': [
    wholeSteps,
    ['the database is copied', 'owners and rights are adopted', 'the end is recorded'],
  ],
  'by objects': [objectSteps, ['the database is created', 'rows come in']],
} as const
/** The other steps are in branches-crash.test.ts. */
for (const [name, [steps, chosen]] of Object.entries(creations))
  for (const step of chosen)
    test(`branch: kill -9 of Postgres when ${step}, copied ${name}`, () =>
      crashCreation(
        parent,
        `${step} ${name}`.slice(0, 50),
        steps[step as keyof typeof steps],
        name === 'as a whole',
      ))

test('branch reset: kill -9 of Postgres at each step', async t => {
  await parent.createBranch('reset')
  await parent.assertComplete()
  for (const [step, found] of Object.entries(resetSteps))
    await t.test(`branch reset: kill -9 of Postgres when ${step}`, () => crashReset(parent, found))
  await parent.deleteBranch()
})

for (const [step, found] of Object.entries(deletionSteps))
  test(`branch deletion: after kill -9 of Postgres when ${step} nothing of the branch is left`, async () => {
    await parent.createBranch(`deleted when ${step}`)
    await parent.assertComplete()
    await crashDeletion(parent, found)
  })
