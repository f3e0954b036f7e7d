// A platform and projects for hostile subscribers and hostile project owners.
import { randomUUID } from 'node:crypto'
import { after, before } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { RawSocket } from '#test/realtime-raw.ts'
import { projectDatabase, type Subscription, unsubscribeAll } from '#test/realtime-subscriber.ts'

export function attackStage() {
  const stage = {} as { platform: TestPlatform }
  before(async () => {
    stage.platform = await startPlatform()
  })
  after(async () => {
    await unsubscribeAll()
    await stage.platform.stop()
  })

  return {
    stage,
    /** A project with a readable table `notes` and the objects of the script. */
    async projectWith(script = '') {
      const project = await stage.platform.createProject()
      const database = await projectDatabase(stage.platform, project)
      await database.run(`
        create table notes (id int primary key, text text);
        create policy everybody on notes for select using (true);
        ${script}`)
      return { project, database }
    },
    /** A raw client that sends arbitrary bindings. */
    async attacker(
      project: CreatedProject,
      bindings: object[],
      topic = 'realtime:intruder',
      node = stage.platform,
    ) {
      const socket = await RawSocket.open(node, project)
      const ref = socket.push(topic, 'phx_join', { config: { postgres_changes: bindings } })
      return { socket, ref, topic }
    },
  }
}

/** A token of a new user with this name. */
export const tokenOf = ({ jwt_secret: secret }: CreatedProject, name: string) =>
  signJwt({ role: 'authenticated', sub: randomUUID(), name }, secret)

export const receivesChange = (one: Subscription, what: string) =>
  eventually(() => one.changes.includes(what), `the change ${what} arrives (statuses: ${one.statuses})`)

export const binding = (more: object) => ({ event: '*', schema: 'public', ...more })
