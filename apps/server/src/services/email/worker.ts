// Sends queued mails with the current SMTP settings, at least once. If a process dies after sending and before recording
// it, the mail is sent again.
import { startChore } from '#src/kernel/chores.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import { sendLimits } from '#src/kernel/outbound/smtp.ts'
import type { SmtpFailure } from '#src/kernel/outbound/smtp-failure.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { startWorker, type Work, type Worker } from '#src/kernel/worker.ts'
import type { Bounds } from '#src/kernel/worker-slots.ts'
import { maxCaughtMessages } from './catch-all.ts'
import type { Delivery } from './delivery.ts'
import { openMail } from './sealed-mail.ts'
import * as store from './store.ts'

interface MailWorkerDeps {
  control: Database
  sealer: Sealer
  delivery: Delivery
  log: Log
}

/** Seconds to wait after each failed attempt. Together ten attempts in 22 hours. */
const retryDelays = [2, 10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600]
const maxAttempts = retryDelays.length + 1
/** After a permanent SMTP error (5xx) a retry rarely succeeds. */
const maxAttemptsIfPermanent = 3
/** Mail of a suspended project is deleted after this time. */
const maxAgeHours = 26
const leaseSeconds = (2 * sendLimits.whole) / 1000
const hourMs = 3_600_000
/** A slow server occupies a slot until the timeout, so slow projects share fewer slots. */
const bounds: Bounds = {
  all: 150,
  perProject: 2,
  slow: { afterMs: 10_000, forMs: 600_000, prompt: 50, shared: 25, perProject: 1 },
}

type Outcome =
  | { kind: 'sent' }
  | { kind: 'caught' }
  | { kind: 'stopped' }
  | { kind: 'failed'; failure: Omit<SmtpFailure, 'kind'> }

export function startMailWorker({ control, sealer, delivery, log }: MailWorkerDeps): Worker {
  async function deleteOverdue(): Promise<void> {
    for (const { project_id } of await store.deleteOverdue(control, maxAgeHours))
      log.warn({ project: project_id }, 'mail not sent within a day; dropped')
  }

  /** Never throws. */
  async function send(mail: store.QueuedMail, stop: AbortSignal): Promise<Outcome> {
    try {
      if (mail.attempts > maxAttempts) return failed('the sending process died at every attempt')
      const route = delivery.route(mail.project_id, mail.settings)
      if (!route) return { kind: 'caught' }
      const { to, subject, body_html, body_text } = openMail(mail, sealer)
      const outgoing = { id: mail.id, to, subject, html: body_html, text: body_text }
      const failure = await route.send(outgoing, stop)
      if (!failure) return { kind: 'sent' }
      return stop.aborted ? { kind: 'stopped' } : { kind: 'failed', failure }
    } catch (error) {
      // Sealed with another key, or altered. An immediate retry would fail, too.
      log.error({ err: error, project: mail.project_id }, 'mail or SMTP password cannot be decrypted')
      return failed('the mail or the SMTP password cannot be opened')
    }
  }

  async function recordFailure(
    mail: store.QueuedMail,
    { reason, isFinal }: Omit<SmtpFailure, 'kind'>,
  ): Promise<void> {
    const facts = { project: mail.project_id, mail: mail.id, attempt: mail.attempts, reason }
    const delay =
      mail.attempts >= (isFinal ? maxAttemptsIfPermanent : maxAttempts)
        ? undefined
        : retryDelays[mail.attempts - 1]
    // Logged before the queue changes, so that the log explains every state of the queue.
    if (delay === undefined) {
      log.error(facts, 'a mail could not be sent and is given up')
      await store.deleteQueued(control, mail.id)
      return
    }
    log.warn({ ...facts, againInSeconds: delay }, 'a mail could not be sent; trying again')
    await store.postpone(control, mail, delay)
  }

  async function record(mail: store.QueuedMail, outcome: Outcome): Promise<void> {
    switch (outcome.kind) {
      case 'sent':
        await store.deleteQueued(control, mail.id)
        log.debug({ project: mail.project_id, mail: mail.id }, 'mail sent')
        return
      case 'caught':
        await store.moveToCaught(control, mail.id)
        await store.deleteCaughtBeyond(control, mail.project_id, maxCaughtMessages)
        return
      case 'stopped':
        await store.release(control, mail)
        return
      case 'failed':
        return recordFailure(mail, outcome.failure)
    }
  }

  const work: Work<store.QueuedMail, Outcome> = {
    name: 'mail',
    bounds,
    pollMs: 60_000,
    graceMs: 2000,
    claim: room => store.claimDueMails(control, room, leaseSeconds),
    nextDueMs: async full => (await store.findNextDue(control, full))?.ms ?? undefined,
    act: send,
    record,
  }
  const worker = startWorker(work, log)
  const deleting = startChore(
    { name: 'mail: delete overdue', everyMs: hourMs, runsAtStart: true, run: deleteOverdue },
    log,
  )
  return {
    ...worker,
    async close() {
      await deleting.stop()
      await worker.close()
    },
  }
}

const failed = (reason: string): Outcome => ({ kind: 'failed', failure: { reason, isFinal: false } })
