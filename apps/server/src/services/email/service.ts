// Mail of the projects: SMTP settings, templates, test mails, the catch-all, and enqueueing.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type CaughtMessage,
  type CaughtSummary,
  type Smtp,
  type SmtpInput,
  type Template,
  type TemplateInput,
  type TemplateType,
  templateTypes,
} from '@plinth/contract/email.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Connector } from '#src/kernel/outbound/connect.ts'
import { type OutgoingMail, sendLimits } from '#src/kernel/outbound/smtp.ts'
import { shownFailure } from '#src/kernel/outbound/smtp-failure.ts'
import { isAddress } from '#src/kernel/outbound/smtp-server.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { Outbox } from '#src/tenancy/outbox.ts'
import { sealSettings } from '#src/tenancy/settings-secrets.ts'
import { findSettings, lockSettings, saveSettings } from '#src/tenancy/settings-store.ts'
import { defaultTemplates, type MailText } from './default-templates.ts'
import type { Delivery, Route } from './delivery.ts'
import { type Mail, mailEvent } from './relay.ts'
import { render, templateError } from './render.ts'
import { openMail, sealMail } from './sealed-mail.ts'
import { checkSmtp, shownSmtp, smtpFromRequest, storedSmtp } from './smtp-settings.ts'
import * as store from './store.ts'

interface EmailDeps {
  control: Database
  sealer: Sealer
  owner: Pick<OwnerWork, 'tenant'>
  directory: Pick<Directory, 'forget'>
  delivery: Delivery
  /** For servers that projects configure. */
  connector: Connector
  outbox: Pick<Outbox, 'write'>
  baseUrl(): string
  /** Wakes the worker after mails became due. */
  wake(): void
  log: Log
}

export type EmailService = ReturnType<typeof emailService>
export type { Mail }

/** Concurrent test mails per project and process. */
const maxConcurrentTests = 2

