// Sends what is queued, by the SMTP settings of that moment. At least once: a process that dies after sending and
// before noting it leaves a mail that is sent again.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import { sendLimits } from '#src/kernel/outbound/smtp.ts'
import type { SmtpFailure } from '#src/kernel/outbound/smtp-failure.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { startWorker, type Work, type Worker } from '#src/kernel/worker.ts'
import { keptMessages } from './catch-all.ts'
import { openMail } from './content.ts'
import type { Delivery } from './delivery.ts'
import { createMailSlots, mailSlots } from './slots.ts'
import * as store from './store.ts'

interface MailWorkerDeps {
  control: Database
  sealer: Sealer
  delivery: Delivery
  log: Log
}

/** Seconds to the next attempt after the first, the second, …: ten attempts in 22 hours. */
const delays = [2, 10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600]
const attemptsAtMost = delays.length + 1
/** What a server refuses for good it will hardly take later. */
const attemptsIfFinal = 3
/** Mail of a project that stays suspended is of no use any more. */
const keptHours = 26
const leaseSeconds = (2 * sendLimits.whole) / 1000
const hourMs = 3_600_000

type Outcome =
  | { kind: 'sent' }
  | { kind: 'caught' }
  | { kind: 'stopped' }
  | { kind: 'failed'; failure: Omit<SmtpFailure, 'kind'> }

export function startMailWorker({ control, sealer, delivery, log }: MailWorkerDeps): Worker {
  const slots = createMailSlots()
  let sweptAt = Number.NEGATIVE_INFINITY

  async function sweep(): Promise<void> {
    if (performance.now() - sweptAt < hourMs) return
    sweptAt = performance.now()
    for (const { project_id } of await store.deleteOverdue(control, keptHours))
      log.warn({ project: project_id }, 'a mail that could not be sent for a day was dropped')
  }

  /** Never throws. */
  async function send(mail: store.QueuedMail, stop: AbortSignal): Promise<Outcome> {
    try {
      if (mail.attempts > attemptsAtMost) return failed('its sender died again and again')
      const route = delivery.route(mail.project_id, mail.settings)
      if (!route) return { kind: 'caught' }
      const { to, subject, body_html, body_text } = openMail(mail, sealer)
      const outgoing = { id: mail.id, to, subject, html: body_html, text: body_text }
      const failure = await route.send(outgoing, stop)
      if (!failure) return { kind: 'sent' }
      return stop.aborted ? { kind: 'stopped' } : { kind: 'failed', failure }
    } catch (error) {
      // Sealed with another key, or altered: nothing that trying again at once would mend.
      log.error({ err: error, project: mail.project_id }, 'a mail or its SMTP password cannot be opened')
      return failed('the mail or the SMTP password cannot be opened')
    }
  }

  async function noteFailure(
    mail: store.QueuedMail,
    { reason, isFinal }: Omit<SmtpFailure, 'kind'>,
  ): Promise<void> {
    const facts = { project: mail.project_id, mail: mail.id, attempt: mail.attempts, reason }
    const delay =
      mail.attempts >= (isFinal ? attemptsIfFinal : attemptsAtMost) ? undefined : delays[mail.attempts - 1]
    // Log first, so that the reason is in the log before the queue shows the outcome.
    if (delay === undefined) {
      log.error(facts, 'a mail could not be sent and is given up')
      await store.deleteQueued(control, mail.id)
      return
    }
    log.warn({ ...facts, againInSeconds: delay }, 'a mail could not be sent; trying again')
    await store.postpone(control, mail, delay)
  }

  async function note(mail: store.QueuedMail, outcome: Outcome): Promise<void> {
    switch (outcome.kind) {
      case 'sent':
        await store.deleteQueued(control, mail.id)
        log.debug({ project: mail.project_id, mail: mail.id }, 'a mail was sent')
        return
      case 'caught':
        await store.moveToCaught(control, mail.id)
        await store.forgetCaughtBeyond(control, mail.project_id, keptMessages)
        return
      case 'stopped':
        await store.giveBack(control, mail)
        return
      case 'failed':
        return noteFailure(mail, outcome.failure)
    }
  }

  const work: Work<store.QueuedMail, Outcome> = {
    name: 'mail',
    atOnce: mailSlots.all,
    pollMs: 60_000,
    graceMs: 2000,
    async claim() {
      const { excluded, isFull } = slots.state()
      if (isFull) return undefined
      const mail = await store.claimDueMail(control, excluded, leaseSeconds)
      if (mail) slots.take(mail.id, mail.project_id)
      else await sweep()
      return mail
    },
    async nextDueMs() {
      const { excluded, isFull, nextChangeMs } = slots.state()
      const dueMs = isFull ? undefined : (await store.findNextDue(control, excluded))?.ms
      return Math.min(dueMs ?? Number.POSITIVE_INFINITY, nextChangeMs)
    },
    async act(mail, stop) {
      try {
        return await send(mail, stop)
      } finally {
        slots.release(mail.id)
      }
    },
    record: note,
  }
  return startWorker(work, log)
}

const failed = (reason: string): Outcome => ({ kind: 'failed', failure: { reason, isFinal: false } })
