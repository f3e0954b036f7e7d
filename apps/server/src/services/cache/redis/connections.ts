// Connections to Redis: one of the platform, and one per active project with the project's Redis user. They are opened on
// first use, shared by all requests, and closed when idle.
import { createChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { RedisAddress } from '#src/kernel/redis/address.ts'
import type { RedisCommand } from '#src/kernel/redis/command.ts'
import { connectRedis, type RedisConnection } from '#src/kernel/redis/connection.ts'
import { RedisError, RedisUnreachable } from '#src/kernel/redis/redis-error.ts'
import type { RedisReply } from '#src/kernel/redis/replies.ts'
import { unavailable } from './refusals.ts'
import type { RedisUsers } from './users.ts'

export interface Connections {
  /** Sends the command as the project's Redis user. */
  send(projectId: string, command: RedisCommand): Promise<RedisReply>
  /** The connection of the platform, for commands that projects may not use. */
  platform(): Promise<RedisConnection>
  /** Creates or repairs the Redis user of the project. */
  heal(projectId: string): Promise<void>
  disconnect(projectId: string): void
  /** Warnings for the operator. While there are any, each call tries to connect again. */
  warnings(): readonly string[]
  close(): void
}

interface ConnectionsDeps {
  address: RedisAddress
  users: RedisUsers
  /** Only existing projects get a Redis user. */
  exists(projectId: string): Promise<boolean>
  log: Log
}

type Problem = 'reach' | 'login' | 'users'

interface OpenConnection {
  connection: RedisConnection
  isUsed: boolean
}

/** An idle connection is closed after one to two of these intervals. */
const idleMs = 15_000
/** Delay before the next attempt after Redis was unreachable. */
const retryDelayMs = 300
const platformName = 'platform'
const minVersion = 7

export function createConnections({ address, users, exists, log }: ConnectionsDeps): Connections {
  const connections = new Map<string, OpenConnection>()
  const opening = new Map<string, Promise<RedisConnection>>()
  const healing = new Map<string, Promise<void>>()
  const sweeping = createChore({ name: 'close idle Redis connections', everyMs: idleMs, run: sweep })
  let retryAt = 0
  const problems = new Map<Problem, string>()
  let isClosed = false

  function report(problem: Problem, message: string, cause?: unknown): void {
    if (problems.get(problem) !== message) log.warn({ err: cause }, message)
    problems.set(problem, message)
  }

  function resolve(problem: Problem): void {
    if (problems.delete(problem)) log.info({ problem }, 'Redis problem resolved')
  }

  async function connect(login: RedisAddress['login']): Promise<RedisConnection> {
    if (isClosed || performance.now() < retryAt) throw new RedisUnreachable('Redis cannot be reached')
    let connection: RedisConnection
    try {
      connection = await connectRedis({ ...address, login })
    } catch (error) {
      if (error instanceof RedisUnreachable) {
        retryAt = performance.now() + retryDelayMs
        report('reach', 'Redis cannot be reached: the caches of projects answer 503', error)
      }
      throw error
    }
    if (Number.parseInt(connection.version, 10) >= minVersion && !isClosed) {
      resolve('reach')
      return connection
    }
    connection.close()
    retryAt = performance.now() + retryDelayMs
    const message = `Redis is too old for the caches of projects: it is ${connection.version}, and has to be ${minVersion} or newer`
    report('reach', message)
    throw unavailable(message)
  }

  async function openPlatform(): Promise<RedisConnection> {
    try {
      const connection = await connect(address.login)
      resolve('login')
      return connection
    } catch (error) {
      if (error instanceof RedisError)
        report('login', 'Redis refuses the login of REDIS_URL: the caches of projects answer 503', error)
      throw error
    }
  }

  async function openProject(projectId: string): Promise<RedisConnection> {
    const login = users.login(projectId)
    try {
      return await connect(login)
    } catch (error) {
      // Redis was flushed or restarted without its users, or was unreachable when the project was created.
      if (!isLoginError(error)) throw error
      await heal(projectId)
      return connect(login)
    }
  }

  /** Concurrent calls share one connection attempt. */
  function open(name: string): Promise<RedisConnection> {
    const running = opening.get(name)
    if (running) return running
    const started: Promise<RedisConnection> = (name === platformName ? openPlatform() : openProject(name))
      .then(connection => {
        // If it was disconnected meanwhile, waiting requests may still use it, and the next sweep closes it.
        connections.set(name, { connection, isUsed: opening.get(name) === started })
        sweeping.start()
        return connection
      })
      .finally(() => {
        if (opening.get(name) === started) opening.delete(name)
      })
    opening.set(name, started)
    return started
  }

  function sweep(): 'idle' | undefined {
    for (const [name, entry] of connections)
      if (entry.isUsed && entry.connection.isOpen) entry.isUsed = false
      else drop(name)
    return connections.size === 0 ? 'idle' : undefined
  }

  function drop(name: string): void {
    connections.get(name)?.connection.close()
    connections.delete(name)
    opening.delete(name)
  }

  function found(name: string): RedisConnection | undefined {
    const entry = connections.get(name)
    if (!entry?.connection.isOpen) return
    entry.isUsed = true
    return entry.connection
  }

  async function platform(): Promise<RedisConnection> {
    return found(platformName) ?? open(platformName)
  }

  function heal(projectId: string): Promise<void> {
    const running = healing.get(projectId)
    if (running) return running
    const started = createUser(projectId).finally(() => healing.delete(projectId))
    healing.set(projectId, started)
    return started
  }

  async function createUser(projectId: string): Promise<void> {
    if (!(await exists(projectId))) throw new Refusal('project_not_found', 'No project has this id')
    try {
      await (await platform()).send(users.create(projectId))
      resolve('users')
    } catch (error) {
      if (error instanceof RedisError)
        report(
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
    disconnect: drop,
    warnings() {
      if (problems.size > 0) void platform().catch(() => {})
      return [...problems.values()]
    },
    close() {
      isClosed = true
      void sweeping.stop()
      for (const name of connections.keys()) drop(name)
    },
  }
}

/** The Redis user is missing, has another password, or lacks a permission. */
export const isLoginError = (error: unknown): boolean =>
  error instanceof RedisError && ['WRONGPASS', 'NOAUTH', 'NOPERM'].includes(error.code)