export function emailService(deps: EmailDeps) {
  const { control, sealer, owner, directory, delivery, connector, outbox, baseUrl, wake, log } = deps
  const { deployment } = delivery
  const runningTests = new Map<string, number>()
  /**
   * Reports an unreachable server only after the full connection timeout. Otherwise the response time would show which
   * ports of the internal network are closed.
   */
  async function runTest(projectId: string, { isOwn, send }: Route, mail: OutgoingMail) {
    const running = runningTests.get(projectId) ?? 0
    if (running >= maxConcurrentTests)
      throw new Refusal(
        'over_request_rate_limit',
        `${maxConcurrentTests} test mails of this project are under way; wait until one has ended`,
        { headers: { 'retry-after': '10' } },
      )
    runningTests.set(projectId, running + 1)
    try {
      const since = performance.now()
      const failure = await send(mail)
      if (isOwn && failure?.kind === 'unreachable')
        await sleep(Math.max(0, sendLimits.reach - (performance.now() - since)), undefined, { ref: false })
      return failure
    } finally {
      const left = runningTests.get(projectId)! - 1
      if (left > 0) runningTests.set(projectId, left)
      else runningTests.delete(projectId)
    }
  }

  const settingsOf = async (projectId: string) => (await findSettings(control, projectId)) ?? throwNoProject()

  return {
    /** Writes the mail to the outbox in the given transaction. It is sent only if that commits. */
    async enqueue(session: Session, tenant: Tenant, mail: Mail): Promise<void> {
      if (!isAddress(mail.to)) throw new Refusal('invalid_request', 'Mail cannot be sent to this address')
      await outbox.write(session, tenant, mailEvent(tenant.id, mail, sealer))
    },

    /** Queues a notice about a project, in a transaction of the control database. */
    async notify(
      session: Session,
      projectId: string,
      recipients: readonly string[],
      { subject, text }: { subject: string; text: string },
    ): Promise<void> {
      const mails = recipients.map(to =>
        sealMail(
          projectId,
          crypto.randomUUID(),
          { to, template: 'notice', subject, body_html: noticeHtml(text), body_text: text },
          sealer,
        ),
      )
      if (mails.length > 0) await store.queueMails(session, projectId, mails)
    },

    async readSmtp(projectId: string): Promise<Smtp> {
      const { id } = await owner.tenant(projectId)
      return shownSmtp(storedSmtp((await settingsOf(id)).settings), deployment)
    },

    async saveSmtp(projectId: string, request: SmtpInput): Promise<Smtp> {
      const { id } = await owner.tenant(projectId)
      checkSmtp(request, connector)
      const saved = await control.transaction(async session => {
        const { settings } = (await lockSettings(session, id)) ?? throwNoProject()
        const changed = sealSettings(
          { ...settings, smtp: smtpFromRequest(request, settings) },
          id,
          sealer,
        ).settings
        await saveSettings(session, id, changed)
        return changed
      })
      directory.forget(id)
      // Retry mails that failed with the old settings immediately.
      if ((await store.makeDue(control, id)) > 0) wake()
      return shownSmtp(storedSmtp(saved), deployment)
    },

    async sendTest(projectId: string, to: string, template: TemplateType) {
      const tenant = await owner.tenant(projectId)
      if (tenant.status === 'suspended')
        throw new Refusal('project_suspended', 'Mail of a suspended project is not sent; resume it first')
      const { name, settings } = await settingsOf(tenant.id)
      const route = delivery.route(tenant.id, settings)
      if (!route)
        throw new Refusal(
          'smtp_not_configured',
          'No SMTP server is configured; set one with PUT /api/v1/projects/{id}/email/smtp',
        )
      const custom = await store.findTemplate(control, tenant.id, template)
      const { subject, body_html, body_text } = render(custom ?? defaultTemplates[template], {
        user_name: 'Test User',
        action_url: baseUrl(),
        project_name: name,
        expires_in: '1 hour',
        token: '123456',
        email: to,
      })
      const mail = { id: crypto.randomUUID(), to, subject, html: body_html, text: body_text }
      const failure = await runTest(tenant.id, route, mail)
      if (!failure) return { success: true, message: `The server has taken the test mail to ${to}` }
      log.warn({ project: tenant.id, reason: failure.reason }, 'test mail failed')
      return { success: false, message: `The test mail was not sent: ${shownFailure(failure)}` }
    },

    listDefaults(page: Paging) {
      return paged(templateTypes.map(builtIn), page)
    },

    async listTemplates(projectId: string, page: Paging) {
      const { id } = await owner.tenant(projectId)
      return paged((await store.listTemplates(control, id)).map(custom), page)
    },

    async readTemplate(projectId: string, type: TemplateType): Promise<Template> {
      const { id } = await owner.tenant(projectId)
      const own = await store.findTemplate(control, id, type)
      return own ? custom(own) : builtIn(type)
    },

    async saveTemplate(projectId: string, type: TemplateType, request: TemplateInput): Promise<Template> {
      const text: MailText = {
        subject: request.subject,
        body_html: request.body_html,
        body_text: request.body_text ?? '',
      }
      if (text.body_html === '' && text.body_text === '')
        throw new Refusal('invalid_request', 'A template needs a body: body_html, body_text or both')
      for (const [field, part] of Object.entries(text)) {
        const error = templateError(part)
        if (error) throw new Refusal('invalid_request', `Field "${field}": ${error}`)
      }
      const { id } = await owner.tenant(projectId)
      return custom((await store.saveTemplate(control, id, type, text))!)
    },

    async revertTemplate(projectId: string, type: TemplateType): Promise<void> {
      const { id } = await owner.tenant(projectId)
      await store.deleteTemplate(control, id, type)
    },

    async listCaught(projectId: string, page: Paging) {
      const { id } = await owner.tenant(projectId)
      const { rows, total } = await store.listCaught(control, id, page)
      return { messages: rows.map(row => summary(openCaught(row, sealer))), total, ...page }
    },

    async readCaught(projectId: string, messageId: string): Promise<CaughtMessage> {
      const { id } = await owner.tenant(projectId)
      const row = await store.findCaught(control, id, messageId.toLowerCase())
      if (!row)
        throw new Refusal('message_not_found', 'The catch-all of the project has no message of this id')
      return openCaught(row, sealer)
    },
  }
}

const noticeHtml = (text: string) =>
  text
    .split('\n\n')
    .map(part => `<p>${part.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)}</p>`)
    .join('')

const builtIn = (type: TemplateType): Template => ({
  template_type: type,
  ...defaultTemplates[type],
  is_custom: false,
  updated_at: null,
})
const custom = (own: Omit<Template, 'is_custom'>): Template => ({ ...own, is_custom: true })

const paged = (templates: Template[], { limit, offset }: Paging) => ({
  templates: templates.slice(offset, offset + limit),
  total: templates.length,
  limit,
  offset,
})

function openCaught(row: store.CaughtRow, sealer: Sealer): CaughtMessage {
  const { to, template, subject, body_html, body_text } = openMail(row, sealer)
  return { id: row.id, to, template, subject, created_at: row.created_at, body_html, body_text }
}
const summary = ({ id, to, template, subject, created_at }: CaughtMessage): CaughtSummary => ({
  id,
  to,
  template,
  subject,
  created_at,
})

function throwNoProject(): never {
  throw new Refusal('project_not_found', 'No project has this id')
}
