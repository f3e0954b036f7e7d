// Access tokens are good until they expire; sessions can end and users be banned before. What is new about that stands
// in each project's database, and is asked for at most twice a second, and only while signed-in users call: an idle
// project costs nothing, and no node depends on another to tell it.
import { Refusal } from '#src/kernel/errors.ts'
import { unavailable } from '#src/kernel/postgres/unavailable.ts'
import type { AuthStatement, Caller, Databases } from './databases.ts'
import type { Tenant } from './directory.ts'

export interface Revocations {
  /** Answers at once while what is known is fresh. A database that does not answer refuses. */
  isRevoked(caller: Caller): boolean | Promise<boolean>
}

interface Known {
  /** More than can be remembered: each caller is asked about. */
  isTooMuch: boolean
  /** Subjects (sessions and users) and until when none of their tokens counts. */
  readonly until: Map<string, number>
  /** Transactions before this one had ended when the last look was taken. */
  seenUpTo: string
  lookedAt: number
  looking: Promise<void> | undefined
}

const askAfterMs = 400
/** From here on nobody is admitted on what was known before. */
const staleAfterMs = 900
/** After so long everything is read anew: what was lifted meanwhile may not be noted any more. */
const forgetAfterMs = 30_000
const tidyAt = 1000
const mostRemembered = 10_000

const whatIsNew: AuthStatement = {
  name: 'revocations',
  sql: `
    select pg_snapshot_xmin(pg_current_snapshot())::text,
           coalesce(json_agg(json_build_array(subject,
             extract(epoch from least(until, timestamptz '9999-01-01')) * 1000)), '[]')
      from (select subject, until from auth.revocations where xid >= $1::xid8 limit ${mostRemembered + 1}) r`,
}

/** Tokens made by hand may name anything. */
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const isNoted: AuthStatement = {
  name: 'is revoked',
  sql: 'select exists (select from auth.revocations where subject = any($1::uuid[]) and until > now())',
}

export function createRevocations(databases: Databases): Revocations {
  const projects = new Map<string, Known>()
  databases.onIdle(id => void projects.delete(id))

  function look(known: Known, caller: Caller): Promise<void> {
    known.looking ??= read(known, caller).finally(() => {
      known.looking = undefined
    })
    return known.looking
  }

  async function read(known: Known, { tenant }: Caller): Promise<void> {
    const startedAt = performance.now()
    if (startedAt - known.lookedAt > forgetAfterMs) forgetAll(known)
    const [seenUpTo, news] = await ask(tenant, whatIsNew, [known.seenUpTo])
    const entries = JSON.parse(news!) as [string, number][]
    known.isTooMuch = known.until.size + entries.length > mostRemembered
    if (known.isTooMuch) forgetAll(known)
    else {
      for (const [subject, until] of entries) known.until.set(subject, until)
      known.seenUpTo = seenUpTo!
    }
    known.lookedAt = startedAt
    if (known.until.size >= tidyAt)
      for (const [subject, until] of known.until) if (until < Date.now()) known.until.delete(subject)
  }

  /** Nobody is admitted on a guess. */
  async function ask(
    tenant: Tenant,
    statement: AuthStatement,
    values: string[],
  ): Promise<(string | undefined)[]> {
    try {
      const { rows } = await databases.asAuth(tenant, statement, values)
      return rows[0]!.map(cell => cell?.toString('utf8'))
    } catch (error) {
      throw error instanceof Refusal ? error : unavailable(error)
    }
  }

  /** As Postgres writes it, whatever a token made by hand has for the same id. */
  const holds = ({ until }: Known, subject: string) =>
    until.size > 0 && (until.get(subject.toLowerCase()) ?? 0) > Date.now()
  function judge(known: Known, { tenant, userId, sessionId }: Caller): boolean | Promise<boolean> {
    if (!known.isTooMuch) return holds(known, userId) || holds(known, sessionId)
    const subjects = [userId, sessionId].filter(id => uuid.test(id))
    return ask(tenant, isNoted, [`{${subjects.join(',')}}`]).then(([is]) => is === 't')
  }

  return {
    isRevoked(caller) {
      const { id } = caller.tenant
      let known = projects.get(id)
      if (!known) {
        known = nothingKnown()
        projects.set(id, known)
      }
      const age = performance.now() - known.lookedAt
      if (age <= askAfterMs) return judge(known, caller)
      const looked = look(known, caller)
      if (age > staleAfterMs) return looked.then(() => judge(known, caller))
      // Nobody waits for this one; if it fails, the next caller does.
      looked.catch(() => {})
      return judge(known, caller)
    },
  }
}

const nothingKnown = (): Known => ({
  isTooMuch: false,
  until: new Map(),
  seenUpTo: '0',
  lookedAt: Number.NEGATIVE_INFINITY,
  looking: undefined,
})

function forgetAll(known: Known): void {
  known.until.clear()
  known.seenUpTo = '0'
}
