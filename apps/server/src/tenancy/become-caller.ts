// The statement that gives a shared session the role, the claims and the limits of a caller, for one transaction. What is
// the same for many callers is part of its text, because Postgres needs longer for a parameter than for a constant.
import type { Role } from '@plinth/contract/route.ts'
import type { Step } from '#src/kernel/postgres/wire/unit.ts'

/**
 * Values that most requests of anon and signed-in users have. Sessions start with them, and `reset all` returns to them, so
 * they are set only if they differ.
 */
export const usualFacts = { 'request.user_id': '', 'request.method': 'GET' }

/** What SQL can read of a caller, and of the request. */
interface Identity {
  readonly role: Role
  readonly claims: string
  readonly userId: string
}
interface Facts {
  readonly method: string
  readonly path: string
  readonly headers: string
  readonly isReadOnly?: boolean
}

interface Text {
  readonly key: string
  readonly sql: string
}

/**
 * The conditions are all true, and run in this order. As a condition a value is not sent back. Locks that an earlier
 * caller's SQL holds for the session are released.
 */
function textOf(role: Role, timeoutMs: number, isReadOnly: boolean, names: readonly string[]): Text {
  const constants = [
    ['role', role],
    ['statement_timeout', String(timeoutMs)],
    ['transaction_read_only', isReadOnly ? 'on' : 'off'],
  ].map(([name, value]) => `set_config('${name}', '${value}', true)`)
  const parameters = names.map((name, index) => `set_config('${name}', $${index + 1}, true)`)
  const calls = [...constants, ...parameters, 'pg_advisory_unlock_all()']
  const sql = `select where ${calls.map(call => `${call} is not null`).join(' and ')}`
  return { key: `become ${role} ${timeoutMs} ${isReadOnly} ${names.length} ${names.at(-1)}`, sql }
}

/** Makes these steps for statements with the same timeouts. The texts are made once. */
export function becoming(
  timeoutsMs: Readonly<Record<Role, number>>,
): (caller: Identity, request: Facts, hasUsualFacts: boolean) => Step {
  const byRole: Record<Role, Text[]> = { anon: [], authenticated: [], service_role: [] }

  function make(role: Role, isReadOnly: boolean, setsUser: boolean, setsMethod: boolean): Text {
    const names = ['request.jwt.claims', 'request.path', 'request.headers']
    if (setsUser) names.push('request.user_id')
    if (setsMethod) names.push('request.method')
    return textOf(role, timeoutsMs[role], isReadOnly, names)
  }

  return ({ role, claims, userId }, { method, path, headers, isReadOnly = false }, hasUsualFacts) => {
    const setsUser = !hasUsualFacts || userId !== usualFacts['request.user_id']
    const setsMethod = !hasUsualFacts || method !== usualFacts['request.method']
    const index = (isReadOnly ? 1 : 0) | (setsUser ? 2 : 0) | (setsMethod ? 4 : 0)
    const texts = byRole[role]
    let text = texts[index]
    if (!text) {
      text = make(role, isReadOnly, setsUser, setsMethod)
      texts[index] = text
    }
    const values = [claims, path, headers]
    if (setsUser) values.push(userId)
    if (setsMethod) values.push(method)
    return { key: text.key, sql: text.sql, values }
  }
}
