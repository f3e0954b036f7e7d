// A project with tables that webhooks are attached to.
import { after, before } from 'node:test'
import { raw } from '#src/kernel/postgres/sql.ts'
import { type Attachments, createAttachments } from '#src/services/webhooks/attachments.ts'
import type { Attachment, RowEvent } from '#src/services/webhooks/attachments-store.ts'
import { deleteRowChanges, type RowChange, readRowChanges } from '#src/services/webhooks/changes-store.ts'
import { beginning } from '#src/tenancy/outbox-reading.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

const everyEvent: readonly RowEvent[] = ['INSERT', 'UPDATE', 'DELETE']

export function webhookStage() {
  const stage = {} as { platform: TestPlatform; attachments: Attachments }
  before(async () => {
    stage.platform = await startPlatform()
    stage.attachments = createAttachments(stage.platform.app.cluster, () => undefined)
  })
  after(() => stage.platform?.stop())

  return {
    stage,
    /** A project whose owner has run the script. */
    async projectWith(script = '') {
      const { platform, attachments } = stage
      const created = await platform.createProject()
      const project = new Project(platform, created.id, await platform.refOf(created.id))
      const tenant = (await platform.app.directory.find(project.id))!
      const { databases } = platform.app
      const run = (text: string) => project.asOwner(session => session.script(text))
      await run(script)
      return {
        created,
        project,
        tenant,
        run,
        asSuperuser: <T>(text: string) =>
          platform.asSuperuser(project.ref, session => session.rows<T>(raw(text))),
        attach: (
          table: string,
          { schema = 'public', webhook = 'one', events = everyEvent }: Partial<Attached> = {},
        ) => attachments.attach(project.ref, webhook, { schema, table, events }),
        detach: (table: string, webhook = 'one') =>
          attachments.detach(project.ref, webhook, { schema: 'public', table }),
        list: (webhook = 'one') => attachments.list(project.ref, webhook),
        /** Reads all captured changes and deletes them. */
        async take(): Promise<RowChange[]> {
          const found: RowChange[] = []
          for (let from = beginning; ; ) {
            const { rows, cursor, isFull } = await readRowChanges(databases, tenant, from)
            if (rows.length > 0) await deleteRowChanges(databases, tenant, rows)
            found.push(...rows)
            if (!isFull) return found
            from = cursor
          }
        },
      }
    },
  }
}

interface Attached extends Pick<Attachment, 'schema' | 'events'> {
  webhook: string
}

/** As `INSERT notes {"id":1}` or `UPDATE notes {"id":2} was {"id":1}`. */
export const shown = ({ event, table, new: after, old }: RowChange): string =>
  [event, table, after, after !== undefined && old !== undefined ? 'was' : undefined, old]
    .filter(part => part !== undefined)
    .join(' ')
