// Chooses the cache engine: Redis if REDIS_URL is set, else the memory of this process.
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import { openSession } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import type { CacheEngine } from './engine.ts'
import { createMemoryEngine, memoryForAll } from './memory/engine.ts'
import { createOwnership } from './memory/ownership.ts'
import { createConnections } from './redis/connections.ts'
import { createRedisEngine } from './redis/engine.ts'
import { createRedisUsers } from './redis/users.ts'

interface OpenEngineDeps {
  redisUrl: string | undefined
  server: { address: ServerAddress; control: string }
  deriveKey: DeriveKey
  exists(projectId: string): Promise<boolean>
  log: Log
}

/** The platform starts even if Redis is unreachable. The log and the health route report it. */
export async function openCacheEngine(deps: OpenEngineDeps): Promise<CacheEngine> {
  const { redisUrl, server, deriveKey, exists, log } = deps
  if (redisUrl === undefined)
    return createMemoryEngine({
      ownership: clear =>
        createOwnership({ openSession: () => openSession(server.address, server.control), clear }),
      maxBytes: memoryForAll,
    })
  const users = createRedisUsers(deriveKey)
  const connections = createConnections({ address: parseRedisUrl(redisUrl), users, exists, log })
  await connections.platform().catch(() => {})
  return createRedisEngine(connections, users)
}
