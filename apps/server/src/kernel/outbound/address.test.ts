import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mayReach } from './address.ts'

const blocked: Record<string, string[]> = {
  unspecified: ['0.0.0.0', '0.1.2.3', '::'],
  loopback: ['127.0.0.1', '127.255.255.254', '::1'],
  private: ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1'],
  'shared by a carrier': ['100.64.0.1', '100.100.100.200', '100.127.255.255'],
  'link-local and metadata': ['169.254.169.254', '169.254.0.1', 'fe80::1', 'fe80::1%eth0', '192.0.0.192'],
  'metadata on an address that looks public': ['168.63.129.16'],
  'multicast and broadcast': ['224.0.0.1', '239.255.255.255', '255.255.255.255', 'ff02::1'],
  'for protocols and anycast': ['192.88.99.1', '100::1', '2001:20::1', '2001:1::1', '5f00::1'],
  reserved: ['240.0.0.1', '198.18.0.1', '192.0.2.1', '198.51.100.7', '203.0.113.9', '2001:db8::1', '3fff::1'],
  'IPv4 inside IPv6': [
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::127.0.0.1',
    '::ffff:10.0.0.1',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::169.254.169.254',
    '64:ff9b:1::a00:1',
    '2002:7f00:1::',
    '2002:a9fe:a9fe::1',
    '2001:0:7f00:1::',
    '2001:0:4136:e378:8000:63bf:80ff:fffe',
    '::ffff:169.254.169.254',
    '::ffff:100.64.0.1',
    '64:ff9b:1:fffe::127.0.0.1',
  ],
  'unique local and site-local': ['fc00::1', 'fd00:ec2::254', 'fec0::1'],
  'not an address': ['', 'localhost', '127.1', '0x7f000001', '2130706433', '[::1]', '127.0.0.1 '],
}
for (const [what, addresses] of Object.entries(blocked))
  for (const address of addresses)
    test(`${what}: "${address}" is blocked`, () => assert.equal(mayReach([])(address), false))

for (const address of [
  '1.1.1.1',
  '140.82.121.3',
  '172.15.0.1',
  '172.32.0.1',
  '100.128.0.1',
  '2606:4700::1111',
])
  test(`${address} is public`, () => assert.equal(mayReach([])(address), true))

test('only the ranges that the operator lists are allowed in addition', () => {
  const reach = mayReach(['127.0.0.0/8', 'fd00::/8', '10.1.2.3'])
  for (const address of ['127.0.0.1', 'fd12::1', '10.1.2.3']) assert.equal(reach(address), true, address)
  for (const address of ['10.1.2.4', '192.168.0.1', 'fe80::1', '::1'])
    assert.equal(reach(address), false, address)
})
