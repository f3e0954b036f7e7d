// The connections to Redis: one of the platform's own, and one for each project in use, as the project's own user.
// They are opened when first needed, shared by all requests, and closed when nobody has used them for a while.
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { RedisAddress } from '#src/kernel/redis/address.ts'
import type { RedisCommand } from '#src/kernel/redis/command.ts'
import { connectRedis, type RedisConnection } from '#src/kernel/redis/connection.ts'
import { RedisError, RedisUnreachable } from '#src/kernel/redis/redis-error.ts'
import type { RedisReply } from '#src/kernel/redis/replies.ts'
import { unavailable } from './refusals.ts'
import type { RedisUsers } from './users.ts'

export interface Lines {
  /** As the project's own user. */
  send(projectId: string, command: RedisCommand): Promise<RedisReply>
  /** The platform's own connection, for what no project may do. */
  platform(): Promise<RedisConnection>
  /** Makes the project's user what it should be. */
  heal(projectId: string): Promise<void>
  hangUp(projectId: string): void
  /** Whether anything is wrong, in words for an operator; looks again while something is. */
  warnings(): readonly string[]
  close(): void
}

interface LinesDeps {
  address: RedisAddress
  users: RedisUsers
  /** Only projects that are there get a user. */
  isThere(projectId: string): Promise<boolean>
  log: Log
}

type Trouble = 'reach' | 'login' | 'users'

interface Line {
  connection: RedisConnection
  isUsed: boolean
}

/** An unused connection is closed when this has gone by once or twice. */
const idleMs = 15_000
/** How long nobody tries again after Redis could not be reached. */
const restMs = 300
const platformLine = 'platform'
const leastVersion = 7

export function createLines({ address, users, isThere, log }: LinesDeps): Lines {
  const lines = new Map<string, Line>()
  const opening = new Map<string, Promise<RedisConnection>>()
  const healing = new Map<string, Promise<void>>()
  let sweeping: NodeJS.Timeout | undefined
  let restUntil = 0
  const troubles = new Map<Trouble, string>()
  let isClosed = false

  function note(trouble: Trouble, told: string, cause?: unknown): void {
    if (troubles.get(trouble) !== told) log.warn({ err: cause }, told)
    troubles.set(trouble, told)
  }

  function noteGone(trouble: Trouble): void {
    if (troubles.delete(trouble)) log.info({ trouble }, 'Redis is of use to the caches again')
  }

  async function connect(login: RedisAddress['login']): Promise<RedisConnection> {
    if (isClosed || performance.now() < restUntil) throw new RedisUnreachable('Redis cannot be reached')
    let connection: RedisConnection
    try {
      connection = await connectRedis({ ...address, login })
    } catch (error) {
      if (error instanceof RedisUnreachable) {
        restUntil = performance.now() + restMs
        note('reach', 'Redis cannot be reached: the caches of projects answer 503', error)
      }
      throw error
    }
    if (Number.parseInt(connection.version, 10) >= leastVersion && !isClosed) {
      noteGone('reach')
      return connection
    }
    connection.close()
    restUntil = performance.now() + restMs
    const told = `Redis is too old for the caches of projects: it is ${connection.version}, and has to be ${leastVersion} or newer`
    note('reach', told)
    throw unavailable(told)
  }

  async function openPlatformLine(): Promise<RedisConnection> {
    try {
      const connection = await connect(address.login)
      noteGone('login')
      return connection
    } catch (error) {
      if (error instanceof RedisError)
        note('login', 'Redis refuses the login of REDIS_URL: the caches of projects answer 503', error)
      throw error
    }
  }

  async function openProjectLine(projectId: string): Promise<RedisConnection> {
    const login = users.login(projectId)
    try {
      return await connect(login)
    } catch (error) {
      // Redis was emptied or started anew, or the project was made while it was away.
      if (!isAboutLogin(error)) throw error
      await heal(projectId)
      return connect(login)
    }
  }

  /** Whoever comes while it is being opened waits for the same one. */
  function open(name: string): Promise<RedisConnection> {
    const running = opening.get(name)
    if (running) return running
    const started: Promise<RedisConnection> = (
      name === platformLine ? openPlatformLine() : openProjectLine(name)
    )
      .then(connection => {
        // Hung up in the meantime: whoever waited may still use it, and then it goes.
        lines.set(name, { connection, isUsed: opening.get(name) === started })
        sweeping ??= setInterval(sweep, idleMs).unref()
        return connection
      })
      .finally(() => {
        if (opening.get(name) === started) opening.delete(name)
      })
    opening.set(name, started)
    return started
  }

  function sweep(): void {
    for (const [name, line] of lines)
      if (line.isUsed && line.connection.isOpen) line.isUsed = false
      else drop(name)
    if (lines.size > 0) return
    clearInterval(sweeping)
    sweeping = undefined
  }

  function drop(name: string): void {
    lines.get(name)?.connection.close()
    lines.delete(name)
    opening.delete(name)
  }

  function found(name: string): RedisConnection | undefined {
    const line = lines.get(name)
    if (!line?.connection.isOpen) return
    line.isUsed = true
    return line.connection
  }

  async function platform(): Promise<RedisConnection> {
    return found(platformLine) ?? open(platformLine)
  }

  function heal(projectId: string): Promise<void> {
    const running = healing.get(projectId)
    if (running) return running
    const started = makeUser(projectId).finally(() => healing.delete(projectId))
    healing.set(projectId, started)
    return started
  }

  async function makeUser(projectId: string): Promise<void> {
    if (!(await isThere(projectId))) throw new Refusal('project_not_found', 'No project has this id')
    try {
      await (await platform()).send(users.create(projectId))
      noteGone('users')
    } catch (error) {
      if (error instanceof RedisError)
        note(
          'users',
          'Redis does not let the login of REDIS_URL manage users: the caches of projects answer 503',
          error,
        )
      throw error
    }
  }

  return {
    send(projectId, command) {
      const connection = found(projectId)
      return connection ? connection.send(command) : open(projectId).then(opened => opened.send(command))
    },
    platform,
    heal,
    hangUp: drop,
    warnings() {
      if (troubles.size > 0) void platform().catch(() => {})
      return [...troubles.values()]
    },
    close() {
      isClosed = true
      clearInterval(sweeping)
      for (const name of lines.keys()) drop(name)
    },
  }
}

/** The user is not there, has another password, or may not do what it should. */
export const isAboutLogin = (error: unknown): boolean =>
  error instanceof RedisError && ['WRONGPASS', 'NOAUTH', 'NOPERM'].includes(error.code)
