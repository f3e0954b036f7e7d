// The permissions of a project's Redis user, tested as that user: its own keys and nothing else.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import { connectRedis, type RedisConnection } from '#src/kernel/redis/connection.ts'
import type { RedisReply } from '#src/kernel/redis/replies.ts'
import { createRedisUsers } from '#src/services/cache/redis/users.ts'
import { type CacheProject, cacheProject } from '#test/cache-project.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { type RedisServer, startRedis } from '#test/redis-server.ts'

let redis: RedisServer
let platform: TestPlatform
let project: CacheProject
let other: CacheProject
let operator: RedisConnection
let user: RedisConnection
before(async () => {
  redis = await startRedis()
  platform = await startPlatform({ settings: { REDIS_URL: redis.url } })
  project = await cacheProject(platform)
  other = await cacheProject(platform)
  await project.set('a', 'mine')
  await other.set('a', 'theirs')
  operator = await redis.connect()
  const { login } = createRedisUsers(keyring(platform.controlPlaneSecret))
  user = await connectRedis({ ...parseRedisUrl(redis.url), login: login(project.id) })
})
after(async () => {
  user?.close()
  operator?.close()
  await platform?.stop()
  await redis?.stop()
})

const own = (key = 'a') => `${project.id}:${key}`
const theirs = (key = 'a') => `${other.id}:${key}`
/** Name, minimum number of arguments, …, and subcommands. */
type Info = [string, number, ...unknown[]] & { 9: Info[] | undefined }

const denied = (command: string[]) =>
  assert.rejects(user.send(command), { code: 'NOPERM' }, command.join(' ').slice(0, 60))

test("redis users: a project's user reads and writes its own keys of all types", async () => {
  const does: [string[], RedisReply][] = [
    [['GET', own()], 'mine'],
    [['SET', own('s'), '1'], 'OK'],
    [['INCRBY', own('s'), '5'], 6],
    [['MSET', own('x'), '1', own('y'), '2'], 'OK'],
    [
      ['MGET', own('x'), own('y')],
      ['1', '2'],
    ],
    [['HSET', own('h'), 'field', '1'], 1],
    [['RPUSH', own('l'), 'a', 'b'], 2],
    [['SADD', own('t'), 'a'], 1],
    [['ZADD', own('z'), '1', 'a'], 1],
    [['PFADD', own('p'), 'a'], 1],
    [['SETBIT', own('b'), '7', '1'], 0],
    [['GEOADD', own('g'), '13', '52', 'berlin'], 1],
    [['EXPIRE', own('x'), '100'], 1],
    [['TTL', own('x')], 100],
    [['TYPE', own('h')], 'hash'],
    [['RENAME', own('y'), own('w')], 'OK'],
    [
      [
        'UNLINK',
        own('s'),
        own('w'),
        own('h'),
        own('l'),
        own('t'),
        own('z'),
        own('p'),
        own('b'),
        own('g'),
        own('x'),
      ],
      10,
    ],
  ]
  for (const [command, reply] of does) assert.deepEqual(await user.send(command), reply, command.join(' '))
})

test('redis users: keys of another project are denied, alone, mixed with own keys, as source and as target', async () => {
  for (const command of [
    ['GET', theirs()],
    ['SET', theirs(), 'x'],
    ['DEL', theirs()],
    ['EXISTS', theirs()],
    ['TTL', theirs()],
    ['TYPE', theirs()],
    ['MGET', own(), theirs()],
    ['MSET', own(), 'x', theirs(), 'x'],
    ['UNLINK', own('none'), theirs()],
    ['RENAME', own(), theirs('new')],
    ['RENAME', theirs(), own('new')],
    ['BITOP', 'NOT', own('new'), theirs()],
    ['SUNIONSTORE', own('new'), theirs()],
    ['SUNIONSTORE', theirs('new'), own()],
    ['ZUNIONSTORE', own('new'), '2', own('z'), theirs()],
    ['LMOVE', own('l'), theirs('l'), 'LEFT', 'LEFT'],
    ['SMOVE', theirs('s'), own('s'), 'm'],
    ['PFMERGE', own('new'), theirs()],
    ['LCS', own(), theirs()],
    ['GEOSEARCHSTORE', own('new'), theirs(), 'FROMMEMBER', 'm', 'BYRADIUS', '1', 'm'],
    ['GETEX', theirs()],
    ['GET', 'a'],
    ['SET', 'without-prefix', 'x'],
    ['GET', `${project.id}`],
    ['GET', `x${own()}`],
    ['GET', `${project.id.toUpperCase()}:a`],
  ])
    await denied(command)
  assert.equal(await other.get('a'), 'theirs')
  assert.equal(await project.get('a'), 'mine')
})

