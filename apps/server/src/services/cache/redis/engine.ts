// The engine with Redis: what a project does goes over its own user's connection, what spans keys over the platform's.
import { Refusal } from '#src/kernel/errors.ts'
import type { RedisCommand } from '#src/kernel/redis/command.ts'
import type { RedisConnection } from '#src/kernel/redis/connection.ts'
import type { RedisReply } from '#src/kernel/redis/replies.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { CacheEngine } from '../engine.ts'
import { checkAnswer } from '../too-large.ts'
import { listKeys, removeKeys, scanKeys, statsOf } from './keys.ts'
import { isAboutLogin, type Lines } from './lines.ts'
import { readKey } from './reading.ts'
import { refusalFrom } from './refusals.ts'
import { prefixOf, type RedisUsers } from './users.ts'

const removeAtOnce = 500

export function createRedisEngine(lines: Lines, users: RedisUsers): CacheEngine {
  /** What Redis refuses for want of a permission was not done: the user is put right, and it is tried once more. */
  async function again(error: unknown, projectId: string, command: RedisCommand): Promise<RedisReply> {
    try {
      if (!isAboutLogin(error)) throw error
      await lines.heal(projectId)
      return await lines.send(projectId, command)
    } catch (final) {
      throw refusalFrom(final)
    }
  }

  const run = <T>({ id }: Tenant, command: RedisCommand, read: (reply: RedisReply) => T): Promise<T> =>
    lines.send(id, command).then(read, error => again(error, id, command).then(read))

  /** MGET passes over what is not a string. */
  const lengthOf = (tenant: Tenant, key: string): Promise<number> =>
    run(tenant, ['STRLEN', prefixOf(tenant.id) + key], Number).catch(error => {
      if (error instanceof Refusal && error.code === 'wrong_type') return 0
      throw error
    })

  async function asPlatform<T>(work: (redis: RedisConnection) => Promise<T>): Promise<T> {
    try {
      return await work(await lines.platform())
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

    /** In several commands: one that frees a great many keys would hold up everybody. */
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

    /** How much it would be is asked first: Redis puts an answer together whole, however large. */
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

    warnings: lines.warnings,
    created: projectId => asPlatform(async redis => void (await redis.send(users.create(projectId)))),
    removed: projectId =>
      asPlatform(async redis => {
        lines.hangUp(projectId)
        // The user first: then nobody writes while the keys go.
        await redis.send(users.remove(projectId))
        await removeKeys(redis, projectId)
      }),
    changed(projectId, tenant) {
      if (tenant?.status !== 'active') lines.hangUp(projectId)
    },
    close: async () => lines.close(),
  }
}

const textOrUndefined = (reply: RedisReply) => (reply === null ? undefined : (reply as string))
const isOk = (reply: RedisReply) => reply === 'OK'
const isOne = (reply: RedisReply) => reply === 1
