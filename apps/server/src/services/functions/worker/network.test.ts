import assert from 'node:assert/strict'
import { test } from 'node:test'
import { notPublicIPv4 } from '#src/kernel/outbound/address.ts'
import { deniedRanges, networkFlags } from './network.ts'

test('network of workers: without allowed addresses all ranges that are not public are denied', () => {
  assert.deepEqual(deniedRanges([]).sort(), [...notPublicIPv4].sort())
})

test('network of workers: an allowed range is cut out of the denied ones', () => {
  const denied = deniedRanges(['10.1.0.0/16', '127.0.0.1', 'fd00::/8'])
  assert.ok(denied.includes('10.0.0.0/16'))
  assert.ok(denied.includes('10.128.0.0/9'))
  assert.ok(!denied.some(range => range.startsWith('10.1.')))
  assert.ok(denied.includes('127.0.0.0/32'))
  assert.ok(denied.includes('127.0.0.2/31'))
  assert.ok(!denied.includes('127.0.0.1/32'))
})

test('network of workers: a list of hosts narrows, and the host keeps what it needs itself', () => {
  const flags = (hosts?: string[]) => networkFlags([], hosts, ['/run/s']).join(' ')
  assert.match(flags(), /^--allow-net --deny-net=.*127\.0\.0\.0\/8.*localhost/)
  assert.match(
    flags(['api.example.com']),
    /^--allow-net=unix:\/run\/s,platform\.invalid:80,api\.example\.com --deny-net=/,
  )
  assert.match(flags([]), /^--allow-net=unix:\/run\/s,platform\.invalid:80 --deny-net=/)
})
