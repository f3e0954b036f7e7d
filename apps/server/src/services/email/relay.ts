// Relays mails from the outbox of a project to the mail queue, or to the local catch-all without an SMTP server. It
// renders the mail with the current templates and settings.
import type { TemplateType } from '@plinth/contract/email.ts'
import { isSealed, type Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { EventRelay } from '#src/tenancy/outbox.ts'
import type { OutboxEvent } from '#src/tenancy/outbox-store.ts'
import { maxCaughtMessages } from './catch-all.ts'
import { defaultTemplates } from './default-templates.ts'
import { render } from './render.ts'
import { sealMail } from './sealed-mail.ts'
import { storedSmtp } from './smtp-settings.ts'
import * as store from './store.ts'

export interface Mail {
  to: string
  template: TemplateType
  values: {
    user_name: string
    action_url: string
    expires_in: string
    /** The six-digit code, for users who type it instead of following the link. */
    token?: string
    email?: string
    new_email?: string
  }
}

interface MailRelayDeps {
  control: Database
  sealer: Sealer
  hasDeploymentServer: boolean
  /** Wakes the worker after mails were queued. */
  wake(): void
  log: Log
}

const kind = 'mail'
const context = (projectId: string, eventId: string) => `project:${projectId}:posted:${eventId}`

/** Sealed, because it holds addresses, links and codes, and because SQL of the project must not be able to forge one. */
export function mailEvent(projectId: string, mail: Mail, sealer: Sealer): OutboxEvent {
  const id = crypto.randomUUID()
  return { id, kind, payload: { sealed: sealer.seal(JSON.stringify(mail), context(projectId, id)) } }
}

export function mailRelay({ control, sealer, hasDeploymentServer, wake, log }: MailRelayDeps): EventRelay {
  function open(projectId: string, { id, payload }: OutboxEvent): Mail[] {
    try {
      const { sealed } = payload as { sealed: string }
      if (!isSealed(sealed)) throw new Error('it is not sealed')
      return [JSON.parse(sealer.open(sealed, context(projectId, id)))]
    } catch (error) {
      log.error(
        { err: error, project: projectId, event: id },
        'mail event cannot be decrypted and is dropped',
      )
      return []
    }
  }

  async function renderOne(projectId: string, id: string, { to, template, values }: Mail) {
    const found = await store.findMailSettings(control, projectId, template)
    // Suspended: the event stays in the outbox until the project is resumed.
    if (!found) throw new Error('the project is not active')
    const text = render(found.custom ?? defaultTemplates[template], { ...values, project_name: found.name })
    return {
      isCaught: !hasDeploymentServer && !storedSmtp(found.settings),
      mail: sealMail(projectId, id, { to, template, ...text }, sealer),
    }
  }

  return {
    kind,
    async prepare({ id: projectId }, events) {
      const rendered: { isCaught: boolean; mail: store.SealedMail }[] = []
      for (const event of events)
        for (const mail of open(projectId, event)) rendered.push(await renderOne(projectId, event.id, mail))
      const [caught, queued] = [true, false].map(is =>
        rendered.filter(({ isCaught }) => isCaught === is).map(({ mail }) => mail),
      )
      return async session => {
        if (queued!.length > 0) await store.queueMails(session, projectId, queued!)
        if (caught!.length === 0) return
        await store.insertCaught(session, projectId, caught!)
        await store.deleteCaughtBeyond(session, projectId, maxCaughtMessages)
      }
    },
    relayed: wake,
  }
}
