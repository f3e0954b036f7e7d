// Which engine keeps the caches: Redis where there is one, this process otherwise.
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import { openSession } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import type { CacheEngine } from './engine.ts'
import { createMemoryEngine, memoryForAll } from './memory/engine.ts'
import { createKeeper } from './memory/keeper.ts'
import { createRedisEngine } from './redis/engine.ts'
import { createLines } from './redis/lines.ts'
import { createRedisUsers } from './redis/users.ts'

interface OpenEngineDeps {
  redisUrl: string | undefined
  server: { address: ServerAddress; control: string }
  deriveKey: DeriveKey
  isThere(projectId: string): Promise<boolean>
  log: Log
}

/** A Redis that is away does not keep the platform from starting: its log and its health say so. */
export async function openCacheEngine(deps: OpenEngineDeps): Promise<CacheEngine> {
  const { redisUrl, server, deriveKey, isThere, log } = deps
  if (redisUrl === undefined)
    return createMemoryEngine({
      keeper: startOver =>
        createKeeper({ openSession: () => openSession(server.address, server.control), startOver }),
      maxBytes: memoryForAll,
    })
  const users = createRedisUsers(deriveKey)
  const lines = createLines({ address: parseRedisUrl(redisUrl), users, isThere, log })
  await lines.platform().catch(() => {})
  return createRedisEngine(lines, users)
}
