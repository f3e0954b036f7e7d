// Enqueues a mail as the auth flows do: in a transaction of the project, then through the outbox.
import type { App } from '#src/app.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Mail } from '#src/services/email/service.ts'

export async function enqueueMail({ app }: { app: App }, projectId: string, mail: Mail): Promise<void> {
  const tenant = (await app.directory.find(projectId))!
  let used: Session | undefined
  await app.databases.auth(tenant).transaction(async session => {
    used = session
    await app.email.enqueue(session, tenant, mail)
  })
  await app.outbox.relayWritten(used!, tenant)
}
