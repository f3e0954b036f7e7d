import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { startNameServer } from '../../../test/name-server.ts'
import { addressesInHosts, createResolve } from './resolve.ts'

const undo: (() => unknown)[] = []
after(async () => {
  for (const step of undo) await step()
})

test('names in the hosts file match in any case and by each alias, and comments are ignored', () => {
  const hosts = [
    '# 10.0.0.9 mail.test',
    '10.0.0.1\tmail.test mail # relay.test',
    'fd00::1 Mail.Test',
    'nonsense mail.test',
  ].join('\n')
  assert.deepEqual(addressesInHosts(hosts, 'MAIL.test.'), [
    { address: '10.0.0.1', family: 4 },
    { address: 'fd00::1', family: 6 },
  ])
  assert.deepEqual(addressesInHosts(hosts, 'mail'), [{ address: '10.0.0.1', family: 4 }])
  assert.deepEqual(addressesInHosts(hosts, 'relay.test'), [])
})

test('all addresses from the name server are returned', async () => {
  const server = await startNameServer()
  undo.push(() => server.close())
  server.names.set('mail.test', [['192.0.2.1', '192.0.2.2']])
  const resolve = createResolve([server.address])
  const found = await resolve('mail.test')
  assert.deepEqual(
    found.filter(({ family }) => family === 4).map(({ address }) => address),
    ['192.0.2.1', '192.0.2.2'],
  )
  await assert.rejects(resolve('nowhere.test'), { code: 'ENOTFOUND' })
})

test('a name server that never answers does not delay other lookups', async () => {
  const queried = new Set<number>()
  const silent = createSocket('udp4', query => queried.add(query.readUInt8(13)))
  silent.bind(0, '127.0.0.1')
  await once(silent, 'listening')
  undo.push(() => silent.close())
  const resolve = createResolve([`127.0.0.1:${silent.address().port}`])
  // The second byte of the question is the first letter of the name, which is different for each name.
  const names = [...'abcdefghijklmnop'].map(letter => `${letter}.test`)
  const ends = names.map(name => resolve(name).catch(error => error.code))
  let hasEnded = false
  void Promise.race(ends).then(() => (hasEnded = true))
  while (queried.size < names.length && !hasEnded) await new Promise(setImmediate)
  assert.equal(queried.size, names.length, 'all names are queried before the first times out')
  assert.deepEqual(new Set(await Promise.all(ends)), new Set(['ETIMEOUT']))
})
