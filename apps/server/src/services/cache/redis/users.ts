// The Redis user of a project. Its ACL allows only the project's keys and commands that name their keys. Commands on other
// keys, other databases or the server are denied. The password is derived, so none is stored and the user can be created
// again after Redis has lost its users.
import { createHash } from 'node:crypto'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import type { RedisCommand } from '#src/kernel/redis/command.ts'

/** The prefix of all keys of a project. */
export const prefixOf = (projectId: string) => `${projectId}:`

/** Escapes glob characters. */
export const escapePattern = (text: string) => text.replace(/[\\*?[]/g, '\\$&')

const kinds = ['string', 'hash', 'list', 'set', 'sortedset', 'hyperloglog', 'bitmap', 'geo']
/** The generic commands that name their keys and stay in the current database. */
const keyCommands = [
  ...['del', 'unlink', 'exists', 'type', 'touch', 'rename', 'renamenx', 'persist'],
  ...['expire', 'pexpire', 'expireat', 'pexpireat', 'ttl', 'pttl', 'expiretime', 'pexpiretime'],
]
/** Denied although a category above includes them. SORT reads keys it does not name. Blocking commands block the connection. */
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
