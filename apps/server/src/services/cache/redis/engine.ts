// The Redis engine. Commands of a project use the connection of its Redis user, scans over keys that of the platform.
import { Refusal } from '#src/kernel/errors.ts'
import type { RedisCommand } from '#src/kernel/redis/command.ts'
import type { RedisConnection } from '#src/kernel/redis/connection.ts'
import type { RedisReply } from '#src/kernel/redis/replies.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { CacheEngine } from '../engine.ts'
import { checkAnswer } from '../too-large.ts'
import { type Connections, isLoginError } from './connections.ts'
import { listKeys, removeKeys, scanKeys, statsOf } from './keys.ts'
import { readKey } from './reading.ts'
import { refusalFrom } from './refusals.ts'
import { prefixOf, type RedisUsers } from './users.ts'

const removeAtOnce = 500

export function createRedisEngine(connections: Connections, users: RedisUsers): CacheEngine {
  /** A command that Redis rejected for a missing permission had no effect. Repair the user and retry once. */
  async function again(error: unknown, projectId: string, command: RedisCommand): Promise<RedisReply> {
    try {
      if (!isLoginError(error)) throw error
      await connections.heal(projectId)
      return await connections.send(projectId, command)
    } catch (final) {
      throw refusalFrom(final)
    }
  }

  const run = <T>({ id }: Tenant, command: RedisCommand, read: (reply: RedisReply) => T): Promise<T> =>
    connections.send(id, command).then(read, error => again(error, id, command).then(read))

  /** 0 for a key that is not a string, because MGET skips it. */
  const lengthOf = (tenant: Tenant, key: string): Promise<number> =>
    run(tenant, ['STRLEN', prefixOf(tenant.id) + key], Number).catch(error => {
      if (error instanceof Refusal && error.code === 'wrong_type') return 0
      throw error
    })

  async function asPlatform<T>(work: (redis: RedisConnection) => Promise<T>): Promise<T> {
    try {
      return await work(await connections.platform())
    } catch (error) {
      throw refusalFrom(error)
    }
  }

  return {
    get: (tenant, key) => run(tenant, ['GET', prefixOf(tenant.id) + key], textOrUndefined),

    set(tenant, key, value, { ttlMs, onlyIf }) {
      const command = ['SET', prefixOf(tenant.id) + key, value]
      if (ttlMs !== undefined) command.push('PX', String(ttlMs))
      if (onlyIf !== undefined) command.push(onlyIf === 'absent' ? 'NX' : 'XX')
      return run(tenant, command, isOk)
    },

    /** Sent as several commands, because one that frees very many keys would block Redis. */
    async remove(tenant, keys) {
      const whole = keys.map(key => prefixOf(tenant.id) + key)
      let removed = 0
      for (let at = 0; at < whole.length; at += removeAtOnce)
        removed += await run(tenant, ['UNLINK', ...whole.slice(at, at + removeAtOnce)], Number)
      return removed
    },

    add: (tenant, key, by) =>
      run(tenant, ['INCRBY', prefixOf(tenant.id) + key, String(by)], sum => BigInt(sum as number | bigint)),
    expire: (tenant, key, seconds) =>
      run(tenant, ['EXPIRE', prefixOf(tenant.id) + key, String(seconds)], isOne),
    ttl: (tenant, key) => run(tenant, ['TTL', prefixOf(tenant.id) + key], Number),
    has: (tenant, key) => run(tenant, ['EXISTS', prefixOf(tenant.id) + key], isOne),

    /** Checks the size first, because Redis builds the whole answer in memory. */
    async getAll(tenant, keys) {
      const names = [...new Set(keys)]
      if (names.length === 0) return []
      const lengths = await Promise.all(names.map(key => lengthOf(tenant, key)))
      const known = new Map(names.map((key, index) => [key, lengths[index]!]))
      checkAnswer(keys.reduce((sum, key) => sum + known.get(key)!, 0))
      const command = ['MGET', ...names.map(key => prefixOf(tenant.id) + key)]
      const values = await run(tenant, command, reply => reply as (string | null)[])
      const found = new Map(names.map((key, index) => [key, values[index]!]))
      return keys.map(key => found.get(key)!)
    },

    async setAll(tenant, pairs) {
      if (pairs.length === 0) return
      const command = ['MSET', ...pairs.flatMap(([key, value]) => [prefixOf(tenant.id) + key, value])]
      await run(tenant, command, isOk)
    },

    scan: (tenant, cursor, pattern, count) =>
      asPlatform(redis => scanKeys(redis, tenant.id, cursor, pattern, count)),
    list: (tenant, pattern, limit, offset) =>
      asPlatform(redis => listKeys(redis, tenant.id, pattern, limit, offset)),
    read: (tenant, key) => asPlatform(redis => readKey(redis, prefixOf(tenant.id) + key, key)),
    flush: tenant => asPlatform(redis => removeKeys(redis, tenant.id)),
    stats: tenant => asPlatform(redis => statsOf(redis, tenant.id)),

    warnings: connections.warnings,
    created: projectId => asPlatform(async redis => void (await redis.send(users.create(projectId)))),
    removed: projectId =>
      asPlatform(async redis => {
        connections.disconnect(projectId)
        // Delete the user first, so that nothing is written while the keys are removed.
        await redis.send(users.remove(projectId))
        await removeKeys(redis, projectId)
      }),
    changed(projectId, tenant) {
      if (tenant?.status !== 'active') connections.disconnect(projectId)
    },
    close: async () => connections.close(),
  }
}

const textOrUndefined = (reply: RedisReply) => (reply === null ? undefined : (reply as string))
const isOk = (reply: RedisReply) => reply === 'OK'
const isOne = (reply: RedisReply) => reply === 1
