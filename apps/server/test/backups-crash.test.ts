// kill -9 of the platform at each step of a backup, verification, restore and undo.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { crashAt, rounds, stepNames } from './backup-crash-steps.ts'
import { CrashProject, type Stage } from './crash-project.ts'
import { testServer } from './harness.ts'
import { StorageNode } from './storage-node.ts'

const node = new StorageNode()
const stage: Stage = {
  url: () => node.url,
  manage: (method, path, body) => node.manage(method, path, body),
  address: testServer(),
  control: node.control,
  dataDir: node.dataDir,
  kill: () => node.kill(),
  async revive() {
    // Otherwise the next node would wait for the end of the lease.
    await node.inControl('update backup_tasks set leased_until = now()')
    await node.start()
  },
}
const projects = [new CrashProject(stage), new CrashProject(stage)]
before(async () => {
  await node.start()
  for (const project of projects) await project.create()
})
after(async () => {
  for (const project of projects) await project.close()
  await node.remove()
})

test('backups: every step is in one round of crashes', () => {
  assert.deepEqual(rounds.flat().sort(), stepNames.toSorted())
})

for (const round of rounds)
  test(`backups: after a crash of the platform (${round.join('; ')}) the tasks succeed and nothing is left`, () =>
    crashAt(projects, round))
