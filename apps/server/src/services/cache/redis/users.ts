// The Redis user of a project: confined to the project's keys, and to commands that work on keys one names. Whatever
// looks at other keys, other databases or the server itself is denied. Its password is derived, so there is nothing to
// store, and a Redis that has forgotten its users can be told of them again.
import { createHash } from 'node:crypto'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import type { RedisCommand } from '#src/kernel/redis/command.ts'

/** What every key of a project begins with. */
export const prefixOf = (projectId: string) => `${projectId}:`

/** Where nothing stands for anything but itself. */
export const escapePattern = (text: string) => text.replace(/[\\*?[]/g, '\\$&')

const kinds = ['string', 'hash', 'list', 'set', 'sortedset', 'hyperloglog', 'bitmap', 'geo']
/** Of the commands for keys of any kind, those that name the keys they touch and stay in this database. */
const keyCommands = [
  ...['del', 'unlink', 'exists', 'type', 'touch', 'rename', 'renamenx', 'persist'],
  ...['expire', 'pexpire', 'expireat', 'pexpireat', 'ttl', 'pttl', 'expiretime', 'pexpiretime'],
]
/** Denied even where a kind above has them: SORT reads keys it does not name, and a wait would hold up the others. */
const denied = ['dangerous', 'admin', 'blocking', 'scripting', 'pubsub', 'transaction', 'stream']

export interface RedisUsers {
  login(projectId: string): { user: string; password: string }
  create(projectId: string): RedisCommand
  remove(projectId: string): RedisCommand
}

export function createRedisUsers(deriveKey: DeriveKey): RedisUsers {
  const key = deriveKey('redis login')
  const nameOf = (projectId: string) => `plinth-${projectId}`
  const passwordOf = (projectId: string) => hmac(key, nameOf(projectId)).toString('base64url')
  return {
    login: projectId => ({ user: nameOf(projectId), password: passwordOf(projectId) }),
    create: projectId => [
      ...['ACL', 'SETUSER', nameOf(projectId), 'reset', 'on', `#${sha256(passwordOf(projectId))}`],
      ...['resetchannels', `~${escapePattern(prefixOf(projectId))}*`, '-@all'],
      ...kinds.map(kind => `+@${kind}`),
      ...keyCommands.map(command => `+${command}`),
      ...denied.map(category => `-@${category}`),
    ],
    remove: projectId => ['ACL', 'DELUSER', nameOf(projectId)],
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
