// Keeps the user list of PgBouncer current. It has the owner of every served project, with a verifier that is derived, so
// every node writes the same list. Nodes that share the file need no lock: after writing it, a node reads the state again,
// so the last node to write finds that its list is outdated, and writes another one.
import { setTimeout as sleep } from 'node:timers/promises'
import { createChore } from '#src/kernel/chores.ts'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import { scramVerifier } from '#src/kernel/crypto/scram.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import type { Endpoint } from '#src/kernel/postgres/server-address.ts'
import { type Logins, loginRole } from '#src/tenancy/logins.ts'
import { reloadPooler } from './admin-console.ts'
import { listOwnerLogins, type OwnerLogin } from './store.ts'
import { readUserList, removeLeftovers, replaceUserList } from './user-list-file.ts'
import { type PoolerUser, userListText } from './user-list-text.ts'

export interface UserList {
  /** Resolves when the list has all projects that are served now, and PgBouncer knows it, or if that has failed. */
  refresh(): Promise<void>
  /** The same for requests, which do not wait long for a pooler that hangs. */
  refreshInTime(): Promise<void>
  /** Restores the password of a project's owner in Postgres, if it is not the one of the list. */
  repairLogin(ref: string): Promise<void>
  warnings(): readonly string[]
  start(): void
  close(): Promise<void>
}

export interface PoolerAccess {
  endpoint: Endpoint
  /** An admin user of PgBouncer. Without one, the operator must reload PgBouncer. */
  admin: { user: string; password: string } | undefined
}

export interface UserListDeps {
  control: Database
  logins: Logins
  deriveKey: DeriveKey
  log: Log
}

/** For repairs: lists that were changed by hand, passwords that projects have changed, a pooler that was down. */
const everyMs = 10_000
const requestMs = 2000
/** Other nodes may write at the same time. */
const maxRounds = 5

export function createUserList(
  { control, logins, deriveKey, log }: UserListDeps,
  { endpoint, admin }: PoolerAccess,
  path: string,
): UserList {
  let verifiers = new Map<string, string>()
  let adminUser: PoolerUser | undefined
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  /** The list at the last RELOAD of this node. A node that was killed may have written a list without RELOAD. */
  let loaded: string | undefined
  let isClosed = false
  const problems = { writing: '', loading: '' }

  async function verifierOf(ref: string): Promise<string> {
    return verifiers.get(ref) ?? (await logins.verifier(ref, 'owner'))
  }

  async function servedUsers(): Promise<PoolerUser[]> {
    const served = new Map<string, string>()
    for (const { ref } of await listOwnerLogins(control)) served.set(ref, await verifierOf(ref))
    verifiers = served
    adminUser ??= admin && { name: admin.user, verifier: await adminVerifier(admin) }
    const owners = Array.from(served, ([ref, verifier]) => ({ name: loginRole(ref, 'owner'), verifier }))
    return adminUser ? [adminUser, ...owners] : owners
  }

  function adminVerifier({ user, password }: { user: string; password: string }): Promise<string> {
    return scramVerifier(password, hmac(deriveKey('pooler admin salt'), user).subarray(0, 16))
  }

  /** Returns the list of the file, or undefined if it cannot be written. */
  async function write(): Promise<string | undefined> {
    for (let round = 1; ; round++) {
      const users = await servedUsers()
      try {
        const file = await readUserList(path)
        const text = userListText(file?.text ?? '', users)
        if (file?.text !== text) {
          await replaceUserList(path, text, file?.stats)
          loaded = undefined
        }
        report('writing', undefined)
        if (file?.text === text || round === maxRounds) return text
      } catch (error) {
        report('writing', error)
        return
      }
    }
  }

  async function load(text: string): Promise<void> {
    if (!admin || text === loaded) return
    try {
      await reloadPooler({ ...endpoint, ...admin })
      loaded = text
      report('loading', undefined)
    } catch (error) {
      report('loading', error)
    }
  }

  /** Logs the first of several failures. */
  function report(step: keyof typeof problems, error: unknown): void {
    const problem = error === undefined ? '' : reasonOf(error)
    if (problem !== '' && problem !== problems[step]) log.warn({ err: error, path }, messages[step].log)
    problems[step] = problem
  }

  function begin(): Promise<void> {
    running = write()
      .then(text => (text === undefined ? undefined : load(text)))
      .finally(() => {
        running = undefined
      })
    return running
  }

  /** A refresh that has begun may have missed a change, so callers wait for the next one. */
  async function refresh(): Promise<void> {
    if (isClosed) return
    if (next) return next
    if (!running) return begin()
    next = running
      .catch(() => {})
      .then(() => {
        next = undefined
        return begin()
      })
    return next
  }

  /** A project can lock its own role. Then the chore tries again. */
  async function repair({ id, ref, verifier }: OwnerLogin): Promise<void> {
    if (verifier === (await verifierOf(ref))) return
    await logins
      .heal(control, ref, 'owner')
      .catch(error =>
        log.warn({ err: error, project: id }, 'could not restore the login of an owner; will retry'),
      )
  }

  const chore = createChore(
    {
      name: 'keep the user list of the pooler current',
      everyMs,
      runsAtStart: true,
      async run(signal) {
        await refresh()
        await removeLeftovers(path)
        for (const login of await listOwnerLogins(control)) if (!signal.aborted) await repair(login)
      },
    },
    log,
  )

  return {
    refresh,
    refreshInTime: () => Promise.race([refresh(), sleep(requestMs, undefined, { ref: false })]),
    async repairLogin(ref) {
      for (const login of await listOwnerLogins(control, ref)) await repair(login)
    },
    warnings: () =>
      (['writing', 'loading'] as const)
        .filter(step => problems[step] !== '')
        .map(step => messages[step].warning(problems[step])),
    start: () => chore.start(),
    async close() {
      isClosed = true
      await chore.stop()
      await (next ?? running)?.catch(() => {})
    },
  }
}

/** Without paths, which the messages of the file system have. The log has them. */
function reasonOf(error: unknown): string {
  if (error instanceof DatabaseError) return error.message
  return (error as NodeJS.ErrnoException).code ?? (error as Error).message
}

const messages = {
  writing: {
    log: 'could not write the user list of the pooler; will retry',
    warning: (reason: string) =>
      `The user list of the pooler cannot be written (${reason}): new projects cannot connect through the pooler. PLATFORM_POOLER_USERLIST must be a file that the platform may replace.`,
  },
  loading: {
    log: 'the pooler did not reload its user list; will retry',
    warning: (reason: string) =>
      `The pooler did not reload its user list (${reason}): new projects cannot connect through it. Check that it runs and that the user of PLATFORM_POOLER_URL is in its admin_users, then reload it once.`,
  },
}
