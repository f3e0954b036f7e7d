import type { Session } from '#src/kernel/postgres/database.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Outbox } from '#src/tenancy/outbox.ts'

/** Relays the outbox after each auth transaction, so that its mails are queued before the request is answered. */
export const relayAfterCommit = (databases: Databases, outbox: Pick<Outbox, 'relayWritten'>): Databases => ({
  ...databases,
  auth(tenant) {
    const database = databases.auth(tenant)
    return {
      ...database,
      async transaction(work) {
        let session: Session | undefined
        const result = await database.transaction(given => {
          session = given
          return work(given)
        })
        if (session) await outbox.relayWritten(session, tenant)
        return result
      },
    }
  },
})
