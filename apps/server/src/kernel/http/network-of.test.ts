import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf } from './network-of.ts'

const cases: [string, string][] = [
  ['8.8.8.8', '8.8.8.8'],
  ['::ffff:8.8.8.8', '8.8.8.8'],
  ['2001:db8:1:2::5', '2001:db8:1:2::/64'],
  ['2001:0db8:0001:0002:ffff:0:0:1', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['not an address', 'not an address'],
]
for (const [ip, network] of cases)
  test(`${ip} counts as ${network}`, () => assert.equal(networkOf(ip), network))
