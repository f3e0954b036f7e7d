// kill -9 of Postgres at each step of a backup, verification, restore and undo.
import { after, before, test } from 'node:test'
import { crashAt, rounds } from './backup-crash-steps.ts'
import { CrashProject, type Stage } from './crash-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

let server: OwnServer
let platform: TestPlatform
let projects: CrashProject[] = []
before(async () => {
  server = await startOwnServer()
  platform = await startPlatform({ server })
  const stage: Stage = {
    url: () => platform.url,
    manage: (method, path, body) =>
      platform.call(method, `/api/v1${path}`, { token: platform.adminToken, body }),
    address: server.address,
    control: platform.control,
    dataDir: platform.config.dataDir,
    kill: () => server.kill(),
    // It is started again by itself.
    revive: async () => {},
  }
  projects = [new CrashProject(stage), new CrashProject(stage)]
  for (const project of projects) await project.create()
})
after(async () => {
  for (const project of projects) await project.close()
  await platform?.stop()
  await server?.stop()
})

for (const round of rounds)
  test(`backups: after a crash of Postgres (${round.join('; ')}) the tasks succeed and nothing is left`, () =>
    crashAt(projects, round))