test('redis users: commands that reach beyond the named keys are denied', async () => {
  for (const command of [
    ['SCAN', '0'],
    ['SCAN', '0', 'MATCH', `${project.id}:*`],
    ['KEYS', '*'],
    ['KEYS', `${project.id}:*`],
    ['RANDOMKEY'],
    ['DBSIZE'],
    ['FLUSHDB'],
    ['FLUSHALL'],
    ['EVAL', 'return 1', '0'],
    ['EVAL_RO', 'return 1', '0'],
    ['EVALSHA', 'x', '0'],
    ['SCRIPT', 'LOAD', 'return 1'],
    ['FUNCTION', 'LIST'],
    ['FCALL', 'f', '0'],
    ['SELECT', '1'],
    ['SWAPDB', '0', '1'],
    ['MOVE', own(), '1'],
    ['COPY', own(), own('copy')],
    ['COPY', own(), own('copy'), 'DB', '1'],
    ['SORT', own('l'), 'BY', `${other.id}:*`],
    ['SORT', own('l'), 'GET', `${other.id}:*`],
    ['SORT_RO', own('l')],
    ['DUMP', own()],
    ['RESTORE', own('r'), '0', 'x'],
    ['MIGRATE', '127.0.0.1', '1', own(), '0', '1000'],
    ['OBJECT', 'ENCODING', own()],
    ['PUBLISH', 'channel', 'x'],
    ['SUBSCRIBE', 'channel'],
    ['PSUBSCRIBE', '*'],
    ['SPUBLISH', 'channel', 'x'],
    ['XADD', own('stream'), '*', 'a', 'b'],
    ['XREAD', 'STREAMS', own('stream'), '0'],
    ['BLPOP', own('l'), '0'],
    ['BLMOVE', own('l'), own('m'), 'LEFT', 'LEFT', '0'],
    ['WAIT', '0', '0'],
    ['MULTI'],
    ['WATCH', own()],
    ['CONFIG', 'GET', '*'],
    ['CONFIG', 'SET', 'maxmemory', '1'],
    ['INFO'],
    ['MONITOR'],
    ['SLOWLOG', 'GET'],
    ['CLIENT', 'LIST'],
    ['CLIENT', 'KILL', 'TYPE', 'normal'],
    ['CLIENT', 'NO-EVICT', 'on'],
    ['ACL', 'LIST'],
    ['ACL', 'SETUSER', 'me', 'on', 'nopass', '~*', '+@all'],
    ['ACL', 'WHOAMI'],
    ['COMMAND'],
    ['MEMORY', 'USAGE', own()],
    ['LATENCY', 'LATEST'],
    ['CLUSTER', 'INFO'],
    ['REPLICAOF', 'NO', 'ONE'],
    ['SHUTDOWN', 'NOSAVE'],
    ['SAVE'],
    ['BGSAVE'],
    ['LASTSAVE'],
    ['ROLE'],
    ['TIME'],
    ['LOLWUT'],
    ['ECHO', 'x'],
  ])
    await denied(command)
})

test('redis users: of all commands of the server only those on keys of the eight categories are allowed', async () => {
  const listed = async (...category: string[]) =>
    (await operator.send(['COMMAND', 'LIST', ...category])) as string[]
  const inCategories = async (names: string[]) =>
    new Set((await Promise.all(names.map(name => listed('FILTERBY', 'ACLCAT', name)))).flat())
  const mayBe = await inCategories([
    'string',
    'hash',
    'list',
    'set',
    'sortedset',
    'hyperloglog',
    'bitmap',
    'geo',
  ])
  const never = await inCategories([
    'dangerous',
    'admin',
    'blocking',
    'scripting',
    'pubsub',
    'transaction',
    'stream',
  ])
  const onKeys =
    'del unlink exists type touch rename renamenx persist expire pexpire expireat pexpireat ttl pttl expiretime pexpiretime'
  const isMeant = (name: string) => (mayBe.has(name) && !never.has(name)) || onKeys.split(' ').includes(name)
  // Commands that every connection may send, to log in or to quit.
  const always = ['auth', 'hello', 'quit', 'reset']

  const infos = (await operator.send(['COMMAND'])) as Info[]
  const all = infos.flatMap(info => [info, ...(info[9] ?? [])]).filter(([name]) => !always.includes(name))
  assert.ok(all.length > 300)
  const { login } = createRedisUsers(keyring(platform.controlPlaneSecret))
  const wrong: string[] = []
  for (const [name, arity, , , , , , , , parts] of all) {
    // A container command cannot run without a subcommand.
    if (parts && parts.length > 0) continue
    const words = name.split('|')
    const given = Array.from({ length: Math.abs(arity) - words.length }, () => own('x'))
    const answer = await operator.send(['ACL', 'DRYRUN', login(project.id).user, ...words, ...given])
    // Only Redis knows which argument is a key, so only a denial of the command itself counts.
    const isAllowed = !/permissions to run/.test(String(answer))
    if (isAllowed !== isMeant(name)) wrong.push(`${name}: ${answer}`)
  }
  assert.deepEqual(wrong, [])
})

test('redis users: only the derived password logs the user in', async () => {
  const address = parseRedisUrl(redis.url)
  const { login } = createRedisUsers(keyring(platform.controlPlaneSecret))
  const { user: name } = login(project.id)
  const elsewhere = createRedisUsers(keyring('another secret of another platform'))
  for (const password of [elsewhere.login(project.id).password, login(other.id).password, name, 'x'])
    await assert.rejects(connectRedis({ ...address, login: { user: name, password } }), { code: 'WRONGPASS' })
})
